/* SPDX-License-Identifier: ISC */
/* How far log files were read: whole or unknown, and the same in the next segment. */
#include <sys/stat.h>
#include "tests/unit/test.h"
#include "segment/file/feed_position.h"
#include "segment/file/internal.h"
#include "tests/unit/own_site.h"
#include "view/status_mtas.h"

#define CLASSES "classes = ( { name = \"c\"; match = \"*\"; hold_at = 1; } );\n"

static struct feed_position all[FEED_FILES_MAX];
static uint32_t records[FEED_FILES_MAX];

static uint32_t begin(uint64_t log, uint64_t inode, uint64_t offset) {
	return feed_position_begin(site.segment, &(struct feed_position){ .log = log,
		.device = 5, .inode = inode, .spot.offset = offset });
}

static unsigned find(uint64_t log) {
	return feed_positions(site.segment, log, all, records);
}

TEST_IN(site_begin, site_end, files_come_in_their_order) {
	uint32_t a, b;

	assert_int_equal(find(1), 0);
	a = begin(1, 10, 100);
	b = begin(1, 11, 0);
	(void)begin(2, 12, 7);
	assert_int_equal(find(1), 2);
	assert_int_equal(records[0], a);
	assert_int_equal(records[1], b);
	assert_int_equal(all[0].inode, 10);
	assert_int_equal(all[0].spot.offset, 100);
	assert_true(all[0].rank < all[1].rank);
	/* a place that is free again is not in the order */
	feed_position_forget(site.segment, a);
	assert_int_equal(begin(1, 13, 0), a);
	assert_int_equal(find(1), 2);
	assert_int_equal(all[0].inode, 11);
	assert_int_equal(all[1].inode, 13);
	feed_positions_keep(site.segment, (uint64_t[]){ 3, 2 }, 2);
	assert_int_equal(find(1), 0);
	assert_int_equal(find(2), 1);
	feed_positions_keep(site.segment, NULL, 0);
	assert_int_equal(find(2), 0);
}

TEST_IN(site_begin, site_end, the_oldest_makes_room) {
	for (uint64_t i = 0; i < FEED_FILES_MAX + 3; i++)
		assert_int_not_equal(begin(1, i + 1, 0), FEED_NO_RECORD);
	assert_int_equal(find(1), FEED_FILES_MAX);
	assert_int_equal(all[0].inode, 4);
	assert_int_equal(all[FEED_FILES_MAX - 1].inode, FEED_FILES_MAX + 3);
	for (uint64_t i = FEED_FILES_MAX; i < SEGMENT_LOG_FILES; i++)
		assert_int_not_equal(begin(1 + i, 1, 0), FEED_NO_RECORD);
	assert_int_equal(begin(UINT64_MAX, 1, 0), FEED_NO_RECORD);
	feed_position_move(site.segment, FEED_NO_RECORD, &(struct feed_spot){ 0 });
	feed_position_cut(site.segment, FEED_NO_RECORD);
	feed_position_forget(site.segment, FEED_NO_RECORD);
}

TEST_IN(site_begin, site_end, a_spot_is_one_word) {
	uint32_t record = begin(1, 1, 0);
	static const struct feed_spot spots[] = { { FEED_OFFSET_MAX, 0, false, 0 },
		{ 0, (1U << FEED_TAIL_BITS) - 1, false, 0 }, { 0, 0, true, 0 },
		{ 123456789, 0x12345, true, 0 }, { 1, 0, false, UINT64_MAX } };

	for (unsigned i = 0; i < sizeof(spots) / sizeof(spots[0]); i++) {
		feed_position_move(site.segment, record, &spots[i]);
		assert_int_equal(find(1), 1);
		assert_int_equal(all[0].spot.offset, spots[i].offset);
		assert_int_equal(all[0].spot.tail, spots[i].tail);
		assert_int_equal(all[0].spot.skipping, spots[i].skipping);
		assert_true(all[0].spot.time_us == spots[i].time_us);
	}
	feed_position_move(site.segment, record, &(struct feed_spot){ UINT64_MAX,
		UINT32_MAX, false, 0 });
	assert_int_equal(find(1), 1);
	assert_int_equal(all[0].spot.offset, FEED_OFFSET_MAX);
	assert_int_equal(all[0].spot.tail, (1U << FEED_TAIL_BITS) - 1);
	assert_false(all[0].spot.skipping);
}

TEST_IN(site_begin, site_end, a_file_that_was_cut_is_another_one) {
	uint32_t record = begin(1, 1, 50);
	uint64_t before;

	assert_int_equal(find(1), 1);
	before = feed_origin_id(&all[0]);
	feed_position_move(site.segment, record, &(struct feed_spot){ 60, 1, true, 0 });
	assert_int_equal(find(1), 1);
	assert_int_equal(feed_origin_id(&all[0]), before);
	feed_position_cut(site.segment, record);
	assert_int_equal(find(1), 1);
	assert_int_equal(all[0].spot.offset, 0);
	assert_false(all[0].spot.skipping);
	assert_int_not_equal(feed_origin_id(&all[0]), before);
	/* the same in each segment: of what is not secret */
	assert_int_equal(feed_log_id("/var/log/mail.log"), feed_log_id("/var/log/mail.log"));
	assert_int_not_equal(feed_log_id("/a"), feed_log_id("/b"));
}

TEST_IN(site_begin, site_end, a_record_is_whole_or_unknown) {
	uint32_t record = begin(7, 8, 9);
	struct log_record *words = &site.segment->header->logs[record];

	site_restart(&site, 64, CLASSES);
	words = &site.segment->header->logs[record];
	assert_int_equal(find(7), 1);
	assert_int_equal(all[0].spot.offset, 9);
	atomic_store(&words->inode, 10);
	assert_int_equal(find(7), 0);
	atomic_store(&words->inode, 8);
	assert_int_equal(find(7), 1);
	atomic_store(&words->rank, 10);
	assert_int_equal(find(7), 0);
	atomic_store(&words->rank, 1);
	atomic_store(&words->check, 0);
	assert_int_equal(find(7), 0);
}

TEST_IN(site_begin, site_end, another_size_keeps_them) {
	(void)begin(7, 8, 9);
	(void)begin(7, 9, 10);
	site_restart(&site, 128, CLASSES);
	assert_int_equal(find(7), 2);
	assert_int_equal(all[0].inode, 8);
	assert_int_equal(all[1].spot.offset, 10);
}
#define LINKS	140

static void make_links(const char *directory, const char *target) {
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", site.directory, directory);
	assert_int_equal(mkdir(path, 0700), 0);
	for (unsigned i = 0; i < LINKS; i++) {
		snprintf(path, sizeof(path), "%s/%s/%u", site.directory, directory, i);
		assert_int_equal(symlink(target, path), 0);
	}
}

static struct view_log look(const char *pattern) {
	struct view_log log;
	struct segment *reader;
	struct diag diag;
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", site.directory, pattern);
	if (find(feed_log_id(path)) == 0) {
		struct stat st;

		assert_int_equal(stat(segment_path(site.segment), &st), 0);
		(void)feed_position_begin(site.segment, &(struct feed_position){
		    .log = feed_log_id(path), .device = st.st_dev, .inode = st.st_ino });
	}
	assert_int_equal(reader_open(&reader, segment_path(site.segment), &diag), 0);
	log = view_log(reader, path);
	segment_unmap(&reader);
	return log;
}

/* Whoever writes the published configuration chooses it, and root looks for it. */
TEST_IN(site_begin, site_end, a_pattern_that_matches_everything_is_not_walked_through) {
	make_links("logs", segment_path(site.segment));
	make_links("all", "../logs");
	assert_true(look("logs/*").known);
	assert_true(look("all/1?/1").known);
	/* 19,600 names */
	assert_false(look("all/*/*").known);
	/* none, by the configuration's own rules */
	assert_false(look("logs/*1*1*1*1*").known);
}

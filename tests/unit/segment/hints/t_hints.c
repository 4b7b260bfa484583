/* SPDX-License-Identifier: ISC */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include "tests/unit/test.h"
#include "base/clock.h"
#include "base/text.h"
#include "segment/hints/hints_internal.h"
#include "segment/hints/hints_guard.h"
#include "tests/unit/scratch.h"

#define NOW	INT64_C(1000000000000)

struct place {
	char path[80];
	struct hints_writer *writer;
	struct hints_reader *reader;
};

static struct place *place;	/* of the test that runs */

static int set_up(void **state) {
	static struct place opened;
	struct diag diag;

	place = &opened;
	assert_int_equal(scratch_open(state), 0);
	snprintf(opened.path, sizeof(opened.path), "%s/hints", scratch);
	assert_int_equal(hints_writer_open(&opened.writer, opened.path, (gid_t)-1, &diag), 0);
	opened.reader = hints_reader_open(opened.path);
	assert_non_null(opened.reader);
	return 0;
}

static int tear_down(void **state) {
	hints_writer_close(&place->writer);
	hints_reader_close(&place->reader);
	return scratch_close(state);
}

static const struct hints_mta mtas[] = {
	{ "out", { 1, 2, 3, 5, 10, 20 }, 6 }, { "other", { 7 }, 1 },
};
enum { OUT, OTHER };

static uint32_t places[32768];

static void build(const struct hint *hints, size_t count,
    const char *const *texts, uint32_t groups) {
	struct hints_table table = { .mtas = mtas, .mta_count = 2, .hints = hints,
		.count = count, .group_texts = texts, .group_count = groups,
		.recipients = 10 };
	struct diag diag;

	if (hints_writer_build(place->writer, &table, places, &diag) != 0)
		fail_msg("%s", diag.text);
}

static void put(void) {
	struct diag diag;

	if (hints_writer_publish(place->writer, NOW, &diag) != 0)
		fail_msg("%s", diag.text);
}

static void publish(const struct hint *hints, size_t count,
    const char *const *texts, uint32_t groups) {
	build(hints, count, texts, groups);
	put();
}

static void set_lanes(uint32_t at, const struct hint_lanes *lanes) {
	hints_writer_set(place->writer, at,
	    &(struct hint_say){ .kind = HINTS_LANE, .lanes = *lanes });
}

static void set_held(uint32_t at, const char *text, bool passing) {
	struct hint_say say = { .kind = HINTS_HELD, .passing = passing };

	(void)text_copy(say.text, sizeof(say.text), text, strlen(text));
	hints_writer_set(place->writer, at, &say);
}

static void set_nothing(uint32_t at) {
	hints_writer_set(place->writer, at, &(struct hint_say){ .kind = HINTS_NOTHING });
}

static const struct hints_answer *ask_whole(const char *mta,
    const char *address, int64_t now_ns) {
	static struct hints_answer answer;

	hints_reader_ask(place->reader, mta, address, strlen(address), false, now_ns, &answer);
	return &answer;
}

/* Why mail for the domain is held, or NULL. */
static const char *ask(const char *mta, const char *domain,
    int64_t now_ns) {
	const struct hints_answer *answer;
	char address[600];

	snprintf(address, sizeof(address), "u@%s", domain);
	answer = ask_whole(mta, address, now_ns);
	assert_true(answer->kind == HINTS_HELD || answer->text[0] == '\0');
	return answer->kind == HINTS_HELD ? answer->text : NULL;
}

static const struct hint two[] = {
	{ "a.example", OUT, 0 }, { "b.example", OUT, 1 },
	{ "a.example", OTHER, 1 }, { "a.example", OUT, 1 },
};
static const char *const first_held[] = { "class one", NULL };

TEST_IN(set_up, tear_down, holds_what_it_is_told) {
	assert_null(ask("out", "a.example", NOW));
	publish(two, 4, first_held, 2);
	assert_string_equal(ask("out", "a.example", NOW), "class one");
	assert_string_equal(ask("out", "A.Example", NOW), "class one");
	assert_null(ask("out", "b.example", NOW));
	assert_null(ask("other", "a.example", NOW));
	assert_null(ask("out", "c.example", NOW));
	assert_null(ask("outa", ".example", NOW));
	assert_null(ask("ou", "a.example", NOW));
	assert_string_equal(ask("out", "a.example.", NOW), "class one");
	assert_int_equal(ask_whole("out", "@a.example", NOW)->kind, HINTS_NOTHING);
	assert_int_equal(ask_whole("out", "a.example", NOW)->kind, HINTS_NOTHING);
	assert_int_equal(ask_whole("out", "*", NOW)->kind, HINTS_NOTHING);
	assert_null(ask("out", "", NOW));
	hints_writer_hold_group(place->writer, 1, "class two");
	hints_writer_hold_group(place->writer, 0, NULL);
	hints_writer_hold_group(place->writer, 2, "no such");
	assert_null(ask("out", "a.example", NOW));
	assert_string_equal(ask("out", "b.example", NOW), "class two");
	assert_string_equal(ask("other", "a.example", NOW), "class two");
}

TEST_IN(set_up, tear_down, believes_nothing_stale) {
	publish(two, 3, first_held, 2);
	assert_non_null(ask("out", "a.example", NOW + HINTS_STALE_NS));
	assert_null(ask("out", "a.example", NOW + HINTS_STALE_NS + 1));
	hints_writer_beat(place->writer, NOW + HINTS_STALE_NS);
	assert_non_null(ask("out", "a.example", NOW + HINTS_STALE_NS + 1));
	assert_null(ask("out", "a.example", NOW));
}

TEST_IN(set_up, tear_down, another_file_is_seen_at_once) {
	static const struct hint other[] = { { "c.example", OUT, 0 } };
	static const char *const held[] = { "again" };
	struct diag diag;

	publish(two, 3, first_held, 2);
	assert_non_null(ask("out", "a.example", NOW));
	publish(other, 1, held, 1);
	assert_null(ask("out", "a.example", NOW));
	assert_string_equal(ask("out", "c.example", NOW), "again");
	/* the next writer knows nothing of the file that is there */
	hints_writer_close(&place->writer);
	assert_int_equal(hints_writer_open(&place->writer, place->path, (gid_t)-1,
	    &diag), 0);
	assert_non_null(ask("out", "c.example", NOW));
	publish(two, 3, first_held, 2);
	assert_null(ask("out", "c.example", NOW));
	assert_non_null(ask("out", "a.example", NOW));
	assert_int_equal(unlink(place->path), 0);
	publish(other, 1, held, 1);
	assert_non_null(ask("out", "c.example", NOW));
}

TEST_IN(set_up, tear_down, many_names_of_all_lengths) {
	enum { COUNT = 20000 };
	struct hint *hints = calloc(COUNT + 2, sizeof(*hints));
	char (*names)[32] = calloc(COUNT, sizeof(*names));
	static char longest[HINTS_NAME_MAX + 1], too_long[HINTS_NAME_MAX + 2];
	struct stat status;

	memset(longest, 'l', HINTS_NAME_MAX);
	memset(too_long, 'l', HINTS_NAME_MAX + 1);
	for (unsigned i = 0; i < COUNT; i++) {
		snprintf(names[i], sizeof(names[i]), "d%u.example", i);
		hints[i] = (struct hint){ names[i], OUT, i % 2 };
	}
	hints[COUNT] = (struct hint){ longest, OUT, 0 };
	hints[COUNT + 1] = (struct hint){ too_long, OUT, 0 };
	publish(hints, COUNT + 2, first_held, 2);
	for (unsigned i = 0; i < COUNT; i++)
		assert_true((ask("out", names[i], NOW) != NULL) == (i % 2 == 0));
	assert_non_null(ask("out", longest, NOW));
	assert_null(ask("out", too_long, NOW));
	assert_int_equal(stat(place->path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0644);
	free(hints);
	free(names);
}

TEST_IN(set_up, tear_down, a_long_text_is_cut) {
	char text[400];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	publish(two, 3, (const char *const[]){ text, NULL }, 2);
	assert_int_equal(strlen(ask("out", "a.example", NOW)), HINTS_TEXT_MAX);
	publish(NULL, 0, NULL, 0);
	assert_null(ask("out", "a.example", NOW));
}

static struct hints_header *map_file(size_t *bytes) {
	int fd = open(place->path, O_RDWR);
	struct stat status;
	void *at;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	*bytes = (size_t)status.st_size;
	at = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(at != MAP_FAILED);
	close(fd);
	return at;
}

/* A reader that opens the file anew. */
static bool fresh_reader_believes(void) {
	hints_reader_close(&place->reader);
	place->reader = hints_reader_open(place->path);
	return ask("out", "a.example", NOW) != NULL;
}

TEST_IN(set_up, tear_down, believes_nothing_foreign_or_torn) {
	struct hints_header *header;
	struct hints_text *groups;
	size_t bytes;

	publish(two, 3, first_held, 2);
	header = map_file(&bytes);
	groups = (void *)((char *)header + header->groups_offset);
	assert_true(fresh_reader_believes());
/* the comma makes a plain value of an atomic one */
#define WITH(lvalue, bad) do { \
	__typeof__(((void)0, (lvalue))) good = (lvalue); \
	(lvalue) = (__typeof__(good))(bad); \
	assert_false(fresh_reader_believes()); \
	(lvalue) = good; \
	assert_true(fresh_reader_believes()); \
	} while (0)
	WITH(header->magic, 0);
	WITH(header->version, HINTS_VERSION + 1);
	WITH(header->header_bytes, 8);
	WITH(header->bytes, header->bytes + 1);
	WITH(header->boot_id[0], 'x');
	WITH(header->bucket_count, header->bucket_count - 1);
	WITH(header->bucket_count, UINT32_C(1) << 31);
	WITH(header->group_count, UINT32_MAX);
	WITH(header->names_bytes, UINT32_MAX);
	WITH(header->names_offset, UINT64_MAX);
	WITH(header->groups_offset, header->bytes);
	WITH(header->buckets_offset, 4);
	WITH(header->replaced, 1);
	WITH(header->reason_count, UINT32_MAX);
	WITH(header->reasons_offset, header->bytes);
	WITH(header->recipient_count, 3);
	WITH(header->recipients_offset, 4);
	WITH(header->mta_count, HINTS_MTAS_MAX + 1);
	WITH(header->mta_count, 0);
	WITH(header->mtas[0].name[0], 'x');
	WITH(groups[0].seq, groups[0].seq + 1);
	munmap(header, bytes);
}

/* How often each width was answered in `count` questions for the domain. */
static void deal(const char *domain, unsigned count,
    unsigned widths[32]) {
	char address[64];

	memset(widths, 0, 32 * sizeof(*widths));
	snprintf(address, sizeof(address), "u@%s", domain);
	for (unsigned i = 0; i < count; i++) {
		const struct hints_answer *answer = ask_whole("out", address, NOW);

		assert_int_equal(answer->kind, HINTS_LANE);
		assert_in_range(answer->width, 1, 31);
		widths[answer->width]++;
	}
}

/* The same of one width. */
static unsigned dealt(const char *domain, unsigned count, unsigned width) {
	unsigned widths[32];

	deal(domain, count, widths);
	return widths[width];
}

TEST_IN(set_up, tear_down, lanes_share_the_mail) {
	static const struct hint_lanes one = { 1, { 3 }, { 1 }, HINTS_NO_LANE, 0,
	    HINTS_NO_LANE, 0, 0, 0, 0, false },
	    three = { 3, { 3, 2, 0 }, { 50, 30, 10 }, HINTS_NO_LANE, 0,
	    HINTS_NO_LANE, 0, 0, 0, 0, false };
	unsigned widths[32];

	build(two, 2, first_held, 2);
	hints_writer_hold_group(place->writer, 0, NULL);
	set_lanes(places[0], &one);
	put();
	assert_int_equal(dealt("a.example", 10, 5), 10);
	assert_int_equal(ask_whole("out", "u@b.example", NOW)->kind, HINTS_NOTHING);
	set_lanes(places[0], &three);
	deal("A.EXAMPLE", 900, widths);
	assert_in_range(widths[5], 495, 505);
	assert_in_range(widths[3], 295, 305);
	assert_in_range(widths[1], 95, 105);
	/* any nine in a row get about their share */
	deal("a.example", 9, widths);
	assert_in_range(widths[5], 4, 6);
	assert_in_range(widths[3], 2, 4);
	/* a class that is full counts more */
	hints_writer_hold_group(place->writer, 0, "full");
	assert_string_equal(ask("out", "a.example", NOW), "full");
	hints_writer_regroup(place->writer, places[0], HINTS_NO_GROUP);
	deal("a.example", 1, widths);
	set_nothing(places[0]);
	assert_int_equal(ask_whole("out", "u@a.example", NOW)->kind, HINTS_NOTHING);
}

TEST_IN(set_up, tear_down, a_canary_is_one_message) {
	struct hint_lanes lanes = { 2, { 3, 0 }, { 5, 1 }, 1, 7, HINTS_NO_LANE, 0, 0,
	    NOW, NOW, false };
	unsigned widths[32];

	build(two, 2, NULL, 0);
	set_lanes(places[0], &lanes);
	lanes.canary = HINTS_NO_LANE;
	set_lanes(places[1], &lanes);
	put();
	assert_int_equal(dealt("a.example", 60, 2), 1);
	assert_int_equal(dealt("b.example", 60, 2), 0);
	lanes.canary = 1;
	lanes.serial = 8;
	set_lanes(places[0], &lanes);
	assert_int_equal(dealt("a.example", 60, 2), 1);
	/* shares that were given anew are no new canary */
	lanes.share[0] = 50;
	set_lanes(places[0], &lanes);
	assert_int_equal(dealt("a.example", 60, 2), 0);
	/* single messages likewise, beside it */
	lanes.single = 4;
	for (unsigned i = 0; i < 3; i++) {
		lanes.single_serial = (uint16_t)(UINT16_MAX + i);
		lanes.serial = (uint8_t)(9 + i);
		set_lanes(places[0], &lanes);
		deal("a.example", 20, widths);
		assert_int_equal(widths[10], 1);
		assert_int_equal(widths[2], 1);
	}
	assert_int_equal(dealt("a.example", 20, 10), 0);
}

/* Nothing is kept of a key before that: its questions touch no memory of their own. */
TEST_IN(set_up, tear_down, the_first_single_messages_that_are_offered_are_all_given) {
	struct hint_lanes lanes = { 1, { 3 }, { 1 }, HINTS_NO_LANE, 0, HINTS_NO_LANE, 0, 0,
	    0, 0, false };

	build(two, 2, NULL, 0);
	set_lanes(places[0], &lanes);
	put();
	assert_int_equal(dealt("a.example", 20, 5), 20);
	lanes.single = 4;
	lanes.single_serial = lanes.single_count = 3;
	lanes.single_ns = NOW + NS_PER_SECOND;
	set_lanes(places[0], &lanes);
	assert_int_equal(dealt("a.example", 20, 10), 3);
	assert_int_equal(dealt("a.example", 20, 10), 0);
}

/* Postfix ends the lookup's connection every 100 s, and starts another process. */
TEST_IN(set_up, tear_down, a_process_that_comes_later_gives_no_canary_again) {
	struct hint_lanes lanes = { 1, { 3 }, { 1 }, 1, 7, 4, 0, 9, NOW, NOW,
	    false };
	unsigned widths[32];

	build(two, 2, NULL, 0);
	set_lanes(places[0], &lanes);
	set_lanes(places[1], &lanes);
	put();
	deal("a.example", 60, widths);
	assert_int_equal(widths[2], 1);
	assert_int_equal(widths[10], 1);
	hints_reader_close(&place->reader);
	place->reader = hints_reader_open(place->path);
	hints_writer_beat(place->writer, NOW + NS_PER_SECOND);
	assert_int_equal(ask_whole("out", "u@a.example", NOW + NS_PER_SECOND)->width, 5);
	assert_int_equal(dealt("a.example", 60, 5), 60);
	/* what is offered from then on is its own */
	lanes.canary_ns = lanes.single_ns = NOW + 2 * NS_PER_SECOND;
	lanes.serial++;
	set_lanes(places[0], &lanes);
	deal("a.example", 60, widths);
	assert_int_equal(widths[2], 1);
	assert_int_equal(widths[10], 0);
	lanes.single_serial++;
	set_lanes(places[1], &lanes);
	deal("b.example", 60, widths);
	assert_int_equal(widths[2], 1);
	assert_int_equal(widths[10], 1);
	/* three were offered before anybody asked, one of which is not awaited any more */
	lanes.single_serial = (uint16_t)(lanes.single_serial + 3);
	lanes.single_count = 2;
	set_lanes(places[1], &lanes);
	assert_int_equal(dealt("b.example", 1, 10), 1);
	lanes.single_serial++;
	set_lanes(places[1], &lanes);
	assert_int_equal(dealt("b.example", 60, 10), 2);
	lanes.single_serial = UINT16_MAX;
	set_lanes(places[1], &lanes);
	assert_int_equal(dealt("b.example", 60, 10), 2);
	assert_int_equal(dealt("b.example", 60, 10), 0);
}

/* As nobody of ours does. */
TEST_IN(set_up, tear_down, a_file_that_is_cut_short_is_not_believed) {
	struct diag diag;

	publish(two, 2, first_held, 2);
	assert_string_equal(ask("out", "a.example", NOW), "class one");
	assert_false(hints_writer_was_cut(place->writer));
	assert_int_equal(truncate(place->path, 100), 0);
	assert_null(ask("out", "a.example", NOW + HINTS_LOOK_NS));
	assert_true(hints_writer_was_cut(place->writer));
	assert_false(hints_writer_was_cut(place->writer));
	hints_writer_beat(place->writer, NOW);
	hints_writer_hold_group(place->writer, 0, NULL);
	assert_int_equal(hints_writer_add(place->writer, &two[0]), HINTS_NO_PLACE);
	publish(two, 2, first_held, 2);
	assert_string_equal(ask("out", "a.example", NOW), "class one");
	/* found cut when another file is made */
	assert_int_equal(truncate(place->path, 0), 0);
	build(two, 2, first_held, 2);
	assert_int_equal(hints_writer_publish(place->writer, NOW, &diag), 0);
	assert_string_equal(ask("out", "a.example", NOW + HINTS_LOOK_NS), "class one");
}

/* What goes by no lane of the key: "held" or "". */
static const char *ask_probe(const char *address) {
	static struct hints_answer answer;

	hints_reader_ask(place->reader, "out", address, strlen(address), true, NOW, &answer);
	return answer.kind == HINTS_HELD ? answer.text : "";
}

TEST_IN(set_up, tear_down, what_begins_takes_room_of_its_group) {
	static const struct hint hints[] = { { "a.example", OUT, 0 }, { "b.example", OUT, 0 },
		{ "c.example", OUT, 1 }, { "d.example", OUT, 0 } };
	static const char *const none[] = { NULL, NULL };
	/* of 2, and of 1 */
	struct hint_lanes lanes = { 1, { 1 }, { 1 }, HINTS_NO_LANE, 0, HINTS_NO_LANE, 0, 0, 0, 0,
		true };

	publish(hints, 4, none, 2);
	set_lanes(places[0], &lanes);
	set_lanes(places[1], &lanes);
	lanes.lane[0] = 0;
	set_lanes(places[3], &lanes);
	/* any number may */
	assert_null(ask("out", "a.example", NOW));
	assert_null(ask("out", "b.example", NOW));
	hints_writer_set_room(place->writer, 0, 3, "no room");
	assert_null(ask("out", "a.example", NOW));
	assert_null(ask("out", "b.example", NOW));
	assert_null(ask("out", "a.example", NOW));
	/* a third one waits in its lane; those of others would be the fourth */
	assert_null(ask("out", "a.example", NOW + 1));
	assert_string_equal(ask("out", "b.example", NOW), "no room");
	assert_string_equal(ask("out", "d.example", NOW), "no room");
	/* these are known otherwise by now */
	assert_string_equal(ask("out", "d.example", NOW + HINTS_BEGINS_NS - 1), "no room");
	assert_null(ask("out", "d.example", NOW + HINTS_BEGINS_NS));
	/* less room, and none; the text stays */
	hints_writer_set_room(place->writer, 0, 0, NULL);
	assert_string_equal(ask("out", "a.example", NOW + 2 * HINTS_BEGINS_NS), "no room");
	/* where mail waits in the lanes it may go there */
	lanes.begins = false;
	set_lanes(places[3], &lanes);
	assert_null(ask("out", "d.example", NOW + 2 * HINTS_BEGINS_NS));
}

TEST_IN(set_up, tear_down, what_goes_by_no_lane_is_held_but_not_in_passing) {
	static const struct hint hints[] = { { "a.example", OUT, 0 }, { "b.example", OUT, 1 },
		{ "c.example", OUT, HINTS_NO_GROUP } };
	struct hint_lanes lanes = { 1, { 3 }, { 1 }, 1, 7, HINTS_NO_LANE, 0, 0, NOW, 0, false };

	publish(hints, 3, first_held, 2);
	assert_string_equal(ask_probe("u@a.example"), "class one");
	assert_string_equal(ask_probe("u@nobody.example"), "");
	set_held(places[1], "it is suspended", false);
	assert_string_equal(ask_probe("u@B.example"), "it is suspended");
	set_held(places[1], "others go first", true);
	assert_string_equal(ask_probe("u@b.example"), "");
	assert_string_equal(ask("out", "b.example", NOW), "others go first");
	assert_true(hints_writer_hold_recipient(place->writer, OUT, "u@c.example", NOW + 1,
	    "the mailbox is full"));
	assert_string_equal(ask_probe("u@c.example"), "the mailbox is full");
	assert_true(hints_writer_hold_recipient(place->writer, OUT, "u@c.example", 0, NULL));
	/* nor does it take the canary */
	set_lanes(places[2], &lanes);
	assert_string_equal(ask_probe("v@c.example"), "");
	assert_int_equal(dealt("c.example", 20, 2), 1);
}

TEST_IN(set_up, tear_down, a_lane_s_answer_names_the_domain_that_was_asked_for) {
	static const struct hint hints[] = { { "a.example", OUT, HINTS_NO_GROUP } };
	static const struct hint_lanes one = { 1, { 3 }, { 1 }, HINTS_NO_LANE, 0,
	    HINTS_NO_LANE, 0, 0, 0, 0, false };

	build(hints, 1, NULL, 0);
	set_lanes(places[0], &one);
	put();
	assert_string_equal(ask_whole("out", "u@A.Example.", NOW)->domain, "a.example");
}

/* The keeper of this file is somebody else's. */
static struct hints_header *map_header(size_t *bytes) {
	int fd = open(place->path, O_RDWR);
	struct hints_header *header;
	struct stat status;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	*bytes = (size_t)status.st_size;
	header = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(header != MAP_FAILED);
	close(fd);
	return header;
}

static void publish_lanes(void) {
	static const struct hint hints[] = { { "a.example", OUT, HINTS_NO_GROUP },
		{ "b.example", OUT, 0 } };
	static const struct hint_lanes one = { 1, { 3 }, { 1 }, HINTS_NO_LANE, 0,
	    HINTS_NO_LANE, 0, 0, 0, 0, false };

	build(hints, 2, first_held, 1);
	set_lanes(places[0], &one);
	put();
}

TEST_IN(set_up, tear_down, a_header_that_changes_after_the_check_leads_nowhere) {
	struct hints_header *header, before;
	size_t bytes;

	publish_lanes();
	assert_int_equal(ask_whole("out", "u@a.example", NOW)->width, 5);
	header = map_header(&bytes);
	memcpy(&before, header, sizeof(before));
	header->buckets_offset = header->names_offset = UINT64_C(1) << 46;
	header->groups_offset = header->reasons_offset = UINT64_C(1) << 46;
	header->recipients_offset = UINT64_C(1) << 46;
	header->bucket_count = header->recipient_count = UINT32_C(1) << 31;
	header->names_bytes = header->reason_count = header->group_count = UINT32_MAX;
	header->mta_count = UINT32_MAX;
	header->mtas[OUT].width_count = UINT32_MAX;
	for (unsigned i = 0; i < HINTS_WIDTHS_MAX; i++)
		header->mtas[OUT].widths[i] = 666;
	assert_int_equal(ask_whole("out", "u@a.example", NOW)->width, 5);
	assert_string_equal(ask("out", "b.example", NOW), "class one");
	assert_int_equal(ask_whole("none", "u@a.example", NOW)->kind, HINTS_NOTHING);
	memcpy(header, &before, sizeof(before));
	munmap(header, bytes);
}

TEST_IN(set_up, tear_down, a_table_that_points_outside_leads_nowhere) {
	struct hints_bucket *buckets;
	struct hints_header *header;
	struct hints_recipient *slots;
	size_t bytes;

	publish_lanes();
	assert_int_equal(ask_whole("out", "u@a.example", NOW)->width, 5);
	header = map_header(&bytes);
	buckets = (void *)((char *)header + header->buckets_offset);
	slots = (void *)((char *)header + header->recipients_offset);
	for (uint32_t i = 0; i < header->recipient_count; i++)
		slots[i] = (struct hints_recipient){ hints_hash(&header->key, OUT, "u@a.example",
		    11), INT64_MAX, hints_word_held(UINT32_MAX, 0) };
	for (uint32_t group = 0; group < 2; group++)
		for (uint32_t i = 0; i < header->bucket_count; i++) {
			if (atomic_load(&buckets[i].name) == 0)
				continue;
			atomic_store(&buckets[i].group, UINT32_MAX - group);
			atomic_store(&buckets[i].word, hints_word_held(UINT32_MAX - group, 0));
		}
	assert_int_equal(ask_whole("out", "u@a.example", NOW)->kind, HINTS_NOTHING);
	for (uint32_t i = 0; i < header->bucket_count; i++)
		atomic_store(&buckets[i].word, ~(uint64_t)3 | HINTS_WORD_LANES);
	assert_int_equal(ask_whole("out", "u@a.example", NOW)->kind, HINTS_NOTHING);
	for (uint32_t i = 0; i < header->bucket_count; i++)
		atomic_store(&buckets[i].name, header->names_bytes - i % 4);
	assert_int_equal(ask_whole("out", "u@a.example", NOW)->kind, HINTS_NOTHING);
	for (uint32_t i = 0; i < header->bucket_count; i++)
		atomic_store(&buckets[i].name, UINT32_MAX);
	assert_int_equal(ask_whole("out", "u@a.example", NOW)->kind, HINTS_NOTHING);
	munmap(header, bytes);
}

/* Cut between its look at the file's length and the read: by another thread, again and
 * again, until that was hit. */
struct cutter {
	const struct place *place;
	off_t bytes;
	_Atomic bool ends;
};

static void *cut_and_grow(void *context) {
	struct cutter *cutter = context;

	while (!atomic_load(&cutter->ends)) {
		if (truncate(cutter->place->path, 0) != 0 ||
		    truncate(cutter->place->path, cutter->bytes) != 0)
			continue;
	}
	return NULL;
}

/* As a keeper would put it there that nobody cuts. */
static void put_bytes(const char *bytes, size_t count) {
	char path[sizeof(place->path) + 8];
	int fd;

	snprintf(path, sizeof(path), "%s.again", place->path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, count), count);
	close(fd);
	assert_int_equal(rename(path, place->path), 0);
}

TEST_IN(set_up, tear_down, a_file_that_is_cut_while_it_is_read_ends_nobody) {
	struct cutter cutter = { .place = place };
	char *mapping, *copy;
	pthread_t thread;
	size_t bytes;

	hints_reader_outlive_cuts();
	publish_lanes();
	assert_int_equal(ask_whole("out", "u@a.example", NOW)->width, 5);
	mapping = (char *)map_header(&bytes);
	copy = malloc(bytes);
	assert_non_null(copy);
	memcpy(copy, mapping, bytes);
	/* the handler itself */
	hints_guard(mapping, bytes);
	assert_int_equal(truncate(place->path, 0), 0);
	assert_int_equal(((volatile char *)mapping)[bytes - 1], 0);
	assert_true(hints_guard_was_cut());
	hints_guard(NULL, 0);
	munmap(mapping, bytes);
	assert_int_equal(ask_whole("out", "u@a.example", NOW)->kind, HINTS_NOTHING);
	cutter.bytes = (off_t)bytes;
	assert_int_equal(pthread_create(&thread, NULL, cut_and_grow, &cutter), 0);
	for (unsigned i = 0; i < 200; i++) {
		put_bytes(copy, bytes);
		for (unsigned k = 0; k < 50; k++) {
			const struct hints_answer *answer = ask_whole("out",
			    "u@a.example", NOW);

			assert_true(answer->kind == HINTS_NOTHING || (answer->width == 5 &&
			    strcmp(answer->domain, "a.example") == 0));
		}
	}
	atomic_store(&cutter.ends, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	put_bytes(copy, bytes);
	assert_int_equal(ask_whole("out", "u@a.example", NOW)->width, 5);
	free(copy);
}

TEST_IN(set_up, tear_down, destinations_are_held_for_a_reason) {
	unsigned held = 0, shared = 0;
	char name[32], text[32];
	struct hint *hints = calloc(2000, sizeof(*hints));
	char (*names)[32] = calloc(2000, sizeof(*names));

	for (unsigned i = 0; i < 2000; i++) {
		snprintf(names[i], sizeof(names[i]), "d%u.example", i);
		hints[i] = (struct hint){ names[i], OUT, HINTS_NO_GROUP };
	}
	publish(hints, 2000, NULL, 0);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 500; i++) {
			snprintf(text, sizeof(text), "reason %u %u", round, i);
			set_held(places[i], text, false);
			assert_string_equal(ask("out", names[i], NOW), text);
		}
		for (unsigned i = 0; i < 500; i++) {
			snprintf(text, sizeof(text), "reason %u %u", round, i);
			assert_string_equal(ask("out", names[i], NOW), text);
			set_nothing(places[i]);
			assert_null(ask("out", names[i], NOW));
		}
	}
	/* more than there are reasons: all are held, for one that they share */
	for (unsigned i = 0; i < 2000; i++)
		set_held(places[i], "mine", false);
	for (unsigned i = 0; i < 2000; i++) {
		const char *said = ask("out", names[i], NOW);

		assert_non_null(said);
		held++;
		shared += strcmp(said, "mine") != 0;
	}
	assert_int_equal(held, 2000);
	assert_in_range(shared, 1, 1999);
	for (unsigned i = 0; i < 2000; i++)
		set_nothing(places[i]);
	set_held(places[1999], "mine", false);
	snprintf(name, sizeof(name), "%s", names[1999]);
	assert_string_equal(ask("out", name, NOW), "mine");
	free(hints);
	free(names);
}

TEST_IN(set_up, tear_down, keys_come_while_there_is_room) {
	static const struct hint_lanes one = { 1, { 3 }, { 1 }, HINTS_NO_LANE, 0,
	    HINTS_NO_LANE, 0, 0, 0, 0, false };
	struct hint more = { .mta = OUT, .group = HINTS_NO_GROUP };
	unsigned came = 0;
	char name[32];

	assert_int_equal(hints_writer_add(place->writer, &two[0]), HINTS_NO_PLACE);
	publish(two, 2, NULL, 0);
	for (;; came++) {
		uint32_t at;

		snprintf(name, sizeof(name), "more%u.example", came);
		more.domain = name;
		at = hints_writer_add(place->writer, &more);
		if (at == HINTS_NO_PLACE)
			break;
		assert_int_equal(hints_writer_add(place->writer, &more), at);
		set_lanes(at, &one);
		snprintf(name, sizeof(name), "u@more%u.example", came);
		assert_int_equal(ask_whole("out", name, NOW)->kind, HINTS_LANE);
	}
	assert_in_range(came, 10, 200);
	assert_int_equal(ask_whole("out", "u@a.example", NOW)->kind, HINTS_NOTHING);
}

TEST_IN(set_up, tear_down, single_recipients_are_held) {
	char address[32];
	unsigned came = 0;

	publish(two, 2, NULL, 0);
	assert_true(hints_writer_hold_recipient(place->writer, OUT, "u@a.example",
	    NOW + 100, "over quota"));
	assert_string_equal(ask("out", "a.example", NOW), "over quota");
	assert_string_equal(ask_whole("out", "U@A.example", NOW + 99)->text,
	    "over quota");
	assert_null(ask("out", "a.example", NOW + 100));
	assert_null(ask("other", "a.example", NOW));
	assert_int_equal(ask_whole("out", "v@a.example", NOW)->kind, HINTS_NOTHING);
	assert_true(hints_writer_hold_recipient(place->writer, OUT, "u@a.example",
	    NOW + 200, "again"));
	assert_string_equal(ask("out", "a.example", NOW + 100), "again");
	assert_true(hints_writer_hold_recipient(place->writer, OUT, "u@a.example", 0, NULL));
	assert_null(ask("out", "a.example", NOW));
	/* one whose domain is no key */
	assert_true(hints_writer_hold_recipient(place->writer, OUT, "u@nowhere.example",
	    NOW + 100, "no"));
	assert_string_equal(ask("out", "nowhere.example", NOW), "no");
	do {
		snprintf(address, sizeof(address), "u%u@full.example", came);
	} while (hints_writer_hold_recipient(place->writer, OUT, address, NOW + 1, "full") &&
	    ++came < 1000);
	assert_in_range(came, 10, 999);
}

TEST_IN(set_up, tear_down, who_may_read_it) {
	struct stat status;
	struct diag diag;

	hints_writer_close(&place->writer);
	assert_int_equal(hints_writer_open(&place->writer, place->path, getegid(), &diag), 0);
	assert_false(hints_writer_is_in_place(place->writer));
	publish(two, 2, NULL, 0);
	assert_int_equal(stat(place->path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0640);
	assert_int_equal(status.st_gid, getegid());
	assert_true(hints_writer_is_in_place(place->writer));
	assert_int_equal(truncate(place->path, status.st_size / 2), 0);
	assert_false(hints_writer_is_in_place(place->writer));	/* cut by a stranger */
	assert_int_equal(unlink(place->path), 0);
	assert_false(hints_writer_is_in_place(place->writer));
}

TEST_IN(set_up, tear_down, a_short_file_is_no_file) {
	struct hints_header *header;
	size_t bytes;

	publish(two, 3, first_held, 2);
	header = map_file(&bytes);
	munmap(header, bytes);
	hints_reader_close(&place->reader);
	for (size_t cut = bytes; cut-- > 0; cut -= cut > 4096 ? 61 : 0) {
		assert_int_equal(truncate(place->path, (off_t)cut), 0);
		place->reader = hints_reader_open(place->path);
		assert_null(ask("out", "a.example", NOW));
		hints_reader_close(&place->reader);
	}
	place->reader = hints_reader_open("/dev/null");
	assert_null(ask("out", "a.example", NOW));
	hints_reader_close(&place->reader);
	place->reader = hints_reader_open(scratch);
	assert_null(ask("out", "a.example", NOW));
}

/* Of one mail server only; a key that is told nothing is no unknown one. */
TEST_IN(set_up, tear_down, domains_that_are_no_key_go_by_lanes) {
	static const struct hint_lanes unknown[2] = {
		{ 2, { 3, 1 }, { 255, 102 }, HINTS_NO_LANE, 0, HINTS_NO_LANE, 0, 0, 0, 0, false },
	};
	const struct hints_table table = { .mtas = mtas, .mta_count = 2, .unknown = unknown,
		.hints = two, .count = 2, .recipients = 10 };
	struct hints_answer answer;
	unsigned by[8] = { 0 };
	struct diag diag;

	assert_int_equal(hints_writer_build(place->writer, &table, NULL, &diag), 0);
	put();
	for (unsigned i = 0; i < 700; i++) {
		answer = *ask_whole("out", "u@New.Example", NOW);
		assert_int_equal(answer.kind, HINTS_LANE);
		assert_true(answer.unknown);
		assert_string_equal(answer.domain, "new.example");
		by[answer.width]++;
	}
	assert_in_range(by[5], 495, 505);
	assert_int_equal(by[5] + by[2], 700);
	assert_int_equal(ask_whole("out", "u@a.example", NOW)->kind, HINTS_NOTHING);
	assert_int_equal(ask_whole("other", "u@new.example", NOW)->kind, HINTS_NOTHING);
	hints_reader_ask(place->reader, "out", "u@new\0.example", 14, false, NOW, &answer);
	assert_int_equal(answer.kind, HINTS_NOTHING);
	assert_int_equal(ask_whole("out", "u@new.example", NOW + 6 * NS_PER_SECOND)->kind,
	    HINTS_NOTHING);
}

/* SPDX-License-Identifier: ISC */
/* The head of a segment, and records of roles, that another process overwrites. */
#include "tests/unit/test.h"
#include <fcntl.h>

#include "base/clock.h"
#include "segment/file/internal.h"
#include "tests/unit/own_site.h"

#define ALL "classes = ( { name = \"all\"; match = [ \"*\" ]; " \
	"hold_at = 100; refuse_at = 100; client = { sessions = 50; }; } );"

static int open_all(void **state) {
	site_open(&site, 1000, ALL);
	return 0;
}

/* Whoever has attached it goes on with the sizes and places that it checked. */
TEST_IN(open_all, site_end, sizes_that_one_role_spoils_lead_no_other_astray) {
	static unsigned char before[SEGMENT_FIXED_BYTES];
	struct segment *other;
	struct session_ref ref;
	struct diag diag;
	int fd;

	assert_int_equal(site_inbound(&site, "192.0.2.1", 4711, NULL, &ref), VERDICT_ADMIT);
	fd = segment_open_file(segment_path(site.segment), geteuid(), &diag);
	assert_int_equal(segment_attach(&other, fd, segment_path(site.segment), &diag), 0);
	memcpy(before, site.segment->header, sizeof(before));
	memset(site.segment->header, 0xff, sizeof(before));
	assert_memory_equal(other->header, before, sizeof(before));
	assert_int_equal(segment_save_sessions(other, clock_now_ns(), &diag), 0);
	memset(site.segment->header, 0, sizeof(before));
	assert_int_equal(segment_save_sessions(other, clock_now_ns(), &diag), 0);
	segment_unmap(&other);
	memcpy(site.segment->header, before, sizeof(before));
	assert_int_equal(atomic_load(&site_class(&site, "all")->open), 1);
}

TEST_IN(open_all, site_end, sizes_that_were_overwritten_are_restored_for_those_who_come_later) {
	struct segment *keeper, *later;
	struct diag diag;
	int fd;

	fd = segment_open_file(segment_path(site.segment), geteuid(), &diag);
	assert_int_equal(segment_attach(&keeper, fd, segment_path(site.segment), &diag), 0);
	assert_false(segment_restore(keeper, getpid()));
	site.segment->header->record_count++;
	fd = segment_open_file(segment_path(site.segment), geteuid(), &diag);
	assert_int_equal(segment_attach(&later, fd, segment_path(site.segment), &diag), -1);
	assert_true(segment_restore(keeper, getpid()));
	assert_false(segment_restore(keeper, getpid()));
	fd = segment_open_file(segment_path(site.segment), geteuid(), &diag);
	assert_int_equal(segment_attach(&later, fd, segment_path(site.segment), &diag), 0);
	segment_unmap(&later);
	segment_unmap(&keeper);
}

TEST_IN(open_all, site_end, a_segment_that_is_said_to_be_replaced_is_not_while_it_is_in_place) {
	struct segment_header *header;
	struct segment *keeper;
	struct diag diag;
	int fd;

	header = site.segment->header;
	fd = segment_open_file(segment_path(site.segment), geteuid(), &diag);
	assert_int_equal(segment_attach(&keeper, fd, segment_path(site.segment), &diag), 0);
	atomic_store(&header->replaced, 1);
	atomic_store(&header->supervisor_pid, 0);
	assert_true(segment_restore(keeper, getpid()));
	assert_int_equal(atomic_load(&header->replaced), 0);
	assert_int_equal(atomic_load(&header->supervisor_pid), getpid());
	/* where another has its name, it is */
	assert_int_equal(unlink(segment_path(site.segment)), 0);
	atomic_store(&header->replaced, 1);
	assert_false(segment_restore(keeper, getpid()));
	assert_int_equal(atomic_load(&header->replaced), 1);
	segment_unmap(&keeper);
}

TEST_IN(open_all, site_end, a_role_restores_what_its_record_says_of_it) {
	struct role_record before, *role;

	segment_role_starting(site.segment, ROLE_FEED, 0, clock_now_ns());
	role = segment_role(site.segment, segment_role_place(ROLE_FEED, 0));
	memcpy(&before, role, sizeof(before));
	atomic_store(&role->kind, ROLE_NONE);
	atomic_store(&role->number, 7);
	atomic_store(&role->pid, 1);
	atomic_store(&role->incarnation, 0);
	segment_beat(site.segment, clock_now_ns());
	assert_memory_equal(role, &before, sizeof(before));
	/* of one that is known to be dead nobody says that it lives */
	assert_true(segment_role_died(site.segment, segment_role_place(ROLE_FEED, 0), getpid()));
	segment_beat(site.segment, clock_now_ns());
	assert_int_equal(atomic_load(&role->pid), 0);
}

/* A file that is cut gives up the private pages of it too: those must not be the copy. */
TEST_IN(open_all, site_end, sizes_outlast_a_file_that_is_cut_and_extended) {
	static unsigned char before[SEGMENT_FIXED_BYTES];
	struct segment *other;
	struct diag diag;
	size_t bytes;
	void *whole;
	int fd;

	bytes = (size_t)site.segment->header->bytes;
	whole = malloc(bytes);
	assert_non_null(whole);
	fd = segment_open_file(segment_path(site.segment), geteuid(), &diag);
	assert_int_equal(segment_attach(&other, fd, segment_path(site.segment), &diag), 0);
	memcpy(before, other->header, sizeof(before));
	memcpy(whole, site.segment->header, bytes);
	assert_int_equal(truncate(segment_path(site.segment), 0), 0);
	assert_int_equal(truncate(segment_path(site.segment), (off_t)bytes), 0);
	memset(site.segment->header, 0xff, sizeof(before));
	assert_memory_equal(other->header, before, sizeof(before));
	memcpy(site.segment->header, whole, bytes);
	free(whole);
	segment_unmap(&other);
}

/* A role of before may live on: what it writes to the file after that was looked at is not
 * believed either. */
TEST_IN(open_all, site_end, sizes_that_change_after_adoption_are_not_believed) {
	static unsigned char before[SEGMENT_FIXED_BYTES], spoiled[SEGMENT_FIXED_BYTES];
	struct diag diag;
	int fd;

	assert_int_equal(site_verdict("192.0.2.1", 1, NULL), VERDICT_ADMIT);
	site_restart(&site, 1000, ALL);
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	memcpy(before, site.segment->header, sizeof(before));
	fd = open(segment_path(site.segment), O_RDWR);
	assert_true(fd >= 0);
	memset(spoiled, 0xff, sizeof(spoiled));
	assert_int_equal(pwrite(fd, spoiled, sizeof(spoiled), 0), sizeof(spoiled));
	assert_memory_equal(site.segment->header, before, sizeof(before));
	assert_int_equal(site_verdict("192.0.2.1", 2, NULL), VERDICT_ADMIT);
	assert_int_equal(segment_save_sessions(site.segment, clock_now_ns(), &diag), 0);
	assert_int_equal(atomic_load(&site_class(&site, "all")->open), 2);
	close(fd);
}

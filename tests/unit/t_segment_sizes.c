/* SPDX-License-Identifier: ISC */
/* Sizes and places of a segment that another process overwrites. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/internal.h"
#include "site.h"

#define ALL "classes = ( { name = \"all\"; match = [ \"*\" ]; " \
	"sessions = 100; inbound = 100; client = { sessions = 50; }; } );"

/* Whoever has attached it goes on with the sizes and places that it checked. */
static void sizes_that_one_role_spoils_lead_no_other_astray(void **state) {
	static unsigned char before[SEGMENT_FIXED_BYTES];
	struct segment *other;
	struct session_ref ref;
	struct site site;
	struct diag diag;
	int fd;

	(void)state;
	site_open(&site, 1000, ALL);
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
	site_close(&site);
}

static void sizes_that_were_overwritten_are_restored_for_those_who_come_later(void **state) {
	struct segment *keeper, *later;
	struct site site;
	struct diag diag;
	int fd;

	(void)state;
	site_open(&site, 1000, ALL);
	fd = segment_open_file(segment_path(site.segment), geteuid(), &diag);
	assert_int_equal(segment_attach(&keeper, fd, segment_path(site.segment), &diag), 0);
	assert_false(segment_restore_fixed(keeper));
	site.segment->header->record_count++;
	fd = segment_open_file(segment_path(site.segment), geteuid(), &diag);
	assert_int_equal(segment_attach(&later, fd, segment_path(site.segment), &diag), -1);
	assert_true(segment_restore_fixed(keeper));
	assert_false(segment_restore_fixed(keeper));
	fd = segment_open_file(segment_path(site.segment), geteuid(), &diag);
	assert_int_equal(segment_attach(&later, fd, segment_path(site.segment), &diag), 0);
	segment_unmap(&later);
	segment_unmap(&keeper);
	site_close(&site);
}

/* A file that is cut gives up the private pages of it too: those must not be the copy. */
static void sizes_outlast_a_file_that_is_cut_and_extended(void **state) {
	static unsigned char before[SEGMENT_FIXED_BYTES];
	struct segment *other;
	struct site site;
	struct diag diag;
	size_t bytes;
	void *whole;
	int fd;

	(void)state;
	site_open(&site, 1000, ALL);
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
	site_close(&site);
}

/* A role of before may live on: what it writes to the file after that was looked at is not
 * believed either. */
static void sizes_that_change_after_adoption_are_not_believed(void **state) {
	static unsigned char before[SEGMENT_FIXED_BYTES], spoiled[SEGMENT_FIXED_BYTES];
	struct site site;
	struct diag diag;
	int fd;

	(void)state;
	site_open(&site, 1000, ALL);
	assert_int_equal(site_inbound(&site, "192.0.2.1", 1, NULL, NULL), VERDICT_ADMIT);
	site_restart(&site, 1000, ALL);
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	memcpy(before, site.segment->header, sizeof(before));
	fd = open(segment_path(site.segment), O_RDWR);
	assert_true(fd >= 0);
	memset(spoiled, 0xff, sizeof(spoiled));
	assert_int_equal(pwrite(fd, spoiled, sizeof(spoiled), 0), sizeof(spoiled));
	assert_memory_equal(site.segment->header, before, sizeof(before));
	assert_int_equal(site_inbound(&site, "192.0.2.1", 2, NULL, NULL), VERDICT_ADMIT);
	assert_int_equal(segment_save_sessions(site.segment, clock_now_ns(), &diag), 0);
	assert_int_equal(atomic_load(&site_class(&site, "all")->open), 2);
	close(fd);
	site_close(&site);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_that_one_role_spoils_lead_no_other_astray),
		cmocka_unit_test(
		    sizes_that_were_overwritten_are_restored_for_those_who_come_later),
		cmocka_unit_test(sizes_outlast_a_file_that_is_cut_and_extended),
		cmocka_unit_test(sizes_that_change_after_adoption_are_not_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

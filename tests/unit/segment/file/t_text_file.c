/* SPDX-License-Identifier: ISC */
/* The text file of sessions as a role that was taken over leaves it. */
#include "tests/unit/test.h"
#include <sys/stat.h>

#include "segment/file/text_file.h"
#include "tests/unit/segment/destination/states_site.h"

#define SPARSE	((off_t)1 << 42)	/* 4 TB */

static void path_of(const char *suffix, char out[256]) {
	snprintf(out, 256, "%s%s", segment_path(site.segment), suffix);
}

/* Lines, saved at `saved`, and zeros behind them. */
static void write_file(const char *saved, const char *lines, off_t bytes) {
	char path[256];
	FILE *file;

	path_of(".sessions", path);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "postern-sessions 6\nboot %s\nsaved %s %s\n%s",
	    site.segment->header->boot_id, saved, saved, lines);
	assert_int_equal(fflush(file), 0);
	if (bytes > 0)
		assert_int_equal(ftruncate(fileno(file), bytes), 0);
	fclose(file);
}

/* Far within the 30 s that the supervisor waits for it. */
TEST_IN(site_begin, site_end, a_sparse_file_of_4_TB_does_not_keep_the_daemon_from_its_start) {
	int64_t began_ns = clock_now_ns();
	struct diag diag;

	write_file("1", "mta 0 out\nmta 1 second\n", SPARSE);
	alarm(20);
	assert_int_equal(segment_restore_sessions(site.segment, clock_now_ns(), &diag), -1);
	alarm(0);
	assert_int_equal(diag.error, EFBIG);
	assert_non_null(strstr(diag.text, ".sessions: not read beyond line 2"));
	assert_in_range(clock_now_ns() - began_ns, 0, 5 * NS_PER_SECOND);
}

/* The state is made all the same, and says what was not read. */
TEST_IN(site_begin, site_end, a_state_is_built_beside_an_absurd_file) {
	char path[256];

	write_file("1", "mta 0 out\n", SPARSE);
	path_of("", path);
	assert_int_equal(unlink(path), 0);
	site_restart(&site, 64, CLASSES);
	assert_int_equal(site.report.origin, SEGMENT_MADE);
	assert_non_null(strstr(site.report.unread, "not read beyond line 1"));
}

TEST_IN(site_begin, site_end, a_file_that_is_whole_is_read_to_its_end) {
	struct diag diag;

	write_file("1", "mta 1 in\nend 1\n", 0);
	assert_int_equal(segment_restore_sessions(site.segment, clock_now_ns(), &diag), 0);
}

TEST_IN(site_begin, site_end, what_is_no_plain_file_is_not_read) {
	struct diag diag;
	char path[256];

	path_of(".sessions", path);
	(void)unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(segment_restore_sessions(site.segment, clock_now_ns(), &diag), -1);
	assert_non_null(strstr(diag.text, "cannot read"));
	assert_int_equal(unlink(path), 0);
}

/* -9223372036854775808: what was reckoned from it overflowed. */
TEST_IN(site_begin, site_end, a_time_of_saving_that_is_none_is_not_reckoned_with) {
	struct diag diag;

	write_file("-9223372036854775808", "end 0\n", 0);
	assert_int_equal(segment_restore_sessions(site.segment, clock_now_ns(), &diag), -1);
}

TEST_IN(site_begin, site_end, a_file_that_was_put_aside_is_not_read) {
	struct diag diag;
	char path[256];

	path_of(".sessions", path);
	(void)unlink(path);
	assert_false(text_file_put_aside(segment_path(site.segment)));
	write_file("1", "mta 0 out\nend 1\n", 0);
	assert_true(text_file_put_aside(segment_path(site.segment)));
	assert_int_equal(segment_restore_sessions(site.segment, clock_now_ns(), &diag), -1);
	assert_int_equal(diag.error, ENOENT);
	path_of(".sessions.unread", path);
	assert_int_equal(unlink(path), 0);
}

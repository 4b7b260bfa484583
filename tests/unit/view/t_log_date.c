/* SPDX-License-Identifier: ISC */
/* Dates of log lines, as mail servers and syslog daemons write them. */
#include <time.h>

#include "tests/unit/test.h"
#include "view/log_date.h"

#define NOW	INT64_C(1764262800)	/* 2025-11-27T17:00:00Z */

static int begin(void **state) {
	setenv("TZ", "UTC0", 1);
	tzset();
	return 0;
}

static int end(void **state) {
	return 0;
}

TEST_IN(begin, end, dates_of_lines) {
	assert_int_equal(log_date("2025-11-27T16:59:20.123456+00:00 mx postfix/smtp", NOW), NOW - 40);
	assert_int_equal(log_date("2025-11-27T17:59:20+01:00 mx", NOW), NOW - 40);
	assert_int_equal(log_date("2025-11-27T11:29:20-05:30 mx", NOW), NOW - 40);
	assert_int_equal(log_date("2025-11-27T16:59:20Z mx", NOW), NOW - 40);
	assert_int_equal(log_date("Nov 27 16:59:20 mx postfix/smtp", NOW), NOW - 40);
	assert_int_equal(log_date("Nov  7 16:59:20 mx", NOW), NOW - 40 - 20 * 86400);
	/* a line of the old year */
	assert_int_equal(log_date("Dec 31 23:59:59 mx", INT64_C(1767225600)), INT64_C(1767225599));
	assert_int_equal(log_date("2025-11-27T16:59:20 mx", NOW), 0);
	assert_int_equal(log_date("mx postfix/smtp", NOW), 0);
	assert_int_equal(log_date("", NOW), 0);
}

TEST_IN(begin, end, the_line_at_a_place) {
	char path[] = "/tmp/postern-log-date.XXXXXX";
	int fd = mkstemp(path);
	static const char text[] = "Nov 27 16:00:00 mx a\nNov 27 16:59:20 mx b\n";

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	assert_int_equal(log_date_at(path, 0, NOW), NOW - 3600);
	assert_int_equal(log_date_at(path, 21, NOW), NOW - 40);
	assert_int_equal(log_date_at(path, sizeof(text) - 1, NOW), 0);
	unlink(path);
	assert_int_equal(log_date_at(path, 0, NOW), 0);
	assert_int_equal(log_date_at("/", 0, NOW), 0);
}

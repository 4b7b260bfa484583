/* SPDX-License-Identifier: ISC */
/* Lines for a reader of logs, and what it found in them; included by one test program,
 * behind cmocka.h. */
#ifndef TESTS_UNIT_SCANNED_LINES_H
#define TESTS_UNIT_SCANNED_LINES_H

#include <stdlib.h>
#include <string.h>

#include "wire/mail/mail_log.h"

static struct log_line line;		/* the last one */

/* In memory of just that size, so that the sanitizers see every byte too far. */
static char *scanned;

static const char *copy_for_scan(const char *text, size_t length) {
	free(scanned);
	scanned = malloc(length ? length : 1);
	assert_non_null(scanned);
	memcpy(scanned, text, length);
	return scanned;
}

static inline enum log_line_kind scan_copy(const char *text, size_t length) {
	return mail_log_scan(copy_for_scan(text, length), length, &line);
}

static bool equal(struct span span, const char *expected) {
	return span.length == strlen(expected) &&
	    (span.length == 0 || memcmp(span.text, expected, span.length) == 0);
}

static void same(struct span span, const char *expected) {
	if (!equal(span, expected))
		fail_msg("\"%.*s\" is not \"%s\"", (int)span.length, span.text, expected);
}

#endif

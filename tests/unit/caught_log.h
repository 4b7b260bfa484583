/* SPDX-License-Identifier: ISC */
/* The lines of the log, counted, and the last one of them. */
#ifndef TESTS_CAUGHT_LOG_H
#define TESTS_CAUGHT_LOG_H

#include "base/log.h"
#include "tests/unit/check.h"

static unsigned logged;
static char last_line[4096];

static inline void caught_line(void *context, const char *line) {
	logged++;
	snprintf(last_line, sizeof(last_line), "%s", line);
}

static inline int catch_log(void **state) {
	logged = 0;
	last_line[0] = '\0';
	log_redirect(caught_line, NULL);
	return 0;
}

static inline int release_log(void **state) {
	log_redirect(NULL, NULL);
	return 0;
}

#endif

/* SPDX-License-Identifier: ISC */
/* A site that is looked at from outside, and its metrics; included by one test program,
 * behind cmocka.h. */
#ifndef TESTS_UNIT_METRICS_SITE_H
#define TESTS_UNIT_METRICS_SITE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/file/internal.h"
#include "tests/unit/own_site.h"
#include "view/metrics.h"

static struct view view;
static char *text;		/* of the metrics; malloc */

static inline int open_viewed(uint64_t sessions, const char *configuration) {
	struct diag diag;

	site_open(&site, sessions, configuration);
	segment_beat(site.segment, clock_now_ns());
	engine_heartbeat(site.engine, clock_now_ns());
	if (view_open(&view, segment_path(site.segment), &diag) != 0)
		fail_msg("%s", diag.text);
	return 0;
}

static inline int close_site(void **state) {
	(void)state;
	free(text);
	text = NULL;
	view_close(&view);
	site_close(&site);
	return 0;
}

static inline void scrape(void) {
	size_t length;
	struct diag diag;
	FILE *out;

	free(text);
	out = open_memstream(&text, &length);
	assert_non_null(out);
	assert_int_equal(view_refresh(&view, &diag), 0);
	assert_int_equal(metrics_write(&view, out), 0);
	assert_int_equal(fclose(out), 0);
}

static inline bool has_line(const char *line) {
	size_t length = strlen(line);

	for (const char *at = text; (at = strstr(at, line)) != NULL; at++)
		if ((at == text || at[-1] == '\n') && at[length] == '\n')
			return true;
	return false;
}

static inline void expect(const char *line) {
	if (!has_line(line))
		fail_msg("no line %s in:\n%s", line, text);
}

#endif

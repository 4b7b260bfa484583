/* SPDX-License-Identifier: ISC */
/*
 * The law postfix on what a queue manager saw, for comparison with what it said.
 *
 *	begin INITIAL LIMIT POSITIVE NEGATIVE COHORTS	a new destination
 *	good BUSY, bad BUSY				a result; BUSY with this one
 *	turn BUSY					the suspension has ended
 *
 * To each line but the first kind one is answered, with a window of 0 while dead:
 *
 *	window N success X failure X fail_cohorts X
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/window/window.h"

static int wrong(const char *line) {
	fprintf(stderr, "replay_windows: what is this? %s", line);
	return 1;
}

static bool begin(struct window *window, struct window_settings *settings, char *words) {
	char *word[5];

	for (int i = 0; i < 5; i++) {
		word[i] = strsep(&words, " \n");
		if (word[i] == NULL)
			return false;
	}
	*settings = window_defaults;
	settings->law = WINDOW_LAW_POSTFIX;
	settings->initial = (uint32_t)strtoul(word[0], NULL, 10);
	settings->limit = (uint32_t)strtoul(word[1], NULL, 10);
	settings->failed_cohort_limit = strtod(word[4], NULL);
	window_begin(window, settings);
	return window_feedback_parse(word[2], strlen(word[2]), &settings->positive) &&
	    window_feedback_parse(word[3], strlen(word[3]), &settings->negative);
}

int main(void) {
	struct window_settings settings = window_defaults;
	struct window_change change;
	struct window window;
	char line[256], *rest;
	int64_t now = 0;

	window_begin(&window, &settings);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		char *verb = (rest = line, strsep(&rest, " "));
		struct window_result result = { .class = RESULT_OK };
		uint32_t busy;

		if (rest == NULL)
			return wrong(line);
		if (strcmp(verb, "begin") == 0) {
			if (!begin(&window, &settings, rest))
				return wrong(rest);
			continue;
		}
		busy = (uint32_t)strtoul(rest, NULL, 10);
		now++;
		if (strcmp(verb, "turn") == 0) {
			now += settings.suspend_ns;
			window_turn(&window, &settings, busy, now, &change);
		} else {
			if (strcmp(verb, "bad") == 0)
				result.class = RESULT_SITE_FAILURE;
			result.in_flight = busy - 1;
			window_result(&window, &settings, &result, now, &change);
		}
		printf("window %u success %g failure %g fail_cohorts %g\n",
		    window_now(&window, &settings, now), window.success, window.failure,
		    window.fail_cohorts);
	}
	return ferror(stdin) || fflush(stdout) != 0;
}

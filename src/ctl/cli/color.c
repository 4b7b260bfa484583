/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What only somebody who looks wants to see: colours, and how far it is.
 * MODEL    Nothing of it reaches a file or a pipe.  Progress is bytes that were read, of
 *          those that there are; the time that is left is as the time so far.
 * THREADS  One.
 */
#include "ctl/cli/color.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

#define QUIET_NS	(500 * NS_PER_MS)
#define APART_NS	(100 * NS_PER_MS)
#define LINE_BYTES	79

bool color_parse(const char *word, enum color_choice *choice) {
	static const char *const words[] = { "auto", "never", "always" };

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(word, words[i]) == 0) {
			*choice = (enum color_choice)i;
			return true;
		}
	return false;
}

static bool is_plain_terminal(void) {
	const char *term = getenv("TERM");

	return term == NULL || *term == '\0' || strcmp(term, "dumb") == 0;
}

bool color_is_wanted(enum color_choice choice) {
	const char *no_color = getenv("NO_COLOR");

	if (choice != COLOR_AUTO)
		return choice == COLOR_ALWAYS;
	return isatty(STDOUT_FILENO) && (no_color == NULL || *no_color == '\0') && !is_plain_terminal();
}

/* --- progress ---------------------------------------------------------------------------- */

static struct {
	const char *what;	/* NULL: none is shown */
	uint64_t total;
	int64_t began_ns, next_ns;
	size_t shown;		/* characters of the line that stands there */
} progress;

void progress_begin(const char *what, uint64_t total) {
	memset(&progress, 0, sizeof(progress));
	if (!isatty(STDERR_FILENO) || is_plain_terminal())
		return;
	progress.what = what;
	progress.total = total;
	progress.began_ns = clock_now_ns();
	progress.next_ns = progress.began_ns + QUIET_NS;
}

static size_t add_bytes(char *line, size_t length, uint64_t bytes) {
	return bytes < UINT64_C(10000000000) ?
	    text_append(line, LINE_BYTES, length, "%llu MB",
		(unsigned long long)(bytes / 1000000)) :
	    text_append(line, LINE_BYTES, length, "%llu GB",
		(unsigned long long)(bytes / 1000000000));
}

static void progress_draw(uint64_t done, int64_t now_ns) {
	double took_s = (double)(now_ns - progress.began_ns) / (double)NS_PER_SECOND;
	char line[LINE_BYTES];
	size_t length = text_append(line, sizeof(line), 0, "%s: ", progress.what);

	if (progress.total > 0 && done <= progress.total) {
		double left_s = done == 0 ? 0 :
		    took_s * (double)(progress.total - done) / (double)done;

		length = text_append(line, sizeof(line), length, "%2.0f%% of ",
		    100 * (double)done / (double)progress.total);
		length = add_bytes(line, length, progress.total);
		length = text_append(line, sizeof(line), length, ", %.0f s left", left_s);
	} else {
		length = add_bytes(line, length, done);
		length = text_append(line, sizeof(line), length, ", %.0f s", took_s);
	}
	fprintf(stderr, "\r%s%*s", line,
	    progress.shown > length ? (int)(progress.shown - length) : 0, "");
	fflush(stderr);
	progress.shown = length;
}

void progress_step(uint64_t done) {
	int64_t now_ns;

	if (progress.what == NULL)
		return;
	now_ns = clock_now_ns();
	if (now_ns < progress.next_ns)
		return;
	progress.next_ns = now_ns + APART_NS;
	progress_draw(done, now_ns);
}

void progress_hide(void) {
	if (progress.shown > 0)
		fprintf(stderr, "\r%*s\r", (int)progress.shown, "");
	progress.shown = 0;
}

void progress_end(void) {
	progress_hide();
	progress.what = NULL;
}

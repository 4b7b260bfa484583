/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Lines of logs, and the time that they tell.
 * MODEL    One buffer: a line that does not fit is left out whole.  Syslog tells no year:
 *          where a date is months before the last one a year has begun, and all
 *          before it is of the year before.
 * ERRORS   Complained about; the other files are read.
 * THREADS  One.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/analyze/analyze.h"

#define BUFFER_BYTES	(2u << 20)
#define DATE_BYTES	19
#define LINE_BYTES_MAX	65536	/* as the feed */
#define DAY_MS		INT64_C(86400000)
#define YEAR_TURN_MS	(180 * DAY_MS)	/* further back than any log is out of order */

/* --- lines ------------------------------------------------------------------------ */

struct lines {
	struct analyze_lines *counts;
	void (*each)(void *context, const struct analyze_line *line);
	void *context;
	char *buffer;
	size_t length;
	uint64_t done;		/* bytes, of all files */
	bool passing;		/* over the rest of one that is too long */
	struct analyze_line line;
	char second[DATE_BYTES];	/* that the last line began with */
};

/* "Nov 21 05:48:22", "2026-11-21T05:48:22" */
static size_t date_length(const char *text) {
	return *text >= '0' && *text <= '9' ? DATE_BYTES : 15;
}

static bool is_of_second(const char *second, const char *text, size_t length) {
	size_t date = date_length(second);

	return length >= date && memcmp(second, text, date) == 0;
}

/* Where a line stands among those of its second; `rest`: what was read behind it. */
static void find_place(struct lines *lines, const char *text, size_t length,
    const char *rest, const char *end) {
	struct analyze_line *line = &lines->line;
	const char *newline;

	if (line->place + 1 < line->of && is_of_second(lines->second, text, length)) {
		line->place++;
		return;
	}
	line->place = 0;
	line->of = 1;
	if (length < DATE_BYTES)
		return;
	memcpy(lines->second, text, DATE_BYTES);
	for (; (newline = memchr(rest, '\n', (size_t)(end - rest))) != NULL &&
	     is_of_second(lines->second, rest, (size_t)(newline - rest)); rest = newline + 1)
		line->of++;
}

static void give_line(struct lines *lines, const char *text, size_t length) {
	lines->counts->lines++;
	lines->line.number++;
	if (lines->passing || length > LINE_BYTES_MAX) {
		lines->counts->long_lines += !lines->passing;
		lines->passing = false;
		return;
	}
	if (length > 0 && text[length - 1] == '\r')
		length--;
	lines->line.text = text;
	lines->line.length = length;
	lines->each(lines->context, &lines->line);
}

/* Gives all whole lines of the buffer, and keeps the rest. */
static void take_lines(struct lines *lines) {
	const char *at = lines->buffer, *end = lines->buffer + lines->length, *newline;

	while ((newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
		find_place(lines, at, (size_t)(newline - at), newline + 1, end);
		give_line(lines, at, (size_t)(newline - at));
		at = newline + 1;
		if (at == end)
			break;
	}
	lines->length = (size_t)(end - at);
	memmove(lines->buffer, at, lines->length);
	if (lines->length == BUFFER_BYTES) {
		lines->counts->long_lines += !lines->passing;
		lines->passing = true;
		lines->length = 0;
	}
}

static int read_stream(struct lines *lines, FILE *in, const char *path) {
	size_t got;

	lines->length = 0;
	lines->passing = false;
	lines->line = (struct analyze_line){ .file = path, .of = 1 };
	while ((got = fread(lines->buffer + lines->length, 1, BUFFER_BYTES - lines->length,
	    in)) > 0) {
		lines->length += got;
		lines->done += got;
		progress_step(lines->done);
		take_lines(lines);
	}
	if (ferror(in)) {
		ctl_complain("%s: %s", path, strerror(errno));
		return EX_IOERR;
	}
	lines->line.place = 0;
	lines->line.of = 1;
	if (lines->length > 0 || lines->passing)
		give_line(lines, lines->buffer, lines->length);
	return EX_OK;
}

/* By gzip, bzip2, xz or zstd. */
static bool is_compressed(FILE *in) {
	static const char *const begins[] = { "\037\213", "BZh", "\3757zXZ", "(\265/\375" };
	char start[8] = "";
	size_t got = fread(start, 1, sizeof(start), in);

	rewind(in);
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (got >= strlen(begins[i]) && memcmp(start, begins[i], strlen(begins[i])) == 0)
			return true;
	return false;
}

static int complain_of(const char *path, int error) {
	ctl_complain("%s: %s", path, strerror(error));
	return error == EACCES ? EX_NOPERM : EX_NOINPUT;
}

/* An errno, or 0: it is there to be read. */
static int path_error(const char *path) {
	struct stat status;

	if (strcmp(path, "-") == 0)
		return 0;
	if (stat(path, &status) != 0)
		return errno;
	if (S_ISDIR(status.st_mode))
		return EISDIR;
	return access(path, R_OK) == 0 ? 0 : errno;
}

int analyze_lines_look(const struct ctl *ctl) {
	int result = EX_OK;

	for (size_t i = 0; i < ctl->word_count; i++)
		if (path_error(ctl->words[i]) == 0)
			return EX_OK;
	for (size_t i = 0; i < ctl->word_count; i++)
		result = complain_of(ctl->words[i], path_error(ctl->words[i]));
	return result;
}

static int read_path(struct lines *lines, const char *path) {
	struct stat status;
	FILE *in;
	int error, result;

	if (strcmp(path, "-") == 0)
		return read_stream(lines, stdin, path);
	in = fopen(path, "re");
	error = errno;
	if (in != NULL && fstat(fileno(in), &status) == 0 && S_ISDIR(status.st_mode)) {
		fclose(in);
		in = NULL;
		error = EISDIR;
	}
	if (in != NULL && is_compressed(in)) {
		fclose(in);
		ctl_complain("%s is compressed; run zcat %s | posternctl analyze -", path, path);
		return EX_DATAERR;
	}
	if (in == NULL)
		return complain_of(path, error);
	result = read_stream(lines, in, path);
	fclose(in);
	return result;
}

/* Of those that are plain files. */
static uint64_t bytes_of(const struct ctl *ctl) {
	uint64_t bytes = 0;
	struct stat status;

	for (size_t i = 0; i < ctl->word_count; i++) {
		if (stat(ctl->words[i], &status) != 0 || !S_ISREG(status.st_mode))
			return 0;
		bytes += (uint64_t)status.st_size;
	}
	return bytes;
}

int analyze_lines(const struct ctl *ctl, struct analyze_lines *counts,
    void (*each)(void *context, const struct analyze_line *line), void *context) {
	struct lines lines = { .counts = counts, .each = each, .context = context };
	int result = EX_OK;

	*counts = (struct analyze_lines){ .lines = 0 };
	lines.buffer = malloc(BUFFER_BYTES);
	if (lines.buffer == NULL)
		return ctl_os_error(errno);
	/* rows that run over the same terminal tell enough */
	if (ctl->sessions || !isatty(STDOUT_FILENO))
		progress_begin("analyze", bytes_of(ctl));
	for (size_t i = 0; i < ctl->word_count; i++) {
		int code = read_path(&lines, ctl->words[i]);

		if (code != EX_OK)
			result = code;
	}
	progress_end();
	free(lines.buffer);
	return result;
}

/* --- time ------------------------------------------------------------------------- */

static int this_year(void) {
	time_t now = (time_t)clock_wall_s();
	struct tm parts;

	return gmtime_r(&now, &parts) == NULL ? 1970 : parts.tm_year + 1900;
}

int analyze_clock_begin(const struct ctl *ctl, struct analyze_clock *clock) {
	uint32_t year;

	*clock = (struct analyze_clock){ .year = 0 };
	if (ctl->year == NULL)
		return EX_OK;
	if (!text_to_u32(ctl->year, strlen(ctl->year), 9999, &year) || year < 1970)
		return ctl_usage(COMMAND_ANALYZE, "--year %s: must be a year from 1970 to 9999",
		    ctl->year);
	clock->year = (int)year;
	clock->year_given = true;
	return EX_OK;
}

/* The first line: of this year, unless that were the future. */
static int guess_year(struct span head) {
	int year = this_year();
	int64_t ms;

	if (log_date_read(head, year, &ms) && ms > clock_wall_ms() + DAY_MS)
		year--;
	return year;
}

/* Far back: of the next year, if its date tells none, and that is not to come. */
static void turn_year(struct analyze_clock *clock, struct span head, int64_t *ms) {
	int64_t later_ms;

	if (!log_date_read(head, clock->year + 1, &later_ms) || later_ms == *ms ||
	    (!clock->year_given && later_ms > clock_wall_ms() + DAY_MS))
		return;
	clock->year++;
	*ms = later_ms;
}

/* A date of the future, far from all before it, is none; nor is one that 64 bits of
 * nanoseconds do not hold. */
static bool is_senseless(const struct analyze_clock *clock, int64_t ms) {
	return ms >= INT64_MAX / NS_PER_MS || (clock->started &&
	    ms > clock->last_ms + YEAR_TURN_MS && ms > clock_wall_ms() + DAY_MS);
}

bool analyze_clock_read(struct analyze_clock *clock, struct span head) {
	int64_t ms;

	if (clock->year == 0)
		clock->year = guess_year(head);
	if (!log_date_read(head, clock->year, &ms))
		return false;
	if (clock->started && ms < clock->last_ms - YEAR_TURN_MS)
		turn_year(clock, head, &ms);
	if (is_senseless(clock, ms))
		return false;
	if (!clock->started) {
		clock->started = true;
		clock->first_ms = clock->now_ms = ms;
	}
	clock->last_ms = ms;
	clock->fine = clock->fine || ms % 1000 != 0;
	if (ms > clock->now_ms)
		clock->now_ms = ms;
	return true;
}

const char *analyze_time(int64_t ms, char out[ANALYZE_TIME_MAX]) {
	time_t seconds = (time_t)(ms / 1000);
	struct tm parts;

	if (gmtime_r(&seconds, &parts) == NULL ||
	    strftime(out, ANALYZE_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &parts) == 0)
		out[0] = '\0';
	return out;
}

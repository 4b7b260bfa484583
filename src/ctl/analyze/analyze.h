/* SPDX-License-Identifier: ISC */
/*
 * posternctl analyze, in parts: lines out of files, mail servers and judgement by
 * a configuration (or by none), what windows make of the results, and sessions.
 * One thread; everything ends with the command.
 */
#ifndef CTL_ANALYZE_H
#define CTL_ANALYZE_H

#include "ctl/cli/ctl.h"
#include "engine/judge/judge.h"
#include "wire/mail/mail_log.h"

/* --- lines (analyze_lines.c) ------------------------------------------------------- */

struct analyze_line {
	const char *file;	/* as given; "-" is the standard input */
	uint64_t number;	/* in its file, from 1 */
	const char *text;	/* without its end, not NUL-terminated */
	size_t length;
	/* Of lines that begin with the same date and second: its place, from 0, and how many
	 * there are, as far as was read at once. */
	uint32_t place, of;
};

struct analyze_lines {
	uint64_t lines;
	uint64_t long_lines;	/* too long to be read, and left out */
};

/* Not one of the files can be read: an exit code after complaints; else EX_OK. */
int analyze_lines_look(const struct ctl *ctl);

/* Calls `each` with every line of the files in turn.  An exit code; what could be
 * read before an error was. */
int analyze_lines(const struct ctl *ctl, struct analyze_lines *counts,
    void (*each)(void *context, const struct analyze_line *line), void *context);

/* The dates of a log, which may tell no year: it goes on where they go back by months. */
struct analyze_clock {
	int year;		/* of the last line */
	int64_t last_ms;	/* as read, for the year */
	int64_t now_ms;		/* never goes back */
	int64_t first_ms;
	bool started;
	bool year_given;
	bool fine;		/* it tells less than seconds */
};
/* The year of the first line by --year, or so that no line is of the future.  An exit
 * code. */
int analyze_clock_begin(const struct ctl *ctl, struct analyze_clock *clock);
/* False: the head tells no date; then it is still what it was. */
bool analyze_clock_read(struct analyze_clock *clock, struct span head);
/* "2026-11-21T05:48:22" */
#define ANALYZE_TIME_MAX	32
const char *analyze_time(int64_t ms, char out[ANALYZE_TIME_MAX]);

/* --- output (analyze_write.c) --------------------------------------------------------- */

/* A table; for programs one event a line. */
void analyze_write_table(struct writer *writer, const struct table *table);
/* The first members of each event, for programs alone: event, and line, which has no number. */
void analyze_event_put(struct writer *writer, const char *event);

/* The summary; `block` (NULL: none) is a part of a configuration, a member for programs. */
void analyze_summary_begin(struct writer *writer, const struct analyze_lines *lines,
    const struct analyze_clock *clock);
void analyze_summary_end(struct writer *writer, const char *name, const char *block);

/* --- site (analyze_site.c) --------------------------------------------------------- */

struct analyze_site {
	struct generation *generation;
	struct judge *judge;
	unsigned postfix, sendmail;	/* the first mail server of its kind; one is made where
					 * the configuration has none, and has room */
};

/* By the configuration; where it is not there, and nobody asked for it, by defaults
 * with the providers.conf that is installed.  An exit code. */
int analyze_site_open(const struct ctl *ctl, struct analyze_site *site);
void analyze_site_close(struct analyze_site *site);

/* Judges a line's delivery.  One of a program that the configuration does not name is
 * judged as that of its first mail server of the kind. */
void analyze_site_judge(const struct analyze_site *site, const struct log_line *line,
    struct judgement *out);

/* --- sessions (analyze_sessions.c, analyze_classes.c) ---------------------------------- */

int analyze_sessions(struct ctl *ctl);

/* --- logins (analyze_accounts.c), where the build has accounts ----------------------- */

int analyze_accounts(struct ctl *ctl);

#endif

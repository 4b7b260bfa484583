/* SPDX-License-Identifier: ISC */
/* Sessions out of a log, and the classes that would fit them. */
#ifndef CTL_ANALYZE_SESSIONS_H
#define CTL_ANALYZE_SESSIONS_H

#include "ctl/analyze/analyze.h"

#define ANALYZE_NAME_MAX	255
/* Who has no end lasts to the end of the log, but no longer. */
#define ANALYZE_UNENDED_MS	INT64_C(3600000)

struct analyze_session {
	int64_t start_ms, end_ms;	/* end_ms INT64_MIN: not ended yet */
	uint64_t start_line, end_line;	/* what came first, within a second */
	uint32_t client;
	uint32_t class;			/* of the configuration, or ANALYZE_NO_CLASS */
	uint16_t port;			/* that it came in by, as far as the program tells */
	bool of_sendmail;		/* its end is the last that was heard of it */
};
#define ANALYZE_NO_CLASS	UINT32_MAX

struct analyze_client {
	struct address address;		/* or unknown */
	char *name;			/* or NULL */
	uint32_t class;			/* of its last session */
	uint64_t refused;
};

/* What one key (a class, a client, a domain) came to. */
struct analyze_load {
	uint64_t sessions;
	uint64_t open_ms;	/* of all of them together */
	uint32_t open, peak;
	uint32_t per_minute;	/* most that began in a minute of the clock */
	int64_t minute;
	uint32_t this_minute;
};

struct analyze_seen {
	struct analyze_session *sessions;
	size_t session_count, session_size;
	struct analyze_client *clients;
	size_t client_count, client_size;
	uint32_t *order;	/* 2i: the start of session i, 2i + 1: its end; by time */
	int64_t first_ms, last_ms;
	uint64_t refused, unended;
};

/* All that was read. */
struct analyze_read {
	struct ctl *ctl;
	struct analyze_site site;
	struct analyze_clock clock;
	struct analyze_lines lines;
	struct analyze_seen seen;
};

/* Ends what has no end, puts starts and ends in order, and writes what it came to.
 * False: no memory. */
bool analyze_write_sessions(struct analyze_read *read);

/* Sums up by key: keys[i] is that of session i (UINT32_MAX: left out), below `count`.
 * out has `count` entries. */
void analyze_sum(const struct analyze_seen *seen, const uint32_t *keys,
    struct analyze_load *out, size_t count);

/* A classes list that would have let all of it in, with room to spare; NULL: no memory.
 * The caller frees it. */
char *analyze_propose_classes(const struct analyze_seen *seen);

#endif

/* SPDX-License-Identifier: ISC */
/* Sessions out of a log, and the classes that would fit them. */
#ifndef CTL_REPLAY_SESSIONS_H
#define CTL_REPLAY_SESSIONS_H

#include "ctl/replay/replay.h"

#define REPLAY_NAME_MAX	255
/* Who has no end lasts to the end of the log, but no longer. */
#define REPLAY_UNENDED_MS	INT64_C(3600000)

struct replay_session {
	int64_t start_ms, end_ms;	/* end_ms INT64_MIN: not ended yet */
	uint64_t start_line, end_line;	/* what came first, within a second */
	uint32_t client;
	uint32_t class;			/* of the configuration, or REPLAY_NO_CLASS */
	uint16_t port;			/* that it came in by, as far as the program tells */
	bool of_sendmail;		/* its end is the last that was heard of it */
};
#define REPLAY_NO_CLASS	UINT32_MAX

struct replay_client {
	struct address address;		/* or unknown */
	char *name;			/* or NULL */
	uint32_t class;			/* of its last session */
	uint64_t refused;
};

/* What one key (a class, a client, a domain) came to. */
struct replay_load {
	uint64_t sessions;
	uint64_t open_ms;	/* of all of them together */
	uint32_t open, peak;
	uint32_t per_minute;	/* most that began in a minute of the clock */
	int64_t minute;
	uint32_t this_minute;
};

struct replay_seen {
	struct replay_session *sessions;
	size_t session_count, session_size;
	struct replay_client *clients;
	size_t client_count, client_size;
	uint32_t *order;	/* 2i: the start of session i, 2i + 1: its end; by time */
	int64_t first_ms, last_ms;
	uint64_t refused, unended;
};

/* All that was read. */
struct replay_read {
	struct ctl *ctl;
	struct replay_site site;
	struct replay_clock clock;
	struct replay_lines lines;
	struct replay_seen seen;
};

/* Ends what has no end, puts starts and ends in order, and writes what it came to.
 * False: no memory. */
bool replay_write_sessions(struct replay_read *read);

/* Sums up by key: keys[i] is that of session i (UINT32_MAX: left out), below `count`.
 * out has `count` entries. */
void replay_sum(const struct replay_seen *seen, const uint32_t *keys,
    struct replay_load *out, size_t count);

/* A classes list that would have let all of it in, with room to spare; NULL: no memory.
 * The caller frees it. */
char *replay_propose_classes(const struct replay_seen *seen);

#endif

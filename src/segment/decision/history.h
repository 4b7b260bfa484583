/* SPDX-License-Identifier: ISC */
/*
 * 24 hours in slots of one minute: a file of fixed size beside the state file (PATH.history),
 * so that it survives roles, the daemon and a state file of another layout.  Totals, classes
 * and the busiest destinations have a series each; the latest changes of state (suspended,
 * resumed, by hand ...) stand in a ring.
 *
 * The keeper writes it, by pwrite alone: no other role can end it by cutting the file.  A minute
 * counts once its stamp is there, which is written last; a series once its name is.  So whoever
 * dies in the middle leaves a gap.  Minutes are of the wall clock.
 * Readers take nothing for granted: whatever stands in the file, names are cut and numbers are
 * numbers.  One thread a struct.
 */
#ifndef SEGMENT_HISTORY_H
#define SEGMENT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"
#include "segment/decision/decisions.h"
#include "segment/file/layout_destinations.h"

#define HISTORY_MINUTES		1440u
#define HISTORY_VALUES		5
#define HISTORY_UNKNOWN		UINT32_MAX
#define HISTORY_CHANGES		512u
#define HISTORY_BYTES_MOST	(UINT64_C(1) << 28)

/* What a series is of, and its values: a count is of the minute, the rest is as it stood at its
 * end. */
enum history_kind {
	HISTORY_NONE,
	HISTORY_SESSIONS,	/* open; counts: admitted, refused, deferred, observed */
	HISTORY_OUTBOUND,	/* in flight; counts: ok, failed; suspended or held; would be */
	HISTORY_CLASS,		/* as of SESSIONS */
	HISTORY_DESTINATION,	/* in flight, window; counts: ok, failed; enum history_stop */
	HISTORY_KINDS
};
enum history_stop { HISTORY_GOES, HISTORY_WOULD_STOP, HISTORY_STOPPED };

/* What happened in a minute: flags. */
#define HISTORY_STARTED		1u	/* the daemon was started */
#define HISTORY_ROLE_RESTARTED	2u	/* a worker was */
#define HISTORY_FLAGS		3u

struct history_values {
	uint32_t value[HISTORY_VALUES];	/* HISTORY_UNKNOWN: not known */
};

struct history_name {
	enum history_kind kind;		/* NONE: it is free */
	uint32_t since;			/* its first minute */
	char name[SEGMENT_NAME_MAX + 1];
};

struct history_change {
	int64_t wall_ns;
	struct decided decided;
};

struct history;

/* --- writing (the keeper) ------------------------------------------------------------- */

/* Opens the file for a state file at state_path, or makes it anew where there is none of this
 * size and layout.  bytes: at most so large.  readers: group that may read it.  0, or -1 with
 * *diag. */
int history_open(struct history **history, const char *state_path, uint64_t bytes,
    gid_t readers, struct diag *diag);
void history_close(struct history **history);

/* How many series there is room for; what each is of. */
unsigned history_size(const struct history *history);
const struct history_name *history_at(const struct history *history, unsigned series);

/* The series is of that from this minute on; nothing is known of it yet. */
void history_assign(struct history *history, unsigned series, enum history_kind kind,
    const char *name, uint32_t minute);
void history_put(struct history *history, unsigned series, uint32_t minute,
    const struct history_values *values);
/* All values of the minute were put: it counts. */
void history_stamp(struct history *history, uint32_t minute, unsigned flags);
void history_add_change(struct history *history, int64_t wall_ns,
    const struct decided *decided);
/* The id of the latest change; 0: there is none. */
uint64_t history_last_change(const struct history *history);
/* Of the first write since the last call that failed: an errno; 0: none did. */
int history_error(struct history *history);

/* --- reading --------------------------------------------------------------------------- */

/* 0, or -1 with *diag: there is none, or none that can be read. */
int history_look(struct history **history, const char *state_path, struct diag *diag);

/* Of the HISTORY_MINUTES up to `minute` (the last place): flags and HISTORY_KNOWN, 0: a gap. */
#define HISTORY_KNOWN		4u
bool history_minutes(struct history *history, uint32_t minute, uint8_t out[HISTORY_MINUTES]);

/* The name of a destination as series have it: in lower case, without a dot at its end; of one
 * that none can have, itself. */
const char *history_folded(const char *name, char out[SEGMENT_NAME_MAX + 1]);

/* The series of that; -1: it has none.  By names as they were read last. */
int history_find(const struct history *history, enum history_kind kind, const char *name);

/* The last `count` minutes up to `minute` of a series; what is no minute of it is unknown.
 * `known`: as of history_minutes, the same minutes.  False: it cannot be read. */
bool history_read(struct history *history, unsigned series, uint32_t minute,
    const uint8_t known[HISTORY_MINUTES], unsigned count, struct history_values *out);

/* Calls `each` for the changes that are known, the oldest first. */
void history_changes(struct history *history,
    void (*each)(void *context, const struct history_change *), void *context);

#endif

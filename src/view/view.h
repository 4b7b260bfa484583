/* SPDX-License-Identifier: ISC */
/*
 * What the state file and the configuration in force beside it say, read-only: one
 * description of each list (classes, destinations, status) for posternctl and for the
 * pages by HTTP, so that both have the same names and the same numbers.
 * Rows go to a writer (view/writer.h).  One thread a view.
 */
#ifndef VIEW_VIEW_H
#define VIEW_VIEW_H

#include <limits.h>

#include "base/diag.h"
#include "config/generation/enforcement.h"
#include "config/generation/generation.h"
#include "segment/reader.h"
#include "view/writer.h"

/* The end of a log at an earlier look, until it is read. */
struct view_log_look {
	uint64_t end, read;		/* bytes */
	int64_t end_ns;			/* 0: none yet */
};
#define VIEW_LOGS	GENERATION_MTAS_MAX

struct view {
	char path[PATH_MAX];		/* of the state file */
	struct segment *reader;
	/* As the daemon published it; NULL where it cannot be read, and why. */
	const struct generation *generation;
	struct diag no_generation;
	struct reader_status status;	/* as of view_open or view_refresh */
	struct view_log_look logs[VIEW_LOGS];
	struct view_accounts_top *accounts;	/* view/accounts.h; NULL: none yet */
};

/* Opens the state that is in force now; also the last one of a daemon that is away.  0, or
 * -1 with *diag.  view_close it in both cases. */
int view_open(struct view *view, const char *state_path, struct diag *diag);

/* Looks again: takes up a state file that replaced this one, and a configuration.  After -1
 * nothing is open but what a later call may open. */
int view_refresh(struct view *view, struct diag *diag);

void view_close(struct view *view);

/* Does mail wait for this window, while it is shut?  `name` as in the state file
 * ("class:NAME"); mta_bits: of the destination. */
struct enforcement view_enforcement(const struct view *view, const char *name,
    unsigned mta_bits);

/* The class that is held by a window of this name ("class:NAME"); NULL: it is none of a class. */
const char *view_class_of(const char *name);

/* "posternd is not running (last heartbeat 12 s ago)" */
#define VIEW_AWAY_MAX 100
const char *view_away(const struct view *view, char out[VIEW_AWAY_MAX]);

/* "open", "deferred" ... */
const char *view_session_state(const struct session *session);

/* "policy.0", "keeper.0" ... */
#define VIEW_ROLE_NAME_MAX 32
const char *view_role_name(const struct reader_role *role, char out[VIEW_ROLE_NAME_MAX]);

/* A limit of a class: not known where there is none. */
static inline struct value value_limit(uint32_t limit) {
	return limit == LIMIT_NONE ? value_unknown() : value_number(limit);
}

/* Seconds until `then_ns`: not known where that is past, or never. */
static inline struct value value_until(int64_t now_ns, int64_t then_ns) {
	if (then_ns <= now_ns || then_ns == INT64_MAX)
		return value_unknown();
	return value_number((uint64_t)((then_ns - now_ns + 999999999) / 1000000000));
}

/* Seconds from `then_ns` on: not known where that is never, or to come; what was read a
 * moment after `now_ns` is just now. */
static inline struct value value_since(int64_t now_ns, int64_t then_ns) {
	const int64_t second = 1000000000;

	if (then_ns <= 0 || then_ns - now_ns > second)
		return value_unknown();
	return value_number(then_ns > now_ns ? 0 : (uint64_t)((now_ns - then_ns) / second));
}

/* The same since so many tenths of a second after the state file was made. */
static inline struct value value_since_ds(const struct view *view, int64_t then_ds) {
	return value_since(view->status.now_ns, view->status.created_ns + then_ds * 100000000);
}

#endif

/* SPDX-License-Identifier: ISC */
/* posternctl why: decisions by their id, out of the segment's rings or the journal, and what
 * undoes them.  One thread. */
#ifndef CTL_WHY_H
#define CTL_WHY_H

#include "ctl/cli/ctl.h"
#include "ctl/act/state.h"
#include "segment/reader.h"
#include "view/decided_line.h"

/* One of them, with its times by the wall clock. */
struct why_event {
	struct decided d;
	int64_t wall_ns;
	int64_t until_wall_ns;	/* 0: none; INT64_MAX: until it is resumed */
	const char *source;	/* "state", "journal" */
};

/* --- where they are found (why_find.c) ------------------------------------------- */

struct why_journal;
struct why_sources {
	struct state *state;		/* its reader may be NULL */
	const char *journal_path;	/* of decisions/; "": there is none */
	struct why_journal *journal;	/* opened when it is needed */
	bool journal_tried;
	int64_t now_ns, wall_ns;
};
void why_sources_begin(struct why_sources *sources, struct state *state, const char *journal_path);
void why_sources_end(struct why_sources *sources);

bool why_find(struct why_sources *sources, uint64_t id, struct why_event *out);

/* A time of this boot (base/clock.h) by the wall clock; 0 and INT64_MAX stay what they are. */
int64_t why_wall_ns(const struct why_sources *sources, int64_t time_ns);

/* Calls `each` for all of them, the newest first, until it says false: those of the segment,
 * and those that it has lost out of the journal, which is opened when it is needed. */
void why_each(struct why_sources *sources,
    bool (*each)(void *context, const struct why_event *), void *context);

/* --- what undoes it (why_undo.c) --------------------------------------------------- */

#define WHY_COMMAND_MAX	1024
struct why_undo {
	char command[WHY_COMMAND_MAX];	/* for the shell, as it stands; "": none */
	char edit[DECIDED_PLACE_MAX + 128];	/* what is to be changed before; "": nothing */
	const char *none;		/* why nothing is to be done; NULL: something is */
};
/* `held`: the suspension or hold that the decision came of, or itself; NULL: none.  `wall_ns`:
 * now. */
void why_undo(const struct ctl *ctl, const struct why_event *event,
    const struct why_event *held, int64_t wall_ns, struct why_undo *out);

/* By a share of which nothing was leased: no limit is to be raised. */
bool why_is_unleased(const struct decided *decided);

/* What stops the mail now that this event stopped. */
struct why_stop {
	bool stopped;
	uint64_t by;		/* the id of what says so; 0: not known */
	int64_t until_wall_ns;	/* INT64_MAX: until it is resumed */
};
void why_find_stop(const struct why_sources *sources, const struct why_event *event,
    struct why_stop *out);

/* A destination that a node of the cluster holds by a decision of this id. */
struct why_there {
	char node[SHARED_NODE_NAME_MAX + 1];
	char name[4 * SEGMENT_NAME_MAX + 4];	/* harmless */
	uint64_t here;		/* the id of the same hold on this machine; 0: not known */
};
/* False: there is none that is in force. */
bool why_find_there(const struct why_sources *sources, uint64_t id, struct why_there *out);

#endif

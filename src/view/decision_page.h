/* SPDX-License-Identifier: ISC */
/*
 * Decisions for the page: those that are alike as one group ("412 failures like this"), and the
 * changes of state apart, which traffic does not wash out (segment/history.h).  None about a
 * recipient: their addresses are for those alone who may read the state file.  One thread.
 */
#ifndef VIEW_DECISION_PAGE_H
#define VIEW_DECISION_PAGE_H

#include "segment/decision/history.h"
#include "view/view.h"

struct decision_choice {
	char kind[24];		/* as of segment/decisions.h; "": all */
	char about[SEGMENT_NAME_MAX + 1];	/* class, destination, or client's address; "": all */
	char find[64];		/* in the texts and addresses */
	unsigned limit;		/* groups, or changes: at most DECISION_GROUPS */
};
#define DECISION_GROUPS	512u

/* Equal for decisions that are alike. */
uint64_t decision_group_key(const struct decided *d);

/* A table of groups of the last 10 minutes, the newest first: the columns of posternctl why,
 * of its latest decision; count; first (seconds ago), subject ("class", "destination",
 * "client"), about (its name).  -1: no memory (errno). */
int decision_groups_write(const struct view *view, const struct decision_choice *choice,
    struct writer *writer, const char *name);

/* The same of the changes of state, one each.  history NULL: those of the ring. */
int decision_changes_write(const struct view *view, struct history *history,
    const struct decision_choice *choice, struct writer *writer, const char *name);

#endif

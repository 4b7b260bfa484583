/* SPDX-License-Identifier: ISC */
/* The daemon's state file and the configuration in force beside it, for a command. */
#ifndef CTL_STATE_H
#define CTL_STATE_H

#include "ctl/cli/ctl.h"
#include "view/view.h"

struct state {
	struct places places;
	struct view view;
};

/* Opens the state that is in force now.  EX_OK, or an exit code after a
 * complaint.  A daemon that is away is complained about, too, but its last
 * state is opened.  state_close it in both cases. */
int state_open(const struct ctl *ctl, struct state *state);

/* Closes it.  Returns `result`, the command's exit code so far, or EX_UNAVAILABLE if that is
 * EX_OK and the daemon was away. */
int state_close(struct state *state, int result);

/* After view_open and view_refresh: a daemon that has just ended is stale at once, not only
 * when its last heartbeat is old. */
void state_look_for_daemon(struct view *view);

/* Asks the daemon behind places->control where its state file is: places->state.  0, or -1
 * with *diag. */
int state_ask_place(struct places *places, struct diag *diag);

/* Only the daemon knows where it is: a socket was named, and no configuration. */
bool state_is_asked_for(const struct ctl *ctl);

/* Complains where rows could not be read consistently. */
void state_torn(unsigned torn, const char *what);

#endif

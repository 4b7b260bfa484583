/* SPDX-License-Identifier: ISC */
/* What goes on with each mail server of the configuration, for posternctl status. */
#ifndef CTL_STATUS_MTAS_H
#define CTL_STATUS_MTAS_H

#include "ctl/state.h"

/* Is the role there that drives a queue?  "driven", "starting", "away"; "none": no queue is
 * to be driven; NULL: not known. */
const char *status_queue_word(const struct state *state);

/* A table "mtas" of the open object; state->generation may be NULL. */
void status_mtas_write(struct writer *writer, const struct state *state);

#endif

/* SPDX-License-Identifier: ISC */
/* What the rows of explanations have in common, and the answers that are not made
 * in control_answer.c.  The keeper's thread. */
#ifndef FRONT_CONTROL_ROW_H
#define FRONT_CONTROL_ROW_H

#include <sys/types.h>

#include "engine/engine.h"
#include "wire/link/control_frame.h"

/* The only row of an answer, in `out` (CONTROL_ANSWER_BYTES), and the end of both; returns the
 * answer's length. */
void control_answer_begin(struct control_writer *writer, char *out);
size_t control_answer_finish(struct control_writer *writer, char *out);

/* class, rule, file, line; the answer has a rule. */
void control_answer_class(struct control_writer *writer,
    const struct generation *generation, const struct answer *answer);

/* count, limit, open, hold_at, refuse_at, and of a class whose limits hold for all machines
 * sessions_in_force and inbound_in_force; the answer has a rule. */
void control_answer_counts(struct control_writer *writer, const struct engine *engine,
    const struct generation *generation, const struct answer *answer, uint32_t open);

/* verdict, reason, observed */
void control_answer_decision(struct control_writer *writer,
    const struct answer *answer);

/* The whole answer to "explain destination" in `out` (CONTROL_ANSWER_BYTES);
 * returns its length. */
size_t control_answer_destination(struct engine *engine,
    const struct control_frame *request, char *out);

/* The whole answer to suspend, hold, resume, forget or limit. */
size_t control_answer_by_hand(struct engine *engine,
    const struct control_frame *request, uid_t uid, char *out);

/* The whole answer to cluster forget. */
size_t control_answer_cluster(struct engine *engine, const struct control_frame *request,
    uid_t uid, char *out);

/* The whole answer to forget account, or to resume account. */
size_t control_answer_account(struct engine *engine, const struct control_frame *request,
    bool resumes, uid_t uid, char *out);

/* untold: why the other machines cannot be told of this destination now, if there are any and
 * they cannot. */
void control_answer_untold(struct control_writer *writer, struct engine *engine,
    const struct generation *generation, const char *name, int64_t now_ns);

/* hint_mta, doubt, doubt_text; there is a mail server */
struct hint_explained;
void control_answer_doubt(struct control_writer *writer, const struct generation *generation,
    const struct hint_explained *hint);

/* id, of a decision, unless it is 0 */
void control_answer_id(struct control_writer *writer, uint64_t id);

/* state, window, ceiling, in_flight, until */
struct window_view;
void control_answer_window(struct control_writer *writer,
    const struct window_view *view, int64_t now_ns);

#endif

/* SPDX-License-Identifier: ISC */
/* Decisions in words. */
#ifndef VIEW_DECIDED_H
#define VIEW_DECIDED_H

#include "config/generation/enforcement.h"
#include "view/view.h"

/* What was decided, in a sentence without an end.  Names in it are strangers'. */
#define VIEW_DECIDED_MAX 1024
void view_decided_say(const struct decided *decided, char out[VIEW_DECIDED_MAX]);

/* Does one of these texts (a bit each, of enum decided_text), or the client's address, have it in
 * it, whatever the case; or is one of them the `whole` of it? */
bool view_decided_has(const struct decided *decided, uint32_t texts, const char *wanted,
    bool whole);

/* The kind, as people read it: "would-suspend" of a suspension that had no effect. */
const char *decided_shown_word(const struct decided *decided);
/* Of one that had no effect, why: "observe mode", "not enforced: no lanes on mx1". */
const char *decided_not_applied(const struct decided *decided, char out[ENFORCEMENT_TEXT_MAX]);

/* "2026-11-22T06:38:20.123Z".  Returns `out`. */
#define VIEW_TIME_MAX 32
const char *view_time(int64_t wall_ns, char out[VIEW_TIME_MAX]);

/* The table of posternctl why without an id; `name` as of writer_table, `rows` calls
 * view_decided_row. */
void view_decided_table(struct writer *writer, const char *name,
    void (*rows)(void *context, struct writer *writer), void *context);
void view_decided_row(struct writer *writer, const struct decided *decided, int64_t wall_ns);
/* Its members: id, time, kind, what, text. */
void view_decided_put(struct writer *writer, const struct decided *decided, int64_t wall_ns);

/* The latest of both rings, `most` of each, in the order of time; but for those about one
 * recipient.  -1: no memory (errno). */
int view_decisions_write(const struct view *view, struct writer *writer, size_t most);

#endif

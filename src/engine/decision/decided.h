/* SPDX-License-Identifier: ISC */
/*
 * What was decided, noted in the segment for posternctl why (segment/decision/decisions.h).  No lock
 * of the segment may be held; any thread.  An admission is not noted.
 */
#ifndef ENGINE_DECIDED_H
#define ENGINE_DECIDED_H

#include "engine/internal.h"
#include "engine/outbound/outbound.h"
#include "engine/destination/windows.h"
#include "segment/decision/decisions.h"

/* An inbound session, at its connect or a recipient: gives answer->id, where it is worth
 * one. */
void decided_note_session(struct engine *engine, const struct generation *generation,
    const struct question *question, enum decided_stage stage, int64_t now_ns,
    struct answer *answer);

/* The same of an outbound question. */
void decided_note_outbound(struct engine *engine, const struct generation *generation,
    const struct outbound_question *question, int32_t pid, int64_t now_ns,
    struct outbound_answer *out);

/* A recipient that back-pressure turned away, or would have. */
uint64_t decided_note_pressure(struct engine *engine, const struct generation *generation,
    const struct question *question, uint32_t class_index, const char *recipient,
    size_t length, int64_t now_ns, const struct window_pressure *pressure, uint64_t cause);

/* A queue manager is told to hold all mail of a class, as `open` have come to `limit` (its
 * own, or this node's share of it). */
uint64_t decided_note_class_full(struct engine *engine, const struct generation *generation,
    uint32_t class_index, uint32_t open, uint32_t limit, int64_t now_ns);

/* The id of what is about to happen to a destination; allowed under its lock.  Who takes one
 * has it told (windows_report), or those who follow the ring wait for it. */
uint64_t decided_claim_event(struct engine *engine);

/* What happened to a window: claims report->id where that is 0. */
void decided_note_window(struct engine *engine, struct window_report *report);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * What was decided, noted in the segment for posternctl why (segment/decision/decisions.h).  No lock
 * of the segment may be held; any thread.  An admission is not noted.
 */
#ifndef ENGINE_DECIDED_H
#define ENGINE_DECIDED_H

#include "engine/internal.h"
#include "segment/decision/decisions.h"

/* An inbound session, at its connect or a recipient: gives answer->id, where it is worth
 * one. */
void decided_note_session(struct engine *engine, const struct generation *generation,
    const struct question *question, enum decided_stage stage, int64_t now_ns,
    struct answer *answer);

/* The id of what is about to happen to a destination; allowed under its lock.  Who takes one
 * has it told (windows_report), or those who follow the ring wait for it. */
uint64_t decided_claim_event(struct engine *engine);

/* --- for those who note more --------------------------------------------------------------- */

/* All but the texts is zero or as given. */
void decided_begin(struct decided *d, uint64_t id, enum decided_kind kind,
    enum decided_stage stage, int64_t now_ns);
/* Is the answer something to note?  Most admissions are not. */
bool decided_is_worth_it(const struct answer *answer);
enum decided_kind decided_kind_of(const struct answer *answer);
void decided_put_answer(struct decided *d, const struct answer *answer);
void decided_put_client(struct decided *d, const struct question *question);
/* The class, the mask that matched (rule_index; CLASS_NO_RULE: none), and where that is written.
 * After the reason. */
void decided_put_class(struct decided *d, const struct generation *generation,
    uint32_t class_index, uint32_t rule_index, bool outbound);
void decided_put_file(struct decided *d, const char *file, uint32_t line);

#endif

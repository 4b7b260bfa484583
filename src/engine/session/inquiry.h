/* SPDX-License-Identifier: ISC */
/* An inbound question on its way, for inbound.c and explain.c. */
#ifndef ENGINE_INQUIRY_H
#define ENGINE_INQUIRY_H

#include "engine/internal.h"

struct inquiry {
	struct engine *engine;
	const struct generation *generation;
	const struct question *question;
	struct answer *answer;
	const struct generation_class *class;	/* NULL: none, or exempt */
	bool exempt;
	bool gate_shut;		/* where there is no class, after inquiry_look_at_gate */
	uint32_t dump_sequence;
	struct session_lock lock;
	struct client_lock client;	/* where the class limits its clients */
	/* a deferred session that is decided anew, in its own slot */
	uint32_t again_slot;	/* or SEGMENT_NO_SLOT */
	struct session again;
};

/* Finds the class, and has the table's memory fetched meanwhile.  The answer is
 * empty but for that. No lock. */
void inquiry_begin(struct inquiry *inquiry, struct engine *engine,
    const struct generation *generation, const struct question *question,
    int64_t now_ns, struct answer *answer);

static inline void inquiry_decide(struct inquiry *inquiry, enum verdict verdict,
    enum reason reason) {
	inquiry->answer->decision =
	    (struct decision){ .verdict = verdict, .reason = reason };
}

/* Is there room in any class, where none takes the client?  No lock. */
void inquiry_look_at_gate(struct inquiry *inquiry);

/* A refusal for a full class says so where no other class has room either: it
 * is the same for every client then. */
void inquiry_note_gate(struct inquiry *inquiry);

/* The answer to whom no class takes. */
void inquiry_decide_unclassed(struct inquiry *inquiry);

/* Does the class only observe what this reason says? */
static inline bool class_observes(const struct generation_class *class,
    enum reason reason) {
	return limit_reason_is_client(reason) ? class->client_observe
					      : class->observe;
}

#endif

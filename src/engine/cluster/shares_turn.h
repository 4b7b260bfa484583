/* SPDX-License-Identifier: ISC */
/*
 * What this node asks the others for, of limits that hold for all of them (engine/cluster/shares.h;
 * law: policy/window/share.h): the shared classes from turn to turn, when a call is due, what it is to
 * say, and what becomes of its answer.  How it is called is the role `cluster`'s own.
 *
 * What a call gives back is lowered in the segment before it is made, what is granted is raised
 * there after the answer: whatever dies in between, the server's record is never less than
 * what is used.
 *
 * One thread, that of the role `cluster`; no lock may be held.  No errors: a class whose lock
 * is not to be had is left out of a call.
 */
#ifndef ENGINE_SHARES_TURN_H
#define ENGINE_SHARES_TURN_H

#include "engine/cluster/shares.h"
#include "segment/file/layout.h"

#define SHARES_CLASSES_MAX	256	/* of scope cluster; of more, only the static part is used */

/* A class that is shared. */
struct shares_member {
	char name[SEGMENT_NAME_MAX + 1];
	uint16_t record;
	struct share_class now;		/* of the generation of the last turn */
	struct share_memory memory;
	struct share_ask asked;		/* in the last call */
	bool differs;			/* other nodes have other limits */
};

/* Zeros but the first three are the start. */
struct shares_turns {
	struct engine *engine;
	uint32_t nodes;
	int64_t lease_ms;
	struct shares_member members[SHARES_CLASSES_MAX];
	unsigned member_count;
	uint32_t alive;			/* of the nodes, as the server last said; 0: it did not */
	/* What the others say (enum share_news): set by whoever hears it. */
	bool hears;
	int64_t short_ns;		/* when somebody last said that he lacks places */
	bool tells;			/* this call is to say so, should it lack some */
	int64_t told_ns;
};

/* Looks at the classes of the generation: each turn (SHARE_TURN_MS), and while a call is out
 * with the generation that it was made by. */
void shares_turn(struct shares_turns *turns, const struct generation *generation,
    int64_t now_ns);

/* Is a call due for the sake of them?  sent_ns: when the last one was sent, 0: none since
 * hello; wait_until_ns: a new epoch grants nothing before then, 0: it grants. */
bool shares_are_due(const struct shares_turns *turns, int64_t sent_ns, int64_t wait_until_ns,
    int64_t now_ns);

/* A class of a call, and what the node keeps of it. */
struct shares_call {
	unsigned member;
	struct share_pools held;
};

/* Begins a call: lowers what is given back, says what is kept, and whether it `tells`; `calls`
 * has room for turns->member_count.  Returns how many classes the call is to list (asked: their
 * members'). */
unsigned shares_call(struct shares_turns *turns, const struct generation *generation,
    int64_t now_ns, struct shares_call *calls);

/* It was sent. */
void shares_called(struct shares_turns *turns, const struct shares_call *calls, unsigned count);

/* An answer that grants: of one class, */
struct shares_answer {
	struct share_pools granted, fair, free;
	uint32_t others_short;		/* of both pools */
	bool differs;
	struct share_pools whole;	/* limits that count of all nodes' */
};
void shares_answered(struct shares_turns *turns, const struct generation *generation,
    unsigned member, const struct shares_answer *answer, int64_t until_ns, int64_t now_ns);
/* before all of them, where everything that was leased and is not in it is gone. */
void shares_reborn(struct shares_turns *turns, const struct generation *generation,
    int64_t now_ns);

#endif

/* SPDX-License-Identifier: ISC */
/* What the files of the asked outbound connections share. */
#ifndef ENGINE_OUTBOUND_INTERNAL_H
#define ENGINE_OUTBOUND_INTERNAL_H

#include "engine/internal.h"
#include "engine/outbound/outbound.h"
#include "segment/queue/grants.h"

#define OUTBOUND_HOSTS_MAX	256

/* A slot of the process. */
struct hold {
	uint16_t record;
	bool for_forgotten;	/* also for hosts that are not remembered any more */
	struct session_ref ref;
};

/* A host that it was admitted to, and by which rule of which generation. */
struct admitted_host {
	uint64_t name_hash;
	uint64_t generation;
	uint32_t rule;		/* or CLASS_NO_RULE: in no count */
	uint16_t record;	/* where it is counted, or SEGMENT_NO_CLASS */
	uint8_t source;
	uint64_t owner_hash;	/* of the window that it has a place in; 0: of none */
};

struct outbound_process {
	struct engine *engine;
	struct process_identity identity;
	struct hold *holds;
	size_t hold_count, hold_size;
	struct admitted_host hosts[OUTBOUND_HOSTS_MAX];
	size_t host_count, oldest;
	struct windows_places *places;	/* NULL: there was no memory */
};

/* Makes room for one more hold: false: no memory. */
bool outbound_reserve_hold(struct outbound_process *process);

/* The slot of a class is the process's: `taken` now, or in an earlier life, for
 * hosts that nobody remembers.  outbound_reserve_hold said that there is room. */
void outbound_note_hold(struct outbound_process *process, uint16_t record,
    const struct session_ref *ref, bool taken);

/* Is that slot what it holds of the class? */
bool outbound_holds(struct outbound_process *process, uint16_t record,
    const struct session_ref *ref);

/* The host, or NULL: it was not admitted to it. */
struct admitted_host *outbound_host(struct outbound_process *process,
    uint64_t name_hash);

/* The process was admitted to the host, and that is counted where *host says; the
 * slot of the class that it was counted in is given back, unless another host
 * is. No lock may be held. */
void outbound_put_host(struct outbound_process *process,
    const struct generation *generation, const struct admitted_host *host,
    int64_t now_ns);

/* It has no connection to the host.  As outbound_put_host. */
void outbound_drop_host(struct outbound_process *process,
    const struct generation *generation, uint64_t name_hash, int64_t now_ns);

/* It has a connection to this host alone. */
void outbound_keep_one_host(struct outbound_process *process,
    const struct generation *generation, uint64_t name_hash, int64_t now_ns);

/* What the queue role granted to the message that is asked about (segment/queue/grants.h). */
struct outbound_turn {
	enum grant_answer answer;
	struct grant_asked asked;
};
void outbound_turn_look(const struct engine *engine,
    const struct outbound_question *question, int64_t now_ns, struct outbound_turn *turn);

/* Not its turn: the answer is given, unless observed. */
bool outbound_turn_holds(struct engine *engine, const struct generation *generation,
    const struct outbound_question *question, const struct outbound_turn *turn,
    struct outbound_answer *out);

/* Is it known that the recipient was delivered by this message, and what is to come of that? */
enum grant_once outbound_turn_knows(const struct engine *engine,
    const struct generation *generation, const struct outbound_question *question,
    const struct outbound_turn *turn);
void outbound_turn_discard(struct engine *engine, const struct outbound_turn *turn,
    int64_t now_ns, struct outbound_answer *out);

/* The rest was asked: the role is told what came out, and of a process with one
 * connection alone the rest is given back. */
void outbound_turn_settle(struct outbound_process *process,
    const struct generation *generation, const struct outbound_question *question,
    const struct outbound_turn *turn, uint64_t name_hash, int64_t now_ns,
    const struct outbound_answer *out);

/* Is the recipient, or the class, held?  Then the answer is given: not to be let go, or
 * observed. */
bool outbound_is_held(struct engine *engine, const struct generation *generation,
    const struct outbound_question *question, int64_t now_ns,
    struct outbound_answer *out);

/* Asks the destination's window, where the class would let it go: the answer is as it
 * was, or the window's.  `asked_hash`: the owner of the window that was asked before
 * this connect, or 0.  Returns the owner's whose place the process has now, or 0. */
uint64_t outbound_ask_window(struct outbound_process *process,
    const struct generation *generation, const struct outbound_question *question,
    uint64_t asked_hash, int64_t now_ns, struct outbound_answer *out);

/* Notes the answer for posternctl why, where it is worth it, and gives it its ID. */
void outbound_note(struct engine *engine, const struct generation *generation,
    const struct outbound_question *question, int32_t pid, int64_t now_ns,
    struct outbound_answer *out);

/* Whose slot it is (SESSION_FLAG_PROCESS). */
struct process_identity outbound_slot_process(const struct session *session);

#endif

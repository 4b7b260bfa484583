/* SPDX-License-Identifier: ISC */
/*
 * The latest decisions, in two rings of the segment (DESIGN sections 4 and 14, why ID): of
 * sessions and recipients, which a flood may wash out within seconds, and of destinations:
 * what was counted against one, and what followed from it.  The journal has more of them
 * (engine/journal/journal_decisions.h).
 *
 * Each has a number, which is its id (base/decision_id.h), of this segment and no earlier
 * one: numbers begin with the time at which the segment was made, and by chance, so that two
 * machines hardly ever give the same.  Whoever decides takes
 * the number (decisions_claim) and writes the rest when it holds no lock any more.  A
 * writer that dies in between leaves a place that readers pass over.
 *
 * Any number of writers and readers, threads and processes; nobody waits.  What two
 * writers did to one place, as one of them slept while the ring went round, has a wrong
 * check sum and is nobody's.
 */
#ifndef SEGMENT_DECISIONS_H
#define SEGMENT_DECISIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/manual.h"
#include "policy/limit/address.h"
#include "policy/window/window.h"
#include "segment/file/layout_decisions.h"

struct segment;

enum decided_kind {
#define DECIDED(symbol, word, ring, text) DECIDED_##symbol,
#include "defs/decisions.def"
#undef DECIDED
	DECIDED_KINDS
};
/* "refused" ..., and what it means.  Of anything else: "unknown", "". */
const char *decided_word(unsigned kind);
const char *decided_meaning(unsigned kind);
enum decided_ring decided_ring_of(enum decided_kind kind);

/* "class-inbound" ... (defs/reasons.def); NULL: of none. */
const char *decided_reason_word(unsigned reason);
const char *decided_reason_text(unsigned reason);
/* "held", "ended": what a share goes by; "-" of none. */
const char *lease_word(unsigned lease);
/* What that of this word means; NULL: none has it. */
const char *lease_text(const char *word);

/* At which moment it was decided. */
enum decided_stage {
	DECIDED_AT_CONNECT,	/* a client connected */
	DECIDED_AT_RECIPIENT,	/* RCPT of a client */
	DECIDED_BEFORE_CONNECT,	/* a mail server was about to connect */
	DECIDED_CONNECTED,	/* it was */
	DECIDED_IN_QUEUE,	/* for a queue manager, of all mail of a kind */
	DECIDED_BY_RESULT,	/* a delivery's result was read */
	DECIDED_BY_TIME,
	DECIDED_BY_COMMAND,	/* posternctl */
	DECIDED_BY_NODE,	/* another node of the cluster said so */
	DECIDED_STAGES
};
/* "connect", "recipient", "before-connect", "connected", "queue", "result", "time",
 * "command", "node"; others "unknown". */
const char *decided_stage_word(unsigned stage);

/* Why a destination is suspended: here, or at the node that said so (DECIDED_BY_NODE). */
enum decided_by { DECIDED_BY_NOBODY, DECIDED_BY_COHORTS, DECIDED_BY_RULE, DECIDED_BY_HAND_OF,
	DECIDED_BY_OTHERS };	/* a node said so, and not why */
_Static_assert((int)DECIDED_BY_COHORTS == WINDOW_CAUSE_COHORTS + 1 &&
    (int)DECIDED_BY_OTHERS == WINDOW_CAUSE_NODE + 1, "enum window_cause, in its order");
static inline enum decided_by decided_by_of(const struct window *window) {
	return window_is_shut(window) ? (enum decided_by)(window->cause + 1) : DECIDED_BY_NOBODY;
}
/* "cohorts", "rule", "hand", "node"; NULL: of none. */
const char *decided_by_word(unsigned by);

/* Texts are as strangers wrote them, but for NULs: whoever shows one escapes it. */
enum decided_text {
	DECIDED_NAME = 1,	/* host name of the client; destination, recipient or class that it
				 * is about, as resume takes it */
	DECIDED_CLASS,
	DECIDED_FILE,		/* of the rule; with `line` */
	DECIDED_RULE,		/* mask as written; name of a provider rule; setting */
	DECIDED_WINDOW_OF,	/* outbound: whose window it ran by, if any */
	DECIDED_QUEUE_ID,
	DECIDED_RELAY,
	DECIDED_RECIPIENT,	/* or its domain */
	DECIDED_MTA,		/* name in the configuration */
	DECIDED_REASON,		/* a reply's words; what somebody said */
	DECIDED_NOTE,		/* of a provider rule */
	DECIDED_NODE,		/* of the cluster that said so, */
	DECIDED_ORIGIN,		/* and the decision's id there, as text */
	DECIDED_TEXTS
};

#define DECIDED_OBSERVED_ONLY	0x01	/* observe mode, or not enforced: nothing was done */
#define DECIDED_OUTBOUND	0x02
#define DECIDED_IS_CLASS	0x04	/* NAME is of a class */
#define DECIDED_IS_RECIPIENT	0x08	/* NAME is an address */
#define DECIDED_CANARY		0x10
#define DECIDED_HELD		0x20	/* by hand: hold, not suspend */
#define DECIDED_WAS_HELD	0x40	/* by hand: a resume that ended a hold */

#define DECIDED_PACE_NS	INT64_C(100000)

/* One of them: plain data, copied freely.  All zero but what is told. */
struct decided {
	uint64_t id;
	uint64_t cause;		/* the id of what led to it: of a deferral the suspension, of that
				 * the last failure, of a failure the one before it; 0: none */
	int64_t at_ns;		/* base/clock.h */
	int64_t until_ns;	/* of what is held, or was (WAS_HELD); 0: not told; INT64_MAX: until
				 * it is resumed */
	struct address client;	/* or the relay's */
	uint8_t kind;		/* enum decided_kind */
	uint8_t reason;		/* enum reason, or DECIDED_NO_REASON */
	uint8_t verdict;	/* enum verdict: what was answered */
	uint8_t stage;		/* enum decided_stage */
	uint8_t result;		/* FAILURE: enum result_class of policy/reply/reply.h */
	uint8_t by;		/* SUSPENDED: enum decided_by; BY_HAND: enum manual_verb; of a
				 * share: enum lease */
	uint8_t action;		/* class's: enum class_action of config/generation.h; of a
				 * destination: enum enforcement_kind of config/enforcement.h */
	uint8_t flags;		/* DECIDED_* */
	uint16_t client_port;	/* 0: not known */
	uint16_t server_port;
	uint32_t line;		/* of the rule in FILE; 0: none */
	uint32_t count, limit;	/* what was compared; both 0: nothing was */
	uint32_t before, window;	/* of a destination; of a rate: so many in so many ms; of a
					 * share: before is the limit that it is a part of; of a
					 * pace: its interval in DECIDED_PACE_NS, before 0: none */
	uint32_t ceiling_before, ceiling;	/* 0: not known */
	uint32_t uid;		/* BY_HAND */
	int32_t pid;		/* of a mail server's process */
	float success, failure, fail_cohorts;
	uint16_t text_bytes;
	uint16_t code;		/* FAILURE: of the reply; 0: there was none */
	uint32_t limit_line;	/* of the limit itself, in the same file; 0: not told */
	uint32_t observe_line;	/* of the observe that counts, in the same file; 0: not told */
	char texts[DECIDED_TEXT_BYTES];	/* by decided_put and decided_text alone */
};
#define DECIDED_NO_REASON	UINT8_MAX

bool decided_is_of_sessions(const struct decided *decided);
/* Is it of a client's session, and not of an outbound connection? */
bool decided_is_of_client(const struct decided *decided);
/* Is it of what is to be seen still an hour later? */
bool decided_is_change(const struct decided *decided);

/* Adds a text; nothing of an empty one.  Each once.  What does not fit is cut, and ends in
 * "..." then; or left out where a part of it would be somebody else (a class, a window, a
 * recipient) or would say nothing.  Those first. */
void decided_put(struct decided *decided, enum decided_text which, const char *text,
    size_t length);
/* The same of a string. */
void decided_put_string(struct decided *decided, enum decided_text which, const char *text);
/* "" where there is none. */
const char *decided_text(const struct decided *decided, enum decided_text which);
/* "held", "ended" of a share of a class's limit, and what it means (defs/leases.def); NULL: it
 * is of none. */
const char *decided_lease_word(const struct decided *decided);
const char *decided_lease_meaning(const struct decided *decided);
/* Does it make sense, whoever wrote it?  All others take only what does. */
bool decided_is_sound(const struct decided *decided);

/* --- writing -------------------------------------------------------------------- */

/* The number of the next one.  Costs an atomic addition; allowed under a lock. */
uint64_t decisions_claim(struct segment *segment, enum decided_ring ring);

/* Writes what was claimed: decided->id says where.  About 40 ns. */
void decisions_write(struct segment *segment, const struct decided *decided);

/* Its line stands in the log: whoever keeps them keeps this one for certain. */
void decisions_mark_logged(struct segment *segment, uint64_t id);

/* No number up to this one is given any more.  For a start. */
void decisions_begin_after(struct segment *segment, uint64_t id);

/* --- reading -------------------------------------------------------------------- */

/* False: it was never written, or is overwritten by now. */
bool decisions_find(const struct segment *segment, uint64_t id, struct decided *out);

/* Follows a ring.  All zero at first: then it begins with the oldest there is. */
struct decisions_cursor {
	uint64_t next;
	uint64_t old;		/* up to here they were claimed before it began */
	int64_t hole_ns;	/* when it was seen that `next` is not written yet */
	bool begun;
};

/* The next one; false: there is none for now.  One that is claimed and not written is waited
 * for, a second at most, and not at all where it was claimed before the cursor began.  *lost
 * grows by those that were overwritten before they were read.  *logged (or NULL): it was
 * marked so. */
bool decisions_next(const struct segment *segment, enum decided_ring ring,
    struct decisions_cursor *cursor, int64_t now_ns, struct decided *out, bool *logged,
    uint64_t *lost);

/* How many places a ring has. */
uint32_t decisions_size(const struct segment *segment, enum decided_ring ring);

#endif

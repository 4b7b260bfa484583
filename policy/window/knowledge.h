/* SPDX-License-Identifier: ISC */
/*
 * What several machines (nodes) know of one destination, made one.
 *
 * THE RULES.  Each node has one record of a destination, of parts that only it writes; a
 * part is replaced by one with a greater stamp.  What holds is a function of the set of
 * these records and of the time alone, so in whatever order, and how often, they arrive,
 * all nodes come to the same:
 *	1. By hand: the statement with the greatest stamp counts, no other.  suspend and hold
 *	   hold until their end; resume lifts them.  Each takes the place of every learned
 *	   suspension with a smaller stamp, for good.
 *	2. Learned: where nothing holds by hand, the suspension that ends last counts, of
 *	   those with a greater stamp than what was said by hand.
 *	3. Ceiling: the lowest counts, of those that did not end.  A ceiling ends when a node
 *	   had an attempt accepted at a level above it (its canary), with a greater stamp; and
 *	   when one was set by hand, with a greater stamp: so an operator may raise it.  Level
 *	   0 by hand: there is none.  (Where that node says another level later, one that was
 *	   not withdrawn and is above it counts again.)
 *	4. Of two that are equal otherwise the one with the greater stamp is named as origin.
 *
 * Stamps are Lamport's: greater than all that the node has seen, and different for each
 * node.  A stamp of 0: there is no such part.
 *
 * Pure; times are of one clock of the caller's.
 */
#ifndef POLICY_KNOWLEDGE_H
#define POLICY_KNOWLEDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KNOWLEDGE_NODES_MAX	64

enum knowledge_what { KNOWLEDGE_SUSPEND, KNOWLEDGE_HOLD, KNOWLEDGE_RESUME };

struct knowledge_manual {
	uint64_t stamp;
	enum knowledge_what what;
	int64_t until_ns;	/* INT64_MAX: until it is resumed */
};

struct knowledge_learned {	/* a suspension by cohorts or by a rule */
	uint64_t stamp;
	int64_t until_ns;
};

struct knowledge_ceiling {
	uint64_t stamp;
	uint16_t level;		/* highest that is accepted; 0: none is known (ends what this
				 * node said before; by hand: what all said) */
	bool by_hand;
};

struct knowledge_raised {	/* an attempt at this level was accepted */
	uint64_t stamp;
	uint16_t level;
};

struct knowledge_record {
	struct knowledge_manual manual;
	struct knowledge_learned learned;
	struct knowledge_ceiling ceiling;
	struct knowledge_raised raised;
};

enum knowledge_by { KNOWLEDGE_BY_UNKNOWN, KNOWLEDGE_BY_COHORTS, KNOWLEDGE_BY_RULE };

/* What one node says, with its reasons: printable ASCII.  The ids are of its decisions
 * (base/decision_id.h), and no other machine's; 0: not told. */
#define KNOWLEDGE_REASON_MAX	160
struct knowledge_told {
	uint8_t node;		/* the caller's number of it */
	enum knowledge_by learned_by;
	struct knowledge_record record;
	uint64_t manual_id, learned_id;
	char manual_reason[KNOWLEDGE_REASON_MAX + 1];
	char learned_reason[KNOWLEDGE_REASON_MAX + 1];
};

/* Greater ones are a stranger's: no cluster gets so far. */
#define KNOWLEDGE_STAMP_MAX	(UINT64_C(1) << 53)
/* Nor does anybody get so far ahead of all others: it would be the last word for ever. */
#define KNOWLEDGE_STAMP_AHEAD	(UINT64_C(1) << 44)

/* The next stamp of node 0..63, which has seen none greater than `seen`. */
uint64_t knowledge_next_stamp(uint64_t seen, unsigned node);

/* The greatest stamp in a record. */
uint64_t knowledge_stamp(const struct knowledge_record *record);

/* Takes over each part of `from`, a record of the same node, that has a greater stamp.
 * True: something changed. */
bool knowledge_join(struct knowledge_record *into, const struct knowledge_record *from);

enum knowledge_state {
	KNOWLEDGE_NONE,
	KNOWLEDGE_DEAD,		/* learned, or suspended by hand */
	KNOWLEDGE_HELD		/* by hand */
};

struct knowledge {
	enum knowledge_state state;
	bool by_hand;
	int64_t until_ns;	/* of DEAD and HELD */
	uint64_t stamp;		/* of what decided the state: its node is the origin */
	uint64_t resumed_stamp;	/* of the resume by hand that counts; 0: none */
	uint16_t ceiling;	/* 0: none */
	bool ceiling_by_hand;
	uint64_t ceiling_stamp;	/* its node is the origin; also of a ceiling ended by hand */
};

/* What holds at now_ns by `count` records, one a node (this one's among them), in any
 * order. */
void knowledge_merge(const struct knowledge_record *records, size_t count, int64_t now_ns,
    struct knowledge *out);

#endif

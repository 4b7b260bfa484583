/* SPDX-License-Identifier: ISC */
/*
 * What a journal of messages may say after a crash: of each message one of the states it
 * had since the last one that was acknowledged (whose record a sync has covered).  A state
 * is what is left to do; that a message is being worked on is none.
 */
#ifndef TESTS_CRASH_JOURNAL_ORACLE_H
#define TESTS_CRASH_JOURNAL_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORACLE_MESSAGES 48
#define ORACLE_GROUPS 5

struct oracle_state {
	uint32_t generation;		/* of its envelope; 0: there is no such message */
	uint16_t left[ORACLE_GROUPS];	/* recipients at each destination */
	uint16_t unread;		/* it has others, that are not in the envelope */
};

struct oracle_step {
	uint64_t sequence;	/* it is acknowledged when this is synced */
	struct oracle_state state;
};

struct oracle_message {
	struct oracle_step *steps;	/* the first: at least as old as what was acknowledged */
	size_t count, room;
};

struct oracle {
	struct oracle_message messages[ORACLE_MESSAGES];
	uint64_t synced;
	bool forgets_nothing;	/* all states that a message ever had are allowed */
	uint32_t generations;
};

enum oracle_verdict {
	ORACLE_ALLOWED,
	ORACLE_LOST,		/* what was acknowledged is missing */
	ORACLE_CAME_BACK,	/* what was finished is there */
	ORACLE_FORGOTTEN,	/* a delivery that was acknowledged */
	ORACLE_INVENTED,	/* it never was so */
	ORACLE_VERDICTS
};
extern const char *const oracle_verdict_words[ORACLE_VERDICTS];

void oracle_open(struct oracle *oracle);
void oracle_close(struct oracle *oracle);
void oracle_copy(struct oracle *to, const struct oracle *from);

/* The newest state. */
struct oracle_state oracle_newest(const struct oracle *oracle, unsigned message);
/* A record is about to be appended that leaves the message in `state'; then it was, with
 * this sequence, or (0) was not: then that is its newest state, but never acknowledged. */
void oracle_begin(struct oracle *oracle, unsigned message, const struct oracle_state *state);
void oracle_end(struct oracle *oracle, unsigned message, uint64_t sequence);
/* All up to `sequence' is acknowledged. */
void oracle_synced(struct oracle *oracle, uint64_t sequence);
/* The disk failed: what is not acknowledged never will be. */
void oracle_forsake(struct oracle *oracle);
enum oracle_verdict oracle_judge(const struct oracle *oracle, unsigned message,
    const struct oracle_state *state);
/* Where records were damaged: is it a mixture of the states of one envelope? */
bool oracle_is_mixture(const struct oracle *oracle, unsigned message,
    const struct oracle_state *state);
/* It was found in this state after a crash: this it has, and was acknowledged when
 * `sequence' is synced; until then all that was allowed still is. */
void oracle_found(struct oracle *oracle, unsigned message, uint64_t sequence,
    const struct oracle_state *state);
/* Begins anew with this, acknowledged. */
void oracle_settle(struct oracle *oracle, unsigned message, const struct oracle_state *state);
unsigned oracle_left(const struct oracle_state *state);
/* Its states that are allowed, on standard error. */
void oracle_print(const struct oracle *oracle, unsigned message);
void oracle_print_state(const struct oracle_state *state);
#endif

/* SPDX-License-Identifier: ISC */
#ifndef TESTS_MACHINE_SENDERS_H
#define TESTS_MACHINE_SENDERS_H

#include "engine/outbound/outbound.h"
#include "tests/machine/world.h"

#define SENDERS_MAX 12

struct sender {
	bool alive, asks, connected;
	int32_t pid;
	unsigned letter, domain;
	uint32_t try;			/* of its queue ID */
	bool placed;			/* it was told that it may go to that domain */
	uint32_t turn;			/* each event of an earlier one is void */
	struct policy_link *link;	/* its map connection; NULL: none */
	bool counted;			/* it was told that it has a slot, */
	uint32_t class_index;		/* of this class, which it was below the limit of */
};
extern struct sender senders[SENDERS_MAX];

void senders_begin(const struct plan *plan);
void senders_calm(void);
bool senders_are_done(void);
/* The domain of one that is not; DOMAINS_MAX: there is none. */
unsigned senders_undone(void);
void senders_lose(const struct role *role, uint32_t start);
void sender_answered(struct policy_link *link, const struct outbound_answer *answer);
bool sender_is_over(int32_t pid);
/* What the role does with a question of such a link, or its end (request NULL). */
void outbound_turn(struct role *role, const struct generation *generation,
    struct policy_link *link, const char *request);

/* --- of check_senders.c ------------------------------------------------------------- */

/* A sender was admitted, or not. */
void check_sender(struct policy_link *link, const struct generation *generation,
    const struct outbound_answer *answer);
/* That were told that they have a slot, and live. */
uint32_t senders_open(uint32_t class_index);
/* One may go, as the window of its domain says, before and after. */
void check_place(struct policy_link *link, uint32_t before, uint32_t after,
    const struct outbound_answer *answer);
/* The state was made anew. */
void senders_are_lost(void);
/* Slots of a class that senders have. */
uint32_t senders_slots(const struct segment *segment, uint16_t record);
/* Says how that domain stands, and ends the run. */
void senders_stuck(const struct segment *segment, unsigned domain)
    __attribute__((noreturn));
/* All have ended, and nothing of theirs is held. */
void check_senders_end(const struct segment *segment);

#endif

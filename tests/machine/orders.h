/* SPDX-License-Identifier: ISC */
/* What an administrator orders: hold, suspend, resume, limit, of destinations. */
#ifndef TESTS_MACHINE_ORDERS_H
#define TESTS_MACHINE_ORDERS_H

#include "tests/machine/role.h"

void orders_begin(const struct plan *plan);
void orders_calm(void);
/* In the keeper. */
void orders_carry_out(struct role *role, const struct message *order);
/* The state is made anew: what was ordered is in the journal, and ends when it was to end. */
void orders_are_lost(const struct segment *segment);
/* Does the queue manager obey what is ordered of it?  Of what it has never delivered to
 * posternctl says that it does not. */
bool orders_bind_mail(unsigned domain);
void orders_see(unsigned domain);
/* When the last order was begun or carried out, and the last resume that was. */
int64_t orders_ordered_ns(unsigned domain);
int64_t orders_resumed_ns(unsigned domain);
/* Held for certain, since this time; 0: not, or who knows. */
int64_t orders_held_ns(unsigned domain);
/* Held for certain not, since this time; 0: it is, or who knows. */
int64_t orders_open_ns(unsigned domain);
/* The window has this ceiling.  False: a lower one was ordered, and no result has found one that is
 * lower still, or that it is dead (canaries go on from that). */
bool orders_allow_ceiling(unsigned domain, uint32_t ceiling);
/* All is quiet: it stands as it was ordered. */
void orders_check(const struct segment *segment, const char *state_path);
/* The keeper goes for good: what it held is held no more. */
void orders_outlive_keeper(const char *state_path);
/* Resumes all; false: not all are yet. */
bool orders_release(void);

#endif

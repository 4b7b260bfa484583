/* SPDX-License-Identifier: ISC */
/*
 * What the keeper does for the supervisor, which has no segment: publishes configurations,
 * notes deaths and counts, and reports what people want to hear of, and what they ask for
 * (keeper_orders.h).
 */
#ifndef ROLE_KEEPER_DUTIES_H
#define ROLE_KEEPER_DUTIES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "config/generation/generation.h"
#include "role/link/role.h"

struct control;
struct event_base;
struct keeper_duties;

/* Before the engine is opened: where the published generation is not the one in force, is gone
 * or damaged, the supervisor is asked to have that published again, for 3 s, and places of roles that are no more are forgotten.  0, or -1 with *diag. */
int keeper_duties_prepare(const struct role_context *context, struct diag *diag);

/* `base`: the keeper's loop.  0, or -1 with *diag. */
int keeper_duties_open(struct keeper_duties **duties, const struct role_context *context,
    struct event_base *base, struct diag *diag);

/* Carries over what metrics says of itself.  Returns when it is to be called again at the
 * latest, in ns from now. */
int64_t keeper_duties_turn(struct keeper_duties *duties, int64_t now_ns);

/* Some times a second, while anything changes. */
void keeper_duties_beat(struct keeper_duties *duties, const struct generation *generation,
    int64_t now_ns);

/* Each second. */
void keeper_duties_second(struct keeper_duties *duties);

/* Asks the supervisor for a reload, of which keeper_duties_serve's control server hears.  False:
 * not now. */
bool keeper_duties_reload(void *duties, uint64_t number);
void keeper_duties_serve(struct keeper_duties *duties, struct control *control);

/* Tells the supervisor that the gate is shut or open.  Where that cannot be said now it is
 * not: the caller says it again while the gate is shut. */
void keeper_duties_gate(const struct keeper_duties *duties, bool shut);

#endif

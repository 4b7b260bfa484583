/* SPDX-License-Identifier: ISC */
/* Which next hop a delivery was really tried at, and whose it is (judge.h). */
#ifndef ENGINE_JUDGE_JUDGE_INTERNAL_H
#define ENGINE_JUDGE_JUDGE_INTERNAL_H

#include "engine/judge/judge.h"

/* The relay of a result: of relay=, or what the text names ("connect to host[address]:port:
 * ..."). */
void find_tried(const struct delivery *delivery, struct tried_relay *out);

/* Fills in kind, destination and provider.  `mta` is NULL for a mail server that the
 * configuration does not name; out->tried, out->cloned and out->reply are set. */
void find_owner(const struct generation *generation, const struct generation_mta *mta,
    const struct delivery *delivery, struct judgement *out);

#endif

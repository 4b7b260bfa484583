/* SPDX-License-Identifier: ISC */
/* Which next hop a delivery was really tried at, and whose it is (judge.h). */
#ifndef ENGINE_JUDGE_JUDGE_INTERNAL_H
#define ENGINE_JUDGE_JUDGE_INTERNAL_H

#include "engine/judge/judge.h"

/* Fills in tried (of relay=, or what the text names: "connect to host[address]:port: ...") and
 * owner.  `mta` is NULL for a mail server that the configuration does not name; out->cloned and
 * out->reply are set. */
void find_owner(const struct generation *generation, const struct generation_mta *mta,
    const struct delivery *delivery, struct judgement *out);

#endif

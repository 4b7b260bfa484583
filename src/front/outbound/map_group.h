/* SPDX-License-Identifier: ISC */
/*
 * Questions of a Sendmail that accepts mail: which queue group a recipient goes to
 * (conf/sendmail-queue.mc; wire/queue/group_key.h).  No I/O.
 */
#ifndef FRONT_MAP_GROUP_H
#define FRONT_MAP_GROUP_H

#include "engine/outbound/outbound.h"
#include "wire/ask/socketmap.h"

#define MAP_GROUP_ID_MAX	31

/* The message that a connection asks about: a process takes one after the other.  Zeros: none. */
struct map_group {
	char queue_id[MAP_GROUP_ID_MAX + 1];
	struct spread spread;
};

/* "OK mqueue", or "OK postern" and a number.  Returns the reply's length in `out`; 0: the key is
 * no such question, or this build has no managed queue. */
#ifdef WITH_QUEUE
size_t map_group_answer(struct map_group *group, const struct engine *engine,
    const struct generation *generation, uint8_t mta, const struct socketmap_request *request,
    char out[SOCKETMAP_REPLY_MAX]);
#else
#define map_group_answer(group, engine, generation, mta, request, out)	((size_t)0)
#endif

#endif

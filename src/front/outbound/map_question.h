/* SPDX-License-Identifier: ISC */
/*
 * What the requests of one socketmap connection mean: Sendmail's questions about
 * connections that it is about to make, or has made (conf/sendmail-outbound.mc;
 * wire/ask/outbound_key.h), or that a client has made (front/outbound/map_session.h), and the replies.
 * No I/O.
 */
#ifndef FRONT_MAP_QUESTION_H
#define FRONT_MAP_QUESTION_H

#include <sys/types.h>

#include "engine/engine.h"
#include "front/outbound/map_group.h"
#include "front/outbound/map_session.h"
#include "wire/ask/socketmap.h"

struct outbound_process;

/* Who is at the other end.  Sendmail opens one connection for each process and map. */
struct map_client {
	struct outbound_process *process;	/* NULL: not known, then nothing is counted */
	pid_t pid;
	int fd;					/* of the connection */
	uint8_t listener;			/* of the generation */
	struct map_session session;
	struct map_group group;
};

/* Is it about mail that leaves, so that the client's process is to be known first? */
bool map_question_is_outbound(const struct socketmap_request *request);

/* Answers one request.  Returns the reply's length in `out`.  Every answer to a
 * key of ours is "OK OK", "OK WAIT TEXT", "OK DEFER TEXT", "OK REFUSE TEXT" or "OK GROUP": what else
 * Sendmail would read it takes for no entry, and goes on. */
size_t map_question_answer(struct map_client *client, struct engine *engine,
    const struct generation *generation, const struct socketmap_request *request,
    int64_t now_ns, char out[SOCKETMAP_REPLY_MAX]);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * The session that a process of Sendmail has with a client: asked about over a socketmap
 * connection when the client has connected (conf/sendmail-connect.mc; wire/ask/inbound_key.h),
 * before the milter is.  A milter that tells of the same session joins it, so that it counts
 * once.  No I/O.
 */
#ifndef FRONT_MAP_SESSION_H
#define FRONT_MAP_SESSION_H

#include <sys/types.h>

#include "engine/engine.h"
#include "wire/ask/inbound_key.h"
#include "wire/ask/socketmap.h"

/* What a socketmap connection remembers of it.  All zero at its start. */
struct map_session {
	struct session_ref ref;		/* of the session that it told us about; slot 0: none */
	struct address client;
	uint16_t client_port;
};

/* Answers a question about a client; `fd` is the connection that it came by, of the
 * process `pid` (0: not known), on listener number `listener`.  Returns the reply's length in `out`: "OK OK", or
 * OK REFUSE "421 4.7.0 TEXT", one token for Sendmail, which takes off the quotes. */
size_t map_session_answer(struct map_session *session, struct engine *engine,
    const struct generation *generation, uint8_t listener, int fd, pid_t pid,
    const struct inbound_key *key, int64_t now_ns, char out[SOCKETMAP_REPLY_MAX]);

/* The process has ended. */
void map_session_over(struct map_session *session, struct engine *engine,
    const struct generation *generation, int64_t now_ns);

#endif

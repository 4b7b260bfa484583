/* SPDX-License-Identifier: ISC */
/*
 * What the requests of one policy connection mean: which SMTP session they are
 * about, what to ask the engine, and the reply.  No I/O.
 */
#ifndef FRONT_POLICY_SESSION_H
#define FRONT_POLICY_SESSION_H

#include "engine/engine.h"
#include "wire/ask/policy_request.h"

/* What a policy connection remembers.  All zero at its start.  SMTP sessions
 * follow each other on it, one at a time. */
struct policy_session {
	struct session_ref ref;		/* of the session that it told us about */
	struct address client;		/* that session's tuple as told ... */
	uint16_t client_port;
	struct address connected;	/* ... and as it was at CONNECT */
	uint16_t connected_port;
	uint32_t socket;		/* the MTA's end of it (engine_peer_socket) */
	bool is_known;			/* that was asked for */
	uint64_t account_process;	/* whose transaction accounts know; 0: none */
};

/* Answers one request, whose spans lie in `data`.  Returns the reply's length in
 * `out` (POLICY_REPLY_MAX bytes). */
size_t policy_session_answer(struct policy_session *session,
    struct engine *engine, const struct generation *generation,
    uint8_t listener, const char *data, const struct policy_request *request,
    int64_t now_ns, char *out);

/* The policy connection ended, and with it whatever session it held. */
void policy_session_over(struct policy_session *session, struct engine *engine,
    const struct generation *generation, int64_t now_ns);

#endif

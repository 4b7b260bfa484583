/* SPDX-License-Identifier: ISC */
/* Inbound sessions that a mail server tells of after the fact, in its log or over the
 * event socket: nobody waits for an answer, and no connection of ours stands for
 * the session. */
#ifndef ENGINE_TOLD_SESSIONS_H
#define ENGINE_TOLD_SESSIONS_H

#include "engine/engine.h"

/* The session of question's client, port and server is said to be over.  As with a
 * policy connection's word the witness decides where it can see the session.  `said_ns`:
 * when that was said; a session that was opened later is another one. */
void engine_session_gone(struct engine *engine, const struct generation *generation,
    const struct question *question, int64_t said_ns, int64_t now_ns);

#endif

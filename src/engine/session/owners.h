/* SPDX-License-Identifier: ISC */
/*
 * The mail server's own end of a policy or milter connection, by which the end of a
 * session is seen though the role that it was told to is gone.  The server's process keeps
 * that end for as long as the session lasts; a milter's is closed with the session, a
 * policy check's as soon as the process is idle and finds our end closed, or when it asks
 * again.
 */
#ifndef ENGINE_OWNERS_H
#define ENGINE_OWNERS_H

#include "engine/session/witness_internal.h"

/* Closer together, two looks at a policy connection count as one: a process that asks again
 * closes the one just before it opens the other. */
#define OWNERS_APART_NS	(200 * NS_PER_MS)

/* Once in each dump, before its sessions. */
void owners_begin(struct dump *dump);

/* A session that a role held which is gone: ended, where the server's end of its connection
 * is gone too.  `is_shown`: the dump has its connection, and so the kernel tells its end.
 * True: it was ended. */
bool owners_look(struct dump *dump, uint32_t slot, const struct session *session,
    bool is_shown);

/* Does the server's end of a connection speak for the session, and can it be seen? */
bool owners_see(const struct witness *witness, const struct session *session,
    int64_t now_ns);

/* Is it time for the second look at a policy connection that was gone at the first? */
bool owners_want_look(const struct witness *witness, int64_t now_ns);

#endif

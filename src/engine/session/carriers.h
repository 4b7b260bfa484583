/* SPDX-License-Identifier: ISC */
/*
 * Proxies, as their connections show them.  HAProxy's protocol gives a session the client's
 * address, and the kernel's table shows the proxy's: a connection that nobody announces,
 * however long it lasts.  Such ones are not adopted: their sessions are counted already.
 * Up to SEGMENT_CARRIERS pairs of address and service port; the one seen longest ago makes
 * room.  The keeper's one thread.
 */
#ifndef ENGINE_CARRIERS_H
#define ENGINE_CARRIERS_H

#include "engine/session/witness_internal.h"

/* A live connection without a session, known since first_seen_ns. */
void carriers_note(struct witness *witness, const struct generation *generation,
    const struct connection *connection, int64_t first_seen_ns, int64_t now_ns);

/* An inbound session that a dump did not show. */
void carriers_look(struct witness *witness, const struct session *session, int64_t now_ns);

/* Connections of this address to this port are announced after all. */
void carriers_forget(struct witness *witness, const struct address *address,
    uint16_t port);

bool carriers_have(const struct witness *witness, const struct address *address,
    uint16_t port);

#endif

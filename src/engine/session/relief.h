/* SPDX-License-Identifier: ISC */
/* What a role's own look at the kernel is asked for, beside relief_seek. */
#ifndef ENGINE_RELIEF_H
#define ENGINE_RELIEF_H

#include "engine/internal.h"
#include "engine/session/witness.h"

/* As witness_calls.socket.  Any thread. */
enum lookup_result relief_socket(struct relief *relief, uint32_t inode, uint32_t *peer);

/* The same for a connection (witness_calls.lookup). */
enum lookup_result relief_lookup(struct relief *relief, const struct connection *which,
    struct connection *found);

#endif

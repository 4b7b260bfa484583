/* SPDX-License-Identifier: ISC */
/*
 * Live connections that no front end has asked about, and since when each is
 * known: what adoption is decided from.  Bounded; of one keeper's life.
 */
#ifndef ENGINE_UNANNOUNCED_H
#define ENGINE_UNANNOUNCED_H

#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"
#include "engine/session/witness.h"

struct unannounced;

/* Room for `capacity` connections; NULL: no memory. */
struct unannounced *unannounced_open(size_t capacity,
    const struct siphash_key *key);
void unannounced_close(struct unannounced **unannounced);

/* A dump begins to be looked at: what it does not show will be forgotten. */
void unannounced_begin(struct unannounced *unannounced);

/* The dump shows this one.  Returns when a dump first did, or INT64_MAX when
 * there is no room to remember it. */
int64_t unannounced_note(struct unannounced *unannounced,
    const struct connection *connection, int64_t now_ns);

#endif

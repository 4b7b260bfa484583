/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Memory of unannounced connections.
 * MODEL    Two maps: that of the dump before, and that which this dump fills.  What is not
 *          noted again is thereby forgotten, and what the kernel says has ended.  A
 *          connection's hash, which is keyed, is taken for the connection.
 * THREADS  The keeper's one.
 */
#include "engine/session/witness_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

struct ends {
	struct address client;
	struct address server;
	uint16_t client_port;
	uint16_t server_port;
};
_Static_assert(sizeof(struct ends) == 36, "no padding: it is hashed");

struct unannounced {
	struct map maps[2];
	unsigned current;	/* the one that is being filled */
	uint32_t capacity;
	struct siphash_key key;
};

struct unannounced *unannounced_open(size_t capacity,
    const struct siphash_key *key) {
	struct unannounced *unannounced = calloc(1, sizeof(*unannounced));

	if (unannounced == NULL)
		return NULL;
	unannounced->capacity = (uint32_t)capacity;
	unannounced->key = *key;
	for (unsigned i = 0; i < 2; i++)
		if (!map_reserve(&unannounced->maps[i], unannounced->capacity)) {
			unannounced_close(&unannounced);
			return NULL;
		}
	return unannounced;
}

void unannounced_close(struct unannounced **unannounced) {
	if (*unannounced == NULL)
		return;
	map_free(&(*unannounced)->maps[0]);
	map_free(&(*unannounced)->maps[1]);
	free(*unannounced);
	*unannounced = NULL;
}

void unannounced_begin(struct unannounced *unannounced) {
	unannounced->current ^= 1;
	map_clear(&unannounced->maps[unannounced->current]);
}

static uint64_t hash_of(const struct unannounced *unannounced,
    const struct connection *connection) {
	const struct ends ends = { .client = connection->client,
		.server = connection->server,
		.client_port = connection->client_port,
		.server_port = connection->server_port };

	return siphash13(&unannounced->key, &ends, sizeof(ends));
}

void unannounced_forget(struct unannounced *unannounced, const struct connection *connection) {
	uint64_t hash = hash_of(unannounced, connection);

	for (unsigned i = 0; i < 2; i++) {
		struct map_cell *cell = map_find(&unannounced->maps[i], hash);

		if (cell != NULL)
			map_remove(&unannounced->maps[i], cell);
	}
}

int64_t unannounced_note(struct unannounced *unannounced,
    const struct connection *connection, int64_t now_ns) {
	struct map *map = &unannounced->maps[unannounced->current];
	uint64_t hash = hash_of(unannounced, connection);
	const struct map_cell *earlier;
	struct map_cell *cell;

	if (connection->server_port == 0)
		return INT64_MAX;
	cell = map_find(map, hash);
	if (cell != NULL)
		return cell->time_ns;
	if (map->count >= unannounced->capacity)
		return INT64_MAX;
	earlier = map_find(&unannounced->maps[unannounced->current ^ 1], hash);
	cell = map_add(map, hash);
	if (cell == NULL)
		return INT64_MAX;
	cell->time_ns = earlier != NULL ? earlier->time_ns : now_ns;
	return cell->time_ns;
}

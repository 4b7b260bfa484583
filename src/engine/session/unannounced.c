/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Memory of unannounced connections.
 * MODEL    Two open-addressing tables: that of the dump before, and that which
 *          this dump fills.  What is not noted again is thereby forgotten.
 * THREADS  The keeper's one.
 */
#include "engine/session/unannounced.h"

#include <stdlib.h>
#include <string.h>

struct entry {
	struct address client;
	struct address server;
	uint16_t client_port;
	uint16_t server_port;	/* 0: the entry is free */
	uint32_t reserved;
	int64_t first_seen_ns;
};
_Static_assert(sizeof(struct entry) == 48, "no padding within the hashed part");
#define HASHED_BYTES offsetof(struct entry, reserved)

struct table {
	struct entry *entries;
	size_t count;
};

struct unannounced {
	struct table tables[2];
	unsigned current;	/* the one that is being filled */
	size_t capacity;
	size_t mask;		/* of both: entries - 1 */
	struct siphash_key key;
};

struct unannounced *unannounced_open(size_t capacity,
    const struct siphash_key *key) {
	struct unannounced *unannounced = calloc(1, sizeof(*unannounced));
	size_t size = 16;

	if (unannounced == NULL)
		return NULL;
	while (size < 2 * capacity)
		size *= 2;
	unannounced->capacity = capacity;
	unannounced->mask = size - 1;
	unannounced->key = *key;
	for (unsigned i = 0; i < 2; i++) {
		unannounced->tables[i].entries =
		    calloc(size, sizeof(struct entry));
		if (unannounced->tables[i].entries == NULL) {
			unannounced_close(&unannounced);
			return NULL;
		}
	}
	return unannounced;
}

void unannounced_close(struct unannounced **unannounced) {
	if (*unannounced == NULL)
		return;
	free((*unannounced)->tables[0].entries);
	free((*unannounced)->tables[1].entries);
	free(*unannounced);
	*unannounced = NULL;
}

void unannounced_begin(struct unannounced *unannounced) {
	struct table *table;

	unannounced->current ^= 1;
	table = &unannounced->tables[unannounced->current];
	if (table->count != 0)
		memset(table->entries, 0,
		    (unannounced->mask + 1) * sizeof(struct entry));
	table->count = 0;
}

/* The entry of this connection, or the free one where it belongs. */
static struct entry *find(const struct unannounced *unannounced,
    const struct table *table, const struct entry *wanted) {
	size_t at = (size_t)siphash13(&unannounced->key, wanted, HASHED_BYTES) &
	    unannounced->mask;

	/* at most half of the entries are ever in use */
	while (table->entries[at].server_port != 0 &&
	    memcmp(&table->entries[at], wanted, HASHED_BYTES) != 0)
		at = (at + 1) & unannounced->mask;
	return &table->entries[at];
}

int64_t unannounced_note(struct unannounced *unannounced,
    const struct connection *connection, int64_t now_ns) {
	struct table *table = &unannounced->tables[unannounced->current];
	const struct table *before = &unannounced->tables[unannounced->current ^ 1];
	struct entry wanted = { .client = connection->client,
		.server = connection->server,
		.client_port = connection->client_port,
		.server_port = connection->server_port,
		.first_seen_ns = now_ns };
	const struct entry *earlier;
	struct entry *entry;

	if (wanted.server_port == 0)
		return INT64_MAX;
	entry = find(unannounced, table, &wanted);
	if (entry->server_port != 0)
		return entry->first_seen_ns;
	if (table->count >= unannounced->capacity)
		return INT64_MAX;
	earlier = find(unannounced, before, &wanted);
	if (earlier->server_port != 0)
		wanted.first_seen_ns = earlier->first_seen_ns;
	*entry = wanted;
	table->count++;
	return wanted.first_seen_ns;
}

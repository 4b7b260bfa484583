/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Which messages wait for which destinations.
 * MODEL    Entries and destinations stand in arrays as large as they may be, of which what was
 *          never used is no memory, each found by a map; an entry knows its position in the list of its place.  Due ones are a
 *          heap by the time of arrival.
 * ERRORS   No room, no memory: the entry is not made, or stays where it is.
 * THREADS  One.
 */
#include "engine/requeue/requeue_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"

/* --- lists ------------------------------------------------------------------------- */

/* There are many of few: they begin small. */
static bool reserve(struct requeue_list *list) {
	uint32_t size = list->size == 0 ? 8 : 2 * list->size;
	uint32_t *larger;

	if (list->count < list->size)
		return true;
	larger = reallocarray(list->entries, size, sizeof(*larger));
	if (larger == NULL)
		return false;
	list->entries = larger;
	list->size = size;
	return true;
}

static struct requeue_list *list_of(const struct requeue_store *store,
    const struct requeue_entry *entry) {
	return &store->destinations[entry->destination].places[entry->place];
}

static void put(struct requeue_store *store, struct requeue_list *list, uint32_t at,
    uint32_t entry) {
	list->entries[at] = entry;
	store->entries[entry].position = at;
}

bool requeue_is_older(const struct requeue_store *store, uint32_t a, uint32_t b) {
	return store->entries[a].arrival_ns < store->entries[b].arrival_ns;
}

static void sift_up(struct requeue_store *store, struct requeue_list *list, uint32_t at) {
	uint32_t entry = list->entries[at];

	while (at > 0 && requeue_is_older(store, entry, list->entries[(at - 1) / 2])) {
		put(store, list, at, list->entries[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	put(store, list, at, entry);
}

static void sift_down(struct requeue_store *store, struct requeue_list *list, uint32_t at) {
	uint32_t entry = list->entries[at];

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= list->count)
			break;
		if (child + 1 < list->count &&
		    requeue_is_older(store, list->entries[child + 1], list->entries[child]))
			child++;
		if (!requeue_is_older(store, list->entries[child], entry))
			break;
		put(store, list, at, list->entries[child]);
		at = child;
	}
	put(store, list, at, entry);
}

/* There is room. */
static void insert(struct requeue_store *store, uint32_t entry) {
	struct requeue_list *list = list_of(store, &store->entries[entry]);

	put(store, list, list->count++, entry);
	if (store->entries[entry].place == REQUEUE_DUE)
		sift_up(store, list, list->count - 1);
}

static void take_out(struct requeue_store *store, uint32_t entry) {
	const struct requeue_entry *e = &store->entries[entry];
	struct requeue_list *list = list_of(store, e);
	uint32_t at = e->position, last = list->entries[--list->count];

	if (at == list->count)
		return;
	put(store, list, at, last);
	if (e->place == REQUEUE_DUE) {
		sift_up(store, list, at);
		sift_down(store, list, store->entries[last].position);
	}
}

/* --- hashes ------------------------------------------------------------------------ */

static uint64_t hash_of(const struct requeue_store *store, const char *text,
    size_t length, unsigned mta) {
	const struct siphash_key key = { store->salt, mta };

	return siphash13(&key, text, length);
}

static bool is_name(const char *name, const char *text, size_t length) {
	return strncmp(name, text, length) == 0 && name[length] == '\0';
}

static uint64_t id_hash(const struct requeue_store *store, const struct requeue_entry *entry) {
	return hash_of(store, entry->id, strlen(entry->id), entry->mta);
}

uint32_t requeue_find_destination(const struct requeue_store *store, const char *name,
    size_t length) {
	const struct map_cell *cell;

	if (length > SEGMENT_NAME_MAX)
		return REQUEUE_NONE;
	cell = map_find(&store->by_name, hash_of(store, name, length, 0));
	while (cell != NULL && !is_name(store->destinations[cell->index].name, name, length))
		cell = map_next(&store->by_name, cell);
	return cell == NULL ? REQUEUE_NONE : cell->index;
}

uint32_t requeue_find_any(const struct requeue_store *store, unsigned mta, const char *id,
    size_t length, uint32_t after) {
	const struct map_cell *cell;
	uint64_t hash;

	if (length > REQUEUE_ID_MAX)
		return REQUEUE_NONE;
	hash = hash_of(store, id, length, mta);
	cell = after == REQUEUE_NONE ? map_find(&store->by_id, hash) :
	    map_next(&store->by_id, map_find_index(&store->by_id, hash, after));
	while (cell != NULL && (store->entries[cell->index].mta != mta ||
		!is_name(store->entries[cell->index].id, id, length)))
		cell = map_next(&store->by_id, cell);
	return cell == NULL ? REQUEUE_NONE : cell->index;
}

uint32_t requeue_find(const struct requeue_store *store, unsigned mta, const char *id,
    size_t length, uint32_t destination) {
	uint32_t at = requeue_find_any(store, mta, id, length, REQUEUE_NONE);

	while (at != REQUEUE_NONE && store->entries[at].destination != destination)
		at = requeue_find_any(store, mta, id, length, at);
	return at;
}

/* --- destinations ------------------------------------------------------------------ */

/* A number that is not in use; REQUEUE_NONE: no room. */
static uint32_t spare_destination(struct requeue_store *store) {
	uint32_t at = store->free_destination;

	if (at != REQUEUE_NONE)
		store->free_destination = store->destinations[at].next_free;
	else if (store->destination_end < REQUEUE_DESTINATIONS_MAX)
		at = store->destination_end++;
	return at;
}

uint32_t requeue_make_destination(struct requeue_store *store, const char *name,
    size_t length) {
	uint32_t at = requeue_find_destination(store, name, length);

	if (at != REQUEUE_NONE || length == 0 || length > SEGMENT_NAME_MAX)
		return at;
	if (!map_reserve(&store->by_name, store->destination_count + 1))
		return REQUEUE_NONE;
	at = spare_destination(store);
	if (at == REQUEUE_NONE)
		return at;
	map_add(&store->by_name, hash_of(store, name, length, 0))->index = at;
	store->destinations[at] = (struct requeue_destination){ .used = true };
	memcpy(store->destinations[at].name, name, length);
	store->destination_count++;
	return at;
}

void requeue_drop_destination(struct requeue_store *store, uint32_t destination) {
	struct requeue_destination *d = &store->destinations[destination];

	if (requeue_held(d) > 0)
		return;
	map_remove(&store->by_name, map_find_index(&store->by_name,
	    hash_of(store, d->name, strlen(d->name), 0), destination));
	for (unsigned i = 0; i < REQUEUE_PLACES; i++)
		free(d->places[i].entries);
	*d = (struct requeue_destination){ .next_free = store->free_destination };
	store->free_destination = destination;
	store->destination_count--;
}

/* --- entries ----------------------------------------------------------------------- */

static uint32_t spare_entry(struct requeue_store *store) {
	uint32_t at = store->free_entry;

	if (at != REQUEUE_NONE)
		store->free_entry = store->entries[at].next_free;
	else if (store->entry_end < REQUEUE_ENTRIES_MAX)
		at = store->entry_end++;
	return at;
}

uint32_t requeue_add(struct requeue_store *store, unsigned mta, const char *id,
    size_t length, uint32_t destination, int64_t arrival_ns) {
	struct requeue_list *list = &store->destinations[destination].places[REQUEUE_WAITING];
	uint32_t at;

	if (length == 0 || length > REQUEUE_ID_MAX || !reserve(list) ||
	    !map_reserve(&store->by_id, store->entry_count + 1))
		return REQUEUE_NONE;
	at = spare_entry(store);
	if (at == REQUEUE_NONE)
		return at;
	store->entries[at] = (struct requeue_entry){ .mta = mta & 0x1f,
		.destination = destination, .arrival_ns = arrival_ns };
	memcpy(store->entries[at].id, id, length);
	map_add(&store->by_id, id_hash(store, &store->entries[at]))->index = at;
	store->entry_count++;
	insert(store, at);
	return at;
}

void requeue_remove(struct requeue_store *store, uint32_t entry) {
	struct requeue_entry *e = &store->entries[entry];

	take_out(store, entry);
	map_remove(&store->by_id, map_find_index(&store->by_id, id_hash(store, e), entry));
	e->next_free = store->free_entry;
	e->id[0] = '\0';
	store->free_entry = entry;
	store->entry_count--;
}

bool requeue_move(struct requeue_store *store, uint32_t entry, enum requeue_place place) {
	struct requeue_entry *e = &store->entries[entry];

	if (e->place == place)
		return true;
	if (!reserve(&store->destinations[e->destination].places[place]))
		return false;
	take_out(store, entry);
	if (e->place == REQUEUE_OUT)
		e->addresses = 0;
	e->place = place & 0x7;
	insert(store, entry);
	return true;
}

bool requeue_store_open(struct requeue_store *store, uint64_t salt) {
	*store = (struct requeue_store){ .salt = salt, .free_entry = REQUEUE_NONE,
		.free_destination = REQUEUE_NONE };
	store->entries = calloc(REQUEUE_ENTRIES_MAX, sizeof(*store->entries));
	store->destinations = calloc(REQUEUE_DESTINATIONS_MAX, sizeof(*store->destinations));
	if (store->entries != NULL && store->destinations != NULL)
		return true;
	requeue_store_close(store);
	return false;
}

void requeue_store_close(struct requeue_store *store) {
	for (uint32_t i = 0; store->destinations != NULL && i < store->destination_end; i++)
		for (unsigned place = 0; place < REQUEUE_PLACES; place++)
			free(store->destinations[i].places[place].entries);
	free(store->entries);
	free(store->destinations);
	map_free(&store->by_id);
	map_free(&store->by_name);
	*store = (struct requeue_store){ .entries = NULL };
}

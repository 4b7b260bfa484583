/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Who said what of a destination.
 * MODEL    An entry for each destination of which any node said something, found by the
 *          hash that the segment uses; in it a record of each node.  Of what is put into
 *          the segment, and what was found there, the entry keeps a copy to compare with.
 * ERRORS   No room: what is said is passed over, and counted.  No room in the segment: it is
 *          tried again each time that all was heard.
 * THREADS  One.
 */
#include "engine/cluster/knowledge_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"
#include "base/text.h"

#define LOOKS_FOR_ROOM	64
#define RENEWALS_A_TURN	16
#define APPLIED_A_TURN	256
#define RENEW_NS	(86400 * NS_PER_SECOND)
#define LIVE_MS		(INT64_C(7) * 86400 * 1000)	/* of what has no end */
#define LIVE_MORE_MS	(INT64_C(3600) * 1000)
#define LIVE_MOST_MS	(INT64_C(400) * 86400 * 1000)
/* Of what changes often: between two writes. */
#define PAUSE_NS	(300 * NS_PER_MS)

/* For its stamps: the same wherever it runs. */
static unsigned node_of(const char *name) {
	static const struct siphash_key key = { UINT64_C(0x706f737465726e2e),
		UINT64_C(0x6e6f64652e6e616d) };

	return (unsigned)(siphash13(&key, name, strlen(name)) % KNOWLEDGE_NODES_MAX);
}

int knowledge_open(struct knowledge_store **result, struct engine *engine, const char *node,
    struct diag *diag) {
	struct knowledge_store *store = calloc(1, sizeof(*store));

	*result = NULL;
	if (store == NULL)
		return diag_set(diag, 0, "no memory for the destinations of the cluster");
	store->engine = engine;
	text_copy(store->node, sizeof(store->node), node, strlen(node));
	shared_forget_nodes(engine->segment);
	store->own = shared_node_own(engine->segment, node, strlen(node));
	if (store->own == 0) {
		free(store);
		return diag_set(diag, 0, "no room for the name of this node");
	}
	store->stamp_node = node_of(node);
	*result = store;
	return 0;
}

void knowledge_close(struct knowledge_store **result) {
	struct knowledge_store *store = *result;

	if (store == NULL)
		return;
	for (uint32_t i = 0; i < store->count; i++)
		free(store->entries[i].told);
	map_free(&store->places);
	free(store->entries);
	free(store);
	*result = NULL;
}

/* --- names ------------------------------------------------------------------------------ */

/* "[127.0.0.1]:10024" is another one on each machine. */
static bool is_loopback(const char *name) {
	static const char *const kinds[] = { "127.0.0.0/8", "::1/128", "0.0.0.0/8", "::/128" };
	const char *end = strchr(name, ']'), *why;
	struct address address;
	struct prefix prefix;

	if (end == NULL || !address_parse(name + 1, (size_t)(end - name) - 1, &address))
		return true;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (prefix_parse(kinds[i], strlen(kinds[i]), &prefix, &why) &&
		    prefix_contains(&prefix, &address))
			return true;
	return false;
}

bool knowledge_is_shared(const struct generation *generation, const char *name, size_t length,
    struct window_owner *owner) {
	char domain[JUDGE_NAME_MAX + 1];
	const char *bare;

	if (!windows_owner_named(generation, name, length, owner) ||
	    strncmp(owner->name, WINDOW_CLASS_PREFIX, strlen(WINDOW_CLASS_PREFIX)) == 0)
		return false;
	bare = owner->name + generation_transport_prefix(owner->name, strlen(owner->name));
	switch (owner->kind) {
	case DESTINATION_RELAY:
		return !is_loopback(bare);
	case DESTINATION_PROVIDER:
		return owner->provider != JUDGE_NONE;
	case DESTINATION_DOMAIN:
		return judge_domain((struct span){ bare, strlen(bare) }, domain);
	default:
		return false;
	}
}

bool knowledge_tells_of(const struct generation *generation, const char *name, size_t length) {
	struct window_owner owner;

	return knowledge_is_shared(generation, name, length, &owner);
}

/* --- entries ----------------------------------------------------------------------------- */

void knowledge_put(const struct knowledge_entry *entry, int64_t now_ns,
    struct knowledge *out) {
	struct knowledge_record records[KNOWLEDGE_NODES_MAX];
	size_t count = 0;

	for (; count < entry->count; count++)
		records[count] = entry->told[count].record;
	knowledge_merge(records, count, now_ns, out);
}

const struct knowledge_told *knowledge_origin(const struct knowledge_entry *entry,
    uint64_t stamp) {
	for (unsigned i = 0; i < entry->count && stamp != 0; i++) {
		const struct knowledge_record *r = &entry->told[i].record;

		if (r->manual.stamp == stamp || r->learned.stamp == stamp ||
		    r->ceiling.stamp == stamp)
			return &entry->told[i];
	}
	return NULL;
}

void knowledge_set_dirty(struct knowledge_store *store, struct knowledge_entry *entry) {
	store->dirties += !entry->dirty;
	entry->dirty = true;
}

static void set_clean(struct knowledge_store *store, struct knowledge_entry *entry) {
	store->dirties -= entry->dirty;
	entry->dirty = false;
}

void knowledge_set_applies(struct knowledge_store *store, struct knowledge_entry *entry,
    bool applies) {
	store->applies += applies;
	store->applies -= entry->applies;
	entry->applies = applies;
}

void knowledge_set_unplaced(struct knowledge_store *store, struct knowledge_entry *entry,
    bool unplaced) {
	store->unplaced += unplaced;
	store->unplaced -= entry->unplaced;
	entry->unplaced = unplaced;
}

/* Nothing of it is in force any more. */
static bool is_idle(const struct knowledge_store *store, const struct knowledge_entry *entry) {
	struct knowledge m;

	/* a configured limit needs no entry while nothing of it is leased; and what another's
	 * resume left here is not to be taken for one of ours */
	if (store->now_ns - entry->stand.resumed_ns < KNOWLEDGE_FRESH_NS || entry->dirty ||
	    entry->applies || knowledge_is_counted(entry) || entry->here != 0)
		return false;
	knowledge_put(entry, store->now_ns, &m);
	return m.state == KNOWLEDGE_NONE && m.ceiling == 0;
}

static void give_up(struct knowledge_store *store, struct knowledge_entry *entry) {
	map_remove_hash(&store->places, entry->hash);
	shared_drop(store->engine->segment, entry->hash);
	free(entry->told);
	store->records -= entry->count;
	store->used--;
	knowledge_set_unplaced(store, entry, false);
	*entry = (struct knowledge_entry){ .life = entry->life };
}

/* One that is done with, of a few. */
static struct knowledge_entry *make_room(struct knowledge_store *store) {
	for (unsigned looks = 0; looks < LOOKS_FOR_ROOM && store->count > 0; looks++) {
		struct knowledge_entry *entry = &store->entries[store->hand++ % store->count];

		if (entry->name[0] != '\0' && !is_idle(store, entry))
			continue;
		if (entry->name[0] != '\0')
			give_up(store, entry);
		return entry;
	}
	return NULL;
}

static struct knowledge_entry *new_place(struct knowledge_store *store) {
	uint32_t size = store->size == 0 ? 64 : 2 * store->size;
	struct knowledge_entry *list;

	if (store->count == KNOWLEDGE_DESTINATIONS)
		return make_room(store);
	if (store->count == store->size) {
		if (size > KNOWLEDGE_DESTINATIONS)
			size = KNOWLEDGE_DESTINATIONS;
		list = reallocarray(store->entries, size, sizeof(*list));
		if (list == NULL)
			return NULL;
		memset(list + store->size, 0, (size - store->size) * sizeof(*list));
		store->entries = list;
		store->size = size;
	}
	return &store->entries[store->count++];
}

struct knowledge_entry *knowledge_entry(struct knowledge_store *store, const char *name,
    bool make) {
	struct knowledge_entry *entry;
	struct state_key key;
	uint32_t index;

	if (!states_key(store->engine->segment, name, strlen(name), &key))
		return NULL;
	index = map_index(&store->places, key.hash);
	if (index != NO_INDEX)
		return &store->entries[index];
	if (!make)
		return NULL;
	entry = new_place(store);
	if (entry == NULL || !map_set_index(&store->places, key.hash,
	    (uint32_t)(entry - store->entries))) {
		engine_count(store->engine, COUNTER_KNOWLEDGE_UNSHARED, 1);
		return NULL;
	}
	*entry = (struct knowledge_entry){ .hash = key.hash, .life = entry->life + 1,
		.used_ns = store->now_ns };
	text_copy(entry->name, sizeof(entry->name), name, strlen(name));
	store->used++;
	return entry;
}

static struct knowledge_told *insert(struct knowledge_store *store,
    struct knowledge_entry *entry, unsigned node) {
	char name[SHARED_NODE_NAME_MAX + 1], other[SHARED_NODE_NAME_MAX + 1];
	struct knowledge_told *list = entry->told;
	unsigned at = 0;

	(void)shared_node_name(store->engine->segment, node, name);
	while (at < entry->count && strcmp(shared_node_name(store->engine->segment,
	    list[at].node, other), name) < 0)
		at++;
	memmove(&list[at + 1], &list[at], (entry->count - at) * sizeof(*list));
	memset(&list[at], 0, sizeof(*list));
	list[at].node = (uint8_t)node;
	entry->count++;
	return &list[at];
}

struct knowledge_told *knowledge_record_of(struct knowledge_store *store,
    struct knowledge_entry *entry, unsigned node, bool make) {
	struct knowledge_told *list;

	for (unsigned i = 0; i < entry->count; i++)
		if (entry->told[i].node == node)
			return &entry->told[i];
	if (!make)
		return NULL;
	if (entry->count == KNOWLEDGE_NODES_MAX || store->records >= KNOWLEDGE_RECORDS) {
		engine_count(store->engine, COUNTER_KNOWLEDGE_UNSHARED, 1);
		return NULL;
	}
	if (entry->count == entry->size) {
		unsigned size = entry->size == 0 ? 2 : 2u * entry->size;

		list = reallocarray(entry->told, size, sizeof(*list));
		if (list == NULL)
			return NULL;
		entry->told = list;
		entry->size = (uint8_t)size;
	}
	store->records++;
	return insert(store, entry, node);
}

/* --- from others --------------------------------------------------------------------------- */

/* Part by part: what was overtaken on its way, or comes again, changes nothing. */
static bool join(struct knowledge_told *known, const struct knowledge_told *told) {
	struct knowledge_record before = known->record;

	if (!knowledge_join(&known->record, &told->record))
		return false;
	if (before.manual.stamp != known->record.manual.stamp) {
		known->manual_id = told->manual_id;
		memcpy(known->manual_reason, told->manual_reason, sizeof(known->manual_reason));
	}
	if (before.learned.stamp != known->record.learned.stamp) {
		known->learned_id = told->learned_id;
		known->learned_by = told->learned_by;
		memcpy(known->learned_reason, told->learned_reason,
		    sizeof(known->learned_reason));
	}
	return true;
}

/* What an earlier life of ours wrote, or what we wrote.  The others go by it: where the state
 * was lost, so do we again. */
static void hear_own(struct knowledge_store *store, struct knowledge_entry *entry,
    const struct knowledge_told *told) {
	struct knowledge_told *own = knowledge_record_of(store, entry, store->own, true);
	struct knowledge_record written = told->record;

	if (own == NULL)
		return;
	entry->listed = true;
	if (join(own, told))
		knowledge_set_applies(store, entry, true);
	if (knowledge_join(&written, &own->record))
		knowledge_set_dirty(store, entry);
}

enum knowledge_heard knowledge_hear(struct knowledge_store *store,
    const struct generation *generation, const char *node, size_t node_length,
    const char *name, size_t name_length, const struct knowledge_told *told,
    int64_t now_ns) {
	uint64_t stamp = knowledge_stamp(&told->record);
	struct knowledge_told *known;
	struct knowledge_entry *entry;
	struct window_owner owner;
	unsigned number;

	store->now_ns = now_ns;
	if (!knowledge_is_shared(generation, name, name_length, &owner))
		return KNOWLEDGE_BAD_NAME;
	if (stamp > store->last_stamp + KNOWLEDGE_STAMP_AHEAD)
		return KNOWLEDGE_BAD_STAMP;
	number = shared_node(store->engine->segment, node, node_length);
	if (number == 0)
		return KNOWLEDGE_BAD_NODE;
	if (stamp > store->last_stamp)
		store->last_stamp = stamp;
	entry = knowledge_entry(store, owner.name, true);
	if (entry == NULL)
		return KNOWLEDGE_NO_ROOM;
	entry->used_ns = now_ns;
	if (number == store->own) {
		hear_own(store, entry, told);
		return KNOWLEDGE_TAKEN;
	}
	known = knowledge_record_of(store, entry, number, true);
	if (known == NULL)
		return KNOWLEDGE_NO_ROOM;
	if (join(known, told))
		knowledge_set_applies(store, entry, true);
	return KNOWLEDGE_TAKEN;
}

void knowledge_begin_hearing(struct knowledge_store *store) {
	for (uint32_t i = 0; i < store->count; i++)
		store->entries[i].listed = false;
}

void knowledge_heard_all(struct knowledge_store *store, bool all, int64_t now_ns) {
	store->now_ns = now_ns;
	if (!store->heard) {
		store->heard = true;
		store->heard_ns = now_ns;
		states_mark_all(store->engine->segment, STATES_UNSHARED);
	}
	for (uint32_t i = 0; (all || store->unplaced > 0) && i < store->count; i++) {
		struct knowledge_entry *entry = &store->entries[i];

		/* there may be room now */
		if (entry->unplaced)
			knowledge_set_applies(store, entry, true);
		if (all && entry->name[0] != '\0' && !entry->listed &&
		    knowledge_record_of(store, entry, store->own, false) != NULL)
			knowledge_set_dirty(store, entry);
	}
}

/* --- to others ------------------------------------------------------------------------------ */

/* How long what we say matters. */
static int64_t live_ms(const struct knowledge_record *r, int64_t now_ns) {
	int64_t until_ns = 0, left;

	if (r->ceiling.stamp != 0 || r->raised.stamp != 0 ||
	    (r->manual.stamp != 0 && r->manual.what == KNOWLEDGE_RESUME))
		until_ns = now_ns + LIVE_MS * NS_PER_MS;
	if (r->manual.stamp != 0 && r->manual.what != KNOWLEDGE_RESUME) {
		if (r->manual.until_ns == INT64_MAX)
			until_ns = now_ns + LIVE_MS * NS_PER_MS;
		else if (r->manual.until_ns > until_ns)
			until_ns = r->manual.until_ns;
	}
	if (r->learned.stamp != 0 && r->learned.until_ns > until_ns)
		until_ns = r->learned.until_ns;
	left = until_ns <= now_ns ? 0 : (until_ns - now_ns) / NS_PER_MS;
	return left + LIVE_MORE_MS < LIVE_MOST_MS ? left + LIVE_MORE_MS : LIVE_MOST_MS;
}

bool knowledge_next(struct knowledge_store *store, int64_t now_ns, struct knowledge_own *out) {
	for (uint32_t looks = 0; store->dirties > 0 && looks < store->count; looks++) {
		uint32_t index = store->next_dirty++ % store->count;
		struct knowledge_entry *entry = &store->entries[index];
		const struct knowledge_told *own;

		if (!entry->dirty || now_ns - entry->sent_ns < PAUSE_NS)
			continue;
		set_clean(store, entry);
		own = knowledge_record_of(store, entry, store->own, false);
		if (own == NULL)
			continue;
		entry->sent_ns = now_ns;
		*out = (struct knowledge_own){ .name = entry->name, .told = own,
			.live_ms = live_ms(&own->record, now_ns), .entry = index,
			.life = entry->life };
		return true;
	}
	return false;
}

void knowledge_again(struct knowledge_store *store, uint32_t index, uint32_t life,
    int64_t now_ns) {
	(void)now_ns;
	if (index < store->count && store->entries[index].life == life &&
	    store->entries[index].name[0] != '\0')
		knowledge_set_dirty(store, &store->entries[index]);
}

/* What is in force for long is written again before it is forgotten there. */
static void renew(struct knowledge_store *store, int64_t now_ns) {
	for (unsigned i = 0; i < RENEWALS_A_TURN && store->count > 0; i++) {
		struct knowledge_entry *entry =
		    &store->entries[store->next_renewed++ % store->count];

		if (entry->name[0] != '\0' && !entry->dirty &&
		    now_ns - entry->sent_ns > RENEW_NS && !is_idle(store, entry) &&
		    knowledge_record_of(store, entry, store->own, false) != NULL)
			knowledge_set_dirty(store, entry);
	}
}

static void begin(struct knowledge_store *store) {
	if (store->begun)
		return;
	store->begun = true;
	knowledge_pools_begin(store);
	states_mark_all(store->engine->segment, STATES_UNSHARED);
}

void knowledge_turn(struct knowledge_store *store, const struct generation *generation,
    int64_t now_ns) {
	unsigned applied = 0;

	store->now_ns = now_ns;
	store->generation = generation;
	begin(store);
	/* a Redis that was never reached tells nobody to take all of a ceiling */
	if (!store->heard) {
		knowledge_look_alone(store, now_ns);
		knowledge_pools_turn(store, now_ns);
		return;
	}
	knowledge_look(store, now_ns);
	for (uint32_t i = 0; store->applies > 0 && i < store->count &&
	     applied < APPLIED_A_TURN; i++) {
		if (!store->entries[i].applies)
			continue;
		knowledge_apply(store, &store->entries[i], now_ns);
		applied++;
	}
	renew(store, now_ns);
	knowledge_pools_turn(store, now_ns);
}

void knowledge_count(const struct knowledge_store *store, struct knowledge_numbers *out) {
	*out = (struct knowledge_numbers){ .destinations = store->used,
		.records = store->records, .waiting = store->dirties,
		.unplaced = store->unplaced, .untried = store->applies };
	for (uint32_t i = 0; i < store->count; i++)
		out->divided += store->entries[i].divided;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The table of destinations that a cluster shares.
 * MODEL    Buckets of eight: a cache line of name hashes, and eight slots.  A slot belongs to
 *          the hash that stands at its place: stored last when it is taken, cleared first.
 *          Times are tenths of seconds of the boot clock where they are halves of words.
 * ERRORS   A full bucket: no entry.
 * THREADS  One writer of entries; any reader.
 */
#include "segment/destination/shared.h"

#include <string.h>

#include "base/clock.h"
#include "segment/file/internal.h"
#include "segment/file/name.h"

#define LEASE_MOST_NS	(600 * NS_PER_SECOND)
#define NODE_WORDS	((SHARED_NODE_NAME_MAX + 1) / 8)
#define HOLD_NODE	UINT64_C(0xff)
#define CEILING_NODE	UINT64_C(0xff00)
#define CEILING		UINT64_C(0xffff0000)
#define ID_BITS		60	/* enough for 30,000 years (decisions.h) */

struct bucket {
	_Atomic uint64_t names[SHARED_PLACES];
	struct shared_slot slots[SHARED_PLACES];
};
_Static_assert(sizeof(struct bucket) == 64 * (1 + SHARED_PLACES), "cache lines");

struct table {
	struct shared_head *head;
	struct bucket *buckets;
	uint32_t mask;
};

uint64_t shared_bytes(uint32_t buckets) {
	return sizeof(struct shared_head) + buckets * (uint64_t)sizeof(struct bucket);
}

static struct table table_of(const struct segment *segment) {
	struct shared_head *head = (void *)((char *)segment->header +
	    segment->header->shared_offset);

	return (struct table){ head, (struct bucket *)(void *)(head + 1),
		segment->header->shared_buckets - 1 };
}

static uint64_t name_of(uint64_t hash) {
	return hash == 0 ? 1 : hash;
}

/* Not the low bits, which choose the shard of a destination. */
static struct bucket *bucket_of(const struct table *table, uint64_t hash) {
	return &table->buckets[hash >> 32 & table->mask];
}

/* `place`: of `hash` in its bucket; SHARED_PLACES: it has none. */
static unsigned place_of(const struct bucket *bucket, uint64_t hash) {
	unsigned place = 0;

	while (place < SHARED_PLACES && atomic_load_explicit(&bucket->names[place],
	    memory_order_acquire) != name_of(hash))
		place++;
	return place;
}

static struct shared_slot *slot_find(const struct table *table, uint64_t hash) {
	struct bucket *bucket = bucket_of(table, hash);
	unsigned place = RELAXED(table->head->used) == 0 ? SHARED_PLACES :
	    place_of(bucket, hash);

	return place == SHARED_PLACES ? NULL : &bucket->slots[place];
}

bool shared_is_used(const struct segment *segment) {
	return RELAXED(table_of(segment).head->used) != 0;
}

/* --- reading ------------------------------------------------------------------------ */

static void slot_decode(const struct table *table, const struct shared_slot *slot,
    struct shared_seen *out) {
	uint64_t serial = atomic_load_explicit(&slot->serial, memory_order_acquire);
	uint64_t share = atomic_load_explicit(&slot->share, memory_order_acquire);
	uint64_t lanes = RELAXED(slot->lanes), origin = RELAXED(slot->origin);
	uint64_t decision = RELAXED(slot->decision);

	*out = (struct shared_seen){ .known = true,
		.share = (uint16_t)share, .alone = (uint16_t)(share >> 16),
		.until_ns = segment_time_ns(&table->head->until_ns),
		.serial = (uint32_t)serial,
		.lanes = (uint16_t)lanes, .wanted = (uint16_t)(lanes >> 16),
		.lanes_serial = (uint32_t)(lanes >> 32),
		.asked_ns = clock_bounded_ns((int64_t)RELAXED(slot->asked_ns)),
		.canary_ns = clock_bounded_ns((int64_t)RELAXED(slot->canary_ns)),
		.canary_asked_ns =
		    clock_bounded_ns((int64_t)RELAXED(slot->canary_asked_ns)),
		.hold_node = (uint8_t)(origin & HOLD_NODE),
		.ceiling_node = (uint8_t)((origin & CEILING_NODE) >> 8),
		.ceiling = (uint16_t)((origin & CEILING) >> 16),
		.hold_until_ns = (int64_t)(origin >> 32) * DS_NS,
		.hold_id = decision & ((UINT64_C(1) << ID_BITS) - 1),
		.hold_by = (uint8_t)(decision >> ID_BITS) };
}

bool shared_find(const struct segment *segment, uint64_t hash, struct shared_seen *out) {
	struct table table = table_of(segment);
	const struct shared_slot *slot = slot_find(&table, hash);

	*out = (struct shared_seen){ .known = false };
	if (slot == NULL)
		return false;
	slot_decode(&table, slot, out);
	atomic_thread_fence(memory_order_acquire);
	if (slot_find(&table, hash) == slot)
		return true;
	*out = (struct shared_seen){ .known = false };
	return false;
}

void shared_each(const struct segment *segment,
    void (*each)(void *context, uint64_t hash, const struct shared_seen *), void *context) {
	struct table table = table_of(segment);
	struct shared_seen seen;

	for (uint32_t i = 0; i <= table.mask; i++) {
		for (unsigned place = 0; place < SHARED_PLACES; place++) {
			uint64_t hash = RELAXED(table.buckets[i].names[place]);

			if (hash == 0)
				continue;
			slot_decode(&table, &table.buckets[i].slots[place], &seen);
			each(context, hash, &seen);
		}
	}
}

/* --- asking ------------------------------------------------------------------------- */

void shared_ask(const struct segment *segment, uint64_t hash, int64_t now_ns) {
	struct table table = table_of(segment);
	struct shared_slot *slot = slot_find(&table, hash);

	if (slot != NULL)
		STORE(slot->asked_ns, (uint64_t)now_ns);
}

void shared_ask_canary(const struct segment *segment, uint64_t hash, int64_t now_ns) {
	struct table table = table_of(segment);
	struct shared_slot *slot = slot_find(&table, hash);

	if (slot != NULL)
		STORE(slot->canary_asked_ns, (uint64_t)now_ns);
}

static uint64_t to_16_bits(uint32_t number) {
	return number < UINT16_MAX ? number : UINT16_MAX;
}

void shared_tell_lanes(const struct segment *segment, uint64_t hash, uint32_t used,
    uint32_t wanted, uint32_t serial) {
	struct table table = table_of(segment);
	struct shared_slot *slot = slot_find(&table, hash);

	if (slot != NULL)
		atomic_store_explicit(&slot->lanes, to_16_bits(used) | to_16_bits(wanted) << 16 |
		    (uint64_t)serial << 32, memory_order_release);
}

/* --- entries ------------------------------------------------------------------------- */

struct shared_slot *shared_take(struct segment *segment, uint64_t hash) {
	struct table table = table_of(segment);
	struct bucket *bucket = bucket_of(&table, hash);
	unsigned place = place_of(bucket, hash);
	struct shared_slot *slot;

	if (place < SHARED_PLACES)
		return &bucket->slots[place];
	for (place = 0; place < SHARED_PLACES && RELAXED(bucket->names[place]) != 0; place++)
		;
	if (place == SHARED_PLACES)
		return NULL;
	slot = &bucket->slots[place];
	STORE(slot->share, SHARED_NO_SHARE);
	/* the serial goes on: nobody takes an answer to the one before for one to this */
	STORE(slot->lanes, RELAXED(slot->serial) << 32);
	STORE(slot->asked_ns, 0);
	STORE(slot->canary_ns, 0);
	STORE(slot->canary_asked_ns, 0);
	STORE(slot->origin, 0);
	STORE(slot->decision, 0);
	atomic_store_explicit(&bucket->names[place], name_of(hash), memory_order_release);
	atomic_fetch_add(&table.head->used, 1);
	return slot;
}

void shared_drop(struct segment *segment, uint64_t hash) {
	struct table table = table_of(segment);
	struct bucket *bucket = bucket_of(&table, hash);
	unsigned place = place_of(bucket, hash);

	if (place == SHARED_PLACES)
		return;
	atomic_store_explicit(&bucket->names[place], 0, memory_order_seq_cst);
	atomic_fetch_sub(&table.head->used, 1);
}

static uint64_t to_ds(int64_t time_ns) {
	int64_t ds = time_ns / DS_NS;

	return ds < 0 ? 0 : ds > UINT32_MAX ? UINT32_MAX : (uint64_t)ds;
}

void shared_set_until(const struct segment *segment, int64_t until_ns) {
	STORE(table_of(segment).head->until_ns, until_ns);
}

int64_t shared_until(const struct segment *segment) {
	return segment_time_ns(&table_of(segment).head->until_ns);
}

void shared_set_share(struct shared_slot *slot, uint32_t share, uint32_t alone) {
	uint64_t word = SHARED_NO_SHARE;

	if (share != SHARED_NO_SHARE)
		word = (share < SHARED_NO_SHARE ? share : SHARED_NO_SHARE - 1) |
		    to_16_bits(alone) << 16;
	if (RELAXED(slot->share) == word)
		return;
	atomic_store_explicit(&slot->share, word, memory_order_release);
	atomic_fetch_add_explicit(&slot->serial, 1, memory_order_release);
}

void shared_set_canary(struct shared_slot *slot, int64_t until_ns) {
	STORE(slot->canary_ns, (uint64_t)until_ns);
	if (until_ns == 0)
		STORE(slot->canary_asked_ns, 0);
}

void shared_set_hold(struct shared_slot *slot, unsigned node, int64_t until_ns) {
	uint64_t origin = RELAXED(slot->origin) & (CEILING | CEILING_NODE);

	STORE(slot->decision, 0);
	STORE(slot->origin, origin | (node & HOLD_NODE) | to_ds(until_ns) << 32);
}

void shared_set_decision(struct shared_slot *slot, uint64_t id, unsigned by) {
	if (id >> ID_BITS != 0)
		id = 0;
	STORE(slot->decision, id | (uint64_t)by << ID_BITS);
}

void shared_set_ceiling(struct shared_slot *slot, unsigned node, uint32_t ceiling) {
	uint64_t origin = RELAXED(slot->origin) & ~(CEILING | CEILING_NODE);

	STORE(slot->origin, origin | (uint64_t)(node & HOLD_NODE) << 8 |
	    to_16_bits(ceiling) << 16);
}

/* --- nodes ---------------------------------------------------------------------------- */

const char *shared_node_name(const struct segment *segment, unsigned node,
    char out[SHARED_NODE_NAME_MAX + 1]) {
	struct table table = table_of(segment);
	uint64_t words[NODE_WORDS];

	out[0] = '\0';
	if (node == 0 || node > SHARED_NODES_MAX)
		return out;
	for (unsigned i = 0; i < NODE_WORDS; i++)
		words[i] = atomic_load_explicit(&table.head->nodes[node - 1][i],
		    memory_order_acquire);
	text_harmless((const char *)words, out, SHARED_NODE_NAME_MAX + 1);
	out[SHARED_NODE_NAME_MAX] = '\0';
	return out;
}

static bool is_node(const char *name, size_t length) {
	if (length == 0 || length > SHARED_NODE_NAME_MAX)
		return false;
	for (size_t i = 0; i < length; i++)
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	return true;
}

/* Its number, or the first that is free; one too many: there is none. */
static unsigned find_node(const struct segment *segment, const char *name, size_t length) {
	char known[SHARED_NODE_NAME_MAX + 1];
	unsigned space = SHARED_NODES_MAX + 1;

	for (unsigned node = SHARED_NODES_MAX; node > 0; node--) {
		(void)shared_node_name(segment, node, known);
		if (known[0] == '\0')
			space = node;
		else if (strlen(known) == length && memcmp(known, name, length) == 0)
			return node;
	}
	return space;
}

static void write_node(struct segment *segment, unsigned node, const char *name,
    size_t length) {
	struct table table = table_of(segment);
	uint64_t words[NODE_WORDS] = { 0 };

	memcpy(words, name, length);
	for (unsigned i = NODE_WORDS; i-- > 0;)
		atomic_store_explicit(&table.head->nodes[node - 1][i], words[i],
		    memory_order_release);
}

static void note_nodes(void *context, uint64_t hash, const struct shared_seen *seen) {
	bool *used = context;

	(void)hash;
	used[seen->hold_node] = used[seen->ceiling_node] = true;
}

void shared_forget_nodes(struct segment *segment) {
	bool used[UINT8_MAX + 1] = { false };

	shared_each(segment, note_nodes, used);
	for (unsigned node = 1; node <= SHARED_NODES_MAX; node++)
		if (!used[node])
			write_node(segment, node, "", 0);
}

unsigned shared_node(struct segment *segment, const char *name, size_t length) {
	unsigned node;

	if (!is_node(name, length))
		return 0;
	node = find_node(segment, name, length);
	if (node > SHARED_NODES_MAX)
		return 0;
	write_node(segment, node, name, length);
	return node;
}

unsigned shared_node_own(struct segment *segment, const char *name, size_t length) {
	unsigned node = shared_node(segment, name, length);

	if (node == 0 && is_node(name, length)) {
		node = SHARED_NODES_MAX;
		write_node(segment, node, name, length);
	}
	return node;
}

/* --- another supervisor --------------------------------------------------------------- */

void shared_scrub(struct segment *segment) {
	struct table table = table_of(segment);
	uint64_t used = 0;

	for (uint32_t i = 0; i <= table.mask; i++)
		for (unsigned place = 0; place < SHARED_PLACES; place++)
			used += RELAXED(table.buckets[i].names[place]) != 0;
	STORE(table.head->used, used);
	/* it was of this boot's clock, if it was one at all */
	if (RELAXED(table.head->until_ns) > clock_now_ns() + LEASE_MOST_NS)
		STORE(table.head->until_ns, 0);
}

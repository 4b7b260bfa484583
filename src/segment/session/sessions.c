/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The session table.
 * MODEL    A shard's slots are either linked in its index or chained in its free
 *          list (by word 1 of the slot), or in the hands of whoever holds its
 *          mutex.  Slots never used lie above high_water.
 * ERRORS   Whoever inherits a shard's mutex, or finds that index, free list and slots do
 *          not fit together, as any role can write to them, makes index and free list from
 *          the control words, which are never torn.
 * THREADS  Any, of any process.
 */
#include "segment/session/sessions.h"

#include <string.h>

#include "base/failpoint.h"
#include "segment/file/index.h"
#include "segment/file/lock.h"
#include "segment/file/stir.h"

#define READ_TRIES	100

static const struct session_control no_session = {
	.class_record = SEGMENT_NO_CLASS };

static uint64_t key_hash(const struct segment *segment,
    const struct session_key *key) {
	unsigned char bytes[24] = { 0 };

	memcpy(bytes, key->client.bytes, 16);
	memcpy(bytes + 16, &key->client_port, 2);
	bytes[18] = key->direction;
	return siphash13(&segment->header->key, bytes, sizeof(bytes));
}

static struct index shard_index(const struct segment *segment, uint32_t shard) {
	uint32_t lines = segment->header->lines_per_shard;

	return (struct index){
		.lines = segment->session_lines + (size_t)shard * lines,
		.line_count = lines,
		.slots = segment->header->slots_per_shard,
	};
}

/* Any role can write the number of a class that there is not: such a session is in none. */
static void bound_class(const struct segment *segment, struct session_control *control) {
	if (control->class_record < segment->header->record_count)
		return;
	control->class_record = SEGMENT_NO_CLASS;
	if (control->state == SESSION_OPEN)
		control->state = SESSION_UNCOUNTED;
}

void session_load(const struct segment *segment, uint32_t slot,
    struct session *session) {
	uint64_t words[SESSION_WORDS];
	const struct session_slot *from = &segment->session_slots[slot];

	words[0] = atomic_load_explicit(&from->words[0], memory_order_acquire);
	for (unsigned i = 1; i < SESSION_WORDS; i++)
		words[i] = RELAXED(from->words[i]);
	memcpy(session, words, sizeof(*session));
	bound_class(segment, &session->control);
}

struct session_control session_load_control(const struct segment *segment,
    uint32_t slot) {
	uint64_t word = atomic_load_explicit(
	    &segment->session_slots[slot].words[0], memory_order_acquire);
	struct session_control control;

	memcpy(&control, &word, sizeof(control));
	bound_class(segment, &control);
	return control;
}

uint16_t session_load_serial(const struct segment *segment, uint32_t slot) {
	const size_t place = offsetof(struct session, serial);
	uint64_t word = RELAXED(segment->session_slots[slot].words[place / sizeof(word)]);
	uint16_t serial;

	memcpy(&serial, (const char *)&word + place % sizeof(word), sizeof(serial));
	return serial;
}

bool session_read(const struct segment *segment, uint32_t shard_number,
    uint32_t slot, struct session *session) {
	const struct shard *shard = &segment->session_shards[shard_number];

	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		uint32_t before = atomic_load_explicit(&shard->seq,
		    memory_order_acquire);

		session_load(segment, slot, session);
		atomic_thread_fence(memory_order_acquire);
		if (before % 2 == 0 && before == RELAXED(shard->seq))
			return session->control.state != SESSION_FREE;
	}
	return false;
}

static void store_body(struct segment *segment, uint32_t slot,
    const struct session *session) {
	uint64_t words[SESSION_WORDS];

	memcpy(words, session, sizeof(words));
	for (unsigned i = 1; i < SESSION_WORDS; i++) {
		STORE(segment->session_slots[slot].words[i], words[i]);
		FAILPOINT();
	}
}

void session_store_control(struct segment *segment, uint32_t slot,
    struct session_control control) {
	uint64_t word;

	memcpy(&word, &control, sizeof(word));
	atomic_store_explicit(&segment->session_slots[slot].words[0], word,
	    memory_order_release);
}

void session_store(struct segment *segment, uint32_t slot,
    const struct session *session) {
	store_body(segment, slot, session);
	session_store_control(segment, slot, session->control);
}

void sessions_range(const struct segment *segment, uint32_t shard,
    uint32_t *first, uint32_t *count) {
	uint32_t high = RELAXED(segment->session_shards[shard].high_water);

	if (high > segment->header->slots_per_shard)
		high = segment->header->slots_per_shard;
	*first = shard * segment->header->slots_per_shard;
	*count = high;
}

static void free_push(struct segment *segment, struct shard *shard,
    uint32_t slot) {
	STORE(segment->session_slots[slot].words[1], RELAXED(shard->free_head));
	FAILPOINT();
	STORE(shard->free_head, slot);
}

static uint32_t shard_of(const struct segment *segment, uint64_t hash) {
	return (uint32_t)hash & (segment->header->shard_count - 1);
}

/* Nobody finds it by its key; its class counts anew. */
static void slot_drop(struct segment *segment, uint32_t slot, struct session_control control) {
	if (control.state == SESSION_OPEN)
		STORE(segment->records[control.class_record].torn, 1);
	session_store_control(segment, slot, no_session);
}

/* Index and free list from the control words, but for a slot that is in the caller's hands
 * (or SEGMENT_NO_SLOT). */
static void shard_rebuild(struct segment *segment, uint32_t number, uint32_t held) {
	struct shard *shard = &segment->session_shards[number];
	struct index index = shard_index(segment, number);
	uint32_t first, count, used = 0;

	sessions_range(segment, number, &first, &count);
	index_clear(&index);
	STORE(shard->free_head, SEGMENT_NO_SLOT);
	for (uint32_t i = count; i-- > 0;) {
		uint32_t slot = first + i;
		struct session session;
		struct session_key key;
		uint64_t hash;

		if (slot == held)
			continue;
		session_load(segment, slot, &session);
		key = (struct session_key){ session.client,
			session.client_port, session.control.direction };
		hash = key_hash(segment, &key);
		if (session.control.state != SESSION_FREE &&
		    shard_of(segment, hash) == number && index_insert(&index, hash, i)) {
			used++;
			continue;
		}
		if (session.control.state != SESSION_FREE)
			slot_drop(segment, slot, session.control);
		free_push(segment, shard, slot);
	}
	STORE(shard->used, used);
	/* an odd number would keep readers waiting for a dead writer */
	if (RELAXED(shard->seq) % 2 != 0)
		atomic_fetch_add_explicit(&shard->seq, 1, memory_order_release);
}

static void shard_mend(struct segment *segment, uint32_t number, uint32_t held) {
	shard_rebuild(segment, number, held);
	segment_count(segment, COUNTER_REPAIRS, 1);
}

void sessions_aim(struct segment *segment, const struct session_key *key,
    int64_t now_ns, struct session_lock *lock) {
	struct index index;

	lock->segment = segment;
	lock->key = *key;
	lock->hash = key_hash(segment, key);
	lock->now_ns = now_ns;
	lock->shard_number = shard_of(segment, lock->hash);
	lock->shard = &segment->session_shards[lock->shard_number];
	__builtin_prefetch(lock->shard, 1);
	index = shard_index(segment, lock->shard_number);
	index_prefetch(&index, lock->hash);
}

void sessions_expect(const struct session_lock *lock) {
	/* any number may stand there: nothing is read of what it leads to */
	uint32_t slot = RELAXED(lock->shard->free_head);
	const struct session_slot *expected = lock->segment->session_slots + slot;

	__builtin_prefetch(&expected->words[0], 1);
	__builtin_prefetch(&expected->words[SESSION_WORDS - 1], 1);
}

bool sessions_lock(struct session_lock *lock) {
	lock->changed = false;
	switch (lock_acquire(&lock->shard->lock, lock->now_ns)) {
	case LOCK_HELD:
		return true;
	case LOCK_INHERITED:
		shard_mend(lock->segment, lock->shard_number, SEGMENT_NO_SLOT);
		return true;
	case LOCK_TIMED_OUT:
		break;
	}
	return false;
}

void sessions_unlock(struct session_lock *lock) {
	lock_release(&lock->shard->lock);
	if (lock->changed)
		segment_stir(lock->segment->header);
}

void sessions_mend(struct segment *segment, int64_t now_ns) {
	for (uint32_t i = 0; i < segment->header->shard_count; i++) {
		struct session_lock lock = { .segment = segment, .shard_number = i,
			.shard = &segment->session_shards[i], .now_ns = now_ns };

		if (lock_is_orphaned(&lock.shard->lock) && sessions_lock(&lock))
			sessions_unlock(&lock);
	}
	counts_mend(segment, now_ns);
}

bool sessions_may_have(const struct session_lock *lock, uint32_t slot) {
	uint32_t all = lock->segment->header->slots_per_shard;
	struct session_lock its = *lock;

	if (slot - lock->shard_number * all < all)
		return true;
	its.shard_number = slot / all;
	its.shard = &its.segment->session_shards[its.shard_number];
	if (sessions_lock(&its)) {
		shard_mend(its.segment, its.shard_number, SEGMENT_NO_SLOT);
		sessions_unlock(&its);
	}
	return false;
}

static bool same_server(const struct session *session,
    const struct address *server, uint16_t server_port) {
	if (address_is_unknown(&session->server) || address_is_unknown(server))
		return true;
	if (!address_equal(&session->server, server))
		return false;
	return session->server_port == 0 || server_port == 0 ||
	    session->server_port == server_port;
}

uint32_t sessions_find(struct session_lock *lock, const struct address *server,
    uint16_t server_port) {
	struct index index = shard_index(lock->segment, lock->shard_number);
	uint32_t first =
	    lock->shard_number * lock->segment->header->slots_per_shard;
	struct index_walk walk;
	uint32_t found;

	index_walk_begin(&index, lock->hash, &walk);
	while ((found = index_walk_next(&index, &walk)) != SEGMENT_NO_SLOT) {
		struct session session;

		session_load(lock->segment, first + found, &session);
		if (session.control.state != SESSION_FREE &&
		    session.control.direction == lock->key.direction &&
		    session.client_port == lock->key.client_port &&
		    address_equal(&session.client, &lock->key.client) &&
		    same_server(&session, server, server_port))
			return first + found;
	}
	return SEGMENT_NO_SLOT;
}

/* The first of the free list, or SEGMENT_NO_SLOT.  False: it is none that was in use once and
 * is free. */
static bool first_free(const struct session_lock *lock, uint32_t *slot) {
	uint32_t first, count;

	sessions_range(lock->segment, lock->shard_number, &first, &count);
	*slot = RELAXED(lock->shard->free_head);
	return *slot == SEGMENT_NO_SLOT || (*slot - first < count &&
	    session_load_control(lock->segment, *slot).state == SESSION_FREE);
}

uint32_t sessions_take(struct session_lock *lock) {
	struct shard *shard = lock->shard;
	struct segment *segment = lock->segment;
	uint32_t all = segment->header->slots_per_shard, high, slot;

	if (!first_free(lock, &slot)) {
		shard_mend(segment, lock->shard_number, SEGMENT_NO_SLOT);
		if (!first_free(lock, &slot))
			return SEGMENT_NO_SLOT;
	}
	if (slot != SEGMENT_NO_SLOT) {
		STORE(shard->free_head, (uint32_t)RELAXED(segment->session_slots[slot].words[1]));
		FAILPOINT();
	} else {
		high = RELAXED(shard->high_water);
		if (high >= all)
			return SEGMENT_NO_SLOT;
		slot = lock->shard_number * all + high;
		/* an adopted file may hold anything up there */
		session_store_control(segment, slot, no_session);
		FAILPOINT();
		STORE(shard->high_water, high + 1);
		FAILPOINT();
	}
	return slot;
}

bool sessions_are_scarce(const struct session_lock *lock) {
	uint32_t all = lock->segment->header->slots_per_shard;

	return RELAXED(lock->shard->used) >= all - all / 8;
}

void sessions_put_back(struct session_lock *lock, uint32_t slot) {
	free_push(lock->segment, lock->shard, slot);
}

static uint32_t within_shard(const struct session_lock *lock, uint32_t slot) {
	return slot - lock->shard_number * lock->segment->header->slots_per_shard;
}

void sessions_link(struct session_lock *lock, uint32_t slot) {
	struct index index = shard_index(lock->segment, lock->shard_number);

	if (!index_insert(&index, lock->hash, within_shard(lock, slot))) {
		shard_mend(lock->segment, lock->shard_number, slot);
		/* where that fails, too, its end finds it out */
		(void)index_insert(&index, lock->hash, within_shard(lock, slot));
	}
	guarded_add(&lock->shard->used, 1);
}

void sessions_release(struct session_lock *lock, uint32_t slot) {
	struct index index = shard_index(lock->segment, lock->shard_number);

	if (!index_remove(&index, lock->hash, within_shard(lock, slot))) {
		shard_mend(lock->segment, lock->shard_number, SEGMENT_NO_SLOT);
		return;
	}
	FAILPOINT();
	free_push(lock->segment, lock->shard, slot);
	FAILPOINT();
	guarded_add(&lock->shard->used, UINT32_MAX);
}

void sessions_change_begin(struct session_lock *lock) {
	lock->changed = true;
	seq_begin(&lock->shard->seq);
	FAILPOINT();
}

void sessions_change_end(struct session_lock *lock) {
	FAILPOINT();
	seq_end(&lock->shard->seq);
}

/* Does the slot say something that our code could have written? */
static bool slot_makes_sense(const struct segment *segment,
    const struct session *session) {
	const struct session_control *control = &session->control;
	bool has_class = control->class_record != SEGMENT_NO_CLASS;

	if (control->state == SESSION_FREE || control->state >= SESSION_STATES ||
	    control->direction > SESSION_OUTBOUND ||
	    control->proof > SESSION_PROOF_LEASE ||
	    (control->client_bits > 128 && control->client_bits != 255))
		return false;
	if (has_class && (control->class_record >= segment->header->record_count ||
			     RELAXED(segment->records[control->class_record].in_use) == CLASS_FREE))
		return false;
	return has_class || control->state != SESSION_OPEN;
}

static void scrub_shard(struct segment *segment, uint32_t number) {
	struct shard *shard = &segment->session_shards[number];
	uint32_t dump_sequence = atomic_load(&segment->header->dump_sequence);
	uint32_t first, count;

	lock_reset(&shard->lock);
	atomic_store(&shard->seq, 0);
	if (atomic_load(&shard->high_water) > segment->header->slots_per_shard)
		atomic_store(&shard->high_water,
		    segment->header->slots_per_shard);
	sessions_range(segment, number, &first, &count);
	for (uint32_t i = 0; i < count; i++) {
		struct session session;

		session_load(segment, first + i, &session);
		if (!slot_makes_sense(segment, &session)) {
			session_store_control(segment, first + i, no_session);
			continue;
		}
		/* else no dump would ever be later than it was opened */
		if ((int32_t)(session.dump_sequence - dump_sequence) > 0) {
			session.dump_sequence = dump_sequence;
			session_store(segment, first + i, &session);
		}
	}
	shard_rebuild(segment, number, SEGMENT_NO_SLOT);
}

void sessions_scrub(struct segment *segment) {
	for (uint32_t i = 0; i < segment->header->shard_count; i++)
		scrub_shard(segment, i);
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Class counters and client sub-limits, and their repair.
 * MODEL    The slots are the truth: a class's counters and its clients' counts
 *          change in the same critical section as the slot's control word, under
 *          the class's mutex.  Whoever inherits that mutex recounts both.
 * THREADS  Any, of any process.
 */
#include <string.h>

#include "base/failpoint.h"
#include "segment/file/index.h"
#include "segment/file/lock.h"
#include "segment/session/sessions.h"

#define CLIENTS_LOOKED_AT 32	/* for a place, where all are taken */

static struct index client_index(const struct segment *segment, uint32_t shard) {
	uint32_t lines = segment->header->client_lines_per_shard;

	return (struct index){
		.lines = segment->client_lines + (size_t)shard * lines,
		.line_count = lines,
		.slots = segment->header->clients_per_shard,
	};
}

static struct client_slot *client_at(const struct segment *segment,
    uint32_t shard, uint32_t slot) {
	return &segment->client_slots[(size_t)shard *
		segment->header->clients_per_shard + slot];
}

/* Any role can write another number. */
static uint32_t client_high_water(const struct segment *segment, uint32_t shard) {
	uint32_t high = RELAXED(segment->client_shards[shard].high_water);
	uint32_t all = segment->header->clients_per_shard;

	return high < all ? high : all;
}

static uint64_t client_hash(const struct segment *segment, uint16_t record,
    const struct address *client) {
	unsigned char bytes[24] = { 0 };

	memcpy(bytes, client->bytes, 16);
	memcpy(bytes + 16, &record, 2);
	bytes[18] = 0xc1; /* apart from the keys of sessions */
	return siphash13(&segment->header->key, bytes, sizeof(bytes));
}

/* The free list of clients is chained through `open`. */
static void client_free_push(struct segment *segment, uint32_t shard_number,
    uint32_t slot) {
	struct shard *shard = &segment->client_shards[shard_number];
	struct client_slot *client = client_at(segment, shard_number, slot);

	client->used = 0;
	FAILPOINT();
	STORE(client->open, RELAXED(shard->free_head));
	FAILPOINT();
	STORE(shard->free_head, slot);
	FAILPOINT();
}

/* Index and free list, from what is used. */
static void client_shard_rebuild(struct segment *segment, uint32_t number) {
	struct shard *shard = &segment->client_shards[number];
	struct index index = client_index(segment, number);
	uint32_t high = client_high_water(segment, number);
	uint32_t used = 0;

	index_clear(&index);
	STORE(shard->free_head, SEGMENT_NO_SLOT);
	for (uint32_t i = high; i-- > 0;) {
		struct client_slot *client = client_at(segment, number, i);

		if (client->used && index_insert(&index, client_hash(segment,
			client->class_record, &client->client), i))
			used++;
		else
			client_free_push(segment, number, i);
	}
	STORE(shard->used, used);
}

/* Any role can write what does not fit together. */
static void client_shard_mend(struct segment *segment, uint32_t number) {
	client_shard_rebuild(segment, number);
	segment_count(segment, COUNTER_REPAIRS, 1);
}

static bool client_shard_lock(struct segment *segment, uint32_t number,
    int64_t now_ns) {
	struct shard *shard = &segment->client_shards[number];

	switch (lock_acquire(&shard->lock, now_ns)) {
	case LOCK_HELD:
		return true;
	case LOCK_INHERITED:
		client_shard_rebuild(segment, number);
		return true;
	case LOCK_TIMED_OUT:
		break;
	}
	return false;
}

static uint32_t client_find(const struct client_lock *lock) {
	struct index index = client_index(lock->segment, lock->shard_number);
	struct index_walk walk;
	uint32_t slot;

	index_walk_begin(&index, lock->hash, &walk);
	while ((slot = index_walk_next(&index, &walk)) != SEGMENT_NO_SLOT) {
		const struct client_slot *client =
		    client_at(lock->segment, lock->shard_number, slot);

		if (client->used && client->class_record == lock->record &&
		    address_equal(&client->client, &lock->client))
			return slot;
	}
	return SEGMENT_NO_SLOT;
}

void client_aim(struct segment *segment, uint16_t record,
    const struct address *client, unsigned bits, int64_t now_ns,
    struct client_lock *lock) {
	struct index index;

	lock->segment = segment;
	lock->record = record;
	lock->client = *client;
	lock->now_ns = now_ns;
	address_truncate(&lock->client, bits);
	lock->hash = client_hash(segment, record, &lock->client);
	lock->shard_number =
	    (uint32_t)lock->hash & (segment->header->shard_count - 1);
	lock->shard = &segment->client_shards[lock->shard_number];
	lock->slot = SEGMENT_NO_SLOT;
	__builtin_prefetch(lock->shard, 1);
	index = client_index(segment, lock->shard_number);
	index_prefetch(&index, lock->hash);
}

void client_expect(const struct client_lock *lock) {
	/* any number may stand there: nothing is read of what it leads to */
	uint32_t slot = RELAXED(lock->shard->free_head);

	__builtin_prefetch(client_at(lock->segment, lock->shard_number, slot), 1);
}

bool client_lock(struct client_lock *lock) {
	if (!client_shard_lock(lock->segment, lock->shard_number, lock->now_ns))
		return false;
	lock->slot = client_find(lock);
	return true;
}

void client_counts(const struct client_lock *lock, uint32_t *open,
    int64_t *rate_tat_ns) {
	const struct client_slot *client;

	*open = 0;
	*rate_tat_ns = 0;
	if (lock->slot == SEGMENT_NO_SLOT)
		return;
	client = client_at(lock->segment, lock->shard_number, lock->slot);
	*open = RELAXED(client->open);
	*rate_tat_ns = RELAXED(client->rate_tat_ns);
}

static bool client_is_idle(const struct client_slot *client, int64_t now_ns) {
	return RELAXED(client->open) == 0 && RELAXED(client->rate_tat_ns) <= now_ns;
}

static void client_forget(struct segment *segment, uint32_t shard_number,
    uint32_t slot, uint64_t hash) {
	struct index index = client_index(segment, shard_number);

	if (!index_remove(&index, hash, slot)) {
		client_at(segment, shard_number, slot)->used = 0;
		client_shard_mend(segment, shard_number);
		return;
	}
	client_free_push(segment, shard_number, slot);
	guarded_add(&segment->client_shards[shard_number].used, UINT32_MAX);
}

static void client_release(struct segment *segment, uint32_t shard_number,
    uint32_t slot) {
	const struct client_slot *client = client_at(segment, shard_number, slot);

	client_forget(segment, shard_number, slot,
	    client_hash(segment, client->class_record, &client->client));
}

/* All places are taken: gives back those of clients at rest among the next few,
 * or else that of one without an open session, whose rate is forgotten: of those
 * the one nearest to rest, so that many addresses do not wash away the rate of a
 * busy one.  Never all are looked at: whoever has many addresses could make that
 * each question's cost. */
static void client_evict(struct client_lock *lock) {
	uint32_t count = lock->segment->header->clients_per_shard;
	uint32_t at = lock->shard->hand, spare = SEGMENT_NO_SLOT;
	int64_t spare_tat_ns = INT64_MAX;
	bool found = false;

	for (unsigned i = 0; i < CLIENTS_LOOKED_AT; i++) {
		const struct client_slot *client;
		int64_t tat_ns;

		at = at + 1 < count ? at + 1 : 0;
		client = client_at(lock->segment, lock->shard_number, at);
		if (!client->used || RELAXED(client->open) != 0)
			continue;
		tat_ns = RELAXED(client->rate_tat_ns);
		if (tat_ns <= lock->now_ns) {
			client_release(lock->segment, lock->shard_number, at);
			found = true;
		} else if (spare == SEGMENT_NO_SLOT || tat_ns < spare_tat_ns) {
			spare = at;
			spare_tat_ns = tat_ns;
		}
	}
	lock->shard->hand = at;
	if (!found && spare != SEGMENT_NO_SLOT) {
		client_release(lock->segment, lock->shard_number, spare);
		segment_count(lock->segment, COUNTER_CLIENT_EVICTIONS, 1);
	}
}

/* The first of the free list, or SEGMENT_NO_SLOT.  False: it is none that was in use once and
 * is free. */
static bool client_first_free(const struct client_lock *lock, uint32_t *slot) {
	*slot = RELAXED(lock->shard->free_head);
	return *slot == SEGMENT_NO_SLOT ||
	    (*slot < lock->segment->header->clients_per_shard &&
		*slot < RELAXED(lock->shard->high_water) &&
		!client_at(lock->segment, lock->shard_number, *slot)->used);
}

static uint32_t client_take(struct client_lock *lock) {
	struct shard *shard = lock->shard;
	uint32_t slot, high;

	high = RELAXED(shard->high_water);
	if (RELAXED(shard->free_head) == SEGMENT_NO_SLOT &&
	    high >= lock->segment->header->clients_per_shard)
		client_evict(lock);
	if (!client_first_free(lock, &slot)) {
		client_shard_mend(lock->segment, lock->shard_number);
		if (!client_first_free(lock, &slot))
			return SEGMENT_NO_SLOT;
	}
	if (slot != SEGMENT_NO_SLOT) {
		STORE(shard->free_head,
		    RELAXED(client_at(lock->segment, lock->shard_number, slot)->open));
		FAILPOINT();
		return slot;
	}
	if (high >= lock->segment->header->clients_per_shard)
		return SEGMENT_NO_SLOT;
	STORE(shard->high_water, high + 1);
	FAILPOINT();
	return high;
}

bool client_reserve(struct client_lock *lock) {
	struct index index = client_index(lock->segment, lock->shard_number);
	struct client_slot *client;
	uint32_t slot;

	if (lock->slot != SEGMENT_NO_SLOT)
		return true;
	slot = client_take(lock);
	if (slot == SEGMENT_NO_SLOT) {
		segment_count(lock->segment, COUNTER_CLIENTS_UNCOUNTED, 1);
		return false;
	}
	client = client_at(lock->segment, lock->shard_number, slot);
	client->client = lock->client;
	client->class_record = lock->record;
	STORE(client->open, 0);
	STORE(client->rate_tat_ns, 0);
	FAILPOINT();
	client->used = 1;
	FAILPOINT();
	if (index_insert(&index, lock->hash, slot))
		guarded_add(&lock->shard->used, 1);
	else
		client_shard_mend(lock->segment, lock->shard_number);
	lock->slot = slot;
	return true;
}

void client_add(struct client_lock *lock, int change, int64_t rate_tat_ns) {
	struct client_slot *client;

	/* one that counts is never given up: the index lost it */
	if (lock->slot == SEGMENT_NO_SLOT && change < 0) {
		client_shard_mend(lock->segment, lock->shard_number);
		lock->slot = client_find(lock);
	}
	if (lock->slot == SEGMENT_NO_SLOT)
		return;
	client = client_at(lock->segment, lock->shard_number, lock->slot);
	if (change > 0 || RELAXED(client->open) != 0)
		guarded_add(&client->open, (uint32_t)change);
	FAILPOINT();
	if (rate_tat_ns != 0)
		STORE(client->rate_tat_ns, rate_tat_ns);
	if (client_is_idle(client, lock->now_ns)) {
		client_forget(lock->segment, lock->shard_number, lock->slot, lock->hash);
		lock->slot = SEGMENT_NO_SLOT;
	}
}

void client_unlock(struct client_lock *lock) {
	lock_release(&lock->shard->lock);
}

/* Calls `each` for the clients of a class.  False: not all; each lock was tried, so that those
 * without an owner are found together. */
static bool clients_each(struct segment *segment, uint16_t record, int64_t now_ns,
    void (*each)(struct segment *segment, uint32_t shard, uint32_t slot)) {
	bool whole = true;

	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		uint32_t high;

		if (!client_shard_lock(segment, shard, now_ns)) {
			whole = false;
			continue;
		}
		high = client_high_water(segment, shard);
		for (uint32_t i = 0; i < high; i++) {
			const struct client_slot *client = client_at(segment, shard, i);

			if (client->used && client->class_record == record)
				each(segment, shard, i);
		}
		lock_release(&segment->client_shards[shard].lock);
	}
	return whole;
}

void clients_purge(struct segment *segment, uint16_t record, int64_t now_ns) {
	(void)clients_each(segment, record, now_ns, client_release);
}

static void client_zero(struct segment *segment, uint32_t shard, uint32_t slot) {
	STORE(client_at(segment, shard, slot)->open, 0);
}

/* Counts one slot's client again; the class's clients were set to 0 before.
 * False: the client's lock was not to be had. */
static bool recount_client(struct segment *segment, const struct session *session,
    int64_t now_ns) {
	struct client_lock lock;

	if (session->control.client_bits == 255)
		return true;
	client_aim(segment, session->control.class_record, &session->client,
	    session->control.client_bits, now_ns, &lock);
	if (!client_lock(&lock))
		return false;
	if (client_reserve(&lock))
		client_add(&lock, 1, 0);
	client_unlock(&lock);
	return true;
}

static void open_peak(struct class_record *record, uint32_t open) {
	if (open > RELAXED(record->peak))
		STORE(record->peak, open);
}

/* Counts the open slots of one class, or of all (SEGMENT_NO_CLASS); the counters
 * were set to 0 before.  False: some client was not counted. */
static bool count_slots(struct segment *segment, uint16_t only, int64_t now_ns) {
	bool whole = true;
	uint32_t first, count;

	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		sessions_range(segment, shard, &first, &count);
		for (uint32_t i = 0; i < count; i++) {
			struct session_control control =
			    session_load_control(segment, first + i);
			struct class_record *record;
			struct session session;

			if (control.state != SESSION_OPEN ||
			    (only != SEGMENT_NO_CLASS &&
				control.class_record != only))
				continue;
			session_load(segment, first + i, &session);
			record = &segment->records[control.class_record];
			guarded_add(&record->open, 1);
			if (control.direction == SESSION_INBOUND)
				guarded_add(&record->open_inbound, 1);
			whole &= recount_client(segment, &session, now_ns);
		}
	}
	return whole;
}

static void zero_record(struct class_record *record) {
	STORE(record->open, 0);
	STORE(record->open_inbound, 0);
}

/* The class's counters from the slots.  Slots of this class cannot change
 * meanwhile: their class field belongs to the mutex that we hold.  False: not all
 * of its clients could be counted now. */
static bool class_recount(struct segment *segment, uint16_t number,
    int64_t now_ns) {
	struct class_record *record = &segment->records[number];
	bool whole;

	seq_begin(&record->seq);
	zero_record(record);
	whole = clients_each(segment, number, now_ns, client_zero);
	whole &= count_slots(segment, number, now_ns);
	open_peak(record, RELAXED(record->open));
	seq_end(&record->seq);
	return whole;
}

/* Under the mutex of a torn class. */
static bool class_repair(struct segment *segment, uint16_t number,
    int64_t now_ns) {
	if (!class_recount(segment, number, now_ns))
		return false;
	STORE(segment->records[number].torn, 0);
	segment_count(segment, COUNTER_REPAIRS, 1);
	return true;
}

bool class_lock(struct segment *segment, uint16_t number, int64_t now_ns) {
	struct class_record *record = &segment->records[number];

	switch (lock_acquire(&record->lock, now_ns)) {
	case LOCK_HELD:
		break;
	case LOCK_INHERITED:
		/* whoever cannot finish the repair leaves it to the next */
		STORE(record->torn, 1);
		break;
	case LOCK_TIMED_OUT:
		return false;
	}
	if (RELAXED(record->torn) == 0 || class_repair(segment, number, now_ns))
		return true;
	lock_release(&record->lock);
	return false;
}

void class_unlock(struct segment *segment, uint16_t record) {
	lock_release(&segment->records[record].lock);
}

void class_add(struct segment *segment, uint16_t number,
    enum session_direction direction, int change) {
	struct class_record *record = &segment->records[number];
	uint32_t open;

	seq_begin(&record->seq);
	FAILPOINT();
	open = RELAXED(record->open) + (uint32_t)change;
	/* below none: any role can write a number, and this one would stay for ever */
	if (change < 0 && open == UINT32_MAX)
		STORE(record->torn, 1);
	STORE(record->open, open);
	FAILPOINT();
	if (direction == SESSION_INBOUND)
		STORE(record->open_inbound, RELAXED(record->open_inbound) + (uint32_t)change);
	FAILPOINT();
	if (change > 0)
		open_peak(record, open);
	FAILPOINT();
	seq_end(&record->seq);
}

void counts_mend(struct segment *segment, int64_t now_ns) {
	for (uint32_t i = 0; i < segment->header->record_count; i++) {
		const struct class_record *record = &segment->records[i];

		if ((lock_is_orphaned(&record->lock) || RELAXED(record->torn) != 0) &&
		    class_lock(segment, (uint16_t)i, now_ns))
			class_unlock(segment, (uint16_t)i);
	}
	for (uint32_t i = 0; i < segment->header->shard_count; i++)
		if (lock_is_orphaned(&segment->client_shards[i].lock) &&
		    client_shard_lock(segment, i, now_ns))
			lock_release(&segment->client_shards[i].lock);
}

/* Clients of a mapping that nobody else uses: only rates are worth keeping. */
static void rebuild_client_shard(struct segment *segment, uint32_t number) {
	struct shard *shard = &segment->client_shards[number];
	uint32_t high = atomic_load(&shard->high_water);

	lock_reset(&shard->lock);
	atomic_store(&shard->seq, 0);
	if (high > segment->header->clients_per_shard) {
		high = segment->header->clients_per_shard;
		atomic_store(&shard->high_water, high);
	}
	for (uint32_t i = 0; i < high; i++) {
		struct client_slot *client = client_at(segment, number, i);

		if (client->used != 1 ||
		    client->class_record >= segment->header->record_count)
			client->used = 0;
		else
			atomic_store(&client->open, 0);
	}
	client_shard_rebuild(segment, number);
}

uint64_t sessions_rebuild(struct segment *segment) {
	uint64_t open = 0;

	sessions_scrub(segment);
	for (uint32_t i = 0; i < segment->header->shard_count; i++)
		rebuild_client_shard(segment, i);
	for (uint32_t i = 0; i < segment->header->record_count; i++) {
		struct class_record *record = &segment->records[i];

		lock_reset(&record->lock);
		atomic_store(&record->torn, 0);
		zero_record(record);
	}
	(void)count_slots(segment, SEGMENT_NO_CLASS, 0);
	for (uint32_t i = 0; i < segment->header->record_count; i++) {
		struct class_record *record = &segment->records[i];

		open_peak(record, atomic_load(&record->open));
		open += atomic_load(&record->open);
	}
	return open;
}

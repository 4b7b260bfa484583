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
#include "segment/file/lock.h"
#include "segment/session/sessions.h"

/* The word of open and class_record. */
#define OPEN_WORD	WORD_OF(client_slot, open)
#define OPEN_OF(word)	((uint32_t)(word))
#define RECORD_OF(word)	((uint32_t)((word) >> 32))
#define TAT_WORD	WORD_OF(client_slot, rate_tat_ns)
#define NS_PER_DS	(NS_PER_SECOND / 10)

/* Those at rest first, and else the one nearest to it, so that many addresses do not wash away the
 * rate of a busy one.  now_ds: of the clock itself. */
static uint64_t client_worth(const _Atomic uint64_t *slot, uint32_t now_ds) {
	int64_t tat_ns = (int64_t)RELAXED(slot[TAT_WORD]);

	if (OPEN_OF(RELAXED(slot[OPEN_WORD])) != 0)
		return LEARNED_NEVER;
	return tat_ns < 0 || tat_ns / NS_PER_DS <= now_ds ? 0 : (uint64_t)tat_ns;
}

/* For memory that any role could write. */
static bool client_is_sound(const uint64_t *words) {
	return (int64_t)words[TAT_WORD] >= 0 && RECORD_OF(words[OPEN_WORD]) < SEGMENT_RECORDS_MAX;
}

static const struct learned_kind client_kind = {
	.place_at = offsetof(struct segment_header, clients),
	.slot_words = sizeof(struct client_slot) / 8,
	.key_at = WORD_OF(client_slot, key),
	.key_words = 1,
	.text_at = 1,
	.is_hashed = true,
	.copied_words = sizeof(struct client_slot) / 8,
	.evicted = COUNTER_CLIENT_EVICTIONS,
	.worth = client_worth,
	.is_sound = client_is_sound,
};

struct learned clients_table(const struct segment *segment) {
	return learned_table(segment, &client_kind);
}

void client_aim(struct segment *segment, uint16_t record,
    const struct address *client, unsigned bits, int64_t now_ns,
    struct client_lock *lock) {
	struct address truncated = *client;
	unsigned char bytes[24] = { 0 };

	address_truncate(&truncated, bits);
	memcpy(bytes, truncated.bytes, 16);
	memcpy(bytes + 16, &record, sizeof(record));
	lock->key.words[0] = siphash13(&segment->header->key, bytes, sizeof(bytes));
	lock->record = record;
	lock->segment = segment;
	lock->table = clients_table(segment);
	lock->slot = NULL;
	lock->now_ns = now_ns;
	learned_aim(&lock->table, 1, &lock->key);
}

bool client_lock(struct client_lock *lock) {
	if (!learned_lock(&lock->table, &lock->key, lock->now_ns))
		return false;
	lock->slot = learned_find(&lock->table, &lock->key);
	return true;
}

void client_unlock(struct client_lock *lock) {
	lock_release(&lock->table.shards[lock->key.shard].lock);
}

void client_counts(const struct client_lock *lock, uint32_t *open,
    int64_t *rate_tat_ns) {
	*open = 0;
	*rate_tat_ns = 0;
	if (lock->slot == NULL)
		return;
	*open = OPEN_OF(RELAXED(lock->slot[OPEN_WORD]));
	*rate_tat_ns = (int64_t)RELAXED(lock->slot[TAT_WORD]);
}

bool client_reserve(struct client_lock *lock) {
	const struct client_slot client = { .control.used = 1, .class_record = lock->record,
		.key = lock->key.words[0] };

	if (lock->slot != NULL)
		return true;
	lock->slot = learned_add(&lock->table, &lock->key, (uint32_t)(lock->now_ns / NS_PER_DS),
	    &client);
	if (lock->slot == NULL)
		segment_count(lock->segment, COUNTER_CLIENTS_UNCOUNTED, 1);
	return lock->slot != NULL;
}

void client_add(struct client_lock *lock, int change, int64_t rate_tat_ns) {
	uint32_t open;

	/* one that counts is never given up: its tag was lost */
	if (lock->slot == NULL && change < 0) {
		learned_mend(&lock->table, lock->key.shard);
		lock->slot = learned_find(&lock->table, &lock->key);
	}
	if (lock->slot == NULL)
		return;
	open = OPEN_OF(RELAXED(lock->slot[OPEN_WORD]));
	if (change > 0 || open != 0)
		open += (uint32_t)change;
	STORE(lock->slot[OPEN_WORD], (uint64_t)lock->record << 32 | open);
	FAILPOINT();
	if (rate_tat_ns != 0)
		STORE(lock->slot[TAT_WORD], (uint64_t)rate_tat_ns);
	if (open == 0 && (int64_t)RELAXED(lock->slot[TAT_WORD]) <= lock->now_ns) {
		learned_forget(&lock->table, &lock->key, lock->slot);
		lock->slot = NULL;
	}
}

static void client_forget(const struct learned *table, const struct learned_key *key,
    _Atomic uint64_t *slot) {
	learned_forget(table, key, slot);
}

static void client_zero(const struct learned *table, const struct learned_key *key,
    _Atomic uint64_t *slot) {
	(void)table;
	(void)key;
	STORE(slot[OPEN_WORD], (uint64_t)RECORD_OF(RELAXED(slot[OPEN_WORD])) << 32);
}

/* Calls `each` for the clients of a class, or of all (SEGMENT_NO_CLASS).  False: not all; each lock
 * was tried, so that those without an owner are found together. */
static bool clients_each(struct segment *segment, uint16_t record, int64_t now_ns,
    void (*each)(const struct learned *table, const struct learned_key *key,
	_Atomic uint64_t *slot)) {
	struct learned table = clients_table(segment);
	struct learned_key key = { 0 };
	bool whole = true;

	for (; key.shard < table.place->shards; key.shard++) {
		if (!learned_lock(&table, &key, now_ns)) {
			whole = false;
			continue;
		}
		for (uint32_t i = learned_next(&table, key.shard, 0); i != SEGMENT_NO_SLOT;
		     i = learned_next(&table, key.shard, i + 1)) {
			_Atomic uint64_t *slot = learned_slot(&table, key.shard, i);

			if (learned_load_control(slot).used && (record == SEGMENT_NO_CLASS ||
				RECORD_OF(RELAXED(slot[OPEN_WORD])) == record))
				each(&table, &key, slot);
		}
		lock_release(&table.shards[key.shard].lock);
	}
	return whole;
}

void clients_purge(struct segment *segment, uint16_t record, int64_t now_ns) {
	(void)clients_each(segment, record, now_ns, client_forget);
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
	struct learned clients = clients_table(segment);

	for (uint32_t i = 0; i < segment->header->record_count; i++) {
		const struct class_record *record = &segment->records[i];

		if ((lock_is_orphaned(&record->lock) || RELAXED(record->torn) != 0) &&
		    class_lock(segment, (uint16_t)i, now_ns))
			class_unlock(segment, (uint16_t)i);
	}
	for (uint32_t i = 0; i < clients.place->shards; i++) {
		const struct learned_key key = { .shard = i };

		if (lock_is_orphaned(&clients.shards[i].lock) && learned_lock(&clients, &key, now_ns))
			learned_unlock(&clients, &key);
	}
}

uint64_t sessions_rebuild(struct segment *segment) {
	struct learned clients;
	uint64_t open = 0;

	sessions_scrub(segment);
	/* of clients, only rates are worth keeping */
	clients = clients_table(segment);
	learned_scrub(&clients, UINT32_MAX);
	(void)clients_each(segment, SEGMENT_NO_CLASS, 0, client_zero);
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

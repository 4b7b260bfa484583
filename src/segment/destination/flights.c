/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Deliveries in flight.
 * MODEL    A flight is claimed by one compare-and-swap of its control word, filled,
 *          and counts once that word says RUNNING; all of it, and its end, under
 *          the mutex of its destination's shard.  So whoever holds that sees all
 *          flights of the shard stand still.  Attempts (attempts.h) need no lock.
 * ERRORS   Whoever inherits a shard's mutex frees the claims of that shard and
 *          counts in_flight of its slots anew.
 * THREADS  Any, of any process.
 */
#include "segment/destination/flights.h"

#include <string.h>

#include "base/failpoint.h"
#include "segment/destination/flights_internal.h"
#include "segment/destination/destination_table.h"
#include "segment/file/name.h"

#define PROBES		256

static struct flight *flights_of(const struct segment_header *header) {
	return (struct flight *)(void *)((char *)(uintptr_t)header +
	    header->flights_offset);
}

static uint64_t control_word(struct flight_control control) {
	uint64_t word;

	memcpy(&word, &control, sizeof(word));
	return word;
}

static struct flight_control load_control(const struct flight *flight) {
	uint64_t word = atomic_load_explicit(&flight->control,
	    memory_order_acquire);
	struct flight_control control;

	memcpy(&control, &word, sizeof(control));
	return control;
}

static void store_control(struct flight *flight, struct flight_control control) {
	FAILPOINT();
	atomic_store_explicit(&flight->control, control_word(control),
	    memory_order_release);
	FAILPOINT();
}

static void set_free(struct flight *flight, struct flight_control control) {
	control.state = FLIGHT_FREE;
	store_control(flight, control);
}

uint64_t flights_queue_hash(const struct segment *segment, const char *queue_id,
    size_t length) {
	uint64_t hash = siphash13(&segment->header->key, queue_id, length);

	return hash == 0 ? 1 : hash;
}

/* --- inside a state_lock --------------------------------------------------------- */

static uint32_t first_probe(const struct segment_header *header,
    const struct flight_process *process) {
	uint64_t mixed = ((uint64_t)(uint32_t)process->pid ^ process->start_ticks) *
	    UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)((mixed >> 32) % header->flight_count);
}

/* NULL: those that were looked at are taken. */
static struct flight *flight_claim(const struct state_lock *lock, uint32_t at,
    struct flight_control *control) {
	const struct segment_header *header = lock->segment->header;

	for (unsigned i = 0; i < PROBES; i++) {
		struct flight *flight = flights_of(header) + at;
		struct flight_control found = load_control(flight);
		uint64_t was = control_word(found);

		*control = (struct flight_control){ .state = FLIGHT_CLAIMED,
			.slot = learned_number(&lock->table, &lock->key,
			    lock->slot), .shard = (uint8_t)lock->key.shard,
			.serial = (uint16_t)(found.serial + 1) };
		if (found.state == FLIGHT_FREE &&
		    atomic_compare_exchange_strong_explicit(&flight->control,
			&was, control_word(*control), memory_order_acq_rel,
			memory_order_relaxed)) {
			FAILPOINT();
			return flight;
		}
		at = at + 1 < header->flight_count ? at + 1 : 0;
	}
	return NULL;
}

/* What stands in a flight's level. */
#define CANARY		(UINT64_C(1) << 16)
#define CONNECTED	(UINT64_C(1) << 17)	/* the flight is, whatever the attempt */
#define RANK_SHIFT	32

static uint64_t level_word(const struct flight_attempt *attempt, bool connected) {
	return attempt->level | (attempt->canary ? CANARY : 0) |
	    (connected ? CONNECTED : 0) | (uint64_t)attempt->rank << RANK_SHIFT;
}

static void set_attempt(const struct state_lock *lock, struct flight *flight,
    const struct flight_attempt *attempt, bool connected) {
	uint64_t key = attempt->queue_hash == 0 ? 0 :
	    attempts_key(lock->segment, attempt->queue_hash, lock->key.hash);
	struct flight_attempt there = *attempt;

	STORE(flight->queue_hash, attempt->queue_hash);
	STORE(flight->attempt, key);
	STORE(flight->level, level_word(attempt, connected));
	FAILPOINT();
	there.place = (uint16_t)((size_t)(flight - flights_of(lock->segment->header)) %
	    FLIGHT_PLACES);
	if (key != 0)
		attempts_put(lock->segment, key, &there, lock->now_ns);
}

static void set_flights(struct state_lock *lock, uint16_t in_flight,
    uint16_t connected) {
	states_set_flights(lock->slot, in_flight, connected);
	lock->words[FLIGHTS_AT] = (lock->words[FLIGHTS_AT] & ~FLIGHTS_MASK) |
	    in_flight | (uint64_t)connected << 12;
	lock->state.in_flight = in_flight;
	lock->state.connected = connected;
}

bool flights_take(struct state_lock *lock, const struct flight_process *process,
    const struct flight_attempt *attempt, struct flight_ref *ref) {
	struct flight_control control;
	struct flight *flight = NULL;

	*ref = (struct flight_ref){ 0, 0 };
	if (lock->state.in_flight < FLIGHTS_MOST)
		flight = flight_claim(lock, first_probe(lock->segment->header, process),
		    &control);
	if (flight == NULL) {
		segment_count(lock->segment, COUNTER_FLIGHTS_UNTRACKED, 1);
		return false;
	}
	STORE(flight->process, (uint32_t)process->pid);
	STORE(flight->start_ticks, process->start_ticks);
	STORE(flight->started_ns, (uint64_t)lock->now_ns);
	set_attempt(lock, flight, attempt, false);
	control.state = FLIGHT_RUNNING;
	store_control(flight, control);
	set_flights(lock, (uint16_t)(lock->state.in_flight + 1),
	    lock->state.connected);
	ref->number = 1 + (uint32_t)(flight - flights_of(lock->segment->header));
	ref->serial = control.serial;
	return true;
}

static bool is_connected(const struct flight *flight) {
	return (RELAXED(flight->level) & CONNECTED) != 0;
}

static bool is_of(const struct flight *flight,
    const struct flight_process *process) {
	return (int32_t)RELAXED(flight->process) == process->pid &&
	    RELAXED(flight->start_ticks) == process->start_ticks;
}

/* Is there such a slot?  A role can write any number. */
static bool has_slot(const struct segment_header *header, struct flight_control control) {
	return control.shard < header->destinations.shards &&
	    control.slot < header->destinations.per_shard;
}

/* NULL: it names none. */
static struct flight *flight_of(const struct segment_header *header,
    const struct flight_ref *ref, struct flight_control *control) {
	struct flight *flight;

	if (ref->number == 0 || ref->number > header->flight_count)
		return NULL;
	flight = flights_of(header) + ref->number - 1;
	*control = load_control(flight);
	return control->state == FLIGHT_RUNNING && control->serial == ref->serial &&
	    has_slot(header, *control) ? flight : NULL;
}

/* The process's place at the locked destination, or NULL. */
static struct flight *place_of(const struct state_lock *lock,
    const struct flight_process *process, const struct flight_ref *ref) {
	struct flight_control control;
	struct flight *flight = flight_of(lock->segment->header, ref, &control);

	if (flight == NULL || control.shard != lock->key.shard ||
	    control.slot != learned_number(&lock->table, &lock->key, lock->slot) ||
	    !is_of(flight, process))
		return NULL;
	return flight;
}

bool flights_holds(const struct state_lock *lock, const struct flight_process *process,
    const struct flight_ref *ref) {
	return place_of(lock, process, ref) != NULL;
}

bool flights_again(struct state_lock *lock, const struct flight_process *process,
    const struct flight_attempt *attempt, const struct flight_ref *ref) {
	struct flight *flight = place_of(lock, process, ref);
	uint64_t before;

	if (flight == NULL)
		return false;
	before = RELAXED(flight->attempt);
	if (before != 0 && RELAXED(flight->queue_hash) != attempt->queue_hash)
		attempts_end(lock->segment, before, lock->now_ns);
	set_attempt(lock, flight, attempt, is_connected(flight));
	return true;
}

uint32_t flights_others_connected(const struct state_lock *lock,
    const struct flight_process *process, const struct flight_ref *ref) {
	const struct flight *flight = place_of(lock, process, ref);
	uint32_t connected = lock->state.connected;

	return flight != NULL && is_connected(flight) && connected > 0 ?
	    connected - 1 : connected;
}

bool flights_connect(struct state_lock *lock, const struct flight_process *process,
    const struct flight_attempt *attempt, const struct flight_ref *ref) {
	struct flight *flight = place_of(lock, process, ref);
	struct flight_attempt there = *attempt;
	bool was_connected = flight != NULL && is_connected(flight);

	if (flight == NULL)
		return false;
	there.connected = true;
	set_attempt(lock, flight, &there, true);
	if (!was_connected)
		set_flights(lock, lock->state.in_flight,
		    (uint16_t)(lock->state.connected + 1));
	return true;
}

/* --- ends ------------------------------------------------------------------------- */

static void end_locked(struct segment *segment, const struct learned *table,
    struct flight *flight, struct flight_control control, int64_t now_ns) {
	_Atomic uint64_t *slot = learned_slot(table, control.shard, control.slot);
	uint64_t kept[KEPT_WORDS] = { [FLIGHTS_AT] =
		RELAXED(slot[KEPT_AT + FLIGHTS_AT]) };
	uint64_t attempt = RELAXED(flight->attempt);

	bool connected = is_connected(flight);

	set_free(flight, control);
	if (IN_FLIGHT_OF(kept) > 0)
		states_set_flights(slot, (uint16_t)(IN_FLIGHT_OF(kept) - 1),
		    (uint16_t)(CONNECTED_OF(kept) -
			(connected && CONNECTED_OF(kept) > 0)));
	if (attempt != 0)
		attempts_end(segment, attempt, now_ns);
}

/* `attempt`: the key of its last attempt, or 0: whatever that is. */
static bool end_flight(struct segment *segment, const struct flight_ref *ref,
    uint64_t attempt, int64_t now_ns) {
	struct learned table = destination_state_table(segment);
	struct flight_control control, again;
	struct flight *flight = flight_of(segment->header, ref, &control);
	struct learned_key key;
	bool ended;

	if (flight == NULL)
		return false;
	key.shard = control.shard;
	if (!learned_lock(&table, &key, now_ns))
		return false;
	again = load_control(flight);
	ended = memcmp(&control, &again, sizeof(control)) == 0 &&
	    (attempt == 0 || RELAXED(flight->attempt) == attempt);
	if (ended)
		end_locked(segment, &table, flight, control, now_ns);
	learned_unlock(&table, &key);
	return ended;
}

bool flights_end(struct segment *segment, const struct flight_ref *ref,
    int64_t now_ns) {
	return end_flight(segment, ref, 0, now_ns);
}

bool flights_end_attempt(struct segment *segment, const char *destination, size_t length,
    uint64_t queue_hash, int64_t now_ns) {
	struct learned table = destination_state_table(segment);
	struct flight_attempt found;
	struct learned_key key;
	uint64_t attempt;

	if (queue_hash == 0 || !name_fold(destination, length, key.words))
		return false;
	attempt = attempts_key(segment, queue_hash, learned_hash(&table, key.words));
	if (!attempts_find(segment, attempt, now_ns, &found))
		return false;
	for (uint32_t i = found.place; i < segment->header->flight_count;
	     i += FLIGHT_PLACES) {
		const struct flight *flight = flights_of(segment->header) + i;
		struct flight_control control = load_control(flight);
		const struct flight_ref ref = { i + 1, control.serial };

		if (control.state == FLIGHT_RUNNING &&
		    RELAXED(flight->attempt) == attempt &&
		    end_flight(segment, &ref, attempt, now_ns))
			return true;
	}
	return false;
}

/* Does flight i run?  Then which, and of whom. */
static bool is_running(const struct segment *segment, uint32_t i,
    struct flight_ref *ref, struct flight_process *process) {
	const struct flight *flight = flights_of(segment->header) + i;
	struct flight_control control = load_control(flight);

	/* one that is taken anew meanwhile has another serial */
	*ref = (struct flight_ref){ i + 1, control.serial };
	process->pid = (int32_t)RELAXED(flight->process);
	process->start_ticks = RELAXED(flight->start_ticks);
	return control.state == FLIGHT_RUNNING;
}

/* The places that `claim` looks at. */
static uint32_t probe_count(const struct segment_header *header) {
	return PROBES < header->flight_count ? PROBES : header->flight_count;
}

unsigned flights_sweep(struct segment *segment, uint32_t *next, uint32_t looks,
    bool (*is_alive)(void *context, const struct flight_process *), void *context,
    int64_t now_ns) {
	uint32_t count = segment->header->flight_count;
	unsigned ended = 0;

	for (uint32_t i = 0; i < looks && i < count; i++) {
		struct flight_process of;
		struct flight_ref ref;

		*next = *next < count ? *next : 0;
		if (is_running(segment, (*next)++, &ref, &of) && !is_alive(context, &of))
			ended += flights_end(segment, &ref, now_ns);
	}
	return ended;
}

/* --- reading ----------------------------------------------------------------------- */

bool flights_find_attempt(const struct segment *segment, const char *destination,
    size_t length, uint64_t queue_hash, int64_t now_ns, struct flight_attempt *out) {
	struct learned table = destination_state_table(segment);
	struct learned_key key;

	if (queue_hash == 0 || !name_fold(destination, length, key.words))
		return false;
	out->queue_hash = queue_hash;
	return attempts_find(segment, attempts_key(segment, queue_hash,
	    learned_hash(&table, key.words)), now_ns, out);
}

static bool copy_flight(const struct segment *segment, uint32_t number,
    struct flight_seen *out) {
	struct learned table = destination_state_table(segment);
	const struct flight *flight = flights_of(segment->header) + number;
	struct flight_control control = load_control(flight), again;
	uint64_t copy[LEARNED_WORDS_MAX], level = RELAXED(flight->level);

	if (control.state != FLIGHT_RUNNING || !has_slot(segment->header, control))
		return false;
	out->ref = (struct flight_ref){ number + 1, control.serial };
	out->process.pid = (int32_t)RELAXED(flight->process);
	out->process.start_ticks = RELAXED(flight->start_ticks);
	out->attempt = (struct flight_attempt){
		.queue_hash = RELAXED(flight->queue_hash), .level = (uint16_t)level,
		.rank = (uint16_t)(level >> RANK_SHIFT),
		.canary = (level & CANARY) != 0,
		.connected = (level & CONNECTED) != 0 };
	out->started_ns = clock_bounded_ns((int64_t)RELAXED(flight->started_ns));
	if (learned_copy(&table, control.shard, control.slot, copy) !=
	    LEARNED_COPIED)
		return false;
	memcpy(out->destination, copy + offsetof(struct destination, name) / 8,
	    SEGMENT_NAME_MAX);
	out->destination[SEGMENT_NAME_MAX] = '\0';
	atomic_thread_fence(memory_order_acquire);
	again = load_control(flight);
	return memcmp(&control, &again, sizeof(control)) == 0;
}

void flights_each(const struct segment *segment,
    void (*each)(void *context, const struct flight_seen *), void *context) {
	for (uint32_t i = 0; i < segment->header->flight_count; i++) {
		struct flight_seen seen;

		if (copy_flight(segment, i, &seen))
			each(context, &seen);
	}
}

void flights_each_of(const struct segment *segment,
    const struct flight_process *process,
    void (*each)(void *context, const struct flight_seen *), void *context) {
	const struct segment_header *header = segment->header;
	uint32_t first = first_probe(header, process);

	for (uint32_t i = 0; i < probe_count(header); i++) {
		struct flight_seen seen;

		if (copy_flight(segment, (first + i) % header->flight_count,
			&seen) && seen.process.pid == process->pid &&
		    seen.process.start_ticks == process->start_ticks)
			each(context, &seen);
	}
}

void flights_used(const struct segment *segment, uint32_t *used, uint32_t *size) {
	const struct flight *flights = flights_of(segment->header);

	*used = 0;
	*size = segment->header->flight_count;
	for (uint32_t i = 0; i < *size; i++)
		*used += load_control(&flights[i]).state == FLIGHT_RUNNING;
}

/* --- keeping ------------------------------------------------------------------------ */

static bool is_slot(const struct learned *table, struct flight_control control) {
	return has_slot(table->header, control) &&
	    learned_has_tag(table, control.shard, control.slot) &&
	    learned_load_control(learned_slot(table, control.shard,
		control.slot)).used;
}

/* All slots to 0, then 1 for each flight: no memory is needed, and whoever dies in it
 * leaves it to the next. */
void flights_repair(const struct learned *table, uint32_t shard) {
	const struct segment_header *header = table->header;

	for (uint32_t i = learned_next(table, shard, 0); i != SEGMENT_NO_SLOT;
	     i = learned_next(table, shard, i + 1)) {
		_Atomic uint64_t *slot = learned_slot(table, shard, i);
		uint64_t kept[KEPT_WORDS] = { [FLIGHTS_AT] =
			RELAXED(slot[KEPT_AT + FLIGHTS_AT]) };

		if ((kept[FLIGHTS_AT] & FLIGHTS_MASK) != 0)
			states_set_flights(slot, 0, 0);
	}
	for (uint32_t i = 0; i < header->flight_count; i++) {
		struct flight *flight = flights_of(header) + i;
		struct flight_control control = load_control(flight);
		_Atomic uint64_t *slot;
		uint64_t kept[KEPT_WORDS] = { 0 };

		if (control.state == FLIGHT_FREE || control.shard != shard)
			continue;
		if (control.state != FLIGHT_RUNNING || !is_slot(table, control)) {
			set_free(flight, control);
			continue;
		}
		slot = learned_slot(table, shard, control.slot);
		kept[FLIGHTS_AT] = RELAXED(slot[KEPT_AT + FLIGHTS_AT]);
		if (IN_FLIGHT_OF(kept) < FLIGHTS_MOST)
			states_set_flights(slot,
			    (uint16_t)(IN_FLIGHT_OF(kept) + 1),
			    (uint16_t)(CONNECTED_OF(kept) + is_connected(flight)));
	}
}

void flights_scrub(struct segment *segment) {
	struct learned table = destination_state_table(segment);

	for (uint32_t i = 0; i < segment->header->flight_count; i++) {
		struct flight *flight = flights_of(segment->header) + i;
		struct flight_control control = load_control(flight);

		if (control.state != FLIGHT_FREE &&
		    (control.state != FLIGHT_RUNNING || !is_slot(&table, control) ||
			(int32_t)RELAXED(flight->process) <= 0))
			set_free(flight, control);
	}
}

/* Queue ids are hashed otherwise there: what they ask for now is not known. */
static void carry_one(void *context, const struct flight_seen *seen) {
	struct segment *to = context;
	struct flight_attempt attempt = { .level = seen->attempt.level,
		.rank = seen->attempt.rank, .canary = seen->attempt.canary };
	struct state_lock lock;
	struct flight_ref ref;

	if (!states_aim(to, seen->destination, strlen(seen->destination), &lock) ||
	    states_lock(&lock, seen->started_ns, STATES_CREATE) != STATES_HELD)
		return;
	if (flights_take(&lock, &seen->process, &attempt, &ref) &&
	    seen->attempt.connected)
		(void)flights_connect(&lock, &seen->process, &attempt, &ref);
	states_unlock(&lock);
}

void flights_carry(const struct segment *from, struct segment *to) {
	flights_each(from, carry_one, to);
}

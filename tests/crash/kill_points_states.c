/* SPDX-License-Identifier: ISC */
/* The part of kill_points that concerns states of destinations, reasons, deliveries in
 * flight and recipients that are held. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/destination/destination_table.h"
#include "segment/destination/flights.h"
#include "segment/file/internal.h"
#include "segment/destination/recipients.h"
#include "segment/destination/states.h"
#include "tests/crash/kill_points.h"
#include "tests/unit/segment/destination/states_forget.h"

#define HELD_MOST 3	/* flights of a worker at a time */
#define RECIPIENTS 200	/* for 64 places */

static struct flight_ref flown[HELD_MOST];

/* Held by hand, for one reason or another, and never released. */
static const char stays[] = "kept@example.com";

static size_t name_of(unsigned name, char text[32]) {
	return (size_t)snprintf(text, 32, "name%u.example", name);
}

/* All parts of a state tell one number; the reason tells it and the name. */
static void set_state(struct state_lock *lock, const char *name, uint32_t number,
    char reason[64]) {
	window_begin(&lock->state.window, &window_defaults);
	lock->state.begun = true;
	lock->state.window.until_ns = number;
	lock->state.window.canary_ns = number;
	lock->state.window.canary_out = number % 2;
	lock->state.ok = number;
	lock->state.failed = number;
	lock->state.held = number;
	lock->state.running = number % 4096;
	lock->state.flags = number % 50 == 0 ? DESTINATION_CEILING : 0;
	lock->origin = (struct state_origin){ 1, number };
	if (number % 3 == 0) {
		snprintf(reason, 64, "%s %u", name, number % 7);
		lock->reason = reason;
	}
}

static void take_or_end(struct state_lock *lock, uint64_t *random) {
	const struct flight_process process = { getpid(), 1 };
	const struct flight_attempt attempt = {
		.queue_hash = 1 + draw(random) % 50, .level = 5, .canary = true };
	struct flight_ref *ref = &flown[draw(random) % HELD_MOST];

	if (ref->number == 0)
		(void)flights_take(lock, &process, &attempt, ref);
	else
		(void)flights_again(lock, &process, &attempt, ref);
	if (draw(random) % 2 == 0)
		(void)flights_connect(lock, &process, &attempt, ref);
}

static void change_state(uint64_t *random) {
	struct flight_ref *ref = &flown[draw(random) % HELD_MOST];
	struct state_lock lock;
	char name[32], reason[64];
	size_t length = name_of(draw(random) % NAMES, name);

	if (draw(random) % 8 == 0)
		(void)forget_destination(site.segment, name, length, clock_now_ns());
	if (states_aim(site.segment, name, length, &lock) &&
	    states_lock(&lock, clock_now_ns(), STATES_CREATE) == STATES_HELD) {
		if (draw(random) % 2 == 0)
			take_or_end(&lock, random);
		set_state(&lock, name, draw(random) % 60000, reason);
		states_store(&lock);
		states_unlock(&lock);
	}
	if (draw(random) % 2 == 0 && ref->number != 0) {
		(void)flights_end(site.segment, ref, clock_now_ns());
		ref->number = 0;
	}
}

/* Reason, rule and time tell the same. */
static void hold_or_release(uint64_t *random) {
	unsigned number = draw(random) % RECIPIENTS;
	uint16_t rule = (uint16_t)(draw(random) % 20);
	char address[32], reason[64];
	struct recipient_hold hold = { .address = address, .rule = rule,
		.until_ns = INT64_MAX / 2 - rule, .reason = reason };

	hold.length = (size_t)snprintf(address, sizeof(address),
	    "r%u@example.com", number);
	snprintf(reason, sizeof(reason), "%s %u", address, rule);
	if (draw(random) % 4 == 0)
		(void)recipients_release(site.segment, address, hold.length,
		    clock_now_ns());
	else
		(void)recipients_hold(site.segment, &hold, clock_now_ns());
	if (draw(random) % 4 == 0) {
		hold = (struct recipient_hold){ .address = stays, .length = strlen(stays),
			.rule = RECIPIENT_NO_RULE, .until_ns = INT64_MAX, .reason = reason };
		snprintf(reason, sizeof(reason), "held %u", number);
		(void)recipients_hold(site.segment, &hold, clock_now_ns());
	}
}

void states_step(uint64_t *random) {
	change_state(random);
	hold_or_release(random);
}

static void check_window(void *context, const struct destination_window *w) {
	const struct destination_state *s = &w->state;
	bool *whole = context;
	size_t length = strlen(w->name);

	/* of those the engine has windows */
	if (strlen(w->name) == strlen("name0.example") && w->name[4] < '3')
		return;
	if (s->begun)
		*whole &= s->ok == s->failed && s->ok == s->held &&
		    s->running == s->ok % 4096 && s->window.until_ns == s->ok &&
		    s->window.canary_ns == s->ok &&
		    s->window.canary_out == s->ok % 2 &&
		    (s->flags != 0) == (s->ok % 50 == 0);
	else
		*whole &= s->ok == 0 && s->flags == 0 && s->running == 0;
	if (w->reason[0] != '\0')
		*whole &= strncmp(w->reason, w->name, length) == 0 &&
		    w->reason[length] == ' ';
	if (!*whole)
		fprintf(stderr, "%s: ok %u failed %u held %u running %u until %lld "
		    "flags %u reason \"%s\"\n", w->name, s->ok, s->failed,
		    s->held, s->running, (long long)s->window.until_ns, s->flags,
		    w->reason);
}

static void check_recipient(void *context, const struct recipient_held *held) {
	bool *whole = context;
	char reason[SEGMENT_REASON_MAX + RECIPIENT_MAX];

	if (strcmp(held->address, stays) == 0) {
		*whole &= strncmp(held->reason, "held ", 5) == 0;
		return;
	}
	snprintf(reason, sizeof(reason), "%s %u", held->address, held->rule);
	*whole &= strcmp(reason, held->reason) == 0 &&
	    held->until_ns == INT64_MAX / 2 - held->rule;
}

bool states_are_whole(void) {
	static bool was_kept;
	struct recipient_held held;
	bool whole = true;

	/* whoever died while the hold was renewed has left the old one, or the new one */
	if (recipients_find(site.segment, stays, strlen(stays), clock_now_ns(), &held))
		was_kept = true;
	else if (was_kept)
		return false;
	(void)states_each(site.segment, check_window, &whole);
	recipients_each(site.segment, clock_now_ns(), check_recipient, &whole);
	return whole;
}

static bool nobody_lives(void *context, const struct flight_process *process) {
	(void)context;
	(void)process;
	return false;
}

/* Flights of a slot, as the table has them; and those that are connected. */
static unsigned flights_of_slot(uint32_t shard, uint32_t slot,
    unsigned *connected) {
	const struct segment_header *header = site.segment->header;
	const struct flight *flights = (const void *)((const char *)header +
	    header->flights_offset);
	unsigned count = 0;

	*connected = 0;
	for (uint32_t i = 0; i < header->flight_count; i++) {
		uint64_t word = atomic_load(&flights[i].control);
		struct flight_control control;

		memcpy(&control, &word, sizeof(control));
		if (control.state == FLIGHT_RUNNING && control.shard == shard &&
		    control.slot == slot) {
			count++;
			*connected += (unsigned)(atomic_load(&flights[i].level) >>
			    17 & 1);
		}
	}
	return count;
}

/* After repair: what stands beside the slots fits them. */
static bool slot_adds_up(const struct learned *table, uint32_t shard,
    uint32_t number) {
	const struct segment_header *header = table->header;
	const _Atomic uint64_t *slot = learned_slot(table, shard, number);
	const _Atomic uint64_t *timed = (const void *)((const char *)header +
	    header->state_sets[STATES_TIMED] + ((size_t)shard * learned_set_words(&header->destinations) +
		number / 64) * 8);
	uint64_t kept[KEPT_WORDS], window[WINDOW_WORDS];
	unsigned connected, flights;

	flights = flights_of_slot(shard, number, &connected);
	if (!learned_load_control(slot).used)
		return flights == 0;
	for (unsigned i = 0; i < KEPT_WORDS; i++)
		kept[i] = atomic_load(&slot[KEPT_AT + i]);
	for (unsigned i = 0; i < WINDOW_WORDS; i++)
		window[i] = atomic_load(&slot[WINDOW_AT + i]);
	return SEEN_SEQUENCE(atomic_load(&slot[1])) % 2 == 0 &&
	    IN_FLIGHT_OF(kept) == flights && CONNECTED_OF(kept) == connected &&
	    (!states_is_timed(window) ||
		(atomic_load(timed) >> number % 64 & 1) != 0);
}

/* Each text is of the slot that names it, or free. */
static bool reasons_add_up(const struct learned *table, uint32_t shard) {
	const struct segment_header *header = table->header;
	const struct reason_text *texts = (const void *)((const char *)header +
	    header->reasons_offset);

	texts += (size_t)shard * header->reasons_per_shard;
	for (uint32_t i = 0; i < header->reasons_per_shard; i++) {
		uint32_t owner = atomic_load(&texts[i].owner);
		const _Atomic uint64_t *slot;
		uint64_t kept[2] = { 0, 0 };

		if (owner == 0)
			continue;
		slot = learned_slot(table, shard, owner - 1);
		kept[1] = atomic_load(&slot[KEPT_AT + 1]);
		if (!learned_load_control(slot).used ||
		    REASON_OF(kept) != i + 1 ||
		    atomic_load(&texts[i].sequence) % 2 != 0)
			return false;
	}
	return true;
}

/* Whoever died in a shard of recipients is repaired here, too. */
static void touch_recipients(void) {
	for (unsigned i = 0; i < RECIPIENTS; i++) {
		char address[32];
		size_t length = (size_t)snprintf(address, sizeof(address),
		    "r%u@example.com", i);

		if (i % 2 == 0)
			(void)recipients_release(site.segment, address, length,
			    clock_now_ns());
	}
}

static void count_flights(void *context, const struct destination_window *w) {
	*(unsigned *)context += w->state.in_flight;
}

static bool all_flights_end(void) {
	unsigned in_flight = 0;

	(void)flights_sweep(site.segment, &(uint32_t){ 0 }, UINT32_MAX, nobody_lives,
	    NULL, clock_now_ns());
	(void)states_each(site.segment, count_flights, &in_flight);
	return in_flight == 0;
}

bool states_add_up(void) {
	struct learned table = destination_state_table(site.segment);
	const struct state_shard *shards = (const void *)((const char *)
	    table.header + table.header->states_offset);

	touch_recipients();
	for (uint32_t i = 0; i < table.place->shards; i++) {
		if (atomic_load(&shards[i].undo_slot) != 0 ||
		    !reasons_add_up(&table, i))
			return false;
		for (uint32_t k = table.place->per_shard; k-- > 0;) {
			if (!slot_adds_up(&table, i, k))
				return false;
		}
	}
	return all_flights_end();
}

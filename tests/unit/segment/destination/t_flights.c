/* SPDX-License-Identifier: ISC */
/* Deliveries in flight: what counts, whose it is, at what level a message went. */
#include "tests/unit/test.h"

#include "segment/destination/flights_internal.h"
#include "segment/destination/destination_table.h"
#include "tests/unit/segment/destination/states_site.h"

#define SECONDS	NS_PER_SECOND

static uint64_t hash_of(const char *queue_id) {
	return flights_queue_hash(site.segment, queue_id, strlen(queue_id));
}

static struct flight_process process_of(int32_t pid) {
	return (struct flight_process){ pid, (uint64_t)pid * 10 };
}

static bool take(const char *name, int32_t pid, const char *queue_id,
    uint16_t level, struct flight_ref *ref) {
	const struct flight_process process = process_of(pid);
	const struct flight_attempt attempt = { .queue_hash = hash_of(queue_id),
		.level = level };
	struct state_lock lock;
	bool taken;

	assert_int_equal(lock_it(name, STATES_CREATE, &lock), STATES_HELD);
	taken = flights_take(&lock, &process, &attempt, ref);
	states_unlock(&lock);
	return taken;
}

static unsigned in_flight(const char *name) {
	struct destination_window found;

	return find(name, &found) ? found.state.in_flight : 0;
}

static bool level_of(const char *name, const char *queue_id, int64_t at_ns,
    struct flight_attempt *attempt) {
	return flights_find_attempt(site.segment, name, strlen(name),
	    hash_of(queue_id), at_ns, attempt);
}

static bool end(const struct flight_ref *ref) {
	return flights_end(site.segment, ref, clock_now_ns());
}

TEST_IN(site_begin, site_end, a_place_counts_until_it_ends) {
	struct flight_ref refs[3];

	for (int i = 0; i < 3; i++) {
		assert_true(take("a.example", 100 + i, "Q", 1, &refs[i]));
		assert_int_equal(in_flight("a.example"), i + 1);
	}
	assert_true(take("b.example", 100, "Q", 1, &refs[2]));
	assert_int_equal(in_flight("b.example"), 1);
	assert_true(end(&refs[0]));
	assert_false(end(&refs[0]));
	assert_true(end(&refs[1]));
	assert_int_equal(in_flight("a.example"), 1);
	assert_false(end(&(struct flight_ref){ 0, 0 }));
	assert_false(end(&(struct flight_ref){ UINT32_MAX, 0 }));
	assert_int_equal(in_flight("a.example"), 1);
}

static void count_seen(void *context, const struct flight_seen *seen) {
	++*(unsigned *)context;
}

/* Any role can write any number there. */
TEST_IN(site_begin, site_end, a_flight_to_a_place_that_there_is_not_is_left_alone) {
	static const struct flight_control hostile[] = { { .shard = UINT8_MAX },
		{ .slot = UINT32_MAX }, { .slot = UINT32_C(1) << 20 } };
	const struct segment_header *header = segment_header(site.segment);
	struct flight_control control;
	struct flight_ref ref;
	struct flight *flight;
	unsigned shown;

	assert_true(take("a.example", 100, "Q", 1, &ref));
	flight = (struct flight *)(void *)((char *)(uintptr_t)header + header->flights_offset) +
	    ref.number - 1;
	for (unsigned i = 0; i < 3; i++) {
		uint64_t before = atomic_load(&flight->control), word;

		memcpy(&control, &before, sizeof(control));
		if (hostile[i].shard != 0)
			control.shard = hostile[i].shard;
		else
			control.slot = hostile[i].slot;
		memcpy(&word, &control, sizeof(word));
		atomic_store(&flight->control, word);
		assert_false(end(&ref));
		shown = 0;
		flights_each(site.segment, count_seen, &shown);
		assert_int_equal(shown, 0);
		atomic_store(&flight->control, before);
	}
	assert_true(end(&ref));
}

static unsigned connected(const char *name) {
	struct destination_window found;

	return find(name, &found) ? found.state.connected : 0;
}

/* Its message has a connection: returns how many others have one. */
static unsigned connect_it(const char *name, int32_t pid, const char *queue_id,
    const struct flight_ref *ref) {
	const struct flight_process process = process_of(pid);
	struct flight_attempt attempt = { .queue_hash = hash_of(queue_id) };
	struct state_lock lock;
	unsigned others;

	assert_int_equal(lock_it(name, STATES_KNOWN_ONLY, &lock), STATES_HELD);
	others = flights_others_connected(&lock, &process, ref);
	attempt.level = (uint16_t)(others + 1);
	assert_true(flights_connect(&lock, &process, &attempt, ref));
	assert_int_equal(flights_others_connected(&lock, &process, ref), others);
	store_it(&lock);
	return others;
}

/* Three ask at once; of those the last two are let in. */
TEST_IN(site_begin, site_end, connections_are_counted) {
	struct flight_attempt attempt;
	struct flight_ref refs[3];

	for (int i = 0; i < 3; i++)
		assert_true(take("a.example", 100 + i, i == 0 ? "A" : i == 1 ? "B" : "C",
		    1, &refs[i]));
	assert_int_equal(connected("a.example"), 0);
	assert_int_equal(connect_it("a.example", 101, "B", &refs[1]), 0);
	assert_int_equal(connect_it("a.example", 102, "C", &refs[2]), 1);
	assert_int_equal(connect_it("a.example", 101, "B", &refs[1]), 1);
	assert_int_equal(connected("a.example"), 2);
	assert_int_equal(in_flight("a.example"), 3);
	assert_true(level_of("a.example", "C", clock_now_ns(), &attempt));
	assert_true(attempt.level == 2 && attempt.connected);
	assert_true(level_of("a.example", "A", clock_now_ns(), &attempt));
	assert_true(attempt.level == 1 && !attempt.connected);
	assert_true(end(&refs[1]));
	assert_int_equal(connected("a.example"), 1);
	assert_true(end(&refs[0]));
	assert_int_equal(connected("a.example"), 1);
	assert_true(end(&refs[2]));
	assert_int_equal(connected("a.example"), 0);
}

TEST_IN(site_begin, site_end, who_could_not_connect_has_no_place) {
	const struct flight_process process = process_of(100);
	const struct flight_attempt next = { .queue_hash = hash_of("B"), .level = 1 };
	struct state_lock lock;
	struct flight_ref ref, other;

	assert_true(take("a.example", 100, "A", 1, &ref));
	assert_true(take("a.example", 101, "C", 1, &other));
	assert_false(flights_end_attempt(site.segment, "a.example", 9, hash_of("B"),
	    clock_now_ns()));
	assert_false(flights_end_attempt(site.segment, "b.example", 9, hash_of("A"),
	    clock_now_ns()));
	/* it has gone on with another message */
	assert_int_equal(lock_it("a.example", STATES_KNOWN_ONLY, &lock), STATES_HELD);
	assert_true(flights_again(&lock, &process, &next, &ref));
	states_unlock(&lock);
	assert_false(flights_end_attempt(site.segment, "a.example", 9, hash_of("A"),
	    clock_now_ns()));
	assert_int_equal(in_flight("a.example"), 2);
	assert_true(flights_end_attempt(site.segment, "A.Example", 9, hash_of("B"),
	    clock_now_ns()));
	assert_int_equal(in_flight("a.example"), 1);
	assert_int_equal(lock_it("a.example", STATES_KNOWN_ONLY, &lock), STATES_HELD);
	assert_false(flights_holds(&lock, &process, &ref));
	assert_false(flights_again(&lock, &process, &next, &ref));
	assert_false(flights_connect(&lock, &process, &next, &ref));
	states_unlock(&lock);
	assert_true(end(&other));
}

/* Whether the state is stored or not, and stored twice. */
TEST_IN(site_begin, site_end, it_counts_at_once) {
	const struct flight_process process = process_of(7);
	const struct flight_attempt attempt = { .level = 1 };
	struct state_lock lock;
	struct flight_ref ref;

	assert_int_equal(lock_it("a.example", STATES_CREATE, &lock), STATES_HELD);
	for (unsigned i = 1; i <= 3; i++) {
		assert_true(flights_take(&lock, &process, &attempt, &ref));
		assert_int_equal(lock.state.in_flight, i);
		assert_int_equal(in_flight("a.example"), i);
		lock.state.ok++;
		states_store(&lock);
		assert_int_equal(in_flight("a.example"), i);
	}
	states_unlock(&lock);
	assert_int_equal(end_process(process), 3);
	assert_int_equal(in_flight("a.example"), 0);
}

TEST_IN(site_begin, site_end, the_level_of_a_message_is_known_until_a_minute_after) {
	int64_t now_ns = clock_now_ns();
	struct flight_attempt attempt;
	struct flight_ref ref;

	assert_true(take("a.example", 100, "4bXyZ", 5, &ref));
	assert_true(level_of("A.example.", "4bXyZ", now_ns, &attempt));
	assert_int_equal(attempt.level, 5);
	assert_false(attempt.canary);
	assert_false(level_of("b.example", "4bXyZ", now_ns, &attempt));
	assert_false(level_of("a.example", "4bXyz", now_ns, &attempt));
	assert_true(level_of("a.example", "4bXyZ", now_ns + 3600 * SECONDS,
	    &attempt));
	assert_true(end(&ref));
	assert_true(level_of("a.example", "4bXyZ", now_ns + 59 * SECONDS,
	    &attempt));
	assert_int_equal(attempt.level, 5);
	assert_false(level_of("a.example", "4bXyZ", now_ns + 62 * SECONDS,
	    &attempt));
	/* tried again later, at another level */
	assert_true(take("a.example", 101, "4bXyZ", 9, &ref));
	assert_true(level_of("a.example", "4bXyZ", now_ns, &attempt));
	assert_int_equal(attempt.level, 9);
	/* that nobody ended: for ever it is not */
	assert_false(level_of("a.example", "4bXyZ", now_ns + 15000 * SECONDS,
	    &attempt));
}

TEST_IN(site_begin, site_end, a_process_goes_on_with_another_message) {
	const struct flight_process process = process_of(100);
	const struct flight_process other = process_of(101);
	const struct flight_attempt next = { .queue_hash = hash_of("NEXT"), .level = 4,
		.canary = true };
	int64_t now_ns = clock_now_ns();
	struct flight_attempt attempt;
	struct state_lock lock;
	struct flight_ref ref;

	assert_true(take("a.example", 100, "FIRST", 3, &ref));
	assert_int_equal(lock_it("a.example", STATES_CREATE, &lock), STATES_HELD);
	assert_false(flights_again(&lock, &other, &next, &ref));
	assert_true(flights_again(&lock, &process, &next, &ref));
	states_unlock(&lock);
	assert_int_equal(in_flight("a.example"), 1);
	assert_true(level_of("a.example", "NEXT", now_ns, &attempt));
	assert_int_equal(attempt.level, 4);
	assert_true(attempt.canary);
	/* the log's line of the first may be on its way yet */
	assert_true(level_of("a.example", "FIRST", now_ns + 59 * SECONDS,
	    &attempt));
	assert_int_equal(attempt.level, 3);
	assert_false(level_of("a.example", "FIRST", now_ns + 62 * SECONDS,
	    &attempt));
	assert_true(level_of("a.example", "NEXT", now_ns + 62 * SECONDS,
	    &attempt));
	/* the place is at another destination */
	assert_int_equal(lock_it("b.example", STATES_CREATE, &lock), STATES_HELD);
	assert_false(flights_again(&lock, &process, &next, &ref));
	states_unlock(&lock);
	assert_true(end(&ref));
	assert_int_equal(lock_it("a.example", STATES_CREATE, &lock), STATES_HELD);
	assert_false(flights_again(&lock, &process, &next, &ref));
	states_unlock(&lock);
}

static bool is_even(void *context, const struct flight_process *process) {
	assert_int_equal(process->start_ticks, (uint64_t)process->pid * 10);
	return process->pid % 2 == 0;
}

TEST_IN(site_begin, site_end, dead_processes_give_their_places_back) {
	const struct flight_process reborn = { 101, 1 };
	struct flight_ref ref;
	uint32_t next = 0;

	for (int32_t pid = 100; pid < 110; pid++) {
		assert_true(take("a.example", pid, "Q", 1, &ref));
		assert_true(take("b.example", pid, "Q", 1, &ref));
	}
	/* the same number, another process */
	assert_int_equal(end_process(reborn), 0);
	assert_int_equal(flights_sweep(site.segment, &next, UINT32_MAX, is_even,
	    NULL, clock_now_ns()), 10);
	assert_int_equal(flights_sweep(site.segment, &next, UINT32_MAX, is_even,
	    NULL, clock_now_ns()), 0);
	assert_int_equal(in_flight("a.example"), 5);
	assert_int_equal(in_flight("b.example"), 5);
	for (int32_t pid = 100; pid < 110; pid++) {
		const struct flight_process process = process_of(pid);

		assert_int_equal(end_process(process), pid % 2 == 0 ? 2 : 0);
	}
	assert_int_equal(in_flight("a.example"), 0);
}

static bool count_one(void *context, const struct flight_process *process) {
	++*(unsigned *)context;
	return true;
}

TEST_IN(site_begin, site_end, however_many_fly_a_sweep_looks_at_some) {
	unsigned asked = 0, all = 0;
	struct flight_ref ref;
	uint32_t next = 4000000000;

	for (int32_t pid = 100; pid < 200; pid++)
		assert_true(take("a.example", pid, "Q", 1, &ref));
	for (unsigned i = 0; i < 256 / 8; i++) {
		asked = 0;
		assert_int_equal(flights_sweep(site.segment, &next, 8, count_one,
		    &asked, clock_now_ns()), 0);
		assert_true(asked <= 8);
		all += asked;
	}
	assert_int_equal(all, 100);
}

static void take_down(void *context, const struct flight_seen *seen) {
	struct flight_seen *last = context;

	*last = *seen;
}

TEST_IN(site_begin, site_end, flights_are_listed) {
	const struct flight_process process = process_of(4711);
	struct flight_seen seen = { .started_ns = 0 };
	uint32_t used, size;
	struct flight_ref ref;

	assert_true(take("a.example", 4711, "Q", 6, &ref));
	flights_each(site.segment, take_down, &seen);
	assert_string_equal(seen.destination, "a.example");
	assert_int_equal(seen.process.pid, 4711);
	assert_int_equal(seen.process.start_ticks, 47110);
	assert_int_equal(seen.attempt.level, 6);
	assert_true(seen.attempt.queue_hash == hash_of("Q"));
	assert_memory_equal(&seen.ref, &ref, sizeof(ref));
	assert_true(seen.started_ns <= clock_now_ns());
	flights_used(site.segment, &used, &size);
	assert_int_equal(used, 1);
	assert_int_equal(size, 256);
	memset(&seen, 0, sizeof(seen));
	flights_each_of(site.segment, &process, take_down, &seen);
	assert_string_equal(seen.destination, "a.example");
	memset(&seen, 0, sizeof(seen));
	flights_each_of(site.segment, &(struct flight_process){ 4711, 1 },
	    take_down, &seen);
	assert_string_equal(seen.destination, "");
	assert_true(end(&ref));
	flights_each(site.segment, take_down, &seen);
	assert_string_equal(seen.destination, "");
}

TEST_IN(site_begin, site_end, a_full_table_lets_go_uncounted) {
	struct flight_ref refs[256], ref;
	struct flight_attempt attempt;

	for (unsigned i = 0; i < 256; i++)
		assert_true(take("a.example", (int32_t)i + 1, "Q", 1, &refs[i]));
	assert_false(take("a.example", 1000, "LAST", 1, &ref));
	assert_int_equal(ref.number, 0);
	assert_int_equal(counted(COUNTER_FLIGHTS_UNTRACKED), 1);
	assert_int_equal(in_flight("a.example"), 256);
	assert_false(level_of("a.example", "LAST", clock_now_ns(), &attempt));
	assert_true(end(&refs[77]));
	assert_true(take("a.example", 1000, "LAST", 1, &ref));
	assert_int_equal(in_flight("a.example"), 256);
	/* its former holder does not end it */
	assert_int_equal(ref.number, refs[77].number);
	assert_false(end(&refs[77]));
	assert_int_equal(in_flight("a.example"), 256);
}

TEST_IN(site_begin, site_end, they_survive_a_restart) {
	const struct flight_process process = process_of(3);
	struct flight_attempt attempt;
	struct flight_ref refs[5];

	for (int i = 0; i < 5; i++)
		assert_true(take("a.example", i + 1, "Q", (uint16_t)(i + 1),
		    &refs[i]));
	site_restart(&site, 64, CLASSES);
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	assert_int_equal(in_flight("a.example"), 5);
	assert_true(level_of("a.example", "Q", clock_now_ns(), &attempt));
	assert_int_equal(attempt.level, 5);
	assert_true(end(&refs[0]));
	/* other sizes: other places */
	site_restart(&site, 4096, CLASSES);
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	assert_int_equal(in_flight("a.example"), 4);
	assert_int_equal(end_process(process), 1);
	assert_int_equal(in_flight("a.example"), 3);
	/* at what level its message went nobody knows: queue ids are hashed anew */
	assert_false(level_of("a.example", "Q", clock_now_ns(), &attempt));
}

static struct flight *flight_at(uint32_t number) {
	return (struct flight *)(void *)((char *)site.segment->header +
	    site.segment->header->flights_offset) + number - 1;
}

/* Each row spoils a flight of another file: it is not believed. */
TEST_IN(site_begin, site_end, scribbled_flights_are_not_adopted) {
	static const struct flight_control rows[] = {
		{ .slot = 0, .shard = 200, .state = FLIGHT_RUNNING },
		{ .slot = 1u << 30, .shard = 0, .state = FLIGHT_RUNNING },
		{ .slot = 0, .shard = 0, .state = 77 },
		{ .slot = 0, .shard = 0, .state = FLIGHT_CLAIMED },
	};
	struct flight_ref ref;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t word;

		assert_true(take("a.example", 5, "Q", 1, &ref));
		memcpy(&word, &rows[i], sizeof(word));
		atomic_store(&flight_at(ref.number)->control, word);
		site_restart(&site, 64, CLASSES);
		assert_int_equal(in_flight("a.example"), 0);
		assert_false(end(&ref));
	}
	/* of nobody */
	assert_true(take("a.example", 5, "Q", 1, &ref));
	atomic_store(&flight_at(ref.number)->process, 0);
	site_restart(&site, 64, CLASSES);
	assert_int_equal(in_flight("a.example"), 0);
	/* at a destination that is gone: in a place that is free */
	assert_true(take("b.example", 5, "Q", 1, &ref));
	{
		struct state_lock lock;

		assert_int_equal(lock_it("b.example", STATES_KNOWN_ONLY, &lock),
		    STATES_HELD);
		atomic_store(&lock.slot[offsetof(struct destination, name) / 8], 0);
		states_unlock(&lock);
	}
	site_restart(&site, 64, CLASSES);
	assert_false(end(&ref));
}

/* Old messages make room for new ones; of those of the last seconds hardly any. */
TEST_IN(site_begin, site_end, many_messages_are_known) {
	int64_t now_ns = clock_now_ns();
	unsigned known = 0;

	for (uint32_t i = 1; i <= 20000; i++) {
		const struct flight_attempt attempt = { .level = (uint16_t)i,
			.canary = i % 2 != 0, .connected = i % 3 == 0 };

		attempts_put(site.segment, attempts_key(site.segment, i, 7),
		    &attempt, now_ns + i * SECONDS / 10);
	}
	/* 1024 places; those of 60 s are 600 */
	for (uint32_t i = 1; i <= 20000; i++) {
		struct flight_attempt attempt;
		bool found = attempts_find(site.segment,
		    attempts_key(site.segment, i, 7), now_ns + 2000 * SECONDS,
		    &attempt);

		if (found) {
			assert_int_equal(attempt.level, i & UINT16_MAX);
			assert_int_equal(attempt.canary, i % 2);
			assert_int_equal(attempt.connected, i % 3 == 0);
		}
		known += found && i > 20000 - 600;
	}
	assert_true(known > 400);
}

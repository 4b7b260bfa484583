/* SPDX-License-Identifier: ISC */
/* States of destinations: what is stored as one, what is told to followers, what is
 * given up. */
#include "tests/unit/test.h"

#include "tests/unit/segment/destination/states_site.h"

TEST_IN(site_begin, site_end, a_state_is_stored_whole) {
	struct destination_window found;
	struct state_lock lock;
	int64_t now_ns = clock_now_ns();

	assert_false(find("a.example", &found));
	assert_int_equal(lock_it("a.example", STATES_KNOWN_ONLY, &lock),
	    STATES_UNKNOWN);
	assert_int_equal(lock_it("A.Example.", STATES_CREATE, &lock), STATES_HELD);
	assert_true(lock.is_new);
	assert_false(lock.state.begun);
	window_begin(&lock.state.window, &window_defaults);
	window_suspend(&lock.state.window, WINDOW_CAUSE_RULE, now_ns + 7);
	lock.state.begun = true;
	lock.state.flags = DESTINATION_FLAGS;
	lock.state.running = 65535;	/* is cut */
	lock.state.ok = UINT32_MAX;
	lock.state.failed = 1;
	lock.state.held = 0x12345678;
	lock.state.resumed_ns = now_ns + 100;
	lock.state.in_flight = 99;	/* not for us to tell */
	lock.reason = "421 4.7.0 slow down";
	lock.origin = (struct state_origin){ 7, 70 };
	store_it(&lock);

	assert_true(find("a.example", &found));
	assert_string_equal(found.name, "a.example");
	assert_true(found.state.begun);
	assert_memory_equal(&found.state.window, &lock.state.window,
	    sizeof(struct window));
	assert_int_equal(found.state.flags, DESTINATION_FLAGS & ~DESTINATION_HELD);
	assert_int_equal(found.state.running, 4095);
	assert_int_equal(found.state.in_flight, 0);
	assert_int_equal(found.state.ok, UINT32_MAX);
	assert_int_equal(found.state.failed, 1);
	assert_int_equal(found.state.held, 0x12345678);
	/* rounded up to 0.1 s */
	assert_true(found.state.resumed_ns >= now_ns + 100 &&
	    found.state.resumed_ns < now_ns + 100 + 100000000);
	assert_string_equal(found.reason, "421 4.7.0 slow down");
	/* what it was seen by is another matter */
	assert_int_equal(lock_it("a.example", STATES_KNOWN_ONLY, &lock),
	    STATES_HELD);
	assert_false(lock.is_new);
	states_unlock(&lock);
}

TEST_IN(site_begin, site_end, what_was_not_stored_did_not_happen) {
	struct destination_window found;
	struct state_lock lock;

	begin("a.example", 5, "once");
	assert_int_equal(lock_it("a.example", STATES_CREATE, &lock), STATES_HELD);
	lock.state.window.ceiling = 9;
	lock.reason = "twice";
	states_unlock(&lock);
	assert_true(find("a.example", &found));
	assert_int_equal(found.state.window.ceiling, 5);
	assert_string_equal(found.reason, "once");
}

/* Who waits for him in vain notes since when he holds the lock: after 5 s it would be another's. */
TEST_IN(site_begin, site_end, a_writer_that_stands_still_keeps_its_lock_though_somebody_reads) {
	struct destination_window found;
	struct state_lock writer, other;

	begin("a.example", 5, NULL);
	assert_int_equal(lock_it("a.example", STATES_KNOWN_ONLY, &writer), STATES_HELD);
	atomic_fetch_add(&writer.slot[1], UINT64_C(1) << 32);	/* in the middle of a change */
	assert_false(find("a.example", &found));
	assert_int_equal(lock_it("a.example", STATES_KNOWN_ONLY, &other), STATES_BUSY);
	assert_int_equal(lock_it("a.example", STATES_KNOWN_ONLY, &other), STATES_BUSY);
	atomic_fetch_add(&writer.slot[1], UINT64_C(1) << 32);
	states_unlock(&writer);
	assert_true(find("a.example", &found));
}

TEST_IN(site_begin, site_end, names_are_domains_providers_and_relays) {
	static const char *const good[] = { "example.com", "provider:google",
		"[127.0.0.1]:10024", "[2001:db8::1]:25", "class:bulk" };
	struct destination_window found;
	struct state_lock lock;
	char longest[SEGMENT_NAME_MAX + 2];

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		begin(good[i], (uint16_t)(i + 1), NULL);
		assert_true(find(good[i], &found));
		assert_string_equal(found.name, good[i]);
		assert_int_equal(found.state.window.ceiling, i + 1);
	}
	assert_false(states_aim(site.segment, "a b", 3, &lock));
	assert_false(states_aim(site.segment, "a\nb", 3, &lock));
	assert_false(states_aim(site.segment, "", 0, &lock));
	memset(longest, 'x', sizeof(longest));
	assert_false(states_aim(site.segment, longest, SEGMENT_NAME_MAX + 1, &lock));
	assert_int_equal(counted(COUNTER_NAMES_UNUSABLE), 4);
	longest[SEGMENT_NAME_MAX] = '\0';
	begin(longest, 3, NULL);
	assert_true(find(longest, &found));
	assert_string_equal(found.name, longest);
	/* one letter more or less at each end of a word of eight */
	for (unsigned i = 0; i < SEGMENT_NAME_MAX; i++)
		assert_false(states_find(site.segment, longest, i, &found) &&
		    found.state.begun);
}

TEST_IN(site_begin, site_end, an_event_is_applied_once) {
	struct state_lock lock;

#define APPLIED(log, offset) \
	states_was_applied(&lock, &(struct state_origin){ log, offset })
	assert_int_equal(lock_it("a.example", STATES_CREATE, &lock), STATES_HELD);
	assert_false(APPLIED(7, 0));
	assert_false(APPLIED(0, 0));
	lock.state.ok++;
	lock.origin = (struct state_origin){ 7, 1000 };
	states_store(&lock);
	/* in the same transaction, and later */
	for (unsigned i = 0; i < 2; i++) {
		assert_true(APPLIED(7, 999));
		assert_true(APPLIED(7, 1000));
		assert_false(APPLIED(7, 1001));
		assert_false(APPLIED(8, 999));
		assert_false(APPLIED(0, 999));
		states_unlock(&lock);
		assert_int_equal(lock_it("a.example", STATES_CREATE, &lock),
		    STATES_HELD);
	}
	/* no place is told: it stays */
	lock.state.ok++;
	states_store(&lock);
	assert_true(APPLIED(7, 1000));
	/* further than can be stored */
	lock.origin = (struct state_origin){ 7, UINT64_C(1) << 41 };
	states_store(&lock);
	assert_true(APPLIED(7, 1000));
	assert_false(APPLIED(7, UINT64_C(1) << 41));
	states_unlock(&lock);
#undef APPLIED
}

TEST_IN(site_begin, site_end, a_senseless_window_is_begun_anew) {
	struct destination_window found;
	struct state_lock lock;

	begin("a.example", 5, "why");
	assert_int_equal(lock_it("a.example", STATES_CREATE, &lock), STATES_HELD);
	lock.state.ok = 3;
	lock.state.window.state = 7;
	store_it(&lock);
	assert_true(find("a.example", &found));
	assert_false(found.state.begun);
	assert_int_equal(found.state.ok, 3);
	assert_int_equal(counted(COUNTER_WINDOWS_BEGUN_ANEW), 0);
	assert_int_equal(lock_it("a.example", STATES_CREATE, &lock), STATES_HELD);
	assert_false(lock.state.begun);
	assert_int_equal(lock.state.window.state, 0);
	assert_int_equal(lock.state.ok, 3);
	assert_int_equal(counted(COUNTER_WINDOWS_BEGUN_ANEW), 1);
	store_it(&lock);
	begin("a.example", 2, NULL);
	assert_true(find("a.example", &found));
	assert_true(found.state.begun);
	assert_string_equal(found.reason, "why");
	assert_int_equal(counted(COUNTER_WINDOWS_BEGUN_ANEW), 1);
}

/* --- followers ------------------------------------------------------------------ */

static char told[8][SEGMENT_NAME_MAX + 1];
static unsigned told_count;

static unsigned follow(enum state_set set) {
	struct learned_follower at = { .word = 0 };
	struct destination_window window;

	for (told_count = 0; states_next(site.segment, set, &at, &window); told_count++)
		if (told_count < 8)
			memcpy(told[told_count], window.name, sizeof(told[0]));
	assert_int_equal(at.torn, 0);
	return told_count;
}

TEST_IN(site_begin, site_end, changes_that_matter_are_told_once) {
	uint64_t version = states_version(site.segment);
	struct state_lock lock;

	begin("b.example", 0, NULL);
	(void)follow(STATES_CHANGED);
	version = states_version(site.segment);
#define CHANGE(...) do { \
	assert_int_equal(lock_it("b.example", STATES_CREATE, &lock), STATES_HELD); \
	__VA_ARGS__; \
	states_store(&lock); \
	states_unlock(&lock); \
} while (0)
#define TOLD(...) do { \
	CHANGE(__VA_ARGS__); \
	assert_true(states_version(site.segment) > version); \
	assert_int_equal(follow(STATES_CHANGED), 1); \
	assert_string_equal(told[0], "b.example"); \
	assert_int_equal(follow(STATES_CHANGED), 0); \
	version = states_version(site.segment); \
} while (0)
#define NOT_TOLD(...) do { \
	CHANGE(__VA_ARGS__); \
	assert_int_equal(states_version(site.segment), version); \
	assert_int_equal(follow(STATES_CHANGED), 0); \
} while (0)
	TOLD(lock.state.window.concurrency++);
	TOLD(lock.state.window.ceiling = 7, lock.state.window.state = WINDOW_LIMITED);
	TOLD(lock.state.window.state = WINDOW_DEAD, lock.state.window.until_ns = 9);
	TOLD(lock.state.window.until_ns = 10);
	TOLD(lock.state.window.canary_out = 1);
	TOLD(lock.state.window.canary_ns++);
	TOLD(lock.state.flags = DESTINATION_CEILING);
	TOLD(lock.reason = "one");
	TOLD(lock.reason = "two");
	TOLD(lock.reason = "");
	TOLD(lock.state.resumed_ns = clock_now_ns());
	NOT_TOLD(lock.reason = "");
	NOT_TOLD(lock.state.ok++);
	NOT_TOLD(lock.state.failed++, lock.state.held++, lock.state.running++);
	NOT_TOLD(lock.state.window.success += 0.5F);
	NOT_TOLD(lock.state.window.fail_cohorts += 0.25);
	NOT_TOLD(lock.origin = ((struct state_origin){ 1, 1 }));
	NOT_TOLD((void)0);
	/* several changes of several destinations: each once */
	for (unsigned i = 0; i < 5; i++) {
		begin("c.example", (uint16_t)(i + 1), NULL);
		begin("d.example", (uint16_t)(i + 1), NULL);
	}
	assert_int_equal(follow(STATES_CHANGED), 2);
#undef CHANGE
#undef TOLD
#undef NOT_TOLD
}

TEST_IN(site_begin, site_end, those_that_time_will_change_are_found) {
	struct state_lock lock;

#define TIMED(count, ...) do { \
	assert_int_equal(lock_it("b.example", STATES_CREATE, &lock), STATES_HELD); \
	__VA_ARGS__; \
	states_store(&lock); \
	states_unlock(&lock); \
	assert_int_equal(follow(STATES_TIMED), count); \
} while (0)
	begin("a.example", 7, NULL);
	begin("b.example", 0, NULL);
	TIMED(0, (void)0);
	TIMED(1, lock.state.window.state = WINDOW_DEAD);
	TIMED(1, lock.state.ok++);
	TIMED(1, lock.state.window.state = WINDOW_HELD);
	TIMED(0, lock.state.window.state = WINDOW_OPEN);
	TIMED(1, lock.state.window.canary_out = 1);
	assert_string_equal(told[0], "b.example");
	site_restart(&site, 64, CLASSES);
	TIMED(1, lock.state.ok++);
	site.destinations = 1024;
	site_restart(&site, 64, CLASSES);
	TIMED(1, lock.state.ok++);
	/* a place that somebody else has now */
	assert_true(forget_destination(site.segment, "b.example", 9, clock_now_ns()));
	TIMED(0, (void)0);
#undef TIMED
}

/* --- reasons --------------------------------------------------------------------- */

TEST_IN(site_begin, site_end, reasons_are_cut_kept_and_given_back) {
	char text[SEGMENT_REASON_MAX + 40], name[32];
	struct destination_window found;

	site.destinations = 2048;	/* 8 shards, 32 reasons in each */
	site_restart(&site, 64, CLASSES);
	memset(text, 'r', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	text[3] = '\n';
	begin("a.example", 1, text);
	assert_true(find("a.example", &found));
	assert_int_equal(strlen(found.reason), SEGMENT_REASON_MAX);
	assert_memory_equal(found.reason, "rrr?r", 5);
	/* the same again takes no more room, nor does a new one in its stead */
	for (unsigned i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "text %u", i / 2);
		begin("a.example", 1, text);
	}
	assert_true(find("a.example", &found));
	assert_string_equal(found.reason, "text 49");
	assert_int_equal(counted(COUNTER_REASONS_EVICTED), 0);
	/* more than there is room for: those of the open ones go, and say so */
	for (unsigned i = 0; i < 900; i++) {
		snprintf(name, sizeof(name), "n%u.example", i);
		begin(name, 1, name);
		assert_true(find(name, &found));
		assert_string_equal(found.reason, name);
	}
	assert_true(counted(COUNTER_REASONS_EVICTED) >=
	    901 - site.segment->header->destinations.shards *
		site.segment->header->reasons_per_shard);
	for (unsigned i = 0; i < 900; i++) {
		snprintf(name, sizeof(name), "n%u.example", i);
		if (find(name, &found))
			assert_true(found.reason[0] == '\0' ||
			    strcmp(found.reason, name) == 0);
	}
}

TEST_IN(site_begin, site_end, reasons_of_the_dead_stay_longest) {
	struct destination_window found;
	struct state_lock lock;
	char name[32];

	site.destinations = 2048;
	site_restart(&site, 64, CLASSES);
	assert_int_equal(lock_it("dead.example", STATES_CREATE, &lock),
	    STATES_HELD);
	window_begin(&lock.state.window, &window_defaults);
	window_suspend(&lock.state.window, WINDOW_CAUSE_RULE, INT64_MAX);
	lock.state.begun = true;
	lock.reason = "gone";
	store_it(&lock);
	for (unsigned i = 0; i < 900; i++) {
		snprintf(name, sizeof(name), "n%u.example", i);
		begin(name, 0, name);
	}
	assert_true(counted(COUNTER_REASONS_EVICTED) > 50);
	assert_true(find("dead.example", &found));
	assert_string_equal(found.reason, "gone");
}

/* --- room ------------------------------------------------------------------------ */

TEST_IN(site_begin, site_end, a_full_table_keeps_what_is_worth_most) {
	static const char *const names[] = { "held.example", "flies.example",
		"dead.example", "limit.example" };
	const struct flight_process process = { 4711, 1 };
	const struct flight_attempt attempt = { .level = 1 };
	struct destination_window found;
	struct flight_ref ref;
	struct state_lock lock;
	char name[32];

	set_flags(names[0], DESTINATION_CEILING);
	assert_int_equal(lock_it(names[1], STATES_CREATE, &lock), STATES_HELD);
	assert_true(flights_take(&lock, &process, &attempt, &ref));
	states_unlock(&lock);
	begin(names[2], 0, NULL);
	assert_int_equal(lock_it(names[2], STATES_CREATE, &lock), STATES_HELD);
	window_suspend(&lock.state.window, WINDOW_CAUSE_RULE, INT64_MAX);
	store_it(&lock);
	begin(names[3], 4, NULL);
	/* a table of 256 */
	for (unsigned i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "n%u.example", i);
		if (i % 2 == 0)
			note(name);
		else
			begin(name, 0, NULL);
	}
	assert_true(counted(COUNTER_DESTINATIONS_EVICTED) > 2700);
	for (unsigned i = 0; i < 4; i++)
		assert_true(find(names[i], &found));
	/* ceilings make room for each other, and for nothing else that is left */
	for (unsigned i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "l%u.example", i);
		begin(name, 6, NULL);
	}
	for (unsigned i = 0; i < 3; i++)
		assert_true(find(names[i], &found));
	assert_int_equal(counted(COUNTER_DESTINATIONS_FULL), 0);
}

static void hold(struct state_lock *lock) {
	window_begin(&lock->state.window, &window_defaults);
	window_hold(&lock->state.window, WINDOW_CAUSE_HAND, INT64_MAX);
	lock->state.begun = true;
	states_store(lock);
}

/* What says by which lane a canary went is no hold: nobody may look there again. */
TEST_IN(site_begin, site_end, a_canary_s_lane_keeps_nobody) {
	struct destination_window found;
	struct state_lock lock;
	char name[32];

	set_flags("lane.example", (uint8_t)(uint8_t)~DESTINATION_BY_HAND);
	assert_int_equal(lock_it("hand.example", STATES_CREATE, &lock), STATES_HELD);
	hold(&lock);
	states_unlock(&lock);
	for (unsigned i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "n%u.example", i);
		begin(name, 6, NULL);
	}
	assert_false(find("lane.example", &found));
	assert_true(find("hand.example", &found));
}

TEST_IN(site_begin, site_end, what_is_held_by_hand_is_never_given_up) {
	struct destination_window found;
	struct state_lock lock;
	unsigned held = 0, full = 0;
	char name[32];

	for (unsigned i = 0; i < 600; i++) {
		enum states_locked locked;

		snprintf(name, sizeof(name), "h%u.example", i);
		locked = lock_it(name, STATES_CREATE, &lock);
		if (locked == STATES_FULL) {
			full++;
			continue;
		}
		assert_int_equal(locked, STATES_HELD);
		hold(&lock);
		states_unlock(&lock);
		held++;
	}
	assert_int_equal(held, 256);
	assert_int_equal(full, 600 - 256);
	assert_int_equal(counted(COUNTER_DESTINATIONS_FULL), full);
	assert_int_equal(counted(COUNTER_DESTINATIONS_EVICTED), 0);
	/* nor does a delivery take its place, and nothing breaks */
	note("new.example");
	assert_false(find("new.example", &found));
	/* forgotten by hand: there is room again */
	for (unsigned i = 0; i < 600; i++) {
		snprintf(name, sizeof(name), "h%u.example", i);
		held -= forget_destination(site.segment, name, strlen(name),
		    clock_now_ns());
	}
	assert_int_equal(held, 0);
	note("new.example");
	assert_true(find("new.example", &found));
}

TEST_IN(site_begin, site_end, to_forget_leaves_what_is_in_flight) {
	const struct flight_process process = { 4711, 1 };
	const struct flight_attempt attempt = { .level = 1 };
	struct destination_window found;
	struct flight_ref ref;
	struct state_lock lock;

	begin("a.example", 3, "why");
	set_flags("a.example", DESTINATION_CEILING);
	assert_int_equal(lock_it("a.example", STATES_CREATE, &lock), STATES_HELD);
	assert_true(flights_take(&lock, &process, &attempt, &ref));
	states_unlock(&lock);
	assert_true(forget_destination(site.segment, "a.example", 9, clock_now_ns()));
	assert_true(find("a.example", &found));
	assert_int_equal(found.state.in_flight, 1);
	assert_false(found.state.begun);
	assert_int_equal(found.state.flags, 0);
	assert_string_equal(found.reason, "");
	assert_true(flights_end(site.segment, &ref, clock_now_ns()));
	assert_true(forget_destination(site.segment, "a.example", 9, clock_now_ns()));
	assert_false(find("a.example", &found));
	assert_false(forget_destination(site.segment, "a.example", 9, clock_now_ns()));
}

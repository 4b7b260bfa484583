/* SPDX-License-Identifier: ISC */
/* States of destinations over restarts, as text, and as readers see them. */
#include "tests/unit/test.h"
#include "tests/unit/address_is.h"

#include "segment/destination/destination_table.h"
#include "segment/destination/state_text.h"
#include "segment/reader.h"
#include "tests/unit/segment/destination/states_site.h"

/* --- restarts --------------------------------------------------------------------- */

/* Lowered 30 s ago, to 5 a second. */
static struct pace pace_of(int64_t now_ns) {
	struct pace pace = { { 0, 0 } };

	assert_true(pace_refused(&pace, &pace_defaults, 0, now_ns - 30 * NS_PER_SECOND));
	return pace;
}

static void fill(int64_t now_ns) {
	const struct flight_process process = { 4711, 99 };
	const struct flight_attempt attempt = { .queue_hash = 5, .level = 3, .rank = 4,
		.canary = true };
	struct recipient_hold hold = { .address = "Joe@a.example", .length = 13,
		.rule = 3, .until_ns = now_ns + 60 * NS_PER_SECOND,
		.reason = "over quota" };
	struct flight_ref ref;
	struct state_lock lock;

	begin("limit.example", 7, "421 too many");
	begin("open.example", 0, NULL);
	assert_int_equal(lock_it("dead.example", STATES_CREATE, &lock),
	    STATES_HELD);
	window_begin(&lock.state.window, &window_defaults);
	window_suspend(&lock.state.window, WINDOW_CAUSE_RULE, now_ns + 90 * NS_PER_SECOND);
	lock.state.begun = true;
	lock.state.window.accepted[0] = 4;
	lock.state.window.accepted_span = 77;
	lock.state.pace = pace_of(now_ns);
	lock.state.ok = 5;
	lock.state.failed = 6;
	lock.state.held = 7;
	lock.state.running = 9;
	lock.state.resumed_ns = now_ns;
	lock.origin = (struct state_origin){ 12, 13 };
	lock.reason = "refused";
	states_store(&lock);
	assert_true(flights_take(&lock, &process, &attempt, &ref));
	assert_true(flights_connect(&lock, &process, &attempt, &ref));
	states_unlock(&lock);
	assert_int_equal(lock_it("held.example", STATES_CREATE, &lock),
	    STATES_HELD);
	window_begin(&lock.state.window, &window_defaults);
	window_hold(&lock.state.window, WINDOW_CAUSE_HAND, INT64_MAX);
	lock.state.begun = true;
	store_it(&lock);
	assert_true(recipients_hold(site.segment, &hold, now_ns));
	hold.until_ns = INT64_MAX;
	hold.address = "jim@a.example";
	hold.reason = NULL;
	assert_true(recipients_hold(site.segment, &hold, now_ns));
}

static void assert_flight(void *context, const struct flight_seen *seen) {
	unsigned *count = context;

	assert_string_equal(seen->destination, "dead.example");
	assert_int_equal(seen->attempt.level, 3);
	assert_int_equal(seen->attempt.rank, 4);
	assert_true(seen->attempt.canary && seen->attempt.connected);
	++*count;
}

static void assert_filled(int64_t now_ns) {
	struct destination_window found;
	struct recipient_held held;
	struct state_lock lock;
	unsigned flights = 0;

	assert_true(find("limit.example", &found));
	assert_int_equal(found.state.window.ceiling, 7);
	assert_int_equal(found.state.window.state, WINDOW_LIMITED);
	assert_int_equal(found.state.window.concurrency, 5);
	assert_string_equal(found.reason, "421 too many");
	assert_true(find("open.example", &found));
	assert_true(found.state.begun);
	assert_true(find("held.example", &found));
	assert_true(window_is_by_hand(&found.state.window));
	assert_int_equal(found.state.window.state, WINDOW_HELD);
	assert_true(found.state.window.until_ns == INT64_MAX);
	assert_true(find("dead.example", &found));
	assert_int_equal(found.state.window.state, WINDOW_DEAD);
	assert_int_equal(found.state.window.cause, WINDOW_CAUSE_RULE);
	assert_true(found.state.window.until_ns == now_ns + 90 * NS_PER_SECOND);
	assert_int_equal(found.state.window.accepted[0], 4);
	assert_int_equal(found.state.window.accepted_span, 77);
	assert_memory_equal(&found.state.pace, &(struct pace[]){ pace_of(now_ns) },
	    sizeof(found.state.pace));
	assert_int_equal(found.state.ok, 5);
	assert_int_equal(found.state.failed, 6);
	assert_int_equal(found.state.held, 7);
	/* by a log that nobody has read since */
	assert_int_equal(found.state.running, 0);
	/* what stands there was done by then */
	assert_true(found.state.resumed_ns != 0);
	assert_int_equal(found.state.in_flight, 1);
	assert_int_equal(found.state.connected, 1);
	flights_each(site.segment, assert_flight, &flights);
	assert_int_equal(flights, 1);
	assert_string_equal(found.reason, "refused");
	assert_int_equal(lock_it("dead.example", STATES_KNOWN_ONLY, &lock),
	    STATES_HELD);
	assert_true(states_was_applied(&lock, &(struct state_origin){ 12, 13 }));
	assert_false(states_was_applied(&lock, &(struct state_origin){ 12, 14 }));
	states_unlock(&lock);
	assert_true(recipients_find(site.segment, "joe@A.example", 13,
	    clock_now_ns(), &held));
	assert_string_equal(held.reason, "over quota");
	assert_true(held.until_ns == now_ns + 60 * NS_PER_SECOND);
	assert_true(recipients_find(site.segment, "jim@a.example", 13,
	    clock_now_ns(), &held));
	assert_true(held.until_ns == INT64_MAX);
}

TEST_IN(site_begin, site_end, it_survives_a_restart) {
	int64_t now_ns = clock_now_ns();

	site_reload(&site, CLASSES MTAS("one", "two"));
	fill(now_ns);
	site_restart(&site, 64, CLASSES MTAS("one", "two"));
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	assert_filled(now_ns);
	/* other sizes */
	site.destinations = 1024;
	site_restart(&site, 128, CLASSES MTAS("one", "two"));
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	assert_filled(now_ns);
}

/* --- relays ------------------------------------------------------------------------ */

static void note_relay(const char *name, const char *relay, const char *relay_name,
    uint8_t mta, bool cloned) {
	struct delivery_seen seen = { .name = name, .name_length = strlen(name),
		.relay_name = relay_name, .mta = mta, .cloned = cloned,
		.relay_name_length = relay_name == NULL ? 0 : strlen(relay_name) };

	assert_true(relay == NULL || address_parse(relay, strlen(relay), &seen.relay));
	assert_true(destinations_note(site.segment, &seen, clock_now_ns()));
}

static void relay_is(const struct destination_seen *seen, unsigned number,
    const char *relay, const char *relay_name) {
	char name[SEGMENT_NAME_MAX + 1];

	address_is(&seen->relays[number], relay);
	(void)relays_find(site.segment, &seen->relays[number], name);
	assert_string_equal(name, relay_name);
}

/* Else no lane would carry a window, and a domain of a provider that is suspended would go on,
 * until each was delivered to once. */
TEST_IN(site_begin, site_end, relays_survive_other_sizes) {
	struct destination_seen seen;

	site_reload(&site, CLASSES MTAS("one", "two"));
	note_relay("d.example", "192.0.2.1", "mx1.big.example", 0, true);
	note_relay("d.example", "2001:db8::2", NULL, 1, false);
	note_relay("d.example", "192.0.2.3", "mx3.big.example", 0, true);
	note_relay("none.example", NULL, NULL, 1, true);
	begin("window.example", 7, NULL);
	site.destinations = 1024;
	site_restart(&site, 128, CLASSES MTAS("one", "two"));
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	assert_true(destinations_find(site.segment, "d.example", 9, &seen));
	assert_int_equal(seen.relay_count, 3);
	relay_is(&seen, 0, "192.0.2.3", "mx3.big.example");
	relay_is(&seen, 1, "2001:db8::2", "");
	relay_is(&seen, 2, "192.0.2.1", "mx1.big.example");
	assert_int_equal(seen.cloned_by, 1);
	assert_int_equal(seen.other_by, 2);
	assert_in_range(clock_now_ns() - seen.seen_ns, 0, 60 * NS_PER_SECOND);
	assert_true(destinations_find(site.segment, "none.example", 12, &seen));
	assert_int_equal(seen.relay_count, 0);
	assert_int_equal(seen.cloned_by, 2);
	assert_true(find("window.example", &(struct destination_window){ .number = 0 }));
	/* a mail server that is gone saw nothing */
	site_reload(&site, CLASSES MTAS("one", "three"));
	assert_true(destinations_find(site.segment, "d.example", 9, &seen));
	assert_int_equal(seen.cloned_by, 1);
	assert_int_equal(seen.other_by, 0);
}

/* --- as text ------------------------------------------------------------------------ */

/* As the journal has it.  What counts by the clock of another boot does not come back. */
TEST_IN(site_begin, site_end, a_state_is_as_it_was_written) {
	int64_t now_ns = clock_now_ns(), then_ns = now_ns - 20 * NS_PER_SECOND;
	struct destination_window was, is = { .number = 0 };
	char text[STATE_TEXT_MAX], again[STATE_TEXT_MAX];
	struct state_seen seen;

	fill(now_ns);
	assert_true(find("dead.example", &was));
	assert_true(state_text_write(site.segment, &was, now_ns, text) > 0);
	memcpy(again, text, sizeof(again));
	assert_true(state_text_read(text, then_ns, true, &is, &seen));
	assert_int_equal(is.state.window.state, WINDOW_DEAD);
	assert_true(is.state.window.until_ns == was.state.window.until_ns - 20 * NS_PER_SECOND);
	assert_true(is.state.resumed_ns == was.state.resumed_ns - 20 * NS_PER_SECOND);
	assert_int_equal(is.state.window.accepted[0], 4);
	assert_int_equal(is.state.window.accepted_span, 77);
	assert_int_equal(is.state.held, 7);
	assert_memory_equal(&is.state.pace, &was.state.pace, sizeof(is.state.pace));
	/* times of changes are tenths, rounded up */
	assert_in_range(30 * NS_PER_SECOND - seen.pace_age_ns, 0, 100 * NS_PER_MS);
	assert_true(state_text_read(again, then_ns, false, &is, &seen));
	assert_int_equal(is.state.window.accepted[0], 0);
	assert_int_equal(is.state.window.accepted_span, 0);
	assert_true(find("held.example", &was));
	assert_true(state_text_write(site.segment, &was, now_ns, text) > 0);
	assert_true(state_text_read(text, then_ns, false, &is, &seen));
	assert_true(is.state.window.until_ns == INT64_MAX);
}

TEST(a_text_makes_sense_or_is_refused) {
	static const struct {
		const char *text;
		bool sense;
	} rows[] = {
		{ "", true },
		{ "size=5 state=1 ceiling=7", true },
		/* no state that a window has */
		{ "size=5 state=1", false },
		{ "size=5 state=4", false },
		{ "size=65536", false },
		{ "size=-1", false },
		{ "size", false },
		{ "size=5 law=3", false },
		{ "size=5 step=64", false },
		{ "size=5 success=nan", false },
		{ "size=5 success=0x", false },
		{ "size=5 success=0.5", true },
		{ "size=5 until=99999999999999999999", false },
		{ "size=5 until=never", false },
		{ "size=5 state=2 until=ever", true },
		{ "size=5 state=2 until=-9999", true },
		{ "flags=256", false },
		{ "pace1=18446744073709551615 pace2=1 pace_age=9", true },
		{ "pace_age=9223372036854775807", false },
		{ "another=1", true },
		{ "another=word", false },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct destination_window window = { .number = 0 };
		struct state_seen seen;
		char text[64];

		snprintf(text, sizeof(text), "%s", rows[i].text);
		if (state_text_read(text, clock_now_ns(), true, &window, &seen) != rows[i].sense)
			fail_msg("%s", rows[i].text);
	}
}

/* --- another file ------------------------------------------------------------------- */

static _Atomic uint64_t *slot_of(const char *name) {
	struct learned table = destination_state_table(site.segment);
	struct state_lock lock;
	_Atomic uint64_t *slot;

	(void)table;
	assert_int_equal(lock_it(name, STATES_KNOWN_ONLY, &lock), STATES_HELD);
	slot = lock.slot;
	states_unlock(&lock);
	return slot;
}

TEST_IN(site_begin, site_end, a_scribbled_state_is_not_believed) {
	struct destination_window found;
	_Atomic uint64_t *slot;

	begin("a.example", 5, "why");
	slot = slot_of("a.example");
	/* 4 in flight, 5 running, resumed in the future; a reason that is not there */
	atomic_store(&slot[KEPT_AT + FLIGHTS_AT], UINT64_MAX);
	atomic_store(&slot[KEPT_AT + 1], UINT64_C(0x00ffffff00000000));
	atomic_store(&slot[WINDOW_AT + 4], UINT64_MAX);
	atomic_store(&slot[1], atomic_load(&slot[1]) | UINT64_C(1) << 32);
	site_restart(&site, 64, CLASSES);
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	assert_int_equal(counted(COUNTER_WINDOWS_BEGUN_ANEW), 1);
	assert_true(find("a.example", &found));
	assert_false(found.state.begun);
	assert_int_equal(found.state.in_flight, 0);
	assert_true(found.state.resumed_ns <= clock_now_ns() + 100000000);
	assert_string_equal(found.reason, "");
	begin("a.example", 5, "again");
	assert_true(find("a.example", &found));
	assert_string_equal(found.reason, "again");
}

/* What posternctl sees. */
static void count_windows(void *context, const struct destination_window *window) {
	unsigned *count = context;

	*count += window->state.begun;
}

static void count_held(void *context, const struct recipient_held *held) {
	++*(unsigned *)context;
}

TEST_IN(site_begin, site_end, a_reader_sees_it) {
	struct reader_status status;
	struct segment *reader;
	unsigned windows = 0, held = 0;
	struct diag diag;

	fill(clock_now_ns());
	assert_int_equal(reader_open(&reader, segment_path(site.segment), &diag), 0);
	assert_int_equal(states_each(reader, count_windows, &windows), 0);
	assert_int_equal(recipients_each(reader, clock_now_ns(), count_held, &held), 0);
	reader_status(reader, &status);
	segment_unmap(&reader);
	assert_int_equal(windows, 4);
	assert_int_equal(held, 2);
	assert_int_equal(status.flights_used, 1);
	assert_int_equal(status.flights_size, 256);
	assert_int_equal(status.recipients_used, 2);
	assert_int_equal(status.recipients_size, 64);
}

/* SPDX-License-Identifier: ISC */
/* States of destinations over restarts, other layouts and other boots, and as readers
 * see them. */
#include "tests/unit/test.h"

#include "segment/destination/destination_table.h"
#include "segment/reader.h"
#include "tests/unit/segment/destination/states_site.h"

/* --- restarts --------------------------------------------------------------------- */

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
	states_store(&lock);
	states_unlock(&lock);
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

/* slack: of times that were stored as what was left */
static void assert_filled(int64_t now_ns, int64_t slack_ns, bool same_boot) {
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
	assert_in_range(found.state.window.until_ns,
	    now_ns + 90 * NS_PER_SECOND - slack_ns,
	    now_ns + 90 * NS_PER_SECOND + slack_ns);
	assert_int_equal(found.state.window.accepted[0], same_boot ? 4 : 0);
	assert_int_equal(found.state.window.accepted_span, same_boot ? 77 : 0);
	assert_int_equal(found.state.ok, 5);
	assert_int_equal(found.state.failed, 6);
	assert_int_equal(found.state.held, 7);
	/* by a log that nobody has read since */
	assert_int_equal(found.state.running, 0);
	/* what stands there was done by then */
	assert_true(found.state.resumed_ns != 0);
	assert_int_equal(found.state.in_flight, same_boot ? 1 : 0);
	assert_int_equal(found.state.connected, same_boot ? 1 : 0);
	flights_each(site.segment, assert_flight, &flights);
	assert_int_equal(flights, same_boot ? 1 : 0);
	assert_string_equal(found.reason, "refused");
	assert_int_equal(lock_it("dead.example", STATES_KNOWN_ONLY, &lock),
	    STATES_HELD);
	assert_true(states_was_applied(&lock, &(struct state_origin){ 12, 13 }));
	assert_false(states_was_applied(&lock, &(struct state_origin){ 12, 14 }));
	states_unlock(&lock);
	assert_true(recipients_find(site.segment, "joe@A.example", 13,
	    clock_now_ns(), &held));
	assert_string_equal(held.reason, "over quota");
	assert_in_range(held.until_ns, now_ns + 60 * NS_PER_SECOND - slack_ns,
	    now_ns + 60 * NS_PER_SECOND + slack_ns);
	assert_true(recipients_find(site.segment, "jim@a.example", 13,
	    clock_now_ns(), &held));
	assert_true(held.until_ns == INT64_MAX);
}

TEST_IN(open_site, close_site, it_survives_a_restart) {
	int64_t now_ns = clock_now_ns();

	site_reload(&site, CLASSES MTAS("one", "two"));
	fill(now_ns);
	site_restart(&site, 64, CLASSES MTAS("one", "two"));
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	assert_filled(now_ns, 0, true);
	/* other sizes */
	site.destinations = 1024;
	site_restart(&site, 128, CLASSES MTAS("one", "two"));
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	assert_filled(now_ns, 0, true);
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
	char address[ADDRESS_TEXT_MAX], name[SEGMENT_NAME_MAX + 1];

	address_format(&seen->relays[number], address);
	assert_string_equal(address, relay);
	(void)relays_find(site.segment, &seen->relays[number], name);
	assert_string_equal(name, relay_name);
}

/* Else no lane would carry a window after a reboot, and a domain of a provider that is
 * suspended would go on, until each was delivered to once. */
TEST_IN(open_site, close_site, relays_survive_another_layout) {
	struct destination_seen seen;
	struct diag diag;

	site_reload(&site, CLASSES MTAS("one", "two"));
	note_relay("d.example", "192.0.2.1", "mx1.big.example", 0, true);
	note_relay("d.example", "2001:db8::2", NULL, 1, false);
	note_relay("d.example", "192.0.2.3", "mx3.big.example", 0, true);
	note_relay("none.example", NULL, NULL, 1, true);
	begin("window.example", 7, NULL);
	assert_int_equal(segment_save_sessions(site.segment, clock_now_ns(), &diag), 0);
	assert_int_equal(segment_save_destinations(site.segment, clock_now_ns(),
	    &diag), 0);
	site.segment->header->version = SEGMENT_VERSION - 1;
	site_restart(&site, 64, CLASSES MTAS("one", "two"));
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

static void path_of(const char *suffix, char out[256]) {
	snprintf(out, 256, "%s/state%s", site.directory, suffix);
}

TEST_IN(open_site, close_site, it_survives_another_layout) {
	int64_t now_ns = clock_now_ns();
	struct diag diag;

	site_reload(&site, CLASSES MTAS("one", "two"));
	fill(now_ns);
	assert_int_equal(segment_save_sessions(site.segment, now_ns, &diag), 0);
	assert_int_equal(segment_save_destinations(site.segment, clock_now_ns(),
	    &diag), 0);
	site.segment->header->version = SEGMENT_VERSION - 1;
	site_restart(&site, 64, CLASSES MTAS("one", "two"));
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	assert_filled(now_ns, 0, true);
}

/* Each line of the file, changed by `edit`. */
static void rewrite(bool (*edit)(char *line, size_t size)) {
	char path[256], temporary[256], line[1200];
	FILE *from, *to;

	path_of(".destinations", path);
	path_of(".edited", temporary);
	from = fopen(path, "r");
	to = fopen(temporary, "w");
	assert_non_null(from);
	assert_non_null(to);
	while (fgets(line, sizeof(line), from) != NULL) {
		if (edit(line, sizeof(line)))
			fputs(line, to);
	}
	fclose(from);
	fclose(to);
	assert_int_equal(rename(temporary, path), 0);
}

/* Saved 20 s ago in another boot, whose clock stood elsewhere. */
static bool as_of_another_boot(char *line, size_t size) {
	if (strncmp(line, "boot ", 5) == 0)
		snprintf(line, size, "boot 00000000-0000-0000-0000-000000000000\n");
	if (strncmp(line, "saved ", 6) == 0) {
		long long saved_ns, wall_s;

		assert_int_equal(sscanf(line, "saved %lld %lld", &saved_ns,
		    &wall_s), 2);
		snprintf(line, size, "saved %lld %lld\n", saved_ns * 1000,
		    wall_s - 20);
	}
	return true;
}

TEST_IN(open_site, close_site, it_survives_another_boot) {
	int64_t now_ns = clock_now_ns();
	struct diag diag;

	site_reload(&site, CLASSES MTAS("one", "two"));
	fill(now_ns);
	assert_int_equal(segment_save_destinations(site.segment, clock_now_ns(),
	    &diag), 0);
	rewrite(as_of_another_boot);
	site.segment->header->boot_id[0] ^= 1;
	site_restart(&site, 64, CLASSES MTAS("one", "two"));
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	/* wall clocks tell seconds */
	assert_filled(now_ns - 20 * NS_PER_SECOND, 3 * NS_PER_SECOND, false);
}

/* Every second line is spoilt; what is left is read. */
static bool with_senseless_lines(char *line, size_t size) {
	if (strncmp(line, "destination open.example ", 25) == 0)
		snprintf(line, size, "destination open.example law=9 size=5\n");
	if (strncmp(line, "destination limit.example ", 26) == 0)
		snprintf(line, size, "destination limit.example size=70000 \n"
		    "destination\ndestination  \nreason\nflight x\nrecipient\n"
		    "recipient a@b x 5 x\nflight limit.example 0 0 0 0 0\n"
		    "destination bad name size=5\ndestination x until=5\n"
		    "destination y later=77 size=5\nseen\nseen a\nseen a 5 1\n"
		    "seen a x 1 1\nseen a 5 256 0\nseen a 5 -1 0\nseen a 5 1 0 1.2.3\n"
		    "seen a 5 1 0 1.2.3 b\nseen a 5 1 0 1 b 2 b 3 b 4 b\nmta 9 x\nmta 1\n\nnothing\n");
	return strncmp(line, "end", 3) != 0;
}

TEST_IN(open_site, close_site, senseless_lines_are_passed_over) {
	struct destination_window found;
	struct diag diag;

	fill(clock_now_ns());
	assert_int_equal(segment_save_destinations(site.segment, clock_now_ns(),
	    &diag), 0);
	rewrite(with_senseless_lines);
	site.segment->header->version = SEGMENT_VERSION - 1;
	site_restart(&site, 64, CLASSES);
	assert_false(find("open.example", &found));
	assert_true(!find("limit.example", &found) || !found.state.begun);
	assert_true(find("dead.example", &found));
	assert_true(find("held.example", &found));
	/* keys of a later form */
	assert_true(find("y", &found));
	assert_int_equal(found.state.window.concurrency, 5);
}

static void write_lines(const char *lines) {
	char path[256];
	FILE *file;

	path_of(".destinations", path);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "postern-destinations 1\nboot %s\nsaved %lld %lld\n%s",
	    site.segment->header->boot_id, (long long)clock_now_ns(),
	    (long long)clock_wall_s(), lines);
	fclose(file);
}

TEST_IN(open_site, close_site, each_line_is_read_or_passed_over) {
	static const struct {
		const char *line;
		int64_t read;
	} rows[] = {
		{ "", 0 }, { "\n", 0 }, { "destination", 0 },
		{ "destination a.example", 1 },
		{ "destination a.example size=5 state=1 ceiling=7", 1 },
		/* no state that a window has */
		{ "destination a.example size=5 state=1", 0 },
		{ "destination a.example size=5 state=4", 0 },
		{ "destination a.example size=65536", 0 },
		{ "destination a.example size=-1", 0 },
		{ "destination a.example size", 0 },
		{ "destination a.example size=5 law=3", 0 },
		{ "destination a.example size=5 step=64", 0 },
		{ "destination a.example size=5 success=nan", 0 },
		{ "destination a.example size=5 success=0x", 0 },
		{ "destination a.example size=5 success=0.5", 1 },
		{ "destination a.example size=5 until=99999999999999999999", 0 },
		{ "destination a.example size=5 until=never", 0 },
		{ "destination a.example size=5 state=2 until=ever", 1 },
		{ "destination a.example size=5 state=2 until=-9999", 1 },
		{ "destination a.example flags=256", 0 },
		{ "destination a.example another=1", 1 },
		{ "destination a.example another=word", 0 },
		{ "destination a\tb size=5", 0 },
		{ "reason known.example some text", 1 },
		{ "reason none.example some text", 0 },
		{ "flight known.example 7 8 9 1 10", 1 },
		{ "flight a.example 7 8 9 1 10", 1 },
		{ "flight known.example 0 8 9 1 10", 0 },
		{ "flight known.example 7 8 9 3 10 11", 1 },
		{ "flight known.example 7 8 9 4 10", 0 },
		{ "flight known.example 7 8 9 1 10 65536", 0 },
		{ "flight known.example 7 8 65536 1 10", 0 },
		{ "flight known.example 7 8 9 1", 0 },
		{ "recipient a@b ever 5 why", 1 },
		{ "recipient a@b 5 5", 1 },
		{ "ruled a@b 5 5 why", 1 },
		{ "recipient a@b x 5 why", 0 },
		{ "recipient a@b", 0 },
		{ "mta 0 out", 1 }, { "mta 8 out", 0 }, { "mta 1", 0 },
		{ "log 1 2 3 4 5 6 7 1", 1 }, { "log 0 2 3 4 5 6 7 1", 0 },
		{ "log 1 2 3 4 5 6 7 2", 0 }, { "log 1 2 3 4 5 -6 7 1", 0 },
		{ "log 1 2 3 4 5 6 1048576 1", 0 }, { "log 1 2 3 4 5 6 7", 0 },
		{ "end 7", 0 }, { "later 1", 0 },
	};
	struct diag diag;
	char lines[256];

	begin("known.example", 0, NULL);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(lines, sizeof(lines), "%s\n", rows[i].line);
		write_lines(lines);
		if (segment_restore_destinations(site.segment, clock_now_ns(),
			&diag) != rows[i].read)
			fail_msg("%s", rows[i].line);
	}
}

TEST_IN(open_site, close_site, another_form_is_not_read) {
	static const char *const heads[] = { "", "postern-destinations 2\n",
		"postern-sessions 1\n", "postern-destinations 1\nboot x\n" };
	struct diag diag;
	char path[256];

	path_of(".destinations", path);
	assert_int_equal(segment_restore_destinations(site.segment,
	    clock_now_ns(), &diag), -1);
	for (unsigned i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		FILE *file = fopen(path, "w");

		assert_non_null(file);
		fprintf(file, "%sdestination a.example\n", heads[i]);
		fclose(file);
		assert_int_equal(segment_restore_destinations(site.segment,
		    clock_now_ns(), &diag), -1);
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

TEST_IN(open_site, close_site, a_scribbled_state_is_not_believed) {
	struct destination_window found;
	_Atomic uint64_t *slot;

	begin("a.example", 5, "why");
	slot = slot_of("a.example");
	/* 4 in flight, 5 running, resumed in the future; a reason that is not there */
	atomic_store(&slot[KEPT_AT + FLIGHTS_AT], UINT64_MAX);
	atomic_store(&slot[KEPT_AT + 1], UINT64_C(0x00ffffff00000000));
	atomic_store(&slot[WINDOW_AT + 5], UINT64_MAX);
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

TEST_IN(open_site, close_site, a_reader_sees_it) {
	struct reader_status status;
	struct reader *reader;
	unsigned windows = 0, held = 0;
	struct diag diag;
	char path[256];

	fill(clock_now_ns());
	path_of("", path);
	assert_int_equal(reader_open(&reader, path, &diag), 0);
	assert_int_equal(reader_windows(reader, count_windows, &windows), 0);
	assert_int_equal(reader_recipients(reader, count_held, &held), 0);
	reader_status(reader, &status);
	reader_close(&reader);
	assert_int_equal(windows, 4);
	assert_int_equal(held, 2);
	assert_int_equal(status.flights_used, 1);
	assert_int_equal(status.flights_size, 256);
	assert_int_equal(status.recipients_used, 2);
	assert_int_equal(status.recipients_size, 64);
}

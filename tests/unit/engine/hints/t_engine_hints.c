/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include <sys/stat.h>
#include "engine/hints/hints_internal.h"
#include "segment/decision/decisions.h"
#include "tests/unit/engine/hints/hints_world.h"

TEST_IN(world_open, world_close, whatever_is_in_doubt_is_not_held) {
	const char *detail;

	publish("postern-site 1\nmta out\nexclude *.mine.example relay_domains\n");
	see("a.slow.example", 1, true);
	see("x.mine.example", 1, true);
	see("both.example", 1, true);
	see("both.example", 1, false);
	see("sendmail.example", 0, true);
	assert_int_equal(doubt("a.slow.example"), HINT_DOUBT_NONE);
	assert_int_equal(doubt("never.example"), HINT_DOUBT_NEVER_SEEN);
	assert_int_equal(doubt("sendmail.example"), HINT_DOUBT_NEVER_SEEN);
	assert_int_equal(doubt("x.mine.example"), HINT_DOUBT_EXCLUDED);
	assert_int_equal(doubt("both.example"), HINT_DOUBT_OTHER_TRANSPORT);
	assert_int_equal(doubt("[192.0.2.1]"), HINT_DOUBT_ODD_NAME);
	assert_int_equal(doubt("192.0.2.1"), HINT_DOUBT_ODD_NAME);
	assert_int_equal(doubt(""), HINT_DOUBT_ODD_NAME);
	assert_int_equal(doubt("k\xc3\xa4se.example"), HINT_DOUBT_ODD_NAME);
	assert_int_equal(hint_destination_doubt(world->generation, 0, "a", 1, NULL,
	    &detail), HINT_DOUBT_NOT_POSTFIX);
	publish("postern-site 1\nmta out\nonly-listed\nlist b.slow.example\n");
	assert_int_equal(doubt("a.slow.example"), HINT_DOUBT_NOT_LISTED);
	publish("postern-site 1\nmta out\nrefuse relayhost all goes there\n");
	assert_int_equal(doubt("a.slow.example"), HINT_DOUBT_SITE_REFUSED);
	publish("postern-site 2\n");
	assert_int_equal(doubt("a.slow.example"), HINT_DOUBT_SITE_UNKNOWN);
}

TEST_IN(world_open, world_close, classes_without_a_limit_hold_nothing) {
	publish("postern-site 1\nmta out\n");
	assert_int_equal(hint_class_doubt(world->generation, 0), HINT_DOUBT_NONE);
	assert_int_equal(hint_class_doubt(world->generation, 1), HINT_DOUBT_OBSERVED);
	assert_int_equal(hint_class_doubt(world->generation, 2), HINT_DOUBT_NO_LIMIT);
	assert_int_equal(hint_class_doubt(world->generation, CLASS_NO_RULE),
	    HINT_DOUBT_NO_CLASS);
}

/* The text but for the " (ID)" in it. */
static const char *without_id(const char *text, uint64_t *id) {
	static char plain[HINTS_TEXT_MAX + 1];
	const char *open = text == NULL ? NULL : strstr(text, " (");
	const char *close = open == NULL ? NULL : strchr(open, ')');

	assert_non_null(close);
	assert_true(decision_id_parse(open + 2, (size_t)(close - open) - 2, id));
	snprintf(plain, sizeof(plain), "%.*s%s", (int)(open - text), text, close + 1);
	return plain;
}

/* Is the journal to keep it, however many others come? */
static bool is_kept(uint64_t id) {
	struct decisions_cursor cursor = { .begun = false };
	struct decided decided;
	uint64_t lost = 0;
	bool logged;

	while (decisions_next(world->site.segment, DECIDED_OF_SESSIONS, &cursor, 0, &decided,
	    &logged, &lost))
		if (decided.id == id)
			return logged;
	return false;
}

static int64_t rest_ns(void) {
	return engine_hints_rest_ns(world->hints, world->now_ns);
}

TEST_IN(world_open, world_close, turns_rest_until_something_is_due) {
	int64_t began_ns;
	unsigned number = 0;
	char name[32];

	/* there is no Postfix that anything could be told */
	turn(0);
	assert_true(rest_ns() > 10 * S);
	publish("postern-site 1\nmta out\n");
	see("a.slow.example", 1, true);
	turn(S);
	/* the file has to say that we live */
	assert_in_range(rest_ns(), 1, S);
	do {	/* after one that takes longer than usual others wait longer, too */
		snprintf(name, sizeof(name), "%u.slow.example", number++);
		see(name, 1, true);
		began_ns = clock_now_ns();
		turn(10 * S);
	} while (clock_now_ns() - began_ns > 5 * NS_PER_MS);
	assert_int_equal(rest_ns(), S);
	/* a look at a destination that is new comes when it may */
	see("new.example", 1, true);
	turn(1);
	assert_in_range(rest_ns(), 1, S / 4);
	turn(S);
	assert_int_equal(rest_ns(), S);
}

TEST_IN(world_open, world_close, a_full_class_is_held_until_it_has_room) {
	uint64_t full = 0, again = 0;
	struct class_record *record;
	struct decided decided;

	assert_null(ask("a.slow.example", 0));
	publish("postern-site 1\nmta out\n");
	see("a.slow.example", 1, true);
	see("seen.example", 1, true);
	assert_null(ask("a.slow.example", S));
	record = site_class(&world->site, "slow");
	atomic_store(&record->open, 2);
	atomic_store(&site_class(&world->site, "seen")->open, 9);
	assert_string_equal(without_id(ask("a.slow.example", S), &full),
	    "Postern: class slow has 2 of 2 sessions");
	assert_true(decisions_find(world->site.segment, full, &decided));
	assert_int_equal(decided.reason, REASON_CLASS_SESSIONS);
	assert_string_equal(decided_text(&decided, DECIDED_CLASS), "slow");
	assert_true(is_kept(full));
	assert_null(ask("seen.example", 0));
	assert_null(ask("b.slow.example", 0));
	see("b.slow.example", 1, true);
	assert_non_null(ask("b.slow.example", S));
	atomic_store(&record->open, 3);
	assert_string_equal(without_id(ask("a.slow.example", 0), &again),
	    "Postern: class slow has 3 of 2 sessions");
	assert_true(again == full);
	atomic_store(&record->open, 1);
	assert_null(ask("a.slow.example", 0));
	atomic_store(&record->open, 2);
	assert_non_null(ask("a.slow.example", 0));
	publish("postern-site 1\nmta out\nexclude *.slow.example\n");
	assert_null(ask("a.slow.example", S));
}

/* A doubt may come when the key, and its class, are in the file already. */
TEST_IN(world_open, world_close, a_doubt_frees_from_a_full_class) {
	publish("postern-site 1\nmta out\n");
	see("a.slow.example", 1, true);
	atomic_store(&site_class(&world->site, "slow")->open, 2);
	assert_non_null(ask("a.slow.example", S));
	see("a.slow.example", 1, false);
	assert_int_equal(doubt("a.slow.example"), HINT_DOUBT_OTHER_TRANSPORT);
	assert_null(ask("a.slow.example", 10 * S));
	}

TEST_IN(world_open, world_close, what_cannot_be_written_is_told_once) {
	char path[sizeof(world->path) + 4];

	snprintf(path, sizeof(path), "%s.new", world->path);
	for (int i = 0; i < 2; i++) {
		publish("postern-site 1\nmta out\n");
		assert_int_equal(mkdir(path, 0700), 0);
		assert_int_equal(try_turn(S), -1);
		/* between two tries, and at the next one */
		assert_int_equal(try_turn(1), 0);
		assert_int_equal(try_turn(S), 0);
		assert_int_equal(rmdir(path), 0);
		assert_int_equal(try_turn(S), 0);
	}
}

/* Each try, four times a S, noted the class once more, and washed out the other decisions. */
TEST_IN(world_open, world_close, a_file_that_cannot_be_built_notes_a_full_class_once) {
	struct decisions_cursor cursor = { .begun = false };
	char path[sizeof(world->path) + 4];
	struct decided decided;
	unsigned noted = 0;
	uint64_t lost = 0;
	bool logged;

	publish("postern-site 1\nmta out\n");
	see("a.slow.example", 1, true);
	atomic_store(&site_class(&world->site, "slow")->open, 2);
	snprintf(path, sizeof(path), "%s.new", world->path);
	assert_int_equal(mkdir(path, 0700), 0);
	while (decisions_next(world->site.segment, DECIDED_OF_SESSIONS, &cursor, 0, &decided,
	    &logged, &lost))
		continue;
	for (unsigned i = 0; i < 8; i++)
		(void)try_turn(S);
	while (decisions_next(world->site.segment, DECIDED_OF_SESSIONS, &cursor, 0, &decided,
	    &logged, &lost))
		noted += decided.reason == REASON_CLASS_SESSIONS;
	assert_int_equal(noted, 1);
	assert_int_equal(rmdir(path), 0);
	assert_non_null(ask("a.slow.example", S));
	assert_false(decisions_next(world->site.segment, DECIDED_OF_SESSIONS, &cursor, 0, &decided,
	    &logged, &lost));
	}

TEST_IN(world_open, world_close, who_is_suspended_is_held_for_its_reason) {
	struct decided decided;
	const char *text;
	uint64_t id;

	publish(LANES);
	see("a.example", 1, true);
	assert_null(ask("a.example", S));
	by_hand(MANUAL_SUSPEND, "a.example");
	text = ask("a.example", 0);
	assert_non_null(text);
	assert_memory_equal(text, "Postern: a.example is suspended until 20", 40);
	by_hand(MANUAL_RESUME, "a.example");
	assert_null(ask("a.example", 0));
	by_hand(MANUAL_HOLD, "u@a.example");
	assert_string_equal(without_id(ask("a.example", 0), &id),
	    "Postern: recipient is held: held by an administrator");
	assert_true(decisions_find(world->site.segment, id, &decided));
	assert_string_equal(decided_text(&decided, DECIDED_NAME), "u@a.example");
	by_hand(MANUAL_RESUME, "u@a.example");
	assert_null(ask("a.example", 0));
}

/* Wherever there is a doubt about the domain, its recipients are the site's own matter. */
TEST_IN(world_open, world_close, recipients_in_doubt_are_not_held) {
	static const char *const domains[] = { "x.mine.example", "never.example",
		"both.example", "sure.example" };
	char address[64];

	publish(LANES "exclude *.mine.example relay_domains\n");
	see("x.mine.example", 1, true);
	see("both.example", 1, true);
	see("both.example", 1, false);
	see("sure.example", 1, true);
	for (unsigned i = 0; i < 4; i++) {
		snprintf(address, sizeof(address), "u@%s", domains[i]);
		by_hand(MANUAL_HOLD, address);
	}
	for (unsigned i = 0; i < 3; i++)
		assert_null(ask(domains[i], S));
	assert_non_null(ask("sure.example", S));
	/* it comes, and goes */
	see("never.example", 1, true);
	assert_non_null(ask("never.example", 10 * S));
	see("never.example", 1, false);
	assert_null(ask("never.example", 10 * S));
	publish(LANES "refuse sender_dependent_relayhost_maps is set\n");
	assert_null(ask("sure.example", S));
}

/* From its first message on: what the transport itself had, up to 20 at once, had to drain. */
TEST_IN(world_open, world_close, a_domain_never_seen_goes_by_the_lanes_of_a_new_window) {
	publish(LANES);
	assert_string_equal(lanes_after("new.example", S), "5");
	assert_true(look_up("new.example")->unknown);
	/* its first result: the lanes it went by are known, and stay */
	see("new.example", 1, true);
	result("new.example", 5, 900, 0);
	assert_string_equal(lanes_after("new.example", S), "5");
	assert_false(look_up("new.example")->unknown);
	set_window("new.example", 8);
	assert_string_equal(lanes_after("new.example", 0), "5+3");
	/* no more at once than the site allows its transport */
	publish("postern-site 1\nmta out\nclone-limit 4\nlane 1\nlane 3\nlane 5\n");
	assert_string_equal(lanes_after("other.example", S), "3+1");
	world->more = "window = { initial_destination_concurrency = 2; };\n";
	publish(LANES);
	assert_string_equal(lanes_after("other.example", S), "2");
	world->more = "outbound = { observe = true; };\n";
	publish(LANES);
	world->more = NULL;
	assert_string_equal(lanes_after("other.example", S), "-");
	publish(LANES "refuse relayhost all goes there\n");
	assert_int_equal((turn(S), look_up("other.example")->kind), HINTS_NOTHING);
}

/* It went by another transport: it is not unknown, in this file and in the next. */
TEST_IN(world_open, world_close, a_domain_of_another_transport_is_no_unknown_one) {
	publish(LANES);
	assert_int_equal((turn(0), look_up("other.example")->kind),
	    HINTS_LANE);
	see("other.example", 1, false);
	assert_int_equal((turn(10 * S),
	    look_up("other.example")->kind), HINTS_NOTHING);
	publish(LANES);
	assert_int_equal((turn(S), look_up("other.example")->kind), HINTS_NOTHING);
}

TEST_IN(world_open, world_close, what_is_gone_from_the_disk_comes_back) {
	publish(LANES);
	see("a.example", 1, true);
	assert_string_equal(lanes_after("a.example", S), "5");
	assert_int_equal(unlink(world->path), 0);
	hints_reader_close(&world->reader);
	world->reader = hints_reader_open(world->path);
	assert_string_equal(lanes("a.example"), "-");
	turn(2 * S);
	assert_string_equal(lanes("a.example"), "5");
}

TEST_IN(world_open, world_close, what_is_cut_short_is_made_anew) {
	publish(LANES);
	see("a.example", 1, true);
	assert_string_equal(lanes_after("a.example", S), "5");
	assert_int_equal(truncate(world->path, 0), 0);
	world->now_ns += HINTS_LOOK_NS;
	assert_string_equal(lanes("a.example"), "-");
	turn(S);
	assert_string_equal(lanes("a.example"), "5");
	result("a.example", 5, 0, 0);
	set_window("a.example", 8);
	assert_string_equal(lanes_after("a.example", 3 * S), "5+3");
}

TEST_IN(world_open, world_close, observed_is_as_without_us) {
	world->more = "outbound = { observe = true; };\n";
	publish(LANES);
	world->more = NULL;
	see("a.slow.example", 1, true);
	by_hand(MANUAL_HOLD, "a.slow.example");
	by_hand(MANUAL_HOLD, "u@a.slow.example");
	assert_string_equal(lanes_after("a.slow.example", S), "-");
}

/* Many come and go; what is told is what a new file would tell. */
TEST_IN(world_open, world_close, keys_that_came_are_as_those_of_a_new_file) {
	char name[32];

	publish(LANES "exclude *.no.example\n");
	turn(0);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "d%u.%sexample", i, i % 7 == 0 ? "no." : "");
		see(name, 1, true);
		if (i % 5 == 0)
			set_window(name, 3);
		if (i % 20 == 0)
			turn(S);
	}
	turn(S);
	turn(700 * S);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 100; i++) {
			snprintf(name, sizeof(name), "d%u.%sexample", i,
			    i % 7 == 0 ? "no." : "");
			assert_string_equal(lanes(name), i % 7 == 0 ? "-" :
			    i % 5 == 0 ? "3" : "5");
		}
		publish(LANES "exclude *.no.example\n");
		turn(S);
	}
}

/* SPDX-License-Identifier: ISC */
/* What was learned and done by hand is there again after the segment and its text files are
 * gone. */
#include "tests/unit/test.h"
#include "tests/unit/engine/journal/journal_site.h"

/* --- destinations ----------------------------------------------------------------- */

static void learn(const char *name, uint16_t ceiling, const char *reason) {
	struct state_lock lock;

	lock_begun(name, &lock);
	lock.state.window.ceiling = ceiling;
	lock.state.window.state = ceiling == 0 ? WINDOW_OPEN : WINDOW_LIMITED;
	lock.state.window.success = 0.1F;
	lock.state.ok = 11;
	lock.state.failed = 12;
	lock.state.held = 13;
	lock.origin = (struct state_origin){ 4711, 1000 };
	lock.reason = reason;
	states_store(&lock);
	states_unlock(&lock);
}

TEST_IN(open_site, close_site, a_window_is_as_it_was) {
	struct destination_window was, is;

	learn("limited.example", 7, "421 4.7.0 too many connections");
	assert_true(find_state("limited.example", &was));
	turns(2);
	lose_all();
	assert_false(find_state("limited.example", &is));
	restore();
	assert_true(find_state("limited.example", &is));
	assert_memory_equal(&is.state.window, &was.state.window, sizeof(is.state.window));
	assert_int_equal(is.origin, was.origin);
	assert_int_equal(is.state.ok, 11);
	assert_int_equal(is.state.failed, 12);
	assert_int_equal(is.state.held, 13);
	assert_string_equal(is.reason, "421 4.7.0 too many connections");
	assert_int_equal(news_count, 1);
	assert_int_equal(news[0].kind, JOURNAL_NEWS_RESTORED);
	assert_int_equal(news[0].destinations, 1);
	assert_int_equal(counted(COUNTER_JOURNAL_RESTORED), 1);
}

/* It was lowered to 5 a second 90 s before the loss, which takes 30 s.  Nobody knows what was
 * sent meanwhile: there is no token at first. */
TEST_IN(open_site, close_site, a_pace_is_as_it_was) {
	struct destination_window is;
	struct pace_view was, view;
	struct state_lock lock;

	lock_begun("slow.example", &lock);
	assert_true(pace_refused(&lock.state.pace, &pace_defaults, 0,
	    now_ns - 90 * NS_PER_SECOND));
	pace_look(&lock.state.pace, &pace_defaults, now_ns, &was);
	states_store(&lock);
	states_unlock(&lock);
	lock_begun("counted.example", &lock);
	pace_accepted(&lock.state.pace, &pace_defaults, 0, now_ns);
	states_store(&lock);
	states_unlock(&lock);
	turns(2);
	lose_all();
	wall_ns += 30 * NS_PER_SECOND;
	now_ns += 30 * NS_PER_SECOND;
	restore();
	assert_true(find_state("slow.example", &is));
	pace_look(&is.state.pace, &pace_defaults, now_ns, &view);
	assert_true(view.interval_ns == 200 * NS_PER_MS);
	assert_true(view.is_learned);
	assert_in_range(view.raise_ns - was.raise_ns + NS_PER_SECOND, 0, 2 * NS_PER_SECOND);
	assert_true(pace_wait_ns(&is.state.pace, &pace_defaults, now_ns) > 199 * NS_PER_MS);
	/* what was counted lately is over */
	assert_true(find_state("counted.example", &is));
	assert_true(is.state.pace.words[0] == 0 && is.state.pace.words[1] == 0);
}

/* Another process (the keeper, a policy role) changes it, and the feed finds it. */
TEST_IN(open_site, close_site, whoever_changed_it) {
	struct destination_window is;

	turns(3);
	learn("late.example", 3, NULL);
	turn();
	turns(1);
	lose_and_restore();
	assert_true(find_state("late.example", &is));
	assert_int_equal(is.state.window.ceiling, 3);
}

TEST_IN(open_site, close_site, nothing_is_written_while_nothing_changes) {
	uint64_t before, after;

	learn("a.example", 3, NULL);
	turns(4);
	(void)room_files("feed", &before);
	turns(10);
	(void)room_files("feed", &after);
	assert_int_equal(before, after);
}

TEST_IN(open_site, close_site, the_last_of_several_counts) {
	struct destination_window is;

	for (uint16_t ceiling = 1; ceiling < 9; ceiling++) {
		learn("a.example", ceiling, NULL);
		turn();
	}
	lose_and_restore();
	assert_true(find_state("a.example", &is));
	assert_int_equal(is.state.window.ceiling, 8);
	/* and once more, from what this life has written */
	open_journals();
	turns(2);
	lose_and_restore();
	assert_true(find_state("a.example", &is));
	assert_int_equal(is.state.window.ceiling, 8);
}

/* Without them there would be no hint for it, and a domain would not be known to be its
 * provider's, until the next delivery. */
TEST_IN(open_site, close_site, its_relays_and_transports_too) {
	struct delivery_seen seen = { .name = "a.example", .name_length = 9, .mta = 0,
		.cloned = true, .relay_name = "mx1.a.example", .relay_name_length = 13 };
	struct destination_seen was, is;
	char relay[SEGMENT_NAME_MAX + 1];

	assert_true(address_parse("192.0.2.1", 9, &seen.relay));
	assert_true(destinations_note(site.segment, &seen, now_ns));
	assert_true(address_parse("2001:db8::1", 11, &seen.relay));
	seen.relay_name = "mx2.a.example";
	seen.cloned = false;
	assert_true(destinations_note(site.segment, &seen, now_ns));
	assert_true(destinations_find(site.segment, "a.example", 9, &was));
	turns(2);
	learn("b.example", 3, NULL);
	turns(2);
	lose_and_restore();
	assert_true(destinations_find(site.segment, "a.example", 9, &is));
	assert_int_equal(is.relay_count, 2);
	assert_memory_equal(is.relays, was.relays, sizeof(is.relays));
	assert_int_equal(is.cloned_by, 1);
	assert_int_equal(is.other_by, 1);
	assert_true(relays_find(site.segment, &is.relays[0], relay));
	assert_string_equal(relay, "mx2.a.example");
	assert_true(destinations_find(site.segment, "b.example", 9, &is));
	assert_int_equal(is.relay_count, 0);
}

/* --- by hand ---------------------------------------------------------------------- */

TEST_IN(open_site, close_site, what_was_done_by_hand_is_in_force) {
	struct destination_window is;
	struct window_held held;

	journal_states_turn(states, now_ns, wall_ns);
	assert_true(by_hand(MANUAL_SUSPEND, "s.example", 600, "their wish"));
	assert_true(by_hand(MANUAL_HOLD, "h.example", 0, NULL));
	assert_true(by_hand(MANUAL_HOLD, "joe@r.example", 0, "over quota"));
	assert_true(set_ceiling("c.example", 4));
	/* the feed has not seen it: it hangs */
	lose_all();
	wall_ns = clock_wall_ns();
	restore();
	assert_true(find_state("s.example", &is));
	assert_int_equal(is.state.window.state, WINDOW_DEAD);
	assert_string_equal(is.reason, "their wish");
	assert_in_range(is.state.window.until_ns - now_ns, 599 * NS_PER_SECOND,
	    600 * NS_PER_SECOND);
	assert_int_equal(is.state.flags & DESTINATION_HELD, DESTINATION_HELD);
	assert_true(find_state("h.example", &is));
	assert_int_equal(is.state.window.state, WINDOW_HELD);
	assert_int_equal(is.state.window.until_ns, INT64_MAX);
	assert_string_equal(is.reason, "held by an administrator");
	assert_true(find_state("c.example", &is));
	assert_int_equal(is.state.window.ceiling, 4);
	assert_int_equal(is.state.flags & DESTINATION_CEILING, DESTINATION_CEILING);
	assert_true(windows_recipient_held(site.engine, site.generation, "joe@r.example", 13,
	    now_ns, &held));
	assert_string_equal(held.reason, "over quota");
}

/* Where nobody feeds there is keeper/ alone, however long ago it was done. */
TEST_IN(open_site, close_site, without_a_feed) {
	struct destination_window is;

	assert_true(by_hand(MANUAL_HOLD, "h.example", 0, "closed"));
	journal_states_close(&states);
	turns(3);
	lose_and_restore();
	open_journals();
	journal_states_close(&states);
	turns(3);
	lose_and_restore();
	assert_true(find_state("h.example", &is));
	assert_int_equal(is.state.window.state, WINDOW_HELD);
	assert_string_equal(is.reason, "closed");
}

TEST_IN(open_site, close_site, a_resume_is_later_than_what_was_written) {
	struct destination_window is;

	assert_true(by_hand(MANUAL_HOLD, "h.example", 0, NULL));
	assert_true(by_hand(MANUAL_HOLD, "i.example", 0, NULL));
	wall_ns = clock_wall_ns();
	journal_states_turn(states, now_ns += NS_PER_SECOND, wall_ns);
	assert_true(by_hand(MANUAL_RESUME, "h.example", 0, NULL));
	lose_all();
	wall_ns = clock_wall_ns();
	restore();
	assert_true(find_state("h.example", &is));
	assert_int_equal(is.state.window.state, WINDOW_OPEN);
	assert_true(find_state("i.example", &is));
	assert_int_equal(is.state.window.state, WINDOW_HELD);
}

/* What a destination learned after it was held by hand is not undone by doing that again. */
TEST_IN(open_site, close_site, what_was_written_later_counts) {
	struct destination_window is;

	assert_true(set_ceiling("c.example", 4));
	poll(NULL, 0, 2);
	wall_ns = clock_wall_ns();
	learn("c.example", 6, NULL);
	journal_states_turn(states, now_ns += NS_PER_SECOND, wall_ns);
	journal_manual_turn(manual, now_ns, wall_ns);
	lose_and_restore();
	assert_true(find_state("c.example", &is));
	assert_int_equal(is.state.window.ceiling, 6);
	assert_int_equal(news[0].actions, 0);
}

TEST_IN(open_site, close_site, a_class_is_held_again) {
	struct by_hand request = { .verb = MANUAL_HOLD, .name = "Some", .name_length = 4,
		.class = true, .window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET };
	struct window_owner ignored;
	struct window_held held;

	assert_int_equal(windows_by_hand(site.engine, site.generation, &request, now_ns,
	    &ignored), BY_HAND_DONE);
	lose_all();
	wall_ns = clock_wall_ns();
	restore();
	assert_true(windows_class_held(site.engine, site.generation, 0, now_ns, &held));
	assert_false(windows_class_held(site.engine, site.generation, 1, now_ns, &held));
}

TEST_IN(open_site, close_site, what_was_forgotten_stays_so) {
	struct destination_window is;

	learn("f.example", 5, "once");
	turns(2);
	assert_true(by_hand(MANUAL_FORGET, "f.example", 0, NULL));
	turns(2);
	lose_and_restore();
	if (find_state("f.example", &is)) {
		assert_false(is.state.begun);
		assert_int_equal(is.state.ok, 0);
		assert_string_equal(is.reason, "");
	}
}

/* The journal is younger than what was done. */
TEST_IN(open_site, close_site, what_was_done_before_there_was_a_journal) {
	struct destination_window is;

	close_journals();
	assert_true(by_hand(MANUAL_HOLD, "old.example", 0, "since long"));
	assert_true(by_hand(MANUAL_HOLD, "jim@old.example", 0, NULL));
	open_journals();
	turns(2);
	journal_states_close(&states);
	lose_and_restore();
	assert_true(find_state("old.example", &is));
	assert_int_equal(is.state.window.state, WINDOW_HELD);
	assert_string_equal(is.reason, "since long");
}

/* --- recipients ------------------------------------------------------------------- */

static void hold_by_rule(const char *address, int64_t for_s) {
	struct recipient_hold hold = { .address = address, .length = strlen(address),
		.rule = 3, .until_ns = now_ns + for_s * NS_PER_SECOND,
		.reason = "452 over quota" };

	assert_true(recipients_hold(site.segment, &hold, now_ns));
}

TEST_IN(open_site, close_site, recipients_are_held_as_they_were) {
	struct recipient_held held;

	hold_by_rule("a@r.example", 600);
	hold_by_rule("b@r.example", 600);
	turns(2);
	assert_true(recipients_release(site.segment, "b@r.example", 11, now_ns));
	hold_by_rule("c@r.example", 10);
	turns(2);
	lose_all();
	now_ns += 60 * NS_PER_SECOND;
	wall_ns += 60 * NS_PER_SECOND;
	restore();
	assert_true(recipients_find(site.segment, "a@r.example", 11, now_ns, &held));
	assert_in_range(held.until_ns - now_ns, 530 * NS_PER_SECOND, 540 * NS_PER_SECOND);
	assert_string_equal(held.reason, "452 over quota");
	/* or no rule could lengthen it, and it would be given up last */
	assert_int_equal(held.rule, RECIPIENT_A_RULE);
	assert_false(recipients_find(site.segment, "b@r.example", 11, now_ns, &held));
	assert_false(recipients_find(site.segment, "c@r.example", 11, now_ns, &held));
}

TEST_IN(open_site, close_site, by_what_a_recipient_is_held_is_known_when_the_state_was_lost) {
	const struct recipient_hold hold = { .address = "a@r.example", .length = 11,
		.rule = 3, .until_ns = now_ns + 600 * NS_PER_SECOND, .reason = "452 over quota",
		.event = UINT64_C(0x0123456789abcdef) };
	struct recipient_held held;

	assert_true(recipients_hold(site.segment, &hold, now_ns));
	hold_by_rule("b@r.example", 600);
	turns(2);
	lose_and_restore();
	assert_true(recipients_find(site.segment, "a@r.example", 11, now_ns, &held));
	assert_true(held.event == hold.event);
	assert_true(recipients_find(site.segment, "b@r.example", 11, now_ns, &held));
	assert_true(held.event == 0);
}

/* --- another boot ------------------------------------------------------------------- */

/* It was dead for 300 s, the reboot took 100 s, and the clock of the boot begins anew. */
TEST_IN(open_site, close_site, times_are_those_of_the_day) {
	struct destination_window is;
	struct state_lock lock;

	lock_begun("d.example", &lock);
	window_suspend(&lock.state.window, WINDOW_CAUSE_RULE, now_ns + 302 * NS_PER_SECOND);
	lock.state.window.accepted[0] = 4;
	lock.state.window.accepted_span = 5;
	states_store(&lock);
	states_unlock(&lock);
	turns(2);
	lose_all();
	wall_ns += 100 * NS_PER_SECOND;
	now_ns = 50 * NS_PER_SECOND;
	restore();
	assert_true(find_state("d.example", &is));
	assert_int_equal(is.state.window.state, WINDOW_DEAD);
	assert_in_range(is.state.window.until_ns, now_ns + 199 * NS_PER_SECOND,
	    now_ns + 202 * NS_PER_SECOND);
	assert_int_equal(is.state.window.accepted[0], 0);
}

/* A machine without a clock of its own begins in 1970. */
TEST_IN(open_site, close_site, nothing_lasts_longer_where_the_clock_went_back) {
	struct destination_window is;
	struct recipient_held held;
	struct state_lock lock;

	lock_begun("d.example", &lock);
	lock.state.resumed_ns = now_ns;
	window_suspend(&lock.state.window, WINDOW_CAUSE_RULE, now_ns + 60 * NS_PER_SECOND);
	states_store(&lock);
	states_unlock(&lock);
	hold_by_rule("a@r.example", 3600);
	journal_states_turn(states, now_ns, wall_ns);
	assert_true(by_hand(MANUAL_HOLD, "h.example", 3600, NULL));
	assert_true(by_hand(MANUAL_HOLD, "b@r.example", 3600, NULL));
	lose_all();
	wall_ns = 1000 * NS_PER_SECOND;
	restore();
	assert_true(find_state("d.example", &is));
	assert_in_range(is.state.window.until_ns - now_ns, 1, 60 * NS_PER_SECOND);
	assert_true(is.state.resumed_ns <= now_ns + NS_PER_SECOND);
	assert_true(find_state("h.example", &is));
	assert_in_range(is.state.window.until_ns - now_ns, 1, 3601 * NS_PER_SECOND);
	assert_true(recipients_find(site.segment, "a@r.example", 11, now_ns, &held));
	assert_in_range(held.until_ns - now_ns, 1, 3601 * NS_PER_SECOND);
	assert_true(recipients_find(site.segment, "b@r.example", 11, now_ns, &held));
	assert_in_range(held.until_ns - now_ns, 1, 3601 * NS_PER_SECOND);
}

/* It is 1970 until the time is known; what was written by then is dated anew. */
TEST_IN(open_site, close_site, what_was_dated_by_a_wrong_clock) {
	struct destination_window is;
	int64_t right_ns = wall_ns;
	struct state_lock lock;

	wall_ns = 1000 * NS_PER_SECOND;
	lock_begun("d.example", &lock);
	window_suspend(&lock.state.window, WINDOW_CAUSE_RULE, now_ns + 600 * NS_PER_SECOND);
	states_store(&lock);
	states_unlock(&lock);
	turns(3);
	wall_ns = right_ns;
	turns(2);
	lose_and_restore();
	assert_true(find_state("d.example", &is));
	assert_in_range(is.state.window.until_ns - now_ns, 590 * NS_PER_SECOND,
	    600 * NS_PER_SECOND);
}

/* --- what need not be read ------------------------------------------------------------ */

TEST_IN(open_site, close_site, an_empty_journal_is_no_news) {
	lose_and_restore();
	assert_int_equal(counted(COUNTER_JOURNAL_RESTORED), 0);
}

TEST_IN(open_site, close_site, only_a_new_state_is_taught) {
	learn("a.example", 3, NULL);
	turns(2);
	lose_and_restore();
	close_journals();
	/* adopted */
	site_restart(&site, 64, JOURNAL_SITE);
	assert_false(segment_is_unlearned(site.segment));
	/* of other sizes */
	site_restart(&site, 4096, JOURNAL_SITE);
	assert_false(segment_is_unlearned(site.segment));
	open_journals();
}

/* The supervisor died before it had been read. */
TEST_IN(open_site, close_site, one_that_is_adopted_too_early_is_still_to_be_taught) {
	lose_all();
	site_restart(&site, 64, JOURNAL_SITE);
	assert_true(segment_is_unlearned(site.segment));
	segment_has_learned(site.segment, true);
	site_restart(&site, 64, JOURNAL_SITE);
	assert_false(segment_is_unlearned(site.segment));
}

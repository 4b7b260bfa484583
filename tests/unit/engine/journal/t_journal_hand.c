/* SPDX-License-Identifier: ISC */
/* What was done by hand, in the journal: what is kept of very much of it, and what is in force
 * after a loss. */
#include "tests/unit/test.h"
#include "engine/journal/manual_table.h"
#include "tests/unit/engine/journal/journal_site.h"

static bool add(struct manual_table *table, uint8_t verb, const char *name, int64_t when_ns,
    int64_t until_ns) {
	struct journal_manual action = { .when_ns = when_ns, .until_ns = until_ns,
		.verb = verb, .what = JOURNAL_ON_DESTINATION, .window = UINT32_MAX,
		.ceiling = UINT32_MAX, .name = { name, (uint16_t)strlen(name) } };

	return manual_table_add(table, &action);
}

static void add_many(struct manual_table *table, uint8_t verb, const char *form,
    unsigned count, int64_t until_ns) {
	char name[64];

	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%s%u.example", form, i);
		assert_true(add(table, verb, name, 1000 + i, until_ns));
	}
}

static bool count(void *context, const struct journal_manual *action) {
	++*(unsigned *)context;
	return true;
}

static unsigned count_of(struct manual_table *table) {
	unsigned entries = 0;

	manual_table_each(table, count, &entries);
	return entries;
}

/* A script that resumes all that there is. */
TEST(resumes_do_not_push_out_a_hold) {
	struct manual_table *table = manual_table_open();

	assert_true(add(table, MANUAL_HOLD, "kept.example", 1, INT64_MAX));
	add_many(table, MANUAL_RESUME, "r", 2 * MANUAL_ACTIONS_MAX, 0);
	assert_int_equal(count_of(table), MANUAL_ACTIONS_MAX);
	assert_true(manual_table_has(table, JOURNAL_ON_DESTINATION, "kept.example"));
	assert_false(manual_table_has(table, JOURNAL_ON_DESTINATION, "r0.example"));
	assert_int_equal(manual_table_pushed_out(table), 0);
	manual_table_close(&table);
}

TEST(what_is_over_goes_before_what_is_in_force) {
	struct manual_table *table = manual_table_open();

	assert_true(add(table, MANUAL_HOLD, "kept.example", 1, INT64_MAX));
	add_many(table, MANUAL_SUSPEND, "s", 3000, 500);
	add_many(table, MANUAL_HOLD, "h", MANUAL_ACTIONS_MAX, INT64_MAX);
	/* it is the oldest; 3000 that were over made room for all but one of them */
	assert_int_equal(count_of(table), MANUAL_ACTIONS_MAX);
	assert_false(manual_table_has(table, JOURNAL_ON_DESTINATION, "s1.example"));
	assert_true(manual_table_has(table, JOURNAL_ON_DESTINATION, "h0.example"));
	assert_int_equal(manual_table_pushed_out(table), 1);
	manual_table_close(&table);
}

static bool check_order(void *context, const struct journal_manual *action) {
	int64_t *before = context;

	assert_true(action->when_ns > *before);
	*before = action->when_ns;
	return true;
}

TEST(they_are_given_in_their_order) {
	struct manual_table *table = manual_table_open();
	int64_t before = 0;

	assert_true(add(table, MANUAL_FORGET, "a.example", 1, 0));
	assert_true(add(table, MANUAL_HOLD, "b.example", 2, INT64_MAX));
	assert_true(add(table, MANUAL_RESUME, "c.example", 3, 0));
	assert_true(add(table, MANUAL_LIMIT, "a.example", 4, 0));
	manual_table_each(table, check_order, &before);
	assert_int_equal(before, 4);
	manual_table_close(&table);
}

/* The table of its process is lost with it, and the files say that it is held. */
TEST_IN(open_site, close_site, what_was_resumed_while_the_disk_was_full_stays_so) {
	struct destination_window is;
	char path[160], aside[160];

	segment_has_learned(site.segment, true);
	assert_true(by_hand(MANUAL_HOLD, "h.example", 0, NULL));
	assert_true(by_hand(MANUAL_HOLD, "i.example", 0, NULL));
	turns(2);
	room_path("keeper", path);
	room_path("aside", aside);
	assert_int_equal(rename(path, aside), 0);
	turns(2);
	assert_true(by_hand(MANUAL_RESUME, "h.example", 0, NULL));
	close_journals();
	assert_int_equal(rename(aside, path), 0);
	open_journals();
	journal_states_close(&states);
	turns(3);
	/* feed/ is not there to know better */
	lose_all();
	room_path("feed", path);
	assert_int_equal(rename(path, aside), 0);
	make_rooms();
	restore();
	assert_false(find_state("h.example", &is) && is.state.window.state == WINDOW_HELD);
	assert_true(find_state("i.example", &is));
	assert_int_equal(is.state.window.state, WINDOW_HELD);
}

/* 100 years are as good as for ever. */
TEST_IN(open_site, close_site, a_suspension_for_ever_is_one_after_a_loss) {
	struct destination_window is;

	assert_true(by_hand(MANUAL_SUSPEND, "s.example", INT64_C(100) * 365 * 86400, NULL));
	lose_all();
	wall_ns = clock_wall_ns();
	restore();
	assert_true(find_state("s.example", &is));
	assert_int_equal(is.state.window.state, WINDOW_DEAD);
	assert_true(is.state.window.until_ns - now_ns >
	    INT64_C(50) * 365 * 86400 * NS_PER_SECOND);
}

/* What a rule holds is no deed of anybody's. */
TEST_IN(open_site, close_site, what_a_rule_holds_is_not_written_as_done_by_hand) {
	struct recipient_hold hold = { .address = "a@r.example", .length = 11,
		.rule = 3, .until_ns = now_ns + 600 * NS_PER_SECOND,
		.reason = "452 over quota" };
	struct recipient_held held;

	assert_true(recipients_hold(site.segment, &hold, now_ns));
	turns(2);
	lose_and_restore();
	open_journals();
	turns(2);
	lose_and_restore();
	assert_true(recipients_find(site.segment, hold.address, 11, now_ns, &held));
	assert_int_equal(held.rule, RECIPIENT_A_RULE);
	assert_int_equal(news[0].actions, 0);
}

/* 2000 that are held are 120 kB: a change each second would write that each second. */
TEST_IN(open_site, close_site, a_long_list_of_held_recipients_is_not_written_each_second) {
	uint64_t before, after;
	char address[32];

	close_site(state);
	open_site_sized(65536);
	for (unsigned i = 0; i < 2000; i++) {
		struct recipient_hold hold = { .address = address, .rule = 3,
			.until_ns = now_ns + 3600 * NS_PER_SECOND,
			.reason = "452 4.2.2 the mailbox of this recipient is over quota" };

		hold.length = (size_t)snprintf(address, sizeof(address), "u%u@r.example", i);
		(void)recipients_hold(site.segment, &hold, now_ns);
	}
	turns(3);
	(void)room_files("feed", &before);
	for (unsigned i = 0; i < 30; i++) {
		snprintf(address, sizeof(address), "u%u@r.example", i);
		(void)recipients_release(site.segment, address, strlen(address), now_ns);
		turn();
	}
	(void)room_files("feed", &after);
	assert_true(before > 100 << 10);
	assert_true(after - before < 30 * (JOURNAL_STATE_RATE / 64) + 2 * before);
	assert_true(after - before < 15 * before);
}

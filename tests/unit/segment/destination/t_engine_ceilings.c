/* SPDX-License-Identifier: ISC */
/* Ceilings that the nodes of a cluster divide: what one of them uses, wants and gives back. */
#include "tests/unit/test.h"
#include "segment/destination/shared.h"
#include "segment/destination/states.h"
#include "tests/unit/engine/cluster/knowledge_world.h"

static struct knowledge_pool out[KNOWLEDGE_POOLS_MAX];
static bool due;
static struct windows_places *places[6];

/* What node 0 has leased and wants, to `out`; is it due? */
static size_t pools(void) {
	return knowledge_pools(stores[0], sites[0].generation, now_ns, out, KNOWLEDGE_POOLS_MAX,
	    &due);
}

static void grant(const struct knowledge_pool *pool, uint32_t granted, uint32_t fair,
    int64_t seconds) {
	knowledge_granted(stores[0], sites[0].generation, pool->entry, pool->life,
	    pool->canary, granted, fair, 0, 0, now_ns + seconds * NS_PER_SECOND, now_ns);
}

/* The same answer, and others need more than they have. */
static void short_of(const struct knowledge_pool *pool, uint32_t granted, uint32_t fair) {
	knowledge_granted(stores[0], sites[0].generation, pool->entry, pool->life, false,
	    granted, fair, 1, 0, now_ns + 15 * NS_PER_SECOND, now_ns);
}

static enum window_answer ask_for(unsigned who, const char *id, const char *name) {
	struct window_owner owner;
	struct window_question question = { .owner = &owner, .places = places[who],
		.queue_id = id, .queue_id_length = strlen(id) };
	struct window_asked asked;

	at(0);
	owner = owner_of(name);
	windows_ask(sites[0].engine, sites[0].generation, &question, now_ns, &asked);
	return asked.answer;
}

static enum window_answer ask(unsigned who, const char *id) {
	return ask_for(who, id, "limited.example");
}

/* For six queue runs of a Sendmail. */
static void begin_runs(const char *configuration, uint64_t destinations) {
	begin_sized(configuration, destinations);
	for (int i = 0; i < 6; i++)
		places[i] = windows_places_open(sites[0].engine,
		    &(struct process_identity){ .pid = 1000 + i, .start_ticks = 7 });
}

static int begin_sendmail(void **state) {
	begin_runs(OF_KIND("sendmail"), 256);
	return 0;
}

static void run_ends(unsigned who) {
	windows_places_close(&places[who], true, now_ns);
}

static int end_runs(void **state) {
	for (unsigned i = 0; i < 6; i++)
		run_ends(i);
	return end(state);
}

/* 2, set for `seconds` so long ago, are divided among three nodes: none is its. */
static void divide(int64_t seconds, int64_t ago) {
	hand(0, MANUAL_LIMIT, "limited.example", seconds, 2);
	now_ns += ago * NS_PER_SECOND;
	turn(0);
	knowledge_leased(stores[0], now_ns + 10 * NS_PER_SECOND);
	(void)pools();
}

/* Of 6 for three nodes each has 1 whatever comes; 3 more are leased. */
TEST_IN(begin_sendmail, end_runs, a_node_uses_its_part_and_no_more) {
	hand(0, MANUAL_LIMIT, "limited.example", 3600, 6);
	turn(0);
	assert_int_equal(pools(), 0);
	assert_int_equal(view_at(0, "limited.example").share, 1);
	assert_int_equal(ask(0, "A"), WINDOW_GO);
	assert_int_equal(ask(1, "B"), WINDOW_FULL);
	assert_int_equal(pools(), 1);
	assert_true(due);
	assert_string_equal(out[0].name, "d:limited.example");
	assert_int_equal(out[0].limit, 6);
	assert_int_equal(out[0].fixed, 1);
	assert_int_equal(out[0].hold, 0);
	assert_int_equal(out[0].want, 3);	/* 6 but for what each of three always has */
	grant(&out[0], 3, 3, 10);
	assert_int_equal(view_at(0, "limited.example").window, 4);
	assert_int_equal(ask(1, "B"), WINDOW_GO);
	assert_int_equal(ask(2, "C"), WINDOW_GO);
	assert_int_equal(ask(3, "D"), WINDOW_GO);
	assert_int_equal(ask(4, "E"), WINDOW_FULL);
	/* others want some: no new ones, and nothing is given back before it is free */
	assert_int_equal(pools(), 1);
	grant(&out[0], 3, 1, 10);
	assert_int_equal(ask(4, "E"), WINDOW_FULL);
	assert_int_equal(pools(), 1);
	assert_int_equal(out[0].hold, 3);
	run_ends(1);
	run_ends(2);
	assert_int_equal(ask(4, "E"), WINDOW_FULL);
	assert_int_equal(pools(), 1);
	assert_int_equal(out[0].hold, 1);
	assert_true(due);
	/* the lease ends: what it always has */
	now_ns += 11 * NS_PER_SECOND;
	assert_int_equal(view_at(0, "limited.example").share, 1);
	/* without a ceiling there is nothing to divide */
	hand(0, MANUAL_LIMIT, "limited.example", 0, 0);
	turn(0);
	assert_false(view_at(0, "limited.example").divided);
	assert_int_equal(pools(), 1);
	assert_int_equal(out[0].hold, 0);
	assert_int_equal(out[0].want, 0);
	grant(&out[0], 0, 0, 10);
	assert_int_equal(pools(), 0);
}

TEST_IN(begin_sendmail, end_runs, a_late_question_has_no_place_by_a_lease_that_ended) {
	divide(3600, 0);
	assert_int_equal(ask(0, "A"), WINDOW_FULL);
	assert_int_equal(pools(), 1);
	now_ns -= 60 * NS_PER_SECOND;
	grant(&out[0], 2, 2, 10);	/* it ends before it is granted */
	assert_int_equal(ask(0, "A"), WINDOW_GO);	/* what it has without one */
	assert_int_equal(ask(1, "B"), WINDOW_FULL);
}

/* Lowered here, told to nobody: whoever comes then cannot know of it. */
TEST_IN(begin_sendmail, end_runs, a_call_that_was_lost_with_its_role_loses_no_places) {
	size_t count;

	divide(3600, 0);
	assert_int_equal(ask(0, "A"), WINDOW_FULL);
	assert_int_equal(pools(), 1);
	grant(&out[0], 2, 2, 15);
	assert_int_equal(ask(0, "A"), WINDOW_GO);
	assert_int_equal(pools(), 1);
	run_ends(0);
	now_ns += 30 * NS_PER_SECOND;
	short_of(&out[0], 2, 2);
	assert_int_equal(pools(), 1);
	assert_int_equal(out[0].hold, 0);
	knowledge_close(&stores[0]);
	open_store(0);
	knowledge_begin_hearing(stores[0]);
	knowledge_heard_all(stores[0], true, 1);
	turn(0);
	count = pools();
	assert_int_equal(count, 2);	/* of a canary it cannot know, either */
	assert_true(due);
	assert_string_equal(out[0].name, "d:limited.example");
	assert_int_equal(out[0].hold + out[0].want, 0);
	assert_string_equal(out[1].name, "c:limited.example");
	assert_int_equal(out[1].hold + out[1].want, 0);
	for (size_t i = 0; i < count; i++)
		grant(&out[i], 0, 0, 15);
	assert_int_equal(pools(), 0);
	/* and of what it did not get to in its first call */
	knowledge_reborn(stores[0], sites[0].generation, now_ns);
	assert_int_equal(pools(), 2);
	assert_int_equal(out[0].hold + out[0].want, 0);
}

/* It would have its turn before others, of a place that it does not want any more. */
TEST_IN(begin_sendmail, end_runs, a_node_that_got_no_place_and_wants_none_any_more_says_so) {
	divide(100000, 0);
	assert_int_equal(ask(0, "A"), WINDOW_FULL);
	assert_int_equal(pools(), 1);
	assert_int_equal(out[0].want, 2);
	short_of(&out[0], 0, 0);
	now_ns += 3601 * NS_PER_SECOND;	/* nor does the next queue run */
	assert_int_equal(pools(), 1);
	assert_true(due);
	assert_int_equal(out[0].hold + out[0].want, 0);
	/* until there is an answer */
	assert_int_equal(pools(), 1);
	short_of(&out[0], 0, 2);
	assert_int_equal(pools(), 0);
}

TEST_IN(begin_sendmail, end_runs, a_canary_that_had_no_turn_and_is_wanted_no_more_is_not_waited_for) {
	divide(0, 700);
	assert_int_equal(ask(0, "A"), WINDOW_FULL);
	assert_int_equal(pools(), 1);
	grant(&out[0], 2, 2, 60);
	assert_int_equal(ask(0, "A"), WINDOW_GO);
	assert_int_equal(ask(1, "B"), WINDOW_GO);
	assert_int_equal(ask(2, "C"), WINDOW_FULL);
	assert_int_equal(pools(), 2);
	assert_int_equal(out[1].want, 1);
	grant(&out[1], 0, 0, 60);
	now_ns += 6 * NS_PER_SECOND;
	assert_int_equal(pools(), 2);
	assert_true(due);
	assert_string_equal(out[1].name, "c:limited.example");
	assert_int_equal(out[1].hold + out[1].want, 0);
	grant(&out[1], 0, 0, 60);
	assert_int_equal(pools(), 1);
}

/* Who would try more than the ceiling asks for its turn first. */
TEST_IN(begin_sendmail, end_runs, one_canary_at_a_time) {
	divide(0, 700);
	assert_int_equal(ask(0, "A"), WINDOW_FULL);
	assert_int_equal(pools(), 1);
	assert_int_equal(out[0].want, 2);
	grant(&out[0], 2, 2, 10);
	assert_int_equal(ask(0, "A"), WINDOW_GO);
	assert_int_equal(ask(1, "B"), WINDOW_GO);
	assert_int_equal(ask(2, "C"), WINDOW_FULL);
	assert_true(view_at(0, "limited.example").canary_waits);
	assert_int_equal(pools(), 2);
	assert_true(due);
	assert_string_equal(out[1].name, "c:limited.example");
	assert_int_equal(out[1].limit, 1);
	assert_int_equal(out[1].hold, 0);
	assert_int_equal(out[1].want, 1);
	grant(&out[1], 0, 0, 10);
	assert_int_equal(ask(2, "C"), WINDOW_FULL);	/* another node has one out */
	grant(&out[1], 1, 1, 10);
	assert_int_equal(ask(2, "C"), WINDOW_GO_CANARY);
	assert_int_equal(pools(), 2);
	assert_int_equal(out[1].hold, 1);
}

/* Two that have mail waited for one that had none, in turns, for ten minutes. */
TEST_IN(begin_sendmail, end_runs, what_nobody_uses_goes_to_who_waits) {
	divide(3600, 0);
	assert_int_equal(ask(0, "A"), WINDOW_FULL);
	assert_int_equal(pools(), 1);
	short_of(&out[0], 1, 1);
	assert_int_equal(ask(0, "A"), WINDOW_GO);
	assert_int_equal(pools(), 1);
	assert_int_equal(out[0].hold, 1);
	assert_int_equal(out[0].want, 2);
	run_ends(0);
	/* another run may be about to ask */
	now_ns += NS_PER_SECOND;
	assert_int_equal(pools(), 1);
	assert_int_equal(out[0].want, 2);
	now_ns += NS_PER_SECOND;
	assert_int_equal(pools(), 1);
	assert_true(due);
	assert_int_equal(out[0].hold + out[0].want, 0);
}

/* It was refused with each run, half an hour after the one before. */
TEST_IN(begin_sendmail, end_runs, a_queue_run_that_found_no_place_has_one_when_it_comes_again) {
	divide(0, 0);
	assert_int_equal(ask(0, "A"), WINDOW_FULL);
	assert_int_equal(pools(), 1);
	short_of(&out[0], 0, 0);
	now_ns += 60 * NS_PER_SECOND;
	assert_int_equal(pools(), 1);
	assert_int_equal(out[0].want, 1);
	short_of(&out[0], 1, 1);
	now_ns += 1700 * NS_PER_SECOND;
	assert_int_equal(pools(), 1);
	assert_int_equal(out[0].hold, 1);
	short_of(&out[0], 1, 1);
	assert_int_equal(ask(0, "A"), WINDOW_GO);
	assert_int_equal(pools(), 1);
	run_ends(0);
	/* it has had its place */
	now_ns += 10 * NS_PER_SECOND;
	assert_int_equal(pools(), 1);
	assert_int_equal(out[0].hold + out[0].want, 0);
}

/* It was asked for anew meanwhile: then it was granted for ever, and never sent. */
TEST_IN(begin_sendmail, end_runs, a_canary_that_was_not_sent_is_given_back_first) {
	struct window_owner owner;
	struct window_view view;

	divide(0, 700);
	assert_int_equal(ask(0, "A"), WINDOW_FULL);
	view = view_at(0, "limited.example");
	owner = owner_of("limited.example");
	assert_true(view.canary_waits);
	windows_want_canary(sites[0].engine, &owner, &view, now_ns);
	/* as long as others may have places that they do not use it would prove nothing */
	assert_int_equal(pools(), 1);
	assert_false(out[0].canary);
	grant(&out[0], 1, 1, 10);
	assert_int_equal(pools(), 1);
	grant(&out[0], 2, 2, 10);
	assert_int_equal(pools(), 2);
	assert_true(out[1].canary);
	assert_int_equal(out[1].want, 1);
	grant(&out[1], 1, 1, 10);
	assert_true(view_at(0, "limited.example").canary_due);
	now_ns += 3 * NS_PER_SECOND;
	view = view_at(0, "limited.example");
	assert_true(view.canary_waits);
	windows_want_canary(sites[0].engine, &owner, &view, now_ns);
	assert_int_equal(pools(), 2);
	assert_true(due);
	assert_int_equal(out[1].hold + out[1].want, 0);
	grant(&out[1], 0, 0, 10);
	windows_want_canary(sites[0].engine, &owner, &view, now_ns);
	assert_int_equal(pools(), 2);
	assert_int_equal(out[1].want, 1);
	grant(&out[1], 1, 1, 10);
	assert_true(view_at(0, "limited.example").canary_due);
}

#define SCOPE	"window = { destination_concurrency_limit = 12; scope = \"cluster\"; };\n" \
	"destinations = ( { match = [ \"own.example\" ]; window = { scope = \"node\"; }; }, " \
	"{ match = [ \"two.example\" ]; window = { destination_concurrency_limit = 2; }; } );\n"

/* Of 12 for three nodes: each has 1, and 9 are leased. */
TEST_IN(NULL, end_runs, a_configured_limit_is_divided_where_it_is_for_all) {
	struct window_view view;

	begin_runs(OF_KIND("sendmail") SCOPE, 256);
	/* also before the role has looked at it */
	view = view_at(0, "new.example");
	assert_true(view.divided);
	assert_int_equal(view.share, 1);
	assert_int_equal(ask_for(0, "A", "new.example"), WINDOW_GO);
	assert_int_equal(ask_for(1, "B", "new.example"), WINDOW_FULL);
	assert_int_equal(view_at(0, "two.example").share, 1);
	assert_false(view_at(0, "own.example").divided);
	assert_false(view_at(0, "[127.0.0.1]:10024").divided);
	turn(0);
	knowledge_leased(stores[0], now_ns + 10 * NS_PER_SECOND);
	assert_int_equal(view_at(0, "new.example").share, 1);
	assert_int_equal(ask_for(1, "B", "new.example"), WINDOW_FULL);
	assert_int_equal(pools(), 1);
	assert_string_equal(out[0].name, "d:new.example");
	assert_int_equal(out[0].limit, 12);
	assert_int_equal(out[0].fixed, 1);
	assert_int_equal(out[0].want, 9);
	assert_int_equal(out[0].version, 0);
	grant(&out[0], 9, 9, 10);
	assert_int_equal(view_at(0, "new.example").share, 10);
	assert_int_equal(ask_for(1, "B", "new.example"), WINDOW_GO);
	/* nobody is told of it: all have the same file */
	assert_int_equal(tell(0), 0);
}

/* Each machine that was started without it had all of them for itself. */
TEST_IN(begin_sendmail, end_runs, ceilings_are_divided_before_redis_was_ever_reached) {
	knowledge_close(&stores[0]);
	open_store(0);
	hand(0, MANUAL_LIMIT, "limited.example", 0, 6);
	hand(0, MANUAL_LIMIT, "two.example", 0, 2);
	assert_false(view_at(0, "limited.example").divided);
	turn(0);
	assert_int_equal(view_at(0, "limited.example").share, 1);
	assert_int_equal(view_at(0, "two.example").share, 1);
	assert_int_equal(pools(), 0);
	hand(0, MANUAL_LIMIT, "limited.example", 0, 60);
	hand(0, MANUAL_FORGET, "two.example", 0, BY_HAND_UNSET);
	turn(0);
	now_ns += 2 * NS_PER_SECOND;
	turn(0);
	assert_int_equal(view_at(0, "limited.example").share, 2);
	assert_false(view_at(0, "two.example").divided);
	/* once it is there what was done meanwhile is told as ever */
	knowledge_begin_hearing(stores[0]);
	knowledge_heard_all(stores[0], true, now_ns);
	assert_int_equal(tell(0), 1);
	assert_int_equal(view_at(0, "limited.example").share, 2);
}

/* A role that begins anew may use what was leased, and no more. */
TEST_IN(begin_sendmail, end_runs, a_new_role_takes_over_what_was_leased) {
	hand(0, MANUAL_LIMIT, "limited.example", 0, 6);
	turn(0);
	knowledge_leased(stores[0], now_ns + 10 * NS_PER_SECOND);
	assert_int_equal(ask(0, "A"), WINDOW_GO);
	assert_int_equal(pools(), 1);
	grant(&out[0], 3, 2, 10);
	assert_int_equal(view_at(0, "limited.example").share, 3);
	for (unsigned i = 0; i < 2; i++) {
		knowledge_close(&stores[0]);
		open_store(0);
		turn(0);
		assert_int_equal(view_at(0, "limited.example").share, 3);
	}
	knowledge_begin_hearing(stores[0]);
	knowledge_heard_all(stores[0], true, now_ns);
	turn(0);
	assert_int_equal(view_at(0, "limited.example").share, 3);
	assert_true(pools() >= 1);
	assert_int_equal(out[0].hold, 2);
}

/* What hints tell of lanes: so many are in use, and does mail wait in them? */
static void tell_lanes(unsigned node, const char *name, uint32_t used, bool waits) {
	struct segment *segment = sites[node].segment;
	struct shared_seen seen;
	struct state_key key;

	assert_true(states_key(segment, name, strlen(name), &key));
	assert_true(shared_find(segment, key.hash, &seen));
	shared_tell_lanes(segment, key.hash, used, waits ? UINT16_MAX : 0, seen.serial);
}

/* It was told only when some of it was kept: a lane of the static part never grew. */
TEST_IN(NULL, end, mail_that_waits_in_lanes_has_more_asked_for) {
	begin(NULL);
	hand(0, MANUAL_LIMIT, "limited.example", 0, 12);
	turn(0);
	knowledge_leased(stores[0], now_ns + 60 * NS_PER_SECOND);
	assert_int_equal(view_at(0, "limited.example").share, 1);
	tell_lanes(0, "limited.example", 1, false);
	assert_int_equal(pools(), 0);
	tell_lanes(0, "limited.example", 1, true);
	assert_int_equal(pools(), 1);
	assert_true(due);
	assert_int_equal(out[0].want, 9);
	grant(&out[0], 9, 9, 60);
	assert_int_equal(view_at(0, "limited.example").share, 10);
	/* and is given back when they have drained */
	tell_lanes(0, "limited.example", 0, false);
	now_ns += 30 * NS_PER_SECOND;
	assert_int_equal(pools(), 1);
	assert_int_equal(view_at(0, "limited.example").share, 1);
	tell_lanes(0, "limited.example", 0, false);
	now_ns += 10 * NS_PER_SECOND;
	assert_int_equal(pools(), 1);
	assert_int_equal(out[0].hold + out[0].want, 0);
	grant(&out[0], 0, 0, 60);
	assert_int_equal(pools(), 0);
}

/* Those behind the first 120 were never told. */
TEST_IN(NULL, end_runs, of_very_many_each_is_told_in_its_turn) {
	bool told[200];
	unsigned others = 0;
	char name[32];

	begin_runs(OF_KIND("sendmail"), 8192);
	for (unsigned i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "d%u.example", i);
		hand(0, MANUAL_LIMIT, name, 0, 2);
	}
	turn(0);
	knowledge_leased(stores[0], now_ns + 10 * NS_PER_SECOND);
	for (unsigned i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "d%u.example", i);
		/* there may be no room to divide it */
		told[i] = ask_for(0, "A", name) != WINDOW_FULL;
		others += told[i];
	}
	assert_true(others < 20);
	for (unsigned calls = 0; calls < 3; calls++) {
		size_t count;

		(void)pools();
		assert_true(due);
		count = pools();
		knowledge_asked(stores[0]);
		for (size_t i = 0; i < count; i++) {
			unsigned number;

			assert_int_equal(sscanf(out[i].name, "d:d%u.example", &number), 1);
			told[number] = true;
		}
	}
	for (unsigned i = 0; i < 200; i++)
		if (!told[i])
			fail_msg("d%u.example was not told", i);
}

/* SPDX-License-Identifier: ISC */
/* Parts of shared limits, with numbers worked out by hand. */
#include "tests/unit/test.h"
#include "policy/window/share.h"

static void is(struct share_pools got, uint32_t base, uint32_t extra) {
	assert_int_equal(got.base, base);
	assert_int_equal(got.extra, extra);
}

static struct share_pools of(uint32_t base, uint32_t extra) {
	return (struct share_pools){ base, extra };
}

TEST(pools_are_nested) {
	is(share_pools_of(100, 80), 80, 20);
	is(share_pools_of(80, 100), 80, 20);
	is(share_pools_of(8, 8), 8, 0);
	is(share_pools_of(8, 0), 0, 8);
	is(share_pools_of(LIMIT_NONE, 80), 80, 0);
	is(share_pools_of(100, LIMIT_NONE), 100, 0);
	is(share_pools_of(LIMIT_NONE, LIMIT_NONE), LIMIT_NONE, 0);
}

TEST(static_parts) {
	/* 10 % of 30 is 3, 1 each; of 80 it is 8, 2.67 each; of 20 it is 2, and 20 >= 2 * 3 */
	is(share_static(of(30, 0), 3, 10), 1, 0);
	is(share_static(of(80, 20), 3, 10), 2, 1);
	/* 5 < 2 * 3 <= 6 */
	is(share_static(of(5, 6), 3, 10), 0, 1);
	is(share_static(of(30, 7), 3, 100), 10, 2);
	is(share_static(of(30, 7), 3, 0), 0, 0);
	is(share_static(of(1, 0), 1, 100), 1, 0);
	is(share_static(of(4000000000u, 128), 64, 100), 62500000, 2);
	is(share_static(of(LIMIT_NONE, 0), 3, 10), 0, 0);
	is(share_leasable(of(80, 20), 3, of(2, 1)), 74, 17);
	is(share_leasable(of(1, 0), 3, of(1, 1)), 0, 0);
}

TEST(limits_of_a_node) {
	struct limits limits = { .sessions = 100, .inbound = 80, .client_sessions = 7 }, out;

	share_limits(&limits, of(10, 4), &out);
	assert_int_equal(out.inbound, 10);
	assert_int_equal(out.sessions, 14);
	assert_int_equal(out.client_sessions, 7);
	share_limits(&limits, share_pools_of(100, 80), &out);
	assert_int_equal(out.inbound, 80);
	assert_int_equal(out.sessions, 100);
	share_limits(&limits, of(0, 0), &out);
	assert_int_equal(out.inbound, 0);
	assert_int_equal(out.sessions, 0);
	limits.sessions = 60;
	share_limits(&limits, of(10, 4), &out);
	assert_int_equal(out.inbound, 14);
	assert_int_equal(out.sessions, 10);
	limits.inbound = 60;
	share_limits(&limits, of(10, 0), &out);
	assert_int_equal(out.inbound, 10);
	assert_int_equal(out.sessions, 10);
	limits.inbound = LIMIT_NONE;
	share_limits(&limits, of(10, 0), &out);
	assert_int_equal(out.inbound, LIMIT_NONE);
	assert_int_equal(out.sessions, 10);
	limits.inbound = LIMIT_NONE - 1;
	share_limits(&limits, of(LIMIT_NONE - 9, 100), &out);
	assert_int_equal(out.inbound, LIMIT_NONE - 1);
}

TEST(open_sessions_keep_their_places) {
	/* 9 inbound of a class whose inbound is the smaller: 1 is static, 8 keep base */
	is(share_least(of(1, 0), of(10, 5), 9, 9, of(0, 0)), 8, 0);
	/* 12 of which 3 inbound: base 2 for those; 9 more, 5 of them fit in extra */
	is(share_least(of(1, 0), of(10, 5), 12, 3, of(0, 0)), 6, 5);
	/* all outbound: extra first */
	is(share_least(of(1, 1), of(10, 5), 6, 0, of(0, 0)), 0, 4);
	is(share_least(of(1, 1), of(10, 5), 9, 0, of(0, 0)), 2, 5);
	/* more is open than there is */
	is(share_least(of(1, 0), of(10, 5), 100, 100, of(0, 0)), 10, 5);
	is(share_least(of(1, 0), of(10, 5), UINT32_MAX, UINT32_MAX, of(0, 0)), 10, 5);
	/* never raised */
	is(share_least(of(1, 0), of(10, 5), 3, 3, of(20, 20)), 10, 5);
	is(share_least(of(1, 0), of(10, 5), 0, 0, of(3, 1)), 3, 1);
}

TEST(times_of_a_lease) {
	assert_int_equal(share_drift_ms(15000), 1550);
	assert_int_equal(share_use_ms(15000), 12950);
	assert_int_equal(share_gone_ms(15000), 14500);
	assert_int_equal(share_wait_ms(15000), 16550);
	assert_int_equal(share_use_ms(SHARE_LEASE_LEAST_MS), 1250);
	for (int64_t lease = SHARE_LEASE_LEAST_MS; lease <= SHARE_LEASE_MOST_MS; lease += 17) {
		/* the slower clock may lose a tenth against the other, and 50 ms */
		assert_true(share_use_ms(lease) * 110 / 100 + 50 <= share_gone_ms(lease) + 1);
		assert_true(share_use_ms(lease) > lease / 3 + 2 * SHARE_ASK_MS);
	}
}

/* 30 for three nodes, 1 of it static each; inbound and sessions alike. */
static struct share_seen node(uint32_t leased, uint32_t open) {
	return (struct share_seen){ .whole = { 30, 0 }, .fixed = { 1, 0 }, .leased = { leased, 0 },
		.most = { UINT32_MAX, UINT32_MAX }, .open = open, .open_small = open, .nodes = 3, .alive = 3 };
}

static struct share_memory memory;
static struct share_seen seen;
static int64_t now_ms;

/* `turns` of 100 ms with what is seen. */
static void turns(unsigned count) {
	for (unsigned i = 0; i < count; i++, now_ms += SHARE_TURN_MS)
		share_turn(&memory, &seen, now_ms);
}

/* A new node sees this for so many turns. */
static struct share_ask begin(struct share_seen first, unsigned count) {
	memory = (struct share_memory){ .begun = false };
	seen = first;
	now_ms = 1000;
	turns(count);
	return share_asks(&memory, &seen);
}

/* `ago` ms after the last call, of a lease of 15 s. */
static enum share_due due_by(enum share_news news, int64_t ago) {
	return share_due(&memory, &seen, news, now_ms - ago, 15000, now_ms);
}

static enum share_due due(int64_t ago) {
	return due_by(SHARE_NEWS_NONE, ago);
}

static struct share_ask asks(void) {
	return share_asks(&memory, &seen);
}

static void answered(const struct share_ask *ask, struct share_pools leased, uint32_t lacking,
    struct share_pools idle) {
	share_answered(&memory, &seen, ask, leased, lacking, idle);
}

TEST(an_idle_node_only_renews_an_equal_part) {
	struct share_ask ask = begin(node(0, 0), 300);

	/* 30 - 3 * 1 by three, or by as many as are there */
	is(ask.claim, 0, 0);
	is(ask.want, 9, 0);
	seen.alive = 2;
	is(asks().want, 13, 0);
	seen.leased = of(13, 0);
	seen.alive = 3;
	is(asks().keep, 9, 0);
	/* who does not hear that others lack places, does not */
	seen.alive = 0;
	is(asks().want, 0, 0);
	/* there are not so many: then not */
	seen = node(5, 0);
	answered(&ask, of(5, 0), 0, of(0, 0));
	assert_int_equal(due_by(SHARE_NEWS_QUIET, 4999), SHARE_NOT_DUE);
	assert_int_equal(due_by(SHARE_NEWS_QUIET, 5000), SHARE_DUE_RENEW);
	assert_int_equal(due_by(SHARE_NEWS_QUIET, now_ms), SHARE_DUE_MORE);
}

TEST(an_equal_part_is_given_back_when_others_lack_places) {
	struct share_ask ask = begin(node(9, 0), 100);

	assert_int_equal(due_by(SHARE_NEWS_SHORT, 250), SHARE_DUE_LOOK);
	answered(&ask, of(9, 0), 1, of(0, 0));
	assert_int_equal(due(100), SHARE_DUE_RETURN);
	is(asks().keep, 0, 0);
	/* and not taken again for half a minute */
	seen = node(0, 0);
	turns(299);
	is(asks().want, 0, 0);
	turns(1);
	is(asks().want, 9, 0);
}

/* Killed and started: what came meanwhile is not counted yet. */
TEST(who_begins_with_a_share_keeps_it_for_three_seconds) {
	struct share_ask ask = begin(node(9, 0), 1);

	is(ask.need, 9, 0);
	answered(&ask, of(9, 0), 5, of(0, 0));
	turns(28);
	is(asks().keep, 9, 0);
	assert_int_equal(due(4999), SHARE_NOT_DUE);
	turns(1);
	is(asks().keep, 0, 0);
	assert_int_equal(due(100), SHARE_DUE_RETURN);
}

TEST(it_asks_before_it_runs_out) {
	struct share_ask ask = begin(node(6, 5), 40);

	/* 7 places, 5 open, headroom 2: enough */
	assert_int_equal(due(100), SHARE_NOT_DUE);
	seen.open = seen.open_small = 6;
	turns(1);
	assert_int_equal(due(100), SHARE_DUE_MORE);
	ask = asks();
	is(ask.need, 5, 0);	/* 6 - 1 static */
	is(ask.claim, 7, 0);	/* and 2, of free ones or those that others only have */
	is(ask.want, 9, 0);	/* an equal part, of free ones */
	is(ask.keep, 6, 0);
	/* Others do not give back any, to which it gives them a second: then there are none, and
	 * it asks for them now and then only. */
	for (unsigned i = 0; i < 3; i++) {
		answered(&ask, of(6, 0), 0, of(0, 0));
		assert_int_equal(due(249), SHARE_NOT_DUE);
		assert_int_equal(due(250), SHARE_DUE_MORE);
	}
	answered(&ask, of(6, 0), 0, of(0, 0));
	ask = asks();
	is(ask.claim, 5, 0);
	is(ask.want, 7, 0);
	assert_int_equal(due(699), SHARE_NOT_DUE);
	assert_int_equal(due(700), SHARE_DUE_MORE);
}

TEST(what_it_refuses_it_needs) {
	struct share_ask ask = begin(node(4, 5), 3);

	seen.refused_small = 12;
	turns(1);
	assert_int_equal(due(100), SHARE_DUE_MORE);
	ask = asks();
	is(ask.need, 5 + 12 - 1, 0);
	is(ask.keep, 4, 0);
	share_sent(&memory, &seen);
	answered(&ask, of(9, 0), 8, of(0, 0));
	seen.leased = of(9, 0);
	seen.most = of(9, 0);
	/* Not all: again after 250 ms, if it refuses again. */
	seen.open = seen.open_small = 10;
	seen.refused_small = 15;
	turns(1);
	assert_int_equal(due(249), SHARE_NOT_DUE);
	assert_int_equal(due(250), SHARE_DUE_MORE);
	is(asks().need, 10 + 3 - 1, 0);
	/* More than there is is not asked for. */
	seen.refused_small = 1000;
	is(asks().need, 27, 0);
}

/* 11 came at once and one was refused, as others have the rest of 27: they will give it back. */
TEST(what_it_lacks_itself_does_not_make_it_give_back) {
	struct share_ask ask = begin(node(9, 10), 40);

	seen.refused_small = 1;
	turns(1);
	ask = asks();
	is(ask.need, 10, 0);
	share_sent(&memory, &seen);
	answered(&ask, of(9, 0), 0, of(0, 0));
	/* few are left: it asks on although nobody comes just now, */
	turns(7);
	assert_int_equal(due(699), SHARE_NOT_DUE);
	assert_int_equal(due(700), SHARE_DUE_MORE);
	ask = asks();
	is(ask.need, 9, 0);
	is(ask.want, 11, 0);
	answered(&ask, of(11, 0), 0, of(16, 0));
	/* and keeps what it got */
	seen.leased = of(11, 0);
	turns(10);
	is(asks().keep, 11, 0);
	assert_int_equal(due_by(SHARE_NEWS_QUIET, 4999), SHARE_NOT_DUE);
}

TEST(who_was_refused_and_has_gone_is_not_claimed_for_on) {
	struct share_ask ask = begin(node(9, 10), 40);

	seen.refused_small = 1;
	turns(1);
	ask = asks();
	share_sent(&memory, &seen);
	answered(&ask, of(9, 0), 0, of(0, 0));
	seen.open = seen.open_small = 5;
	turns(9);
	assert_int_equal(due_by(SHARE_NEWS_QUIET, 1000), SHARE_NOT_DUE);
	turns(1);
	assert_int_equal(due_by(SHARE_NEWS_QUIET, 1000), SHARE_DUE_RETURN);
}

TEST(others_lack_none_once_an_equal_part_is_free) {
	struct share_ask ask = begin(node(1, 1), 40);

	answered(&ask, of(1, 0), 1, of(0, 0));
	assert_int_equal(due(100), SHARE_DUE_RETURN);
	ask = asks();
	/* of 27 by three; fewer may be free by chance */
	answered(&ask, of(1, 0), 0, of(8, 0));
	assert_int_equal(due(100), SHARE_DUE_RETURN);
	answered(&ask, of(1, 0), 0, of(9, 0));
	assert_int_equal(due(100), SHARE_DUE_MORE);
	is(asks().want, 2, 0);
}

/* Idle places for mail that leaves were taken for free ones of mail that comes. */
TEST(an_equal_part_is_free_only_if_it_is_of_each_pool) {
	struct share_ask ask = begin(node(1, 1), 40);

	seen.whole.extra = 15;
	answered(&ask, of(1, 0), 1, of(0, 15));
	ask = asks();
	answered(&ask, of(1, 0), 0, of(8, 15));
	assert_int_equal(due(100), SHARE_DUE_RETURN);
	answered(&ask, of(1, 0), 0, of(9, 4));
	assert_int_equal(due(100), SHARE_DUE_RETURN);
	answered(&ask, of(1, 0), 0, of(9, 5));
	assert_int_equal(due(100), SHARE_DUE_MORE);
}

/* Others have a fair part only of what it does not need. */
TEST(who_needs_less_than_he_told_says_so) {
	struct share_ask ask = begin(node(9, 10), 40);

	seen.refused_small = 100;
	ask = asks();
	is(ask.claim, 27, 0);
	share_sent(&memory, &seen);
	answered(&ask, of(9, 0), 7, of(0, 0));
	/* still refused, within the last second: then nobody comes any more */
	seen.refused_small = 101;
	turns(10);
	is(asks().need, 10, 0);
	turns(1);
	is(asks().need, 9, 0);
	assert_int_equal(due_by(SHARE_NEWS_QUIET, 249), SHARE_NOT_DUE);
	assert_int_equal(due_by(SHARE_NEWS_QUIET, 250), SHARE_DUE_RETURN);
	ask = asks();
	is(ask.keep, 9, 0);
	answered(&ask, of(9, 0), 7, of(0, 0));
	assert_int_equal(due_by(SHARE_NEWS_QUIET, 4999), SHARE_NOT_DUE);
}

TEST(it_keeps_places_only_while_nobody_lacks_any) {
	struct share_ask ask = begin(node(9, 8), 20);

	seen.open = seen.open_small = 2;
	turns(20);
	/* 8 were open two seconds ago: the 10 that there are may stay. */
	ask = asks();
	is(ask.need, 1, 0);
	is(ask.keep, 9, 0);
	assert_int_equal(due(600), SHARE_NOT_DUE);
	assert_int_equal(due(700), SHARE_DUE_LOOK);
	answered(&ask, of(9, 0), 5, of(0, 0));
	assert_int_equal(due(100), SHARE_DUE_RETURN);
	is(asks().keep, 1, 0);
	/* One that was in use 0.5 s ago stays a little longer. */
	seen.open = seen.open_small = 1;
	turns(5);
	ask = asks();
	is(ask.need, 0, 0);
	is(ask.keep, 1, 0);
	/* Five seconds later it believes in free places again. */
	turns(50);
	is(asks().keep, 9, 0);
	turns(110);
	is(asks().keep, 2, 0);	/* 1 + 2 - 1 */
}

TEST(who_can_hear_the_others_looks_when_they_lack_places) {
	struct share_ask ask = begin(node(9, 4), 200);

	/* 5 leased would do for 4 and 2 more: it has spare ones; nobody lacks any */
	assert_int_equal(due_by(SHARE_NEWS_QUIET, 4999), SHARE_NOT_DUE);
	assert_int_equal(due(700), SHARE_DUE_LOOK);
	/* somebody does: at once, but no more often than who lacks them asks */
	assert_int_equal(due_by(SHARE_NEWS_SHORT, 249), SHARE_NOT_DUE);
	assert_int_equal(due_by(SHARE_NEWS_SHORT, 250), SHARE_DUE_LOOK);
	/* with more than an equal part, as long as the answers say so, too */
	seen = node(20, 19);
	turns(200);
	assert_int_equal(due_by(SHARE_NEWS_QUIET, 4999), SHARE_NOT_DUE);
	seen = node(20, 21);
	turns(3);
	answered(&ask, of(20, 0), 3, of(0, 0));
	assert_int_equal(due_by(SHARE_NEWS_QUIET, 700), SHARE_DUE_LOOK);
	/* who has nothing to spare does not care */
	memory = (struct share_memory){ .begun = false };
	seen = node(3, 4);
	turns(200);
	answered(&ask, of(3, 0), 3, of(0, 0));
	assert_int_equal(due_by(SHARE_NEWS_SHORT, 4999), SHARE_NOT_DUE);
}

TEST(above_the_fair_part_it_shrinks) {
	struct share_ask ask = begin(node(20, 21), 40);

	answered(&ask, of(20, 0), 3, of(0, 0));
	seen.most = of(13, 0);
	is(asks().keep, 13, 0);
	/* All are open: nothing to give back; one closes: it is. */
	assert_int_equal(due(100), SHARE_NOT_DUE);
	seen.open = seen.open_small = 20;
	assert_int_equal(due(100), SHARE_DUE_RETURN);
	is(share_least(seen.fixed, seen.leased, seen.open, seen.open_small, of(13, 0)), 19, 0);
}

TEST(each_direction_asks_for_its_pool) {
	struct share_seen both = { .whole = { 30, 30 }, .fixed = { 1, 1 }, .leased = { 4, 4 },
		.most = { UINT32_MAX, UINT32_MAX }, .open = 8, .open_small = 0, .nodes = 3 };

	begin(both, 40);
	/* Of the direction that may use both: extra alone, 8 - 1 - 1. */
	is(asks().need, 0, 6);
	/* Of both directions: base for all that is open, 8 - 1; nothing more. */
	seen.open_small = 2;
	is(asks().need, 7, 0);
	/* And where base is short, extra for the others: 8 - 1 - 1 - 4. */
	answered(&(struct share_ask){ .need = { 7, 0 } }, of(4, 4), 0,
	    of(0, 0));
	is(asks().need, 7, 2);
	/* Extra is short: base for the rest. */
	seen.open_small = 0;
	answered(&(struct share_ask){ .need = { 0, 6 } }, of(4, 4), 0,
	    of(0, 0));
	is(asks().need, 2, 6);
}

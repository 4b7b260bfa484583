/* SPDX-License-Identifier: ISC */
/* What a node asks the others for, from turn to turn, in virtual time: when, what it gives back
 * before it says so, what becomes of answers and of classes that leave the scope. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "engine/cluster/shares_turn.h"
#include "tests/unit/own_site.h"

/* Of 30 by 3, 1 is fixed, of 12 too (12 >= 2 * 3). */
#define CLUSTER	"cluster = { redis = \"unix:/nowhere\"; node = \"a\"; nodes = 3; };\n"
#define CLASS(name, net, limit, more) "{ name = \"" name "\"; match = [ \"" net \
	"\" ]; hold_at = " #limit "; refuse_at = " #limit "; " more "}"
#define ONE(more)	CLASS("one", "192.0.2.0/24", 30, more)
#define TWO(more)	CLASS("two", "198.51.100.0/24", 12, more)
#define SHARED	"scope = \"cluster\"; "
#define BOTH	CLUSTER "classes = ( " ONE(SHARED) ", " TWO(SHARED) " );\n"
#define TURN_NS	(SHARE_TURN_MS * NS_PER_MS)
#define LEASE_NS	(15 * NS_PER_SECOND)

static struct shares_turns turns;
static int64_t now_ns;		/* not before the real time */

static void with(const char *configuration) {
	site_open(&site, 1000, configuration);
	now_ns = clock_now_ns() + NS_PER_SECOND;
	memset(&turns, 0, sizeof(turns));
	turns = (struct shares_turns){ .engine = site.engine, .nodes = 3, .lease_ms = 15000 };
}

static void turn(void) {
	shares_turn(&turns, site.generation, now_ns);
}

static struct share_class look(uint32_t class_index) {
	struct share_class class;

	assert_true(shares_look(site.engine, site.generation, class_index, now_ns, &class));
	return class;
}

/* Turns until a call is due, `limit_ns` at most: after how long. */
static int64_t due_after(int64_t sent_ns, int64_t wait_until_ns, int64_t limit_ns) {
	int64_t begin_ns = now_ns;

	for (; now_ns - begin_ns <= limit_ns; now_ns += TURN_NS) {
		turn();
		if (shares_are_due(&turns, sent_ns, wait_until_ns, now_ns))
			return now_ns - begin_ns;
	}
	return -1;
}

TEST_IN(NULL, site_end, who_waits_for_a_new_epoch_asks_when_it_is_over) {
	int64_t begin_ns, until_ns;
	unsigned calls = 0;

	with(BOTH);
	begin_ns = now_ns;
	until_ns = now_ns + 15200 * NS_PER_MS;	/* as the server said */
	assert_int_equal(due_after(0, 0, LEASE_NS), 0);
	/* nobody wants anything: all the same, now and then as another may have seen the end */
	for (int64_t sent_ns = now_ns; now_ns < until_ns; calls++) {
		assert_true(due_after(sent_ns, until_ns, LEASE_NS) <=
		    3 * TURN_NS);
		sent_ns = now_ns;
	}
	/* each 0.3 s (SHARE_ASK_MS in turns), 50 in 15 s; and once more as it is over, not a third
	 * of a lease later */
	assert_int_equal(calls, 51);
	assert_int_equal(now_ns - begin_ns, 15200 * NS_PER_MS);
	/* it has joined: renewals */
	assert_int_equal(due_after(now_ns, 0, LEASE_NS), LEASE_NS / 3);
}

static void answered(unsigned member, uint32_t base, bool differs) {
	const struct shares_answer answer = { .granted = { base, 0 },
		.fair = { UINT32_MAX, UINT32_MAX }, .differs = differs };

	shares_answered(&turns, site.generation, member, &answer, now_ns + LEASE_NS, now_ns);
}

TEST_IN(NULL, site_end, what_is_given_back_is_lowered_before_it_is_told) {
	struct shares_call calls[SHARES_CLASSES_MAX];

	with(BOTH);
	turn();
	assert_int_equal(turns.member_count, 2);
	assert_string_equal(turns.members[1].name, "two");
	answered(0, 9, false);
	answered(1, 4, true);
	assert_int_equal(look(0).leased.base, 9);
	assert_int_equal(look(1).leased.base, 4);
	assert_true(turns.members[1].differs);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(site_verdict("192.0.2.1", (uint16_t)(i + 1), NULL),
		    VERDICT_ADMIT);
	turn();
	/* others lacked places some seconds ago */
	for (unsigned i = 0; i < 2; i++)
		turns.members[i].memory.strained = 1;
	/* of the first class 3 are open, 1 of them has the fixed place, 2 more are good to have */
	assert_int_equal(shares_call(&turns, site.generation, now_ns, calls), 2);
	assert_int_equal(calls[0].member, 0);
	assert_int_equal(calls[0].held.base, 4);
	assert_int_equal(calls[1].held.base, 0);
	assert_int_equal(turns.members[0].asked.need.base, 2);
	assert_int_equal(turns.members[0].asked.want.base, 4);
	assert_int_equal(look(0).leased.base, 4);
	assert_int_equal(look(1).leased.base, 0);
	shares_called(&turns, calls, 2);
	/* the server knew nothing of it, and grants less: what is not in its answer is gone */
	shares_reborn(&turns, site.generation, now_ns);
	answered(0, 1, false);
	assert_int_equal(look(0).leased.base, 1);
	assert_int_equal(look(0).overhang, 1);
	assert_int_equal(look(1).state, SHARE_ENDED);
}

/* How many have left the scope, and are to be told of. */
static unsigned parted(struct share_parted list[4]) {
	return shares_parted(site.engine, now_ns, list, 4);
}

TEST_IN(NULL, site_end, a_class_that_left_the_scope_is_given_back) {
	struct share_parted list[4], later[4];

	with(BOTH);
	turn();
	assert_int_equal(parted(list), 0);
	site_reload(&site, CLUSTER "classes = ( " TWO(SHARED) ", "
	    ONE("") " );\n");
	turn();
	assert_int_equal(turns.member_count, 1);
	assert_string_equal(turns.members[0].name, "two");
	assert_int_equal(turns.members[0].now.whole.base, 12);
	assert_int_equal(parted(list), 1);
	assert_string_equal(list[0].name, "one");
	assert_int_equal(due_after(now_ns, 0, LEASE_NS), 3 * TURN_NS);	/* SHARE_ASK_MS */
	/* it is back before that was told */
	site_reload(&site, BOTH);
	assert_int_equal(parted(later), 0);
	site_reload(&site, CLUSTER "classes = ( " TWO("") " );\n");
	turn();
	assert_int_equal(turns.member_count, 0);
	assert_int_equal(parted(later), 2);
	/* what was told of the first time does not count for the second */
	shares_gave_back(site.engine, &list[0]);
	assert_int_equal(parted(list), 2);
	shares_gave_back(site.engine, &list[0]);
	assert_int_equal(parted(list), 1);
	assert_string_equal(list[0].name, "two");
	shares_gave_back(site.engine, &list[0]);
	assert_int_equal(due_after(now_ns, 0, LEASE_NS), LEASE_NS / 3);
}

/* Nobody who saw the configuration before is there any more. */
TEST_IN(NULL, site_end, by_a_restart_too) {
	struct share_parted list[4];

	with(BOTH);
	site_reload(&site, CLUSTER "classes = ( " ONE(SHARED) ", "
	    TWO("") " );\n");
	site_restart(&site, 1000, CLUSTER "classes = ( " TWO("") " );\n");
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	assert_int_equal(parted(list), 2);
	assert_string_equal(list[0].name, "one");
	assert_string_equal(list[1].name, "two");
}

/* The answer to a call that was made before. */
TEST_IN(NULL, site_end, nothing_is_granted_to_a_class_that_left_the_scope) {
	const struct generation *before;

	with(BOTH);
	turn();
	before = engine_pin(site.engine);
	site_reload(&site, CLUSTER "classes = ( " ONE("") " );\n");
	assert_false(shares_grant(site.engine, before, 0, (struct share_pools){ 9, 0 },
	    (struct share_pools){ 9, 0 }, now_ns + LEASE_NS, now_ns));
	assert_int_equal(atomic_load(&site_class(&site, "one")->share[0]), 0);
	engine_unpin(site.engine, before);
}

TEST_IN(NULL, site_end, who_lacks_places_tells_it_twice_a_second) {
	struct shares_call calls[SHARES_CLASSES_MAX];
	unsigned told = 0;

	with(BOTH);
	turn();
	for (unsigned i = 0; i < 40; i++, now_ns += 250 * NS_PER_MS) {
		assert_int_equal(shares_call(&turns, site.generation, now_ns, calls), 2);
		told += turns.tells;
		turns.members[0].asked.need.base = 9;
		answered(0, 5, false);
		answered(1, 0, false);
	}
	assert_int_equal(told, 20);
	/* heard by one who has 5 to spare: a call at once, and no other for the same word */
	turns.hears = true;
	now_ns += NS_PER_SECOND;
	turns.members[0].memory.tension = 0;
	turn();
	assert_false(shares_are_due(&turns, now_ns - NS_PER_SECOND, 0, now_ns));
	turns.short_ns = now_ns;
	assert_true(shares_are_due(&turns, now_ns - NS_PER_SECOND, 0, now_ns));
	assert_false(shares_are_due(&turns, now_ns + 1, 0, now_ns + NS_PER_SECOND / 2));
}

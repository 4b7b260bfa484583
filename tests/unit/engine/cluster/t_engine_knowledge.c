/* SPDX-License-Identifier: ISC */
/* What nodes of a cluster know of destinations. */
#include "tests/unit/test.h"
#include "base/decision_id.h"
#include "engine/cluster/knowledge_internal.h"
#include "segment/decision/decisions.h"
#include "tests/unit/engine/cluster/knowledge_world.h"

/* What `node` knows of it is what `origin` decided. */
static void must_be_known(unsigned node, unsigned origin, const char *name, unsigned by) {
	struct window_view here = view_at(node, name), there = view_at(origin, name);
	char id[DECISION_ID_MAX];
	struct decided d;

	assert_true(there.event != 0);
	assert_int_equal(there.hold_node, SHARED_OURS);
	assert_int_equal(here.hold_id, there.event);
	assert_int_equal(here.hold_by, by);
	assert_true(decisions_find(sites[node].segment, here.event, &d));
	assert_int_equal(d.kind, DECIDED_SUSPENDED);
	assert_int_equal(d.stage, DECIDED_BY_NODE);
	assert_int_equal(d.by, by);
	assert_string_equal(decided_text(&d, DECIDED_NODE), names[origin]);
	assert_string_equal(decided_text(&d, DECIDED_ORIGIN), decision_id_text(there.event, id));
}

TEST_IN(begin, end, held_here_is_held_there_and_resumed_anywhere) {
	struct window_view view;

	hand(0, MANUAL_HOLD, "held.example", 0, BY_HAND_UNSET);
	exchange();
	for (unsigned i = 0; i < NODES; i++) {
		view = view_at(i, "held.example");
		assert_int_equal(view.state, WINDOW_HELD);
		assert_int_equal(view.by, DECIDED_BY_HAND_OF);
		assert_true(view.event != 0);
	}
	assert_string_equal(view.reason, "mx0: held by an administrator");
	assert_string_equal(view_at(0, "held.example").reason, "held by an administrator");
	must_be_known(1, 0, "held.example", DECIDED_BY_HAND_OF);
	must_be_known(2, 0, "held.example", DECIDED_BY_HAND_OF);
	hand(2, MANUAL_RESUME, "held.example", 0, BY_HAND_UNSET);
	exchange();
	for (unsigned i = 0; i < NODES; i++) {
		view = view_at(i, "held.example");
		assert_int_equal(view.state, WINDOW_OPEN);
		assert_string_equal(view.reason, i == 2 ? "" : "mx2: resumed by an "
		    "administrator");
	}
}

TEST_IN(begin, end, dead_for_one_is_dead_for_all) {
	struct window_view here, there;

	at(1);
	for (unsigned i = 0; i < 10; i++)
		failed("dead.example", down);
	here = view_at(1, "dead.example");
	assert_int_equal(here.state, WINDOW_DEAD);
	exchange();
	there = view_at(0, "dead.example");
	assert_int_equal(there.state, WINDOW_DEAD);
	assert_int_equal(there.until_ns, here.until_ns);
	assert_int_equal(there.by, DECIDED_BY_OTHERS);
	assert_int_equal(memcmp(there.reason, "mx1: ", 5), 0);
	must_be_known(0, 1, "dead.example", DECIDED_BY_COHORTS);
	/* longer for one of them: longer for all */
	hand(1, MANUAL_RESUME, "dead.example", 0, BY_HAND_UNSET);
	exchange();
	assert_int_equal(view_at(0, "dead.example").state, WINDOW_OPEN);
	now_ns += NS_PER_SECOND;
	at(0);
	for (unsigned i = 0; i < 10; i++)
		failed("dead.example", down);
	exchange();
	assert_int_equal(view_at(2, "dead.example").state, WINDOW_DEAD);
	assert_int_equal(view_at(1, "dead.example").until_ns,
	    view_at(0, "dead.example").until_ns);
}

/* Whoever asks the node is not sent after an id that there is not. */
TEST_IN(begin, end, what_a_node_does_not_tell_is_not_known) {
	struct message stranger = { .from = 1, .name = "dead.example" };
	struct window_view view;

	stranger.told.record.learned = (struct knowledge_learned){ .stamp = 64,
		.until_ns = now_ns + 100 * NS_PER_SECOND };
	assert_int_equal(hear(0, &stranger), KNOWLEDGE_TAKEN);
	turn(0);
	view = view_at(0, "dead.example");
	assert_int_equal(view.state, WINDOW_DEAD);
	assert_int_equal(view.hold_id, 0);
	assert_int_equal(view.hold_by, DECIDED_BY_OTHERS);
	stranger.told.record.learned.stamp = 128;
	stranger.told.record.learned.until_ns += 100 * NS_PER_SECOND;
	stranger.told.learned_id = 1001;
	stranger.told.learned_by = KNOWLEDGE_BY_RULE;
	assert_int_equal(hear(0, &stranger), KNOWLEDGE_TAKEN);
	turn(0);
	view = view_at(0, "dead.example");
	assert_int_equal(view.hold_id, 1001);
	assert_int_equal(view.hold_by, DECIDED_BY_RULE);
}

/* A last word for ever: nobody's resume counted any more. */
TEST_IN(begin, end, a_stamp_far_ahead_of_all_others_is_not_believed) {
	struct message stranger = { .from = 1, .name = "held.example" };

	stranger.told.record.manual = (struct knowledge_manual){ .stamp = KNOWLEDGE_STAMP_MAX,
		.what = KNOWLEDGE_HOLD, .until_ns = INT64_MAX };
	assert_int_equal(hear(0, &stranger), KNOWLEDGE_BAD_STAMP);
	stranger.told.record.manual.stamp = KNOWLEDGE_STAMP_AHEAD;
	assert_int_equal(hear(0, &stranger), KNOWLEDGE_TAKEN);
	turn(0);
	assert_int_equal(view_at(0, "held.example").state, WINDOW_HELD);
	hand(0, MANUAL_RESUME, "held.example", 0, BY_HAND_UNSET);
	assert_int_equal(tell(0), 1);
	assert_int_equal(hear(0, &stranger), KNOWLEDGE_TAKEN);
	turn(0);
	assert_int_equal(view_at(0, "held.example").state, WINDOW_OPEN);
}

/* The others held it for ever: the time of the first one is rounded up. */
TEST_IN(begin, end, a_resume_just_behind_another_is_told) {
	hand(0, MANUAL_HOLD, "held.example", 0, BY_HAND_UNSET);
	exchange();
	hand(1, MANUAL_RESUME, "held.example", 0, BY_HAND_UNSET);
	exchange();
	hand(2, MANUAL_SUSPEND, "held.example", 3600, BY_HAND_UNSET);
	exchange();
	assert_int_equal(view_at(0, "held.example").state, WINDOW_DEAD);
	hand(0, MANUAL_RESUME, "held.example", 0, BY_HAND_UNSET);
	exchange();
	for (unsigned i = 0; i < NODES; i++)
		assert_int_equal(view_at(i, "held.example").state, WINDOW_OPEN);
}

/* It was held again as soon as the role heard of it. */
TEST_IN(begin, end, a_resume_counts_that_nobody_could_tell) {
	hand(0, MANUAL_HOLD, "held.example", 0, BY_HAND_UNSET);
	hand(0, MANUAL_SUSPEND, "dead.example", 3600, BY_HAND_UNSET);
	exchange();
	assert_int_equal(view_at(1, "held.example").state, WINDOW_HELD);
	knowledge_close(&stores[1]);
	hand(1, MANUAL_RESUME, "held.example", 0, BY_HAND_UNSET);
	hand(1, MANUAL_RESUME, "dead.example", 0, BY_HAND_UNSET);
	open_store(1);
	knowledge_begin_hearing(stores[1]);
	for (unsigned i = 0; i < message_count; i++)
		assert_int_equal(hear(1, &messages[i]), KNOWLEDGE_TAKEN);
	knowledge_heard_all(stores[1], true, now_ns);
	turn(1);
	exchange();
	for (unsigned i = 0; i < NODES; i++) {
		assert_int_equal(view_at(i, "held.example").state, WINDOW_OPEN);
		assert_int_equal(view_at(i, "dead.example").state, WINDOW_OPEN);
	}
}

/* The role of a node begins anew, and hears all that was ever told. */
static void come_back(unsigned node) {
	knowledge_close(&stores[node]);
	open_store(node);
	knowledge_begin_hearing(stores[node]);
	for (unsigned i = 0; i < message_count; i++)
		assert_int_equal(hear(node, &messages[i]), KNOWLEDGE_TAKEN);
	knowledge_heard_all(stores[node], true, now_ns);
	turn(node);
}

/* What it writes again, so that it does not end, stands there already. */
static void must_say_nothing_new(unsigned node) {
	unsigned before = message_count;
	uint64_t most = 0;

	for (unsigned i = 0; i < before; i++)
		if (knowledge_stamp(&messages[i].told.record) > most)
			most = knowledge_stamp(&messages[i].told.record);
	(void)tell(node);
	for (unsigned i = before; i < message_count; i++)
		assert_true(knowledge_stamp(&messages[i].told.record) <= most);
}

/* So does all of it, with nothing left of its segment and its journal. */
static void come_back_without_state(unsigned node) {
	knowledge_close(&stores[node]);
	site_close(&sites[node]);
	site_open_sized(&sites[node], 64, 256, OF_KIND("postfix"));
	come_back(node);
}

/* It let all mail go that it had told the others to hold, for ever. */
TEST_IN(begin, end, who_lost_its_state_goes_by_its_own_word_again) {
	struct window_view view;
	int64_t until_ns;

	hand(2, MANUAL_HOLD, "held.example", 0, BY_HAND_UNSET);
	hand(2, MANUAL_SUSPEND, "gone.example", 3600, BY_HAND_UNSET);
	hand(2, MANUAL_SUSPEND, "back.example", 3600, BY_HAND_UNSET);
	hand(2, MANUAL_LIMIT, "slow.example", 0, 4);
	at(2);
	for (unsigned i = 0; i < 10; i++)
		failed("dead.example", down);
	exchange();
	until_ns = view_at(1, "dead.example").until_ns;
	hand(1, MANUAL_RESUME, "back.example", 0, BY_HAND_UNSET);
	exchange();
	come_back_without_state(2);
	view = view_at(2, "held.example");
	assert_int_equal(view.state, WINDOW_HELD);
	assert_int_equal(view.by, DECIDED_BY_HAND_OF);
	assert_string_equal(view.reason, "held by an administrator");
	assert_int_equal(view.hold_node, SHARED_OURS);
	assert_int_equal(view_at(2, "gone.example").state, WINDOW_DEAD);
	assert_int_equal(view_at(2, "back.example").state, WINDOW_OPEN);
	assert_int_equal(view_at(2, "slow.example").ceiling, 4);
	view = view_at(2, "dead.example");
	assert_int_equal(view.state, WINDOW_DEAD);
	assert_int_equal(view.until_ns, until_ns);
	assert_int_not_equal(view.by, DECIDED_BY_HAND_OF);
	must_say_nothing_new(2);
	/* and what it says from now on is newer */
	hand(2, MANUAL_RESUME, "held.example", 0, BY_HAND_UNSET);
	hand(2, MANUAL_RESUME, "dead.example", 0, BY_HAND_UNSET);
	exchange();
	for (unsigned i = 0; i < NODES; i++) {
		assert_int_equal(view_at(i, "held.example").state, WINDOW_OPEN);
		assert_int_equal(view_at(i, "dead.example").state, WINDOW_OPEN);
		assert_int_equal(view_at(i, "gone.example").state, WINDOW_DEAD);
	}
}

/* What it held came back to life, for all, though another had resumed it meanwhile. */
TEST_IN(begin, end, what_was_resumed_meanwhile_is_not_told_again) {
	hand(2, MANUAL_HOLD, "ours.example", 0, BY_HAND_UNSET);
	hand(0, MANUAL_HOLD, "theirs.example", 0, BY_HAND_UNSET);
	exchange();
	/* as its journal gives it back: whose it is is not in it */
	knowledge_close(&stores[2]);
	site_close(&sites[2]);
	site_open_sized(&sites[2], 64, 256, OF_KIND("postfix"));
	hand(2, MANUAL_HOLD, "ours.example", 0, BY_HAND_UNSET);
	hand_because(2, "theirs.example", "mx0: held by an administrator");
	hand(1, MANUAL_RESUME, "ours.example", 0, BY_HAND_UNSET);
	hand(0, MANUAL_RESUME, "theirs.example", 0, BY_HAND_UNSET);
	(void)tell(1);
	(void)tell(0);
	open_store(2);
	come_back(2);
	must_say_nothing_new(2);
	assert_int_equal(view_at(2, "ours.example").state, WINDOW_OPEN);
	assert_int_equal(view_at(2, "theirs.example").state, WINDOW_OPEN);
	/* but what it says later in the same words counts, though nobody hears it at once */
	hand(2, MANUAL_HOLD, "ours.example", 0, BY_HAND_UNSET);
	come_back(2);
	exchange();
	for (unsigned i = 0; i < NODES; i++)
		assert_int_equal(view_at(i, "ours.example").state, WINDOW_HELD);
}

/* A hold came back for all that stood where one had been resumed here before: to this node's
 * role it looked like one that nobody had been told of. */
TEST_IN(begin, end, what_was_held_once_more_and_resumed_elsewhere_is_not_told_again) {
	hand(2, MANUAL_HOLD, "ours.example", 0, BY_HAND_UNSET);
	exchange();
	hand(2, MANUAL_RESUME, "ours.example", 0, BY_HAND_UNSET);
	exchange();
	hand(2, MANUAL_HOLD, "ours.example", 0, BY_HAND_UNSET);
	exchange();
	hand(1, MANUAL_RESUME, "ours.example", 0, BY_HAND_UNSET);
	(void)tell(1);
	/* its segment, as its journal, knows of the hold, and of the resume before it */
	come_back(2);
	must_say_nothing_new(2);
	exchange();
	for (unsigned i = 0; i < NODES; i++)
		assert_int_equal(view_at(i, "ours.example").state, WINDOW_OPEN);
}

/* "Nothing is known of it", where all others told the operator that it is held. */
TEST_IN(begin, end, a_resume_counts_where_nothing_is_known) {
	hand(0, MANUAL_HOLD, "held.example", 0, BY_HAND_UNSET);
	(void)tell(0);
	assert_int_equal(hear(1, &messages[0]), KNOWLEDGE_TAKEN);
	turn(1);
	/* its stamps are greater than all that it heard; it heard of another one */
	hand(1, MANUAL_HOLD, "other.example", 0, BY_HAND_UNSET);
	(void)tell(1);
	assert_int_equal(hear(2, &messages[message_count - 1]), KNOWLEDGE_TAKEN);
	turn(2);
	hand(2, MANUAL_RESUME, "held.example", 0, BY_HAND_UNSET);
	exchange();
	for (unsigned i = 0; i < NODES; i++)
		assert_int_equal(view_at(i, "held.example").state, WINDOW_OPEN);
}

/* 64 names that somebody made up, and the machines' own had no place any more. */
TEST_IN(begin, end, names_of_nodes_make_room_at_the_next_start) {
	struct message held = { .from = 1, .name = "held.example" };
	char name[16];

	held.told.record.manual = (struct knowledge_manual){ .stamp = 64,
		.what = KNOWLEDGE_HOLD, .until_ns = INT64_MAX };
	assert_int_equal(hear(0, &held), KNOWLEDGE_TAKEN);
	turn(0);
	held.told.record.manual.stamp = 1;
	for (unsigned i = 0; i < KNOWLEDGE_NODES_MAX; i++) {
		snprintf(name, sizeof(name), "stranger%u", i);
		(void)knowledge_hear(stores[0], sites[0].generation, name, strlen(name),
		    "other.example", 13, &held.told, now_ns);
	}
	held.from = 2;
	assert_int_equal(hear(0, &held), KNOWLEDGE_BAD_NODE);
	knowledge_close(&stores[0]);
	open_store(0);
	assert_int_equal(hear(0, &held), KNOWLEDGE_TAKEN);
	/* whose it is, is still known */
	assert_int_equal(memcmp(view_at(0, "held.example").reason, "mx1:", 4), 0);
}

/* Else two nodes would tell each other for ever. */
TEST_IN(begin, end, what_came_from_others_is_not_told) {
	hand(0, MANUAL_SUSPEND, "a.example", 600, BY_HAND_UNSET);
	hand(0, MANUAL_LIMIT, "b.example", 0, 4);
	exchange();
	assert_int_equal(view_at(1, "b.example").ceiling, 4);
	assert_int_equal(tell(1), 0);
	assert_int_equal(tell(2), 0);
	/* nor by a role that was started again, even where Redis has lost it */
	knowledge_close(&stores[1]);
	open_store(1);
	knowledge_begin_hearing(stores[1]);
	knowledge_heard_all(stores[1], true, now_ns);
	assert_int_equal(tell(1), 0);
	assert_int_equal(view_at(1, "a.example").state, WINDOW_DEAD);
	/* what is its own it tells again */
	knowledge_close(&stores[0]);
	open_store(0);
	knowledge_begin_hearing(stores[0]);
	knowledge_heard_all(stores[0], true, now_ns);
	assert_int_equal(tell(0), 2);
}

TEST(a_ceiling_that_slowness_taught_is_not_for_other_nodes) {
	struct destination_state here = { .begun = true, .window = { .ceiling = 5 } };

	assert_int_equal(knowledge_stand_of(&here, now_ns).ceiling, 5);
	here.window.slow_ceiling = 1;
	assert_int_equal(knowledge_stand_of(&here, now_ns).ceiling, 0);
}

TEST_IN(begin, end, told_by_hand_a_ceiling_may_rise) {
	hand(0, MANUAL_LIMIT, "c.example", 0, 4);
	exchange();
	hand(1, MANUAL_LIMIT, "c.example", 0, 9);
	exchange();
	for (unsigned i = 0; i < NODES; i++)
		assert_int_equal(view_at(i, "c.example").ceiling, 9);
	hand(2, MANUAL_FORGET, "c.example", 0, BY_HAND_UNSET);
	exchange();
	for (unsigned i = 0; i < NODES; i++)
		assert_int_equal(view_at(i, "c.example").ceiling, 0);
}

TEST_IN(begin, end, not_everything_is_shared) {
	static const char *const bad[] = { "class:c", "[127.0.0.1]:10024", "[::1]:25",
		"provider:nobody", "", "two words", "user@d.example" };
	struct message message = { .from = 1, .told.record.learned = { 64, INT64_MAX / 2 } };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(message.name, sizeof(message.name), "%s", bad[i]);
		if (hear(0, &message) != KNOWLEDGE_BAD_NAME)
			fail_msg("\"%s\" was taken", bad[i]);
	}
	hand(0, MANUAL_HOLD, "[127.0.0.1]:10024", 0, BY_HAND_UNSET);
	assert_int_equal(tell(0), 0);
	hand(0, MANUAL_HOLD, "[192.0.2.1]:25", 0, BY_HAND_UNSET);
	assert_int_equal(tell(0), 1);
}

/* --- in any order --------------------------------------------------------------------- */

#define DOMAINS	4

static void do_something(struct random *random) {
	static const char *const domains[DOMAINS] = { "a.example", "b.example", "c.example",
		"d.example" };
	const char *name = domains[random_below(random, DOMAINS)];
	unsigned node = random_below(random, NODES);

	switch (random_below(random, 7)) {
	case 0:
		hand(node, MANUAL_HOLD, name, 0, BY_HAND_UNSET);
		break;
	case 1:
		hand(node, MANUAL_SUSPEND, name, 3600 + random_below(random, 3600),
		    BY_HAND_UNSET);
		break;
	case 2:
		hand(node, MANUAL_RESUME, name, 0, BY_HAND_UNSET);
		break;
	case 3:
		hand(node, MANUAL_LIMIT, name, 0, 1 + random_below(random, 9));
		break;
	case 4:
		hand(node, MANUAL_FORGET, name, 0, BY_HAND_UNSET);
		break;
	default:
		at(node);
		for (unsigned i = 0; i < 10; i++)
			failed(name, down);
		break;
	}
	now_ns += 1 + random_below(random, 1000000000);
	(void)tell(node);
}

/* Some messages, some of them again; never in the order in which they were told. */
static void carry(struct random *random) {
	for (unsigned i = random_below(random, 8); i > 0 && message_count > 0; i--) {
		unsigned node = random_below(random, NODES);

		(void)hear(node, &messages[random_below(random, message_count)]);
		if (random_below(random, 2) == 0)
			turn(node);
	}
}

static void agree(const char *name) {
	struct window_view first = view_at(0, name);

	for (unsigned i = 1; i < NODES; i++) {
		struct window_view other = view_at(i, name);

		if (first.state != other.state || first.ceiling != other.ceiling ||
		    (first.by == DECIDED_BY_HAND_OF) != (other.by == DECIDED_BY_HAND_OF) ||
		    (first.until_ns - other.until_ns > 2 * NS_PER_SECOND) ||
		    (other.until_ns - first.until_ns > 2 * NS_PER_SECOND))
			fail_msg("%s: %s, ceiling %u, %lld here; %s, ceiling %u, %lld at %u", name,
			    window_state_word(first.state), first.ceiling,
			    (long long)first.until_ns, window_state_word(other.state),
			    other.ceiling, (long long)other.until_ns, i);
	}
}

/* However it comes, once all has come all say the same. */
TEST(order_of_arrival_never_matters) {
	struct random random = random_seeded("t_engine_knowledge");

	for (unsigned round = 0; round < 12; round++) {
		begin(NULL);
		for (unsigned i = 0; i < 40; i++) {
			do_something(&random);
			carry(&random);
		}
		/* backwards, and twice: what was found by then is told, too */
		for (unsigned i = 0; i < NODES; i++)
			(void)tell(i);
		for (unsigned again = 0; again < 2; again++) {
			for (unsigned j = message_count; j-- > 0;)
				for (unsigned i = 0; i < NODES; i++)
					(void)hear(i, &messages[j]);
			for (unsigned i = 0; i < NODES; i++)
				(void)tell(i);
		}
		agree("a.example");
		agree("b.example");
		agree("c.example");
		agree("d.example");
		end(NULL);
	}
}

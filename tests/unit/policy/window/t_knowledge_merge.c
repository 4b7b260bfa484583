/* SPDX-License-Identifier: ISC */
/* What several nodes know of a destination: the rules by hand, and that no order matters. */
#include "tests/unit/test.h"
#include "policy/window/knowledge.h"
#include "tests/unit/random.h"

#define NOW	INT64_C(1000)
#define NODES	5

static struct knowledge merged(const struct knowledge_record *records, size_t count, int64_t now) {
	struct knowledge out;

	knowledge_merge(records, count, now, &out);
	return out;
}

TEST(stamps_differ) {
	assert_int_equal(knowledge_next_stamp(0, 0), 64);
	assert_int_equal(knowledge_next_stamp(0, 5), 69);
	assert_int_equal(knowledge_next_stamp(69, 3), 131);
	assert_true(knowledge_next_stamp(131, 0) > 131);
}

TEST(nothing_is_known) {
	struct knowledge_record none = { .manual.stamp = 0 };
	struct knowledge out = merged(&none, 1, NOW);

	assert_int_equal(out.state, KNOWLEDGE_NONE);
	assert_int_equal(out.ceiling, 0);
	out = merged(NULL, 0, NOW);
	assert_int_equal(out.state, KNOWLEDGE_NONE);
}

TEST(the_last_word_by_hand_counts) {
	struct knowledge_record records[3] = {
		{ .manual = { 64, KNOWLEDGE_SUSPEND, 5000 } },
		{ .manual = { 129, KNOWLEDGE_HOLD, INT64_MAX },
		  .learned = { 66, 9000 } },
		{ .learned = { 130, 2000 } },
	};
	struct knowledge out = merged(records, 3, NOW);

	assert_int_equal(out.state, KNOWLEDGE_HELD);
	assert_true(out.by_hand);
	assert_int_equal(out.stamp, 129);
	assert_true(out.until_ns == INT64_MAX);
	/* Resumed on the first node: what was learned before is over, what later is not. */
	records[0].manual = (struct knowledge_manual){ 192, KNOWLEDGE_RESUME, 0 };
	out = merged(records, 3, NOW);
	assert_int_equal(out.state, KNOWLEDGE_NONE);
	assert_int_equal(out.resumed_stamp, 192);
	records[2].learned = (struct knowledge_learned){ 258, 2000 };
	out = merged(records, 3, NOW);
	assert_int_equal(out.state, KNOWLEDGE_DEAD);
	assert_false(out.by_hand);
	assert_int_equal(out.until_ns, 2000);
	assert_int_equal(merged(records, 3, 2000).state, KNOWLEDGE_NONE);
}

TEST(what_was_said_by_hand_takes_the_place_of_what_was_learned) {
	struct knowledge_record records[2] = {
		{ .learned = { 64, 90000 } },
		{ .manual = { 129, KNOWLEDGE_SUSPEND, 1500 }, .learned = { 193, 1200 } },
	};

	assert_int_equal(merged(records, 2, NOW).until_ns, 1500);
	/* Its end is the end, but for what was learned since. */
	assert_int_equal(merged(records, 2, 1500).state, KNOWLEDGE_NONE);
	records[1].learned.until_ns = 1700;
	assert_int_equal(merged(records, 2, 1500).until_ns, 1700);
	/* An earlier statement does not come back. */
	records[0].manual = (struct knowledge_manual){ 65, KNOWLEDGE_HOLD, INT64_MAX };
	assert_int_equal(merged(records, 2, 1700).state, KNOWLEDGE_NONE);
}

TEST(the_longest_learned_suspension_counts) {
	struct knowledge_record records[3] = {
		{ .learned = { 64, 3000 } }, { .learned = { 129, 5000 } },
		{ .learned = { 66, 5000 } },
	};
	struct knowledge out = merged(records, 3, NOW);

	assert_int_equal(out.state, KNOWLEDGE_DEAD);
	assert_int_equal(out.until_ns, 5000);
	assert_int_equal(out.stamp, 129);
}

TEST(the_lowest_ceiling_counts_until_it_is_raised) {
	struct knowledge_record records[3] = {
		{ .ceiling = { .stamp = 64, .level = 5 } },
		{ .ceiling = { .stamp = 65, .level = 3 } },
		{ .ceiling = { .stamp = 66, .level = 3 } },
	};
	struct knowledge out = merged(records, 3, NOW);

	assert_int_equal(out.ceiling, 3);
	assert_int_equal(out.ceiling_stamp, 66);
	/* A canary at 4 was accepted later: both 3 end. */
	records[0].raised = (struct knowledge_raised){ 128, 4 };
	assert_int_equal(merged(records, 3, NOW).ceiling, 5);
	/* One was found after it. */
	records[2].ceiling.stamp = 194;
	out = merged(records, 3, NOW);
	assert_int_equal(out.ceiling, 3);
	assert_int_equal(out.ceiling_stamp, 194);
	/* An operator sets 7: what was found before is over. */
	records[1].ceiling = (struct knowledge_ceiling){ 257, 7, true };
	out = merged(records, 3, NOW);
	assert_int_equal(out.ceiling, 7);
	assert_true(out.ceiling_by_hand);
	/* ... and none at all. */
	records[1].ceiling = (struct knowledge_ceiling){ 321, 0, true };
	out = merged(records, 3, NOW);
	assert_int_equal(out.ceiling, 0);
	assert_true(out.ceiling_by_hand);
	assert_int_equal(out.ceiling_stamp, 321);
	/* What is found after it counts again; withdrawn by the node itself, it does not. */
	records[2].ceiling = (struct knowledge_ceiling){ 386, 6, false };
	assert_int_equal(merged(records, 3, NOW).ceiling, 6);
	records[2].ceiling = (struct knowledge_ceiling){ 450, 0, false };
	assert_int_equal(merged(records, 3, NOW).ceiling, 0);
}

TEST(parts_are_joined_by_their_stamps) {
	struct knowledge_record have = { .manual = { 64, KNOWLEDGE_HOLD, 7 },
		.learned = { 128, 9 } };
	struct knowledge_record news = { .manual = { 192, KNOWLEDGE_RESUME, 0 },
		.learned = { 64, 99 }, .raised = { 64, 2 } };

	assert_true(knowledge_join(&have, &news));
	assert_int_equal(have.manual.stamp, 192);
	assert_int_equal(have.learned.until_ns, 9);
	assert_int_equal(have.raised.level, 2);
	assert_int_equal(knowledge_stamp(&have), 192);
	assert_false(knowledge_join(&have, &news));
}

/* --- no order matters -------------------------------------------------------------------- */

/* Nodes say things, see some of what others said, and so on: all that was ever said. */
#define SAID	60
struct said {
	unsigned node;
	struct knowledge_record record;
};

static void say(struct random *random, struct said *said, unsigned node, uint64_t stamp) {
	int64_t until = NOW + random_below(random, 4) * 100;

	*said = (struct said){ .node = node };
	switch (random_below(random, 4)) {
	case 0:
		said->record.manual = (struct knowledge_manual){ stamp,
			(enum knowledge_what)random_below(random, 3), until };
		break;
	case 1:
		said->record.learned = (struct knowledge_learned){ stamp, until };
		break;
	case 2:
		said->record.ceiling = (struct knowledge_ceiling){ stamp,
			(uint16_t)random_below(random, 6), random_below(random, 5) == 0 };
		break;
	default:
		said->record.raised = (struct knowledge_raised){ stamp,
			(uint16_t)(1 + random_below(random, 6)) };
	}
}

/* One node's view of them: heard in any order, some twice; its list in any order, too. */
static struct knowledge heard(struct random *random, const struct said *all, int64_t now) {
	struct knowledge_record records[NODES], shuffled[NODES];
	unsigned order[2 * SAID], places[NODES];

	memset(records, 0, sizeof(records));
	for (unsigned i = 0; i < 2 * SAID; i++)
		order[i] = i % SAID;
	for (unsigned i = 2 * SAID - 1; i > 0; i--) {
		unsigned j = random_below(random, i + 1), keep = order[i];

		order[i] = order[j];
		order[j] = keep;
	}
	for (unsigned i = 0; i < 2 * SAID; i++)
		(void)knowledge_join(&records[all[order[i]].node], &all[order[i]].record);
	for (unsigned i = 0; i < NODES; i++) {
		unsigned j = random_below(random, i + 1);

		places[i] = places[j];
		places[j] = i;
	}
	for (unsigned i = 0; i < NODES; i++)
		shuffled[i] = records[places[i]];
	return merged(shuffled, NODES, now);
}

TEST(in_any_order_all_come_to_the_same) {
	struct random random = random_seeded("t_knowledge_merge");

	for (unsigned round = 0; round < 300; round++) {
		uint64_t seen[NODES] = { 0 }, last = 0;
		struct said all[SAID];

		for (unsigned i = 0; i < SAID; i++) {
			unsigned node = random_below(&random, NODES);

			/* A node may know of nothing that the others said. */
			if (random_below(&random, 2) == 0)
				seen[node] = last > seen[node] ? last : seen[node];
			seen[node] = knowledge_next_stamp(seen[node], node);
			last = seen[node] > last ? seen[node] : last;
			say(&random, &all[i], node, seen[node]);
		}
		for (int64_t now = NOW - 50; now < NOW + 400; now += 100) {
			struct knowledge first = heard(&random, all, now);

			for (unsigned view = 0; view < 4; view++) {
				struct knowledge other = heard(&random, all, now);

				assert_int_equal(other.state, first.state);
				assert_int_equal(other.by_hand, first.by_hand);
				assert_true(other.until_ns == first.until_ns);
				assert_true(other.stamp == first.stamp);
				assert_true(other.resumed_stamp == first.resumed_stamp);
				assert_int_equal(other.ceiling, first.ceiling);
				assert_int_equal(other.ceiling_by_hand, first.ceiling_by_hand);
				assert_true(other.ceiling_stamp == first.ceiling_stamp);
			}
		}
	}
}

/* SPDX-License-Identifier: ISC */
/* Paces in the hints file: tokens that a reader takes, and passes. */
#include "base/clock.h"
#include "base/text.h"
#include "segment/hints/hints_internal.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test.h"

#define NOW	INT64_C(1000000000000)
#define SECOND	NS_PER_SECOND

static const struct hints_mta mtas[] = { { "out", { 1, 2, 5 }, 3 } };
static const struct siphash_key pass_key = { 5, 7 };
static struct hints_writer *writer;
static struct hints_reader *reader;
static uint32_t places[3];
static int64_t now_ns;

static void set(const struct hint_pace *say) {
	hints_writer_set_pace(writer, 1, say);
}

/* One in two seconds, three at once. */
static struct hint_pace two_seconds(void) {
	return (struct hint_pace){ .interval_ns = 2 * SECOND, .burst = 3,
		.text = "Postern: pace of a.example is 30/1m" };
}

static int set_up(void **state) {
	static const struct hint hints[] = { { "a.example", 0, 0 },
		{ "b.example", 0, HINTS_NO_GROUP }, { "c.example", 0, 0 } };
	static const char *const texts[] = { NULL };
	const struct hints_table table = { .mtas = mtas, .mta_count = 1, .hints = hints,
		.count = 3, .group_texts = texts, .group_count = 1, .recipients = 4,
		.paces = 2, .pass_key = pass_key };
	struct hint_pace say = two_seconds();
	char path[80];
	struct diag diag;

	assert_int_equal(scratch_open(state), 0);
	snprintf(path, sizeof(path), "%s/hints", scratch);
	assert_int_equal(hints_writer_open(&writer, path, (gid_t)-1, &diag), 0);
	assert_int_equal(hints_writer_build(writer, &table, places, &diag), 0);
	hints_writer_begin_pace(writer, 1);
	set(&say);
	hints_writer_follow_pace(writer, places[0], 1);
	assert_int_equal(hints_writer_publish(writer, NOW, &diag), 0);
	reader = hints_reader_open(path);
	assert_non_null(reader);
	now_ns = NOW;
	return 0;
}

static int tear_down(void **state) {
	hints_writer_close(&writer);
	hints_reader_close(&reader);
	return scratch_close(state);
}

static struct hints_answer ask(const char *address) {
	struct hints_answer answer;

	hints_writer_beat(writer, now_ns);
	hints_reader_ask(reader, "out", address, strlen(address), false, now_ns, &answer);
	assert_true((answer.kind == HINTS_HELD) == (answer.text[0] != '\0'));
	return answer;
}

static bool goes(const char *address) {
	return ask(address).kind != HINTS_HELD;
}

/* Of so many questions at once. */
static unsigned count(unsigned questions) {
	unsigned went = 0;

	for (unsigned i = 0; i < questions; i++)
		went += goes("u@a.example");
	return went;
}

static void new_reader(void) {
	char path[80];

	snprintf(path, sizeof(path), "%s/hints", scratch);
	hints_reader_close(&reader);
	reader = hints_reader_open(path);
	assert_non_null(reader);
}

TEST_IN(set_up, tear_down, as_many_as_the_pace_and_the_burst_allow) {
	assert_int_equal(count(10), 3);
	assert_string_equal(ask("u@a.example").text, "Postern: pace of a.example is 30/1m");
	now_ns += 2 * SECOND - 1;
	assert_int_equal(count(10), 0);
	now_ns += 1;
	assert_int_equal(count(10), 1);
	now_ns += 60 * SECOND;
	assert_int_equal(count(10), 3);
	/* others have none */
	for (unsigned i = 0; i < 10; i++)
		assert_true(goes("u@b.example"));
	/* one ends */
	hints_writer_follow_pace(writer, places[0], HINTS_NO_PACE);
	assert_int_equal(count(10), 10);
}

TEST_IN(set_up, tear_down, groups_and_paces_of_a_key_are_apart) {
	hints_writer_follow_pace(writer, places[1], 1);
	hints_writer_hold_group(writer, 0, "class");
	assert_string_equal(ask("u@a.example").text, "class");
	assert_true(goes("u@b.example"));
	hints_writer_regroup(writer, places[0], HINTS_NO_GROUP);
	assert_int_equal(count(10), 2);
	hints_writer_regroup(writer, places[0], 0);
	assert_string_equal(ask("u@a.example").text, "class");
	/* beyond what there is */
	hints_writer_hold_group(writer, 0, NULL);
	hints_writer_follow_pace(writer, places[2], 2);
	for (unsigned i = 0; i < 10; i++)
		assert_true(goes("u@c.example"));
}

TEST_IN(set_up, tear_down, mail_that_is_held_anyway_and_probes_take_no_token) {
	struct hint_say held = { .kind = HINTS_HELD, .text = "suspended" };
	struct hints_answer answer;

	hints_writer_set(writer, places[0], &held);
	for (unsigned i = 0; i < 9; i++)
		assert_string_equal(ask("u@a.example").text, "suspended");
	hints_writer_set(writer, places[0], &(struct hint_say){ .kind = HINTS_NOTHING });
	for (unsigned i = 0; i < 9; i++) {
		hints_reader_ask(reader, "out", "u@a.example", 11, true, now_ns, &answer);
		assert_int_equal(answer.kind, HINTS_NOTHING);
	}
	assert_int_equal(count(10), 3);
}

TEST_IN(set_up, tear_down, what_others_took_counts) {
	struct hint_pace say = two_seconds();

	say.taken_ns = now_ns + 4 * SECOND;
	set(&say);
	assert_int_equal(count(10), 1);
	/* no longer than until an empty bucket has one again */
	say.taken_ns = INT64_MAX;
	set(&say);
	assert_int_equal(count(10), 0);
	say.taken_ns = 0;
	set(&say);
	now_ns += 2 * SECOND;
	assert_int_equal(count(10), 1);
}

TEST_IN(set_up, tear_down, a_new_reader_goes_on_by_what_is_known_by_results) {
	struct hint_pace say = two_seconds();

	assert_int_equal(count(10), 3);
	/* some may be on their way */
	say.counted_ns = now_ns + 2 * SECOND;
	set(&say);
	now_ns += SECOND;
	new_reader();
	assert_int_equal(count(10), 1);
	say.counted_ns = now_ns + 6 * SECOND;
	set(&say);
	new_reader();
	assert_int_equal(count(10), 0);
	now_ns += 60 * SECOND;
	new_reader();
	assert_int_equal(count(10), 3);
}

TEST_IN(set_up, tear_down, another_destination_begins_with_another_bucket) {
	struct hint_pace say = two_seconds();

	assert_int_equal(count(10), 3);
	hints_writer_begin_pace(writer, 1);
	assert_int_equal(count(2), 2);
	set(&say);
	assert_int_equal(count(10), 3);
}

TEST_IN(set_up, tear_down, where_mail_waits_only_a_pass_lets_go) {
	struct hint_pace say = two_seconds();
	uint64_t word = hints_pass_add(&pass_key, 0, "b@a.example", 11);

	say.waits = true;
	set(&say);
	assert_int_equal(count(10), 0);
	hints_writer_pass(writer, 1, 7, now_ns, word);
	assert_false(goes("u@a.example"));
	assert_true(goes("B@A.example."));
	assert_false(goes("b@a.example"));
	hints_writer_pass(writer, 1, 7, now_ns + 1, word);
	assert_true(goes("b@a.example"));
	assert_false(goes("b@a.example"));
	/* it ends */
	hints_writer_pass(writer, 1, 7, now_ns + 2, word);
	now_ns += HINTS_PASS_NS + 2;
	assert_false(goes("b@a.example"));
	/* and took none */
	say.waits = false;
	set(&say);
	assert_int_equal(count(10), 3);
}

TEST_IN(set_up, tear_down, a_pass_of_several_recipients_is_one_of_each) {
	struct hint_pace say = two_seconds();
	uint64_t word = 0;
	char address[32];

	say.waits = true;
	set(&say);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(address, sizeof(address), "%u@a.example", i);
		word = hints_pass_add(&pass_key, word, address, strlen(address));
		/* said twice */
		word = hints_pass_add(&pass_key, word, address, strlen(address));
	}
	assert_int_equal(word >> HINTS_PASS_BITS, 3);
	hints_writer_pass(writer, 1, 0, now_ns, word);
	assert_true(goes("0@a.example") && goes("1@a.example") && goes("2@a.example"));
	assert_false(goes("2@a.example"));
	for (unsigned i = 0; i < 40; i++) {
		snprintf(address, sizeof(address), "%u@a.example", i);
		word = hints_pass_add(&pass_key, word, address, strlen(address));
	}
	hints_writer_pass(writer, 1, 0, ++now_ns, word);
	for (unsigned i = 0; i < 40; i++) {
		snprintf(address, sizeof(address), "%u@a.example", i);
		assert_true(goes(address));
	}
	now_ns += 100 * NS_PER_MS;
	assert_false(goes("3@a.example"));
	hints_writer_pass(writer, 1, 0, now_ns, HINTS_PASS_ANY);
	assert_true(goes("zz@a.example"));
	assert_false(goes("zz@a.example"));
}

/* Postfix asks for user+extension@domain, and then for user@domain, where it was told nothing. */
TEST_IN(set_up, tear_down, the_same_message_without_its_extension_takes_no_second_token) {
	struct hint_pace say = two_seconds();

	say.burst = 1;
	set(&say);
	assert_true(goes("u+x@a.example"));
	assert_true(goes("u@a.example"));
	assert_false(goes("u@a.example"));
	now_ns += 2 * SECOND;
	assert_true(goes("u-v+x@a.example"));
	assert_false(goes("v@a.example"));
	assert_false(goes("u-v@a.example"));
	now_ns += 2 * SECOND;
	assert_true(goes("u-v+x@a.example"));
	assert_true(goes("u-v@a.example"));
	now_ns += 2 * SECOND;
	assert_true(goes("u+x@a.example"));
	now_ns += 200 * NS_PER_MS;
	assert_false(goes("u@a.example"));
}

TEST_IN(set_up, tear_down, a_pace_that_makes_no_sense_keeps_nothing_back) {
	static const struct hint_pace wrong[] = {
		{ .interval_ns = -1, .burst = 1, .text = "x" },
		{ .interval_ns = INT64_MAX, .burst = 1, .text = "x" },
		{ .interval_ns = 1, .burst = 0, .text = "x" },
		{ .interval_ns = 1, .burst = UINT32_MAX, .text = "x" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		set(&wrong[i]);
		assert_int_equal(count(10), 10);
	}
}

TEST_IN(set_up, tear_down, a_class_that_refuses_after_it_leaves_the_token) {
	struct hint_say lanes = { .kind = HINTS_LANE, .lanes = { .count = 1, .lane = { 2 },
		.share = { 1 }, .canary = HINTS_NO_LANE, .single = HINTS_NO_LANE, .begins = true } };

	hints_writer_set(writer, places[0], &lanes);
	hints_writer_set_room(writer, 0, 0, "class is full");
	for (unsigned i = 0; i < 9; i++)
		assert_string_equal(ask("u@a.example").text, "class is full");
	hints_writer_set_room(writer, 0, HINTS_ANY_ROOM, NULL);
	assert_int_equal(count(10), 3);
}

/* SPDX-License-Identifier: ISC */
/* Calls of the lease script, word for word, and what is made of its answers. */
#include "tests/unit/test.h"
#include "wire/cluster/cluster_call.h"

#define POOLS	4

static struct span words[CLUSTER_CALL_WORDS(POOLS)];
static char text[CLUSTER_CALL_BYTES(POOLS)];
static struct redis_value list[64];
static size_t count;

static struct cluster_link joined(void) {
	return (struct cluster_link){ .node = "mx1", .instance = "i1", .lease_ms = 15000, .nodes = 3,
		.epoch = "aaaa", .token = 7, .sequence = 41, .event = 120, .heard_ms = 98000,
		.life = 33 };
}

static struct cluster_call begun(struct cluster_link *link, enum cluster_operation operation) {
	struct cluster_call call = { .words = words, .capacity = CLUSTER_CALL_WORDS(POOLS),
		.text = text, .size = sizeof(text) };

	cluster_call_begin(&call, link, operation, "abc123", "postern:", UINT64_C(0xfeed), NULL,
	    100000);
	return call;
}

static void word_is(size_t number, const char *wanted) {
	assert_int_equal(words[number].length, strlen(wanted));
	assert_memory_equal(words[number].text, wanted, strlen(wanted));
}

TEST(a_call_word_for_word) {
	struct cluster_link link = joined();
	struct cluster_call call = begun(&link, CLUSTER_SHARE);
	struct cluster_pool pool = { .name = "b:two words", .name_length = 11, .limit = 30,
		.version = 5, .fixed = 1, .hold = 4, .need = 6, .want = 9, .open = 5 };

	assert_true(cluster_call_pool(&call, &pool));
	pool.need = pool.want = 0;	/* never less than is held */
	assert_true(cluster_call_pool(&call, &pool));
	assert_int_equal(call.count, 9);
	word_is(0, "EVALSHA");
	word_is(1, "abc123");
	word_is(2, "3");
	word_is(3, "postern:1:leases");
	word_is(4, "postern:schema");
	word_is(5, "postern:1:dn");
	word_is(6, "share 1 mx1 i1 7 42 aaaa 120 98000 100000 15000 3 000000000000feed -");
	word_is(7, "30 5 1 4 6 9 5 b:two words");
	word_is(8, "30 5 1 4 4 4 5 b:two words");
	assert_int_equal(call.sent.pools, 2);
	assert_int_equal(call.sent.ms, 100000);
	assert_int_equal(link.sequence, 42);
	pool.name = "b:\0x";
	pool.name_length = 4;
	assert_false(cluster_call_pool(&call, &pool));
	assert_int_equal(call.sent.pools, 2);
}

TEST(the_first_call_knows_nothing) {
	struct cluster_link link = { .node = "mx1", .instance = "i1", .lease_ms = 2000, .nodes = 64 };

	(void)begun(&link, CLUSTER_HELLO);
	word_is(6, "hello 1 mx1 i1 0 1 - 0 0 100000 2000 64 000000000000feed -");
}

TEST(a_call_ends_where_its_memory_does) {
	struct cluster_link link = joined();
	struct cluster_call call = begun(&link, CLUSTER_SHARE);
	struct cluster_pool pool = { .name = "b:x", .name_length = 3 };

	for (unsigned i = 0; i < POOLS; i++)
		assert_true(cluster_call_pool(&call, &pool));
	assert_false(cluster_call_pool(&call, &pool));
	assert_true(call.full);
	assert_int_equal(call.sent.pools, POOLS);
	pool.name_length = CLUSTER_POOL_NAME_MAX + 1;
	assert_false(cluster_call_pool(&call, &pool));
}

TEST(names_of_nodes) {
	assert_true(cluster_node_name_is_good("mx-1.example_net"));
	assert_true(cluster_node_name_is_good("a234567890123456789012345678901"));
	assert_false(cluster_node_name_is_good("a2345678901234567890123456789012"));
	assert_false(cluster_node_name_is_good(""));
	assert_false(cluster_node_name_is_good("-"));
	assert_false(cluster_node_name_is_good("mx 1"));
	assert_false(cluster_node_name_is_good("mx/1"));
}

/* --- answers ------------------------------------------------------------------------------ */

static void say_text(const char *word) {
	list[count++] = (struct redis_value){ .kind = REDIS_KIND_TEXT, .text = word,
		.length = strlen(word) };
}

static void say(int64_t number) {
	list[count++] = (struct redis_value){ .kind = REDIS_KIND_NUMBER, .number = number };
}

static void begin_answer(const char *status, const char *epoch, int64_t event) {
	count = 0;
	say_text(status);
	say_text(epoch);
	say(event);
}

static void say_ok(const char *epoch, int64_t event, int64_t token, int64_t life, int64_t wait_ms) {
	begin_answer("ok", epoch, event);
	say(token);
	say(life);
	say(wait_ms);
	say(3);
	say(2);
	say(3);
}

static void say_share(int64_t granted, int64_t fair) {
	say(granted);
	say(fair);
	say(4);
	say(30);
	say(27);
	say(2);
	say(1);
}

static struct cluster_share shares[POOLS];

static struct cluster_answer answer_to(struct cluster_link *link,
    const struct cluster_sent *sent) {
	struct redis_value value = { .kind = REDIS_KIND_LIST, .list = list, .count = count };
	struct cluster_answer answer;

	cluster_answer_read(link, sent, &value, 100400, &answer, shares);
	return answer;
}

static struct cluster_sent sent_by(struct cluster_link *link, enum cluster_operation operation,
    unsigned pools) {
	struct cluster_call call = begun(link, operation);
	struct cluster_pool pool = { .name = "b:x", .name_length = 3 };

	for (unsigned i = 0; i < pools; i++)
		assert_true(cluster_call_pool(&call, &pool));
	return call.sent;
}

TEST(a_grant_runs_from_when_it_was_asked_for) {
	struct cluster_link link = joined();
	struct cluster_sent sent = sent_by(&link, CLUSTER_SHARE, 1);
	struct cluster_answer answer;

	(void)sent_by(&link, CLUSTER_LOOK, 0);	/* whatever is called in between */
	say_ok("aaaa", 121, 7, 33, 0);
	say_share(12, 13);
	answer = answer_to(&link, &sent);
	assert_int_equal(answer.status, CLUSTER_OK);
	assert_int_equal(answer.until_ms, 100000 + 12950);
	assert_false(answer.reborn);
	assert_int_equal(answer.share_count, 1);
	assert_int_equal(shares[0].granted, 12);
	assert_int_equal(shares[0].fair, 13);
	assert_int_equal(shares[0].others_short, 4);
	assert_int_equal(shares[0].free, 2);
	assert_true(shares[0].differs);
	assert_int_equal(link.event, 121);
	assert_int_equal(link.heard_ms, 100400);
	/* Another life: what it does not list is gone. */
	say_ok("aaaa", 122, 7, 122, 0);
	say_share(12, 13);
	assert_true(answer_to(&link, &sent).reborn);
	assert_false(answer_to(&link, &sent).reborn);
}

TEST(a_new_epoch_is_waited_for) {
	struct cluster_link link = joined();
	struct cluster_sent sent = sent_by(&link, CLUSTER_SHARE, 1);
	struct cluster_answer answer;

	begin_answer("again", "-", 0);
	answer = answer_to(&link, &sent);
	assert_int_equal(answer.status, CLUSTER_AGAIN);
	assert_int_equal(link.token, 0);
	assert_string_equal(link.epoch, "aaaa");
	sent = sent_by(&link, CLUSTER_HELLO, 0);
	say_ok("bbbb", 1, 1, 0, 15200);
	answer = answer_to(&link, &sent);
	assert_int_equal(answer.status, CLUSTER_OK);
	assert_int_equal(answer.until_ms, 0);
	assert_int_equal(link.token, 1);
	assert_int_equal(link.sequence, 0);
	assert_string_equal(link.epoch, "bbbb");
	sent = sent_by(&link, CLUSTER_SHARE, 1);
	say_ok("bbbb", 33, 1, 33, 15000);
	say_share(0, 0);
	answer = answer_to(&link, &sent);
	assert_int_equal(answer.wait_ms, 15000);
	assert_int_equal(answer.until_ms, 0);
	assert_false(answer.reborn);
	/* The life has the same number as in the epoch before: it is another all the same. */
	say_ok("bbbb", 34, 1, 33, 0);
	say_share(5, 27);
	answer = answer_to(&link, &sent);
	assert_true(answer.reborn);
	assert_int_equal(answer.until_ms, 112950);
}

TEST(who_may_not_join_is_told_why) {
	struct cluster_link link = joined();
	struct cluster_sent sent = sent_by(&link, CLUSTER_HELLO, 0);
	struct cluster_answer answer;

	begin_answer("taken", "aaaa", 122);
	say(9000);
	say_text("i77");
	answer = answer_to(&link, &sent);
	assert_int_equal(answer.status, CLUSTER_TAKEN);
	assert_int_equal(answer.ms, 9000);
	assert_string_equal(answer.text, "i77");
	assert_int_equal(link.event, 122);	/* it has seen that this far nothing has ended */
	begin_answer("newer", "-", 0);
	say(2);
	answer = answer_to(&link, &sent);
	assert_int_equal(answer.status, CLUSTER_NEWER);
	assert_int_equal(answer.number, 2);
	begin_answer("lease", "aaaa", 122);
	say(9000);
	say_text("mx2");
	answer = answer_to(&link, &sent);
	assert_int_equal(answer.status, CLUSTER_LEASE);
	assert_string_equal(answer.text, "mx2");
	begin_answer("foreign", "-", 0);
	say_text("lea\001ses");
	answer = answer_to(&link, &sent);
	assert_int_equal(answer.status, CLUSTER_FOREIGN);
	assert_string_equal(answer.text, "lea?ses");
}

static void nonsense(struct cluster_link *link, const struct cluster_sent *sent, const char *why) {
	struct cluster_link before = *link;
	struct cluster_answer answer = answer_to(link, sent);

	assert_int_equal(answer.status, CLUSTER_NONSENSE);
	assert_string_equal(answer.text, why);
	assert_memory_equal(link, &before, sizeof(before));
}

TEST(nonsense_changes_nothing) {
	struct cluster_link link = joined();
	struct cluster_sent sent = sent_by(&link, CLUSTER_SHARE, 1);
	struct redis_value value = { .kind = REDIS_KIND_ERROR, .text = "NOPERM \033[2J no",
		.length = 14 };
	struct cluster_answer answer;

	count = 0;
	nonsense(&link, &sent, "no status");
	begin_answer("refused", "aaaa", 1);
	nonsense(&link, &sent, "unknown status");
	begin_answer("again", "a b", 1);
	nonsense(&link, &sent, "no epoch");
	begin_answer("again", "aaaaaaaaaaaaaaaaa", 1);
	nonsense(&link, &sent, "no epoch");
	begin_answer("again", "aaaa", -1);
	nonsense(&link, &sent, "no event");
	say_ok("aaaa", 121, 7, 33, 0);
	nonsense(&link, &sent, "no grant");
	say_share(12, 28);
	nonsense(&link, &sent, "more than the limit");
	say_ok("aaaa", 121, 7, 33, 0);
	say_share(12, 13);
	say(0);
	nonsense(&link, &sent, "too long");
	say_ok("aaaa", 121, 8, 33, 0);
	say_share(12, 13);
	nonsense(&link, &sent, "of another call");
	say_ok("bbbb", 121, 7, 33, 0);
	say_share(12, 13);
	nonsense(&link, &sent, "of another call");
	cluster_answer_read(&link, &sent, NULL, 100400, &answer, shares);
	assert_int_equal(answer.status, CLUSTER_NONSENSE);
	cluster_answer_read(&link, &sent, &value, 100400, &answer, shares);
	assert_int_equal(answer.status, CLUSTER_REFUSED);
	assert_string_equal(answer.text, "NOPERM ?[2J no");
}

TEST(all_nodes_are_shown) {
	struct cluster_link link = joined();
	struct cluster_sent sent = sent_by(&link, CLUSTER_LOOK, 2);
	struct redis_value node[4], part[7], nodes, parts, value;
	struct cluster_look_node read[2];
	struct cluster_look_share share[2];
	struct cluster_answer answer;
	size_t node_count, share_count;

	count = 0;
	say_text("mx2");
	say(1);
	say(77);
	say(3);
	memcpy(node, list, sizeof(node));
	count = 0;
	for (int64_t i = 1; i <= 7; i++)
		say(i == 2 ? 0 : i);
	memcpy(part, list, sizeof(part));
	nodes = (struct redis_value){ .kind = REDIS_KIND_LIST, .count = 1,
		.list = &(struct redis_value){ .kind = REDIS_KIND_LIST, .list = node, .count = 4 } };
	parts = (struct redis_value){ .kind = REDIS_KIND_LIST, .count = 1,
		.list = &(struct redis_value){ .kind = REDIS_KIND_LIST, .list = part, .count = 7 } };
	say_ok("aaaa", 121, 7, 33, 0);
	list[count++] = nodes;
	list[count++] = parts;
	value = (struct redis_value){ .kind = REDIS_KIND_LIST, .list = list, .count = count };
	assert_true(cluster_look_read(&link, &sent, &value, 100400, &answer, read, &node_count, 2,
	    share, &share_count, 2));
	assert_int_equal(node_count, 1);
	assert_string_equal(read[0].name, "mx2");
	assert_true(read[0].alive);
	assert_int_equal(read[0].event, 77);
	assert_int_equal(read[0].nodes, 3);
	assert_int_equal(share_count, 1);
	assert_int_equal(share[0].pool, 1);
	assert_int_equal(share[0].granted, 3);
	assert_int_equal(share[0].limit, 6);
	assert_int_equal(share[0].fixed, 7);
	/* Of a pool that was not asked for. */
	part[0].number = 2;
	assert_false(cluster_look_read(&link, &sent, &value, 100400, &answer, read, &node_count, 2,
	    share, &share_count, 2));
	assert_string_equal(answer.text, "of no pool or node");
}

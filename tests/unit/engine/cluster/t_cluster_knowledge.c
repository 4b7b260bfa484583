/* SPDX-License-Identifier: ISC */
/* What a node asks of Redis and tells it of destinations, in virtual time: calls are noted,
 * and answered here, also as no Redis of ours would. */
#include "tests/unit/test.h"

#include "engine/cluster/knowledge.h"
#include "front/cluster/knowledge.h"
#include "tests/unit/engine/feed/results.h"
#include "wire/cluster/knowledge_text.h"

#define CONFIGURATION "classes = ( { name = \"c\"; match = \"*\"; } );\n" \
    "mta = ( { name = \"a\"; kind = \"postfix\"; log = \"/a\"; } );\n" \
    "cluster = { redis = \"unix:/run/redis\"; node = \"mx0\"; nodes = 3; lease = \"15s\"; };\n"
#define CALLS		16
#define PAGE		512

struct noted {
	enum cluster_script script;
	size_t keys;
	char first[128];		/* word */
	uint64_t tag;
};

static struct knowledge_front *front;
static struct noted calls[CALLS];	/* that wait */
static unsigned call_count, asked, failures;
static size_t most_keys;
static enum cluster_error error;
static char error_text[256];

static bool run(void *context, enum cluster_script script, const struct span *keys,
    size_t key_count, const struct span *words, size_t word_count, uint64_t tag) {
	struct noted *call = &calls[call_count];

	(void)context, (void)keys;
	assert_true(call_count < CALLS && word_count > 0);
	*call = (struct noted){ .script = script, .keys = key_count, .tag = tag };
	snprintf(call->first, sizeof(call->first), "%.*s", (int)words[0].length, words[0].text);
	if (key_count > most_keys)
		most_keys = key_count;
	call_count++;
	asked++;
	return true;
}

static void on_failed(void *context, enum cluster_error what, const char *text) {
	failures++;
	error = what;
	snprintf(error_text, sizeof(error_text), "%s", text);
}

static void begin_sized(uint64_t destinations) {
	const struct knowledge_calls those = { .run = run, .failed = on_failed,
		.prefix = "mine:" };
	struct diag diag;

	site_providers = NULL;
	site_open_sized(&site, 64, destinations, CONFIGURATION);
	assert_int_equal(knowledge_front_open(&front, site.engine, "mx0", &those, &diag), 0);
	now_ns = clock_now_ns();
	call_count = asked = failures = 0;
	most_keys = 0;
	knowledge_front_joined(front, now_ns);
}

static void begin(void) {
	begin_sized(256);
}

static void end(void) {
	knowledge_front_close(&front);
	site_close(&site);
}

static void turn(void) {
	knowledge_front_turn(front, site.generation, now_ns);
}

static struct redis_value number_of(int64_t number) {
	return (struct redis_value){ .kind = REDIS_KIND_NUMBER, .number = number };
}

static struct redis_value text_of(const char *text) {
	return (struct redis_value){ .kind = REDIS_KIND_TEXT, .text = text,
		.length = strlen(text) };
}

/* To the call that has waited longest; more may wait then. */
static void answer(const struct redis_value *value) {
	uint64_t tag = calls[0].tag;

	assert_true(call_count > 0);
	memmove(calls, calls + 1, --call_count * sizeof(calls[0]));
	knowledge_front_answer(front, site.generation, tag, value, now_ns);
}

static void answer_error(const char *text) {
	struct redis_value value = text_of(text);

	value.kind = REDIS_KIND_ERROR;
	answer(&value);
}

static void answer_list(const struct redis_value *values, size_t count) {
	answer(&(struct redis_value){ .kind = REDIS_KIND_LIST, .list = values, .count = count });
}

static void answer_ok(int64_t number) {
	answer_list((const struct redis_value[]){ text_of("ok"), number_of(number) }, 2);
}

/* All was read, and there was nothing. */
static void begin_read(void) {
	begin();
	turn();
	assert_int_equal(call_count, 1);
	assert_int_equal(calls[0].script, CLUSTER_SCRIPT_CHANGED);
	answer_ok(0);
	assert_int_equal(call_count, 0);
}

static void suspend(unsigned count) {
	for (unsigned i = 0; i < count; i++) {
		char name[32];
		struct by_hand request = { .verb = MANUAL_HOLD, .window = BY_HAND_UNSET,
			.ceiling = BY_HAND_UNSET, .name = name };
		struct window_owner owner;

		request.name_length = (size_t)snprintf(name, sizeof(name), "n%u.example", i);
		(void)windows_by_hand(site.engine, site.generation, &request, now_ns, &owner);
	}
	turn();
}

TEST(an_error_is_told_and_asked_again_a_second_later) {
	begin();
	turn();
	answer_error("NOPERM User postern has no permissions to run the 'zrangebyscore' command");
	assert_int_equal(failures, 1);
	assert_int_equal(error, CLUSTER_ERROR_PERMISSION);
	assert_non_null(strstr(error_text, "zrangebyscore"));
	now_ns += 900 * NS_PER_MS;
	turn();
	assert_int_equal(call_count, 0);
	now_ns += 200 * NS_PER_MS;
	turn();
	assert_int_equal(call_count, 1);
	answer_list((const struct redis_value[]){ text_of("what") }, 1);
	assert_int_equal(failures, 2);
	assert_int_equal(error, CLUSTER_ERROR_PROTOCOL);
	end();
}

/* They were asked again as fast as they failed. */
TEST(what_is_not_written_is_told_and_does_not_spin) {
	begin_read();
	suspend(40);
	assert_int_equal(call_count, 4);
	while (call_count > 0)
		answer_error("WRONGTYPE Operation against a key holding the wrong kind of value");
	assert_int_equal(failures, 4);
	assert_int_equal(error, CLUSTER_ERROR_FOREIGN);
	/* it was "WRONGTYPE ... on @user_script:33" */
	assert_non_null(strstr(error_text, " mine:1:d:n"));
	assert_null(strstr(error_text, "WRONGTYPE"));
	assert_int_equal(asked, 1 + 4);
	for (unsigned i = 0; i < 9; i++) {
		now_ns += 100 * NS_PER_MS;
		turn();
	}
	assert_int_equal(call_count, 0);
	now_ns += 200 * NS_PER_MS;
	turn();
	assert_int_equal(call_count, 4);
	while (call_count > 0)
		answer_ok(1);
	/* none was lost */
	assert_int_equal(asked, 1 + 4 + 40);
	end();
}

/* Names of which nothing was left filled the list until somebody joined anew. */
TEST(a_full_list_is_read_whole_now_and_then) {
	const struct redis_value full[] = { text_of("full") };

	begin_read();
	now_ns += 61 * NS_PER_SECOND;
	turn();
	answer_ok(7);
	suspend(1);
	assert_int_equal(calls[0].script, CLUSTER_SCRIPT_PUT);
	answer_list(full, 1);
	assert_int_equal(call_count, 0);	/* it was a minute ago */
	assert_int_equal(failures, 0);
	now_ns += 600 * NS_PER_SECOND;
	turn();
	answer_ok(7);
	suspend(2);
	answer_list(full, 1);
	assert_int_equal(call_count, 1);
	assert_int_equal(calls[0].script, CLUSTER_SCRIPT_CHANGED);
	assert_string_equal(calls[0].first, "0");
	now_ns += NS_PER_SECOND;
	answer_ok(7);
	turn();
	/* both are written now */
	assert_int_equal(call_count, 2);
	assert_int_equal(calls[1].script, CLUSTER_SCRIPT_PUT);
	end();
}

/* Else nothing is told or believed as long as it goes on. */
TEST(a_list_without_an_end_is_told) {
	static struct redis_value list[2 + 2 * PAGE];
	static char names[PAGE][16];
	unsigned pages = 0, before;

	begin();
	list[0] = text_of("ok");
	list[1] = number_of(INT64_C(1) << 50);
	turn();
	while (failures == 0) {
		assert_true(pages < 100 && call_count > 0);
		if (calls[0].script == CLUSTER_SCRIPT_GET) {
			answer_ok(1);
			continue;
		}
		for (unsigned i = 0; i < PAGE; i++) {
			snprintf(names[i], sizeof(names[i]), "n%u.example", i);
			list[2 + 2 * i] = text_of(names[i]);
			list[3 + 2 * i] = number_of(1 + pages * PAGE + i);
		}
		pages++;
		answer_list(list, 2 + 2 * PAGE);
	}
	assert_int_equal(error, CLUSTER_ERROR_PROTOCOL);
	/* what all nodes say of so many is no answer too large */
	assert_true(most_keys <= 1 + 12);
	before = asked;
	turn();
	assert_int_equal(asked, before);
	end();
}

/* Another node said so, by the channel. */
static void hear(uint64_t number, const char *name, enum knowledge_what what) {
	struct knowledge_told told = { .record.manual = { .stamp = 64 * number, .what = what,
		.until_ns = what == KNOWLEDGE_HOLD ? INT64_MAX : 0 } };
	char record[KNOWLEDGE_TEXT_MAX], news[KNOWLEDGE_TEXT_MAX + 128];
	size_t length = knowledge_text_write(&told, now_ns, record);
	int bytes = snprintf(news, sizeof(news), "%llu mx1 %s %.*s", (unsigned long long)number,
	    name, (int)length, record);

	assert_true(length > 0 && bytes > 0 && (size_t)bytes < sizeof(news));
	knowledge_front_heard(front, site.generation, news, (size_t)bytes, now_ns);
	turn();
}

static uint32_t unplaced(void) {
	struct knowledge_counts counts;

	knowledge_front_count(front, &counts);
	assert_int_equal(counts.untried, 0);
	return counts.unplaced;
}

static uint64_t unshared(void) {
	return atomic_load(&segment_header(site.segment)->counters[COUNTER_KNOWLEDGE_UNSHARED]);
}

/* It was tried once: what came too late was not held when there was room for all of it. */
TEST(what_had_no_place_is_tried_at_each_comparison) {
	char name[32], kept[8][32];
	unsigned held = 0, keeps = 0;
	uint64_t number = 0, counted;

	begin_sized(64);
	turn();
	answer_ok(0);
	for (unsigned i = 0; i < 120; i++) {
		snprintf(name, sizeof(name), "n%u.example", i);
		hear(++number, name, KNOWLEDGE_HOLD);
		held += view_of(name).state == WINDOW_HELD;
	}
	assert_int_equal(unplaced(), 120 - held);
	assert_true(unplaced() > 10);
	counted = unshared();
	assert_int_equal(counted, unplaced());
	now_ns += 61 * NS_PER_SECOND;
	turn();
	answer_ok((int64_t)number);
	turn();
	/* each is counted once */
	assert_int_equal(unplaced(), 120 - held);
	assert_int_equal(unshared(), counted);
	/* as many remain as fit wherever they belong */
	for (unsigned i = 0; i < 120; i++) {
		snprintf(name, sizeof(name), "n%u.example", i);
		if (view_of(name).state == WINDOW_HELD || keeps == 6)
			hear(++number, name, KNOWLEDGE_RESUME);
		else
			memcpy(kept[keeps++], name, sizeof(name));
	}
	assert_int_equal(unplaced(), 6);
	now_ns += 61 * NS_PER_SECOND;
	turn();
	answer_ok((int64_t)number);
	turn();
	assert_int_equal(unplaced(), 0);
	for (unsigned i = 0; i < keeps; i++)
		assert_int_equal(view_of(kept[i]).state, WINDOW_HELD);
	end();
}

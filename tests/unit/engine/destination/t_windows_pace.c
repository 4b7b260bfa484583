/* SPDX-License-Identifier: ISC */
/* Paces of destinations: tokens, what is seen of them, what a reload and forget change. */
#include "tests/unit/test.h"
#include "engine/destination/windows_internal.h"
#include "tests/unit/engine/feed/results.h"

#define PACED(pace) "classes = ( { name = \"c\"; match = \"*\"; } );\n" \
    "mta = ( { name = \"p\"; log = \"/a\"; } );\n" \
    "destinations = ( { match = [ \"paced.example\", \"provider:big\" ]; " pace " } );\n"
#define MINUTELY PACED("pace = \"60/1m\"; pace_burst = 3;")

static const char providers[] = "version = 1;\n"
    "providers = ( { name = \"big\"; relays = \"*.example.net\"; } );\n";

static void begin(const char *text) {
	site_providers = providers;
	site_open(&site, 64, text);
	now_ns = clock_now_ns() / NS_PER_SECOND * NS_PER_SECOND;
}

static int close_site(void **state) {
	(void)state;
	site_close(&site);
	site_providers = NULL;
	return 0;
}

static struct window_tokens take(const char *name, uint32_t most) {
	struct window_owner owner = owner_of(name);
	struct window_tokens tokens;

	windows_pace_take(site.engine, site.generation, &owner, most, now_ns, &tokens);
	return tokens;
}

TEST_IN(NULL, close_site, tokens_come_at_the_pace) {
	struct window_tokens tokens;

	begin(MINUTELY);
	assert_true(view_of("paced.example").pace.interval_ns == NS_PER_SECOND);
	assert_false(view_of("paced.example").pace.is_learned);
	tokens = take("paced.example", 10);
	assert_true(tokens.is_paced);
	assert_int_equal(tokens.taken, 3);
	assert_true(tokens.wait_ns == NS_PER_SECOND);
	assert_true(view_of("paced.example").pace_wait_ns == NS_PER_SECOND);
	assert_true(view_of("paced.example").pace_limit_ns == NS_PER_SECOND);
	pass(1);
	assert_int_equal(take("paced.example", 10).taken, 1);
	assert_int_equal(take("paced.example", 1).taken, 0);
	pass(60);
	assert_int_equal(take("paced.example", 2).taken, 2);
	assert_int_equal(take("paced.example", 2).taken, 1);
}

TEST_IN(NULL, close_site, others_have_none) {
	struct window_tokens tokens;
	struct destination_window ignored;

	begin(MINUTELY);
	tokens = take("other.example", 10);
	assert_false(tokens.is_paced);
	assert_int_equal(tokens.taken, 10);
	assert_true(view_of("other.example").pace.interval_ns == 0);
	assert_true(view_of("other.example").pace_limit_ns == 0);
	assert_true(view_of("other.example").pace_wait_ns == 0);
	/* and a question makes none */
	assert_false(states_find(site.segment, "other.example", 13, &ignored));
}

TEST_IN(NULL, close_site, a_providers_domains_share_it) {
	begin(MINUTELY);
	sent("one.example", 50);
	sent("two.example", 50);
	assert_string_equal(owner_of("two.example").name, "provider:big");
	/* each took one */
	pass(2);
	assert_int_equal(take("one.example", 2).taken, 2);
	assert_int_equal(take("two.example", 2).taken, 1);
	assert_true(view_of("one.example").pace.interval_ns == NS_PER_SECOND);
}

TEST_IN(NULL, close_site, a_reload_counts_at_once) {
	begin(MINUTELY);
	assert_int_equal(take("paced.example", 10).taken, 3);
	site_reload(&site, PACED("pace = \"1/1h\";"));
	assert_true(view_of("paced.example").pace.interval_ns == 3600 * NS_PER_SECOND);
	pass(10);
	assert_int_equal(take("paced.example", 10).taken, 1);
	site_reload(&site, PACED("window = { suspend = \"5m\"; };"));
	assert_int_equal(take("paced.example", 10).taken, 10);
	assert_true(view_of("paced.example").pace.interval_ns == 0);
}

/* The bucket is full, as if nothing had been sent. */
TEST_IN(NULL, close_site, forget_forgets_it) {
	const struct by_hand request = { .verb = MANUAL_FORGET, .name = "paced.example",
		.name_length = 13, .window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET };
	struct window_owner ignored;

	begin(MINUTELY);
	assert_int_equal(take("paced.example", 10).taken, 3);
	assert_int_equal(windows_by_hand(site.engine, site.generation, &request, now_ns,
	    &ignored), BY_HAND_DONE);
	assert_int_equal(take("paced.example", 10).taken, 3);
}

static void set_pace(const char *name, const struct pace *pace) {
	struct state_lock lock;

	assert_true(states_aim(site.segment, name, strlen(name), &lock));
	assert_int_equal(states_lock(&lock, now_ns, STATES_CREATE), STATES_HELD);
	lock.state.pace = *pace;
	states_store(&lock);
	states_unlock(&lock);
}

static enum by_hand_error by_hand(enum manual_verb verb, const char *name, int64_t pace_ns) {
	const struct by_hand request = { .verb = verb, .name = name, .name_length = strlen(name),
		.window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET, .pace_ns = pace_ns };
	struct window_owner ignored;

	return windows_by_hand(site.engine, site.generation, &request, now_ns, &ignored);
}

TEST_IN(NULL, close_site, a_manual_pace_stays_until_it_is_ended) {
	begin(MINUTELY);
	assert_int_equal(by_hand(MANUAL_LIMIT, "other.example", 2 * NS_PER_SECOND), BY_HAND_DONE);
	assert_true(view_of("other.example").pace.interval_ns == 2 * NS_PER_SECOND);
	assert_true(view_of("other.example").pace_by_hand);
	assert_string_equal(view_of("other.example").reason, "pace set to 30/1m by an administrator");
	assert_int_equal(take("other.example", 5).taken, 1);
	/* what is accepted does not raise it */
	for (int i = 0; i < 20; i++) {
		(void)feed_line(&(struct line){ .domain = "other.example", .relay_name = "mx.other.example",
			.relay = "192.0.2.9", .status = DELIVERY_SENT, .text = accepted, .took_ms = 50 });
		pass(60);
		(void)take("other.example", 5);
	}
	assert_true(view_of("other.example").pace.interval_ns == 2 * NS_PER_SECOND);
	assert_int_equal(by_hand(MANUAL_LIMIT, "other.example", -1), BY_HAND_DONE);
	assert_true(view_of("other.example").pace.interval_ns == 0);
	assert_false(view_of("other.example").pace_by_hand);
	/* so does a resume */
	assert_int_equal(by_hand(MANUAL_LIMIT, "other.example", 2 * NS_PER_SECOND), BY_HAND_DONE);
	assert_int_equal(by_hand(MANUAL_RESUME, "other.example", 0), BY_HAND_DONE);
	assert_int_equal(take("other.example", 5).taken, 5);
	assert_int_equal(by_hand(MANUAL_RESUME, "other.example", 0), BY_HAND_NOTHING);
	/* the configured one is the upper limit */
	assert_int_equal(by_hand(MANUAL_LIMIT, "paced.example", NS_PER_SECOND / 2), BY_HAND_DONE);
	assert_true(view_of("paced.example").pace.interval_ns == NS_PER_SECOND);
}

/* Whoever makes hints looks at what changed: taking tokens is no change, a lower pace is one. */
TEST_IN(NULL, close_site, followers_hear_of_a_pace_and_not_of_tokens) {
	struct window_owner owner;
	struct destination_window found;
	struct window_rules rules;
	uint64_t version;
	struct pace pace;

	begin(MINUTELY);
	assert_int_equal(take("paced.example", 1).taken, 1);
	version = states_version(site.segment);
	assert_int_equal(take("paced.example", 1).taken, 1);
	assert_true(states_version(site.segment) == version);
	assert_true(states_find(site.segment, "paced.example", 13, &found));
	pace = found.state.pace;
	pass(1);
	owner = owner_of("paced.example");
	windows_rules(site.generation, 0, &owner, &rules);
	assert_true(pace_refused(&pace, &rules.pace, now_ns, now_ns));
	set_pace("paced.example", &pace);
	assert_true(states_version(site.segment) > version);
	assert_true(view_of("paced.example").pace.is_learned);
}

/* One that was learned is in force without any setting. */
TEST_IN(NULL, close_site, a_learned_pace_needs_no_setting) {
	struct pace pace = { { 0, 0 } };
	struct window_tokens tokens;

	begin(PACED("window = { suspend = \"5m\"; };"));
	/* nothing was accepted: 10 a second, and then half of it */
	assert_true(pace_refused(&pace, &pace_defaults, 0, now_ns));
	set_pace("learned.example", &pace);
	assert_true(view_of("learned.example").pace.interval_ns == 200 * NS_PER_MS);
	tokens = take("learned.example", 5);
	assert_true(tokens.is_paced);
	assert_int_equal(tokens.taken, 0);
	assert_true(tokens.wait_ns == 200 * NS_PER_MS);
}

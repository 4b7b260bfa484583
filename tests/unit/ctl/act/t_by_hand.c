/* SPDX-License-Identifier: ISC */
/* What people do to destinations, recipients and classes; that it lasts, and can be
 * undone. */
#include "tests/unit/test.h"
#include "engine/decision/decided.h"
#include "tests/unit/random.h"
#include "tests/unit/engine/feed/results.h"

#define CONFIGURATION "classes = ( { name = \"slow\"; match = \"*.slow.example\"; },\n" \
    "  { name = \"c\"; match = \"*\"; } );\n" \
    "mta = ( { name = \"a\"; log = \"/a\"; } );\n"

static const char configuration[] = CONFIGURATION;
static const char providers[] = "version = 1;\n"
    "providers = ( { name = \"big\"; relays = [ \"*.big.example\" ]; } );\n";

static void begin(void) {
	site_open(&site, 64, configuration);
	now_ns = clock_now_ns();
}

static enum by_hand_error act(const struct by_hand *how, struct window_owner *owner) {
	struct by_hand request = *how;

	request.name_length = strlen(how->name);
	if (request.window == 0)
		request.window = BY_HAND_UNSET;
	return windows_by_hand(site.engine, site.generation, &request, now_ns, owner);
}

static enum by_hand_error hand(enum manual_verb verb, const char *name, int64_t seconds) {
	struct window_owner owner;

	return act(&(struct by_hand){ .verb = verb, .name = name,
		.for_ns = seconds * NS_PER_SECOND, .ceiling = BY_HAND_UNSET }, &owner);
}

static int close_site(void **state) {
	site_close(&site);
	return 0;
}

TEST_IN(NULL, close_site, suspend_and_resume) {
	struct window_view view;

	begin();
	assert_int_equal(hand(MANUAL_SUSPEND, "D.example.", 0), BY_HAND_DONE);
	view = view_of("d.example");
	assert_int_equal(view.state, WINDOW_DEAD);
	assert_int_equal(view.window, 0);
	assert_true(view.by == DECIDED_BY_HAND_OF);
	assert_int_equal(view.until_ns, now_ns + 300 * NS_PER_SECOND);
	assert_string_equal(view.reason, "suspended by an administrator");
	/* good news of what was under way do not overrule it */
	sent("d.example", 100);
	assert_int_equal(view_of("d.example").window, 0);
	assert_int_equal(hand(MANUAL_RESUME, "d.example", 0), BY_HAND_DONE);
	view = view_of("d.example");
	assert_int_equal(view.window, 5);
	assert_true(view.resumed_ns >= now_ns && view.resumed_ns < now_ns + NS_PER_SECOND);
	assert_string_equal(view.reason, "");
	/* a shorter one, over by itself */
	assert_int_equal(hand(MANUAL_SUSPEND, "d.example", 60), BY_HAND_DONE);
	pass(59);
	assert_int_equal(view_of("d.example").window, 0);
	pass(2);
	assert_int_equal(view_of("d.example").window, 5);
	assert_false(view_of("d.example").by == DECIDED_BY_HAND_OF);
}

/* Suspended as its deliveries failed; then `set NAME --window`. */
TEST_IN(NULL, close_site, a_window_set_while_dead_does_not_become_a_rule) {
	struct by_hand set = { .verb = MANUAL_LIMIT, .name = "d.example", .window = 3,
		.ceiling = BY_HAND_UNSET };
	struct window_owner owner;
	struct window_view view;

	begin();
	for (unsigned i = 0; i < 20 && view_of("d.example").state != WINDOW_DEAD; i++)
		failed("d.example", down);
	view = view_of("d.example");
	assert_int_equal(view.by, DECIDED_BY_COHORTS);
	assert_int_equal(act(&set, &owner), BY_HAND_DONE);
	assert_int_equal(view_of("d.example").state, WINDOW_DEAD);
	assert_int_equal(view_of("d.example").by, DECIDED_BY_COHORTS);
	assert_int_equal(view_of("d.example").until_ns, view.until_ns);
	assert_int_equal(view_of("d.example").stored, 3);
	/* across a restart with another table, too: by the text of the state */
	site_restart(&site, 128, configuration);
	assert_int_equal(view_of("d.example").by, DECIDED_BY_COHORTS);
	sent("d.example", 100);
	assert_int_equal(view_of("d.example").state, WINDOW_OPEN);
}

TEST_IN(NULL, close_site, held_until_it_is_resumed) {
	begin();
	assert_int_equal(hand(MANUAL_HOLD, "d.example", 0), BY_HAND_DONE);
	assert_int_equal(view_of("d.example").state, WINDOW_HELD);
	assert_int_equal(view_of("d.example").until_ns, INT64_MAX);
	pass(86400);
	assert_int_equal(view_of("d.example").window, 0);
	/* neither failures nor another table size, nor a rule, end it */
	for (int i = 0; i < 20; i++)
		failed("d.example", down);
	site_restart(&site, 128, configuration);
	assert_true(site.report.origin == SEGMENT_REBUILT || site.report.origin == SEGMENT_ADOPTED);
	assert_int_equal(view_of("d.example").state, WINDOW_HELD);
	assert_string_equal(view_of("d.example").reason, "held by an administrator");
	assert_int_equal(hand(MANUAL_RESUME, "d.example", 0), BY_HAND_DONE);
	assert_int_equal(view_of("d.example").window, 5);
	/* a hold may have an end, and a suspension in its place is a shorter one */
	assert_int_equal(hand(MANUAL_HOLD, "d.example", 3600), BY_HAND_DONE);
	assert_int_equal(hand(MANUAL_SUSPEND, "d.example", 60), BY_HAND_DONE);
	assert_int_equal(view_of("d.example").state, WINDOW_DEAD);
	pass(61);
	assert_int_equal(view_of("d.example").window, 5);
}

TEST_IN(NULL, close_site, the_echo_does_not_bring_it_back) {
	begin();
	for (int i = 0; i < 8; i++)
		failed("d.example", down);
	assert_int_equal(view_of("d.example").state, WINDOW_DEAD);
	now_ns += NS_PER_SECOND;
	assert_int_equal(hand(MANUAL_RESUME, "d.example", 0), BY_HAND_DONE);
	now_ns += NS_PER_SECOND;
	/* each was tried for 30 s */
	for (int i = 0; i < 20; i++)
		(void)feed_line(&(struct line){ .domain = "d.example", .text = down,
			.status = DELIVERY_DEFERRED, .took_ms = 30000 });
	assert_int_equal(view_of("d.example").window, 5);
	assert_int_equal(view_of("d.example").state, WINDOW_OPEN);
	/* begun since: that is news */
	now_ns += 60 * NS_PER_SECOND;
	for (int i = 0; i < 20; i++)
		(void)feed_line(&(struct line){ .domain = "d.example", .text = down,
			.status = DELIVERY_DEFERRED, .took_ms = 30000 });
	assert_int_equal(view_of("d.example").state, WINDOW_DEAD);
}

TEST_IN(NULL, close_site, set_and_forget) {
	struct by_hand set = { .verb = MANUAL_LIMIT, .name = "d.example", .window = 8,
		.ceiling = 8, .for_ns = 3600 * NS_PER_SECOND };
	struct window_owner owner;
	struct window_view view;

	begin();
	assert_int_equal(act(&set, &owner), BY_HAND_DONE);
	view = view_of("d.example");
	assert_int_equal(view.state, WINDOW_LIMITED);
	assert_int_equal(view.window, 8);
	assert_int_equal(view.ceiling, 8);
	pass(3599);
	assert_false(view_of("d.example").canary_due);
	pass(2);
	assert_true(view_of("d.example").canary_due);
	for (int i = 0; i < 200; i++) {
		now_ns += NS_PER_SECOND;
		sent("d.example", 100);
		engine_feed_turn(site.engine, site.generation, now_ns);
	}
	assert_true(view_of("d.example").window <= 8);
	/* what is suspended stays so, with another window when it comes back */
	assert_int_equal(hand(MANUAL_SUSPEND, "d.example", 100), BY_HAND_DONE);
	set.window = 2;
	set.ceiling = BY_HAND_UNSET;
	assert_int_equal(act(&set, &owner), BY_HAND_DONE);
	assert_int_equal(view_of("d.example").window, 0);
	assert_int_equal(view_of("d.example").stored, 2);
	/* the ceiling goes, the suspension stays: each by itself */
	set.ceiling = 0;
	assert_int_equal(act(&set, &owner), BY_HAND_DONE);
	assert_int_equal(view_of("d.example").ceiling, 0);
	assert_int_equal(view_of("d.example").state, WINDOW_DEAD);
	assert_int_equal(hand(MANUAL_FORGET, "d.example", 0), BY_HAND_DONE);
	view = view_of("d.example");
	assert_false(view.known);
	assert_int_equal(view.window, 5);
	assert_int_equal(view.ok, 0);
	assert_int_equal(hand(MANUAL_FORGET, "never.example", 0), BY_HAND_NOTHING);
	assert_int_equal(hand(MANUAL_RESUME, "never.example", 0), BY_HAND_NOTHING);
}

TEST(one_domain_of_a_provider) {
	struct line line = { .domain = "one.example", .relay_name = "mx.big.example",
		.relay = "198.51.100.1", .status = DELIVERY_SENT, .text = accepted };
	struct by_hand set = { .verb = MANUAL_LIMIT, .name = "one.example", .window = 3,
		.ceiling = BY_HAND_UNSET };
	struct window_owner owner;

	site_providers = providers;
	begin();
	(void)feed_line(&line);
	line.domain = "two.example";
	(void)feed_line(&line);
	assert_int_equal(hand(MANUAL_HOLD, "one.example", 0), BY_HAND_DONE);
	assert_int_equal(view_of("one.example").window, 0);
	assert_int_equal(view_of("two.example").window, 5);
	assert_int_equal(view_of("provider:big").window, 5);
	assert_int_equal(hand(MANUAL_RESUME, "one.example", 0), BY_HAND_DONE);
	assert_string_equal(owner_of("one.example").name, "provider:big");
	/* what is shared is to be named */
	assert_int_equal(act(&set, &owner), BY_HAND_SHARED);
	assert_string_equal(owner.name, "provider:big");
	set.name = "provider:big";
	assert_int_equal(act(&set, &owner), BY_HAND_DONE);
	assert_int_equal(view_of("two.example").window, 3);
	assert_int_equal(hand(MANUAL_SUSPEND, "Provider:BIG", 10), BY_HAND_DONE);
	assert_int_equal(view_of("one.example").window, 0);
	assert_int_equal(hand(MANUAL_SUSPEND, "provider:small", 10), BY_HAND_BAD_NAME);
	site_close(&site);
	site_providers = NULL;
}

TEST_IN(NULL, close_site, recipients) {
	struct window_held held;
	struct by_hand set = { .verb = MANUAL_LIMIT, .name = "u@d.example", .window = 3 };
	struct window_owner owner;

	begin();
	assert_int_equal(hand(MANUAL_HOLD, "u@d.example", 0), BY_HAND_DONE);
	assert_true(windows_recipient_held(site.engine, site.generation, "U@D.example", 11,
	    now_ns + 86400 * NS_PER_SECOND, &held));
	assert_string_equal(held.reason, "held by an administrator");
	assert_int_equal(view_of("d.example").window, 5);
	assert_int_equal(hand(MANUAL_RESUME, "u@d.example", 0), BY_HAND_DONE);
	assert_false(windows_recipient_held(site.engine, site.generation, "u@d.example", 11,
	    now_ns, &held));
	assert_int_equal(hand(MANUAL_RESUME, "u@d.example", 0), BY_HAND_NOTHING);
	assert_int_equal(hand(MANUAL_SUSPEND, "u@d.example", 60), BY_HAND_DONE);
	now_ns += 61 * NS_PER_SECOND;
	assert_false(windows_recipient_held(site.engine, site.generation, "u@d.example", 11,
	    now_ns, &held));
	assert_int_equal(act(&set, &owner), BY_HAND_SENSELESS);
	assert_int_equal(hand(MANUAL_HOLD, "u@", 0), BY_HAND_BAD_NAME);
	assert_int_equal(hand(MANUAL_HOLD, "@d.example", 0), BY_HAND_BAD_NAME);
	assert_int_equal(hand(MANUAL_HOLD, "a b@d.example", 0), BY_HAND_BAD_NAME);
}

TEST_IN(NULL, close_site, classes) {
	struct by_hand hold = { .verb = MANUAL_HOLD, .name = "slow", .class = true,
		.ceiling = BY_HAND_UNSET, .reason = "their line is cut" };
	struct window_owner owner;
	struct window_held held;

	begin();
	assert_false(windows_class_held(site.engine, site.generation, 0, now_ns, &held));
	assert_int_equal(act(&hold, &owner), BY_HAND_DONE);
	assert_true(windows_class_held(site.engine, site.generation, 0, now_ns, &held));
	assert_string_equal(held.reason, "their line is cut");
	assert_false(windows_class_held(site.engine, site.generation, 1, now_ns, &held));
	assert_false(windows_class_held(site.engine, site.generation, CLASS_NO_RULE, now_ns,
	    &held));
	hold.verb = MANUAL_RESUME;
	assert_int_equal(act(&hold, &owner), BY_HAND_DONE);
	assert_false(windows_class_held(site.engine, site.generation, 0, now_ns, &held));
	hold.verb = MANUAL_SUSPEND;
	hold.for_ns = 5 * NS_PER_SECOND;
	assert_int_equal(act(&hold, &owner), BY_HAND_DONE);
	assert_true(windows_class_held(site.engine, site.generation, 0, now_ns, &held));
	pass(6);
	assert_false(windows_class_held(site.engine, site.generation, 0, now_ns, &held));
	hold.name = "none";
	assert_int_equal(act(&hold, &owner), BY_HAND_BAD_NAME);
	hold.name = "slow";
	hold.verb = MANUAL_LIMIT;
	hold.window = 4;
	assert_int_equal(act(&hold, &owner), BY_HAND_SENSELESS);
	/* nobody gets at a class by the name of a destination */
	assert_int_equal(hand(MANUAL_HOLD, "class:slow", 0), BY_HAND_BAD_NAME);
}

/* All of these may be held, and none of them is another one. */
TEST_IN(NULL, close_site, classes_whose_names_are_nearly_the_same) {
#define LONG "a-class-of-a-name-that-is-as-long-as-a-destination-may-be-and-much-the-same-"
	static const char *const list[] = { "slow", "Slow", "sLow", "^slow", "slow.",
		LONG "1", LONG "2" };
	enum { COUNT = sizeof(list) / sizeof(list[0]) };
	char text[2048] = "classes = (";
	struct window_owner owner;
	struct window_held held;
	size_t length = strlen(text);

	for (unsigned i = 0; i < COUNT; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length,
		    "%s { name = \"%s\"; match = \"*.c%u.example\"; hold_at = 1; }",
		    i > 0 ? "," : "", list[i], i);
	snprintf(text + length, sizeof(text) - length,
	    " );\nmta = ( { name = \"a\"; log = \"/a\"; } );\n");
	site_open(&site, 64, text);
	now_ns = clock_now_ns();
	for (unsigned i = 0; i < COUNT; i++) {
		struct by_hand hold = { .verb = MANUAL_HOLD, .name = list[i], .class = true,
			.ceiling = BY_HAND_UNSET };

		assert_int_equal(act(&hold, &owner), BY_HAND_DONE);
		for (unsigned k = 0; k < COUNT; k++)
			assert_int_equal(windows_class_held(site.engine, site.generation, k,
			    now_ns, &held), k == i);
		hold.verb = MANUAL_RESUME;
		assert_int_equal(act(&hold, &owner), BY_HAND_DONE);
	}
}

static const char rules[] = "version = 1;\n"
    "providers = ( { name = \"big\"; relays = [ \"*.big.example\"];\n"
    "  replies = ( { name = \"slow\"; match = \"^451 4\\\\.7\\\\.1\"; class = \"remote-throttle\";\n"
    "      action = \"suspend\"; for = \"1h\"; },\n"
    "    { name = \"one\"; match = \"^450 4\\\\.2\\\\.1\"; action = \"hold-recipient\"; for = \"1h\"; } ); } );\n";

/* A rule would hold it for longer, for another reason. */
TEST(a_rule_leaves_what_people_said) {
	struct line line = { .domain = "d.example", .relay_name = "mx.big.example",
		.relay = "198.51.100.1", .status = DELIVERY_DEFERRED, .recipient = "u@d.example",
		.text = "host mx.big.example[198.51.100.1] said: 451 4.7.1 slow down" };
	const struct by_hand hold = { .verb = MANUAL_HOLD, .name = "u@d.example",
		.ceiling = BY_HAND_UNSET, .for_ns = 60 * NS_PER_SECOND, .reason = "he asked for it" };
	struct window_owner owner;
	struct window_held held;
	int64_t until_ns;

	site_providers = rules;
	begin();
	sent("d.example", 100);
	assert_int_equal(hand(MANUAL_SUSPEND, "provider:big", 60), BY_HAND_DONE);
	(void)feed_line(&line);
	until_ns = view_of("provider:big").until_ns;
	assert_int_equal(until_ns, now_ns + 60 * NS_PER_SECOND);
	assert_string_equal(view_of("provider:big").reason, "suspended by an administrator");
	assert_true(view_of("provider:big").by == DECIDED_BY_HAND_OF);
	pass(61);
	assert_int_equal(view_of("provider:big").state, WINDOW_OPEN);
	(void)feed_line(&line);
	assert_int_equal(view_of("provider:big").until_ns, now_ns + 3600 * NS_PER_SECOND);

	assert_int_equal(act(&hold, &owner), BY_HAND_DONE);
	line.text = "host mx.big.example[198.51.100.1] said: 450 4.2.1 not so fast";
	(void)feed_line(&line);
	assert_true(windows_recipient_held(site.engine, site.generation, "u@d.example", 11,
	    now_ns, &held));
	assert_string_equal(held.reason, "he asked for it");
	assert_int_equal(held.until_ns, now_ns + 60 * NS_PER_SECOND);
	site_close(&site);
	site_providers = NULL;
}

TEST_IN(NULL, close_site, names) {
	char longest[SEGMENT_NAME_MAX + 2];

	begin();
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(hand(MANUAL_HOLD, longest, 0), BY_HAND_BAD_NAME);
	longest[SEGMENT_NAME_MAX] = '\0';
	assert_int_equal(hand(MANUAL_HOLD, longest, 0), BY_HAND_DONE);
	assert_int_equal(hand(MANUAL_HOLD, "a b.example", 0), BY_HAND_BAD_NAME);
	assert_int_equal(hand(MANUAL_HOLD, "", 0), BY_HAND_BAD_NAME);
	assert_int_equal(hand(MANUAL_HOLD, ".", 0), BY_HAND_BAD_NAME);
	assert_int_equal(hand(MANUAL_HOLD, "[127.0.0.1]:10024", 0), BY_HAND_DONE);
	assert_int_equal(view_of("[127.0.0.1]:10024").state, WINDOW_HELD);
	assert_int_equal(hand(MANUAL_HOLD, "[mail.example]", 0), BY_HAND_DONE);
	assert_int_equal(view_of("mail.example").state, WINDOW_HELD);
}

/* Whatever is done and happens: what a hold says stands until it is over or undone, and
 * what is not held is as the law says. */
TEST_IN(NULL, close_site, a_hold_is_a_hold) {
	enum { STEPS = 30000 };
	struct random random = random_seeded("a_hold_is_a_hold");
	int64_t until_ns = 0;	/* of the model: held up to then */

	begin();
	for (int step = 0; step < STEPS; step++) {
		int64_t seconds = 1 + (int64_t)random_below(&random, 600);
		struct window_view view;

		now_ns += (int64_t)random_below(&random, 20000) * NS_PER_MS;
		switch (random_below(&random, 12)) {
		case 0:
			assert_int_equal(hand(MANUAL_SUSPEND, "d.example", seconds),
			    BY_HAND_DONE);
			until_ns = now_ns + seconds * NS_PER_SECOND;
			break;
		case 1:
			assert_int_equal(hand(MANUAL_HOLD, "d.example", 0), BY_HAND_DONE);
			until_ns = INT64_MAX;
			break;
		case 2:
			if (hand(MANUAL_RESUME, "d.example", 0) == BY_HAND_DONE)
				until_ns = 0;
			break;
		case 3:
			if (hand(MANUAL_FORGET, "d.example", 0) == BY_HAND_DONE)
				until_ns = 0;
			break;
		case 4:
			windows_turn(site.engine, site.generation, now_ns);
			break;
		case 5:
		case 6:
			failed("d.example", down);
			break;
		default:
			sent("d.example", 100);
			engine_feed_turn(site.engine, site.generation, now_ns);
		}
		view = view_of("d.example");
		assert_int_equal(view.by == DECIDED_BY_HAND_OF, now_ns < until_ns);
		if (now_ns < until_ns)
			assert_int_equal(view.window, 0);
		else
			assert_true(view.window > 0 || view.state == WINDOW_DEAD);
		if (now_ns < until_ns)
			assert_int_equal(view.until_ns, until_ns);
	}
}

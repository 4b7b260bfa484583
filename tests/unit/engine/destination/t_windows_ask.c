/* SPDX-License-Identifier: ISC */
/* Windows of a mail server that asks before each connect: places, canaries, processes
 * that come and go; and bulk mail at the door. */
#include "tests/unit/test.h"
#include "base/process.h"
#include "tests/unit/random.h"
#include "tests/unit/engine/feed/results.h"

#define CONFIGURATION "classes = ( { name = \"bulk\"; match = \"192.0.2.0/24\"; bulk = true; },\n" \
    "  { name = \"c\"; match = \"*\"; } );\n" \
    "mta = ( { name = \"s\"; kind = \"sendmail\"; log = \"/a\"; } );\n"

static const char configuration[] = CONFIGURATION;

static void begin(const char *text) {
	site_open(&site, 64, text);
	now_ns = clock_now_ns();
}

static struct windows_places *process(int32_t pid) {
	const struct process_identity identity = { .pid = pid, .start_ticks = 7 };
	struct windows_places *places = windows_places_open(site.engine, &identity);

	assert_non_null(places);
	return places;
}

static struct window_asked ask(struct windows_places *places, const char *name,
    const char *queue_id) {
	struct window_owner owner = owner_of(name);
	const struct window_question question = { .owner = &owner, .places = places,
		.queue_id = queue_id, .queue_id_length = strlen(queue_id), .mta = 0 };
	struct window_asked asked;

	windows_ask(site.engine, site.generation, &question, now_ns, &asked);
	return asked;
}

/* The server has let it in. */
static void connects(struct windows_places *places, const char *name, const char *queue_id) {
	struct window_owner owner = owner_of(name);
	const struct window_question question = { .owner = &owner, .places = places,
		.queue_id = queue_id, .queue_id_length = strlen(queue_id), .mta = 0 };

	windows_connected(site.engine, site.generation, &question, now_ns);
}

static void result(const char *domain, const char *queue_id, bool good) {
	struct delivery d = { .source = DELIVERY_OF_SENDMAIL, .agent = AGENT_SMTP,
		.status = good ? DELIVERY_SENT : DELIVERY_DEFERRED,
		.program = span_of("sendmail"), .mailer = span_of("esmtp"),
		.queue_id = span_of(queue_id), .recipient = span_of("u@d.example"),
		.domain = span_of(domain), .relay = span_of("mx.example.net. [192.0.2.1]"),
		.relay_name = span_of("mx.example.net"), .relay_port = 25,
		.delays_ms = { -1, -1, -1, 1000 }, .dsn = { good ? 2 : 4, 0, 0 },
		.text = span_of(good ? "Sent (ok)" : "Deferred: 421 4.7.0 too many"),
		.reply = span_of(good ? "" : "421 4.7.0 too many"), .recipients = 1 };
	const struct feed_origin origin = { .log = 0 };

	assert_true(address_parse("192.0.2.1", 9, &d.relay_address));
	(void)engine_feed_delivery(site.engine, site.generation, 1, &d, &origin, now_ns);
}

static struct windows_places *p[6];	/* of processes 100, 101 ... that a test opens */

static int close_site(void **state) {
	for (int i = 0; i < 6; i++)
		windows_places_close(&p[i], true, now_ns);
	site_close(&site);
	return 0;
}

TEST_IN(NULL, close_site, places_are_kept_until_the_end) {
	struct window_asked asked;

	begin(configuration);
	for (int i = 0; i < 5; i++) {
		p[i] = process(100 + i);
		asked = ask(p[i], "d.example", "q1");
		assert_int_equal(asked.answer, WINDOW_GO);
		assert_int_equal(asked.level, i + 1);
		assert_int_equal(asked.in_flight, i + 1);
		assert_int_equal(asked.window, 5);
	}
	p[5] = process(200);
	asked = ask(p[5], "d.example", "q2");
	assert_int_equal(asked.answer, WINDOW_FULL);
	assert_int_equal(asked.in_flight, 5);
	assert_int_equal(ask(p[5], "other.example", "q2").answer, WINDOW_GO);
	/* the next message of a process that is there */
	asked = ask(p[2], "d.example", "q9");
	assert_int_equal(asked.answer, WINDOW_GO);
	assert_int_equal(asked.level, 5);
	assert_int_equal(asked.in_flight, 5);
	windows_places_close(&p[0], true, now_ns);
	assert_int_equal(view_of("d.example").in_flight, 4);
	assert_int_equal(ask(p[5], "d.example", "q2").answer, WINDOW_GO);
	for (int i = 1; i < 6; i++)
		windows_places_close(&p[i], true, now_ns);
	assert_int_equal(view_of("d.example").in_flight, 0);
	assert_int_equal(view_of("other.example").in_flight, 0);
}

TEST_IN(NULL, close_site, another_connection_goes_on_with_them) {
	struct process_identity own = { .pid = getpid() };
	struct windows_places *old, *new;

	begin(configuration);
	old = process(100);
	assert_int_equal(ask(old, "d.example", "q1").answer, WINDOW_GO);
	/* the role died */
	windows_places_close(&old, false, now_ns);
	assert_int_equal(view_of("d.example").in_flight, 1);
	new = process(100);
	assert_int_equal(ask(new, "d.example", "q2").answer, WINDOW_GO);
	assert_int_equal(view_of("d.example").in_flight, 1);
	windows_places_close(&new, true, now_ns);
	assert_int_equal(view_of("d.example").in_flight, 0);
	/* one whose process is not there */
	old = process(0x7ffffff0);
	assert_int_equal(ask(old, "d.example", "q3").answer, WINDOW_GO);
	windows_places_close(&old, false, now_ns);
	/* one that lives is asked after again soon */
	assert_true(process_start_ticks(getpid(), &own.start_ticks));
	new = windows_places_open(site.engine, &own);
	assert_int_equal(ask(new, "other.example", "q4").answer, WINDOW_GO);
	assert_in_range(windows_turn(site.engine, site.generation, now_ns), now_ns + 1,
	    now_ns + NS_PER_SECOND);
	assert_int_equal(view_of("d.example").in_flight, 0);
	windows_places_close(&new, true, now_ns);
}

/* Who goes on when the window has shrunk: never more than it says. */
TEST_IN(NULL, close_site, a_smaller_window_lets_fewer_go_on) {
	unsigned go = 0;

	begin(configuration);
	for (int i = 0; i < 5; i++) {
		p[i] = process(100 + i);
		(void)ask(p[i], "d.example", "q1");
	}
	site_reload(&site, CONFIGURATION "window = { destination_concurrency_limit = 2; };\n");
	for (int i = 0; i < 5; i++)
		go += ask(p[i], "d.example", "q2").answer == WINDOW_GO;
	assert_int_equal(go, 2);
}

TEST_IN(NULL, close_site, levels_are_exact) {
	char id[16];

	begin(configuration);
	for (int i = 0; i < 5; i++) {
		p[i] = process(100 + i);
		snprintf(id, sizeof(id), "q%d", i);
		assert_int_equal(ask(p[i], "d.example", id).answer, WINDOW_GO);
		if (i < 4)
			connects(p[i], "d.example", id);
	}
	result("d.example", "q4", false);	/* the fifth */
	assert_int_equal(view_of("d.example").ceiling, 4);
	assert_int_equal(view_of("d.example").window, 4);
	/* it has no connection, and so no place */
	assert_int_equal(view_of("d.example").in_flight, 4);
}

/* Five ask before anybody has connected; the server takes two, in an order of its own. */
TEST_IN(NULL, close_site, levels_of_those_that_ask_at_once) {
	static const int let_in[] = { 3, 1 };
	char id[16];

	begin(configuration);
	for (int i = 0; i < 5; i++) {
		p[i] = process(100 + i);
		snprintf(id, sizeof(id), "q%d", i);
		assert_int_equal(ask(p[i], "d.example", id).answer, WINDOW_GO);
	}
	for (int i = 0; i < 2; i++) {
		snprintf(id, sizeof(id), "q%d", let_in[i]);
		connects(p[let_in[i]], "d.example", id);
	}
	result("d.example", "q0", false);
	result("d.example", "q2", false);
	result("d.example", "q3", true);
	result("d.example", "q4", false);
	result("d.example", "q1", true);
	assert_int_equal(view_of("d.example").ceiling, 2);
	assert_int_equal(view_of("d.example").in_flight, 2);
	/* one that was refused asks for its next message: there is no place */
	assert_int_equal(ask(p[0], "d.example", "q5").answer, WINDOW_FULL);
	assert_int_equal(ask(p[1], "d.example", "q5").answer, WINDOW_GO);
	for (int i = 0; i < 5; i++)
		windows_places_close(&p[i], true, now_ns);
	assert_int_equal(view_of("d.example").in_flight, 0);
}

TEST_IN(NULL, close_site, a_canary_goes_above) {
	struct by_hand set = { .verb = MANUAL_LIMIT, .name = "d.example", .name_length = 9,
		.window = 2, .ceiling = 2 };
	struct window_owner owner;

	begin(configuration);
	assert_int_equal(windows_by_hand(site.engine, site.generation, &set, now_ns, &owner),
	    BY_HAND_DONE);
	for (int i = 0; i < 4; i++)
		p[i] = process(100 + i);
	assert_int_equal(ask(p[0], "d.example", "q0").answer, WINDOW_GO);
	assert_int_equal(ask(p[1], "d.example", "q1").answer, WINDOW_GO);
	assert_int_equal(ask(p[2], "d.example", "q2").answer, WINDOW_FULL);
	pass(601);
	/* the sweep took the places of processes that never were */
	(void)ask(p[0], "d.example", "q5");
	(void)ask(p[1], "d.example", "q6");
	assert_int_equal(ask(p[2], "d.example", "q2").answer, WINDOW_GO_CANARY);
	assert_true(view_of("d.example").canary_out);
	/* its other recipients */
	assert_int_equal(ask(p[2], "d.example", "q2").answer, WINDOW_GO);
	assert_int_equal(ask(p[3], "d.example", "q3").answer, WINDOW_FULL);
	result("d.example", "q2", true);
	assert_int_equal(view_of("d.example").ceiling, 3);
	assert_false(view_of("d.example").canary_out);
}

static const char paced[] = CONFIGURATION
    "destinations = ( { match = [ \"d.example\" ]; pace = \"6/1m\"; pace_burst = 2; } );\n";

TEST_IN(NULL, close_site, each_message_takes_a_token) {
	struct window_asked asked;

	begin(paced);
	for (int i = 0; i < 3; i++)
		p[i] = process(100 + i);
	assert_int_equal(ask(p[0], "d.example", "q0").answer, WINDOW_GO);
	/* its other recipients, and the same once it is connected */
	for (int i = 0; i < 5; i++)
		assert_int_equal(ask(p[0], "d.example", "q0").answer, WINDOW_GO);
	now_ns += NS_PER_MS;
	assert_int_equal(ask(p[1], "d.example", "q1").answer, WINDOW_GO);
	asked = ask(p[2], "d.example", "q2");
	assert_int_equal(asked.answer, WINDOW_PACED);
	assert_false(asked.observed);
	assert_int_equal(asked.interval_ns, 10 * NS_PER_SECOND);
	assert_int_equal(view_of("d.example").in_flight, 2);
	/* its next message has none either; other destinations have no pace */
	assert_int_equal(ask(p[0], "d.example", "q3").answer, WINDOW_PACED);
	assert_int_equal(ask(p[2], "other.example", "q2").answer, WINDOW_GO);
	/* results take none */
	result("d.example", "q0", true);
	result("d.example", "q1", true);
	pass(10);
	assert_int_equal(ask(p[2], "d.example", "q2").answer, WINDOW_GO);
	assert_int_equal(ask(p[1], "d.example", "q3").answer, WINDOW_PACED);
}

TEST_IN(NULL, close_site, the_suspended_are_told_why) {
	struct window_asked asked;

	begin(configuration);
	p[0] = process(100);
	for (int i = 0; i < 8; i++)
		result("d.example", "qx", false), now_ns += 5 * NS_PER_SECOND;
	asked = ask(p[0], "d.example", "q1");
	assert_int_equal(asked.answer, WINDOW_SUSPENDED);
	assert_false(asked.observed);
	assert_string_equal(asked.reason, "421 4.7.0 too many");
	assert_true(asked.until_ns > now_ns);
	assert_int_equal(view_of("d.example").in_flight, 0);
	site_reload(&site, CONFIGURATION "outbound = { observe = true; };\n");
	asked = ask(p[0], "d.example", "q1");
	assert_int_equal(asked.answer, WINDOW_SUSPENDED);
	assert_true(asked.observed);
	assert_int_equal(view_of("d.example").in_flight, 1);
}

/* Many processes, one destination that takes seven connections, any order: never more
 * within the window than it holds, and what is counted is what is there. */
TEST_IN(NULL, close_site, never_more_than_the_window) {
	enum { PROCESSES = 40, STEPS = 20000 };
	struct windows_places *all[PROCESSES] = { NULL };
	bool sends[PROCESSES] = { false }, canary[PROCESSES] = { false };
	struct random random = random_seeded("never_more_than_the_window");
	unsigned sending = 0, canaries = 0;
	char id[16];

	begin(configuration);
	for (int step = 0; step < STEPS; step++) {
		unsigned i = random_below(&random, PROCESSES);

		now_ns += (int64_t)random_below(&random, 200) * NS_PER_MS;
		snprintf(id, sizeof(id), "q%d", step);
		if (all[i] == NULL) {
			all[i] = process((int32_t)(1000 + i));
		} else if (sends[i]) {
			sends[i] = false;
			sending -= !canary[i];
			canaries -= canary[i];
			canary[i] = false;
		} else if (random_below(&random, 8) == 0) {
			windows_places_close(&all[i], true, now_ns);
		} else {
			struct window_asked asked = ask(all[i], "d.example", id);

			sends[i] = asked.answer == WINDOW_GO ||
			    asked.answer == WINDOW_GO_CANARY;
			canary[i] = asked.answer == WINDOW_GO_CANARY;
			sending += sends[i] && !canary[i];
			canaries += canary[i];
			if (sends[i]) {
				assert_true(sending <= asked.window);
				assert_true(sending + canaries <= asked.window + 1);
				if (asked.in_flight <= 7)
					connects(all[i], "d.example", id);
				result("d.example", id, asked.in_flight <= 7);
				if (asked.in_flight > 7) {
					sends[i] = false;
					sending -= !canary[i];
					canaries -= canary[i];
					canary[i] = false;
					windows_places_close(&all[i], true, now_ns);
				}
			}
		}
	}
	assert_int_equal(view_of("d.example").ceiling, 7);
	for (int i = 0; i < PROCESSES; i++)
		windows_places_close(&all[i], true, now_ns);
	assert_int_equal(view_of("d.example").in_flight, 0);
}

static bool presses(const char *recipient, uint32_t class_index) {
	const struct question question = { .client_port = 0 };
	struct window_pressure pressure;

	return windows_press_back(site.engine, site.generation, &question, class_index, recipient,
	    strlen(recipient), now_ns, &pressure) && !pressure.observed;
}

TEST_IN(NULL, close_site, bulk_waits_at_the_door) {
	begin(CONFIGURATION "outbound = { back_pressure = true; };\n");
	assert_false(presses("u@d.example", 0));
	for (int i = 0; i < 8; i++)
		result("d.example", "qx", false), now_ns += 5 * NS_PER_SECOND;
	assert_true(presses("u@d.example", 0));
	assert_true(presses("\"a@b\"@D.Example", 0));
	assert_false(presses("u@d.example", 1));
	assert_false(presses("u@d.example", CLASS_NO_RULE));
	assert_false(presses("u@other.example", 0));
	assert_false(presses("u", 0));
	assert_false(presses("", 0));
	assert_false(presses("u@", 0));
	now_ns += 301 * NS_PER_SECOND;
	assert_false(presses("u@d.example", 0));
	now_ns -= 301 * NS_PER_SECOND;
	site_reload(&site, CONFIGURATION
	    "outbound = { back_pressure = true; observe = true; };\n");
	assert_false(presses("u@d.example", 0));
	site_reload(&site, CONFIGURATION);
	assert_false(presses("u@d.example", 0));
}

/* Anybody can send mail to such a domain: what is held within is not his to name. */
TEST(a_recipient_names_no_provider_class_or_relay) {
	static const char *const names[] = { "provider:big", "class:c", "[192.0.2.1]:25" };

	site_providers = "version = 1; providers = ( { name = \"big\"; "
	    "relays = [ \"*.big.example\" ]; } );\n";
	begin(CONFIGURATION "outbound = { back_pressure = true; };\n");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct by_hand request = { .verb = MANUAL_HOLD,
			.class = i == 1, .name = i == 1 ? "c" : names[i],
			.window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET };
		struct window_owner owner;
		char recipient[64];

		request.name_length = strlen(request.name);
		assert_int_equal(windows_by_hand(site.engine, site.generation, &request,
		    now_ns, &owner), BY_HAND_DONE);
		snprintf(recipient, sizeof(recipient), "u@%s", names[i]);
		assert_false(presses(recipient, 0));
		windows_owner_of_host(site.engine, site.generation, names[i], strlen(names[i]),
		    GENERATION_MTAS_MAX, &owner);
		assert_int_equal(owner.kind, DESTINATION_NONE);
	}
	site_close(&site);
	site_providers = NULL;
}

TEST_IN(NULL, close_site, odd_names_are_no_destinations) {
	static const char *const odd[] = { "", ".", ";xample.org", "a b", "a/b", "a:25", "<a>",
		"\"a\"", "x\001y", "[a", "a]", "[]", "[a;b]", "[192.0.2.1]:25", "*" };
	static const struct {
		const char *name, *owner;
	} good[] = { { "D.Example.", "d.example" }, { "[Mx.example]", "mx.example" },
		{ "[192.0.2.1]", "[192.0.2.1]" }, { "[IPv6:2001:db8::1]", "[2001:db8::1]" },
		{ "_a-b.example", "_a-b.example" }, { "b\303\274cher.example",
		"b\303\274cher.example" } };
	struct window_owner owner;

	begin(CONFIGURATION);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		windows_owner_of_host(site.engine, site.generation, odd[i], strlen(odd[i]),
		    GENERATION_MTAS_MAX, &owner);
		if (owner.kind != DESTINATION_NONE)
			fail_msg("%s", odd[i]);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		windows_owner_of_host(site.engine, site.generation, good[i].name,
		    strlen(good[i].name), GENERATION_MTAS_MAX, &owner);
		assert_string_equal(owner.name, good[i].owner);
	}
}

/* A process that comes again after a role's death keeps its rank. */
TEST_IN(NULL, close_site, a_rank_is_kept_on_another_connection) {
	const struct by_hand request = { .verb = MANUAL_LIMIT, .name = "d.example",
		.name_length = 9, .window = 2, .ceiling = BY_HAND_UNSET };
	struct window_owner owner;
	unsigned gone = 0;

	begin(configuration);
	for (int i = 0; i < 5; i++) {
		char id[16];

		snprintf(id, sizeof(id), "first%d", i);
		p[i] = process(100 + i);
		assert_int_equal(ask(p[i], "d.example", id).answer, WINDOW_GO);
	}
	assert_int_equal(windows_by_hand(site.engine, site.generation, &request, now_ns,
	    &owner), BY_HAND_DONE);
	for (int i = 0; i < 5; i++)
		windows_places_close(&p[i], false, now_ns);
	for (int i = 0; i < 5; i++) {
		char id[16];

		snprintf(id, sizeof(id), "second%d", i);
		p[i] = process(100 + i);
		gone += ask(p[i], "d.example", id).answer == WINDOW_GO;
	}
	assert_int_equal(gone, 2);
}

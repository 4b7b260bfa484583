/* SPDX-License-Identifier: ISC */
/* What the engine notes of its decisions, for posternctl why: who, by which line, what was
 * counted, what led to it. */
#include "tests/unit/test.h"
#include "engine/outbound/outbound.h"
#include "segment/decision/decisions.h"
#include "segment/file/internal.h"
#include "segment/destination/recipients.h"
#include "segment/destination/states.h"
#include "tests/unit/engine/feed/results.h"

/* Lines are counted from the begin of this text by the tests: see line_of. */
static const char classes[] =
    "classes = (\n"
    "  { name = \"few\";\n"
    "    match = [ \"*.few.example\",\n"
    "      \"192.0.2.0/24\" ];\n"
    "    hold_at = 2;\n"
    "    refuse_at = 2;\n"
    "    client = { sessions = 1; }; },\n"
    "  { name = \"rate\"; match = \"198.51.100.0/24\"; hold_at = 50;\n"
    "    rate = \"60/1m\"; burst = 1; },\n"
    "  { name = \"seen\"; match = \"203.0.113.0/24\"; refuse_at = 1;\n"
    "    observe = true; },\n"
    "  { name = \"late\"; match = \"100.64.0.0/10\"; refuse_at = 1; action = \"defer\"; },\n"
    "  { name = \"all\"; match = \"*\"; } );\n"
    "window = { suspend = \"10m\"; };\n"
    "mta = ( { name = \"out\"; log = \"/a\"; } );\n";

static const char providers[] = "version = 1;\n"
    "providers = ( { name = \"big\"; relays = [ \"*.big.example\" ];\n"
    "  replies = (\n"
    "    { name = \"stop\"; match = \"^421 4\\\\.7\\\\.28\"; action = \"suspend\"; for = \"1h\"; },\n"
    "    { name = \"one\"; match = \"^450 4\\\\.2\\\\.1\"; action = \"hold-recipient\"; for = \"10m\"; }\n"
    "  ); } );\n";

static int set_up(void **state) {
	site_open(&site, 1000, classes);
	now_ns = clock_now_ns();
	return 0;
}

static int tear_down(void **state) {
	site_close(&site);
	site_providers = NULL;
	return 0;
}

/* The line of the first of these words, in the text above; the site's own lines stand
 * before it. */
static unsigned line_of(const char *words) {
	const struct generation_class *first = generation_class(site.generation, 0);
	const char *found = strstr(classes, words);
	unsigned line = first->line - 1;	/* its group begins in the second line */

	assert_non_null(found);
	for (const char *c = classes; c < found; c++)
		line += *c == '\n';
	return line;
}

static struct decided found(uint64_t id) {
	struct decided d;

	assert_true(id != 0);
	if (!decisions_find(site.segment, id, &d))
		fail_msg("the decision is not there");
	assert_true(d.id == id);
	return d;
}

#define TEXT(d, which, wanted) assert_string_equal(decided_text(&(d), DECIDED_##which), wanted)

/* --- sessions ------------------------------------------------------------------------ */

static struct answer open_session(const char *client, uint16_t port, const char *name) {
	struct question question = site_question(client, port, name);
	struct answer answer;

	answer = site_ask(&question, now_ns);
	return answer;
}

TEST_IN(set_up, tear_down, a_refusal_tells_rule_limit_and_count) {
	struct answer answer;
	struct decided d;

	answer = open_session("192.0.2.1", 1001, "a.few.example");
	assert_true(answer.id == 0);
	(void)open_session("192.0.2.2", 1002, NULL);
	answer = open_session("192.0.2.3", 1003, "b.few.example");
	assert_int_equal(answer.decision.verdict, VERDICT_REFUSE);
	d = found(answer.id);
	assert_int_equal(d.kind, DECIDED_REFUSED);
	assert_int_equal(d.reason, REASON_CLASS_INBOUND);
	assert_int_equal(d.stage, DECIDED_AT_CONNECT);
	assert_int_equal(d.verdict, VERDICT_REFUSE);
	assert_int_equal(d.count, 2);
	assert_int_equal(d.limit, 2);
	assert_int_equal(d.client_port, 1003);
	assert_true(d.at_ns == now_ns);
	TEXT(d, CLASS, "few");
	TEXT(d, NAME, "b.few.example");
	TEXT(d, RULE, "*.few.example");
	assert_int_equal(d.line, line_of("\"*.few.example\""));
	assert_int_equal(d.limit_line, line_of("refuse_at = 2"));
	assert_int_equal(d.observe_line, 0);
	answer = open_session("192.0.2.2", 1004, NULL);
	assert_int_equal(answer.decision.reason, REASON_CLASS_INBOUND);
	d = found(answer.id);
	TEXT(d, RULE, "192.0.2.0/24");
	assert_int_equal(d.line, line_of("\"192.0.2.0/24\""));
	TEXT(d, NAME, "");
}

TEST_IN(set_up, tear_down, a_limit_of_one_client_has_its_own_line) {
	struct answer answer;
	struct decided d;

	(void)open_session("192.0.2.1", 1001, NULL);
	answer = open_session("192.0.2.1", 1002, NULL);
	d = found(answer.id);
	assert_int_equal(d.reason, REASON_CLIENT_SESSIONS);
	assert_int_equal(d.limit, 1);
	assert_int_equal(d.limit_line, line_of("client = {"));
}

/* 60 in a minute, one at once: the second comes too soon. */
TEST_IN(set_up, tear_down, a_rate_is_told_with_its_period) {
	struct decided d;

	(void)open_session("198.51.100.1", 1001, NULL);
	d = found(open_session("198.51.100.2", 1002, NULL).id);
	assert_int_equal(d.reason, REASON_CLASS_RATE);
	assert_int_equal(d.before, 60);
	assert_int_equal(d.window, 60000);
	assert_int_equal(d.limit_line, line_of("rate = \"60"));
}

TEST_IN(set_up, tear_down, observe_mode_says_by_which_line) {
	struct answer answer;
	struct decided d;

	(void)open_session("203.0.113.1", 1001, NULL);
	answer = open_session("203.0.113.2", 1002, NULL);
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	d = found(answer.id);
	assert_int_equal(d.kind, DECIDED_OBSERVED);
	assert_int_equal(d.flags, DECIDED_OBSERVED_ONLY);
	assert_int_equal(d.observe_line, line_of("observe = true"));
}

/* The session is let in: its recipients are turned away, and each has its id. */
TEST_IN(set_up, tear_down, a_deferred_session_has_ids_at_its_recipients) {
	struct question question = site_question("100.64.0.2", 1002, NULL);
	struct answer answer;
	struct decided d;

	(void)open_session("100.64.0.1", 1001, NULL);
	answer = open_session("100.64.0.2", 1002, NULL);
	assert_int_equal(answer.decision.verdict, VERDICT_DEFER);
	assert_true(answer.id == 0);
	engine_session_recipient(site.engine, site.generation, &question, now_ns, &answer);
	d = found(answer.id);
	assert_int_equal(d.kind, DECIDED_DEFERRED);
	assert_int_equal(d.stage, DECIDED_AT_RECIPIENT);
	assert_int_equal(d.action, CLASS_ACTION_DEFER);
}

TEST_IN(set_up, tear_down, who_cannot_be_told_apart_is_noted) {
	assert_int_equal(found(open_session("192.0.2.1", 0, NULL).id).kind, DECIDED_UNTRACKED);
}

/* --- destinations --------------------------------------------------------------------- */

static void fails_with(const char *domain, const char *queue_id, const char *text) {
	(void)feed_line(&(struct line){ .domain = domain, .relay_name = "mx.d.example",
		.relay = "192.0.2.7", .queue_id = queue_id, .status = DELIVERY_DEFERRED,
		.text = text, .took_ms = 50 });
	now_ns += NS_PER_SECOND;
}

/* The ids of the row that ends with this one, the latest first. */
static unsigned row_of(uint64_t id, struct decided out[], unsigned most) {
	unsigned count = 0;

	for (; id != 0 && count < most; count++) {
		out[count] = found(id);
		id = out[count].cause;
	}
	return count;
}

/* A window of 5 and one failed cohort: by 1/concurrency each, 5 failures suspend. */
TEST_IN(set_up, tear_down, a_suspension_knows_its_failures) {
	struct decided d, row[10];
	char queue_id[8];

	sent("d.example", 100);
	now_ns += NS_PER_SECOND;
	for (int i = 0; i < 5; i++) {
		snprintf(queue_id, sizeof(queue_id), "Q%d", i);
		fails_with("d.example", queue_id, "host mx.d.example[192.0.2.7] refused to talk "
		    "to me: 421 4.7.0 busy");
	}
	assert_int_equal(view_of("d.example").state, WINDOW_DEAD);
	d = found(view_of("d.example").event);
	assert_int_equal(d.kind, DECIDED_SUSPENDED);
	assert_int_equal(d.by, DECIDED_BY_COHORTS);
	assert_int_equal(d.limit, 1);
	assert_int_equal(d.line, line_of("window = {"));
	assert_true(d.until_ns == d.at_ns + 600 * NS_PER_SECOND);
	TEXT(d, NAME, "d.example");
	TEXT(d, RULE, "window");
	TEXT(d, REASON, "421 4.7.0 busy");
	TEXT(d, MTA, "out");
	assert_int_equal(row_of(d.cause, row, 10), 5);
	for (int i = 0; i < 5; i++) {
		snprintf(queue_id, sizeof(queue_id), "Q%d", 4 - i);
		assert_int_equal(row[i].kind, DECIDED_FAILURE);
		assert_int_equal(row[i].code, 421);
		assert_int_equal(row[i].stage, DECIDED_BY_RESULT);
		TEXT(row[i], QUEUE_ID, queue_id);
		TEXT(row[i], RELAY, "mx[192.0.2.1]:25");
		TEXT(row[i], RECIPIENT, "d.example");
		TEXT(row[i], REASON, "421 4.7.0 busy");
		assert_true(i == 0 || row[i].at_ns < row[i - 1].at_ns);
	}
}

TEST_IN(set_up, tear_down, a_success_begins_another_row) {
	struct decided row[10];
	uint64_t first;

	fails_with("d.example", "Q1", down);
	fails_with("d.example", "Q2", down);
	sent("d.example", 100);
	now_ns += NS_PER_SECOND;
	for (int i = 0; i < 8; i++)
		fails_with("d.example", NULL, down);
	first = found(view_of("d.example").event).cause;
	/* 5, and not 7 */
	assert_int_equal(row_of(first, row, 10), 5);
}

/* What fails while it is suspended leads to nothing; many at once are not all noted. */
TEST_IN(set_up, tear_down, a_destination_that_fails_for_ever_washes_nothing_out) {
	struct decisions_cursor cursor = { .begun = false };
	struct decided d;
	uint64_t lost = 0, other;
	unsigned failures = 0;

	site_reload(&site, "classes = ( { name = \"all\"; match = \"*\"; } );\n"
	    "window = { destination_concurrency_failed_cohort_limit = \"0\"; };\n"
	    "mta = ( { name = \"out\"; log = \"/a\"; } );\n");
	failed("other.example", down);
	(void)decisions_next(site.segment, DECIDED_OF_DESTINATIONS, &cursor, now_ns, &d, NULL,
	    &lost);
	other = d.id;
	for (int i = 0; i < 5000; i++) {
		(void)feed_line(&(struct line){ .domain = "d.example",
			.status = DELIVERY_DEFERRED, .text = down, .took_ms = 50 });
		now_ns += NS_PER_MS;
	}
	while (decisions_next(site.segment, DECIDED_OF_DESTINATIONS, &cursor, now_ns, &d, NULL,
	    &lost))
		failures += d.kind == DECIDED_FAILURE;
	/* 100 at once and 10 a second, for 5 s */
	assert_in_range(failures, 140, 155);
	assert_true(decisions_find(site.segment, other, &d));
}

TEST_IN(set_up, tear_down, a_provider_rule_is_named_by_its_line) {
	struct decided d, cause;

	site_close(&site);
	site_providers = providers;
	(void)set_up(state);
	(void)feed_line(&(struct line){ .domain = "a.example", .relay_name = "mx.big.example",
		.relay = "192.0.2.9", .queue_id = "Q1", .status = DELIVERY_DEFERRED,
		.text = "host mx.big.example[192.0.2.9] said: 421 4.7.28 slow down", .took_ms = 5 });
	d = found(view_of("provider:big").event);
	assert_int_equal(d.by, DECIDED_BY_RULE);
	assert_int_equal(d.line, 4);
	TEXT(d, NAME, "provider:big");
	TEXT(d, RULE, "stop");
	assert_true(d.until_ns == d.at_ns + 3600 * NS_PER_SECOND);
	cause = found(d.cause);
	assert_int_equal(cause.kind, DECIDED_FAILURE);
	TEXT(cause, QUEUE_ID, "Q1");
	TEXT(cause, RULE, "stop");
}

/* The one failure that a window of 1 bears is one that the rule knows, too. */
TEST_IN(set_up, tear_down, two_suspensions_at_once_have_two_ids) {
	struct decisions_cursor cursor = { .begun = false };
	uint64_t lost = 0, last = 0;
	unsigned by = 0;
	struct decided d;

	site_close(&site);
	site_providers = providers;
	(void)set_up(state);
	site_reload(&site, "classes = ( { name = \"all\"; match = \"*\"; } );\n"
	    "window = { initial_destination_concurrency = 1; };\n"
	    "mta = ( { name = \"out\"; log = \"/a\"; } );\n");
	(void)feed_line(&(struct line){ .domain = "a.example", .relay_name = "mx.big.example",
		.relay = "192.0.2.9", .status = DELIVERY_DEFERRED,
		.text = "host mx.big.example[192.0.2.9] said: 421 4.7.28 slow down", .took_ms = 5 });
	while (decisions_next(site.segment, DECIDED_OF_DESTINATIONS, &cursor, now_ns, &d, NULL,
	    &lost))
		if (d.kind == DECIDED_SUSPENDED) {
			by |= 1u << d.by;
			last = d.id;
		}
	assert_int_equal(by, 1u << DECIDED_BY_COHORTS | 1u << DECIDED_BY_RULE);
	assert_true(view_of("provider:big").event == last);
}

TEST_IN(set_up, tear_down, a_recipient_that_is_held_knows_by_what) {
	struct recipient_held held;
	struct decided d;

	site_close(&site);
	site_providers = providers;
	(void)set_up(state);
	(void)feed_line(&(struct line){ .domain = "a.example", .relay_name = "mx.big.example",
		.relay = "192.0.2.9", .status = DELIVERY_DEFERRED, .recipient = "u@a.example",
		.text = "host mx.big.example[192.0.2.9] said: 450 4.2.1 over rate", .took_ms = 5 });
	assert_true(recipients_find(site.segment, "u@a.example", 11, now_ns, &held));
	d = found(held.event);
	assert_int_equal(d.kind, DECIDED_RECIPIENT_HELD);
	assert_true((d.flags & DECIDED_IS_RECIPIENT) != 0);
	TEXT(d, NAME, "u@a.example");
	TEXT(d, RULE, "one");
}

/* --- by hand, and what follows ---------------------------------------------------------- */

static void by_hand(enum manual_verb verb, const char *name, bool class) {
	const struct by_hand request = { .verb = verb, .name = name,
		.name_length = strlen(name), .class = class, .window = BY_HAND_UNSET,
		.ceiling = verb == MANUAL_LIMIT ? 7 : BY_HAND_UNSET, .uid = 42 };
	struct window_owner owner;

	assert_int_equal(windows_by_hand(site.engine, site.generation, &request, now_ns,
	    &owner), BY_HAND_DONE);
}

static struct decided latest_event(void) {
	struct decisions_cursor cursor = { .begun = false };
	struct decided d = { .id = 0 }, next;
	uint64_t lost = 0;

	while (decisions_next(site.segment, DECIDED_OF_DESTINATIONS, &cursor, now_ns, &next,
	    NULL, &lost))
		d = next;
	return d;
}

static uint64_t over_rate_again(void) {
	struct recipient_held held;

	now_ns += 60 * NS_PER_SECOND;
	(void)feed_line(&(struct line){ .domain = "a.example", .relay_name = "mx.big.example",
		.relay = "192.0.2.9", .status = DELIVERY_DEFERRED, .recipient = "u@a.example",
		.text = "host mx.big.example[192.0.2.9] said: 450 4.2.1 over rate", .took_ms = 5 });
	assert_true(recipients_find(site.segment, "u@a.example", 11, now_ns, &held));
	assert_true(held.until_ns >= now_ns + 590 * NS_PER_SECOND);
	return held.event;
}

/* Held for longer, and once more after it was let go, of which nobody is told again. */
TEST_IN(set_up, tear_down, a_recipient_that_is_held_again_knows_by_what) {
	uint64_t id;

	site_close(&site);
	site_providers = providers;
	(void)set_up(state);
	id = over_rate_again();
	assert_true(over_rate_again() == id);
	assert_int_equal(found(id).kind, DECIDED_RECIPIENT_HELD);
	by_hand(MANUAL_RESUME, "u@a.example", false);
	assert_int_equal(found(over_rate_again()).kind, DECIDED_RECIPIENT_HELD);
}

/* window.suspend is 10 minutes here: that ends by itself. */
TEST_IN(set_up, tear_down, a_recipient_that_is_suspended_by_hand_is_so_for_a_time) {
	struct decided d;

	by_hand(MANUAL_SUSPEND, "u@d.example", false);
	d = latest_event();
	assert_true(d.until_ns == now_ns + 600 * NS_PER_SECOND);
	by_hand(MANUAL_HOLD, "u@d.example", false);
	d = latest_event();
	assert_true(d.until_ns == INT64_MAX);
}

/* Nothing is left in the ring for which followers would wait. */
TEST_IN(set_up, tear_down, what_is_refused_by_hand_takes_no_id) {
	const struct by_hand request = { .verb = MANUAL_RESUME, .name = "u@d.example",
		.name_length = 11, .window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET };
	uint64_t before = atomic_load(&site.segment->header->decided_next[
	    DECIDED_OF_DESTINATIONS].number);
	struct window_owner owner;

	assert_int_equal(windows_by_hand(site.engine, site.generation, &request, now_ns,
	    &owner), BY_HAND_NOTHING);
	assert_true(atomic_load(&site.segment->header->decided_next[
	    DECIDED_OF_DESTINATIONS].number) == before);
}

TEST_IN(set_up, tear_down, what_is_done_by_hand_says_who) {
	struct decided d;
	uint64_t id;

	by_hand(MANUAL_HOLD, "d.example", false);
	id = view_of("d.example").event;
	d = found(id);
	assert_int_equal(d.kind, DECIDED_BY_HAND);
	assert_int_equal(d.by, MANUAL_HOLD);
	assert_int_equal(d.uid, 42);
	assert_true(d.until_ns == INT64_MAX && (d.flags & DECIDED_HELD) != 0);
	by_hand(MANUAL_RESUME, "d.example", false);
	assert_true(view_of("d.example").event == 0);
	d = latest_event();
	assert_int_equal(d.by, MANUAL_RESUME);
	by_hand(MANUAL_LIMIT, "d.example", false);
	d = latest_event();
	assert_int_equal(d.ceiling_before, 0);
	assert_int_equal(d.ceiling, 7);
	by_hand(MANUAL_HOLD, "few", true);
	d = latest_event();
	TEXT(d, NAME, "few");
	assert_true((d.flags & DECIDED_IS_CLASS) != 0);
}

TEST_IN(set_up, tear_down, what_comes_back_knows_why_it_was_held) {
	uint64_t id;
	struct decided d;

	for (int i = 0; i < 8; i++)
		failed("d.example", down);
	id = view_of("d.example").event;
	pass(601);
	d = latest_event();
	assert_int_equal(d.kind, DECIDED_BACK);
	assert_int_equal(d.stage, DECIDED_BY_TIME);
	assert_true(d.cause == id);
	assert_true(view_of("d.example").event == 0);
}

/* Who asks before a connect is told of the suspension. */
TEST_IN(set_up, tear_down, a_deferral_knows_the_suspension) {
	const struct process_identity identity = { 1, 1 };
	struct outbound_process *process = outbound_process_open(site.engine, &identity);
	struct outbound_question question = { .destination = "d.example",
		.destination_length = 9, .recipient = "u@d.example", .recipient_length = 11,
		.queue_id = "6AL5", .queue_id_length = 4, .mta = 0 };
	struct outbound_answer answer;
	struct decided d;

	for (int i = 0; i < 8; i++)
		failed("d.example", down);
	outbound_process_ask(process, site.generation, &question, now_ns, &answer);
	assert_int_equal(answer.answer.decision.reason, REASON_SUSPENDED);
	assert_true(answer.cause == view_of("d.example").event);
	d = found(answer.answer.id);
	assert_true(d.cause == answer.cause);
	assert_int_equal(d.stage, DECIDED_BEFORE_CONNECT);
	TEXT(d, WINDOW_OF, "d.example");
	TEXT(d, QUEUE_ID, "6AL5");
	TEXT(d, RECIPIENT, "u@d.example");
	by_hand(MANUAL_HOLD, "u@d.example", false);
	outbound_process_ask(process, site.generation, &question, now_ns, &answer);
	assert_int_equal(answer.answer.decision.reason, REASON_RECIPIENT_HELD);
	assert_int_equal(found(answer.cause).kind, DECIDED_BY_HAND);
	outbound_process_close(&process, site.generation, now_ns);
}

/* --- the id that the slot has -------------------------------------------------------- */

/* New reasons do not lose it, nor another layout, which takes the text's way. */
TEST_IN(set_up, tear_down, the_slot_keeps_the_id) {
	struct destination_window window;
	uint64_t id, held;

	for (int i = 0; i < 8; i++)
		failed("d.example", down);
	id = view_of("d.example").event;
	by_hand(MANUAL_HOLD, "u@d.example", false);
	held = latest_event().id;
	failed("d.example", "connect to mx.example.net[192.0.2.1]:25: No route to host");
	assert_string_equal(view_of("d.example").reason,
	    "connect to mx.example.net[192.0.2.1]:25: No route to host");
	assert_true(view_of("d.example").event == id);
	site_restart(&site, 2000, classes);
	assert_true(states_find(site.segment, "d.example", 9, &window));
	assert_true(window.event == id);
	{
		struct recipient_held recipient;

		assert_true(recipients_find(site.segment, "u@d.example", 11,
		    clock_now_ns(), &recipient));
		assert_true(recipient.event == held);
	}
}

/* SPDX-License-Identifier: ISC */
/* Outbound questions of a Sendmail whose queue is driven: what is not granted waits, and
 * takes nothing; what is granted goes by windows and classes as ever. */
#include "tests/unit/test.h"
#include "engine/outbound/outbound.h"
#include "segment/queue/grants.h"
#include "tests/unit/engine/feed/results.h"

#define TEXT "classes = ( { name = \"some\"; match = \"*.example\"; hold_at = 9; refuse_at = 90; } );\n" \
	"mta = ( { name = \"s\"; kind = \"sendmail\"; log = \"\"; } );\n" \
	"window = { initial_destination_concurrency = 1; destination_concurrency_limit = 1; };\n"

static struct outbound_process *process, *other;
static struct grant_ref ref;

static struct outbound_process *process_of(int pid) {
	struct process_identity identity = { .pid = 4194304 + pid, .start_ticks = 77 };

	return outbound_process_open(site.engine, &identity);
}

static void begin(const char *more) {
	char text[1024];

	(void)snprintf(text, sizeof(text), "%s%s", TEXT, more);
	site_open(&site, 1000, text);
	now_ns = clock_now_ns();
	engine_heartbeat(site.engine, now_ns);
	grants_begin(site.segment, site.place);
	process = process_of(1);
	other = process_of(2);
}

static int tear_down(void **state) {
	bool consistent;

	outbound_process_close(&process, site.generation, now_ns);
	outbound_process_close(&other, site.generation, now_ns);
	consistent = site_is_consistent(&site);
	site_close(&site);
	return consistent ? 0 : -1;
}

static void grant(const char *name) {
	uint32_t domain = grants_domain(site.segment, name, strlen(name));
	const struct grant one = { .queue_id = "7AL1", .queue_id_length = 4, .run = 1,
		.mode = GRANT_ONLY, .domains = &domain, .count = 1 };

	assert_true(grants_put(site.segment, &one, &ref));
}

static struct outbound_answer ask_by(struct outbound_process *who, enum outbound_stage stage,
    const char *host, const char *recipient, const char *queue_id) {
	struct outbound_question question = { .stage = stage,
		.destination = host, .destination_length = strlen(host),
		.recipient = recipient, .recipient_length = strlen(recipient),
		.queue_id = queue_id, .queue_id_length = strlen(queue_id) };
	struct outbound_answer answer;

	if (stage == OUTBOUND_CONNECTED) {
		question.server_name = host;
		question.server_name_length = strlen(host);
		assert_true(address_parse("192.0.2.1", 9, &question.server));
	}
	outbound_process_ask(who, site.generation, &question, now_ns, &answer);
	return answer;
}

static struct outbound_answer ask(const char *host, const char *recipient) {
	return ask_by(process, OUTBOUND_BEFORE_CONNECT, host, recipient, "7AL1");
}

static bool is_turn(const char *domain) {
	return outbound_is_its_turn(site.engine, site.generation, "7AL1", 4, domain,
	    strlen(domain), now_ns);
}

/* Its turn is asked by the canonical name: before the connect the written one decides. */
TEST_IN(NULL, tear_down, a_grant_that_is_asked_at_last_lets_other_names_come_so_far) {
	uint32_t domain;
	struct grant one = { .queue_id = "7AL1", .queue_id_length = 4, .run = 1,
		.mode = GRANT_ONLY_AT_LAST, .domains = &domain, .count = 1 };

	begin("");
	domain = grants_domain(site.segment, "alias.example", 13);
	assert_true(grants_put(site.segment, &one, &ref));
	assert_true(is_turn("real.example"));
	assert_int_equal(ask("real.example", "u@alias.example").answer.decision.verdict,
	    VERDICT_ADMIT);
	assert_int_equal(ask("real.example", "u@real.example").answer.decision.reason,
	    REASON_NOT_ITS_TURN);
	assert_true(grants_withdraw(site.segment, &ref, domain));
	assert_int_equal(ask("real.example", "u@alias.example").answer.decision.reason,
	    REASON_NOT_ITS_TURN);
}

static uint64_t held(void) {
	return segment_header(site.segment)->counters[COUNTER_TURNS_HELD];
}

TEST_IN(NULL, tear_down, what_is_not_granted_waits_and_takes_nothing) {
	struct outbound_answer answer;
	struct grant_seen seen;

	begin("");
	grant("a.example");
	assert_true(is_turn("a.example"));
	assert_false(is_turn("b.example"));
	assert_int_equal(held(), 1);
	answer = ask("b.example", "u@b.example");
	assert_int_equal(answer.answer.decision.verdict, VERDICT_DEFER);
	assert_int_equal(answer.answer.decision.reason, REASON_NOT_ITS_TURN);
	assert_false(answer.answer.newly_decided);
	assert_int_equal(answer.answer.class_index, CLASS_NO_RULE);
	assert_int_equal(held(), 2);
	assert_int_equal(site_class(&site, "some")->open, 0);
	assert_int_equal(view_of("b.example").in_flight, 0);
	grants_see(site.segment, &ref, &seen);
	assert_int_equal(seen.asked, 0);
	answer = ask("a.example", "u@A.EXAMPLE");
	assert_int_equal(answer.answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(site_class(&site, "some")->open, 1);
	assert_int_equal(view_of("a.example").in_flight, 1);
	grants_see(site.segment, &ref, &seen);
	assert_int_equal(seen.asked, 1);
	/* a host by another name (a smart host): the recipient tells whose turn it is */
	assert_int_equal(ask("hub.example", "u@a.example").answer.decision.verdict,
	    VERDICT_ADMIT);
	assert_int_equal(ask("hub.example", "\"x@a.example\"@b.example")
	    .answer.decision.reason, REASON_NOT_ITS_TURN);
}

static struct outbound_answer why(const char *domain) {
	struct outbound_answer answer;

	outbound_turn_why(site.engine, site.generation, domain, strlen(domain), 0, now_ns,
	    &answer);
	return answer;
}

TEST_IN(NULL, tear_down, whoever_looks_is_told_why_it_waits) {
	const struct by_hand hold = { .verb = MANUAL_HOLD, .name = "b.example",
		.name_length = 9, .reason = "moving", .window = BY_HAND_UNSET,
		.ceiling = BY_HAND_UNSET };
	struct window_owner owner;

	begin("");
	assert_int_equal(why("b.example").answer.decision.reason, REASON_NOT_ITS_TURN);
	assert_int_equal(windows_by_hand(site.engine, site.generation, &hold, now_ns, &owner),
	    BY_HAND_DONE);
	assert_int_equal(why("b.example").answer.decision.reason, REASON_SUSPENDED);
	assert_string_equal(why("B.Example.").owner, "b.example");
	assert_string_equal(why("b.example").why, "moving");
	assert_true(why("b.example").until_ns == INT64_MAX);
	assert_int_equal(why("a.example").answer.decision.reason, REASON_NOT_ITS_TURN);
	assert_int_equal(why("").answer.decision.reason, REASON_NOT_ITS_TURN);
}

TEST_IN(NULL, tear_down, the_window_has_the_last_word) {
	struct outbound_answer answer;
	struct grant_seen seen;

	begin("");
	grant("a.example");
	answer = ask_by(other, OUTBOUND_BEFORE_CONNECT, "a.example", "u@a.example", "9ZZ9");
	assert_int_equal(answer.answer.decision.verdict, VERDICT_ADMIT);
	answer = ask("a.example", "u@a.example");
	assert_int_equal(answer.answer.decision.reason, REASON_WINDOW_FULL);
	grants_see(site.segment, &ref, &seen);
	assert_int_equal(seen.deferred_count, 1);
	assert_int_equal(seen.deferred[0], grants_domain(site.segment, "a.example", 9));
}

/* It is not put off until there is a place: it waits for its time. */
TEST_IN(NULL, tear_down, a_held_recipient_is_told_apart) {
	const struct by_hand hold = { .verb = MANUAL_HOLD, .name = "u@a.example",
		.name_length = 11, .for_ns = 60 * NS_PER_SECOND, .reason = "gone",
		.window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET };
	struct window_owner owner;
	struct grant_seen seen;

	begin("");
	grant("a.example");
	assert_int_equal(windows_by_hand(site.engine, site.generation, &hold, now_ns, &owner),
	    BY_HAND_DONE);
	assert_int_equal(ask("a.example", "u@a.example").answer.decision.reason,
	    REASON_RECIPIENT_HELD);
	grants_see(site.segment, &ref, &seen);
	assert_int_equal(seen.asked, 1);
	assert_int_equal(seen.deferred_count, 0);
	assert_int_equal(seen.current, 0);
}

TEST_IN(NULL, tear_down, without_a_grant_mail_goes_as_ever) {
	begin("");
	grant("a.example");
	assert_int_equal(ask("b.example", "u@b.example").answer.decision.reason,
	    REASON_NOT_ITS_TURN);
	segment_role_died(site.segment, site.place, getpid());
	assert_true(is_turn("b.example"));
	assert_int_equal(ask("b.example", "u@b.example").answer.decision.verdict, VERDICT_ADMIT);
}

TEST_IN(NULL, tear_down, observe_mode_lets_all_go) {
	begin("outbound = { observe = true; };\n");
	grant("a.example");
	assert_true(is_turn("b.example"));
	assert_int_equal(ask("b.example", "u@b.example").answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(held(), 0);
}

/* Such a process keeps one connection: what it held elsewhere is free as soon as it is
 * connected to the next. */
TEST_IN(NULL, tear_down, a_driven_process_gives_places_back_as_it_goes_on) {
	struct grant_seen seen;

	begin("");
	grant("a.example");
	assert_int_equal(ask("a.example", "u@a.example").answer.decision.verdict, VERDICT_ADMIT);
	(void)ask_by(process, OUTBOUND_CONNECTED, "a.example", "", "7AL1");
	assert_int_equal(view_of("a.example").in_flight, 1);
	grants_remove(site.segment, &ref, NULL);
	grant("b.example");
	assert_int_equal(ask("b.example", "u@b.example").answer.decision.verdict, VERDICT_ADMIT);
	/* the old connection is open still */
	assert_int_equal(view_of("a.example").in_flight, 1);
	(void)ask_by(process, OUTBOUND_CONNECTED, "b.example", "", "7AL1");
	assert_int_equal(view_of("a.example").in_flight, 0);
	assert_int_equal(view_of("b.example").in_flight, 1);
	assert_int_equal(site_class(&site, "some")->open, 1);
	grants_see(site.segment, &ref, &seen);
	assert_true(seen.is_connected);
	/* back again: asked anew */
	grants_remove(site.segment, &ref, NULL);
	grant("a.example");
	assert_int_equal(ask("a.example", "u@a.example").answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(view_of("a.example").in_flight, 1);
	/* a process that nobody drives keeps all */
	(void)ask_by(other, OUTBOUND_BEFORE_CONNECT, "c.example", "u@c.example", "9ZZ9");
	(void)ask_by(other, OUTBOUND_CONNECTED, "c.example", "", "9ZZ9");
	(void)ask_by(other, OUTBOUND_BEFORE_CONNECT, "d.example", "u@d.example", "9ZZ9");
	(void)ask_by(other, OUTBOUND_CONNECTED, "d.example", "", "9ZZ9");
	assert_int_equal(view_of("c.example").in_flight, 1);
	assert_int_equal(view_of("d.example").in_flight, 1);
}

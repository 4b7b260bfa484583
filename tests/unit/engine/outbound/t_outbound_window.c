/* SPDX-License-Identifier: ISC */
/* Outbound questions and the windows of destinations: what a question takes and gives
 * back when the class says one thing and the window another, what is held by hand, and
 * a destination that turns out to be a provider's. */
#include "tests/unit/test.h"

#include "base/process.h"
#include "engine/outbound/outbound.h"
#include "tests/unit/engine/feed/results.h"

#define CLASSES(sessions) "classes = ( { name = \"some\"; match = \"*.example\"; hold_at = " \
	sessions "; refuse_at = 90; } );\n"
#define MTA "mta = ( { name = \"s\"; kind = \"sendmail\"; log = \"\"; } );\n"
#define TWO "window = { initial_destination_concurrency = 2; " \
	"destination_concurrency_limit = 2; };\n"
#define PROCESSES 8

static struct outbound_process *processes[PROCESSES];

/* No such processes are there: they are over as soon as their connections are. */
static struct outbound_process *process_of(int number) {
	struct process_identity identity = { .pid = 4194304 + number, .start_ticks = 77 };

	if (processes[number] == NULL)
		processes[number] = outbound_process_open(site.engine, &identity);
	assert_non_null(processes[number]);
	return processes[number];
}

static void ends(int number) {
	outbound_process_close(&processes[number], site.generation, now_ns);
}

static void begin_with(const char *text) {
	site_open(&site, 1000, text);
	now_ns = clock_now_ns();
	engine_heartbeat(site.engine, now_ns);
}

static int tear_down(void **state) {
	bool consistent;

	for (int i = 0; i < PROCESSES; i++)
		ends(i);
	consistent = site_is_consistent(&site);
	site_close(&site);
	site_providers = NULL;
	return consistent ? 0 : -1;
}

static struct outbound_answer ask_for(int number, const char *destination,
    const char *recipient, const char *queue_id) {
	struct outbound_question question = { .stage = OUTBOUND_BEFORE_CONNECT,
		.destination = destination, .destination_length = strlen(destination),
		.recipient = recipient, .recipient_length = strlen(recipient),
		.queue_id = queue_id, .queue_id_length = strlen(queue_id) };
	struct outbound_answer answer;

	outbound_process_ask(process_of(number), site.generation, &question, now_ns,
	    &answer);
	return answer;
}

static struct outbound_answer ask(int number, const char *destination) {
	return ask_for(number, destination, "", "6AL00000000001");
}

static struct outbound_answer connected(int number, const char *destination,
    const char *name, const char *address) {
	struct outbound_question question = { .stage = OUTBOUND_CONNECTED,
		.destination = destination, .destination_length = strlen(destination),
		.server_name = name, .server_name_length = strlen(name) };
	struct outbound_answer answer;

	assert_true(address_parse(address, strlen(address), &question.server));
	outbound_process_ask(process_of(number), site.generation, &question, now_ns,
	    &answer);
	return answer;
}

static void is_admitted(struct outbound_answer answer) {
	assert_int_equal(answer.answer.decision.verdict, VERDICT_ADMIT);
	assert_false(answer.answer.observed);
}

static void is_deferred(struct outbound_answer answer, enum reason reason) {
	assert_int_equal(answer.answer.decision.verdict, VERDICT_DEFER);
	assert_int_equal(answer.answer.decision.reason, reason);
	assert_true(answer.answer.id != 0 && answer.answer.newly_decided);
}

static uint32_t open_sessions(void) {
	return atomic_load(&site_class(&site, "some")->open);
}

static void by_hand(enum manual_verb verb, const char *name, int64_t for_ns,
    const char *reason, bool class) {
	const struct by_hand request = { .verb = verb, .name = name,
		.name_length = strlen(name), .for_ns = for_ns, .reason = reason,
		.class = class, .window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET };
	struct window_owner owner;

	assert_int_equal(windows_by_hand(site.engine, site.generation, &request, now_ns,
	    &owner), BY_HAND_DONE);
}

/* --- tests ----------------------------------------------------------------------------- */

TEST_IN(NULL, tear_down, a_full_window_takes_nothing_of_the_class) {
	struct outbound_answer answer;

	begin_with(CLASSES("9") MTA TWO);
	is_admitted(ask(0, "d.example"));
	is_admitted(ask(1, "d.example."));
	assert_int_equal(open_sessions(), 2);
	answer = ask(2, "d.example");
	is_deferred(answer, REASON_WINDOW_FULL);
	assert_int_equal(answer.answer.decision.count, 2);
	assert_int_equal(answer.answer.decision.limit, 2);
	assert_string_equal(answer.owner, "d.example");
	assert_int_equal(open_sessions(), 2);
	/* another destination of the class */
	is_admitted(ask(2, "e.example"));
	assert_int_equal(open_sessions(), 3);
	is_deferred(ask(2, "d.example"), REASON_WINDOW_FULL);
	assert_int_equal(open_sessions(), 3);
	/* who is there goes on */
	is_admitted(ask(0, "d.example"));
	ends(1);
	assert_int_equal(open_sessions(), 2);
	is_admitted(ask(2, "d.example"));
	assert_int_equal(view_of("d.example").in_flight, 2);
	assert_int_equal(open_sessions(), 2);
}

TEST_IN(NULL, tear_down, a_full_class_takes_no_place) {
	begin_with(CLASSES("1") MTA TWO);
	is_admitted(ask(0, "d.example"));
	is_deferred(ask(1, "d.example"), REASON_CLASS_SESSIONS);
	assert_int_equal(view_of("d.example").in_flight, 1);
	assert_int_equal(open_sessions(), 1);
}

TEST_IN(NULL, tear_down, without_a_class) {
	begin_with(CLASSES("1") MTA TWO);
	is_admitted(ask(0, "d.test"));
	is_admitted(ask(1, "d.test"));
	is_deferred(ask(2, "d.test"), REASON_WINDOW_FULL);
	assert_int_equal(view_of("d.test").in_flight, 2);
}

TEST_IN(NULL, tear_down, suspended) {
	struct outbound_answer answer;

	begin_with(CLASSES("9") MTA TWO);
	is_admitted(ask(0, "d.example"));
	by_hand(MANUAL_SUSPEND, "d.example", 60 * NS_PER_SECOND, "they \"move\"", false);
	answer = ask(1, "d.example");
	is_deferred(answer, REASON_SUSPENDED);
	assert_int_equal(answer.until_ns, now_ns + 60 * NS_PER_SECOND);
	assert_string_equal(answer.why, "they \"move\"");
	assert_int_equal(open_sessions(), 1);
	/* the process that has a place there: its connection stays counted */
	is_deferred(ask(0, "d.example"), REASON_SUSPENDED);
	assert_int_equal(open_sessions(), 1);
	assert_int_equal(view_of("d.example").in_flight, 1);
	now_ns += 61 * NS_PER_SECOND;
	is_admitted(ask(0, "d.example"));
	by_hand(MANUAL_HOLD, "d.example", 0, NULL, false);
	assert_true(ask(1, "d.example").until_ns == INT64_MAX);
	by_hand(MANUAL_RESUME, "d.example", 0, NULL, false);
	is_admitted(ask(1, "d.example"));
}

TEST_IN(NULL, tear_down, recipients_and_classes_by_hand) {
	struct outbound_answer answer;

	begin_with(CLASSES("9") MTA TWO);
	by_hand(MANUAL_HOLD, "User@d.example", 60 * NS_PER_SECOND, "full", false);
	answer = ask_for(0, "d.example", "uSER@D.example", "6AL00000000001");
	is_deferred(answer, REASON_RECIPIENT_HELD);
	assert_int_equal(answer.until_ns, now_ns + 60 * NS_PER_SECOND);
	assert_int_equal(open_sessions(), 0);
	assert_int_equal(view_of("d.example").in_flight, 0);
	is_admitted(ask_for(0, "d.example", "other@d.example", "6AL00000000001"));
	by_hand(MANUAL_HOLD, "some", 0, "all of them", true);
	answer = ask(1, "e.example");
	is_deferred(answer, REASON_CLASS_HELD);
	assert_string_equal(answer.why, "all of them");
	is_admitted(ask(1, "e.test"));
	by_hand(MANUAL_RESUME, "some", 0, NULL, true);
	is_admitted(ask(1, "e.example"));
}

/* What strangers can put there. */
TEST_IN(NULL, tear_down, odd_recipients) {
	static const char *const odd[] = { "", "@", "<>", "a b@c", "\xff\x01@d.example", "a@b@c" };
	char longest[2000];

	begin_with(CLASSES("9") MTA TWO);
	for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		is_admitted(ask_for(0, "d.example", odd[i], ""));
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	is_admitted(ask_for(0, "d.example", longest, longest));
	is_admitted(ask_for(0, longest, longest, longest));
}

/* Sendmail asks about the host of user@provider:big as it stands there. */
TEST_IN(NULL, tear_down, a_host_that_looks_like_a_provider_is_none) {
	site_providers = "version = 1; providers = ( { name = \"big\"; "
	    "relays = [ \"*.big.example\" ]; } );\n";
	begin_with(CLASSES("9") MTA TWO);
	by_hand(MANUAL_HOLD, "provider:big", 0, NULL, false);
	is_admitted(ask(0, "provider:big"));
	is_admitted(ask(0, ";xample.org"));
	assert_string_equal(ask(0, ";xample.org").owner, "");
}

/* mailertable: Sendmail names the relay, its log the domain. */
TEST_IN(NULL, tear_down, a_domain_that_goes_by_a_relay_is_held_by_its_own_name) {
	struct outbound_answer answer;

	begin_with(CLASSES("9") MTA TWO);
	is_admitted(ask_for(0, "[192.0.2.1]", "u@d.example", "6AL00000000001"));
	is_admitted(connected(0, "[192.0.2.1]", "mx.r.example", "192.0.2.1"));
	assert_int_equal(view_of("d.example").in_flight, 1);
	is_admitted(ask_for(1, "relay.example.", "u@d.example", "6AL00000000002"));
	is_admitted(connected(1, "relay.example", "mx.r.example", "192.0.2.1"));
	assert_int_equal(view_of("d.example").in_flight, 2);
	answer = ask_for(2, "[192.0.2.1]", "u@d.example", "6AL00000000003");
	is_deferred(answer, REASON_WINDOW_FULL);
	assert_string_equal(answer.owner, "d.example");
	is_admitted(ask_for(2, "[192.0.2.1]", "u@e.example", "6AL00000000003"));
	by_hand(MANUAL_HOLD, "f.example", 0, NULL, false);
	is_deferred(ask_for(3, "[192.0.2.1]", "u@F.example", "6AL00000000004"), REASON_SUSPENDED);
	/* the relay itself may be held, too, and a filter on this host is none of its domains */
	by_hand(MANUAL_HOLD, "[192.0.2.1]", 0, NULL, false);
	is_deferred(ask_for(3, "[192.0.2.1]", "u@g.example", "6AL00000000004"), REASON_SUSPENDED);
	is_admitted(ask_for(3, "[127.0.0.1]", "u@f.example", "6AL00000000004"));
	/* what looks like a provider's or a relay's name is neither */
	assert_string_equal(ask_for(4, "relay.example", "u@provider:big", "6AL00000000005").owner,
	    "relay.example");
}

TEST_IN(NULL, tear_down, a_provider_that_answers) {
	site_providers = "version = 1; providers = ( { name = \"big\"; relays = \"*.big.example\"; "
	    "window = { initial_destination_concurrency = 1; "
	    "destination_concurrency_limit = 1; }; } );\n";
	begin_with(CLASSES("9") MTA);
	is_admitted(ask(0, "one.test"));
	is_admitted(connected(0, "one.test", "mx.big.example", "192.0.2.1"));
	assert_int_equal(view_of("provider:big").in_flight, 1);
	/* asked once for each message, and it is the same place */
	is_admitted(connected(0, "one.test", "mx.big.example", "192.0.2.1"));
	assert_int_equal(view_of("provider:big").in_flight, 1);
	is_admitted(ask(1, "two.test"));
	is_deferred(connected(1, "two.test", "mx.big.example", "192.0.2.1"),
	    REASON_WINDOW_FULL);
	is_deferred(ask(1, "two.test"), REASON_WINDOW_FULL);
	assert_string_equal(ask(1, "two.test").owner, "provider:big");
	ends(0);
	is_admitted(ask(1, "two.test"));
	assert_int_equal(view_of("provider:big").in_flight, 1);
}

TEST_IN(NULL, tear_down, observed) {
	struct outbound_answer answer;

	begin_with(CLASSES("9") MTA TWO "outbound = { observe = true; };\n");
	is_admitted(ask(0, "d.example"));
	is_admitted(ask(1, "d.example"));
	answer = ask(2, "d.example");
	assert_int_equal(answer.answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(answer.answer.decision.reason, REASON_WINDOW_FULL);
	assert_true(answer.answer.observed && answer.answer.newly_decided);
	assert_int_equal(open_sessions(), 3);
	assert_int_equal(view_of("d.example").in_flight, 3);
	by_hand(MANUAL_HOLD, "u@e.example", 60 * NS_PER_SECOND, NULL, false);
	answer = ask_for(3, "e.example", "u@e.example", "6AL00000000001");
	assert_int_equal(answer.answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(answer.answer.decision.reason, REASON_RECIPIENT_HELD);
	assert_true(answer.answer.observed);
	assert_int_equal(open_sessions(), 4);
}

/* Its connection to us has ended, it has not. */
TEST_IN(NULL, tear_down, a_process_that_stays) {
	struct process_identity self = { .pid = (int32_t)getpid() };

	begin_with(CLASSES("9") MTA TWO);
	assert_true(process_start_ticks(self.pid, &self.start_ticks));
	processes[0] = outbound_process_open(site.engine, &self);
	is_admitted(ask(0, "d.example"));
	outbound_process_leave(processes[0], site.generation, now_ns);
	assert_false(outbound_process_is_over(processes[0]));
	assert_int_equal(open_sessions(), 0);
	assert_int_equal(view_of("d.example").in_flight, 1);
	ends(0);
	assert_int_equal(view_of("d.example").in_flight, 1);
	/* it comes again, and has its place */
	processes[0] = outbound_process_open(site.engine, &self);
	is_admitted(ask(0, "d.example"));
	assert_int_equal(view_of("d.example").in_flight, 1);
	is_admitted(ask(1, "d.example"));
	is_deferred(ask(2, "d.example"), REASON_WINDOW_FULL);
}

/* SPDX-License-Identifier: ISC */
/* Scenarios: what becomes of a file, and the mistakes in it. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "lab/scenario.h"

static struct scenario *read_good(const char *text) {
	struct config_messages messages;
	struct scenario *s = scenario_read_text(text, "x", &messages);

	for (size_t i = 0; i < messages.count; i++)
		print_message("%s:%d: %s\n", messages.list[i].file, messages.list[i].line,
		    messages.list[i].text);
	assert_non_null(s);
	assert_int_equal(messages.count, 0);
	config_messages_free(&messages);
	return s;
}

TEST(without_settings_all_is_as_postfix_has_it) {
	struct scenario *s = read_good("messages = ( { recipients = \"a\"; } );");
	const struct scenario_transport *t = &s->transports[0];

	assert_int_equal(s->pool.message_active_limit, 20000);
	assert_int_equal(s->pool.message_recipient_limit, 20000);
	assert_int_equal(s->pool.message_recipient_minimum, 10);
	assert_int_equal(s->transport_count, 1);
	assert_string_equal(t->name, "smtp");
	assert_int_equal(t->job.process_limit, 100);
	assert_int_equal(t->job.delivery_slot_cost, 5);
	assert_int_equal(t->job.minimum_delivery_slots, 3);
	assert_int_equal(t->job.delivery_slot_discount, 50);
	assert_int_equal(t->job.delivery_slot_loan, 3);
	assert_int_equal(t->job.recipient_limit, 20000);
	assert_int_equal(t->job.extra_recipient_limit, 1000);
	assert_int_equal(t->job.recipient_refill_limit, 100);
	assert_int_equal(t->job.recipient_refill_delay_ns, 5 * NS_PER_SECOND);
	assert_int_equal(t->job.destination_recipient_limit, 50);
	assert_int_equal(t->window.initial, 5);
	assert_int_equal(t->window.limit, 20);
	assert_int_equal(t->window.law, WINDOW_LAW_POSTFIX);
	assert_int_equal(t->service_ns, NS_PER_SECOND);
	assert_int_equal(s->destination_count, 1);
	assert_string_equal(scenario_name(s, 0), "a");
	assert_int_equal(s->messages[0].recipients, 1);
	scenario_free(s);
}

TEST(a_transport_has_its_own_and_else_what_the_top_says) {
	struct scenario *s = read_good("default_delivery_slot_cost = 7; service = \"3s\";\n"
	    "initial_destination_concurrency = 9; default_process_limit = 2;\n"
	    "transports = ( { name = \"x\"; delivery_slot_cost = 8; },\n"
	    " { name = \"y\"; destination_concurrency_limit = 4; service = \"2s\";\n"
	    "   recipient_refill_delay = \"1m\"; process_limit = 3; } );\n"
	    "destinations = ( { name = \"a\"; transport = \"y\"; service = \"1s\"; },\n"
	    " { name = \"b\"; transport = \"x\"; window = \"5,0@10s,3@1m\"; } );\n"
	    "messages = ( { recipients = [ \"a:3\", \"b\" ]; arrive = \"90s\"; count = 2; },\n"
	    " { recipients = \"b:7\"; service = \"4s\"; } );");

	assert_int_equal(s->transports[0].job.delivery_slot_cost, 8);
	assert_int_equal(s->transports[1].job.delivery_slot_cost, 7);
	assert_int_equal(s->transports[0].window.initial, 9);
	assert_int_equal(s->transports[1].window.initial, 4);	/* not above the limit */
	assert_int_equal(s->transports[0].service_ns, 3 * NS_PER_SECOND);
	assert_int_equal(s->transports[1].service_ns, 2 * NS_PER_SECOND);
	assert_int_equal(s->transports[1].job.recipient_refill_delay_ns, 60 * NS_PER_SECOND);
	assert_int_equal(s->transports[0].job.process_limit, 2);
	assert_int_equal(s->transports[1].job.process_limit, 3);
	assert_int_equal(s->destinations[0].transport, 1);
	assert_int_equal(s->destinations[0].service_ns, NS_PER_SECOND);
	assert_int_equal(s->destinations[1].service_ns, -1);
	assert_int_equal(s->destinations[1].change_count, 3);
	assert_int_equal(s->changes[s->destinations[1].changes + 1].count, 0);
	assert_int_equal(s->changes[s->destinations[1].changes + 2].at_ns, 60 * NS_PER_SECOND);
	assert_true(s->destinations[1].rank < s->destinations[0].rank);	/* x before y */
	assert_int_equal(s->message_count, 3);
	assert_int_equal(s->recipient_count, 15);
	assert_int_equal(s->messages[1].recipients, 4);
	assert_int_equal(s->messages[1].arrive_ns, 90 * NS_PER_SECOND);
	assert_int_equal(s->runs[s->messages[1].runs].count, 3);
	assert_int_equal(s->runs[s->messages[2].runs].destination, 1);
	assert_int_equal(s->messages[2].service_ns, 4 * NS_PER_SECOND);
	scenario_free(s);
}

TEST(with_one_recipient_a_delivery_each_is_a_destination) {
	struct scenario *s = read_good("default_destination_recipient_limit = 1;\n"
	    "destinations = ( { name = \"a\"; window = \"2\"; } );\n"
	    "messages = ( { recipients = [ \"joe@a\", \"a:2\" ]; }, { recipients = \"joe@a\"; } );\n"
	    "completions = [ \"2:joe@a@5s\", \"1:1.3@a\", \"1\" ];");

	assert_int_equal(s->destination_count, 4);
	assert_string_equal(scenario_name(s, 1), "joe@a");
	assert_string_equal(scenario_name(s, 2), "1.2@a");
	assert_string_equal(scenario_name(s, 3), "1.3@a");
	assert_int_equal(s->destinations[3].change_count, 1);
	assert_int_equal(s->runs[s->messages[1].runs].destination, 1);
	assert_int_equal(s->completion_count, 3);
	assert_int_equal(s->completions[0].message, 1);
	assert_int_equal(s->completions[0].destination, 1);
	assert_int_equal(s->completions[0].at_ns, 5 * NS_PER_SECOND);
	assert_int_equal(s->completions[0].line, 4);
	assert_int_equal(s->completions[1].destination, 3);
	assert_int_equal(s->completions[2].destination, SCENARIO_NONE);
	scenario_free(s);
}

#define M "messages = ( { recipients = \"a\"; } );\n"

/* LINT-SIZE: a table */
TEST(every_mistake_has_its_place) {
	static const struct {
		const char *text;
		int line;
		const char *error;
	} cases[] = {
		{ "", 0, "messages: the list is empty" },
		{ "messages = ();", 1, "messages: the list is empty" },
		{ "messages = ( { recipients = \"a\"; )", 1, "syntax error" },
		{ M "mesages = ();", 2, "unknown setting mesages: did you mean messages?" },
		{ M "default_delivery_slot_cost = 2000000;", 2, "is not within 0..1000000" },
		{ M "default_delivery_slot_discount = 101;", 2, "is not within 0..100" },
		{ M "transports = ( { name = \"x\";\n delivery_slot_cots = 1; } );", 3,
		    "did you mean transports.delivery_slot_cost?" },
		{ M "transports = ( { process_limit = 1; } );", 2, "has no name" },
		{ M "transports = ( { name = \"x\"; },\n{ name = \"x\"; } );", 3,
		    "transports.name: x is already used" },
		{ M "transports = ( { name = \"x y\"; } );", 2, "without spaces" },
		{ M "transports = ( { name = \"x/y\"; } );", 2, "may only have letters" },
		{ M "destinations = ( { window = \"5\"; } );", 2, "has no name" },
		{ M "destinations = ( { name = \"5s\"; } );", 2, "cannot be a time" },
		{ M "destinations = ( { name = \"b\"; },\n{ name = \"b\"; } );", 3,
		    "destinations.name: b is already used" },
		{ M "destinations = ( { name = \"b\";\ntransport = \"z\"; } );", 3,
		    "destinations.transport: unknown transport" },
		{ M "destinations = ( { name = \"b\";\nwindow = \"5,4@2s,3@1s\"; } );", 3,
		    "must be N, or N,N2@TIME" },
		{ M "destinations = ( { name = \"b\";\nwindow = \"x\"; } );", 3,
		    "must be N, or N,N2@TIME" },
		{ M "destinations = ( { name = \"b\";\nwindow = \"5@1s\"; } );", 3,
		    "must be N, or N,N2@TIME" },
		{ M "destinations = ( { name = \"b\"; service = \"40d\"; } );", 2,
		    "is not within 0s..30d" },
		{ "messages = ( { recipients = \"a\"; },\n{ arrive = \"1s\"; } );", 2,
		    "messages: a message has no recipients" },
		{ "messages = ( { recipients = [ \"a\",\n\"b:0\" ]; } );", 2,
		    "\"b:0\" is not DESTINATION" },
		{ "messages = ( { recipients = \"joe@a:2\"; } );", 1, "is not DESTINATION" },
		{ "messages = ( { recipients = \"@a\"; } );", 1, "is not DESTINATION" },
		{ "messages = ( { recipients = \"a b\"; } );", 1, "is not DESTINATION" },
		{ "messages = ( { recipients = \"\"; } );", 1, "must have 1..150 characters" },
		{ "messages = ( { recipients = \"a:1000000\"; },\n{ recipients = \"a\"; } );", 2,
		    "more than 1000000 in all" },
		{ "messages = ( { recipients = \"a\"; count = 100000; },\n{ recipients = \"a\"; } );",
		    1, "messages: more than 100000" },
		{ "messages = ( { recipients = \"a\"; arrive = \"5\"; } );", 1,
		    "is not a time such as" },
		{ "transports = ( { name = \"x\"; }, { name = \"y\"; } );\n" M, 2,
		    "there are several transports" },
		{ M "completions = [ \"1\",\n\"2\" ];", 3, "unknown message" },
		{ M "completions = \"x\";", 2, "unknown message" },
		{ M "completions = \"1:z\";", 2, "unknown destination" },
		{ M "completions = \"1@x\";", 2, "must be MESSAGE" },
		{ M "completions = \"1:a@\";", 2, "unknown destination" },
		{ M "qmgr_message_recipient_minimum = 0;", 2, "is not within 1..1000000" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config_messages messages;
		struct scenario *s = scenario_read_text(cases[i].text, "x", &messages);
		bool found = false;

		for (size_t j = 0; j < messages.count; j++)
			found |= messages.list[j].line == cases[i].line &&
			    strstr(messages.list[j].text, cases[i].error) != NULL;
		if (s != NULL || !found)
			fail_msg("%s: line %d, %s", cases[i].text,
			    messages.count > 0 ? messages.list[0].line : -1,
			    messages.count > 0 ? messages.list[0].text : "no error");
		config_messages_free(&messages);
	}
}

TEST(what_is_wrong_with_copies_is_said_once) {
	struct config_messages messages;

	assert_null(scenario_read_text("messages = ( { recipients = \"a:x\"; count = 100; } );",
	    "x", &messages));
	assert_int_equal(messages.errors, 1);
	config_messages_free(&messages);
}

TEST(many_destinations_are_found_and_ranked) {
	static char text[64 * 3000];
	size_t length = 0;
	struct scenario *s;

	length += (size_t)snprintf(text, sizeof(text), "messages = ( { recipients = [ \"a\"");
	for (int i = 0; i < 3000; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, ", \"d%d:2\"",
		    i % 1500);
	snprintf(text + length, sizeof(text) - length, " ]; } );");
	s = read_good(text);
	assert_int_equal(s->destination_count, 1501);
	assert_int_equal(s->recipient_count, 6001);
	for (uint32_t i = 0; i < s->destination_count; i++)
		for (uint32_t j = 0; j < s->destination_count; j += 97)
			assert_int_equal(s->destinations[i].rank < s->destinations[j].rank,
			    strcmp(scenario_name(s, i), scenario_name(s, j)) < 0);
	scenario_free(s);
}

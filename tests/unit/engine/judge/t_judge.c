/* SPDX-License-Identifier: ISC */
/* Whose a delivery is, by the lines that mail servers log, and what the rules of
 * providers make of replies. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "config/compile/compile.h"
#include "engine/judge/judge.h"
#include "wire/mail/mail_log.h"

static const char main_text[] = "version = 1; classes = ();\n"
    "mta = ( { name = \"in\"; site = \"/none\"; },\n"
    "        { name = \"out\"; site = \"/none\"; syslog_name = \"postfix-out\"; ports = [ 25, 2525 ]; },\n"
    "        { name = \"old\"; kind = \"sendmail\"; user = \"root\"; },\n"
    "        { name = \"msp\"; kind = \"sendmail\"; user = \"root\"; syslog_name = \"sm-msp-queue\"; } );\n";
static const char providers_text[] = "version = 1;\n"
    "providers = (\n"
    "  { name = \"big\"; relays = [ \"*.big.example\", \"203.0.113.0/24\" ];\n"
    "    replies = ( { name = \"big-rate\"; match = \"^421[ -]4\\.7\\.28\"; class = \"remote-throttle\";\n"
    "                  action = \"suspend\"; for = \"10m\"; threshold = \"3/1h\"; note = \"slow\"; },\n"
    "                { match = \"blocked\"; action = \"alert\"; } ); } );\n"
    "replies = ( { name = \"all-rate\"; match = \"4\\.7\\.28\"; class = \"rcpt-temporary\"; },\n"
    "            { name = \"slow\"; match = \"^(a|aa)+$\"; action = \"alert\"; } );\n";

static struct {
	struct generation *g;
	struct judge *judge;
} w;

static int end_world(void **state) {
	judge_close(&w.judge);
	assert_null(w.judge);
	judge_close(&w.judge);
	free(w.g);
	w.g = NULL;
	return 0;
}

/* In place of the one before. */
static void make_world(const char *text, const char *providers) {
	struct config_messages messages;
	struct diag diag;

	end_world(NULL);
	w.g = config_compile_texts(text, "main", providers, "providers", &messages);
	for (size_t i = 0; i < messages.count; i++)
		if (messages.list[i].severity == MESSAGE_ERROR)
			print_message("%s:%d: %s\n", messages.list[i].file, messages.list[i].line,
			    messages.list[i].text);
	assert_non_null(w.g);
	config_messages_free(&messages);
	if (judge_open(&w.judge, w.g, &diag) != 0)
		fail_msg("%s", diag.text);
}

static int usual_world(void **state) {
	make_world(main_text, providers_text);
	return 0;
}

static struct judgement judge_line(unsigned mtas, const char *line) {
	struct log_line out;
	struct judgement judgement;

	if (mail_log_scan(line, strlen(line), &out) != LOG_LINE_DELIVERY)
		fail_msg("no delivery: %s", line);
	judge_delivery(w.judge, mtas, &out.delivery, &judgement);
	return judgement;
}

#define HEAD "Jul  1 12:00:00 host "
#define POSTFIX(program, relay, status, text) HEAD program "[1]: 4ABCDEF123: to=<u@d.example>, " \
	"relay=" relay ", delay=1, delays=0/0/1/0, dsn=4.0.0, status=" status " (" text ")"
#define SENDMAIL(mailer, relay, stat) HEAD "sm-mta[2]: 16GAbc01234567: to=<u@d.example>, delay=00:00:01, " \
	"xdelay=00:00:01, mailer=" mailer ", pri=1, relay=" relay ", dsn=4.0.0, stat=" stat

TEST_IN(usual_world, end_world, a_delivery_is_of_the_mail_server_that_logs_it) {
	static const struct {
		unsigned mtas;
		const char *line;
		unsigned mta;
	} cases[] = {
		{ 15, POSTFIX("postfix/smtp", "m.d.example[192.0.2.1]:25", "sent", "250 ok"), 0 },
		{ 15, POSTFIX("postfix-out/smtp", "m.d.example[192.0.2.1]:25", "sent", "250 ok"), 1 },
		{ 15, POSTFIX("postfix-other/smtp", "m.d.example[192.0.2.1]:25", "sent", "250 ok"),
		    GENERATION_MTAS_MAX },
		{ 13, POSTFIX("postfix-out/smtp", "m.d.example[192.0.2.1]:25", "sent", "250 ok"),
		    GENERATION_MTAS_MAX },
		{ 14, POSTFIX("postfix/smtp", "m.d.example[192.0.2.1]:25", "sent", "250 ok"),
		    GENERATION_MTAS_MAX },
		{ 15, SENDMAIL("esmtp", "m.d.example. [192.0.2.1]", "Sent (ok)"), 2 },
		{ 15, HEAD "sm-msp-queue[3]: 16GAbc01234567: to=<u@d.example>, delay=00:00:01, xdelay=00:00:01, "
		    "mailer=relay, pri=1, relay=[127.0.0.1] [127.0.0.1], dsn=2.0.0, stat=Sent (ok)", 3 },
		{ 8, SENDMAIL("esmtp", "m.d.example. [192.0.2.1]", "Sent (ok)"), GENERATION_MTAS_MAX },
		{ 0, SENDMAIL("esmtp", "m.d.example. [192.0.2.1]", "Sent (ok)"), GENERATION_MTAS_MAX },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct judgement j = judge_line(cases[i].mtas, cases[i].line);

		if (j.mta != cases[i].mta)
			fail_msg("mta %u: %s", j.mta, cases[i].line);
		assert_int_equal(j.owner.kind == DESTINATION_NONE, j.mta == GENERATION_MTAS_MAX);
	}
}

TEST_IN(usual_world, end_world, a_lane_is_told_by_its_name) {
	static const struct {
		const char *line;
		bool cloned;
		uint32_t lane;
	} cases[] = {
		{ POSTFIX("postfix/smtp", "m.d.example[192.0.2.1]:25", "sent", "250"), true, 0 },
		{ POSTFIX("postfix/lane5/smtp", "m.d.example[192.0.2.1]:25", "sent", "250"), true, 5 },
		{ POSTFIX("postfix-out/lane20/smtp", "m.d.example[192.0.2.1]:25", "sent", "250"), true, 20 },
		{ POSTFIX("postfix/lane0/smtp", "m.d.example[192.0.2.1]:25", "sent", "250"), false, 0 },
		{ POSTFIX("postfix/lane05/smtp", "m.d.example[192.0.2.1]:25", "sent", "250"), false, 0 },
		{ POSTFIX("postfix/lane99999999/smtp", "m.d.example[192.0.2.1]:25", "sent", "250"), false, 0 },
		{ POSTFIX("postfix/lane/smtp", "m.d.example[192.0.2.1]:25", "sent", "250"), false, 0 },
		{ POSTFIX("postfix/lanes5/smtp", "m.d.example[192.0.2.1]:25", "sent", "250"), false, 0 },
		{ POSTFIX("postfix/relay/smtp", "m.d.example[192.0.2.1]:25", "sent", "250"), false, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct judgement j = judge_line(15, cases[i].line);

		assert_int_equal(j.cloned, cases[i].cloned);
		assert_int_equal(j.lane, cases[i].lane);
		assert_string_equal(j.owner.name, "d.example");
	}
}

static const struct {
	const char *line;
	enum destination_kind kind;
	const char *destination;
} owners[] = {
	{ POSTFIX("postfix/smtp", "m.d.example[192.0.2.1]:25", "sent", "250"),
	    DESTINATION_DOMAIN, "d.example" },
	{ POSTFIX("postfix/smtp", "m.d.example[192.0.2.1]:2525", "sent", "250"),
	    DESTINATION_RELAY, "[192.0.2.1]:2525" },
	{ POSTFIX("postfix-out/smtp", "m.d.example[192.0.2.1]:2525", "sent", "250"),
	    DESTINATION_DOMAIN, "d.example" },
	{ POSTFIX("postfix/smtp", "filter[127.0.0.1]:25", "sent", "250"),
	    DESTINATION_RELAY, "[127.0.0.1]:25" },
	{ POSTFIX("postfix/smtp", "filter[::1]:10024", "sent", "250"),
	    DESTINATION_RELAY, "[::1]:10024" },
	{ POSTFIX("postfix/smtp", "filter[127.9.9.9]:10024", "sent", "250"),
	    DESTINATION_RELAY, "[127.9.9.9]:10024" },
	{ POSTFIX("postfix/lmtp", "imap[192.0.2.9]:24", "sent", "250"),
	    DESTINATION_RELAY, "[192.0.2.9]:24" },
	{ POSTFIX("postfix/lmtp", "host[private/dovecot-lmtp]", "sent", "250"),
	    DESTINATION_NONE, "" },
	{ POSTFIX("postfix/local", "local", "sent", "delivered to mailbox"), DESTINATION_NONE, "" },
	{ POSTFIX("postfix/pipe", "uucp", "deferred", "temporary failure"), DESTINATION_NONE, "" },
	{ POSTFIX("postfix/smtp", "mx1.big.example[192.0.2.1]:25", "sent", "250"),
	    DESTINATION_PROVIDER, "provider:big" },
	{ POSTFIX("postfix/smtp", "x.example[203.0.113.9]:25", "sent", "250"),
	    DESTINATION_PROVIDER, "provider:big" },
	/* own relays take no part in roll-up */
	{ POSTFIX("postfix/smtp", "mx1.big.example[203.0.113.9]:10024", "sent", "250"),
	    DESTINATION_RELAY, "[203.0.113.9]:10024" },
	/* no relay is told, but the text does */
	{ POSTFIX("postfix/smtp", "none", "deferred",
	    "connect to mx1.big.example[192.0.2.1]:25: Connection refused"),
	    DESTINATION_PROVIDER, "provider:big" },
	{ POSTFIX("postfix/smtp", "none", "deferred",
	    "connect to filter[127.0.0.1]:10024: Connection refused"),
	    DESTINATION_RELAY, "[127.0.0.1]:10024" },
	{ POSTFIX("postfix/smtp", "none", "deferred",
	    "connect to m.d.example[2001:db8::1]:25: Network is unreachable"),
	    DESTINATION_DOMAIN, "d.example" },
	{ POSTFIX("postfix/error", "none", "deferred", "delivery temporarily suspended: "
	    "connect to filter[127.0.0.1]:10024: Connection refused"),
	    DESTINATION_RELAY, "[127.0.0.1]:10024" },
	{ POSTFIX("postfix/retry", "none", "deferred", "delivery temporarily suspended: "
	    "host mx1.big.example[192.0.2.1] refused to talk to me: 421 no"),
	    DESTINATION_PROVIDER, "provider:big" },
	{ POSTFIX("postfix/retry", "none", "deferred", "delivery temporarily suspended: "
	    "lost connection with m.d.example[192.0.2.1] while receiving the initial server greeting"),
	    DESTINATION_DOMAIN, "d.example" },
	{ POSTFIX("postfix/error", "none", "bounced", "d.example does not accept mail"),
	    DESTINATION_NONE, "" },
	/* a remote cannot name another's relay: its words stand behind */
	{ POSTFIX("postfix/smtp", "m.d.example[192.0.2.1]:25", "deferred",
	    "host m.d.example[192.0.2.1] said: 450 connect to mx1.big.example[203.0.113.1]:25: x "
	    "(in reply to RCPT TO command)"), DESTINATION_DOMAIN, "d.example" },
	{ HEAD "postfix/smtp[1]: 4ABCDEF123: to=<u@D.Example.>, relay=m.d.example[192.0.2.1]:25, "
	    "delay=1, delays=0/0/1/0, dsn=2.0.0, status=sent (250)", DESTINATION_DOMAIN, "d.example" },
	{ HEAD "postfix/smtp[1]: 4ABCDEF123: to=<u@[192.0.2.1]>, relay=192.0.2.1[192.0.2.1]:25, "
	    "delay=1, delays=0/0/1/0, dsn=2.0.0, status=sent (250)", DESTINATION_DOMAIN, "[192.0.2.1]" },
	{ HEAD "postfix/smtp[1]: 4ABCDEF123: to=<u@provider:big>, relay=m.d.example[192.0.2.1]:25, "
	    "delay=1, delays=0/0/1/0, dsn=2.0.0, status=sent (250)", DESTINATION_NONE, "" },
	{ HEAD "postfix/smtp[1]: 4ABCDEF123: to=<\"a@b c\"@[192.0.2.1]:25>, relay=m.d.example"
	    "[192.0.2.1]:25, delay=1, delays=0/0/1/0, dsn=2.0.0, status=sent (250)",
	    DESTINATION_NONE, "" },
	{ SENDMAIL("esmtp", "m.d.example. [192.0.2.1]", "Sent (ok)"), DESTINATION_DOMAIN, "d.example" },
	{ SENDMAIL("esmtp", "mx1.big.example. [192.0.2.1]", "Sent (ok)"),
	    DESTINATION_PROVIDER, "provider:big" },
	{ SENDMAIL("relay", "gate.example. [192.0.2.4]", "Sent (ok)"),
	    DESTINATION_RELAY, "[192.0.2.4]:25" },
	{ SENDMAIL("relay", "[127.0.0.1] [127.0.0.1]", "Sent (ok)"), DESTINATION_RELAY, "[127.0.0.1]:25" },
	{ SENDMAIL("local", "local", "Sent"), DESTINATION_NONE, "" },
};

TEST_IN(usual_world, end_world, a_result_belongs_to_the_next_hop_that_was_tried) {
	for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++) {
		struct judgement j = judge_line(15, owners[i].line);

		if (j.owner.kind != owners[i].kind || strcmp(j.owner.name, owners[i].destination) != 0)
			fail_msg("%d %s: %s", (int)j.owner.kind, j.owner.name, owners[i].line);
		assert_int_equal(j.owner.provider != JUDGE_NONE, j.owner.kind == DESTINATION_PROVIDER);
	}
}

/* 80 bytes are kept, more are nobody's. */
TEST_IN(usual_world, end_world, a_long_domain_is_nobodys) {
	char line[512], domain[JUDGE_NAME_MAX + 2];

	for (size_t length = JUDGE_NAME_MAX; length <= JUDGE_NAME_MAX + 1; length++) {
		struct judgement j;

		memset(domain, 'a', length);
		domain[40] = '.';
		domain[length] = '\0';
		snprintf(line, sizeof(line), HEAD "postfix/smtp[1]: 4ABCDEF123: to=<u@%s>, "
		    "relay=m.d.example[192.0.2.1]:25, delay=1, delays=0/0/1/0, dsn=2.0.0, "
		    "status=sent (250)", domain);
		j = judge_line(15, line);
		assert_int_equal(j.owner.kind, length == JUDGE_NAME_MAX ? DESTINATION_DOMAIN :
		    DESTINATION_NONE);
	}
}

TEST_IN(NULL, end_world, the_relay_of_all_mail_is_a_destination_of_its_own) {
	static const struct {
		const char *smart_host, *line;
		const char *destination;
	} cases[] = {
		{ "[gate.example]", SENDMAIL("esmtp", "gate.example. [192.0.2.4]", "Sent (ok)"),
		    "[192.0.2.4]:25" },
		{ "[192.0.2.4]", SENDMAIL("esmtp", "gate.example. [192.0.2.4]", "Sent (ok)"),
		    "[192.0.2.4]:25" },
		{ "[gate.example]:25", SENDMAIL("esmtp", "Gate.Example. [192.0.2.4]", "Sent (ok)"),
		    "[192.0.2.4]:25" },
		{ "[gate.example]", SENDMAIL("esmtp", "other.example. [192.0.2.5]", "Sent (ok)"),
		    "d.example" },
		/* its log tells no port */
		{ "[gate.example]:587", SENDMAIL("esmtp", "gate.example. [192.0.2.4]", "Sent (ok)"),
		    "[192.0.2.4]:587" },
		{ "gate.example:587", SENDMAIL("esmtp", "gate.example. [192.0.2.4]", "Sent (ok)"),
		    "[192.0.2.4]:587" },
		/* its MX hosts may have any name */
		{ "gate.example", SENDMAIL("esmtp", "other.example. [192.0.2.5]", "Sent (ok)"),
		    "[192.0.2.5]:25" },
		/* as above, no address is told */
		{ "[gate.example]", SENDMAIL("esmtp", "gate.example.",
		    "Deferred: Connection refused by gate.example."), "[gate.example]:25" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct judgement j;
		char text[256];

		snprintf(text, sizeof(text), "version = 1; classes = (); mta = ( "
		    "{ kind = \"sendmail\"; user = \"root\"; smart_host = \"%s\"; } );\n",
		    cases[i].smart_host);
		make_world(text, NULL);
		j = judge_line(1, cases[i].line);
		if (strcmp(j.owner.name, cases[i].destination) != 0)
			fail_msg("%s: %s", j.owner.name, cases[i].line);
	}
}

TEST_IN(NULL, end_world, a_postfix_relayhost_is_one_too) {
	static const struct {
		const char *relayhost, *line, *destination;
	} cases[] = {
		{ "[gate.example]", POSTFIX("postfix/smtp", "gate.example[192.0.2.4]:25", "sent", "250"),
		    "[192.0.2.4]:25" },
		{ "[gate.example]", POSTFIX("postfix/smtp", "m.d.example[192.0.2.1]:25", "sent", "250"),
		    "d.example" },
		{ "gate.example", POSTFIX("postfix/smtp", "mx1.gate.example[192.0.2.4]:25", "sent", "250"),
		    "[192.0.2.4]:25" },
		/* another transport has its own ways */
		{ "gate.example", POSTFIX("postfix/direct/smtp", "m.d.example[192.0.2.1]:25", "sent", "250"),
		    "d.example" },
		{ "gate.example", POSTFIX("postfix/smtp", "none", "deferred",
		    "Host or domain name not found. Name service error for name=gate.example type=MX: "
		    "Host not found, try again"), "[gate.example]:25" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct generation *g;
		struct judgement j;
		char *block;

		/* the site's file tells it; here it is put behind the block's end */
		make_world(main_text, NULL);
		block = malloc((size_t)w.g->bytes + 32);
		assert_non_null(block);
		g = (struct generation *)(void *)block;
		judge_close(&w.judge);
		memcpy(block, w.g, (size_t)w.g->bytes);
		memset(block + g->bytes, 0, 32);
		memcpy(block + g->bytes, cases[i].relayhost, strlen(cases[i].relayhost));
		g->mtas[0].relayhost = (uint32_t)g->bytes;
		g->bytes += 32;
		free(w.g);
		w.g = g;
		assert_int_equal(judge_open(&w.judge, g, &(struct diag){ .error = 0 }), 0);
		j = judge_line(1, cases[i].line);
		if (strcmp(j.owner.name, cases[i].destination) != 0)
			fail_msg("%s: %s", j.owner.name, cases[i].line);
	}
}

/* What is looked for by a domain is what results are of. */
TEST(the_port_of_a_relayhost_may_be_a_service) {
	static const struct {
		const char *relayhost;
		uint16_t port;
	} cases[] = {
		{ "[gate.example]", 25 }, { "gate.example", 25 }, { "[gate.example]:26", 26 },
		{ "gate.example:26", 26 }, { "[gate.example]:submission", 587 },
		{ "gate.example:smtps", 465 }, { "[gate.example]:smtp", 25 },
		{ "[2001:db8::1]", 25 }, { "[2001:db8::1]:587", 587 },
		{ "[ipv6:2001:db8::1]:submission", 587 }, { "[gate.example]:70000", 25 },
		{ "[gate.example]:", 25 }, { "[gate.example]:nothing", 25 }, { "", 25 },
	};
	union {
		struct generation generation;
		char bytes[sizeof(struct generation) + 64];
	} g;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(&g, 0, sizeof(g));
		g.generation.bytes = sizeof(g);
		memcpy(g.bytes + sizeof(g.generation), cases[i].relayhost,
		    strlen(cases[i].relayhost));
		g.generation.mtas[0].relayhost = sizeof(g.generation);
		if (judge_relayhost_port(&g.generation, &g.generation.mtas[0]) != cases[i].port)
			fail_msg("%s", cases[i].relayhost);
	}
}

TEST_IN(usual_world, end_world, another_mail_servers_results_need_no_entry) {
	static const char domain[] = "D.example", name[] = "m.d.example";
	struct delivery d = { .source = DELIVERY_OF_OTHER, .agent = AGENT_SMTP,
		.status = DELIVERY_SENT, .domain = { domain, sizeof(domain) - 1 },
		.relay_name = { name, sizeof(name) - 1 }, .relay_port = 25 };
	struct judgement j;

	assert_true(address_parse("192.0.2.1", 9, &d.relay_address));
	judge_delivery(w.judge, 0, &d, &j);
	assert_int_equal(j.mta, GENERATION_MTAS_MAX);
	assert_int_equal(j.owner.kind, DESTINATION_DOMAIN);
	assert_string_equal(j.owner.name, "d.example");
	d.relay_port = 2525;
	judge_delivery(w.judge, 0, &d, &j);
	assert_string_equal(j.owner.name, "[192.0.2.1]:2525");
	judge_delivery(w.judge, 2, &d, &j);
	assert_int_equal(j.mta, 1);
	assert_string_equal(j.owner.name, "d.example");
}

/* --- rules -------------------------------------------------------------------- */

TEST_IN(usual_world, end_world, the_providers_rules_go_before_those_of_all) {
	struct judge_rule rule;
	struct judgement j;

	j = judge_line(1, POSTFIX("postfix/smtp", "mx1.big.example[192.0.2.1]:25", "deferred",
	    "host mx1.big.example[192.0.2.1] said: 421-4.7.28 no (in reply to end of DATA command)"));
	assert_int_equal(j.reply.class, RESULT_REMOTE_THROTTLE);
	judge_rule(w.g, j.rule, &rule);
	assert_string_equal(rule.name, "big-rate");
	assert_string_equal(rule.provider, "big");
	assert_string_equal(rule.note, "slow");
	assert_string_equal(rule.file, "providers");
	assert_int_equal(rule.line, 4);
	assert_int_equal(rule.action, REPLY_ACTION_SUSPEND);
	assert_int_equal(rule.for_ns, 600 * NS_PER_SECOND);
	assert_int_equal(rule.count, 3);
	assert_int_equal(rule.period_ns, 3600 * NS_PER_SECOND);
	assert_true(judge_teaches(w.g, &j));

	j = judge_line(1, POSTFIX("postfix/smtp", "m.d.example[192.0.2.1]:25", "deferred",
	    "host m.d.example[192.0.2.1] said: 421-4.7.28 no (in reply to end of DATA command)"));
	assert_int_equal(j.reply.class, RESULT_RCPT_TEMPORARY);
	judge_rule(w.g, j.rule, &rule);
	assert_string_equal(rule.name, "all-rate");
	assert_string_equal(rule.provider, "");
	assert_int_equal(rule.action, REPLY_ACTION_NONE);
	assert_true(judge_teaches(w.g, &j));
}

TEST_IN(usual_world, end_world, what_alerts_teaches_nothing) {
	struct judgement j = judge_line(1, POSTFIX("postfix/smtp", "none", "deferred",
	    "host mx1.big.example[192.0.2.1] refused to talk to me: 554 you are blocked"));

	assert_string_equal(j.owner.name, "provider:big");
	assert_int_equal(j.reply.class, RESULT_SITE_FAILURE);
	assert_int_equal(j.rule, 1);
	assert_false(judge_teaches(w.g, &j));
}

/* By lanes of 3 and more, or where it came by one that was kept. */
TEST_IN(NULL, end_world, connections_that_may_be_kept) {
	static const struct { unsigned mta; uint32_t lane, use; bool keeps; } wanted[] = {
		{ 0, 3, 1, true }, { 0, 2, 1, false }, { 0, 0, 1, false }, { 0, 2, 2, true },
		{ 1, 10, 1, false }, { 1, 10, 2, true }, { 2, 10, 1, false }, { 2, 0, 2, true },
	};

	make_world("version = 1; classes = (); mta = ( "
	    "{ name = \"a\"; site = \"/none\"; cache_from = 3; },"
	    "{ name = \"b\"; site = \"/none\"; cache_from = 0; } );\n", NULL);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		struct judgement judgement = { .mta = wanted[i].mta,
			.lane = wanted[i].lane };
		struct delivery delivery = { .conn_use = wanted[i].use };

		assert_int_equal(judge_keeps(w.g, &judgement, &delivery), wanted[i].keeps);
	}
}

TEST_IN(usual_world, end_world, no_rule_is_tried_on_what_nobody_said) {
	static const char *const lines[] = {
		POSTFIX("postfix/smtp", "mx1.big.example[192.0.2.1]:25", "sent", "250 4.7.28 blocked"),
		POSTFIX("postfix/retry", "none", "deferred", "delivery temporarily suspended: "
		    "host mx1.big.example[192.0.2.1] said: 421 4.7.28 no"),
		POSTFIX("postfix/local", "local", "deferred", "421 4.7.28 blocked"),
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(judge_line(1, lines[i]).rule, JUDGE_NONE);
}

TEST_IN(usual_world, end_world, a_pattern_that_gives_up_is_left_out_in_the_end) {
	char words[300];
	struct reply reply = { .class = RESULT_PERMANENT, .words = { words, sizeof(words) } };

	memset(words, 'a', sizeof(words));
	words[sizeof(words) - 1] = '!';
	for (int i = 0; i < 100; i++)
		assert_int_equal(judge_reply(w.judge, JUDGE_NONE, &reply), JUDGE_NONE);
	assert_int_equal(judge_patterns_given_up(w.judge), 16);
}

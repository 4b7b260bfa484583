/* SPDX-License-Identifier: ISC */
/* What the shipped rules of providers make of replies. */
#include "tests/unit/test.h"
#include "tests/unit/engine/judge/shipped_rules.h"
#include "wire/mail/mail_log.h"

enum { PROVIDER, RULE, CLASS, ACTION, TEXT, FIELDS };

TEST(the_shipped_rules_know_these) {
	FILE *file = open_source("tests/unit/cases/shipped_rules");
	char *fields[FIELDS];
	unsigned rows = 0;

	while (next_row(file, "|", fields, FIELDS)) {
		struct span words = { fields[TEXT], strlen(fields[TEXT]) };
		struct judge_rule rule = { .name = "none" };
		struct reply reply;
		uint32_t number;

		rows++;
		reply_judge_text(words, PHASE_END_OF_DATA, &reply);
		number = judge_reply(judge, provider_named(fields[PROVIDER]), &reply);
		if (number != JUDGE_NONE)
			judge_rule(generation, number, &rule);
		if (strcmp(rule.name, fields[RULE]) != 0 ||
		    strcmp(result_class_word(reply.class), fields[CLASS]) != 0 ||
		    strcmp(action_of(number), fields[ACTION]) != 0)
			fail_msg("rule %s, class %s, %s: %s", rule.name,
			    result_class_word(reply.class), action_of(number), fields[TEXT]);
	}
	fclose(file);
	assert_true(rows >= 50);
}

/* What these sites say of themselves: so many connections at once. */
TEST(the_shipped_ceilings) {
	static const struct {
		const char *provider, *reply;
		uint32_t ceiling;
	} rows[] = {
		{ "comcast", "421 resimta Too many sessions opened", 25 },
		{ "cox", "421 cxr 192.0.2.1 blocked. AUP#CXCNCT", 10 },
		{ "orange", "421 mw Trop de connexions. OFR004_104 [104]", 3 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct span words = { rows[i].reply, strlen(rows[i].reply) };
		uint32_t provider = generation_find_provider(generation, rows[i].provider,
		    strlen(rows[i].provider));
		struct judge_rule rule;
		struct reply reply;

		assert_int_equal(generation_provider(generation, provider)->ceiling, rows[i].ceiling);
		reply_judge_text(words, PHASE_GREETING, &reply);
		judge_rule(generation, judge_reply(judge, provider, &reply), &rule);
		assert_int_equal(rule.action, REPLY_ACTION_CEILING);
		assert_int_equal(rule.ceiling, rows[i].ceiling);
	}
}

TEST(ionos_is_on_the_platform_of_gmx) {
	static const char *const relays[] = { "mx00.kundenserver.de", "mx01.ionos.de",
		"mx00.ionos.co.uk", "mx00.1and1.com", "mx01.1and1.co.uk", "mx00.perfora.net",
		"mx00.gmx.net", "mx-ha03.web.de" };
	static const char *const others[] = { "mail.ionos.example", "mx00.1und1.example",
		"kundenserver.de.example" };
	uint32_t gmx = generation_find_provider(generation, "gmx", 3);

	for (size_t i = 0; i < sizeof(relays) / sizeof(relays[0]); i++)
		assert_int_equal(generation_match_provider(generation, relays[i], strlen(relays[i]), NULL), gmx);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_int_equal(generation_match_provider(generation, others[i], strlen(others[i]), NULL), JUDGE_NONE);
}

/* Greylisting is nobody's failure even where the phase says so, and what alerts never
 * has another class than it had. */
TEST(greylisting_in_the_greeting_is_no_site_failure) {
	static const char text[] = "Jul  1 12:00:00 host postfix/smtp[1]: 4ABCDEF123: "
	    "to=<u@d.example>, relay=m.d.example[192.0.2.1]:25, delay=1, delays=0/0/1/0, dsn=4.0.0, "
	    "status=deferred (host m.d.example[192.0.2.1] refused to talk to me: 451 4.7.1 "
	    "Greylisted, come again)";
	struct judgement j;
	struct log_line line;

	assert_int_equal(mail_log_scan(text, sizeof(text) - 1, &line), LOG_LINE_DELIVERY);
	judge_delivery(judge, 1, &line.delivery, &j);
	assert_int_equal(j.reply.phase, PHASE_GREETING);
	assert_int_equal(j.reply.class, RESULT_RCPT_TEMPORARY);
	for (uint32_t i = 0; i < generation->reply_rule_count; i++) {
		const struct generation_reply_rule *row = generation_reply_rule(generation, i);

		if (row->action == REPLY_ACTION_ALERT)
			assert_true(!row->has_class || row->class == RESULT_REMOTE_THROTTLE);
		if (row->action == REPLY_ACTION_SUSPEND)
			assert_int_equal(row->class, RESULT_REMOTE_THROTTLE);
	}
}

TEST_GROUP(open_shipped, close_shipped)

/* SPDX-License-Identifier: ISC */
/* Decisions on one line: what people read, what programs read, and that nothing of it obeys
 * a stranger. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "policy/limit/decision.h"
#include "view/decided_line.h"

#define AT_NS	(5000 * NS_PER_SECOND)

static void put(struct decided *decided, enum decided_text which, const char *text) {
	decided_put(decided, which, text, strlen(text));
}

static struct decided made(enum decided_kind kind, const char *name) {
	struct decided decided = { .id = 1, .kind = (uint8_t)kind, .at_ns = AT_NS,
		.reason = DECIDED_NO_REASON };

	put(&decided, DECIDED_NAME, name);
	return decided;
}

static void is_line(const struct decided *decided, const char *wanted) {
	char subject[DECIDED_LINE_MAX], text[DECIDED_LINE_MAX], both[2 * DECIDED_LINE_MAX];

	snprintf(both, sizeof(both), "%s | %s", decided_line_subject(decided, subject),
	    decided_line_text(decided, text));
	assert_string_equal(both, wanted);
}

TEST(a_refused_client) {
	struct decided decided = made(DECIDED_REFUSED, "mx.a.example");

	assert_true(address_parse("192.0.2.7", 9, &decided.client));
	decided.reason = REASON_CLASS_INBOUND;
	decided.count = decided.limit = 8;
	put(&decided, DECIDED_CLASS, "customer");
	is_line(&decided, "192.0.2.7 mx.a.example | class-inbound 8 of 8 class customer");
	decided.flags = DECIDED_OBSERVED_ONLY;
	is_line(&decided, "192.0.2.7 mx.a.example | class-inbound 8 of 8 class customer "
	    "(observe mode)");
}

TEST(mail_that_is_held) {
	struct decided decided = made(DECIDED_DEFERRED, "x.example");

	decided.flags = DECIDED_OUTBOUND;
	decided.reason = REASON_SUSPENDED;
	decided.until_ns = AT_NS + 240 * NS_PER_SECOND;
	put(&decided, DECIDED_RECIPIENT, "u@x.example");
	put(&decided, DECIDED_WINDOW_OF, "provider:big");
	is_line(&decided, "x.example | suspended to u@x.example window of provider:big for 240 s");
}

TEST(what_becomes_of_a_destination) {
	struct decided decided = made(DECIDED_SUSPENDED, "x.example");

	decided.by = DECIDED_BY_COHORTS;
	decided.until_ns = AT_NS + 300 * NS_PER_SECOND;
	decided.before = 5;
	put(&decided, DECIDED_REASON, "421 4.7.0 busy");
	is_line(&decided, "x.example | by cohorts for 300 s, window 5 to 0: 421 4.7.0 busy");
	decided = made(DECIDED_WINDOW, "x.example");
	decided.before = decided.window = 5;
	decided.ceiling_before = 20;
	decided.ceiling = 5;
	is_line(&decided, "x.example | window 5, ceiling 20 to 5");
	decided.ceiling = 0;
	decided.window = 0;
	is_line(&decided, "x.example | window 5 to 0, ceiling 20 reset");
	decided = made(DECIDED_PACE, "x.example");
	decided.before = 10000;
	decided.window = 20000;
	is_line(&decided, "x.example | pace 1/1s to 30/1m");
	decided.before = 0;
	is_line(&decided, "x.example | pace none to 30/1m");
	decided = made(DECIDED_SOURCE_DAY, "ip2");
	decided.before = 50;
	decided.window = 100;
	put(&decided, DECIDED_REASON, "grew: 50 sent to big, 0 of 48 throttled");
	is_line(&decided, "ip2 | 100 messages a day: grew: 50 sent to big, 0 of 48 throttled");
	decided = made(DECIDED_SOURCE_DAY, "ip2");
	decided.before = 100;
	is_line(&decided, "ip2 | no maximum");
	decided = made(DECIDED_ALERT, "x.example");
	put(&decided, DECIDED_RULE, "blocklist");
	put(&decided, DECIDED_NOTE, "we are listed");
	put(&decided, DECIDED_REASON, "554 blocked");
	is_line(&decided, "x.example | rule blocklist: we are listed: 554 blocked");
	decided = made(DECIDED_BY_HAND, "slow");
	decided.flags = DECIDED_IS_CLASS;
	decided.by = 2;		/* hold */
	decided.uid = 1000;
	decided.until_ns = INT64_MAX;
	is_line(&decided, "class slow | hold by uid 1000 until it is resumed");
}

TEST(a_resume_is_not_until_it_is_resumed) {
	struct decided decided = made(DECIDED_BY_HAND, "x.example");

	decided.by = 3;		/* resume */
	decided.until_ns = INT64_MAX;
	is_line(&decided, "x.example | resume by uid 0");
}

TEST(without_a_name_the_class_is_the_subject) {
	struct decided decided = made(DECIDED_DEFERRED, "");

	decided.flags = DECIDED_OUTBOUND;
	decided.count = decided.limit = 2;
	decided.reason = REASON_CLASS_SESSIONS;
	put(&decided, DECIDED_CLASS, "customer");
	is_line(&decided, "class customer | class-sessions 2 of 2");
}

/* Every byte in every text, and numbers that nobody counts to. */
TEST(nothing_obeys_a_stranger) {
	char hostile[40], subject[DECIDED_LINE_MAX], text[DECIDED_LINE_MAX];

	for (unsigned kind = 0; kind < DECIDED_KINDS + 2; kind++) {
		struct decided decided = { .kind = (uint8_t)kind, .reason = 200, .by = 200,
			.flags = UINT8_MAX, .stage = 200, .result = 200, .at_ns = INT64_MIN,
			.until_ns = INT64_MAX - 1, .count = UINT32_MAX, .limit = UINT32_MAX,
			.before = UINT32_MAX, .ceiling = UINT32_MAX };

		if (kind >= DECIDED_KINDS)
			continue;	/* no reader gives such a one */
		for (unsigned which = DECIDED_NAME; which < DECIDED_TEXTS; which++) {
			for (unsigned i = 0; i < sizeof(hostile); i++)
				hostile[i] = (char)(1 + (which * 31 + i * 7 + kind * 13) % 255);
			decided_put(&decided, (enum decided_text)which, hostile, 24);
		}
		decided_line_subject(&decided, subject);
		decided_line_text(&decided, text);
		for (const char *c = subject; *c != '\0'; c++)
			assert_in_range(*c, ' ', '~');
		for (const char *c = text; *c != '\0'; c++)
			assert_in_range(*c, ' ', '~');
	}
}

static unsigned puts_counted;

static void put_counted(struct writer *writer, const char *name, enum column_kind kind,
    struct value value) {
	assert_non_null(name);
	assert_in_range(value.known, 0, 1);
	puts_counted++;
	writer_member(writer, name, kind, value);
}

TEST(all_columns_have_values) {
	struct decided decided = made(DECIDED_REFUSED, "a\"b\x1b");
	const struct decided_shown shown = { .d = &decided,
		.wall_ns = 1795329900 * NS_PER_SECOND };	/* 2026-11-22T06:45:00Z */
	char *out = NULL;
	size_t length;
	FILE *stream = open_memstream(&out, &length);
	struct writer writer;

	decided.count = 3;
	assert_non_null(stream);
	writer_init(&writer, stream, true);
	writer_line_begin(&writer);
	decided_write(&shown, DECIDED_FOR_TAIL, &writer, put_counted);
	writer_line_end(&writer);
	fclose(stream);
	assert_int_equal(puts_counted, 38);
	assert_non_null(strstr(out, "\"name\": \"a\\\"b\\u001b\""));
	assert_non_null(strstr(out, "\"kind\": \"refused\""));
	assert_non_null(strstr(out, "\"count\": 3"));
	assert_non_null(strstr(out, "\"time\": \"2026-11-22T06:45:00.000Z\""));
	free(out);
}

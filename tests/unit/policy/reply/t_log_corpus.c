/* SPDX-License-Identifier: ISC */
/*
 * The lines and replies that others collected, with their truth, where they are at
 * hand: $POSTERN_SHARED/corpus, or ../shared/corpus beside the sources.  Every
 * delivery is recognised with its fields; classes are right as far as promised.
 */
#define TEST_OWN_MAIN
#include "tests/unit/test.h"
#include "policy/reply/reply.h"
#include "tests/unit/material.h"
#include "wire/mail/mail_log.h"

static char *fields[14];

static bool equal(struct span span, const char *text) {
	return span.length == strlen(text) &&
	    (span.length == 0 || memcmp(span.text, text, span.length) == 0);
}

static enum log_line_kind scan(const char *text, bool has_head, const char *program,
    struct log_line *out) {
	static char line[66000];

	if (has_head)
		snprintf(line, sizeof(line), "%s", text);
	else
		snprintf(line, sizeof(line), "Nov 21 05:48:22 mx %s[7]: %s", program, text);
	return mail_log_scan(line, strlen(line), out);
}

static bool has_fields(const struct delivery *d, char *const *expected) {
	char dsn[32] = "";

	if (d->dsn[0] != 0)
		snprintf(dsn, sizeof(dsn), "%u.%u.%u", d->dsn[0], d->dsn[1], d->dsn[2]);
	return (d->source == DELIVERY_OF_SENDMAIL) == (strcmp(expected[0], "sendmail") == 0) &&
	    equal(d->queue_id, expected[2]) && equal(d->relay, expected[4]) &&
	    equal(d->source == DELIVERY_OF_SENDMAIL ? d->list : d->recipient, expected[3]) &&
	    strcmp(dsn, expected[5]) == 0;
}

TEST(deliveries) {
	FILE *file = open_corpus("delivery-truth.tsv");
	unsigned rows = 0, missed = 0, sure = 0, sure_right = 0, doubtful_wrong = 0;

	while (next_row(file, "\t", fields, 14)) {
		struct log_line line;
		struct reply reply;
		bool is_sure = fields[8][0] == 'y', right;
		const char *word;

		rows++;
		if (scan(fields[1], fields[12][0] != 'n', fields[13], &line) != LOG_LINE_DELIVERY ||
		    !has_fields(&line.delivery, fields)) {
			missed++;
			print_message("%s\n", fields[1]);
			continue;
		}
		reply_judge(&line.delivery, &reply);
		word = result_class_word(reply.class);
		right = strcmp(word, fields[7]) == 0;
		sure += is_sure;
		sure_right += is_sure && right;
		if (!is_sure && !right && !is_listed(word, fields[9], "|"))
			doubtful_wrong++;
		else if (!is_sure || right)
			continue;
		print_message("%s, not %s: %s\n", word, fields[7], fields[1]);
	}
	fclose(file);
	print_message("%u rows; of %u sure ones %u are right\n", rows, sure, sure_right);
	assert_true(rows > 0);
	assert_int_equal(missed, 0);
	assert_true(sure_right * 100 >= sure * 98);
	assert_int_equal(doubtful_wrong, 0);
}

/* Whichever program is put before those that have none. */
TEST(no_deliveries) {
	static const char *const programs[] = { NULL, "postfix/smtp", "postfix/smtpd",
		"postfix/qmgr", "postfix/error", "postfix/bounce", "sendmail", "sm-mta" };
	FILE *file = open_corpus("not-a-delivery.tsv");
	unsigned rows = 0, taken = 0;

	while (next_row(file, "\t", fields, 3)) {
		rows++;
		for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
			struct log_line line;

			if (scan(fields[0], programs[i] == NULL, programs[i], &line) !=
			    LOG_LINE_DELIVERY)
				continue;
			taken++;
			print_message("%s\n", fields[0]);
		}
	}
	fclose(file);
	print_message("%u rows\n", rows);
	assert_true(rows > 0);
	assert_int_equal(taken, 0);
}

/* Of the words that the table tells it in. */
static enum delivery_phase phase_of(const char *text) {
	static const struct {
		const char *text;
		enum delivery_phase phase;
	} phases[] = {
		{ "greeting", PHASE_GREETING }, { "HELO", PHASE_EHLO }, { "EHLO", PHASE_EHLO },
		{ "TLS", PHASE_STARTTLS }, { "tls", PHASE_STARTTLS }, { "connect", PHASE_CONNECT },
		{ "dns", PHASE_DNS }, { "auth", PHASE_AUTH }, { "MAIL", PHASE_MAIL },
		{ "RCPT", PHASE_RCPT }, { "end of", PHASE_END_OF_DATA },
		{ "body", PHASE_END_OF_DATA }, { "DATA", PHASE_DATA },
	};

	for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
		if (strstr(text, phases[i].text) != NULL)
			return phases[i].phase;
	return PHASE_UNKNOWN;
}

TEST(responses) {
	FILE *file = open_corpus("responses-truth.tsv");
	unsigned rows = 0, right = 0;

	while (next_row(file, "\t", fields, 8)) {
		struct reply reply;
		const char *word;

		reply_judge_text((struct span){ fields[1], strlen(fields[1]) },
		    phase_of(fields[6]), &reply);
		word = result_class_word(reply.class);
		rows++;
		if (strcmp(word, fields[2]) == 0 || is_listed(word, fields[5], "|"))
			right++;
		else
			print_message("%s, not %s: %s\n", word, fields[2], fields[1]);
	}
	fclose(file);
	print_message("%u rows, %u right\n", rows, right);
	assert_true(rows > 0);
	assert_true(right * 100 >= rows * 95);
}

int main(void) {
	FILE *file = open_corpus("delivery-truth.tsv");

	if (file == NULL) {
		printf("there is no ../shared/corpus, and no POSTERN_SHARED\n");
		return 77;
	}
	fclose(file);
	return test_run();
}

/* SPDX-License-Identifier: ISC */
/*
 * Our own collection of lines (tests/unit/cases/log_lines) behind every form of head that
 * syslog daemons, journals and collectors write: fields and class are right in each.
 */
#include "tests/unit/test.h"
#include "policy/reply/reply.h"
#include "tests/unit/material.h"
#include "tests/unit/wire/mail/scanned_lines.h"
#include "wire/mail/mail_log.h"

#define LINE_MAX_LENGTH	8192

enum { CLASS, PROGRAM, QUEUE_ID, RECIPIENT, RELAY, DSN, MESSAGE, FIELDS };

/* "%P" is the program, "%N" its pid.  Nov 21 2026 05:48:22 UTC is 1795240102. */
static const struct {
	const char *head;
	int64_t ms;	/* 0: it tells no date, or none that is understood */
	const char *tail;
} heads[] = {
	{ "Nov 21 05:48:22 mx %P[%N]: ", 1795240102000, "" },
	{ "Nov 21 05:48:22 mx.example.com. %P[%N]: ", 1795240102000, "" },
	{ "Nov 21 05:48:22 mx.example.com %P[%N]: ", 1795240102000, "\r" },
	{ "Nov 21 05:48:22 (none) %P[%N]: ", 1795240102000, "" },
	{ "Nov 21 05:48:22 [192.0.2.5] %P[%N]: ", 1795240102000, "" },
	{ "Nov 21 05:48:22 mx/192.0.2.5 %P[%N]: ", 1795240102000, "" },
	{ "Nov 21 05:48:22 s_net@mx %P[%N]: ", 1795240102000, "" },
	{ "Nov 21 05:48:22 2001:db8::5 %P[%N]: ", 1795240102000, "" },
	{ "Nov 21 05:48:22 2001:db8:: %P[%N]: ", 1795240102000, "" },
	{ "Nov 21 05:48:22  mx %P[%N]: ", 1795240102000, "" },
	{ "<22>Nov 21 05:48:22 mx %P[%N]: ", 1795240102000, "" },
	{ "<22>Nov 21 05:48:22 %P[%N]: ", 1795240102000, "" },
	{ "Nov 21 05:48:22 <mail.info> mx %P[%N]: ", 1795240102000, "" },
	{ "Nov 21 05:48:22 mx <mail.info> %P[%N]: ", 1795240102000, "" },
	{ "Nov 21 05:48:22 mx mail:info %P[%N]: ", 1795240102000, "" },
	{ "Nov 21 05:48:22 mx %P[%N]: [ID 197553 mail.info] ", 1795240102000, "" },
	{ "Nov 21 05:48:22.123456 mx %P[%N]: ", 1795240102123, "" },
	{ "Nov 21 2026 05:48:22 mx %P[%N]: ", 1795240102000, "" },
	{ "Nov 21 05:48:22 2026 mx %P[%N]: ", 1795240102000, "" },
	{ "Sat Nov 21 05:48:22 2026 mx %P[%N]: ", 1795240102000, "" },
	{ "Sat 2026-11-21 05:48:22 UTC mx %P[%N]: ", 1795240102000, "" },
	{ "2026-11-21T05:48:22Z mx %P[%N]: ", 1795240102000, "" },
	{ "2026-11-21T06:48:22.123456+01:00 mx %P[%N]: ", 1795240102123, "" },
	{ "2026-11-20T21:48:22-0800 mx %P[%N]: ", 1795240102000, "" },
	{ "2026-11-21T11:18:22.123456+0530 mx %P[%N]: ", 1795240102123, "" },
	{ "2026-11-21 05:48:22,123 mx %P[%N]: ", 1795240102123, "" },
	{ "2026-11-21 05:48:22 mx %P[%N]: ", 1795240102000, "" },
	{ "1795240102.123456 mx %P[%N]: ", 1795240102123, "" },
	{ "[12345.678901] mx %P[%N]: ", 0, "" },
	{ "[    5.678901] mx %P[%N]: ", 0, "" },
	{ "mx %P[%N]: ", 0, "" },
	{ "%P[%N]: ", 0, "" },
	/* containers */
	{ "2026-11-21T05:48:22.123456789Z stdout F Nov 21 05:48:22 mx %P[%N]: ", 1795240102123,
	    "" },
	{ "2026-11-21T05:48:22.123456789Z stderr P 2026-11-21T05:48:22.123456+00:00 mx %P[%N]: ",
	    1795240102123, "" },
	{ "mailserver-1  | Nov 21 05:48:22 mx %P[%N]: ", 1795240102000, "" },
	{ "\033[36mpostfix_1  |\033[0m 2026-11-21T05:48:22.123456+00:00 mx %P[%N]: ", 1795240102123,
	    "" },
	{ "postfix-7d9f6c-x2x9z postfix Nov 21 05:48:22 mx %P[%N]: ", 1795240102000, "" },
	/* RFC 5424 */
	{ "<22>1 2026-11-21T05:48:22.123456Z mx %P %N - - ", 1795240102123, "" },
	{ "<22>1 2026-11-21T05:48:22.123456Z mx %P %N - - \357\273\277", 1795240102123, "" },
	{ "<22>1 2026-11-21T05:48:22Z - %P - - - ", 1795240102000, "" },
	{ "<22>1 2026-11-21T05:48:22Z mx %P %N MSG12 [timeQuality tzKnown=\"1\" isSynced=\"0\"] ",
	    1795240102000, "" },
	{ "<22>1 2026-11-21T05:48:22Z mx %P %N - [a@1 x=\"y \\] \\\" z\"][b@2] ", 1795240102000,
	    "" },
};
#define HEADS (sizeof(heads) / sizeof(heads[0]))

/* What others choose stands behind another program's tag. */
static const char *const foreign_heads[] = {
	"Nov 21 05:48:22 mx sshd[7]: %P[%N]: ",
	"Nov 21 05:48:22 mx sshd-session[7]: Invalid user %P[%N]: ",
	"Nov 21 05:48:22 mx dovecot: lmtp(a): %P[%N]: ",
	"Nov 21 05:48:22 mx amavis[7]: (7-1) Passed %P[%N]: ",
	"Nov 21 05:48:22 mx kernel: [    1.5] %P[%N]: ",
	"Nov 21 05:48:22 mx CRON[7]: (root) CMD %P[%N]: ",
	"Nov 21 05:48:22 mx (postfix)[7]: %P[%N]: ",
	"Nov 21 05:48:22 mx sudo:   bob : TTY=pts/0 ; %P[%N]: ",
	"Nov 21 05:48:22 mx 3f2a1b9c0d1e[7]: Nov 21 05:48:22 mx %P[%N]: ",
	"<22>1 2026-11-21T05:48:22Z mx sshd 7 - - %P[%N]: ",
	"<22>1 2026-11-21T05:48:22Z mx sshd 7 - [a b=\"] - %P[%N]: \"] ",
	"2026-11-21T05:48:22.123456789Z stdout F sshd[7]: %P[%N]: ",
};

static char text[LINE_MAX_LENGTH];
static char *fields[FIELDS];

/* Writes head, message and tail to `text`. */
static void write_line(const char *head, const char *tail) {
	size_t length = 0;

	for (; *head != '\0'; head++) {
		const char *part = head[0] != '%' ? NULL : head[1] == 'P' ? fields[PROGRAM] : "4711";

		if (part == NULL) {
			text[length++] = *head;
			continue;
		}
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s", part);
		head++;
	}
	snprintf(text + length, sizeof(text) - length, "%s%s", fields[MESSAGE], tail);
}

static enum log_line_kind scan(void) {
	size_t length = strlen(text);

	return mail_log_scan(copy_for_scan(text, length), length, &line);
}

/* NULL, or what is wrong. */
static const char *check_delivery(void) {
	const struct delivery *d = &line.delivery;
	static char wrong[256];
	char dsn[32] = "";
	struct reply reply;

	same(d->program, fields[PROGRAM]);
	if (d->dsn[0] != 0)
		snprintf(dsn, sizeof(dsn), "%u.%u.%u", d->dsn[0], d->dsn[1], d->dsn[2]);
	if (!equal(d->queue_id, fields[QUEUE_ID]))
		return "queue id";
	if (!equal(d->source == DELIVERY_OF_SENDMAIL ? d->list : d->recipient, fields[RECIPIENT]))
		return "recipient";
	if (!equal(d->relay, fields[RELAY]))
		return "relay";
	if (strcmp(dsn, fields[DSN]) != 0)
		return "dsn";
	reply_judge(d, &reply);
	snprintf(wrong, sizeof(wrong), "%s in \"%s\"", result_class_word(reply.class),
	    delivery_phase_word(reply.phase));
	return is_listed(result_class_word(reply.class), fields[CLASS], ",") ? NULL : wrong;
}

TEST(behind_every_head) {
	FILE *file = open_source("tests/unit/cases/log_lines");
	unsigned rows = 0, wrong = 0;

	while (next_row(file, "^", fields, FIELDS)) {
		bool is_delivery = strcmp(fields[CLASS], "not") != 0;

		rows++;
		for (size_t i = 0; i < HEADS; i++) {
			const char *why = NULL;
			enum log_line_kind kind;

			write_line(heads[i].head, heads[i].tail);
			kind = scan();
			if (is_delivery != (kind == LOG_LINE_DELIVERY))
				why = is_delivery ? kind == LOG_LINE_BROKEN ? line.why : "no delivery" :
				    "a delivery";
			else if (is_delivery)
				why = check_delivery();
			if (why == NULL)
				continue;
			print_message("%s, not %s: %s\n", why, fields[CLASS], text);
			wrong++;
			break;
		}
	}
	fclose(file);
	print_message("%u lines behind %zu heads: %u wrong\n", rows, HEADS, wrong);
	assert_true(rows >= 300);
	assert_int_equal(wrong, 0);
}

TEST(behind_another_program) {
	FILE *file = open_source("tests/unit/cases/log_lines");

	while (next_row(file, "^", fields, FIELDS))
		for (size_t i = 0; i < sizeof(foreign_heads) / sizeof(foreign_heads[0]); i++) {
			write_line(foreign_heads[i], "");
			if (scan() == LOG_LINE_DELIVERY)
				fail_msg("%s", text);
		}
	fclose(file);
}

TEST(dates) {
	static char message[] = "x", program[] = "postfix/smtp";
	unsigned wrong = 0;

	fields[PROGRAM] = program;
	fields[MESSAGE] = message;
	for (size_t i = 0; i < HEADS; i++) {
		int64_t ms = 0;

		write_line(heads[i].head, heads[i].tail);
		if (scan() == LOG_LINE_FOREIGN || log_date_read(line.head, 2026, &ms) !=
		    (heads[i].ms != 0) || ms != heads[i].ms) {
			print_message("%lld: %s\n", (long long)ms, text);
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
}

/* SPDX-License-Identifier: ISC */
/* What line a datagram of syslog holds. */
#include "tests/unit/test.h"
#include "wire/mail/mail_log.h"
#include "wire/mail/syslog_frame.h"

#define DATAGRAM(text)	text, sizeof(text) - 1

TEST(what_it_holds) {
	static const struct {
		const char *datagram;
		size_t length;
		const char *line;
		const char *why;
	} rows[] = {
		{ DATAGRAM("<22>Nov 21 05:48:22 mx postfix/smtp[7]: x"),
		    "Nov 21 05:48:22 mx postfix/smtp[7]: x", NULL },
		{ DATAGRAM("<22>postfix/smtp[7]: x\n"), "postfix/smtp[7]: x", NULL },
		{ DATAGRAM("postfix/smtp[7]: x\0"), "postfix/smtp[7]: x", NULL },
		{ DATAGRAM("<22>a\r\n\0"), "a", NULL },
		{ DATAGRAM("<191>a"), "a", NULL },
		{ DATAGRAM("<192>a"), "", "invalid priority" },
		{ DATAGRAM("<>a"), "", "invalid priority" },
		{ DATAGRAM("<22a"), "", "invalid priority" },
		{ DATAGRAM(""), "", "it is empty" },
		{ DATAGRAM("<22>\n"), "", "it is empty" },
		{ DATAGRAM("<22>a\nNov 21 postfix/smtp[7]: forged"), "a",
		    "it has several lines; only the first is used" },
		{ DATAGRAM("<22>a\0b"), "a",
		    "it has several lines; only the first is used" },
		{ DATAGRAM("<22>1 2026-11-21T05:48:22.1+01:00 mx postfix/smtp 7 - - x=y"),
		    "2026-11-21T05:48:22.1+01:00 postfix/smtp[7]: x=y", NULL },
		{ DATAGRAM("<22>1 - - sendmail - - - \357\273\277x"), "- sendmail: x", NULL },
		{ DATAGRAM("<22>1 - mx a/smtp 7 id [a b=\"c\\\"]\" d=\"\"][e] x [y] z"),
		    "- a/smtp[7]: x [y] z", NULL },
		{ DATAGRAM("<22>1 - mx a/smtp 7 id [a b=\"c] x"), "",
		    "its header is not RFC 5424" },
		{ DATAGRAM("<22>1 - mx a/smtp 7 id x"), "", "its header is not RFC 5424" },
		{ DATAGRAM("<22>1 - mx a/smtp 7"), "", "its header is not RFC 5424" },
		{ DATAGRAM("<22>1 postfix/smtp[1]: mx a 7 - - x"), "",
		    "its header is not RFC 5424" },
		{ DATAGRAM("<22>1 - postfix/smtp[1]: a 7 - - x"), "- a[7]: x", NULL },
	};
	char scratch[4096];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *why;
		struct span line;
		bool good = syslog_frame_read(rows[i].datagram, rows[i].length, scratch, &line,
		    &why);

		if (good != (rows[i].why == NULL) ||
		    (!good && strcmp(why, rows[i].why) != 0) ||
		    line.length != strlen(rows[i].line) ||
		    memcmp(line.text, rows[i].line, line.length) != 0)
			fail_msg("%s: \"%.*s\" %s", rows[i].datagram, (int)line.length,
			    line.text, good ? "" : why);
	}
}

/* The readers of log lines find the program in each of them. */
TEST(the_readers_know_it) {
	static const char *const datagrams[] = {
		"<22>Nov 21 05:48:22 mx postfix/smtp[7]: x",
		"<22>Nov  1 05:48:22 postfix/smtp[7]: x",
		"<22>1 2026-11-21T05:48:22Z mx postfix/smtp 7 - [a b=\"postfix/qmgr[9]:\"] x",
		"<22>1 - - postfix/smtp 7 - - x",
		"postfix/smtp[7]: x",
	};
	char scratch[4096];

	for (size_t i = 0; i < sizeof(datagrams) / sizeof(datagrams[0]); i++) {
		struct log_line line;
		struct span span;
		const char *why;

		assert_true(syslog_frame_read(datagrams[i], strlen(datagrams[i]), scratch, &span,
		    &why));
		assert_int_equal(mail_log_scan(span.text, span.length, &line), LOG_LINE_OTHER);
		assert_int_equal(line.pid, 7);
		assert_int_equal(line.program.length, 12);
		assert_memory_equal(line.program.text, "postfix/smtp", 12);
		assert_int_equal(line.message.length, 1);
	}
}

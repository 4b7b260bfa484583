/* SPDX-License-Identifier: ISC */
/* Heads of log lines: whose line it is, by its program alone, and when it was
 * written. */
#include "tests/unit/test.h"
#include "tests/unit/wire/mail/scanned_lines.h"
#include "wire/mail/mail_log.h"

#define POSTFIX	"5C1E9A7E2B8: to=<a@b.example>, relay=none, delay=1, status=deferred (x)"
#define SENDMAIL "6AL5rHTW018202: to=<a@b.example>, delay=00:00:08, mailer=esmtp, stat=queued"

static enum log_line_kind scan(const char *head, const char *message) {
	static char text[2048];

	snprintf(text, sizeof(text), "%s%s", head, message);
	return mail_log_scan(copy_for_scan(text, strlen(text)), strlen(text), &line);
}

TEST(programs) {
	static const struct {
		const char *program;
		bool is_postfix;
	} good[] = {
		{ "postfix/smtp[7]:", true }, { "postfix/smtp:", true }, { "[postfix/smtp]", true },
		{ "out/lane3/smtp[7]:", true }, { "postfix-10.1.2.3/relay/smtp[7]:", true },
		{ "sendmail[7]:", false }, { "sm-mta[7]:", false }, { "sm-msp-queue[7]:", false },
		{ "sendmail:", false }, { "sm-mta:", false }, { "sendmail-in[7]:", false },
	};
	static const char *const foreign[] = { "smtp[7]:", "exim[7]:", "sshd[7]:", "kernel:",
		"mysm-mta[7]:", "sendmail", "su:", "sshd(pam_unix)[7]:" };
	char head[256], longer[512];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(head, sizeof(head), "Nov 21 05:48:22 mx %s ", good[i].program);
		if (scan(head, good[i].is_postfix ? POSTFIX : SENDMAIL) != LOG_LINE_DELIVERY)
			fail_msg("%s", head);
		assert_int_equal(line.delivery.source, good[i].is_postfix ? DELIVERY_OF_POSTFIX :
		    DELIVERY_OF_SENDMAIL);
		same(line.head, good[i].program[0] == '[' ? "Nov 21 05:48:22 mx [" : "Nov 21 05:48:22 mx ");
	}
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
		snprintf(head, sizeof(head), "Nov 21 05:48:22 mx %s ", foreign[i]);
		if (scan(head, POSTFIX) != LOG_LINE_FOREIGN || scan(head, SENDMAIL) != LOG_LINE_FOREIGN)
			fail_msg("%s", head);
		/* what it writes is no head */
		snprintf(longer, sizeof(longer), "%spostfix/smtp[7]: ", head);
		if (scan(longer, POSTFIX) == LOG_LINE_DELIVERY && strchr(foreign[i], ':') != NULL)
			fail_msg("%s", head);
	}
}

/* What stands behind another program's tag is its message, whatever the tag begins with. */
TEST(tags_that_begin_strangely_hide_no_forged_head) {
	static const char *const tags[] = { "(sd-pam):", "_spamd[7]:", "'quoted':", "-foo:",
		"3proxy[7]:", "@x:", "*:", "\303\251t\303\251[7]:", "%foo[7]:" };
	static const char *const numbers[] = { "05:48:22:", "2001:db8::" };
	char head[256];

	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		snprintf(head, sizeof(head), "Nov 21 05:48:22 mx %s postfix/smtp[7]: ", tags[i]);
		if (scan(head, POSTFIX) != LOG_LINE_FOREIGN)
			fail_msg("%s", head);
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		snprintf(head, sizeof(head), "Nov 21 %s mx postfix/smtp[7]: ", numbers[i]);
		if (scan(head, POSTFIX) != LOG_LINE_DELIVERY)
			fail_msg("%s", head);
	}
}

/* A result has its queue id and time: a line that stands twice is no second one. */
TEST(a_repetition_that_syslog_folds_is_no_result) {
	assert_int_equal(scan("Nov 21 05:48:22 mx last message repeated 3 times", ""),
	    LOG_LINE_FOREIGN);
	assert_int_equal(scan("Nov 21 05:48:22 mx postfix/smtp[7]: message repeated 2 times: [ ",
	    POSTFIX "]"), LOG_LINE_OTHER);
	assert_int_equal(scan("Nov 21 05:48:22 mx sm-mta[7]: message repeated 2 times: [ ",
	    SENDMAIL "]"), LOG_LINE_OTHER);
}

TEST(strange_heads) {
	assert_int_equal(scan("<22>1 2026-11-21T05:48:22.5Z mx postfix/smtp 4711 - - ", POSTFIX),
	    LOG_LINE_DELIVERY);
	assert_int_equal(line.pid, 4711);
	same(line.delivery.program, "postfix/smtp");
	assert_int_equal(scan("<22>1 2026-11-21T05:48:22Z mx sendmail - - - \357\273\277", SENDMAIL),
	    LOG_LINE_DELIVERY);
	assert_int_equal(line.pid, 0);
	assert_int_equal(scan("<22>1 2026-11-21T05:48:22Z mx postfix/smtp 1 - [x y=\"z\"] ",
	    POSTFIX), LOG_LINE_DELIVERY);
	assert_int_equal(scan("<22>1 2026-11-21T05:48:22Z mx postfix/smtp 1 - [x y=\"z] \" ",
	    POSTFIX), LOG_LINE_FOREIGN);
	assert_int_equal(scan("<22>1 2026-11-21T05:48:22Z mx postfix/smtp 1 - [x y=\"z", ""),
	    LOG_LINE_FOREIGN);
	assert_int_equal(scan("<22>1 2026-11-21T05:48:22Z mx sshd 1 - - postfix/smtp[1]: ",
	    POSTFIX), LOG_LINE_FOREIGN);
	assert_int_equal(scan("- 1131566491 2005.11.09 mx Nov 9 12:01:31 src@mx sendmail[4306]: ",
	    SENDMAIL), LOG_LINE_DELIVERY);
	assert_int_equal(scan("Nov 21 05:48:22 mx postfix/smtp[7]: [ID 197553 mail.info] ", POSTFIX),
	    LOG_LINE_DELIVERY);
	assert_int_equal(scan("", POSTFIX), LOG_LINE_FOREIGN);
	assert_int_equal(scan("", ""), LOG_LINE_FOREIGN);
	/* a collector that has the queue id elsewhere */
	assert_int_equal(scan("postfix/smtp[7]: ", strstr(POSTFIX, "to=")), LOG_LINE_DELIVERY);
	same(line.delivery.queue_id, "");
}

/* Against `date -u -d ... +%s`. */
TEST(dates) {
	static const struct {
		const char *head;
		int year;
		int64_t ms;
	} good[] = {
		{ "Jan  1 00:00:00 mx ", 1970, 0 },
		{ "Nov 21 05:48:22 mx ", 2026, 1795240102000 },
		{ "Nov 21 05:48:22.250 mx ", 2026, 1795240102250 },
		{ "Nov 21 2026 05:48:22 mx ", 2001, 1795240102000 },
		{ "Nov 21 05:48:22.123456 2026 mx ", 2001, 1795240102123 },
		{ "Feb 29 12:00:00 ", 2024, 1709208000000 },
		{ "Mar  1 00:00:00 ", 2023, 1677628800000 },
		{ "Dec 31 23:59:60 ", 1999, 946684800000 },
		{ "<22>Nov 21 05:48:22 mx ", 2026, 1795240102000 },
		{ "<22>1 2026-11-21T05:48:22Z mx ", 0, 1795240102000 },
		{ "2026-11-21T05:48:22+01:00 mx ", 0, 1795236502000 },
		{ "2026-11-21T05:48:22.5-0530 mx ", 0, 1795259902500 },
		{ "2026-11-21 05:48:22,007 mx ", 0, 1795240102007 },
		{ "- 1131566491 2005.11.09 mx Nov 9 12:01:31 ", 2005, 1131537691000 },
		{ "Nov 21 05:48:22 mx ", 0, 28014502000 },
	};
	static const char *const bad[] = {
		"", "mx ", "Nov", "Nov 32 05:48:22 ", "Nov 21 24:00:00 ", "Nov 21 5:4 ", "Nox 21 05:48:22 ",
		"2026-13-01T00:00:00 ", "2026-11-21 ", "2026-11-21T05:48:22+99:00 ", "<22Nov 21 05:48:22 ",
	};
	int64_t ms;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct span head = { good[i].head, strlen(good[i].head) };

		if (!log_date_read(head, good[i].year, &ms))
			fail_msg("%s", good[i].head);
		if (ms != good[i].ms)
			fail_msg("%s: %lld", good[i].head, (long long)ms);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (log_date_read((struct span){ bad[i], strlen(bad[i]) }, 2026, &ms))
			fail_msg("%s: %lld", bad[i], (long long)ms);
}

/* SPDX-License-Identifier: ISC */
/* Lines that Postfix 3.8 to 3.12 log otherwise than 3.7, by their release notes. */
#include "tests/unit/test.h"
#include "tests/unit/address_is.h"
#include "tests/unit/wire/mail/scanned_lines.h"
#include "wire/mail/mail_log.h"

#define SMTPD "Nov 21 05:48:22 mx postfix/submission/smtpd[7]: "
#define POSTSCREEN "Nov 21 05:48:22 mx postfix/postscreen[7]: "
#define HEAD "Nov 21 05:48:22 mx postfix/smtp[4711]: 5C1E9A7E2B8: "

static enum log_line_kind scan(const char *text) {
	return scan_copy(text, strlen(text));
}

/* Postfix 3.10 names the message, or NOQUEUE, where a session is lost. */
TEST(sessions_lost_with_a_queue_id) {
	static const char *const lost[] = {
		SMTPD "NOQUEUE: lost connection after RCPT from client.example[192.0.2.7]",
		SMTPD "5C1E9A7E2B8: lost connection after DATA (494133 bytes) from "
		    "client.example[192.0.2.7]",
		SMTPD "3mPVKl0Mhjz7sXv: timeout after END-OF-MESSAGE from client.example[192.0.2.7]",
		SMTPD "NOQUEUE: too many errors after AUTH from client.example[192.0.2.7]",
	};

	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
		if (scan(lost[i]) != LOG_LINE_SESSION)
			fail_msg("%s", lost[i]);
		assert_int_equal(line.session.event, LOG_SESSION_LOST);
		same(line.session.name, "client.example");
		address_is(&line.session.address, "192.0.2.7");
	}
	assert_int_equal(scan(SMTPD "5C1E9A7E2B8: connect from client.example[192.0.2.7]"),
	    LOG_LINE_OTHER);
	assert_int_equal(scan(POSTSCREEN "5C1E9A7E2B8: PASS OLD [192.0.2.7]:59177"),
	    LOG_LINE_OTHER);
}

/* What smtpd and cleanup of Postfix 3.8 to 3.12 say of a message is no delivery, whoever
 * chose the names in it. */
TEST(refusals_and_transactions_of_newer_versions) {
	static const char *const others[] = {
		SMTPD "NOQUEUE: reject: RCPT from client.example[192.0.2.7]: 450 4.7.1 "
		    "<c@d.example>: Recipient address rejected: Too many concurrent sessions "
		    "(id=1ng7145ap36c); from=<a@b.example> to=<c@d.example> proto=ESMTP helo=<h> "
		    "sasl_method=PLAIN sasl_username=me@b.example sasl_sender=you@b.example",
		SMTPD "5C1E9A7E2B8: reject: DATA from client.example[192.0.2.7]: 421 4.3.2 later; "
		    "from=<a@b.example> to=<c@d.example> proto=ESMTP helo=<h> sasl_method=LOGIN "
		    "sasl_username=x: lost connection after DATA from evil.example[192.0.2.9]",
		SMTPD "NOQUEUE: reject: CONNECT from client.example[192.0.2.7]: 421 4.3.2 busy; "
		    "proto=SMTP sasl_username=>, relay=evil[192.0.2.9]:25, delay=1, dsn=2.0.0, "
		    "status=sent (ok)",
		SMTPD "NOQUEUE: reply filter in: 450 4.7.1 Too many sessions (id=1ng7145ap36c)",
		SMTPD "NOQUEUE: reply filter out: 450 4.7.1 Busy (id=1ng7145ap36c)",
		SMTPD "5C1E9A7E2B8: reply filter out: 451 4.3.0 lost connection after DATA from "
		    "x[192.0.2.9]",
		SMTPD "5C1E9A7E2B8: client=client.example[192.0.2.7], sasl_method=PLAIN, "
		    "sasl_username=me@b.example",
		"Nov 21 05:48:22 mx postfix/cleanup[7]: 5C1E9A7E2B8: canceled",
		"Nov 21 05:48:22 mx postfix/cleanup[7]: 5C1E9A7E2B8: removed (canceled)",
		"Nov 21 05:48:22 mx postfix/cleanup[7]: 5C1E9A7E2B8: removed (discarded)",
		"Nov 21 05:48:22 mx postfix/cleanup[7]: 5C1E9A7E2B8: milter-hold: END-OF-MESSAGE "
		    "from client.example[192.0.2.7]: default_action; from=<a@b.example>",
		"Nov 21 05:48:22 mx postfix/bounce[7]: 5C1E9A7E2B8: sender non-delivery "
		    "notification: 6D2E9A7E2B8",
		"Nov 21 05:48:22 mx postfix/bounce[7]: 5C1E9A7E2B8: sender notification failed to "
		    "<a@b.example>: mail queue is full",
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (scan(others[i]) != LOG_LINE_OTHER)
			fail_msg("%s", others[i]);
}

/* Postfix 3.11 sums up TLS between the delays and the status. */
TEST(deliveries_with_a_summary_of_tls) {
	static const char *const summaries[] = {
		"none", "may", "may?", "may:none", "dane:halfdane", "dane?",
		"encrypt/!requiretls:nostarttls", "may/requiretls:none", "!encrypt:none",
		"dane:encrypt/requiretls?", "secure/requiretls",
	};
	char text[512];

	for (size_t i = 0; i < sizeof(summaries) / sizeof(summaries[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=<a@b.example>, relay=mx.example.net[192.0.2.7]:25, "
		    "conn_use=2, delay=1.5, delays=0.03/1/0/0.5, tls=%s, dsn=4.7.1, status=deferred "
		    "(host mx.example.net[192.0.2.7] said: 451 4.7.1 later)", summaries[i]);
		if (scan(text) != LOG_LINE_DELIVERY)
			fail_msg("%s: %s", text, line.why ? line.why : "no delivery");
		same(line.delivery.relay_name, "mx.example.net");
		assert_int_equal(line.delivery.conn_use, 2);
		assert_int_equal(line.delivery.delays_ms[3], 500);
		assert_int_equal(line.delivery.dsn[0], 4);
		assert_int_equal(line.delivery.status, DELIVERY_DEFERRED);
		same(line.delivery.text, "host mx.example.net[192.0.2.7] said: 451 4.7.1 later");
	}
}

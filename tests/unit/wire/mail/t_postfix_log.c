/* SPDX-License-Identifier: ISC */
/* Lines of Postfix's log: every form of head, every field, and what is forged,
 * cut or strange. */
#define TEST_OWN_MAIN
#include "tests/unit/test.h"
#include "tests/unit/address_is.h"
#include "tests/unit/wire/mail/scanned_lines.h"
#include "wire/mail/mail_log.h"

#define HEAD "Nov 21 05:48:22 mx postfix/smtp[4711]: 5C1E9A7E2B8: "
#define TAIL ", delay=1.5, delays=0.03/1/0/0.5, dsn=2.0.0, status=sent (250 ok)"
#define RELAY ", relay=mx.example.net[192.0.2.7]:25" TAIL

static enum log_line_kind scan_bytes(const char *text, size_t length) {
	return scan_copy(text, length);
}

static enum log_line_kind scan(const char *text) {
	return scan_bytes(text, strlen(text));
}

TEST(all_fields) {
	const struct delivery *d = &line.delivery;

	assert_int_equal(scan("Nov 21 05:44:57 out postfix-B/lane1/smtp[6447]: 714F1A7E1A3: "
	    "to=<x@q.example.org>, orig_to=<root>, relay=mx.example.org[192.0.2.7]:2525, "
	    "conn_use=2, delay=1.5, delays=0.03/1/0/0.5, dsn=4.7.1, status=deferred "
	    "(host mx.example.org[192.0.2.7] said: 451 4.7.1 (later))"), LOG_LINE_DELIVERY);
	same(line.program, "postfix-B/lane1/smtp");
	same(line.daemon, "smtp");
	assert_int_equal(line.pid, 6447);
	same(line.queue_id, "714F1A7E1A3");
	same(d->recipient, "x@q.example.org");
	same(d->domain, "q.example.org");
	same(line.orig_to, "root");
	same(d->relay, "mx.example.org[192.0.2.7]:2525");
	same(d->relay_name, "mx.example.org");
	address_is(&d->relay_address, "192.0.2.7");
	assert_int_equal(d->relay_port, 2525);
	assert_int_equal(d->conn_use, 2);
	assert_int_equal(d->delay_ms, 1500);
	assert_int_equal(d->delays_ms[0], 30);
	assert_int_equal(d->delays_ms[1], 1000);
	assert_int_equal(d->delays_ms[2], 0);
	assert_int_equal(d->delays_ms[3], 500);
	assert_int_equal(d->dsn[0], 4);
	assert_int_equal(d->dsn[1], 7);
	assert_int_equal(d->dsn[2], 1);
	assert_int_equal(d->status, DELIVERY_DEFERRED);
	same(line.status_word, "deferred");
	same(d->text, "host mx.example.org[192.0.2.7] said: 451 4.7.1 (later)");
}

TEST(every_form_of_head) {
	static const char *const heads[] = {
		"Nov 21 05:48:22 mx postfix/smtp[7]: ",
		"Nov  1 05:48:22 mx postfix/smtp[7]: ",
		"Nov 21 05:48:22 postfix/smtp[7]: ",
		"<22>Nov 21 05:48:22 mx.example.com postfix/smtp[7]: ",
		"Nov 21 05:48:22.123456 mx postfix/smtp[7]: ",
		"Nov 21 2026 05:48:22 mx postfix/smtp[7]: ",
		"2026-11-21T05:48:22.123456+01:00 mx postfix/smtp[7]: ",
		"2026-11-21T05:48:22Z postfix/smtp[7]: ",
		"2026-11-21 05:48:22 mx postfix/smtp[7]: ",
		"Nov 21 05:48:22 mx postfix/smtp[7]: [ID 197553 mail.info] ",
		"postfix/smtp[7]: ",
	};
	static const char *const others[][3] = {
		{ "Nov 21 05:48:22 mx postfix/lane12/smtp[7]: ", "postfix/lane12/smtp", "smtp" },
		{ "Nov 21 05:48:22 mx postfix-10.1.2.3/relay/smtp[7]: ",
		    "postfix-10.1.2.3/relay/smtp", "smtp" },
		{ "Nov 21 05:48:22 mx mail_batch/lmtp[7]: ", "mail_batch/lmtp", "lmtp" },
		{ "Nov 21 05:48:22 mx postfix/smtp: ", "postfix/smtp", "smtp" },
		{ "Nov 21 05:48:22 [postfix/smtp] ", "postfix/smtp", "smtp" },
	};
	char text[512];

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		snprintf(text, sizeof(text), "%s3mPVKl0Mhjz7sXv: to=<a@b.example>%s", heads[i], RELAY);
		if (scan(text) != LOG_LINE_DELIVERY)
			fail_msg("%s: %s", text, line.why ? line.why : "no delivery");
		same(line.program, "postfix/smtp");
		assert_int_equal(line.pid, 7);
		same(line.queue_id, "3mPVKl0Mhjz7sXv");
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		snprintf(text, sizeof(text), "%s5C1E9A7E2B8: to=<a@b.example>%s", others[i][0], RELAY);
		assert_int_equal(scan(text), LOG_LINE_DELIVERY);
		same(line.program, others[i][1]);
		same(line.daemon, others[i][2]);
	}
}

TEST(relays) {
	static const struct {
		const char *relay, *name, *address;
		uint16_t port;
	} forms[] = {
		{ "none", "", "unknown", 0 },
		{ "local", "", "unknown", 0 },
		{ "mx.example.net[192.0.2.7]:25", "mx.example.net", "192.0.2.7", 25 },
		{ "mx.example.net[2001:db8::25]:587", "mx.example.net", "2001:db8::25", 587 },
		{ "127.0.0.1[127.0.0.1]:10024", "127.0.0.1", "127.0.0.1", 10024 },
		{ "mx.example.net[192.0.2.7]", "mx.example.net", "192.0.2.7", 0 },
		{ "mx.example.net[private/lmtp]", "mx.example.net", "unknown", 0 },
		{ "mx.example.net[192.0.2.7]:70000", "mx.example.net", "192.0.2.7", 0 },
		{ "mx.example.net[192.0.2.7]:25x", "mx.example.net", "192.0.2.7", 0 },
		{ "mx.example.net[192.0.2.7", "", "unknown", 0 },
		{ "127.0.0.1:2525", "", "unknown", 0 },
	};
	char text[512];

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=<a@b.example>, relay=%s%s", forms[i].relay, TAIL);
		assert_int_equal(scan(text), LOG_LINE_DELIVERY);
		same(line.delivery.relay, forms[i].relay);
		same(line.delivery.relay_name, forms[i].name);
		address_is(&line.delivery.relay_address, forms[i].address);
		assert_int_equal(line.delivery.relay_port, forms[i].port);
	}
}

TEST(recipients) {
	static const char *const good[][2] = {
		{ "a@b.example", "b.example" },
		{ "a", "" },
		{ "a b@c.example", "c.example" },
		{ "a@b c.example", "" },
		{ "", "" },
		{ "a@[192.0.2.1]", "[192.0.2.1]" },
		{ "\"a b\"@c.example", "c.example" },
		{ "\"a, relay=evil[1.2.3.4]:25\"@x.example", "x.example" },
		{ "\"a>, relay=evil[192.0.2.99]:25, delay=1, delays=0/0/0/0, dsn=2.0.0, "
		    "status=sent (ok\"@x.example", "x.example" },
		{ "\"a\\\">, relay=evil[192.0.2.99]:25\"@x.example", "x.example" },
		{ "\"a@gmail.example\"", "" },
		{ "\"\\\\\"@x.example", "x.example" },
		{ "a@b@c.example", "c.example" },
		{ "b\303\274cher@b\303\274cher.example", "b\303\274cher.example" },
	};
	static const char *const broken[] = {
		"a,b@c.example", "a<b@c.example", "\"a@c.example", "a\001@c.example",
		"a@gmail.example>, relay=evil[192.0.2.99]:25, delay=1, delays=0/0/0/0, dsn=2.0.0, "
		    "status=sent (ok@x.example",
		"\"a\"@gmail.example>, relay=evil[192.0.2.99]:25, delay=1, delays=0/0/0/0, "
		    "dsn=2.0.0, status=sent (ok@x.example",
		"a@gmail.example>, orig_to=<b@x.example>, relay=evil[192.0.2.99]:25, delay=1, "
		    "delays=0/0/0/0, dsn=2.0.0, status=sent (ok@x.example",
	};
	char text[1024];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=<%s>%s", good[i][0], RELAY);
		if (scan(text) != LOG_LINE_DELIVERY)
			fail_msg("%s", text);
		same(line.delivery.recipient, good[i][0]);
		same(line.delivery.domain, good[i][1]);
		same(line.delivery.relay_name, "mx.example.net");
		snprintf(text, sizeof(text), HEAD "to=<r@q.example>, orig_to=<%s>%s", good[i][0],
		    RELAY);
		assert_int_equal(scan(text), LOG_LINE_DELIVERY);
		same(line.delivery.domain, "q.example");
		same(line.orig_to, good[i][0]);
	}
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=<%s>%s", broken[i], RELAY);
		if (scan(text) != LOG_LINE_BROKEN)
			fail_msg("%s", text);
		assert_non_null(line.why);
	}
	assert_int_equal(scan(HEAD "to=" RELAY), LOG_LINE_DELIVERY);
	same(line.delivery.recipient, "");
	assert_int_equal(scan(HEAD "to=a@b.example, orig_to=c@d.example" RELAY),
	    LOG_LINE_DELIVERY);
	same(line.delivery.domain, "b.example");
	assert_int_equal(scan(HEAD "to=\"a\"@b.example" RELAY), LOG_LINE_BROKEN);
}

/* What a server says is text, whatever it looks like. */
TEST(replies) {
	static const char *const texts[] = {
		"250 ok, relay=evil[192.0.2.99]:25, status=bounced (no)",
		"250 to=<a@gmail.example>, status=deferred",
		"421 Nov 21 05:48:22 mx postfix/smtp[1]: 5C1E9A7E2B8: to=<v@victim.example>",
	};
	char text[1024];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=<a@b.example>, relay=mx.example.net[192.0.2.7]:25, "
		    "delay=1, delays=0/0/0/1, dsn=2.0.0, status=sent (%s)", texts[i]);
		assert_int_equal(scan(text), LOG_LINE_DELIVERY);
		same(line.delivery.recipient, "a@b.example");
		same(line.delivery.relay_name, "mx.example.net");
		same(line.delivery.text, texts[i]);
		assert_int_equal(line.delivery.status, DELIVERY_SENT);
	}
	assert_int_equal(scan(HEAD "to=<a@b.example>, relay=mx.example.net[192.0.2.7]:25, delay=1, "
	    "delays=0/0/0/1, dsn=2.0.0, status=sent (<a>, relay=x)"), LOG_LINE_BROKEN);
}

TEST(statuses) {
	static const struct {
		const char *word;
		enum delivery_status status;
	} words[] = {
		{ "sent", DELIVERY_SENT }, { "deferred", DELIVERY_DEFERRED },
		{ "bounced", DELIVERY_BOUNCED }, { "expired", DELIVERY_EXPIRED },
		{ "SOFTBOUNCE", DELIVERY_DEFERRED },
		{ "force-expired", DELIVERY_EXPIRED },
		{ "deliverable", DELIVERY_DELIVERABLE },
		{ "undeliverable", DELIVERY_UNDELIVERABLE },
		{ "undeliverable-but-not-cached", DELIVERY_UNDELIVERABLE },
		{ "vaporised", DELIVERY_STATUS_OTHER },
	};
	char text[512];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=<a@b.example>, relay=none, delay=0, "
		    "delays=0/0/0/0, dsn=5.4.4, status=%s (x)", words[i].word);
		assert_int_equal(scan(text), LOG_LINE_DELIVERY);
		assert_int_equal(line.delivery.status, words[i].status);
		same(line.status_word, words[i].word);
	}
	/* older and newer forms */
	assert_int_equal(scan(HEAD "to=<a@b.example>, relay=mx.example.net[192.0.2.7], delay=603, "
	    "status=deferred (timed out)"), LOG_LINE_DELIVERY);
	assert_int_equal(line.delivery.delay_ms, 603000);
	assert_int_equal(scan(HEAD "to=<a@b.example>, relay=none, tls_level=may, delay=0.1, "
	    "status=sent (x)"), LOG_LINE_DELIVERY);
}

TEST(other_lines) {
	static const char *const others[] = {
		HEAD "host mx.example.net[192.0.2.7] said: 451 (in reply to RCPT TO command)",
		"Nov 21 05:48:22 mx postfix/qmgr[7]: 5C1E9A7E2B8: from=<a@b.example>, size=306, "
		    "nrcpt=1 (queue hold)",
		"Nov 21 05:48:22 mx postfix/qmgr[7]: 5C1E9A7E2B8: from=<a (queue active)",
		"Nov 21 05:48:22 mx postfix/qmgr[7]: 5C1E9A7E2B8: from=(queue active)",
		"Nov 21 05:48:22 mx postfix/cleanup[7]: 5C1E9A7E2B8: from=<a@b.example>, "
		    "status=expired, returned to sender",
		"Nov 21 05:48:22 mx postfix/smtpd[7]: warning: connect from unknown[192.0.2.1]",
		"Nov 21 05:48:22 mx postfix/smtpd[7]: connect from unknown",
		"Nov 21 05:48:22 mx postfix/smtp[7]: connect from unknown[192.0.2.1]",
		"Nov 21 05:48:22 mx postfix/smtpd[7]: NOQUEUE: reject: RCPT from x[192.0.2.1]: "
		    "550 5.1.1; from=<a@b.example> to=<c@d.example> proto=ESMTP helo=<h>",
		"Nov 21 05:48:22 mx postfix/smtp[7]: warning: to=<a@b.example>" RELAY,
		"Nov 21 05:48:22 mx postfix/smtp[7]: ABCDEFGHIJKL: to=<a@b.example>" RELAY,
	};
	static const char *const foreign[] = {
		"", " ", "Nov 21 05:48:22 mx last message repeated 3 times", "x",
		"Nov 21 05:48:22 mx kernel: a", "postfix/smtp[", "postfix/smtp[1", "postfix/smtp[]:",
		"postfix/smtp[99999999999]: x", "postfix/smtp[1]x: y", "/smtp", "postfix/[1]: x",
		"5C1E9A7E2B8: to=<a@b.example>" RELAY,
		"Nov 21 05:48:22 mx smtp[7]: 5C1E9A7E2B8: to=<a@b.example>" RELAY,
		"Nov 21 05:48:22 mx sshd[7]: error: 5C1E9A7E2B8: to=<a@b.example>" RELAY,
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (scan(others[i]) != LOG_LINE_OTHER)
			fail_msg("%s", others[i]);
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		if (scan(foreign[i]) != LOG_LINE_FOREIGN)
			fail_msg("%s", foreign[i]);
}

TEST(expired_and_removed) {
	assert_int_equal(scan("Nov 21 05:48:22 mx postfix/qmgr[7]: 5C1E9A7E2B8: from=<a@b.example>, "
	    "status=expired, returned to sender"), LOG_LINE_DELIVERY);
	assert_int_equal(line.delivery.status, DELIVERY_EXPIRED);
	assert_int_equal(line.delivery.agent, AGENT_QUEUE);
	same(line.delivery.queue_id, "5C1E9A7E2B8");
	same(line.delivery.recipient, "");
	same(line.delivery.relay, "");
	same(line.status_word, "expired");
	assert_int_equal(scan("Nov 21 05:48:22 mx postfix/qmgr[7]: 5C1E9A7E2B8: from=<>, "
	    "status=force-expired, returned to sender"), LOG_LINE_DELIVERY);
	assert_int_equal(scan("Nov 21 05:48:22 mx postfix/qmgr[7]: 5C1E9A7E2B8: removed"),
	    LOG_LINE_REMOVED);
	same(line.queue_id, "5C1E9A7E2B8");
}

TEST(taken_up) {
	static const char *const senders[] = { "a@b.example", "", "\"x>, status=expired, y\"@b",
		"\"x>, size=1, nrcpt=1 (queue active)\"@b", "<a@b>" };
	char text[256];

	for (size_t i = 0; i < sizeof(senders) / sizeof(senders[0]); i++) {
		snprintf(text, sizeof(text), "Nov 21 05:48:22 mx postfix/qmgr[7]: 5C1E9A7E2B8: "
		    "from=<%s>, size=306, nrcpt=1 (queue active)", senders[i]);
		assert_int_equal(scan(text), LOG_LINE_ACTIVE);
		same(line.queue_id, "5C1E9A7E2B8");
		same(line.sender, senders[i]);
	}
}

TEST(agents) {
	static const struct {
		const char *daemon, *relay, *text;
		enum delivery_agent agent;
	} forms[] = {
		{ "smtp", "mx.example.net[192.0.2.7]:25", "x", AGENT_SMTP },
		{ "smtp", "none", "connect to mx.example.net[192.0.2.7]:25: x", AGENT_SMTP },
		{ "lmtp", "store.example.net[192.0.2.7]:24", "x", AGENT_SMTP },
		{ "lmtp", "none", "connect to store.example.net[192.0.2.7]:24: x", AGENT_SMTP },
		{ "lmtp", "mx.example.net[private/dovecot]", "x", AGENT_LOCAL },
		{ "lmtp", "none", "connect to mx.example.net[/run/lmtp]: No such file", AGENT_LOCAL },
		{ "local", "local", "delivered to mailbox", AGENT_LOCAL },
		{ "virtual", "virtual", "delivered to maildir", AGENT_LOCAL },
		{ "pipe", "dovecot", "delivered via dovecot service", AGENT_LOCAL },
		{ "discard", "none", "example.net", AGENT_LOCAL },
		{ "error", "none", "x", AGENT_ERROR },
		{ "retry", "none", "x", AGENT_ERROR },
		{ "qmgr", "none", "mail transport unavailable", AGENT_QUEUE },
	};
	char text[512];

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		snprintf(text, sizeof(text), "Nov 21 05:48:22 mx postfix/%s[7]: 5C1E9A7E2B8: "
		    "to=<a@b.example>, relay=%s, delay=0, delays=0/0/0/0, dsn=4.0.0, "
		    "status=deferred (%s)", forms[i].daemon, forms[i].relay, forms[i].text);
		assert_int_equal(scan(text), LOG_LINE_DELIVERY);
		if (line.delivery.agent != forms[i].agent)
			fail_msg("%s", text);
	}
}

TEST(sessions) {
#define SMTPD "Nov 21 05:48:22 mx postfix/submission/smtpd[7]: "
#define POSTSCREEN "Nov 21 05:48:22 mx postfix/postscreen[7]: "
	static const struct {
		const char *text, *name, *address;
		enum log_session_event event;
		uint16_t port;
	} forms[] = {
		{ SMTPD "connect from mail.example.org[192.0.2.7]", "mail.example.org", "192.0.2.7",
		    LOG_SESSION_CONNECT, 0 },
		{ SMTPD "connect from unknown[2001:db8::7]:4711", "", "2001:db8::7",
		    LOG_SESSION_CONNECT, 4711 },
		{ SMTPD "connect from unknown[unknown]", "", "unknown", LOG_SESSION_CONNECT, 0 },
		{ SMTPD "disconnect from unknown[192.0.2.7] ehlo=1 quit=1 commands=2", "",
		    "192.0.2.7", LOG_SESSION_DISCONNECT, 0 },
		{ SMTPD "lost connection after DATA (494133 bytes) from localhost[127.0.0.1]",
		    "localhost", "127.0.0.1", LOG_SESSION_LOST, 0 },
		{ SMTPD "timeout after END-OF-MESSAGE from unknown[192.0.2.7]", "", "192.0.2.7",
		    LOG_SESSION_LOST, 0 },
		{ SMTPD "warning: Connection concurrency limit exceeded: 9 from unknown[192.0.2.7] "
		    "for service smtp", "", "192.0.2.7", LOG_SESSION_REFUSED, 0 },
		{ POSTSCREEN "CONNECT from [192.0.2.7]:59177 to [198.51.100.1]:25", "",
		    "192.0.2.7", LOG_SESSION_CONNECT, 59177 },
		{ POSTSCREEN "CONNECT from [2001:db8::7]:59177 to [2001:db8::1]:25", "",
		    "2001:db8::7", LOG_SESSION_CONNECT, 59177 },
		{ POSTSCREEN "PASS OLD [192.0.2.7]:59177", "", "192.0.2.7", LOG_SESSION_PASSED,
		    59177 },
		{ POSTSCREEN "DISCONNECT [192.0.2.7]:59177", "", "192.0.2.7",
		    LOG_SESSION_DISCONNECT, 59177 },
		{ POSTSCREEN "NOQUEUE: reject: CONNECT from [192.0.2.7]:59177: too many connections",
		    "", "192.0.2.7", LOG_SESSION_REFUSED, 59177 },
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (scan(forms[i].text) != LOG_LINE_SESSION)
			fail_msg("%s", forms[i].text);
		same(line.session.name, forms[i].name);
		address_is(&line.session.address, forms[i].address);
		assert_int_equal(line.session.event, forms[i].event);
		assert_int_equal(line.session.port, forms[i].port);
	}
}

/* Cut anywhere, a line is the same delivery with less text, or none at all. */
TEST(cut_lines) {
	static const char text[] = HEAD "to=<a@b.example>, orig_to=<o@p.example>, "
	    "relay=mx.example.net[192.0.2.7]:25, conn_use=3, delay=1.5, delays=0.03/1/0/0.5, "
	    "dsn=4.7.1, status=deferred (host said: 451 later)";

	for (size_t length = 0; length < sizeof(text); length++) {
		const char *status = strstr(text, "status=deferred");

		scan_bytes(text, length);
		if (length >= (size_t)(status - text) + strlen("status=deferred")) {
			assert_int_equal(line.kind, LOG_LINE_DELIVERY);
			same(line.delivery.recipient, "a@b.example");
			assert_int_equal(line.delivery.status, DELIVERY_DEFERRED);
		} else {
			assert_int_not_equal(line.kind, LOG_LINE_DELIVERY);
		}
	}
	/* two lines that ran into each other */
	assert_int_equal(scan(HEAD "to=<aNov 21 05:48:22 mx postfix/smtp[1]: 5C1E9A7E2B8: "
	    "to=<a@b.example>" RELAY), LOG_LINE_BROKEN);
	assert_int_equal(scan(HEAD "to=<a@b.example>, relay=mx.exaNov 21 05:48:22 mx "
	    "postfix/smtp[1]: 5C1E9A7E2B8: to=<c@d.example>" RELAY), LOG_LINE_BROKEN);
}

TEST(strange_values) {
	static const char *const broken[] = {
		"delay=x, status=sent (x)", "delay=, status=sent (x)", "delay=1e9, status=sent (x)",
		"delay=-1, status=sent (x)", "delay=99999999999, status=sent (x)",
		"delays=1/2/3, status=sent (x)", "delays=1/2/3/4/5, status=sent (x)",
		"dsn=2.0, status=sent (x)", "dsn=2.0.0.0, status=sent (x)",
		"dsn=2.0.1000, status=sent (x)", "conn_use=x, status=sent (x)", "status= (x)",
		"relay=other, status=sent (x)", "delay 1, status=sent (x)",
		"delay=1,status=sent (x)",
	};
	char text[512];

	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=<a@b.example>, relay=none, %s", broken[i]);
		if (scan(text) != LOG_LINE_BROKEN)
			fail_msg("%s", text);
	}
	assert_int_equal(scan_bytes(HEAD "to=<a\0@b.example>" RELAY,
	    sizeof(HEAD "to=<a\0@b.example>" RELAY) - 1), LOG_LINE_BROKEN);
	assert_int_equal(scan_bytes(HEAD "to=<a@b.example>, relay=n\0ne" TAIL,
	    sizeof(HEAD "to=<a@b.example>, relay=n\0ne" TAIL) - 1), LOG_LINE_DELIVERY);
	assert_true(address_is_unknown(&line.delivery.relay_address));
}

TEST(huge_lines) {
	static const char start[] = HEAD "to=<\"";
	size_t length = 1 << 20;
	char *text = malloc(length);

	assert_non_null(text);
	memset(text, 'a', length);
	assert_int_equal(scan_bytes(text, length), LOG_LINE_FOREIGN);
	memset(text, ' ', length);
	assert_int_equal(scan_bytes(text, length), LOG_LINE_FOREIGN);
	memset(text, '>', length);
	memcpy(text, start, sizeof(start) - 1);
	assert_int_equal(scan_bytes(text, length), LOG_LINE_BROKEN);
	free(text);
}

int main(void) {
	int failed = test_run();

	free(scanned);
	return failed;
}

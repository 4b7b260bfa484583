/* SPDX-License-Identifier: ISC */
/* Lines of Sendmail's log: every field, lists of recipients, replies before states,
 * and what is forged, cut or strange. */
#define TEST_OWN_MAIN
#include "tests/unit/test.h"
#include "tests/unit/address_is.h"
#include "tests/unit/wire/mail/scanned_lines.h"
#include "wire/mail/mail_log.h"

#define HEAD "Nov 21 05:53:25 mx sendmail[18225]: 6AL5rHTW018202: "
#define MIDDLE ", delay=00:00:08, xdelay=00:00:01, mailer=esmtp, pri=120017"
#define RELAY MIDDLE ", relay=mx.example.net. [192.0.2.7]"
#define TAIL RELAY ", dsn=2.0.0, stat=Sent (ok)"

static enum log_line_kind scan_bytes(const char *text, size_t length) {
	return scan_copy(text, length);
}

static enum log_line_kind scan(const char *text) {
	return scan_bytes(text, strlen(text));
}

TEST(all_fields) {
	const struct delivery *d = &line.delivery;

	assert_int_equal(scan("Nov 21 05:53:25 mx sm-mta[18225]: 6AL5rHTW018202: "
	    "to=<a@b.example>,<c@d.example>, ctladdr=<www@example.com> (33/33), "
	    "delay=1+02:03:04, xdelay=00:01:02, mailer=esmtp, pri=210017, "
	    "relay=mx.example.net. [192.0.2.7], dsn=4.7.1, quarantine=a hold, ntries=3, "
	    "reply=421 4.7.1 slow down, please, stat=Deferred: Connection reset by "
	    "mx.example.net."), LOG_LINE_DELIVERY);
	assert_int_equal(d->source, DELIVERY_OF_SENDMAIL);
	assert_int_equal(d->agent, AGENT_SMTP);
	assert_int_equal(d->status, DELIVERY_DEFERRED);
	same(d->program, "sm-mta");
	assert_int_equal(line.pid, 18225);
	same(d->queue_id, "6AL5rHTW018202");
	same(d->list, "<a@b.example>,<c@d.example>");
	same(d->recipient, "a@b.example");
	same(d->domain, "b.example");
	assert_int_equal(d->recipients, 2);
	assert_int_equal(d->delay_ms, 93784000);
	assert_int_equal(d->delays_ms[2], DELIVERY_MS_UNKNOWN);
	assert_int_equal(d->delays_ms[3], 62000);
	same(d->mailer, "esmtp");
	same(d->relay, "mx.example.net. [192.0.2.7]");
	same(d->relay_name, "mx.example.net");
	address_is(&d->relay_address, "192.0.2.7");
	assert_int_equal(d->relay_port, 0);
	assert_int_equal(d->dsn[0], 4);
	assert_int_equal(d->dsn[1], 7);
	assert_int_equal(d->dsn[2], 1);
	same(d->reply, "421 4.7.1 slow down, please");
	same(d->text, "Deferred: Connection reset by mx.example.net.");
	same(line.status_word, "Deferred");
}

TEST(relays) {
	static const struct {
		const char *relay, *name, *address;
	} forms[] = {
		{ "mx.example.net. [192.0.2.7]", "mx.example.net", "192.0.2.7" },
		{ "mx.example.net [192.0.2.7]", "mx.example.net", "192.0.2.7" },
		{ "mx.example.net. [IPv6:2001:db8:0:0:0:0:0:7]", "mx.example.net", "2001:db8::7" },
		{ "[127.0.0.1] [127.0.0.1]", "127.0.0.1", "127.0.0.1" },
		{ "[127.0.0.1]", "127.0.0.1", "127.0.0.1" },
		{ "mx.example.net.", "mx.example.net", "unknown" },
		{ "mx.example.net", "mx.example.net", "unknown" },
		{ "My relay. [192.0.2.7]", "My relay", "192.0.2.7" },
		{ "mx.example.net. [192.0.2]", "mx.example.net", "unknown" },
	};
	char text[512];

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=<a@b.example>" MIDDLE ", relay=%s, dsn=2.0.0, "
		    "stat=Sent", forms[i].relay);
		assert_int_equal(scan(text), LOG_LINE_DELIVERY);
		same(line.delivery.relay, forms[i].relay);
		same(line.delivery.relay_name, forms[i].name);
		address_is(&line.delivery.relay_address, forms[i].address);
	}
}

TEST(recipients) {
	static const struct {
		const char *list, *first, *domain;
		uint32_t count;
	} good[] = {
		{ "<a@b.example>", "a@b.example", "b.example", 1 },
		{ "a@b.example", "a@b.example", "b.example", 1 },
		{ "root", "root", "", 1 },
		{ "<a@b.example>,<c@d.example>,<e@f.example>", "a@b.example", "b.example", 3 },
		{ "a,b", "a", "", 2 },
		{ "\"|/usr/bin/procmail, delay=1\"", "\"|/usr/bin/procmail, delay=1\"", "", 1 },
		{ "/var/mail/a,\\root", "/var/mail/a", "", 2 },
		{ "<\"a b, delay=00:00:00\"@c.example>", "\"a b, delay=00:00:00\"@c.example",
		    "c.example", 1 },
		{ "<\"a\\\"b>, stat=Sent\"@c.example>", "\"a\\\"b>, stat=Sent\"@c.example",
		    "c.example", 1 },
		{ "<(, delay=00:00:00, relay=evil. [192.0.2.99], dsn=4.4.1, stat=Deferred)a@c.example>",
		    "(, delay=00:00:00, relay=evil. [192.0.2.99], dsn=4.4.1, stat=Deferred)"
		    "a@c.example", "c.example", 1 },
		{ "A Name <a@b.example>", "a@b.example", "b.example", 1 },
		{ "", "", "", 1 },
	};
	static const char *const broken[] = {
		"<a@b.example", "<a@b.example>>", "<<a@b.example>", "\"a", "<\"a@b.example>", "(a",
		"<a@b.example>,\"c", "<a\001@b.example>",
	};
	char text[1024];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=%s" TAIL, good[i].list);
		if (scan(text) != LOG_LINE_DELIVERY)
			fail_msg("%s: %s", text, line.why);
		same(line.delivery.list, good[i].list);
		same(line.delivery.recipient, good[i].first);
		same(line.delivery.domain, good[i].domain);
		assert_int_equal(line.delivery.recipients, good[i].count);
		same(line.delivery.relay_name, "mx.example.net");
	}
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=%s" TAIL, broken[i]);
		if (scan(text) != LOG_LINE_BROKEN)
			fail_msg("%s", text);
		assert_non_null(line.why);
	}
	/* a list too long for one line */
	/* as Sendmail cuts one */
	assert_int_equal(scan(HEAD "to=<a@b.example>,<c@d.example>, [more]" TAIL),
	    LOG_LINE_DELIVERY);
	assert_int_equal(line.delivery.recipients, 2);
	assert_int_equal(scan(HEAD "to=<a@b.example>,<c@d.example> [more]" TAIL),
	    LOG_LINE_DELIVERY);
	same(line.delivery.list, "<a@b.example>,<c@d.example>");
	assert_int_equal(line.delivery.recipients, 2);
	/* the address that controls it is as free */
	assert_int_equal(scan(HEAD "to=<a@b.example>, ctladdr=<\"x, stat=Sent\"@y.example> (0/0)"
	    TAIL), LOG_LINE_DELIVERY);
	assert_int_equal(scan(HEAD "to=<a@b.example>, ctladdr=<x" TAIL), LOG_LINE_BROKEN);
}

TEST(states) {
	static const struct {
		const char *end;
		enum delivery_status status;
	} forms[] = {
		{ "dsn=2.0.0, stat=Sent", DELIVERY_SENT },
		{ "dsn=2.0.0, stat=Sent (ok 12, queued)", DELIVERY_SENT },
		{ "stat=Sent (ok)", DELIVERY_SENT },
		{ "dsn=4.0.0, stat=Deferred", DELIVERY_DEFERRED },
		{ "stat=Deferred: Connection refused by mx.example.net.", DELIVERY_DEFERRED },
		{ "stat=queued", DELIVERY_DEFERRED },
		{ "quarantine=x, stat=quarantined", DELIVERY_DEFERRED },
		{ "dsn=4.2.0, reply=450 4.2.1 no, stat=Please try again later", DELIVERY_DEFERRED },
		{ "dsn=5.1.1, reply=550 5.1.1 no, stat=User unknown", DELIVERY_BOUNCED },
		{ "stat=Service unavailable", DELIVERY_BOUNCED },
		{ "dsn=2.6.0, stat=relayed", DELIVERY_SENT },
		/* a reply that wants to look like success */
		{ "dsn=4.0.0, reply=421 no, stat=Sent away", DELIVERY_DEFERRED },
	};
	char text[512];

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=<a@b.example>" RELAY ", %s", forms[i].end);
		if (scan(text) != LOG_LINE_DELIVERY)
			fail_msg("%s: %s", text, line.why);
		if (line.delivery.status != forms[i].status)
			fail_msg("%s: %d", text, line.delivery.status);
	}
}

TEST(agents) {
	static const struct {
		const char *middle;
		enum delivery_agent agent;
	} forms[] = {
		{ "mailer=local, pri=1, dsn=2.0.0", AGENT_LOCAL },
		{ "mailer=prog, pri=1, dsn=4.0.0", AGENT_LOCAL },
		{ "mailer=*file*, pri=1, dsn=4.0.0", AGENT_LOCAL },
		{ "mailer=esmtp, pri=1", AGENT_SMTP },
		{ "mailer=relay, pri=1, relay=[127.0.0.1] [127.0.0.1], dsn=4.0.0", AGENT_SMTP },
		{ "mailer=local, pri=1, relay=store. [192.0.2.7], dsn=4.0.0", AGENT_SMTP },
		{ "mailer=esmtp, pri=1, relay=mx.example.net., dsn=4.0.0", AGENT_SMTP },
	};
	char text[512];

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=<a@b.example>, delay=00:00:00, %s, stat=Deferred",
		    forms[i].middle);
		assert_int_equal(scan(text), LOG_LINE_DELIVERY);
		if (line.delivery.agent != forms[i].agent)
			fail_msg("%s", text);
	}
}

/* What a server says is text, and whoever wants to be read twice is not read. */
TEST(forged) {
	static const char *const broken[] = {
		"dsn=4.0.0, reply=421 x, stat=Sent (ok), stat=Deferred: 421 x",
		"dsn=5.0.0, reply=550 x, dsn=2.0.0, stat=Sent (ok), stat=Service unavailable",
		"dsn=2.0.0, stat=Sent (x, mailer=esmtp, relay=victim. [192.0.2.99], dsn=4.4.1)",
		"dsn=2.0.0, stat=Sent (x, dsn=4.4.1, stat=Deferred: Connection refused)",
	};
	static const char *const good[] = {
		"dsn=4.0.0, reply=421 to=<v@victim.example>, relay=victim. [192.0.2.99], "
		    "stat=Deferred: 421 to=<v@victim.example>, relay=victim. [192.0.2.99]",
		"dsn=2.0.0, stat=Sent (Nov 21 05:53:25 mx sendmail[1]: 6AL5rHTW018202: to=<v@victim>)",
	};
	char text[1024];

	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=<a@b.example>" RELAY ", %s", broken[i]);
		if (scan(text) != LOG_LINE_BROKEN)
			fail_msg("%s", text);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=<a@b.example>" RELAY ", %s", good[i]);
		if (scan(text) != LOG_LINE_DELIVERY)
			fail_msg("%s: %s", text, line.why);
		same(line.delivery.recipient, "a@b.example");
		same(line.delivery.relay_name, "mx.example.net");
	}
	/* the second half of a list that was cut within a quoted address */
	assert_int_equal(scan(HEAD "to=v@victim.example" MIDDLE ", relay=victim. [192.0.2.99], "
	    "dsn=4.4.1, stat=Deferred: Connection refused\"@evil.example>" TAIL), LOG_LINE_BROKEN);
	assert_int_equal(scan(HEAD "to=<aNov 21 05:53:25 mx sendmail[1]: 6AL5rHTW018202: "
	    "to=<a@b.example>" TAIL), LOG_LINE_BROKEN);
}

TEST(other_lines) {
	static const char *const others[] = {
		HEAD "from=<a@b.example>, size=38, class=0, nrcpts=2, proto=ESMTP, daemon=MTA, "
		    "relay=localhost [127.0.0.1]",
		HEAD "6AL5rHEn018222: DSN: User unknown",
		HEAD "Milter: to=<b@d.example>, reject=421 4.7.0 too many sessions",
		HEAD "done; delay=00:00:00, ntries=1",
		HEAD "ruleset=check_rcpt, arg1=<a@b.example>, relay=[192.0.2.7], reject=550 5.7.1 no",
		HEAD "timeout waiting for input from mx.example.net. during client RCPT",
		"Nov 21 05:53:25 mx sendmail[1]: STARTTLS: to=x, stat=Sent",
		"Nov 21 05:53:25 mx sendmail[1]: NOQUEUE: connect from root@localhost",
		"Nov 21 05:53:25 mx sendmail[1]: starting daemon (8.17.1.9): SMTP",
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (scan(others[i]) != LOG_LINE_OTHER)
			fail_msg("%s", others[i]);
}

TEST(sessions) {
	static const struct {
		const char *text, *name, *address;
		enum log_session_event event;
	} forms[] = {
		{ "Nov 21 05:53:25 mx sendmail[1]: NOQUEUE: connect from mail.example.org "
		    "[192.0.2.7]", "mail.example.org", "192.0.2.7", LOG_SESSION_CONNECT },
		{ "Nov 21 05:53:25 mx sendmail[1]: NOQUEUE: connect from [192.0.2.7]", "",
		    "192.0.2.7", LOG_SESSION_CONNECT },
		{ HEAD "lost input channel from [IPv6:2001:db8:0:0:0:0:0:7] to MTA after rcpt", "",
		    "2001:db8::7", LOG_SESSION_DISCONNECT },
		{ HEAD "mail.example.org [192.0.2.7] (may be forged) did not issue "
		    "MAIL/EXPN/VRFY/ETRN during connection to MTA", "mail.example.org",
		    "192.0.2.7", LOG_SESSION_DISCONNECT },
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (scan(forms[i].text) != LOG_LINE_SESSION)
			fail_msg("%s", forms[i].text);
		same(line.session.name, forms[i].name);
		address_is(&line.session.address, forms[i].address);
		assert_int_equal(line.session.event, forms[i].event);
	}
}

/* Cut anywhere, a line is the same delivery with less text, or none at all. */
TEST(cut_lines) {
	static const char text[] = HEAD "to=<a@b.example>,<c@d.example>" RELAY ", dsn=4.0.0, "
	    "reply=421 4.7.0 later, closing, stat=Deferred: 421 4.7.0 later, closing";
	size_t stat = (size_t)(strstr(text, "stat=") - text) + strlen("stat=");

	for (size_t length = 0; length < sizeof(text); length++) {
		scan_bytes(text, length);
		if (length > stat) {
			assert_int_equal(line.kind, LOG_LINE_DELIVERY);
			same(line.delivery.list, "<a@b.example>,<c@d.example>");
			assert_int_equal(line.delivery.status, DELIVERY_DEFERRED);
		} else {
			assert_int_not_equal(line.kind, LOG_LINE_DELIVERY);
		}
	}
}

TEST(strange_values) {
	static const char *const broken[] = {
		"delay=1:2:3, stat=Sent", "delay=x, stat=Sent", "delay=, stat=Sent",
		"delay=9999999+00:00:00, stat=Sent", "dsn=2.0, stat=Sent", "dsn=2.0.0.0, stat=Sent",
		"relay=, stat=Sent", "stat=", "=x, stat=Sent", "reply=421 x", "delay 1, stat=Sent",
	};
	char text[512];

	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		snprintf(text, sizeof(text), HEAD "to=<a@b.example>, %s", broken[i]);
		if (scan(text) != LOG_LINE_BROKEN)
			fail_msg("%s", text);
	}
	assert_int_equal(scan_bytes(HEAD "to=<a\0@b.example>" TAIL,
	    sizeof(HEAD "to=<a\0@b.example>" TAIL) - 1), LOG_LINE_BROKEN);
}

TEST(huge_lines) {
	static const char start[] = HEAD "to=<a@b.example>";
	static const char *const fillers[] = { "x", ",", ", ", ", stat", "(", "\"", "<a>," };
	size_t length = 1 << 20;
	char *text = malloc(length);

	assert_non_null(text);
	for (size_t i = 0; i < sizeof(fillers) / sizeof(fillers[0]); i++) {
		size_t filler = strlen(fillers[i]);

		memcpy(text, start, sizeof(start) - 1);
		for (size_t at = sizeof(start) - 1; at < length; at++)
			text[at] = fillers[i][at % filler];
		assert_int_equal(scan_bytes(text, length), LOG_LINE_BROKEN);
	}
	free(text);
}

int main(void) {
	int failed = test_run();

	free(scanned);
	return failed;
}

/* SPDX-License-Identifier: ISC */
/* Which lines of Sendmail's log are certain to say who was delivered: whole ones, and no
 * other; whatever is cut, joined or changed says nothing of anybody that it did not name. */
#include "tests/unit/test.h"
#include "base/plain_recipient.h"
#include "wire/mail/mail_log.h"
#include "wire/mail/sendmail_sent.h"
#define HEAD "Nov 27 06:40:14 mx sendmail[131]: 6AR6eCmg000124: "
#define FIELDS "delay=00:00:02, xdelay=00:00:00, mailer=esmtp, pri=990020, relay=h2.far.example. " \
	"[198.51.100.3], dsn=2.0.0, stat=Sent (taken)"

static struct log_line line;

static bool is_sent(const char *text, size_t length) {
	return mail_log_scan(text, length, &line) == LOG_LINE_DELIVERY &&
	    line.delivery.source == DELIVERY_OF_SENDMAIL && sendmail_line_is_sent(&line);
}

static bool says(const char *text) {
	return is_sent(text, strlen(text));
}

TEST(whole_lines_are_certain) {
	static const char *const good[] = {
		HEAD "to=<a@b.example>, " FIELDS,
		HEAD "to=a@b.example, " FIELDS,
		HEAD "to=<a@b.example>,<c.d+e@f.example>, " FIELDS,
		HEAD "to=<a@b.example>,<c@d.example>, [more], " FIELDS,
		HEAD "to=<a@b.example>, ctladdr=<w@mx.example> (1/1), " FIELDS,
		HEAD "to=<a@b.example>, ctladdr=w (1/1), delay=1+03:11:17, xdelay=00:00:01, "
		    "mailer=relay, pri=1, relay=[192.0.2.1] [192.0.2.1], dsn=2.1.5, stat=Sent (a (b) c)",
		HEAD "to=<a@b.example>, delay=00:00:02, xdelay=00:00:00, mailer=esmtp, pri=9, "
		    "relay=h.example. [IPv6:2001:db8:0:0:0:0:0:1], dsn=2.0.0, "
		    "reply=250 2.0.0 fine, stat=Sent (ok, id=7)",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!says(good[i]))
			fail_msg("%s", good[i]);
	assert_true(says(good[3]));
	assert_true(sendmail_list_goes_on(&line));
}

TEST(heads_are_of_one_line) {
	static const char rest[] = " sendmail[131]: 6AR6eCmg000124: to=<a@b.example>, " FIELDS;
	static const char *const good[] = { "Nov 27 06:40:14", "Nov  7 06:40:14 mx", "<22>Nov 27 06:40:14",
		"Nov 27 06:40:14.123 mx.example", "2026-11-27T06:40:14Z mx",
		"2026-11-27T06:40:14.123456+01:00 mx" };
	static const char *const bad[] = { "", "Nov 27 06:40:14Nov 26 06:40:14 mx",
		"Nov 27 06:40:14 mxNov 26 06:40:14 mx", "Nov 27 06:40:1Nov 26 06:40:14 mx",
		"Nov 2Nov 26 06:40:14 mx", "2026-11-22026-11-26T06:40:14Z mx",
		"2026-11-27T06:40:14.122026-11-26T06:40:14Z mx", "Nov 27 06:40:14 mx mx" };
	char text[512];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		(void)snprintf(text, sizeof(text), "%s%s", good[i], rest);
		if (!says(text))
			fail_msg("%s", text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		(void)snprintf(text, sizeof(text), "%s%s", bad[i], rest);
		if (says(text))
			fail_msg("%s", text);
	}
}

TEST(whatever_leaves_a_doubt_is_not) {
	static const char *const bad[] = {
		HEAD "to=<a@b.example>, delay=00:00:02, mailer=esmtp, pri=1, stat=queued",
		HEAD "to=<a@b.example>, delay=00:00:02, xdelay=00:00:00, mailer=esmtp, pri=990020, "
		    "relay=h2. [198.51.100.3], dsn=4.0.0, stat=Sent (taken)",
		HEAD "to=<a@b.example>, delay=00:00:02, xdelay=00:00:00, mailer=esmtp, pri=990020, "
		    "relay=h2. [198.51.100.3], dsn=2.0.0, stat=Sent (tak",
		HEAD "to=<a@b.example>, delay=00:00:02, xdelay=00:00:00, mailer=esmtp, pri=990020, "
		    "relay=h2. [198.51.100.3], dsn=2.0.0, stat=Sent away",
		HEAD "to=<a@b.example>, delay=00:00:02, xdelay=00:00:00, mailer=esmtp, pri=990020, "
		    "relay=h2. [198.51.100.3], dsn=2.0.0, stat=Sent",
		HEAD "to=<a@b.example>, delay=00:00:02, xdelay=00:00:00, mailer=esmtp, pri=990020, "
		    "relay=h2. [198.51.100.3], dsn=2.0.0, stat=Sent (taken (all)",
		HEAD "to=<a@b.example>, delay=00:00:02, xdelay=00:00:00, mailer=local, pri=1, "
		    "relay=local, dsn=2.0.0, stat=Sent",
		HEAD "to=<a@b.example>,<\"x,v@b.example,y\"@b.example>, " FIELDS,
		HEAD "to=<v@b.example>,y\"@b.example>, [more], " FIELDS,
		HEAD "to=<a b@b.example>, " FIELDS, HEAD "to=<a>, " FIELDS,
		HEAD "to=<@b.example>, " FIELDS, HEAD "to=<a@b.example>x, " FIELDS,
		/* twice in one line: two were joined */
		HEAD "to=<a@b.example>, delay=00:00:02, " FIELDS,
		HEAD "to=<a@b.example>, delay=00:00:02, xdelay=00:00:00, mailer=esmtp, pri=1, "
		    "relay=mx." HEAD "to=<c@d.example>, " FIELDS,
		/* nobody's */
		"Nov 27 06:40:14 mx sendmail: 6AR6eCmg000124: to=<a@b.example>, " FIELDS,
		"Nov 27 06:40:14 mx sendmail[131]: to=<a@b.example>, " FIELDS,
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (says(bad[i]))
			fail_msg("%s", bad[i]);
}

/* A process dies, or the disk is full, in the middle of a line. */
TEST(half_a_line_says_nothing) {
	static const char text[] = HEAD "to=<a@b.example>,<c@d.example>, " FIELDS;

	for (size_t length = 0; length + 1 < sizeof(text) - 1; length++)
		if (is_sent(text, length))
			fail_msg("%.*s", (int)length, text);
	assert_true(is_sent(text, sizeof(text) - 1));
}

/* And the next one follows in the same line: of those that the first one named none is
 * delivered unless it was whole up to what it says. */
TEST(half_a_line_and_another_name_nobody_wrongly) {
	static const char text[] = HEAD "to=<a@b.example>,<c@d.example>, " FIELDS;
	static const char *const others[] = {
		"Nov 27 06:40:15 mx sendmail[132]: 6AR6eCmg000125: to=<v@w.example>, " FIELDS,
		"Nov 27 06:40:15 mx sendmail[131]: 6AR6eCmg000124: to=<v@w.example>,<x@y.example>, " FIELDS,
		"Nov 27 06:40:15 mx cron[9]: (root) CMD (true)", ", " FIELDS, "@w.example>, " FIELDS,
	};
	size_t said = (size_t)(strstr(text, "stat=Sent") + 9 - text);

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		for (size_t cut = 0; cut < said; cut++) {
			char joined[1024];
			int length = snprintf(joined, sizeof(joined), "%.*s%s", (int)cut, text,
			    others[i]);
			bool sent = is_sent(joined, (size_t)length);

			if (cut == 0)
				continue;
			/* made up so that it goes on where the first was cut */
			if (sent && (i >= 3) && strstr(text, others[3]) != NULL &&
			    line.delivery.list.length <= 31)
				continue;
			if (sent)
				fail_msg("cut at %zu: %s", cut, joined);
		}
	}
}

TEST(recipients_are_taken_one_by_one) {
	static const char list[] = "<a@b.example>,c@d.example,<\"e\"@f.example>";
	const char *at = list, *end = list + sizeof(list) - 1, *text;
	size_t length;

	assert_true(plain_recipient_take(&at, end, &text, &length));
	assert_memory_equal(text, "a@b.example", 11);
	assert_int_equal(length, 11);
	assert_string_equal(plain_recipient_domain("a@b", 3), "b");
	assert_true(plain_recipient_take(&at, end, &text, &length));
	assert_memory_equal(text, "c@d.example", 11);
	assert_false(plain_recipient_take(&at, end, &text, &length));
}

/* SPDX-License-Identifier: ISC */
/*
 * Lines of each server's log read in a second on one core: a tenth to a half of a busy
 * server's lines are deliveries, here every third one.  Then what each delivery means,
 * where a tenth of them was put off with a long reply: a bad day.  Median of several
 * runs.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "policy/reply/reply.h"
#include "wire/mail/mail_log.h"

#define RUNS	11
#define LINES	300000
#define ROOM	512

typedef int make_line(char *out, unsigned i);

static int64_t now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int by_time(const void *a, const void *b) {
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return left < right ? -1 : left > right;
}

/* The i-th line, all about as long as real ones. */
static int postfix_line(char *out, unsigned i) {
	switch (i % 3) {
	case 0:
		return snprintf(out, ROOM, "Nov 21 05:48:%02u mx postfix/smtp[%u]: %08XA7E: "
		    "to=<user%u@d%u.example>, relay=mx%u.d%u.example[192.0.2.%u]:25, delay=1.2, "
		    "delays=0.03/0.01/0.6/0.5, dsn=2.0.0, status=sent (250 2.0.0 Ok: queued as "
		    "%08X)", i % 60, i % 30000, i, i, i % 5000, i % 3, i % 5000, i % 255, i);
	case 1:
		return snprintf(out, ROOM, "Nov 21 05:48:%02u mx postfix/qmgr[812]: %08XA7E: "
		    "from=<sender%u@example.com>, size=%u, nrcpt=1 (queue active)", i % 60, i, i, i);
	default:
		return snprintf(out, ROOM, "Nov 21 05:48:%02u mx postfix/smtpd[%u]: disconnect "
		    "from mail%u.example.org[198.51.100.%u] ehlo=1 mail=1 rcpt=1 data=1 quit=1 "
		    "commands=5", i % 60, i % 30000, i, i % 255);
	}
}

static int sendmail_line(char *out, unsigned i) {
	switch (i % 3) {
	case 0:
		return snprintf(out, ROOM, "Nov 21 05:53:%02u mx sendmail[%u]: 6AL5%08X12: "
		    "to=<user%u@d%u.example>, delay=00:00:02, xdelay=00:00:01, mailer=esmtp, "
		    "pri=120017, relay=mx%u.d%u.example. [192.0.2.%u], dsn=2.0.0, stat=Sent (2.0.0 "
		    "ok: queued as %08X)", i % 60, i % 30000, i, i, i % 5000, i % 3, i % 5000,
		    i % 255, i);
	case 1:
		return snprintf(out, ROOM, "Nov 21 05:53:%02u mx sendmail[%u]: 6AL5%08X12: "
		    "from=<sender%u@example.com>, size=%u, class=0, nrcpts=1, proto=ESMTP, daemon=MTA, "
		    "relay=mail%u.example.org [198.51.100.%u]", i % 60, i % 30000, i, i, i, i, i % 255);
	default:
		return snprintf(out, ROOM, "Nov 21 05:53:%02u mx sendmail[%u]: NOQUEUE: connect from "
		    "mail%u.example.org [198.51.100.%u]", i % 60, i % 30000, i, i % 255);
	}
}

/* Deliveries alone, each tenth put off. */
static int bad_day_line(char *out, unsigned i) {
	if (i % 10 != 0)
		return postfix_line(out, i * 3);
	return snprintf(out, ROOM, "Nov 21 05:48:%02u mx postfix/smtp[%u]: %08XA7E: "
	    "to=<user%u@d%u.example>, relay=mx%u.d%u.example[192.0.2.%u]:25, delay=1.2, "
	    "delays=0.03/0.01/0.6/0.5, dsn=4.7.1, status=deferred (host mx.d%u.example[192.0.2.7] "
	    "said: 451-4.7.1 Your message cannot be accepted for the moment, as our 451-4.7.1 "
	    "policy asks us to have a look at it first.  Please send it once 451 4.7.1 more, "
	    "or see http://www.example.org/%u (in reply to RCPT TO command))",
	    i % 60, i % 30000, i, i, i % 5000, i % 3, i % 5000, i % 255, i, i);
}

static uint64_t sum;	/* keeps the compiler from leaving the work out */

static void read_all(const char *lines, const char *end, bool judge) {
	for (const char *line = lines; line < end;) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		struct log_line out;

		if (mail_log_scan(line, (size_t)(newline - line), &out) == LOG_LINE_DELIVERY) {
			struct reply reply = { .code = 1 };

			if (judge)
				reply_judge(&out.delivery, &reply);
			sum += reply.code + out.delivery.recipient.length;
		}
		line = newline + 1;
	}
}

static bool measure(const char *name, make_line *make, bool judge) {
	char *lines = malloc((size_t)LINES * ROOM), *at = lines;
	int64_t times[RUNS];

	if (lines == NULL)
		return false;
	for (unsigned i = 0; i < LINES; i++) {
		at += make(at, i);
		*at++ = '\n';
	}
	for (int run = 0; run < RUNS; run++) {
		int64_t began = now_ns();

		read_all(lines, at, judge);
		times[run] = now_ns() - began;
	}
	qsort(times, RUNS, sizeof(times[0]), by_time);
	printf("%s_lines_per_s %.0f\n%s_ns_per_line %.0f\n", name,
	    LINES * 1e9 / (double)times[RUNS / 2], name, (double)times[RUNS / 2] / LINES);
	free(lines);
	return true;
}

int main(void) {
	if (!measure("postfix_log", postfix_line, false) ||
	    !measure("sendmail_log", sendmail_line, false) ||
	    !measure("postfix_log_and_class", postfix_line, true) ||
	    !measure("sendmail_log_and_class", sendmail_line, true) ||
	    !measure("postfix_bad_day_and_class", bad_day_line, true)) {
		perror("bench_mail_log");
		return 1;
	}
	return sum == 0;
}

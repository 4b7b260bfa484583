/* SPDX-License-Identifier: ISC */
/*
 * Lines of Postfix's log read in a second on one core: a tenth to a half of a busy
 * server's lines are deliveries, here every third one.  Median of several runs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wire/postfix_log.h"

#define RUNS	11
#define LINES	300000
#define ROOM	256

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int by_time(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return left < right ? -1 : left > right;
}

/* The i-th line, all about as long as real ones. */
static int make_line(char *out, unsigned i)
{
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

int main(void)
{
	char *lines = malloc((size_t)LINES * ROOM), *at = lines;
	int64_t times[RUNS];
	uint64_t sum = 0;

	if (lines == NULL) {
		perror("bench_postfix_log");
		return 1;
	}
	for (unsigned i = 0; i < LINES; i++) {
		at += make_line(at, i);
		*at++ = '\n';
	}
	for (int run = 0; run < RUNS; run++) {
		int64_t began = now_ns();

		for (const char *line = lines; line < at;) {
			const char *end = memchr(line, '\n', (size_t)(at - line));
			struct log_line out;

			if (postfix_log_scan(line, (size_t)(end - line), &out) ==
			    LOG_LINE_DELIVERY)
				sum += out.delivery.relay_port;
			line = end + 1;
		}
		times[run] = now_ns() - began;
	}
	qsort(times, RUNS, sizeof(times[0]), by_time);
	/* the sum keeps the compiler from leaving the work out */
	printf("postfix_log_lines_per_s %.0f\npostfix_log_ns_per_line %.0f\n",
	    LINES * 1e9 / (double)times[RUNS / 2],
	    sum == 0 ? 0 : (double)times[RUNS / 2] / LINES);
	free(lines);
	return 0;
}

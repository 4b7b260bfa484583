/* SPDX-License-Identifier: ISC */
/*
 * Log lines in a second on one core, from the file to the destination's window and the
 * place that is kept (CPU time, as others may run): every third line a delivery, as on a busy server; deliveries
 * alone; and those on a bad day, when a tenth is put off.  Median of several runs.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "front/feed/feed_internal.h"
#include "front/feed/followed_log.h"
#include "engine/feed/feed_files.h"
#include "tests/unit/site.h"

#define RUNS	7
#define DOMAINS	5000
#define CHUNK	((size_t)256 << 10)

static const char configuration[] = "classes = ( { name = \"c\"; match = \"*\"; hold_at = 1; } );\n"
    "mta = ( { name = \"a\"; log = \"\"; }, { name = \"s\"; kind = \"sendmail\"; log = \"\"; } );\n";

static struct site site;
static struct feed feed;
static struct feed_tally tally;

static int by_time(const void *a, const void *b) {
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return left < right ? -1 : left > right;
}

static void postfix_delivery(FILE *out, unsigned i, bool bad) {
	unsigned domain = i % DOMAINS;

	unsigned host = i % 3;	/* of each domain, with an address of its own */

	fprintf(out, "Nov 21 05:48:%02u mx postfix/smtp[%u]: %08XA7E: to=<user%u@d%u.example>, "
	    "relay=mx%u.d%u.example[192.%u.%u.%u]:25, delay=1.2, delays=0.03/0.01/0.6/0.5, ",
	    i % 60, i % 30000, i, i, domain, host, domain, host, domain / 250,
	    1 + domain % 250);
	if (bad)
		fprintf(out, "dsn=4.7.28, status=deferred (host mx%u.d%u.example[192.%u.%u.%u] "
		    "said: 421-4.7.28 Our system has detected an unusual rate of unsolicited "
		    "mail originating from your IP address (in reply to MAIL FROM command))\n",
		    host, domain, host, domain / 250, 1 + domain % 250);
	else
		fprintf(out, "dsn=2.0.0, status=sent (250 2.0.0 Ok: queued as %08X)\n", i);
}

static void other_line(FILE *out, unsigned i) {
	if (i % 2 == 0)
		fprintf(out, "Nov 21 05:48:%02u mx postfix/qmgr[812]: %08XA7E: "
		    "from=<sender%u@example.com>, size=%u, nrcpt=1 (queue active)\n", i % 60, i,
		    i, i);
	else
		fprintf(out, "Nov 21 05:48:%02u mx postfix/smtpd[%u]: disconnect from "
		    "mail%u.example.org[198.51.100.%u] ehlo=1 mail=1 rcpt=1 data=1 quit=1 "
		    "commands=5\n", i % 60, i % 30000, i, i % 255);
}

static void sendmail_delivery(FILE *out, unsigned i) {
	unsigned domain = i % DOMAINS, host = i % 3;

	fprintf(out, "Nov 21 05:48:%02u mx sendmail[%u]: %08XA7E: to=<user%u@d%u.example>, "
	    "delay=00:00:01, xdelay=00:00:01, mailer=esmtp, pri=120000, relay=mx%u.d%u.example. "
	    "[192.%u.%u.%u], dsn=2.0.0, stat=Sent (Ok: queued as %08X)\n", i % 60, i % 30000, i,
	    i, domain, host, domain, host, domain / 250, 1 + domain % 250, i);
}

enum mix { MIXED, DELIVERIES, BAD_DAY, SENDMAIL };

static void write_log(const char *path, unsigned lines, enum mix mix) {
	FILE *out = fopen(path, "w");

	if (out == NULL) {
		perror(path);
		exit(1);
	}
	for (unsigned i = 0; i < lines; i++) {
		if (mix == MIXED && i % 3 != 0)
			other_line(out, i);
		else if (mix == SENDMAIL)
			sendmail_delivery(out, i);
		else
			postfix_delivery(out, i, mix == BAD_DAY && i % 10 == 7);
	}
	fclose(out);
}

/* The whole file, as a feed reads it that finds a lot behind. */
static int64_t read_log(const char *path, char *chunk) {
	const struct feed_keeper keeper = engine_feed_keeper(site.engine);
	const struct followed_start start = { .from_begin = true };
	struct followed_log log;
	struct followed_reader reader = { .buffer = chunk, .buffer_size = CHUNK,
		.keeper = &keeper, .counts = &log.counts };
	int64_t began_ns = clock_thread_cpu_ns(), took_ns;

	followed_log_open(&log, path, &start, &keeper, clock_now_ns());
	do {
		feed.now_ns = clock_now_ns();
		feed.wall_ms = clock_wall_ms();
		feed_file(&feed, 3, &log.files[0], &reader, false);
		tally.lines += feed.tally.lines;
		tally.deliveries += feed.tally.deliveries;
		tally.broken += feed.tally.broken;
		feed_count(&feed);
	} while (reader.more);
	took_ns = clock_thread_cpu_ns() - began_ns;
	followed_log_close(&log);
	engine_feed_logs_keep(site.engine, NULL, 0);
	return took_ns;
}

static void measure(const char *name, enum mix mix, unsigned lines, char *chunk) {
	int64_t times[RUNS];
	char path[128];

	snprintf(path, sizeof(path), "%s/log", site.directory);
	for (unsigned run = 0; run < RUNS; run++) {
		write_log(path, lines, mix);
		memset(&tally, 0, sizeof(tally));
		times[run] = read_log(path, chunk);
		if (tally.lines != lines || tally.broken != 0 ||
		    tally.deliveries != (mix == MIXED ? (lines + 2) / 3 : lines)) {
			fprintf(stderr, "bench_feed: %" PRIu64 " lines, %" PRIu64
			    " deliveries, %" PRIu64 " broken\n", tally.lines, tally.deliveries,
			    tally.broken);
			exit(1);
		}
		unlink(path);
	}
	qsort(times, RUNS, sizeof(times[0]), by_time);
	printf("feed_%s_lines_per_s %.0f\nfeed_%s_ns_per_line %.0f\n", name,
	    lines * 1e9 / (double)times[RUNS / 2], name, (double)times[RUNS / 2] / lines);
}

int main(int argc, char **argv) {
	unsigned lines = argc > 1 ? 30000 : 300000;
	char *chunk = malloc(CHUNK);
	struct diag diag;

	(void)argv;
	site_open_sized(&site, 64, 16384, configuration);
	site_enlarge_pages(&site);
	feed.engine = site.engine;
	feed.generation = site.generation;
	feed.base = event_base_new();
	if (chunk == NULL || feed.base == NULL ||
	    front_requeue_open(&feed.requeue, feed.base, site.engine, -1, &diag) != 0) {
		fprintf(stderr, "bench_feed: no memory\n");
		return 1;
	}
	measure("mixed", MIXED, lines, chunk);
	measure("deliveries", DELIVERIES, lines, chunk);
	measure("bad_day", BAD_DAY, lines, chunk);
	measure("sendmail", SENDMAIL, lines, chunk);
	front_requeue_close(&feed.requeue);
	event_base_free(feed.base);
	free(chunk);
	site_close(&site);
	return 0;
}

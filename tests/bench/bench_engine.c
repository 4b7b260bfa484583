/* SPDX-License-Identifier: ISC */
/*
 * Time of opening and closing a session while many are present, and memory.
 * Prints "name value" lines; medians of five rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/file/internal.h"
#include "tests/unit/site.h"

#define ROUNDS		5
#define PAIRS		200000

static struct site site;

static struct question question_number(uint32_t number) {
	struct question question = { .server_port = 25, .owner = OWNER_POLICY };
	/* spread over the tables as clients are, and each of its own */
	uint32_t address = number * 2654435761u;

	question.listener = site.lease_listener;
	memcpy(question.client.bytes,
	    "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
	memcpy(question.client.bytes + 12, &address, 4);
	question.client_port = (uint16_t)(1024 + number % 60000);
	return question;
}

static struct session_ref open_number(uint32_t number, int64_t now_ns) {
	struct question question = question_number(number);
	struct answer answer;

	engine_session_open(site.engine, site.generation, &question, now_ns,
	    &answer);
	if (answer.session.slot == 0) {
		fprintf(stderr, "session %u was not counted\n", number);
		exit(1);
	}
	return answer.session;
}

static int ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Opens a session that is not there and closes it: a lookup that misses the
 * cache, and everything that follows. */
static double pair_ns(uint32_t *next) {
	int64_t begin = clock_now_ns();

	for (unsigned i = 0; i < PAIRS; i++) {
		struct session_ref ref = open_number((*next)++, begin);

		engine_session_ended(site.engine, site.generation, &ref,
		    OWNER_POLICY, begin);
	}
	return (double)(clock_now_ns() - begin) / PAIRS;
}

static uint32_t draw(uint32_t *random, uint32_t count) {
	*random = *random * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)*random * count >> 32);
}

/* Opens a new session and closes an old one anywhere in the table, so that
 * neither is in the cache.  The caller's own memory is fetched ahead: it is
 * not what is measured. */
static double replace_ns(struct session_ref *present, uint32_t count,
    uint32_t *next, uint32_t *random) {
	uint32_t at[8];
	int64_t begin = clock_now_ns();

	for (unsigned i = 0; i < 8; i++)
		at[i] = draw(random, count);
	for (unsigned i = 0; i < PAIRS; i++) {
		uint32_t now = at[i % 8];

		at[i % 8] = draw(random, count);
		__builtin_prefetch(&present[at[i % 8]], 1);
		engine_session_ended(site.engine, site.generation, &present[now],
		    OWNER_POLICY, begin);
		present[now] = open_number((*next)++, begin);
	}
	return (double)(clock_now_ns() - begin) / PAIRS;
}

static double median(double *rounds) {
	qsort(rounds, ROUNDS, sizeof(rounds[0]), ascending);
	return rounds[ROUNDS / 2];
}

static void bench(uint32_t count) {
	struct session_ref *present = calloc(count, sizeof(*present));
	double pairs[ROUNDS], replacements[ROUNDS];
	uint32_t next = 0, random = 7;

	if (present == NULL)
		exit(1);
	site_open(&site, count + 1000, "classes = ( { name = \"all\"; "
	    "match = [ \"*\" ]; hold_at = 2000000; refuse_at = 2000000; } );");
	site_enlarge_pages(&site);
	for (uint32_t i = 0; i < count; i++)
		present[i] = open_number(next++, 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		pairs[i] = pair_ns(&next);
		replacements[i] = replace_ns(present, count, &next, &random);
	}
	printf("engine_open_close_ns_%u %.0f\n", count, median(pairs));
	printf("engine_replace_ns_%u %.0f\n", count, median(replacements));
	printf("segment_bytes_per_session_%u %.1f\n", count,
	    (double)site.segment->header->destinations.shards_offset /
	    (double)site.segment->header->session_count);
	site_close(&site);
	free(present);
}

int main(int argc, char **argv) {
	(void)argv;
	bench(1000);
	if (argc == 1) {		/* short: no figures to quote */
		bench(100000);
		bench(1000000);
	}
	return 0;
}

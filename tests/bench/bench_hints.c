/* SPDX-License-Identifier: ISC */
/*
 * What it costs to look a recipient up in a hints file of so many domains:
 *
 *	hints_lookup_ns_N		a domain that it knows: held, or with lanes
 *	hints_lookup_unknown_ns_N	one that it does not know
 *
 * Domains are taken at random; CPU time, medians of rounds.  With "serve FILE N" it writes
 * such a file and keeps it alive until it is killed.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/hints/hints.h"

#define ROUNDS	7
#define STEPS	200000
#define NAME	32
#define BEAT_MS	1000

static const struct hints_mta mta = { "out", { 1, 2, 3, 5, 10, 20 }, 6 };

static void fail(const char *why) {
	fprintf(stderr, "bench_hints: %s\n", why);
	exit(1);
}

/* Hexadecimal by hand: the text would cost more than the rest. */
static size_t name_of(uint32_t number, char name[NAME]) {
	static const char end[] = ".customer.example";

	for (unsigned i = 0; i < 8; i++)
		name[i] = "0123456789abcdef"[number >> (28 - 4 * i) & 15];
	memcpy(name + 8, end, sizeof(end));
	return 8 + sizeof(end) - 1;
}

/* One of eight is held, the others have lanes. */
static struct hints_writer *write_file(const char *path, uint32_t count) {
	static const struct hint_say held = { .kind = HINTS_HELD, .text = "421 come back later" },
		by_lanes = { .kind = HINTS_LANE, .lanes = { .count = 2, .lane = { 3, 1 },
		.share = { 5, 2 }, .canary = HINTS_NO_LANE, .single = HINTS_NO_LANE } };
	struct hint *hints = calloc(count, sizeof(*hints));
	char (*names)[NAME] = calloc(count, sizeof(*names));
	uint32_t *places = calloc(count, sizeof(*places));
	struct hints_table table = { .mtas = &mta, .mta_count = 1, .hints = hints,
		.count = count, .recipients = 64 };
	struct hints_writer *writer;
	struct diag diag;

	if (hints == NULL || names == NULL || places == NULL)
		fail("no memory");
	for (uint32_t i = 0; i < count; i++) {
		(void)name_of(i, names[i]);
		hints[i] = (struct hint){ .domain = names[i], .group = HINTS_NO_GROUP };
	}
	if (hints_writer_open(&writer, path, (gid_t)-1, &diag) != 0 ||
	    hints_writer_build(writer, &table, places, &diag) != 0)
		fail(diag.text);
	for (uint32_t i = 0; i < count; i++) {
		if (places[i] == HINTS_NO_PLACE)
			fail("no place");
		hints_writer_set(writer, places[i], i % 8 == 0 ? &held : &by_lanes);
	}
	if (hints_writer_publish(writer, clock_now_ns(), &diag) != 0)
		fail(diag.text);
	free(hints);
	free(names);
	free(places);
	return writer;
}

static uint32_t draw(uint32_t *random) {
	*random = *random * 1664525 + 1013904223;
	return *random >> 4;
}

/* `from`: the number of the first domain. */
static double look_up(struct hints_reader *reader, uint32_t from, uint32_t count, bool known,
    uint32_t *random, int64_t now_ns) {
	int64_t began_ns = clock_thread_cpu_ns();

	for (uint32_t i = 0; i < STEPS; i++) {
		struct hints_answer answer;
		char address[5 + NAME] = "user@";
		size_t length = name_of(from + draw(random) % count, address + 5);

		hints_reader_ask(reader, "out", address, 5 + length, false, now_ns, &answer);
		if ((answer.kind != HINTS_NOTHING) != known)
			fail("a wrong answer");
	}
	return (double)(clock_thread_cpu_ns() - began_ns) / STEPS;
}

static int ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *rounds) {
	qsort(rounds, ROUNDS, sizeof(rounds[0]), ascending);
	return rounds[ROUNDS / 2];
}

static void bench(const char *path, uint32_t count) {
	struct hints_writer *writer = write_file(path, count);
	struct hints_reader *reader = hints_reader_open(path);
	int64_t now_ns = clock_now_ns();
	double known[ROUNDS], unknown[ROUNDS];
	uint32_t random = 7;

	if (reader == NULL)
		fail("no memory");
	for (unsigned i = 0; i < ROUNDS; i++) {
		known[i] = look_up(reader, 0, count, true, &random, now_ns);
		unknown[i] = look_up(reader, count, count, false, &random, now_ns);
	}
	printf("hints_lookup_ns_%u %.0f\n", count, median(known));
	printf("hints_lookup_unknown_ns_%u %.0f\n", count, median(unknown));
	hints_reader_close(&reader);
	hints_writer_close(&writer);
}

static void serve(const char *path, uint32_t count) {
	struct hints_writer *writer = write_file(path, count);

	for (;; (void)poll(NULL, 0, BEAT_MS))
		hints_writer_beat(writer, clock_now_ns());
}

int main(int argc, char **argv) {
	char directory[] = "/dev/shm/bench_hints.XXXXXX", path[64];

	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		serve(argv[2], (uint32_t)strtoul(argv[3], NULL, 10));
	if (mkdtemp(directory) == NULL)
		fail("no directory");
	snprintf(path, sizeof(path), "%s/hints", directory);
	bench(path, 1000);
	if (argc == 1) {		/* short: no figures to quote */
		bench(path, 10000);
		bench(path, 100000);
		bench(path, 1000000);
	}
	unlink(path);
	rmdir(directory);
	return 0;
}

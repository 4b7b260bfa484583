/* SPDX-License-Identifier: ISC */
/*
 * What noting a delivery and finding a destination cost, with so many known:
 *
 *	destinations_note_ns_N		a delivery like the last one of its destination
 *	destinations_named_ns_N		the same with its relay's name: both tables
 *	destinations_find_ns_N		a destination
 *	relays_find_ns_N		a destination, and then its relay's name
 *	destination_feedback_ns_N	a result is taken into account by a window
 *	destination_feedback_batch_ns_N	the same, of names that were expected, 16 at a time:
 *					so the feed reads logs
 *	destination_window_find_ns_N	a destination with its window
 *	destinations_changed_us_N	a follower looks for changes, and there are none
 *
 * Destinations are taken at random; CPU time, medians of rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "segment/destination/destinations.h"
#include "segment/file/internal.h"
#include "segment/destination/states.h"
#include "tests/unit/site.h"

#define ROUNDS	7
#define STEPS	200000
#define BATCH	16

static struct site site;

static double cpu_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static uint32_t draw(uint32_t *random) {
	*random = *random * 1664525 + 1013904223;
	return *random >> 4;
}

/* The text of a number costs more than the rest: hexadecimal by hand. */
static size_t name_of(uint32_t number, char name[32]) {
	static const char end[] = ".customer.example";

	for (unsigned i = 0; i < 8; i++)
		name[i] = "0123456789abcdef"[number >> (28 - 4 * i) & 15];
	memcpy(name + 8, end, sizeof(end));
	return 8 + sizeof(end) - 1;
}

static struct address relay_of(uint32_t number) {
	struct address relay = { .bytes = { [10] = 0xff, 0xff, 10 } };

	relay.bytes[13] = (uint8_t)(number >> 16);
	relay.bytes[14] = (uint8_t)(number >> 8);
	relay.bytes[15] = (uint8_t)number;
	return relay;
}

static void note(uint32_t number, bool named, int64_t at_ns) {
	char name[32];
	struct delivery_seen seen = { .name = name, .cloned = true,
		.name_length = name_of(number, name),
		.relay = relay_of(number) };

	if (named) {
		seen.relay_name = "mx.customer.example";
		seen.relay_name_length = 19;
	}
	if (!destinations_note(site.segment, &seen, at_ns))
		abort();
}

static double note_round(uint32_t count, uint32_t *random, bool named) {
	int64_t at_ns = clock_now_ns();
	double begin = cpu_ns();

	for (uint32_t i = 0; i < STEPS; i++)
		note(draw(random) % count, named, at_ns);
	return (cpu_ns() - begin) / STEPS;
}

static double find_round(uint32_t count, uint32_t *random, bool named) {
	double begin = cpu_ns();
	uint32_t found = 0;

	for (uint32_t i = 0; i < STEPS; i++) {
		struct destination_seen seen;
		char name[32], relay[SEGMENT_NAME_MAX + 1];
		size_t length = name_of(draw(random) % count, name);

		found += destinations_find(site.segment, name, length, &seen) &&
		    (!named || relays_find(site.segment, &seen.relays[0], relay));
	}
	/* a shard that got more than its share has given some up, of a small table more */
	if (found < STEPS - STEPS / 5)
		abort();
	return (cpu_ns() - begin) / STEPS;
}

/* All that the feed does to a destination but to judge the line. */
static void feedback(const struct state_key *key, int64_t at_ns) {
	const struct window_result result = { .class = RESULT_OK };
	struct window_change change;
	struct state_lock lock;

	if (states_lock_at(&lock, site.segment, key, at_ns, STATES_CREATE) != STATES_HELD)
		abort();
	if (!lock.state.begun) {
		window_begin(&lock.state.window, &window_defaults);
		lock.state.begun = true;
	}
	window_result(&lock.state.window, &window_defaults, &result, at_ns,
	    &change);
	lock.state.ok++;
	lock.origin = (struct state_origin){ 7, lock.state.ok };
	states_store(&lock);
	states_unlock(&lock);
}

static double feedback_round(uint32_t count, uint32_t *random, unsigned batch) {
	struct state_key keys[BATCH];
	char text[32];
	int64_t at_ns = clock_now_ns();
	double begin = cpu_ns();

	for (uint32_t i = 0; i < STEPS; i += batch) {
		for (unsigned k = 0; k < batch; k++) {
			size_t length = name_of(draw(random) % count, text);

			if (!states_key(site.segment, text, length, &keys[k]))
				abort();
		}
		if (batch > 1)
			states_expect(site.segment, keys, batch);
		for (unsigned k = 0; k < batch; k++)
			feedback(&keys[k], at_ns);
	}
	return (cpu_ns() - begin) / STEPS;
}

static double window_round(uint32_t count, uint32_t *random) {
	double begin = cpu_ns();

	for (uint32_t i = 0; i < STEPS; i++) {
		struct destination_window window;
		char name[32];
		size_t length = name_of(draw(random) % count, name);

		(void)states_find(site.segment, name, length, &window);
	}
	return (cpu_ns() - begin) / STEPS;
}

static void follow(void) {
	struct learned_follower at = { .word = 0 };
	struct destination_window window;

	while (states_next(site.segment, STATES_CHANGED, &at, &window))
		;
}

static double changed_round(void) {
	double begin;

	follow();
	begin = cpu_ns();
	for (unsigned i = 0; i < 100; i++)
		follow();
	return (cpu_ns() - begin) / 100 / 1000;
}

static int ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *rounds) {
	qsort(rounds, ROUNDS, sizeof(rounds[0]), ascending);
	return rounds[ROUNDS / 2];
}

static void bench(uint32_t count) {
	double notes[2][ROUNDS], finds[2][ROUNDS], results[2][ROUNDS];
	double windows[ROUNDS], changed[ROUNDS];
	uint32_t random = 7;

	site_open_sized(&site, 64, count + count / 20, "classes = ( { name = \"all\"; "
	    "match = [ \"*\" ]; hold_at = 9; } );");
	site_enlarge_pages(&site);
	for (uint32_t i = 0; i < count; i++)
		note(i, true, clock_now_ns());
	for (unsigned i = 0; i < ROUNDS; i++) {
		for (unsigned named = 0; named < 2; named++) {
			notes[named][i] = note_round(count, &random, named);
			finds[named][i] = find_round(count, &random, named);
		}
		results[0][i] = feedback_round(count, &random, 1);
		results[1][i] = feedback_round(count, &random, BATCH);
		windows[i] = window_round(count, &random);
		changed[i] = changed_round();
	}
	printf("destinations_note_ns_%u %.0f\n", count, median(notes[0]));
	printf("destinations_named_ns_%u %.0f\n", count, median(notes[1]));
	printf("destinations_find_ns_%u %.0f\n", count, median(finds[0]));
	printf("relays_find_ns_%u %.0f\n", count, median(finds[1]));
	printf("destination_feedback_ns_%u %.0f\n", count, median(results[0]));
	printf("destination_feedback_batch_ns_%u %.0f\n", count,
	    median(results[1]));
	printf("destination_window_find_ns_%u %.0f\n", count, median(windows));
	printf("destinations_changed_us_%u %.1f\n", count, median(changed));
	printf("segment_bytes_per_destination_%u %.1f\n", count,
	    (double)(site.segment->header->relays.shards_offset -
		site.segment->header->destinations.shards_offset) /
	    (double)site.segment->header->destination_count);
	site_close(&site);
}

int main(int argc, char **argv) {
	(void)argv;
	bench(1000);
	if (argc == 1) {		/* short: no figures to quote */
		bench(10000);
		bench(100000);
		bench(1000000);
	}
	return 0;
}

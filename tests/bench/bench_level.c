/* SPDX-License-Identifier: ISC */
/* What one delivery costs in levels (added, and judged later) and in a window, by how many
 * are in flight: CPU time, median of several runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "policy/window/level.h"
#include "policy/window/window.h"

#define RUNS	7
#define ENTRIES	16384
#define MS	INT64_C(1000000)
#define SERVICE	(1000 * MS)

static struct level_entry entries[ENTRIES];

static int by_time(const void *a, const void *b) {
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return left < right ? -1 : left > right;
}

/* Deliveries of half a second to one and a half; one of a hundred is refused. */
static int64_t levels(uint32_t in_flight, uint32_t count) {
	int64_t began_ns = clock_thread_cpu_ns(), each_ns = SERVICE / in_flight;
	struct level_verdict verdict;
	uint64_t random = 1, sum = 0;
	struct level level;

	level_begin(&level, entries, ENTRIES);
	for (uint32_t i = 0; i < count; i++) {
		int64_t now_ns = 10 * SERVICE + i * each_ns, took_ns;
		struct level_attempt attempt = { .end_ns = now_ns, .tag = i };

		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		attempt.accepted = random >> 33 > UINT64_C(1) << 31 >> 7;
		took_ns = attempt.accepted ? SERVICE / 2 +
		    (int64_t)(random >> 40) * SERVICE / (1 << 24) : 20 * MS;
		attempt.start_ns = now_ns - took_ns;
		attempt.slack_ns = level_slack(took_ns / MS);
		(void)level_add(&level, &attempt, now_ns);
		while (level_next(&level, now_ns, &verdict))
			sum += verdict.level;
	}
	if (level.lost > 0 || sum == 0)
		abort();
	return clock_thread_cpu_ns() - began_ns;
}

static int64_t windows(uint32_t in_flight, uint32_t count) {
	int64_t began_ns = clock_thread_cpu_ns();
	struct window_settings settings = window_defaults;
	struct window_change change;
	struct window window;

	settings.limit = in_flight;
	window_begin(&window, &settings);
	for (uint32_t i = 0; i < count; i++) {
		struct window_result result = { .class = RESULT_OK, .in_flight = in_flight - 1,
			.start_ns = 1 + (int64_t)i * MS };

		window_result(&window, &settings, &result, result.start_ns + SERVICE, &change);
		window_late_level(&window, &settings, RESULT_OK, in_flight,
		    result.start_ns + SERVICE, &change);
	}
	return clock_thread_cpu_ns() - began_ns;
}

static void measure(const char *name, int64_t (*work)(uint32_t, uint32_t), uint32_t in_flight,
    uint32_t count) {
	int64_t times[RUNS];

	for (unsigned run = 0; run < RUNS; run++)
		times[run] = work(in_flight, count);
	qsort(times, RUNS, sizeof(times[0]), by_time);
	printf("%s_%u_in_flight_ns %.0f\n", name, in_flight, (double)times[RUNS / 2] / count);
}

int main(int argc, char **argv) {
	static const uint32_t in_flight[] = { 1, 10, 100, 1000 };
	uint32_t count = argc > 1 ? 20000 : 200000;

	(void)argv;
	for (unsigned i = 0; i < 4; i++) {
		measure("level", levels, in_flight[i], count);
		measure("window", windows, in_flight[i], count);
	}
	return 0;
}

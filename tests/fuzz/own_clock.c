/* SPDX-License-Identifier: ISC */
#include "tests/fuzz/own_clock.h"

#include <stdatomic.h>
#include <string.h>

#define BEGIN_NS	(100000 * NS_PER_SECOND)
#define BEGIN_WALL_NS	(INT64_C(1800000000) * NS_PER_SECOND)

static _Atomic int64_t now_ns = BEGIN_NS, wall_ns = BEGIN_WALL_NS;

void own_clock_begin(void) {
	now_ns = BEGIN_NS;
	wall_ns = BEGIN_WALL_NS;
}

void own_clock_pass(int64_t ns) {
	now_ns += ns;
	wall_ns += ns;
}

void own_clock_set_wall(int64_t by_ns) {
	wall_ns += by_ns;
}

int64_t clock_now_ns(void) {
	return now_ns;
}

int64_t clock_coarse_ns(void) {
	return now_ns;
}

int64_t clock_thread_cpu_ns(void) {
	return now_ns;
}

int64_t clock_wall_s(void) {
	return wall_ns / NS_PER_SECOND;
}

int64_t clock_wall_ms(void) {
	return wall_ns / NS_PER_MS;
}

int64_t clock_wall_ns(void) {
	return wall_ns;
}

void clock_pair(int64_t *now, int64_t *wall) {
	*now = now_ns;
	*wall = wall_ns;
}

void clock_pause(int64_t ns) {
	(void)ns;
}

bool clock_boot_id(char out[CLOCK_BOOT_ID]) {
	memset(out, 0, CLOCK_BOOT_ID);
	memcpy(out, "fuzz", 4);
	return true;
}

/* SPDX-License-Identifier: ISC */
/*
 * Feedback amounts, levels and windows from any bytes: an amount is between 0 and 1 or
 * refused; a log may tell any times in any order, and every attempt that was taken gets
 * one verdict; the window that all that is told to stays sound.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "policy/window/level.h"
#include "policy/window/window.h"

#define ROOM	24

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
};

static int64_t take(struct input *input, size_t bytes) {
	uint64_t value = 0;

	for (; bytes > 0 && input->size > 0; bytes--, input->size--)
		value = value << 8 | *input->data++;
	return (int64_t)value;
}

/* Mostly near to the last one, sometimes anything. */
static int64_t take_time(struct input *input, int64_t last) {
	uint8_t kind = (uint8_t)take(input, 1);
	int64_t step = take(input, 2) * 1000000;

	if (kind == 255)
		return take(input, 8);
	return __builtin_add_overflow(last, kind & 1 ? -step : step, &step) ? last : step;
}

struct world {
	struct level_entry room[ROOM], more[2 * ROOM];
	struct level level;
	struct window window;
	struct window_settings settings;
	uint32_t waiting;
	int64_t now;
};

static void tell_verdicts(struct world *world, int64_t until) {
	struct level_verdict verdict;
	struct window_change change;

	while (level_next(&world->level, until, &verdict)) {
		MUST(world->waiting-- > 0);
		MUST(verdict.level <= 2 * ROOM + 1);
		window_late_level(&world->window, &world->settings, verdict.accepted ?
		    RESULT_OK : RESULT_SITE_FAILURE, verdict.level, world->now, &change);
		MUST(verdict.beside <= 2 * ROOM + 1);
		window_took(&world->window, &world->settings, &verdict, world->now, &change);
		MUST(window_is_sound(&world->window));
	}
}

static void tell_result(struct world *world, const struct level_attempt *attempt,
    uint8_t kind) {
	struct window_result result = {
		.class = attempt->accepted ? RESULT_OK : RESULT_SITE_FAILURE,
		.level = kind & 2 ? 0 : kind >> 4,
		.in_flight = level_in_flight(&world->level, world->now),
		.start_ns = kind & 4 ? attempt->start_ns : 0,
		.given_ns = kind & 16 ? level_given_ns(attempt->start_ns, attempt->slack_ns,
		    kind) : 0,
		.answered = (kind & 32) != 0,
		.canary = (kind & 8) != 0,
	};
	struct window_change change;
	bool in;

	window_result(&world->window, &world->settings, &result, world->now, &change);
	MUST(window_is_sound(&world->window));
	in = level_add(&world->level, attempt, world->now);
	world->waiting += in;
	if (!in && world->level.entries == world->room)
		level_move(&world->level, world->more, 2 * ROOM);
	MUST(level_count(&world->level) <= world->level.capacity);
	MUST(level_count(&world->level) >= world->waiting);
}

static void run(struct input *input) {
	static struct world world;
	struct window_change change;

	memset(&world, 0, sizeof(world));
	world.settings = window_defaults;
	world.settings.law = (enum window_law)(take(input, 1) % WINDOW_LAW_COUNT);
	world.settings.limit = (uint32_t)take(input, 1);
	window_begin(&world.window, &world.settings);
	level_begin(&world.level, world.room, ROOM);
	while (input->size > 0) {
		uint8_t kind = (uint8_t)take(input, 1);
		struct level_attempt attempt = { .accepted = (kind & 1) != 0 };

		/* The clock is our own; what a log tells is anything. */
		world.now = take_time(input, world.now);
		if (world.now < 0 || world.now > INT64_MAX / 2)
			world.now = 0;
		attempt.end_ns = take_time(input, world.now);
		attempt.start_ns = take_time(input, attempt.end_ns);
		attempt.slack_ns = level_slack(take(input, 1));
		tell_result(&world, &attempt, kind);
		if (window_canary_due(&world.window, &world.settings, world.now))
			window_canary_issued(&world.window, &world.settings, world.now);
		tell_verdicts(&world, world.now);
		window_turn(&world.window, &world.settings, kind, world.now, &change);
		MUST(window_is_sound(&world.window));
	}
	tell_verdicts(&world, INT64_MAX);
	MUST(world.waiting == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct window_feedback feedback;
	size_t text = size < 32 ? size : 32;
	struct input input = { data, size };

	for (size_t length = 0; length <= text; length++)
		if (window_feedback_parse((const char *)data, length, &feedback))
			MUST(feedback.amount >= 0 && feedback.amount <= 1);
	run(&input);
	return 0;
}

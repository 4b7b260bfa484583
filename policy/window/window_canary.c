/* SPDX-License-Identifier: ISC */
/*
 * The law probe: what goes above the ceiling.
 *
 * Model: a canary is one delivery above a full window.  As long as they are refused, they
 * go at intervals that double, or (where many deliveries are accepted meanwhile) when one
 * more refusal costs next to nothing, or little beside what a limit that has risen would
 * give: the more where deliveries are quick.  One that is accepted proves the ceiling
 * wrong: then the next goes as soon as the window is full again, and after some the
 * ceiling rises by twice as much with each, though never by more than a small part of
 * itself, until a canary, or another delivery, is refused.
 *
 * A ceiling that somebody told is not climbed over: each step waits for the interval.
 * Errors: none.  Threads: no state.
 */
#include "policy/window/window_internal.h"

/* What a climb may go too far, at most: a quarter more is refused as soon as it is tried,
 * by several places at once. */
#define CLIMB_PART	8u
/* So many accepted deliveries pay for a refused one: 0.05 %. */
#define CALM_ENOUGH	2000u
/* Accepted ones since the last canary for each place of the ceiling, times so many a second:
 * then it pays to look.  With 5 places, at 20 a second that is 320 of them, in 16 s; at 5 it is
 * 1280, in 256 s.  Never more often than one of 320: 0.3 %. */
#define BRISK_ENOUGH	256
#define BRISK_LEAST	320

static bool probes(const struct window *window, const struct window_settings *settings) {
	return settings->law == WINDOW_LAW_PROBE && window->ceiling != 0 &&
	    (settings->limit == 0 || window->ceiling < settings->limit);
}

static int64_t interval(const struct window *window, const struct window_settings *settings) {
	int64_t interval_ns = settings->canary_least_ns;
	uint32_t steps = window->canary_step;

	/* Where refusals come by chance, too, one canary proves little. */
	if (window_is_noisy(window))
		steps /= window_convinces(window, settings, WINDOW_MOST);
	for (uint32_t i = 0; i < steps && interval_ns < settings->canary_most_ns; i++)
		interval_ns *= 2;
	return interval_ns > settings->canary_most_ns ? settings->canary_most_ns : interval_ns;
}

void window_canary_wait(struct window *window, const struct window_settings *settings,
    int64_t now_ns) {
	window->canary_ns = now_ns + interval(window, settings);
	window->canary_out = 0;
	window->calm = 0;
}

void window_canary_lost(struct window *window, const struct window_settings *settings,
    int64_t now_ns) {
	window_canary_wait(window, settings, now_ns);
}

/* Were so many accepted, so quickly, since the interval began? */
static bool is_brisk(const struct window *window, const struct window_settings *settings,
    int64_t now_ns) {
	int64_t since_ns = now_ns - (window->canary_ns - interval(window, settings));
	int64_t calm = window->calm, enough = (int64_t)window->ceiling * window->ceiling *
	    BRISK_ENOUGH;

	return calm >= BRISK_LEAST && since_ns >= settings->canary_least_ns &&
	    calm * calm >= since_ns / (SECOND / 1000) * enough / 1000;
}

void window_canary_calm(struct window *window, const struct window_settings *settings,
    int64_t now_ns) {
	/* the first interval is short enough, and tells when the ceiling was found */
	if (window->ceiling == 0 || window->told || window->slow_ceiling || window->canary_out ||
	    window->canary_step == 0 || window->canary_ns <= now_ns)
		return;
	if (++window->calm < CALM_ENOUGH && !is_brisk(window, settings, now_ns))
		return;
	window->calm = 0;
	window->canary_ns = now_ns;
}

void window_raise_ceiling(struct window *window, const struct window_settings *settings,
    uint32_t ceiling, int64_t now_ns) {
	bool was_full = window->concurrency >= window->ceiling;

	window->refused_run = 0;
	window->ceiling = (uint16_t)(ceiling < WINDOW_MOST ? ceiling : WINDOW_MOST);
	if (was_full)
		window_set(window, settings, window->ceiling);
	window->canary_step = 0;
	window_canary_wait(window, settings, now_ns);
}

/* --- climbing ---------------------------------------------------------------------- */

/* By how much the ceiling rose, or rises, with the canary that made `climb` what it is:
 * 1, 1, 2, 4 ... */
static uint32_t climb_step(const struct window *window, uint32_t ceiling) {
	uint32_t step = window->climb < 2 ? 1 : UINT32_C(1) << (window->climb - 2);
	uint32_t most = ceiling / CLIMB_PART;

	return step <= most ? step : most > 0 ? most : 1;
}

static void climb(struct window *window, const struct window_settings *settings,
    int64_t now_ns) {
	uint32_t ceiling = window->ceiling;

	if (window->climb < CLIMB_MOST)
		window->climb++;
	ceiling += climb_step(window, ceiling);
	if (settings->limit != 0 && ceiling > settings->limit)
		ceiling = settings->limit;
	window_raise_ceiling(window, settings, ceiling, now_ns);
	window->canary_ns = now_ns;
	window->weak = 0;
}

uint32_t window_climbed_from(const struct window *window) {
	uint32_t accepted = window_accepted(window), from;

	if (window->climb == 0 || accepted >= window->ceiling)
		return 0;
	/* The step may be that of the ceiling now: no matter. */
	from = window->ceiling - climb_step(window, window->ceiling);
	return accepted > from ? accepted : from;
}

void window_canary_result(struct window *window, const struct window_settings *settings,
    enum window_feedback_sign sign, uint32_t level, int64_t now_ns) {
	uint32_t proven = window->ceiling + 1u;
	bool weak = window->weak;

	if (sign == SIGN_NEGATIVE) {
		if (window->climb == 0 && window->canary_step < CANARY_STEP_MOST)
			window->canary_step++;
		window->climb = 0;
		window_canary_wait(window, settings, now_ns);
		return;
	}
	window->fail_cohorts = 0;
	if (window->told)
		window_raise_ceiling(window, settings, proven, now_ns);
	else
		climb(window, settings, now_ns);
	/* One whose level nobody knows may have found room. */
	if (level != 0)
		window_note_accepted(window, proven);
	/* Where refusals come by chance, too, chance may have found this ceiling. */
	if (window_is_noisy(window) && weak && !window->told)
		window->ceiling = 0;
}

/* --- who may go ---------------------------------------------------------------------- */

bool window_canary_due(const struct window *window, const struct window_settings *settings,
    int64_t now_ns) {
	return probes(window, settings) && !window->canary_out &&
	    window->state == WINDOW_LIMITED &&
	    window->concurrency >= window->ceiling && now_ns >= window->canary_ns;
}

void window_canary_issued(struct window *window, const struct window_settings *settings,
    int64_t give_up_ns) {
	(void)settings;
	window->canary_out = 1;
	window->canary_ns = give_up_ns;
}

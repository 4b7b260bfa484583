/* SPDX-License-Identifier: ISC */
/*
 * The law probe: remembers the ceiling that it hit.
 *
 * Model: a limiter that accepts k deliveries refuses every attempt at level k+1 or
 * above, a bad server behind a balancer refuses some at any level.  So a refusal is
 * believed at once where nothing speaks against it, and otherwise only when it is one
 * of several in a row.  Above the ceiling goes one canary at a time, at intervals that
 * double as long as they are refused.
 *
 * "In a row" is by the order of starts, though acceptances are heard of only when they
 * end: a refusal's level is that of the one before it, less those that have ended, plus
 * those that were accepted meanwhile; so a higher level than `run_level`, which goes
 * down by one with each that ends, tells of an acceptance in between.
 *
 * A failure whose level is not known leaves the ceiling alone, but lowers the window as
 * 1/concurrency would, until its level is known: else a limiter that is found out late
 * (from a log) would refuse so many meanwhile that the site seems dead.
 * Errors: none.  Threads: no state.
 */
#include "policy/window_laws.h"

static bool probes(const struct window *window, const struct window_settings *settings)
{
	return settings->law == WINDOW_LAW_PROBE && window->ceiling != 0 &&
	    (settings->limit == 0 || window->ceiling < settings->limit);
}

/* --- what was accepted of late ----------------------------------------------- */

static void turn_accepted(struct window *window, const struct window_settings *settings,
    int64_t now_ns)
{
	int64_t length_ns = settings->believe_ns / 2 > 0 ? settings->believe_ns / 2 : 1;
	uint32_t span = (uint32_t)(now_ns / length_ns);

	uint32_t steps = span - window->accepted_span;

	for (uint32_t i = 0; i < steps && i < 3; i++) {
		window->accepted[2] = window->accepted[1];
		window->accepted[1] = window->accepted[0];
		window->accepted[0] = 0;
	}
	window->accepted_span = span;
}

static void note_accepted(struct window *window, uint32_t level)
{
	if (level > window->accepted[0])
		window->accepted[0] = (uint16_t)(level < WINDOW_MOST ? level : WINDOW_MOST);
}

static uint32_t highest_accepted(const struct window *window)
{
	uint32_t highest = 0;

	for (int i = 0; i < 3; i++)
		if (window->accepted[i] > highest)
			highest = window->accepted[i];
	return highest;
}

/* --- the ceiling -------------------------------------------------------------- */

void window_canary_wait(struct window *window, const struct window_settings *settings,
    int64_t now_ns)
{
	int64_t interval_ns = settings->canary_least_ns;

	for (uint32_t i = 0; i < window->canary_step &&
	     interval_ns < settings->canary_most_ns; i++)
		interval_ns *= 2;
	if (interval_ns > settings->canary_most_ns)
		interval_ns = settings->canary_most_ns;
	window->canary_ns = now_ns + interval_ns;
	window->canary_out = 0;
}

void window_canary_lost(struct window *window, const struct window_settings *settings,
    int64_t now_ns)
{
	window_canary_wait(window, settings, now_ns);
}

static void lower_ceiling(struct window *window, const struct window_settings *settings,
    uint32_t ceiling, int64_t now_ns)
{
	window->ceiling = (uint16_t)(ceiling < WINDOW_MOST ? ceiling : WINDOW_MOST);
	window->told = 0;
	for (int i = 0; i < 3; i++)
		if (window->accepted[i] > ceiling)
			window->accepted[i] = window->ceiling;
	window_set(window, settings, window->concurrency);
	window->canary_step = 0;
	window_canary_wait(window, settings, now_ns);
}

/* A refusal at a level that the ceiling does not explain.  True: it was believed. */
static bool hear_refusal(struct window *window, const struct window_settings *settings,
    uint32_t level, int64_t now_ns)
{
	/* The only delivery there is: that is no matter of concurrency. */
	if (level < 2)
		return false;
	if (window->refused_run < UINT8_MAX)
		window->refused_run++;
	if (highest_accepted(window) >= level &&
	    window->refused_run < settings->believe_run)
		return false;
	lower_ceiling(window, settings, level - 1, now_ns);
	return true;
}

static bool is_explained(const struct window *window, uint32_t level)
{
	return window->ceiling != 0 && level > window->ceiling;
}

/* --- results ------------------------------------------------------------------- */

static void grow(struct window *window, const struct window_settings *settings,
    uint32_t busy)
{
	double part = 1.0 / window->concurrency;

	if (window->concurrency >= window_most(window, settings) ||
	    window->concurrency >= busy + settings->initial)
		return;
	window->success += part;
	if (window->success + part / 2 >= 1) {
		window_set(window, settings, window->concurrency + 1u);
		window->success -= 1;
		window->failure = 0;
	}
}

static void suspect(struct window *window, const struct window_settings *settings)
{
	double part = 1.0 / window->concurrency;

	window->failure -= part;
	if (window->failure - part / 2 < 0) {
		if (window->concurrency > 1 && window->lowered < UINT8_MAX)
			window->lowered++;
		window_set(window, settings, window->concurrency - 1u);
		window->failure += 1;
		window->success = 0;
	}
}

static void count_failure(struct window *window, const struct window_settings *settings,
    int64_t now_ns, struct window_change *change)
{
	if (!window_counts_failure(window, settings))
		return;
	/* What was found in the last hours of a site tells little about its next
	 * life, and a ceiling that is too low takes long to get over. */
	if (!window->told) {
		window->ceiling = 0;
		for (int i = 0; i < 3; i++)
			window->accepted[i] = 0;
	}
	window->refused_run = 0;
	window_die(window, settings, now_ns, change);
}

static void hear_canary(struct window *window, const struct window_settings *settings,
    enum window_feedback_sign sign, int64_t now_ns)
{
	if (sign == SIGN_NEGATIVE) {
		if (window->canary_step < CANARY_STEP_MOST)
			window->canary_step++;
		window_canary_wait(window, settings, now_ns);
		return;
	}
	window->fail_cohorts = 0;
	window->refused_run = 0;
	window->told = 0;
	if (window->ceiling < WINDOW_MOST)
		window->ceiling++;
	note_accepted(window, window->ceiling);
	if (window->concurrency + 1u == window->ceiling)
		window_set(window, settings, window->ceiling);
	window->canary_step = 0;
	window_canary_wait(window, settings, now_ns);
}

static void hear_success(struct window *window, const struct window_settings *settings,
    const struct window_result *result)
{
	window->fail_cohorts = 0;
	if (result->level != 0) {
		note_accepted(window, result->level);
		if (window->run_level > 0)
			window->run_level--;
	}
	grow(window, settings, result->in_flight + 1);
}

static void hear_failure(struct window *window, const struct window_settings *settings,
    const struct window_result *result, int64_t now_ns, struct window_change *change)
{
	uint32_t level = result->level;

	if (level == 0) {
		suspect(window, settings);
	} else {
		if (is_explained(window, level))
			return;
		if (level > window->run_level)
			window->refused_run = 0;
		window->run_level = (uint16_t)(level < WINDOW_MOST ? level : WINDOW_MOST);
		if (hear_refusal(window, settings, level, now_ns))
			return;
	}
	count_failure(window, settings, now_ns, change);
}

void window_probe_result(struct window *window, const struct window_settings *settings,
    const struct window_result *result, enum window_feedback_sign sign,
    int64_t now_ns, struct window_change *change)
{
	turn_accepted(window, settings, now_ns);
	if (result->canary) {
		bool awaited = window->canary_out && window->ceiling != 0;

		if (result->level == 0 || is_explained(window, result->level)) {
			/* One that was given up proves no more than that it is late. */
			if (awaited)
				hear_canary(window, settings, sign, now_ns);
			return;
		}
		/* It found the window not full: it is one like any other. */
		if (awaited) {
			window->canary_out = 0;
			window->canary_ns = now_ns + settings->canary_least_ns;
		}
	}
	if (sign == SIGN_POSITIVE)
		hear_success(window, settings, result);
	else
		hear_failure(window, settings, result, now_ns, change);
}

void window_probe_late(struct window *window, const struct window_settings *settings,
    enum window_feedback_sign sign, uint32_t level, int64_t now_ns)
{
	turn_accepted(window, settings, now_ns);
	if (sign == SIGN_POSITIVE) {
		if (level == 0)
			return;
		note_accepted(window, level);
		/* Levels out of a log are rounded. */
		if (level + window->run_level / 8u >= window->run_level)
			window->refused_run = 0;
		return;
	}
	if (level != 0 && !is_explained(window, level)) {
		if (window->refused_run == 0 || level < window->run_level)
			window->run_level =
			    (uint16_t)(level < WINDOW_MOST ? level : WINDOW_MOST);
		if (!hear_refusal(window, settings, level, now_ns) && window->lowered > 0)
			window_set(window, settings, window->concurrency + 1u);
	}
	if (window->lowered > 0)
		window->lowered--;
}

bool window_canary_due(const struct window *window, const struct window_settings *settings,
    int64_t now_ns)
{
	return probes(window, settings) && !window->canary_out &&
	    (window->state == WINDOW_LIMITED || window->state == WINDOW_OPEN) &&
	    window->concurrency >= window->ceiling && now_ns >= window->canary_ns;
}

void window_canary_issued(struct window *window, const struct window_settings *settings,
    int64_t give_up_ns)
{
	(void)settings;
	window->canary_out = 1;
	window->canary_ns = give_up_ns;
}

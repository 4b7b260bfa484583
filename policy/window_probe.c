/* SPDX-License-Identifier: ISC */
/*
 * The law probe: remembers the ceiling that it hit.
 *
 * Model: a limiter that accepts k deliveries refuses every attempt at level k+1 or
 * above, a bad server behind a balancer refuses some at any level.  So a refusal is
 * believed at once where nothing speaks against it, and otherwise only when it is one
 * of several in a row; of more, the larger the share of refusals that meant nothing was
 * of late.  Above the ceiling goes one canary at a time, at intervals that double as
 * long as they are refused.
 *
 * "In a row" is by the order of starts, though acceptances are heard of only when they
 * end: a refusal's level is that of the one before it, less those that have ended, plus
 * those that were accepted meanwhile; so a higher level than that tells of an acceptance
 * in between.
 *
 * A failure whose level is not known leaves the ceiling alone, but lowers the window as
 * 1/concurrency would, until its level is known: else a limiter that is found out late
 * (from a log) would refuse so many meanwhile that the site seems dead.
 * Errors: none.  Threads: no state.
 */
#include "policy/window_laws.h"

#define RUN_MOST	16u
#define DOUBT		(1.0 / 1024)	/* a chance that is not believed in */
#define DOUBT_FRESH	(1.0 / 64)	/* the same where nothing speaks against it */

static bool probes(const struct window *window, const struct window_settings *settings)
{
	return settings->law == WINDOW_LAW_PROBE && window->ceiling != 0 &&
	    (settings->limit == 0 || window->ceiling < settings->limit);
}

/* --- what was accepted of late ----------------------------------------------- */

static void turn_accepted(struct window *window, const struct window_settings *settings,
    int64_t now_ns)
{
	int64_t length_ns = settings->believe_ns > 0 ? settings->believe_ns : 1;
	uint32_t span = (uint32_t)(now_ns / length_ns) & UINT16_MAX;

	if (window->accepted_span == span)
		return;
	window->accepted[1] = ((window->accepted_span + 1u) & UINT16_MAX) == span ?
	    window->accepted[0] : 0;
	window->accepted[0] = 0;
	window->accepted_span = (uint16_t)span;
}

static void note_accepted(struct window *window, uint32_t level)
{
	if (level > window->accepted[0])
		window->accepted[0] = (uint16_t)(level < WINDOW_MOST ? level : WINDOW_MOST);
}

static uint32_t highest_accepted(const struct window *window)
{
	return window->accepted[0] > window->accepted[1] ? window->accepted[0] :
	    window->accepted[1];
}

/* --- the ceiling -------------------------------------------------------------- */

/* How many refusals in a row are likelier a limiter than chance. */
static uint32_t run_that_convinces(const struct window *window,
    const struct window_settings *settings, uint32_t level)
{
	double noise = window->noise / 65536.0, chance = noise;
	bool contradicted = highest_accepted(window) >= level;
	uint32_t run = 1;

	for (; run < RUN_MOST && chance > (contradicted ? DOUBT : DOUBT_FRESH); run++)
		chance *= noise;
	return contradicted && run < settings->believe_run ? settings->believe_run : run;
}

static bool is_noisy(const struct window *window)
{
	return window->noise / 65536.0 > DOUBT_FRESH;
}

void window_canary_wait(struct window *window, const struct window_settings *settings,
    int64_t now_ns)
{
	int64_t interval_ns = settings->canary_least_ns;
	uint32_t steps = window->canary_step;

	/* Where refusals come by chance, too, one canary proves little. */
	if (is_noisy(window))
		steps /= run_that_convinces(window, settings, WINDOW_MOST);
	for (uint32_t i = 0; i < steps && interval_ns < settings->canary_most_ns; i++)
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
    uint32_t ceiling, int64_t since_ns)
{
	window->ceiling = (uint16_t)(ceiling < WINDOW_MOST ? ceiling : WINDOW_MOST);
	window->told = 0;
	window->weak = window->refused_run < settings->believe_run ? 1 : 0;
	for (int i = 0; i < 2; i++)
		if (window->accepted[i] > ceiling)
			window->accepted[i] = window->ceiling;
	window_set(window, settings, window->concurrency);
	window->canary_step = 0;
	window_canary_wait(window, settings, since_ns);
}

/* The row of refusals meant nothing, as others were accepted at its level meanwhile; but
 * one that convinced may have ended only with what it told of. */
static void break_run(struct window *window, const struct window_settings *settings)
{
	uint32_t refusals = window->refused_run < settings->believe_run ?
	    window->refused_run : 1;

	for (uint32_t i = 0; i < refusals; i++)
		window->noise = (uint16_t)(window->noise + (65535 - window->noise) / 16);
	window->refused_run = 0;
	/* A ceiling that rests on less than would convince now. */
	if (refusals > 0 && is_noisy(window) && window->weak && window->canary_step == 0)
		window->ceiling = 0;
}

/* A refusal that the ceiling does not explain.  True: it was believed. */
static bool hear_refusal(struct window *window, const struct window_settings *settings,
    uint32_t level, int64_t since_ns)
{
	/* The only delivery there is: that is no matter of concurrency. */
	if (level < 2)
		return false;
	if (window->refused_run < RUN_MOST)
		window->refused_run++;
	if (window->refused_run < run_that_convinces(window, settings, level))
		return false;
	lower_ceiling(window, settings, level - 1, since_ns);
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

/* One more of the cohort.  True: it died. */
static bool count_failure(struct window *window, const struct window_settings *settings,
    int64_t now_ns, struct window_change *change)
{
	if (!window_counts_failure(window, settings))
		return false;
	/* What was found in the last hours of a site tells little about its next
	 * life, and a ceiling that is too low takes long to get over. */
	if (!window->told) {
		window->ceiling = 0;
		for (int i = 0; i < 2; i++)
			window->accepted[i] = 0;
	}
	window->refused_run = 0;
	window_die(window, settings, now_ns, change);
	return true;
}

static void raise_ceiling(struct window *window, const struct window_settings *settings,
    uint32_t ceiling, int64_t now_ns)
{
	bool was_full = window->concurrency >= window->ceiling;

	window->refused_run = 0;
	window->told = 0;
	window->ceiling = (uint16_t)(ceiling < WINDOW_MOST ? ceiling : WINDOW_MOST);
	note_accepted(window, window->ceiling);
	if (was_full)
		window_set(window, settings, window->ceiling);
	window->canary_step = 0;
	window_canary_wait(window, settings, now_ns);
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
	raise_ceiling(window, settings, window->ceiling + 1u, now_ns);
	/* Where refusals come by chance, too, it was chance that found this ceiling. */
	if (is_noisy(window))
		window->ceiling = 0;
}

/* Accepted above a ceiling that was found from an attempt that started before it (1), or
 * after it (-1); 0: neither, or who knows. */
static int contradicts(const struct window *window,
    const struct window_settings *settings, const struct window_result *result)
{
	if (!is_explained(window, result->level) || window->told || window->canary_out ||
	    window->canary_step != 0 || result->start_ns == 0)
		return 0;
	return result->start_ns >= window->canary_ns - settings->canary_least_ns ? 1 : -1;
}

/* --- in a row ------------------------------------------------------------------- */

/* Time in 10 ms, in a circle of 11 minutes. */
static uint16_t tick(int64_t time_ns)
{
	return (uint16_t)(time_ns / (SECOND / 100));
}

static bool is_before(uint16_t a, uint16_t b)
{
	return (uint16_t)(a - b) > INT16_MAX;
}

/* A refusal of this level joins the row, or begins a new one. */
static void join_run(struct window *window, const struct window_settings *settings,
    uint32_t level, int64_t start_ns, int64_t now_ns)
{
	uint16_t start = tick(start_ns), now = tick(now_ns);
	uint32_t ended = window->run_ended, length = (uint16_t)(now - window->run_last);
	/* Those that ended before this one started, if they came evenly. */
	uint32_t before = is_before(start, window->run_last) || length == 0 ? 0 :
	    ended * (uint16_t)(start - window->run_last) / length;

	if (!is_before(start, window->run_last) &&
	    level + before > window->run_level)
		break_run(window, settings);
	if (window->refused_run == 0) {
		window->run_first = now;
		window->run_level = (uint16_t)(level < WINDOW_MOST ? level : WINDOW_MOST);
	} else {
		uint32_t left = window->run_level;

		left -= ended < left ? ended : left;
		window->run_level = (uint16_t)(level < left ? level : left);
	}
	window->run_last = now;
	window->run_ended = 0;
}

/* A delivery has ended: it began after a refusal of the row, which so is none, or
 * makes room. */
static void leave_run(struct window *window, const struct window_settings *settings,
    const struct window_result *result)
{
	if (window->refused_run == 0)
		return;
	if (result->start_ns != 0 && result->level >= window->run_level &&
	    !is_before(tick(result->start_ns), window->run_first))
		break_run(window, settings);
	else if (window->run_ended < UINT8_MAX)
		window->run_ended++;
}

static void hear_success(struct window *window, const struct window_settings *settings,
    const struct window_result *result, int64_t now_ns)
{
	window->fail_cohorts = 0;
	window->noise = (uint16_t)(window->noise - window->noise / 16);
	if (result->level != 0) {
		int sign = contradicts(window, settings, result);

		if (sign >= 0)
			note_accepted(window, result->level);
		leave_run(window, settings, result);
		if (sign > 0) {
			if (window->refused_run == 0)
				window->refused_run = 1;
			break_run(window, settings);
			if (window->ceiling != 0)
				raise_ceiling(window, settings, result->level, now_ns);
		}
	}
	grow(window, settings, result->in_flight + 1);
}

static void hear_failure(struct window *window, const struct window_settings *settings,
    const struct window_result *result, int64_t now_ns, struct window_change *change)
{
	int64_t start_ns = result->start_ns != 0 ? result->start_ns : now_ns;
	uint32_t level = result->level;

	if (level == 0) {
		if (!count_failure(window, settings, now_ns, change))
			suspect(window, settings);
		return;
	}
	if (is_explained(window, level))
		return;
	join_run(window, settings, level, start_ns, now_ns);
	if (!hear_refusal(window, settings, level, start_ns))
		(void)count_failure(window, settings, now_ns, change);
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
		hear_success(window, settings, result, now_ns);
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
		if (level >= window->run_level)
			break_run(window, settings);
		/* Levels out of a log are rounded: enough for a doubt. */
		else if (level + window->run_level / 8u >= window->run_level)
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
	    window->state == WINDOW_LIMITED &&
	    window->concurrency >= window->ceiling && now_ns >= window->canary_ns;
}

void window_canary_issued(struct window *window, const struct window_settings *settings,
    int64_t give_up_ns)
{
	(void)settings;
	window->canary_out = 1;
	window->canary_ns = give_up_ns;
}

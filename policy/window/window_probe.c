/* SPDX-License-Identifier: ISC */
/*
 * The law probe: remembers the ceiling that it hit.
 *
 * Model: a limiter that accepts k deliveries refuses every attempt at level k+1 or
 * above, a bad server behind a balancer refuses some at any level.  So a refusal is
 * believed at once where nothing speaks against it, and otherwise only when it is one
 * of several in a row; of more, the larger the share of refusals that meant nothing was
 * of late.  Above the ceiling goes one canary at a time, at intervals that double as
 * long as they are refused (window_canary.c).
 *
 * "In a row" is by the order of starts, though an acceptance is heard of only when it
 * ends.  Two things tell of those in between.  Quick refusals: their levels, as each is
 * that of the first, less those that have ended since, plus those that were accepted.
 * Slow ones: deliveries that began after the first of the row and have ended; one of such
 * a level breaks the row, and some of lower levels confirm it.
 *
 * Where many refusals mean nothing the window goes down by twice what an accepted delivery
 * adds, and so stays where a third of them is refused: of several servers behind a balancer,
 * where the good ones are nearly full.  Not below the initial window: less would not help.
 *
 * Until a failure is believed, or its level is known (a log tells that late), it takes one
 * from the window: a limiter that fell refuses many meanwhile.  When the ceiling is found
 * the window is that; a chance failure's level, known late, gives its one back.  Not so
 * where failures are often chance.  Nor where as many are in flight as a ceiling says that
 * was found or told of late: lanes that are too wide now, and drain, try more.  As long as
 * others are accepted, many failures say that a site is full, not dead.
 *
 * A log tells of those only when they have ended, and of a refusal at once: of a burst to a
 * site that takes 3 the first news are refusals, one for each message that the mail server
 * puts into a place that was refused before.  None of these obeys a window that has fallen
 * meanwhile.  So what was given to the mail server before the first of them was heard is one
 * flight, and as the site answers, it counts once.  No answer is no such refusal.
 * Errors: none.  Threads: no state.
 */
#include "policy/window/window_internal.h"

#define RUN_MOST	16u
#define BELOW_ENOUGH	4u
#define LOWERED_MOST	15u
#define QUICK_NS	(SECOND / 4)
#define AGE_TICKS	50u		/* 1 s */
#define OLD_TICKS	15000u		/* 300 s */
#define FRESH_STEPS	2u		/* a ceiling that so few canaries have tried is new */
#define TOLD_NS		(2 * SECOND / 5)	/* a mail server hears of a window so much later */
#define OBEY_NS		SECOND		/* and has what it was given start for so long */
#define ALIVE		(1.0 / 32)	/* of a failure, where others are accepted */
#define DOUBT		(1.0 / 131072)	/* a chance that is not believed in: an hour has thousands of rows */
#define DOUBT_FRESH	(1.0 / 64)	/* the same where nothing speaks against it */
#define NOISE_COST	2.0	/* accepted deliveries that one refused by chance takes back */

/* Time in 20 ms, in a circle of 22 minutes. */
static uint16_t tick(int64_t time_ns) {
	return (uint16_t)(time_ns / (SECOND / 50));
}

static bool is_before(uint16_t a, uint16_t b) {
	return (uint16_t)(a - b) > INT16_MAX;
}

/* --- what was accepted of late ----------------------------------------------- */

static void turn_accepted(struct window *window, const struct window_settings *settings,
    int64_t now_ns) {
	int64_t length_ns = settings->believe_ns > 0 ? settings->believe_ns : 1;
	uint32_t span = (uint32_t)(now_ns / length_ns) & UINT8_MAX;
	bool next = ((window->accepted_span + 1u) & UINT8_MAX) == span;

	/* One of two logs may be behind. */
	if (window->accepted_span == span || window->accepted_span == ((span + 1) & UINT8_MAX))
		return;
	window->accepted[1] = next ? window->accepted[0] : 0;
	window->accepted[0] = 0;
	window->accepted_span = (uint8_t)span;
	/* a canary above a slow ceiling is compared with it */
	if (!next && !window->slow_ceiling)
		window_slow_forget(window);
	if (!next || window->refused_run == 0 ||
	    (uint16_t)(tick(now_ns) - window->run_first) > OLD_TICKS) {
		window->refused_run = 0;
		window->run_level = 0;
	}
}

void window_note_accepted(struct window *window, uint32_t level) {
	if (level > window->accepted[0])
		window->accepted[0] = (uint16_t)(level < WINDOW_MOST ? level : WINDOW_MOST);
}

uint32_t window_accepted(const struct window *window) {
	return window->accepted[0] > window->accepted[1] ? window->accepted[0] :
	    window->accepted[1];
}

/* --- the ceiling -------------------------------------------------------------- */

uint32_t window_proven(const struct window *window, const struct window_settings *settings) {
	uint32_t accepted = window_accepted(window);

	if (settings->law != WINDOW_LAW_PROBE || window->ceiling != 0)
		return 0;
	return accepted > settings->initial ? accepted : settings->initial;
}

/* How many refusals in a row are likelier a limiter than chance. */
uint32_t window_convinces(const struct window *window, const struct window_settings *settings,
    uint32_t level) {
	double noise = window->noise / 65536.0, chance = noise;
	bool contradicted = window_accepted(window) >= level;
	uint32_t run = 1;

	for (; run < RUN_MOST && chance > (contradicted ? DOUBT : DOUBT_FRESH); run++)
		chance *= noise;
	return contradicted && run < settings->believe_refusals ? settings->believe_refusals : run;
}

bool window_is_noisy(const struct window *window) {
	return window->noise / 65536.0 > DOUBT_FRESH;
}

void window_lower_ceiling(struct window *window, const struct window_settings *settings,
    uint32_t ceiling, int64_t since_ns) {
	window->ceiling = (uint16_t)(ceiling < WINDOW_MOST ? ceiling : WINDOW_MOST);
	window->told = 0;
	window->slow_ceiling = 0;
	window->weak = window->refused_run < settings->believe_refusals ? 1 : 0;
	for (int i = 0; i < 2; i++)
		if (window->accepted[i] > ceiling)
			window->accepted[i] = window->ceiling;
	window_set(window, settings, window->concurrency);
	window->canary_step = 0;
	window->climb = 0;
	window_canary_wait(window, settings, since_ns);
}

/* So many refusals meant nothing. */
static void note_noise(struct window *window, uint32_t refusals) {
	for (uint32_t i = 0; i < refusals; i++)
		window->noise = (uint16_t)(window->noise + (65535 - window->noise) / 16);
	/* A ceiling that rests on less than would convince now. */
	if (refusals > 0 && window_is_noisy(window) && window->weak && window->canary_step == 0)
		window->ceiling = 0;
}

/* So did the row, as others were accepted at its level meanwhile; but one that convinced
 * may have ended only with what it told of. */
static void break_run(struct window *window) {
	note_noise(window, window->convinced ? 1 : window->refused_run);
	window->refused_run = 0;
	window->convinced = 0;
}

/* Do so many refusals stand, with few deliveries accepted among them?  Their levels tell
 * soon how many were, if refusals are quick; else it takes until deliveries that began
 * after the first have ended, and none was of such a level. */
static bool is_row(const struct window *window, uint32_t level, int64_t took_ns) {
	uint32_t run = window->refused_run, accepted = level + window->run_ended;
	/* Those accepted may have been of lower levels. */
	uint32_t few = window_accepted(window) < level ? (run - 1) / 2 : run / 4;

	accepted -= window->run_from < accepted ? window->run_from : accepted;
	return (took_ns <= QUICK_NS && accepted <= few) ||
	    window->run_below >= BELOW_ENOUGH;
}

/* A refusal that the ceiling does not explain.  True: it was believed. */
static bool hear_refusal(struct window *window, const struct window_settings *settings,
    uint32_t level, int64_t start_ns, int64_t now_ns) {
	uint32_t wanted = window_convinces(window, settings, level);

	if (window->refused_run < RUN_MOST)
		window->refused_run++;
	if (window->refused_run < wanted ||
	    (wanted > 1 && !is_row(window, level, now_ns - start_ns)))
		return false;
	window_lower_ceiling(window, settings, level - 1, start_ns);
	/* That many were accepted; some may have been taken from it on suspicion. */
	window_set(window, settings, window->ceiling);
	window->lowered = 0;
	window->convinced = 1;
	return true;
}

static bool is_explained(const struct window *window, uint32_t level) {
	return window->ceiling != 0 && level > window->ceiling;
}

/* --- results ------------------------------------------------------------------- */

static void grow(struct window *window, const struct window_settings *settings,
    uint32_t busy) {
	double part = 1.0 / window->concurrency;
	uint32_t ahead = window_is_noisy(window) ? 1 : settings->initial;

	if (window->concurrency >= window_most(window, settings) ||
	    window->concurrency >= busy + ahead)
		return;
	window->success = (float)(window->success + part);
	if (window->success + part / 2 >= 1) {
		window_set(window, settings, window->concurrency + 1u);
		window->success -= 1;
		window->failure = 0;
	}
}

/* A refusal that is taken for noise, above the initial window. */
static void lean_back(struct window *window, const struct window_settings *settings) {
	window->success = (float)(window->success - NOISE_COST / window->concurrency);
	if (window->success > -1)
		return;
	window->success += 1;
	window_set(window, settings, window->concurrency - 1u);
}

static void suspect(struct window *window, const struct window_settings *settings) {
	bool fast = 2u * window->concurrency > window->lowered && !window_is_noisy(window);
	double part = fast ? 1 : 1.0 / window->concurrency;

	window->failure = (float)(window->failure - part);
	if (window->failure - part / 2 < 0) {
		if (window->concurrency > 1 && window->lowered < LOWERED_MOST)
			window->lowered++;
		window_set(window, settings, window->concurrency - 1u);
		window->failure += 1;
		window->success = 0;
	}
}

/* One more of the cohort, or a part of one.  True: it died. */
static bool count_failure(struct window *window, const struct window_settings *settings,
    double weight, int64_t now_ns, struct window_change *change) {
	if (!window_counts_failure(window, settings, weight))
		return false;
	/* What was found in the last hours of a site tells little about its next
	 * life, and a ceiling that is too low takes long to get over. */
	if (!window->told) {
		window->ceiling = 0;
		for (int i = 0; i < 2; i++)
			window->accepted[i] = 0;
	}
	window->refused_run = 0;
	window->noise = 0;
	window_die(window, settings, now_ns, change);
	return true;
}

/* Accepted above a ceiling that was found from an attempt that started before it (1), or
 * after it (-1); 0: neither, or who knows. */
static int contradicts(const struct window *window,
    const struct window_settings *settings, const struct window_result *result) {
	if (!is_explained(window, result->level) || window->told || window->canary_out ||
	    window->canary_step != 0 || window->climb != 0 || result->start_ns == 0)
		return 0;
	return result->start_ns >= window->canary_ns - settings->canary_least_ns ? 1 : -1;
}

/* --- in a row ------------------------------------------------------------------- */

static void begin_run(struct window *window, uint32_t level, int64_t start_ns) {
	window->run_level = (uint16_t)(level < WINDOW_MOST ? level : WINDOW_MOST);
	window->run_first = tick(start_ns);
	window->run_from = window->run_level;
	window->run_ended = window->run_below = window->convinced = 0;
}

/* A refusal of this level joins the row, or begins one.  False: a delivery of its level
 * that began after it has ended already, so it means nothing. */
static bool join_run(struct window *window, uint32_t level, int64_t start_ns) {
	if (window->refused_run > 0) {
		if (level < window->run_level) {
			/* What was below the others may not be below this one. */
			window->run_level = (uint16_t)level;
			window->run_below = 0;
		}
		return true;
	}
	if (level <= window->run_level && !is_before(window->run_first, tick(start_ns))) {
		window->refused_run = 1;
		break_run(window);
		return false;
	}
	begin_run(window, level, start_ns);
	return true;
}

/* A delivery has ended: one that began after the row shows that it is none, or is a
 * witness for it; and each makes room. */
static void leave_run(struct window *window, const struct window_result *result) {
	bool known = result->start_ns != 0;
	uint16_t start = tick(result->start_ns);

	if (window->refused_run > 0) {
		if (window->run_ended < UINT8_MAX)
			window->run_ended++;
		if (!known || is_before(start, window->run_first))
			return;
		if (result->level < window->run_level) {
			if (window->run_below < BELOW_ENOUGH)
				window->run_below++;
			return;
		}
		break_run(window);
		begin_run(window, result->level, result->start_ns);
	} else if (known && (result->level >= window->run_level ||
	    is_before((uint16_t)(window->run_first + AGE_TICKS), start))) {
		/* While there is no row: a delivery of a high level, of late. */
		begin_run(window, result->level, result->start_ns);
	}
}

static void hear_success(struct window *window, const struct window_settings *settings,
    const struct window_result *result, int64_t now_ns) {
	window->fail_cohorts = 0;
	window->noise = (uint16_t)(window->noise - window->noise / 16);
	window_canary_calm(window, settings, now_ns);
	if (result->level != 0 && result->class == RESULT_OK)
		window_slow_hear(window, settings, result->level, result->start_ns,
		    result->took_ns, now_ns);
	if (result->level != 0 &&
	    !window_slow_confirms(window, result->level, result->took_ns)) {
		int sign = contradicts(window, settings, result);

		if (sign >= 0)
			window_note_accepted(window, result->level);
		leave_run(window, result);
		if (sign > 0) {
			if (window->refused_run == 0)
				window->refused_run = 1;
			break_run(window);
			window_raise_ceiling(window, settings, result->level, now_ns);
			if (window_is_noisy(window))
				window->ceiling = 0;
		}
	}
	grow(window, settings, result->in_flight + 1);
}

/* Of the flight whose first no was heard before: it was given to the mail server when that had
 * not been told, and could not be called back.  What starts long after that is of another. */
static bool is_of_flight(const struct window *window, const struct window_result *result) {
	return result->answered && result->start_ns != 0 && window->flight_ns != 0 &&
	    result->given_ns - TOLD_NS <= window->flight_ns &&
	    result->start_ns - OBEY_NS <= window->flight_ns;
}

/* What one counts for of which no level is known. */
static double weigh(struct window *window, const struct window_result *result, int64_t now_ns) {
	if (result->in_flight > 0)
		return ALIVE;
	if (is_of_flight(window, result))
		return 0;
	if (result->answered)
		window->flight_ns = now_ns;
	return 1;
}

/* Of which no level is known: what is in flight was accepted some time ago. */
static void hear_blind_failure(struct window *window, const struct window_settings *settings,
    const struct window_result *result, int64_t now_ns, struct window_change *change) {
	uint32_t in_flight = result->in_flight;
	bool fresh = window->told || (window->climb == 0 && window->canary_step <= FRESH_STEPS);
	/* A log may know of one less than there are. */
	bool nearly = (window->told || window->canary_step == 0) && window->ceiling > 3;

	/* As many as the ceiling lets in are there: more than it were tried. */
	if (fresh && is_explained(window, in_flight + 1 + nearly))
		return;
	if (window_climbed_from(window) != 0) {
		window_lower_ceiling(window, settings, window_climbed_from(window), now_ns);
		window->weak = 0;	/* it stood before */
		return;
	}
	/* Who told of the ceiling knows that the site lives, and about how well. */
	if (window->told && in_flight > 0) {
		if (window->concurrency > (window->ceiling + 1u) / 2)
			suspect(window, settings);
		return;
	}
	if (!count_failure(window, settings, weigh(window, result, now_ns), now_ns, change))
		suspect(window, settings);
}

static void hear_failure(struct window *window, const struct window_settings *settings,
    const struct window_result *result, int64_t now_ns, struct window_change *change) {
	int64_t start_ns = result->start_ns != 0 ? result->start_ns : now_ns;
	uint32_t level = result->level;

	if (level == 0) {
		hear_blind_failure(window, settings, result, now_ns, change);
		return;
	}
	if (is_explained(window, level))
		return;
	/* The only delivery there was: that is no matter of concurrency. */
	if (level < 2)
		note_noise(window, 1);
	if (level < 2 || !join_run(window, level, start_ns)) {
		(void)count_failure(window, settings, level < 2 ? 1 : ALIVE, now_ns, change);
		return;
	}
	if (hear_refusal(window, settings, level, start_ns, now_ns) ||
	    count_failure(window, settings, ALIVE, now_ns, change))
		return;
	/* Not believed yet: it is tried with less until the row breaks. */
	if (!window_is_noisy(window))
		window_set(window, settings, window->concurrency - 1u);
	else if (window->ceiling == 0 && level > settings->initial && window->concurrency > 1)
		lean_back(window, settings);
}

void window_probe_result(struct window *window, const struct window_settings *settings,
    const struct window_result *result, enum window_feedback_sign sign,
    int64_t now_ns, struct window_change *change) {
	turn_accepted(window, settings, now_ns);
	if (result->canary && sign == SIGN_POSITIVE && window_slow_confirms(window,
		result->level != 0 ? result->level : window->ceiling + 1u, result->took_ns))
		sign = SIGN_NEGATIVE;
	if (result->canary) {
		bool awaited = window->canary_out && window->ceiling != 0;

		if (result->level == 0 || is_explained(window, result->level)) {
			/* One that was given up proves no more than that it is late. */
			if (awaited)
				window_canary_result(window, settings, sign, result->level,
				    now_ns);
			return;
		}
		/* It found the window not full: it is one like any other. */
		if (awaited) {
			window->canary_out = 0;
			window->canary_ns = now_ns +
			    (window->climb > 0 ? 0 : settings->canary_least_ns);
			/* But where slow refusals keep it from being full ... */
			if (sign == SIGN_POSITIVE && window_is_noisy(window) && !window->told)
				window->ceiling = 0;
		}
	}
	if (sign == SIGN_POSITIVE)
		hear_success(window, settings, result, now_ns);
	else
		hear_failure(window, settings, result, now_ns, change);
}

static void hear_late_success(struct window *window, uint32_t level) {
	if (window->refused_run == 0)
		return;
	if (level >= window->run_level)
		break_run(window);
	/* Levels out of a log are rounded: enough for a doubt. */
	else if (level + window->run_level / 8u >= window->run_level)
		window->refused_run = 0;
}

/* True: it was believed. */
static bool hear_late_refusal(struct window *window, const struct window_settings *settings,
    uint32_t level, int64_t now_ns) {
	if (level < 2)
		return false;
	if (window->refused_run == 0)
		begin_run(window, level, now_ns);
	else if (level < window->run_level)
		window->run_level = (uint16_t)level;
	/* In the order of starts: what was accepted meanwhile was heard of. */
	window->run_below = BELOW_ENOUGH;
	return hear_refusal(window, settings, level, now_ns, now_ns);
}

void window_probe_late(struct window *window, const struct window_settings *settings,
    enum window_feedback_sign sign, uint32_t level, int64_t now_ns) {
	turn_accepted(window, settings, now_ns);
	if (sign == SIGN_POSITIVE) {
		if (level == 0)
			return;
		window_note_accepted(window, level);
		hear_late_success(window, level);
		return;
	}
	if ((level != 0 && !is_explained(window, level) &&
		hear_late_refusal(window, settings, level, now_ns)) || window->lowered == 0)
		return;
	if (level != 0)
		window_set(window, settings, window->concurrency + 1u);
	window->lowered--;
}

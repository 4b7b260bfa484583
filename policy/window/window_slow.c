/* SPDX-License-Identifier: ISC */
/*
 * The law probe: a site that does not refuse, but gets slow.
 *
 * Model: what a delivery usually takes is known up to a level.  A site that serves its limit and
 * lets the rest wait takes longer in proportion to the level: no more mail goes by it, but no
 * less either.  Where most of some deliveries at higher levels took more than twice that, more in
 * flight means less mail: the usual level is the ceiling.  Where few did, the usual level is
 * theirs from now on.  One long message changes little: durations are clipped, and most of the
 * deliveries have to be slow.  One stall changes nothing: some have to start after the first had
 * ended.  Only what was delivered counts: a refused recipient costs no DATA.
 *
 * A canary above such a ceiling that is slow itself counts as refused.  A slow canary slows the
 * deliveries that start beside it, so canaries have long intervals, however many are accepted.
 *
 * A site that gets slow at every level changes what is usual, and no window: so a tarpit is found
 * while the window grows, not where it begins later at a level that is used already.  So what is
 * usual is learned anew after a time without mail.
 * Errors: none.  Threads: no state.
 */
#include "policy/window/window_internal.h"

#define UNIT_NS		(SECOND / 100)
#define TOOK_MOST	UINT16_MAX		/* 655 s */
#define LEVEL_MOST	((1u << 12) - 1)
#define SAMPLES		8u
#define CIRCLE		(1u << 14)	/* seconds */
#define SLOW_ENOUGH	7u	/* of them: it is slow */
#define QUICK_ENOUGH	3u	/* slow ones of them, at most: it is not */
#define SLOW_TIMES	2u	/* beside a share in proportion to the level */
#define LATER_LEAST	100u	/* 1 s: less is no tarpit, whatever the share */
#define CLIP_TIMES	4u
#define CLIP_LEAST	16u	/* 160 ms more */
#define CANARY_STEP	5u	/* 320 s by default */

static uint32_t duration(int64_t took_ns) {
	int64_t units = took_ns / UNIT_NS;

	return units < 1 ? 1 : units < TOOK_MOST ? (uint32_t)units : TOOK_MOST;
}

static uint32_t second(int64_t time_ns) {
	return (uint32_t)(time_ns / SECOND) % CIRCLE;
}

static bool is_slow(const struct window *window, uint32_t level, uint32_t took) {
	uint64_t usual = window->usual_10ms, usual_level = window->usual_level;

	if (level < usual_level)
		level = (uint32_t)usual_level;
	return usual > 0 && took > usual + LATER_LEAST &&
	    took * usual_level > SLOW_TIMES * usual * level;
}

static uint32_t clipped(uint32_t usual, uint32_t took) {
	uint32_t most = CLIP_TIMES * usual > usual + CLIP_LEAST ? CLIP_TIMES * usual :
	    usual + CLIP_LEAST;

	if (usual > 0 && took > most)
		took = most;
	return took < TOOK_MOST ? took : TOOK_MOST;
}

/* Moves 1/`part` of the way from the mean to `took`, and one unit at least: where 1/`part` is less
 * than that it would never move. */
static uint32_t smooth(const struct window *window, uint32_t mean, uint32_t took, uint32_t part) {
	uint32_t next;

	took = clipped(window->usual_10ms, took);
	next = (mean * (part - 1) + took + part / 2) / part;
	if (mean == 0)
		return took;
	return next != mean || took == mean ? next : took > mean ? mean + 1 : mean - 1;
}

bool window_slow_confirms(const struct window *window, uint32_t level, int64_t took_ns) {
	return window->slow_ceiling && window->ceiling != 0 && level > window->ceiling &&
	    took_ns > 0 && is_slow(window, level, duration(took_ns));
}

static void set_usual_level(struct window *window, uint32_t level) {
	window->usual_level = (level < LEVEL_MOST ? level : LEVEL_MOST) & LEVEL_MOST;
}

void window_slow_forget(struct window *window) {
	window->usual_level = 0;
	window->usual_10ms = window->above_10ms = 0;
	window->above_seen = window->slow_seen = 0;
}

/* Enough were seen above the usual level. */
static void judge_level(struct window *window, const struct window_settings *settings,
    uint32_t level, uint32_t slow, int64_t now_ns) {
	uint32_t usual_level = window->usual_level;
	uint32_t most = usual_level + usual_level / 4 + 1;

	if (slow <= QUICK_ENOUGH) {
		/* the last one may be of a burst that the others were not */
		set_usual_level(window, level < most ? level : most);
		window->usual_10ms = window->above_10ms;
	} else if (slow >= SLOW_ENOUGH && !window->told &&
	    (window->ceiling == 0 || window->ceiling > usual_level)) {
		window_lower_ceiling(window, settings, usual_level, now_ns);
		window->slow_ceiling = 1;
		window->weak = 0;
		window->canary_step = CANARY_STEP;
		window_canary_wait(window, settings, now_ns);
	}
	window->above_seen = window->slow_seen = 0;
	window->above_10ms = 0;
}

void window_slow_hear(struct window *window, const struct window_settings *settings,
    uint32_t level, int64_t start_ns, int64_t took_ns, int64_t now_ns) {
	uint32_t took = duration(took_ns), seen, slow;

	if (took_ns <= 0)
		return;
	if (window->usual_level == 0)
		set_usual_level(window, settings->initial);
	if (level <= window->usual_level) {
		window->usual_10ms = smooth(window, window->usual_10ms, took, 16) & TOOK_MOST;
		return;
	}
	if (window->usual_10ms == 0)
		return;
	window->above_10ms = smooth(window, window->above_10ms, took, 8) & TOOK_MOST;
	seen = window->above_seen + 1u;
	slow = window->slow_seen + is_slow(window, level, took);
	if (seen == 1)
		window->first_end = second(start_ns + took_ns) & (CIRCLE - 1);
	if (seen == SAMPLES && slow >= SLOW_ENOUGH &&
	    (second(start_ns) - window->first_end) % CIRCLE >= CIRCLE / 2) {
		/* all may be of one stall */
		seen /= 2;
		slow /= 2;
	}
	if (seen == SAMPLES) {
		judge_level(window, settings, level, slow, now_ns);
		return;
	}
	window->above_seen = seen & 0x7;
	window->slow_seen = slow & 0x7;
}

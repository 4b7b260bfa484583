/* SPDX-License-Identifier: ISC */
/* What the files of the laws of windows share; window.c, window_feedback.c and
 * window_probe.c only. */
#ifndef POLICY_WINDOW_WINDOW_INTERNAL_H
#define POLICY_WINDOW_WINDOW_INTERNAL_H

#include "policy/window/window.h"

#define SECOND			INT64_C(1000000000)
#define WINDOW_MOST		((uint32_t)UINT16_MAX)
#define COHORTS_MOST		1e9
#define CANARY_STEP_MOST	40	/* 2^40 times anything is the longest interval */
#define CLIMB_MOST		7u

enum window_feedback_sign { SIGN_NEUTRAL, SIGN_POSITIVE, SIGN_NEGATIVE };

/* What the window may be at most: the limit, and the ceiling where one is known. */
uint32_t window_most(const struct window *window, const struct window_settings *settings);
/* Sets it, within 1 and that. */
void window_set(struct window *window, const struct window_settings *settings,
    uint32_t concurrency);

/* One more failure in the pseudo-cohort, or a part of one; true: that were enough of
 * them. */
bool window_counts_failure(struct window *window,
    const struct window_settings *settings, double weight);
void window_die(struct window *window, const struct window_settings *settings,
    int64_t now_ns, struct window_change *change);

/* The laws document and postfix; `busy`: in flight, this one counted. */
void window_feedback_result(struct window *window,
    const struct window_settings *settings, uint32_t busy,
    enum window_feedback_sign sign, int64_t now_ns, struct window_change *change);

/* The law probe. */
void window_probe_result(struct window *window, const struct window_settings *settings,
    const struct window_result *result, enum window_feedback_sign sign,
    int64_t now_ns, struct window_change *change);
void window_probe_late(struct window *window, const struct window_settings *settings,
    enum window_feedback_sign sign, uint32_t level, int64_t now_ns);

/* Of it: what was accepted of late, and how much refusals mean.  So many in a row are
 * likelier a limiter of that level than chance; are there more than a few of no meaning? */
void window_note_accepted(struct window *window, uint32_t level);
uint32_t window_accepted(const struct window *window);
uint32_t window_convinces(const struct window *window, const struct window_settings *settings,
    uint32_t level);
bool window_is_noisy(const struct window *window);

/* A ceiling was found from an attempt that started at since_ns. */
void window_lower_ceiling(struct window *window, const struct window_settings *settings,
    uint32_t ceiling, int64_t since_ns);

/* Sites that get slow (window_slow.c).  One of this level (not 0) was delivered; took_ns 0 says
 * nothing. */
void window_slow_hear(struct window *window, const struct window_settings *settings,
    uint32_t level, int64_t start_ns, int64_t took_ns, int64_t now_ns);
/* Was it so slow that the ceiling, which was found by slow ones, holds? */
bool window_slow_confirms(const struct window *window, uint32_t level, int64_t took_ns);
/* What is usual is learned anew. */
void window_slow_forget(struct window *window);

/* Its canaries (window_canary.c).  The next may go after the interval of canary_step. */
void window_canary_wait(struct window *window, const struct window_settings *settings,
    int64_t now_ns);
void window_canary_lost(struct window *window, const struct window_settings *settings,
    int64_t now_ns);
void window_canary_result(struct window *window, const struct window_settings *settings,
    enum window_feedback_sign sign, uint32_t level, int64_t now_ns);
/* So high as `ceiling` was accepted. */
void window_raise_ceiling(struct window *window, const struct window_settings *settings,
    uint32_t ceiling, int64_t now_ns);
/* A delivery was accepted: where there are many of them, a canary costs little. */
void window_canary_calm(struct window *window, const struct window_settings *settings,
    int64_t now_ns);
/* Does the ceiling rise, by canaries of which the last proved less than it says?  Then
 * what it may fall back to; 0: no. */
uint32_t window_climbed_from(const struct window *window);

#endif

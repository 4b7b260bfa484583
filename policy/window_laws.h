/* SPDX-License-Identifier: ISC */
/* What the files of the laws of windows share; window.c, window_feedback.c and
 * window_probe.c only. */
#ifndef POLICY_WINDOW_LAWS_H
#define POLICY_WINDOW_LAWS_H

#include "policy/window.h"

#define SECOND			INT64_C(1000000000)
#define WINDOW_MOST		((uint32_t)UINT16_MAX)
#define COHORTS_MOST		1e9
#define CANARY_STEP_MOST	40	/* 2^40 times anything is the longest interval */

enum window_feedback_sign { SIGN_NEUTRAL, SIGN_POSITIVE, SIGN_NEGATIVE };
enum window_feedback_sign window_sign(enum window_law law, enum result_class class);

/* What the window may be at most: the limit, and the ceiling where one is known. */
uint32_t window_most(const struct window *window, const struct window_settings *settings);
/* Sets it, within 1 and that. */
void window_set(struct window *window, const struct window_settings *settings,
    uint32_t concurrency);

/* One more failure in the pseudo-cohort; true: that were enough of them. */
bool window_counts_failure(struct window *window,
    const struct window_settings *settings);
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

/* The next canary may go after the interval of canary_step. */
void window_canary_wait(struct window *window, const struct window_settings *settings,
    int64_t now_ns);
void window_canary_lost(struct window *window, const struct window_settings *settings,
    int64_t now_ns);

#endif

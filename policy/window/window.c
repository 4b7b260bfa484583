/* SPDX-License-Identifier: ISC */
/*
 * The laws of windows (window.h): what they have in common, and the choice of one.
 *
 * Model: a result is negative, positive or neutral feedback; document and postfix
 * (window_feedback.c) reckon with that alone, probe (window_probe.c) with the level of
 * the attempt, too.  States and what is done by hand are the same for all.
 * Errors: none.  Threads: no state.
 */
#include "policy/window/window.h"

#include "policy/window/level.h"
#include "policy/window/window_internal.h"

/* The bounds of src/defs/settings.def. */
#define CONCURRENCY_MOST	10000
#define COHORT_LIMIT_MOST	1000
#define BELIEVE_REFUSALS_MOST	16
#define SPAN_MOST_NS	(INT64_C(30) * 86400 * 1000000000)

const struct window_settings window_defaults = {
	.law = WINDOW_LAW_PROBE,
	.initial = 5,
	.limit = 20,
	.positive = { FEEDBACK_FIXED, 1 },
	.negative = { FEEDBACK_FIXED, 1 },
	.failed_cohort_limit = 1,
	.suspend_ns = 300 * SECOND,
	.canary_least_ns = 10 * SECOND,
	.canary_most_ns = 600 * SECOND,
	.believe_ns = 300 * SECOND,
	.believe_refusals = 4,
};

const char *window_law_word(enum window_law law) {
	static const char *const words[WINDOW_LAW_COUNT] = {
		[WINDOW_LAW_PROBE] = "probe",
		[WINDOW_LAW_POSTFIX] = "postfix",
		[WINDOW_LAW_DOCUMENT] = "document",
	};

	return (unsigned)law < WINDOW_LAW_COUNT ? words[law] : "unknown";
}

const char *window_state_word(enum window_state state) {
	static const char *const words[WINDOW_STATE_COUNT] = {
		[WINDOW_OPEN] = "open",
		[WINDOW_LIMITED] = "limited",
		[WINDOW_DEAD] = "dead",
		[WINDOW_HELD] = "held",
	};

	return (unsigned)state < WINDOW_STATE_COUNT ? words[state] : "unknown";
}

uint32_t window_most(const struct window *window, const struct window_settings *settings) {
	uint32_t most = settings->limit == 0 || settings->limit > WINDOW_MOST ?
	    WINDOW_MOST : settings->limit;

	return window->ceiling != 0 && window->ceiling < most ? window->ceiling : most;
}

void window_set(struct window *window, const struct window_settings *settings,
    uint32_t concurrency) {
	uint32_t most = window_most(window, settings);

	window->concurrency = (uint16_t)(concurrency < 1 ? 1 :
	    concurrency > most ? most : concurrency);
}

bool window_is_shut(const struct window *window) {
	return window->state == WINDOW_DEAD || window->state == WINDOW_HELD;
}

/* Open or limited, by what is known of a ceiling. */
static void be_open(struct window *window) {
	if (window_is_shut(window))
		window->until_ns = 0;	/* and there was no flight since */
	window->state = window->ceiling != 0 ? WINDOW_LIMITED : WINDOW_OPEN;
	window->cause = WINDOW_CAUSE_COHORTS;
}

bool window_is_by_hand(const struct window *window) {
	return window_is_shut(window) && window->cause == WINDOW_CAUSE_HAND;
}

static void forget_feedback(struct window *window) {
	window->success = 0;
	window->failure = 0;
	window->fail_cohorts = 0;
	window->lowered = 0;
	window->climb = 0;
}

void window_begin(struct window *window, const struct window_settings *settings) {
	*window = (struct window){ .law = settings->law & 0x3, .state = WINDOW_OPEN };
	window_set(window, settings, settings->initial);
}

static bool is_within(double value, double least, double most) {
	return value >= least && value <= most;		/* false for a NaN */
}

static bool is_feedback(const struct window_feedback *feedback) {
	return feedback->form <= FEEDBACK_PER_SQRT_CONCURRENCY &&
	    is_within(feedback->amount, 0, 1);
}

static bool is_span(int64_t span_ns) {
	return span_ns > 0 && span_ns <= SPAN_MOST_NS;
}

bool window_settings_are_sound(const struct window_settings *settings) {
	return settings->law < WINDOW_LAW_COUNT &&
	    settings->initial >= 1 && settings->initial <= CONCURRENCY_MOST &&
	    settings->limit <= CONCURRENCY_MOST &&
	    is_feedback(&settings->positive) && is_feedback(&settings->negative) &&
	    is_within(settings->failed_cohort_limit, 0, COHORT_LIMIT_MOST) &&
	    is_span(settings->suspend_ns) && is_span(settings->canary_least_ns) &&
	    is_span(settings->canary_most_ns) && is_span(settings->believe_ns) &&
	    settings->believe_refusals >= 1 && settings->believe_refusals <= BELIEVE_REFUSALS_MOST;
}

/* Sums and differences with times of the clock do not overflow. */
static bool is_time(int64_t time_ns) {
	return time_ns == INT64_MAX ||
	    (time_ns >= INT64_MIN / 2 && time_ns <= INT64_MAX / 4 * 3);
}

bool window_is_sound(const struct window *window) {
	return window->concurrency >= 1 && window->state < WINDOW_STATE_COUNT &&
	    window->cause < WINDOW_CAUSE_COUNT && window->law < WINDOW_LAW_COUNT &&
	    window->canary_step <= CANARY_STEP_MOST &&
	    (window->state != WINDOW_LIMITED || window->ceiling != 0) &&
	    (window->state != WINDOW_OPEN || window->ceiling == 0) &&
	    is_time(window->until_ns) && is_time(window->canary_ns) &&
	    is_within(window->success, -1, 2) && is_within(window->failure, -2, 2) &&
	    is_within(window->fail_cohorts, 0, COHORTS_MOST) &&
	    (window->usual_level != 0 || window->usual_10ms == 0);
}

void window_adjust(struct window *window, const struct window_settings *settings) {
	if (window->law != settings->law) {
		window->law = settings->law & 0x3;
		forget_feedback(window);
		window->refused_run = 0;
		window->canary_out = 0;
		window_slow_forget(window);
		/* Only probe has canaries to get above what it found. */
		if (settings->law != WINDOW_LAW_PROBE && !window->told)
			window->ceiling = 0;
		window->slow_ceiling = 0;
		if (!window_is_shut(window))
			be_open(window);
	}
	window_set(window, settings, window->concurrency);
}

/* --- results and time ------------------------------------------------------- */

static void revive(struct window *window, const struct window_settings *settings,
    uint32_t busy, struct window_change *change) {
	be_open(window);
	/* Back from the almost grave, the best concurrency is anyone's guess: the initial one,
	 * unless another was set meanwhile. */
	window_set(window, settings, busy > 0 ? busy : window->concurrency);
	forget_feedback(window);
	change->revived = true;
	change->window = true;
}

void window_die(struct window *window, const struct window_settings *settings,
    int64_t now_ns, struct window_change *change) {
	window->state = WINDOW_DEAD;
	window->cause = WINDOW_CAUSE_COHORTS;
	window->until_ns = now_ns + settings->suspend_ns;
	window->canary_out = 0;
	if (!window->slow_ceiling)
		window_slow_forget(window);
	window_set(window, settings, settings->initial);
	change->died = true;
}

bool window_counts_failure(struct window *window,
    const struct window_settings *settings, double weight) {
	double limit = settings->failed_cohort_limit;
	uint32_t cohort = window->concurrency;

	/* A ceiling of 1 or 2 would make one or two failures the end of a site. */
	if (settings->law == WINDOW_LAW_PROBE && cohort < settings->initial)
		cohort = settings->initial;
	window->fail_cohorts += weight / cohort;
	if (window->fail_cohorts > COHORTS_MOST)
		window->fail_cohorts = COHORTS_MOST;
	if (limit <= 0)
		return false;
	return settings->law == WINDOW_LAW_DOCUMENT ? window->fail_cohorts > limit :
	    window->fail_cohorts >= limit;
}

static enum window_feedback_sign sign_of(enum window_law law, enum result_class class) {
	switch (class) {
	case RESULT_OK:
	case RESULT_RCPT_TEMPORARY:
	case RESULT_PERMANENT:
		return SIGN_POSITIVE;
	case RESULT_SITE_FAILURE:
		return SIGN_NEGATIVE;
	case RESULT_REMOTE_THROTTLE:
		/* The mail server's own scheduler does not listen to it: for it the
		 * handshake was fine. */
		return law == WINDOW_LAW_PROBE ? SIGN_NEGATIVE : SIGN_POSITIVE;
	default:
		return SIGN_NEUTRAL;
	}
}

/* Logs give any times, in any order; no attempt starts after its result is heard. */
static int64_t possible_start(int64_t start_ns, int64_t now_ns) {
	return start_ns < 0 ? 0 : start_ns < now_ns ? start_ns : now_ns;
}

void window_result(struct window *window, const struct window_settings *settings,
    const struct window_result *told, int64_t now_ns, struct window_change *change) {
	struct window_result copy = *told;
	const struct window_result *result = &copy;
	enum window_feedback_sign sign = sign_of(settings->law, result->class);
	uint16_t concurrency = window->concurrency, ceiling = window->ceiling;

	copy.start_ns = possible_start(told->start_ns, now_ns);
	if (copy.given_ns <= 0 || copy.given_ns > copy.start_ns)
		copy.given_ns = copy.start_ns;
	*change = (struct window_change){ false, false, false };
	if (window->canary_out && result->canary && sign == SIGN_NEUTRAL)
		window_canary_lost(window, settings, now_ns);
	if (sign == SIGN_NEUTRAL)
		return;
	if (window_is_shut(window)) {
		/* An answer to what was under way already: good news are believed, but
		 * neither a rule nor an operator is overruled. */
		if (window->state == WINDOW_DEAD && window->cause == WINDOW_CAUSE_COHORTS &&
		    sign == SIGN_POSITIVE)
			revive(window, settings, result->in_flight + 1, change);
		return;
	}
	if (settings->law == WINDOW_LAW_PROBE)
		window_probe_result(window, settings, result, sign, now_ns, change);
	else
		window_feedback_result(window, settings, result->in_flight + 1, sign,
		    now_ns, change);
	if (!window_is_shut(window))
		be_open(window);
	change->window = window->concurrency != concurrency || window->ceiling != ceiling;
}

void window_late_level(struct window *window, const struct window_settings *settings,
    enum result_class class, uint32_t level, int64_t now_ns, struct window_change *change) {
	enum window_feedback_sign sign = sign_of(settings->law, class);
	uint16_t concurrency = window->concurrency, ceiling = window->ceiling;

	*change = (struct window_change){ false, false, false };
	if (settings->law != WINDOW_LAW_PROBE || sign == SIGN_NEUTRAL || window_is_shut(window))
		return;
	window_probe_late(window, settings, sign, level, now_ns);
	be_open(window);
	change->window = window->concurrency != concurrency || window->ceiling != ceiling;
}

void window_took(struct window *window, const struct window_settings *settings,
    const struct level_verdict *verdict, int64_t now_ns, struct window_change *change) {
	uint16_t concurrency = window->concurrency, ceiling = window->ceiling;

	*change = (struct window_change){ false, false, false };
	if (settings->law != WINDOW_LAW_PROBE || verdict->beside == 0 || window_is_shut(window))
		return;
	window_slow_hear(window, settings, verdict->beside, verdict->start_ns,
	    verdict->took_ns, now_ns);
	be_open(window);
	change->window = window->concurrency != concurrency || window->ceiling != ceiling;
}

void window_turn(struct window *window, const struct window_settings *settings,
    uint32_t in_flight, int64_t now_ns, struct window_change *change) {
	*change = (struct window_change){ false, false, false };
	if (window_is_shut(window) && now_ns >= window->until_ns) {
		if (window->state == WINDOW_DEAD && window->cause == WINDOW_CAUSE_COHORTS) {
			revive(window, settings, in_flight, change);
		} else {
			be_open(window);
			window_set(window, settings, window->concurrency);
			change->revived = true;
			change->window = true;
		}
	}
	if (window->canary_out && now_ns >= window->canary_ns)
		window_canary_lost(window, settings, now_ns);
}

uint32_t window_now(const struct window *window, const struct window_settings *settings,
    int64_t now_ns) {
	uint32_t most = window_most(window, settings);

	if (window_is_shut(window) && now_ns < window->until_ns)
		return 0;
	return window->concurrency < most ? window->concurrency : most;
}

/* --- by rule, by hand, by another node -------------------------------------- */

void window_suspend(struct window *window, enum window_cause cause, int64_t until_ns) {
	if (window->state == WINDOW_HELD)
		return;
	if (window->state == WINDOW_DEAD && window->until_ns > until_ns)
		until_ns = window->until_ns;
	window->state = WINDOW_DEAD;
	window->cause = cause & 0x7;
	window->until_ns = until_ns;
	window->canary_out = 0;
	forget_feedback(window);
}

void window_hold(struct window *window, enum window_cause cause, int64_t until_ns) {
	window->state = WINDOW_HELD;
	window->cause = cause & 0x7;
	window->until_ns = until_ns;
	window->canary_out = 0;
	forget_feedback(window);
}

void window_set_concurrency(struct window *window, const struct window_settings *settings,
    uint32_t concurrency) {
	window_set(window, settings, concurrency != 0 ? concurrency :
	    window->concurrency);
	if (window_is_shut(window))
		return;
	forget_feedback(window);
	window->refused_run = 0;
}

void window_resume(struct window *window, const struct window_settings *settings,
    uint32_t concurrency) {
	be_open(window);
	window_set_concurrency(window, settings, concurrency);
}

void window_set_ceiling(struct window *window, const struct window_settings *settings,
    uint32_t ceiling, int64_t now_ns) {
	window->ceiling = (uint16_t)(ceiling > WINDOW_MOST ? WINDOW_MOST : ceiling);
	window->told = 0;
	window->slow_ceiling = 0;
	if (ceiling != 0)
		window->told = 1;
	window->refused_run = 0;
	window->lowered = 0;
	window->climb = 0;
	window->canary_out = 0;
	/* Who was told does not need to ask soon. */
	window->canary_step = CANARY_STEP_MOST;
	window_canary_wait(window, settings, now_ns);
	if (!window_is_shut(window))
		be_open(window);
	window_set(window, settings, window->concurrency);
}

/* SPDX-License-Identifier: ISC */
/*
 * The laws document and postfix: feedback with hysteresis.
 *
 * Model: the window goes up at the end of 1/feedback good results, and down at the
 * start of 1/feedback bad ones.  The two laws differ in five places, each marked:
 * the document's pseudo-code, and what Postfix does since (qmgr_queue.c, 3.7: same
 * sums in the same order, so that the numbers are the same to the last bit).
 * Errors: none.  Threads: no state.
 */
#include "policy/window/window_internal.h"

/* A decimal number at text[*at]: digits with at most one point among them. */
static bool take_number(const char *text, size_t length, size_t *at, double *out) {
	double value = 0, scale = 1;
	bool point = false;
	size_t digits = 0;

	for (; *at < length; (*at)++) {
		char c = text[*at];

		if (c == '.' && !point) {
			point = true;
			continue;
		}
		if (c < '0' || c > '9')
			break;
		/* 15 digits are exact in a double; so is then the quotient. */
		if (++digits > 15)
			return false;
		value = value * 10 + (c - '0');
		if (point)
			scale *= 10;
	}
	*out = value / scale;
	return digits > 0;
}

static void skip_blanks(const char *text, size_t length, size_t *at) {
	while (*at < length && (text[*at] == ' ' || text[*at] == '\t'))
		(*at)++;
}

static bool is_word(const char *text, size_t length, const char *word) {
	size_t i;

	for (i = 0; i < length && word[i] != '\0'; i++)
		if (text[i] != word[i])
			return false;
	return i == length && word[i] == '\0';
}

bool window_feedback_parse(const char *text, size_t length, struct window_feedback *out) {
	struct window_feedback feedback = { FEEDBACK_FIXED, 0 };
	double divisor;
	size_t at = 0;

	while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
		length--;
	skip_blanks(text, length, &at);
	if (!take_number(text, length, &at, &feedback.amount))
		return false;
	skip_blanks(text, length, &at);
	if (at < length) {
		if (text[at++] != '/')
			return false;
		skip_blanks(text, length, &at);
		if (is_word(text + at, length - at, "concurrency")) {
			feedback.form = FEEDBACK_PER_CONCURRENCY;
		} else if (is_word(text + at, length - at, "sqrt_concurrency")) {
			feedback.form = FEEDBACK_PER_SQRT_CONCURRENCY;
		} else if (take_number(text, length, &at, &divisor) && at == length &&
		    divisor > 0) {
			feedback.amount /= divisor;
		} else {
			return false;
		}
	}
	if (!(feedback.amount >= 0 && feedback.amount <= 1))
		return false;
	out->form = feedback.form;
	out->amount = feedback.amount;
	return true;
}

/* Newton's way down from above, to the last bit or the one before: no library. */
static double square_root(double x) {
	double root = x, next = (x + 1) / 2;

	while (next < root) {
		root = next;
		next = (root + x / root) / 2;
	}
	return root;
}

static double amount(const struct window_settings *settings,
    const struct window_feedback *feedback, uint32_t concurrency) {
	switch (feedback->form) {
	case FEEDBACK_PER_CONCURRENCY:
		return feedback->amount / concurrency;
	case FEEDBACK_PER_SQRT_CONCURRENCY:
		/* Postfix is built without this form: it warns, and takes 1 (measured). */
		return settings->law == WINDOW_LAW_POSTFIX ? 1 :
		    feedback->amount / square_root(concurrency);
	default:
		return feedback->amount;
	}
}

static void raise(struct window *window, const struct window_settings *settings,
    uint32_t busy) {
	bool postfix = settings->law == WINDOW_LAW_POSTFIX;
	uint32_t concurrency = window->concurrency;
	double feedback = amount(settings, &settings->positive, concurrency);

	window->fail_cohorts = 0;
	/* Otherwise the effect of negative feedback could be delayed. */
	if (concurrency >= busy + settings->initial)
		return;
	/* At the limit Postfix leaves the cycle as it is; in the pseudo-code it goes on. */
	if (postfix && concurrency >= window_most(window, settings))
		return;
	window->success = (float)(window->success + feedback);
	/* The pseudo-code has no half step for the rounding error. */
	while (window->success + (postfix ? feedback / 2 : 0) >= 1) {
		concurrency++;
		window->success -= 1;
		window->failure = 0;
	}
	window_set(window, settings, concurrency);
}

static void lower(struct window *window, const struct window_settings *settings,
    int64_t now_ns, struct window_change *change) {
	bool postfix = settings->law == WINDOW_LAW_POSTFIX;
	uint32_t concurrency = window->concurrency;
	double feedback = amount(settings, &settings->negative, concurrency);

	/* Enough is "more than" in the pseudo-code, "as many" in Postfix. */
	if (window_counts_failure(window, settings, 1)) {
		window_die(window, settings, now_ns, change);
		return;
	}
	window->failure = (float)(window->failure - feedback);
	/* The half step makes the first failure after a raise, with feedback 1, count
	 * twice in Postfix. */
	while (window->failure - (postfix ? feedback / 2 : 0) < 0) {
		concurrency -= concurrency > 0;
		window->failure += 1;
		window->success = 0;
	}
	window_set(window, settings, concurrency);
}

void window_feedback_result(struct window *window,
    const struct window_settings *settings, uint32_t busy,
    enum window_feedback_sign sign, int64_t now_ns, struct window_change *change) {
	if (sign == SIGN_POSITIVE)
		raise(window, settings, busy);
	else
		lower(window, settings, now_ns, change);
}

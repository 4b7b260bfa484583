/* SPDX-License-Identifier: ISC */
/* The laws of policy/window/ as Postern runs them. */
#include "policy/window/window.h"

#include "tests/sim/laws/law.h"

#define CANARY_GIVE_UP_NS	(600 * LAW_SECOND)

struct ours {
	struct window window;
	struct window_settings settings;
};

static void ours_begin(struct ours *ours, enum window_law law) {
	ours->settings = window_defaults;
	ours->settings.law = law;
	ours->settings.initial = LAW_INITIAL;
	ours->settings.limit = LAW_MOST;
	window_begin(&ours->window, &ours->settings);
}

static void probe_begin(void *state) {
	ours_begin(state, WINDOW_LAW_PROBE);
}

static void postfix_begin(void *state) {
	ours_begin(state, WINDOW_LAW_POSTFIX);
}

static void document_begin(void *state) {
	struct ours *ours = state;

	ours_begin(ours, WINDOW_LAW_DOCUMENT);
	ours->settings.positive = (struct window_feedback){ FEEDBACK_PER_CONCURRENCY, 1 };
	ours->settings.negative = ours->settings.positive;
}

static uint32_t ours_window(const void *state, int64_t now_ns) {
	const struct ours *ours = state;

	return window_now(&ours->window, &ours->settings, now_ns);
}

static void ours_hear(void *state, const struct law_result *result, int64_t now_ns) {
	struct ours *ours = state;
	struct window_change change;

	window_result(&ours->window, &ours->settings, &(const struct window_result){
	    .class = result->class, .level = result->level, .in_flight = result->in_flight,
	    .start_ns = result->start_ns, .took_ns = result->end_ns - result->start_ns, .answered = result->answered,
	    .canary = result->canary }, now_ns, &change);
}

static void ours_turn(void *state, uint32_t in_flight, int64_t now_ns) {
	struct ours *ours = state;
	struct window_change change;

	window_turn(&ours->window, &ours->settings, in_flight, now_ns, &change);
}

static int64_t ours_due_ns(const void *state) {
	const struct ours *ours = state;

	if (window_is_shut(&ours->window))
		return ours->window.until_ns;
	return window_canary_due(&ours->window, &ours->settings, INT64_MAX) ?
	    ours->window.canary_ns : INT64_MAX;
}

static bool ours_canary(void *state, int64_t now_ns) {
	struct ours *ours = state;

	if (!window_canary_due(&ours->window, &ours->settings, now_ns))
		return false;
	window_canary_issued(&ours->window, &ours->settings, now_ns + CANARY_GIVE_UP_NS);
	return true;
}

#define OURS(symbol, word, where) const struct law law_##symbol = { .name = word, .source = where, \
	.bytes = sizeof(struct ours), .begin = symbol##_begin, .window = ours_window, \
	.hear = ours_hear, .turn = ours_turn, .due_ns = ours_due_ns, .canary = ours_canary }

OURS(probe, "probe", "Postern's own: policy/window/window_probe.c");
OURS(postfix, "postfix", "Postfix 3.7 as shipped: feedback 1, 1; one failed cohort");
OURS(document, "document", "the pseudo-code of contrib/documents.md, feedback 1/concurrency");

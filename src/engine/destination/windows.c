/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What a window says, canaries, and what is told of it.
 * MODEL    The window stands in the owner's slot; its settings come from the
 *          generation each time, so that a reload tells at once.  Time passes for a
 *          window whenever somebody changes it, and each second by windows_turn;
 *          whoever only looks lets it pass for a copy.
 * ERRORS   What cannot be read is shown as a new window: nothing is held.
 * THREADS  Any.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/decision/decided.h"
#include "engine/destination/windows_internal.h"
#include "segment/destination/recipients.h"

#define CLASS_LENGTH	(sizeof(WINDOW_CLASS_PREFIX) - 1)
#define HASH_LENGTH	17	/* "~" and 16 digits */

/* --- one transaction ------------------------------------------------------------ */

enum states_locked windows_lock(struct state_lock *lock, struct engine *engine,
    const struct window_owner *owner, const struct window_rules *rules, int64_t now_ns,
    enum states_create create, struct window_change *change) {
	struct state_key key;

	*change = (struct window_change){ .died = false };
	if (!states_key(engine->segment, owner->name, strlen(owner->name), &key))
		return STATES_UNKNOWN;
	return windows_lock_at(lock, engine, &key, rules, now_ns, create, change);
}

enum states_locked windows_lock_at(struct state_lock *lock, struct engine *engine,
    const struct state_key *key, const struct window_rules *rules, int64_t now_ns,
    enum states_create create, struct window_change *change) {
	enum states_locked result = states_lock_at(lock, engine->segment, key, now_ns, create);
	struct destination_state *state = &lock->state;

	*change = (struct window_change){ .died = false };
	if (result != STATES_HELD)
		return result;
	if (!state->begun) {
		window_begin(&state->window, &rules->settings);
		state->begun = true;
		return result;
	}
	window_adjust(&state->window, &rules->settings);
	window_turn(&state->window, &rules->settings, windows_running(state), now_ns, change);
	if (state->window.canary_out == 0)
		state->flags &= (uint8_t)~WINDOW_LANE_FLAGS;
	return result;
}

/* --- what it says -------------------------------------------------------------- */

static void fill_view(const struct destination_state *state, const struct window_rules *rules,
    int64_t now_ns, struct window_view *out) {
	const struct window_settings *settings = &rules->settings;
	const struct window *window = &state->window;
	bool stopped = window_is_shut(window);

	out->law = settings->law;
	out->state = (enum window_state)window->state;
	out->by = (uint8_t)decided_by_of(window);
	out->window = window_now(window, settings, now_ns);
	out->stored = window->concurrency;
	out->ceiling = window->ceiling;
	out->proven = window_proven(window, settings);
	out->in_flight = windows_running(state);
	out->success = window->success;
	out->failure = window->failure;
	out->fail_cohorts = window->fail_cohorts;
	out->until_ns = stopped ? window->until_ns : 0;
	out->resumed_ns = state->resumed_ns;
	out->canary_due = window_canary_due(window, settings, now_ns);
	out->canary_out = window->canary_out != 0;
	out->ok = state->ok;
	out->failed = state->failed;
	out->held = state->held;
	pace_look(&state->pace, &rules->pace, now_ns, &out->pace);
	if (rules->pace.limit.count > 0)
		out->pace_limit_ns = rules->pace.limit.period_ns / rules->pace.limit.count;
	out->pace_wait_ns = pace_wait_ns(&state->pace, &rules->pace, now_ns);
	out->pace_by_hand = (state->flags & DESTINATION_PACE) != 0;
}

void windows_view_new(const struct generation *generation, unsigned mta, int64_t now_ns,
    struct window_view *out) {
	static const struct window_owner owner = { .kind = DESTINATION_DOMAIN,
		.provider = JUDGE_NONE };
	struct destination_window new = { .state = { .begun = true } };
	struct window_rules rules;

	*out = (struct window_view){ .mta = mta };
	windows_rules(generation, mta, &owner, &rules);
	window_begin(&new.state.window, &rules.settings);
	fill_view(&new.state, &rules, now_ns, out);
	windows_view_shared(generation, &owner, &rules.settings, &new.shared, now_ns, out);
	out->observed = windows_observed(generation, &owner);
}

bool windows_view(const struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, int64_t now_ns, struct window_view *out) {
	struct destination_window found;
	struct window_change ignored;
	struct window_rules rules;

	*out = (struct window_view){ .known = false };
	out->mta = windows_mta(engine, generation, owner);
	windows_rules(generation, out->mta, owner, &rules);
	if (owner->kind == DESTINATION_NONE ||
	    !states_find(engine->segment, owner->name, strlen(owner->name), &found))
		memset(&found, 0, sizeof(found));
	out->known = found.state.begun;
	if (!out->known) {
		struct pace pace = found.state.pace;

		memset(&found, 0, sizeof(found));
		found.state.pace = pace;
		window_begin(&found.state.window, &rules.settings);
	}
	window_adjust(&found.state.window, &rules.settings);
	window_turn(&found.state.window, &rules.settings, windows_running(&found.state), now_ns,
	    &ignored);
	fill_view(&found.state, &rules, now_ns, out);
	windows_view_shared(generation, owner, &rules.settings, &found.shared, now_ns, out);
	out->observed = windows_observed(generation, owner);
	memcpy(out->reason, found.reason, sizeof(out->reason));
	if (out->state == WINDOW_DEAD || out->state == WINDOW_HELD)
		out->event = found.event;
	return out->known;
}

const char *windows_by_word(unsigned by) {
	const char *word = decided_by_word(by);

	return word == NULL ? "-" : word;
}

const char *windows_node_name(const struct engine *engine, unsigned node,
    char out[SHARED_NODE_NAME_MAX + 1]) {
	return shared_node_name(engine->segment, node, out);
}

bool windows_observed(const struct generation *generation, const struct window_owner *owner) {
	(void)owner;
	return generation->outbound_observe != 0;
}

static uint64_t seconds_left(int64_t until_ns, int64_t now_ns) {
	return until_ns <= now_ns ? 0 :
	    (uint64_t)((until_ns - now_ns + NS_PER_SECOND - 1) / NS_PER_SECOND);
}

const char *windows_text(const struct window_owner *owner, const struct window_view *view,
    int64_t now_ns, char out[WINDOW_TEXT_MAX + 1]) {
	const char *what = view->state == WINDOW_HELD ? "held" : "suspended";
	char name[SEGMENT_NAME_MAX + 1], id[DECISION_ID_MAX];
	size_t length;

	/* names are as strangers wrote them */
	(void)windows_reason(owner->name, strlen(owner->name), out);
	text_copy(name, sizeof(name), out, strlen(out));
	length = text_append(out, WINDOW_TEXT_MAX + 1, 0, "Postern: %s is %s", name, what);
	if (view->until_ns != INT64_MAX)
		length = text_append(out, WINDOW_TEXT_MAX + 1, length, " for %llu s",
		    (unsigned long long)seconds_left(view->until_ns, now_ns));
	if (view->event != 0)
		length = text_append(out, WINDOW_TEXT_MAX + 1, length, " (id=%s)",
		    decision_id_text(view->event, id));
	if (view->reason[0] != '\0')
		(void)text_append(out, WINDOW_TEXT_MAX + 1, length, ": %s", view->reason);
	return out;
}

const char *windows_reason(const char *text, size_t length, char out[WINDOW_REASON_MAX + 1]) {
	size_t used = 0;

	for (size_t i = 0; i < length && used < WINDOW_REASON_MAX; i++) {
		bool printable = text[i] > ' ' && text[i] <= '~';

		/* runs of blanks, and what is not to be printed, are one blank */
		if (printable)
			out[used++] = text[i];
		else if (used > 0 && out[used - 1] != ' ')
			out[used++] = ' ';
	}
	while (used > 0 && out[used - 1] == ' ')
		used--;
	out[used] = '\0';
	return out;
}

/* --- recipients and classes ------------------------------------------------------ */

bool windows_recipient_held(const struct engine *engine, const struct generation *generation,
    const char *recipient, size_t length, int64_t now_ns, struct window_held *out) {
	struct recipient_held held;

	if (!recipients_find(engine->segment, recipient, length, now_ns,
	    &held))
		return false;
	out->until_ns = held.until_ns;
	out->observed = generation->outbound_observe != 0;
	out->event = held.event;
	memcpy(out->reason, held.reason, sizeof(out->reason));
	return true;
}

void windows_class_name(const char *name, char out[SEGMENT_NAME_MAX + 1]) {
	/* not secret: the same wherever it is held */
	static const struct siphash_key key = { UINT64_C(0x706f737465726e2e),
		UINT64_C(0x636c6173732e6e61) };
	const size_t end = SEGMENT_NAME_MAX - HASH_LENGTH;
	size_t length = strlen(name), at = 0, used = CLASS_LENGTH;

	memcpy(out, WINDOW_CLASS_PREFIX, CLASS_LENGTH);
	for (; at < length && used + 2 <= SEGMENT_NAME_MAX; at++) {
		bool capital = name[at] >= 'A' && name[at] <= 'Z';

		if (capital || name[at] == '^')
			out[used++] = '^';
		out[used++] = capital ? (char)(name[at] + 32) : name[at];
	}
	out[used] = '\0';
	/* a dot at the end of a name says nothing */
	if (at < length || out[used - 1] == '.')
		snprintf(out + (used < end ? used : end), HASH_LENGTH + 1, "~%016llx",
		    (unsigned long long)siphash13(&key, name, length));
}

bool windows_class_held(const struct engine *engine, const struct generation *generation,
    uint32_t class_index, int64_t now_ns, struct window_held *out) {
	const struct generation_class *class;
	struct destination_window found;
	char name[SEGMENT_NAME_MAX + 1];

	if (class_index == CLASS_NO_RULE)
		return false;
	class = generation_class(generation, class_index);
	windows_class_name(generation_text(generation, class->name), name);
	if (!states_find(engine->segment, name, strlen(name), &found) || !found.state.begun ||
	    !window_is_by_hand(&found.state.window) ||
	    found.state.window.until_ns <= now_ns)
		return false;
	out->until_ns = found.state.window.until_ns;
	out->observed = class->outbound_observe != 0;
	out->event = found.event;
	memcpy(out->reason, found.reason, sizeof(out->reason));
	return true;
}

/* --- canaries --------------------------------------------------------------------- */

/* A canary whose result did not come by then is given up: a queue manager may be slow
 * to hand mail out, and a delivery may take its time. */
#define CANARY_PATIENCE_NS	(120 * NS_PER_SECOND)

int64_t windows_canary_end_ns(int64_t now_ns) {
	return now_ns + CANARY_PATIENCE_NS;
}

/* Which lane a canary goes by: in the flags, while it is out; there, one more than the
 * lane's place in the list of the mail server, or 0: the lane of 1. */
static uint8_t lane_flags(const struct generation *generation, unsigned mta, uint32_t lane) {
	const struct generation_mta *list = &generation->mtas[mta];

	for (unsigned i = 0; mta < generation->mta_count && i < list->lane_count &&
	     i + 1 <= WINDOW_LANE_FLAGS >> WINDOW_LANE_SHIFT; i++)
		if (list->lanes[i] == lane)
			return (uint8_t)((i + 1) << WINDOW_LANE_SHIFT);
	return 0;
}

bool windows_is_canary_lane(const struct generation *generation, unsigned mta, uint32_t lane,
    const struct destination_state *state) {
	uint8_t flags = state->flags & WINDOW_LANE_FLAGS;

	if (state->window.canary_out == 0 || lane == 0)
		return false;
	return flags == 0 ? lane == 1 : flags == lane_flags(generation, mta, lane);
}

bool windows_issue_canary(struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, unsigned mta, uint32_t lane, int64_t now_ns) {
	struct window_change change;
	struct window_rules rules;
	struct state_lock lock;
	bool due;

	windows_rules(generation, windows_mta(engine, generation, owner),
	    owner, &rules);
	if (windows_lock(&lock, engine, owner, &rules, now_ns, STATES_KNOWN_ONLY, &change) !=
	    STATES_HELD)
		return false;
	due = window_canary_due(&lock.state.window, &rules.settings, now_ns) &&
	    windows_may_send_canary(&lock, now_ns);
	if (due) {
		window_canary_issued(&lock.state.window, &rules.settings,
		    windows_canary_end_ns(now_ns));
		lock.state.flags = (uint8_t)((lock.state.flags & ~WINDOW_LANE_FLAGS) |
		    lane_flags(generation, mta, lane));
		states_store(&lock);
	}
	states_unlock(&lock);
	if (due) {
		windows_report_back(engine, generation, owner, &lock.state, &rules.settings,
		    &change, now_ns);
		engine_count(engine, COUNTER_CANARIES, 1);
	}
	return due;
}

/* --- reports ----------------------------------------------------------------------- */

void windows_listen(struct engine *engine,
    bool (*report)(void *context, const struct window_report *), void *context) {
	engine->window_listener = report;
	engine->window_context = context;
}

/* By what it was held until it came back. */
static uint64_t cause_of_back(const struct engine *engine, const struct window_report *report) {
	struct destination_window found;

	return states_find(engine->segment, report->name, report->name_length, &found) ?
	    found.event : 0;
}

static bool stops_mail(const struct window_report *report) {
	switch (report->what) {
	case WINDOW_DIED:
	case WINDOW_RULE_SUSPENDED:
	case WINDOW_RULE_HELD:
	case WINDOW_TOLD_STOP:
		return true;
	case WINDOW_BY_HAND:
		return manual_stops(report->verb);
	default:
		return false;
	}
}

static bool has_asked(const struct engine *engine) {
	return atomic_load_explicit(&engine->segment->header->counters[
	    COUNTER_OUTBOUND_QUESTIONS], memory_order_relaxed) > 0;
}

struct enforcement windows_enforcement(const struct engine *engine,
    const struct generation *generation, const char *name, size_t length) {
	struct destination_seen seen;
	unsigned bits = 0;

	if (destinations_find(engine->segment, name, length, &seen))
		bits = (unsigned)(seen.cloned_by | seen.other_by);
	return enforcement_of(generation, bits, has_asked(engine));
}

/* Does any mail wait for it? */
static void find_enforcement(const struct engine *engine, struct window_report *report) {
	const struct judgement *judgement = report->judgement;

	if (!stops_mail(report))
		return;
	if (report->class_name != NULL)
		report->enforcement = enforcement_of_class(report->generation,
		    report->class_name, has_asked(engine));
	else if (judgement != NULL && judgement->mta < GENERATION_MTAS_MAX)
		report->enforcement = enforcement_of(report->generation, 1U << judgement->mta,
		    has_asked(engine));
	else
		report->enforcement = windows_enforcement(engine, report->generation,
		    report->name, report->name_length);
	if (report->enforcement.kind != ENFORCEMENT_APPLIED)
		report->observed = true;
}

void windows_report(struct engine *engine, struct window_report *report) {
	find_enforcement(engine, report);
	if (report->what == WINDOW_BACK && report->cause == 0)
		report->cause = cause_of_back(engine, report);
	windows_note(engine, report);
	if (engine->window_listener == NULL || report->silent)
		return;
	if (engine->window_listener(engine->window_context, report))
		engine_decision_logged(engine, report->id);
}

struct window_report windows_report_of(const struct generation *generation,
    const struct window_owner *owner, const struct destination_state *state,
    const struct window_settings *settings, enum window_happened what, int64_t now_ns) {
	const struct window *window = &state->window;
	bool stopped = window->state == WINDOW_DEAD || window->state == WINDOW_HELD;

	return (struct window_report){
		.what = what, .generation = generation,
		.name = owner->name, .name_length = strlen(owner->name),
		.state = (enum window_state)window->state,
		.window = window_now(window, settings, now_ns), .ceiling = window->ceiling,
		.success = window->success, .failure = window->failure,
		.fail_cohorts = window->fail_cohorts,
		.for_ns = !stopped || window->until_ns == INT64_MAX ? 0 :
		    window->until_ns - now_ns,
		.observed = windows_observed(generation, owner),
		.reason = "", .at_ns = now_ns,
	};
}

void windows_report_back(struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, const struct destination_state *state,
    const struct window_settings *settings, const struct window_change *change,
    int64_t now_ns) {
	struct window_report report;

	if (!change->revived)
		return;
	report = windows_report_of(generation, owner, state, settings, WINDOW_BACK, now_ns);
	windows_report(engine, &report);
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What people do to destinations, recipients and classes.
 * MODEL    It stands in the segment as what was learned does, with a flag that keeps it
 *          from being given up for another: so it survives a restart.  A destination
 *          that is resumed remembers when, as results of what was tried before are
 *          no news.  A class is held as a destination of the name "class:NAME", which
 *          mail never has.
 * ERRORS   Each is told; nothing was changed then.
 * THREADS  Any.
 */
#include <string.h>

#include "base/pace_text.h"
#include "base/text.h"
#include "engine/decision/decided.h"
#include "engine/journal/journal_manual.h"
#include "engine/cluster/knowledge.h"
#include "engine/destination/windows_internal.h"
#include "segment/destination/recipients.h"

struct hand {
	struct engine *engine;
	const struct generation *generation;
	const struct by_hand *request;
	struct window_owner *owner;
	struct window_rules rules;
	int64_t now_ns;
	uint64_t id;		/* of what is done, where that is remembered; 0: not yet given */
	char reason[WINDOW_REASON_MAX + 1];
};

static int64_t until_ns(const struct hand *hand) {
	if (hand->request->for_ns > 0)
		return hand->now_ns + hand->request->for_ns;
	return hand->request->verb == MANUAL_HOLD ? INT64_MAX :
	    hand->now_ns + hand->rules.settings.suspend_ns;
}

static void tell(const struct hand *hand, const struct window_report *report) {
	struct window_report told = *report;

	told.what = WINDOW_BY_HAND;
	told.verb = hand->request->verb;
	told.uid = hand->request->uid;
	if (told.verb == MANUAL_LIMIT)
		told.for_ns = hand->request->for_ns;
	told.reason = hand->reason;
	told.id = hand->id;
	told.class_name = hand->request->class ? hand->request->name : NULL;
	told.at_ns = hand->now_ns;
	windows_report(hand->engine, &told);
}

/* --- destinations ------------------------------------------------------------------ */

static void suspend(const struct hand *hand, struct destination_state *state) {
	struct window *window = &state->window;

	/* whatever stopped it before: from now on this does */
	window_resume(window, &hand->rules.settings, 0);
	if (hand->request->verb == MANUAL_HOLD)
		window_hold(window, WINDOW_CAUSE_HAND, until_ns(hand));
	else
		window_suspend(window, WINDOW_CAUSE_HAND, until_ns(hand));
}

static void pace_end(struct destination_state *state) {
	memset(&state->pace, 0, sizeof(state->pace));
	state->flags &= (uint8_t)~DESTINATION_PACE;
}

static void resume(const struct hand *hand, struct destination_state *state) {
	uint32_t window = hand->request->window;

	if ((state->flags & DESTINATION_PACE) != 0)
		pace_end(state);
	if (window != BY_HAND_UNSET || window_is_shut(&state->window))
		window_resume(&state->window, &hand->rules.settings,
		    window == BY_HAND_UNSET ? 0 : window);
	state->resumed_ns = hand->now_ns;
}

static void forget(const struct hand *hand, struct destination_state *state) {
	memset(&state->window, 0, sizeof(state->window));
	memset(&state->pace, 0, sizeof(state->pace));
	state->begun = false;
	state->flags = 0;
	state->ok = state->failed = state->held = 0;
	state->resumed_ns = hand->now_ns;
}

static void set(const struct hand *hand, struct destination_state *state) {
	const struct by_hand *request = hand->request;
	struct window *window = &state->window;

	if (request->ceiling != BY_HAND_UNSET) {
		window_set_ceiling(window, &hand->rules.settings, request->ceiling,
		    hand->now_ns);
		state->flags &= (uint8_t)~DESTINATION_CEILING;
		if (request->ceiling != 0)
			state->flags |= DESTINATION_CEILING;
	}
	if (request->window != BY_HAND_UNSET)
		window_set_concurrency(window, &hand->rules.settings, request->window);
	if (request->pace_ns != 0)
		pace_end(state);
	if (request->pace_ns > 0) {
		pace_set(&state->pace, &hand->rules.pace, request->pace_ns, hand->now_ns);
		state->flags |= DESTINATION_PACE;
	}
	if (request->for_ns > 0)
		window->canary_ns = hand->now_ns + request->for_ns;
}

static void change(const struct hand *hand, struct state_lock *lock) {
	struct destination_state *state = &lock->state;

	switch (hand->request->verb) {
	case MANUAL_SUSPEND:
	case MANUAL_HOLD:
		suspend(hand, state);
		lock->reason = hand->reason;
		lock->event = hand->id;
		break;
	case MANUAL_RESUME:
		resume(hand, state);
		lock->reason = hand->reason;
		break;
	case MANUAL_FORGET:
		forget(hand, state);
		lock->reason = "";
		break;
	case MANUAL_LIMIT:
		set(hand, state);
		if (hand->request->reason != NULL || hand->request->pace_ns != 0)
			lock->reason = hand->reason;
		break;
	case MANUAL_NONE:
	case MANUAL_VERBS:
		break;
	}
}

/* Others may hold what nobody told this node of: a resume is for them, too. */
static bool is_for_others(const struct hand *hand) {
	const char *name = hand->owner->name;

	return hand->request->verb == MANUAL_RESUME && !hand->request->again &&
	    generation_has_cluster(hand->generation) &&
	    knowledge_tells_of(hand->generation, name, strlen(name));
}

static enum by_hand_error act(struct hand *hand) {
	bool for_others = is_for_others(hand);
	bool create = for_others || (hand->request->verb != MANUAL_RESUME &&
	    hand->request->verb != MANUAL_FORGET);
	struct destination_window known;
	struct window_change ignored;
	struct window_report report;
	struct state_lock lock;
	struct window was;
	enum states_locked locked;

	if (!create && !states_find(hand->engine->segment, hand->owner->name,
	    strlen(hand->owner->name), &known))
		return BY_HAND_NOTHING;
	locked = windows_lock(&lock, hand->engine, hand->owner, &hand->rules, hand->now_ns,
	    create ? STATES_CREATE : STATES_KNOWN_ONLY, &ignored);
	if (locked != STATES_HELD)
		return locked == STATES_FULL ? BY_HAND_NO_ROOM :
		    locked == STATES_UNKNOWN ? BY_HAND_NOTHING : BY_HAND_BUSY;
	if (hand->request->verb == MANUAL_RESUME && hand->request->window == BY_HAND_UNSET &&
	    !for_others && !window_is_shut(&lock.state.window) &&
	    (lock.state.flags & DESTINATION_PACE) == 0) {
		states_unlock(&lock);
		return BY_HAND_NOTHING;
	}
	hand->id = decided_claim_event(hand->engine);
	was = lock.state.window;
	change(hand, &lock);
	states_store(&lock);
	states_unlock(&lock);
	report = windows_report_of(hand->generation, hand->owner, &lock.state,
	    &hand->rules.settings, WINDOW_BY_HAND, hand->now_ns);
	report.before = was.concurrency;
	report.ceiling_before = was.ceiling;
	if (hand->request->verb == MANUAL_RESUME && was.state == WINDOW_HELD)
		report.was_held_until_ns = was.until_ns;
	tell(hand, &report);
	return BY_HAND_DONE;
}

/* Whose window it shares.  What is held by hand stands alone, and so does what is about
 * to be. */
static bool is_shared(struct hand *hand) {
	struct window_owner shared;

	if (manual_stops(hand->request->verb))
		return false;
	windows_owner(hand->engine, hand->generation, hand->owner->name,
	    strlen(hand->owner->name), &shared);
	if (strcmp(shared.name, hand->owner->name) == 0)
		return false;
	*hand->owner = shared;
	return true;
}

/* Moves the name behind a transport's.  False: there is none of that name, for what is to begin
 * now. */
static bool is_of_transport(const struct hand *hand, const char **name, size_t *length) {
	size_t prefix = generation_transport_prefix(*name, *length);

	if (prefix == 0)
		return true;
	if (hand->request->verb != MANUAL_RESUME && hand->request->verb != MANUAL_FORGET &&
	    generation_find_transport(hand->generation, GENERATION_MTAS_MAX, *name,
	    prefix - 1) == GENERATION_MTAS_MAX)
		return false;
	*name += prefix;
	*length -= prefix;
	return true;
}

static enum by_hand_error destination(struct hand *hand) {
	const struct by_hand *request = hand->request;
	const char *name = request->name;
	size_t length = request->name_length;
	struct address address;
	const char *bare = name;
	char domain[JUDGE_NAME_MAX + 1], ignored[JUDGE_NAME_MAX + 1];
	size_t bare_length = text_bare_host(&bare, length);

	/* "[host.example]" is that host, but "[192.0.2.1]:25" a relay */
	if (address_parse(bare, bare_length, &address)) {
		if (bare == name) {
			char text[ADDRESS_TEXT_MAX];

			address_format(&address, text);
			length = text_append(domain, sizeof(domain), 0, "[%s]", text);
			name = domain;
		}
	} else if (memchr(bare, '[', bare_length) == NULL) {
		name = bare;
		length = bare_length;
	}
	if (!windows_owner_named(hand->generation, name, length, hand->owner) ||
	    strncmp(hand->owner->name, WINDOW_CLASS_PREFIX, strlen(WINDOW_CLASS_PREFIX)) == 0 ||
	    !is_of_transport(hand, &name, &length) || (hand->owner->kind == DESTINATION_DOMAIN &&
	    !judge_domain((struct span){ name, length }, ignored)))
		return BY_HAND_BAD_NAME;
	if (hand->owner->kind == DESTINATION_PROVIDER && hand->owner->provider == JUDGE_NONE)
		return BY_HAND_BAD_NAME;
	if (is_shared(hand))
		return BY_HAND_SHARED;
	windows_rules(hand->generation, windows_mta(hand->engine, hand->generation, hand->owner),
	    hand->owner, &hand->rules);
	return act(hand);
}

/* --- classes ------------------------------------------------------------------------ */

static enum by_hand_error class(struct hand *hand) {
	const struct by_hand *request = hand->request;
	char name[GENERATION_CLASS_NAME_MAX + 1], full[SEGMENT_NAME_MAX + 1];
	enum by_hand_error result;

	if (request->verb == MANUAL_LIMIT || request->window != BY_HAND_UNSET)
		return BY_HAND_SENSELESS;
	if (!text_copy(name, sizeof(name), request->name, request->name_length))
		return BY_HAND_BAD_NAME;
	windows_class_name(name, full);
	/* what is held can be resumed when it is configured no more */
	if ((manual_stops(request->verb)) &&
	    generation_find_class(hand->generation, name) == UINT32_MAX)
		return BY_HAND_BAD_NAME;
	if (!windows_owner_named(hand->generation, full, strlen(full), hand->owner))
		return BY_HAND_BAD_NAME;
	windows_rules(hand->generation, GENERATION_MTAS_MAX, hand->owner, &hand->rules);
	result = act(hand);
	hand->owner->kind = DESTINATION_NONE;
	return result;
}

/* --- recipients --------------------------------------------------------------------- */

static enum by_hand_error hold_recipient(struct hand *hand) {
	struct recipient_hold hold = {
		.address = hand->request->name, .length = hand->request->name_length,
		.rule = RECIPIENT_NO_RULE,
		.until_ns = until_ns(hand), .reason = hand->reason,
	};

	hold.event = hand->id = decided_claim_event(hand->engine);
	return recipients_hold(hand->engine->segment, &hold, hand->now_ns) ?
	    BY_HAND_DONE : BY_HAND_NO_ROOM;
}

/* One that the tables can keep. */
static bool is_address(const struct by_hand *request) {
	for (size_t i = 0; i < request->name_length; i++)
		if ((unsigned char)request->name[i] <= ' ' || request->name[i] == 0x7f)
			return false;
	return request->name[0] != '@';
}

static enum by_hand_error recipient(struct hand *hand) {
	const struct by_hand *request = hand->request;
	const char *at = memrchr(request->name, '@', request->name_length);
	size_t after = request->name_length - (size_t)(at - request->name) - 1;
	struct window_report report = { .generation = hand->generation,
		.name = request->name, .name_length = request->name_length,
		.state = WINDOW_OPEN,
		.observed = hand->generation->outbound_observe != 0 };
	bool stops = manual_stops(request->verb);
	enum by_hand_error result = BY_HAND_DONE;
	struct recipient_held held;

	if (request->verb == MANUAL_LIMIT || request->window != BY_HAND_UNSET)
		return BY_HAND_SENSELESS;
	if (!windows_owner_named(hand->generation, at + 1, after, hand->owner) ||
	    request->name_length > RECIPIENT_MAX || !is_address(request))
		return BY_HAND_BAD_NAME;
	windows_rules(hand->generation, GENERATION_MTAS_MAX, hand->owner, &hand->rules);
	hand->owner->kind = DESTINATION_NONE;
	if (request->verb == MANUAL_RESUME && recipients_find(hand->engine->segment,
	    request->name, request->name_length, hand->now_ns, &held))
		report.was_held_until_ns = held.until_ns;
	if (stops)
		result = hold_recipient(hand);
	else if (!recipients_release(hand->engine->segment, request->name,
	    request->name_length, hand->now_ns))
		result = BY_HAND_NOTHING;
	if (result != BY_HAND_DONE)
		return result;
	if (stops) {
		report.state = WINDOW_HELD;
		report.for_ns = until_ns(hand) == INT64_MAX ? 0 : until_ns(hand) - hand->now_ns;
	}
	tell(hand, &report);
	return result;
}

/* After it was done, so that what has seen it is never older. */
static void write_down(const struct hand *hand) {
	const struct by_hand *request = hand->request;
	bool is_domain = hand->owner->kind != DESTINATION_NONE;
	const char *name = is_domain ? hand->owner->name : request->name;
	size_t length = is_domain ? strlen(name) : request->name_length;
	struct journal_manual action = { .verb = (uint8_t)request->verb,
		.what = is_domain ? JOURNAL_ON_DESTINATION : request->class ?
		    JOURNAL_ON_CLASS : JOURNAL_ON_RECIPIENT,
		.who = (uint32_t)request->uid,
		.window = request->window, .ceiling = request->ceiling,
		.name = { name, (uint16_t)length },
		.reason = { hand->reason, (uint16_t)strlen(hand->reason) } };

	if (manual_stops(request->verb))
		action.until_ns = until_ns(hand);
	else if (request->verb == MANUAL_LIMIT && request->for_ns > 0)
		action.until_ns = hand->now_ns + request->for_ns;
	journal_manual_write_down(hand->engine->manual, &action, hand->now_ns);
}

/* Unless the administrator gave a reason. */
static const char *usual_reason(const struct by_hand *request, char out[WINDOW_REASON_MAX + 1]) {
	char pace[PACE_TEXT_MAX];

	if (request->verb == MANUAL_SUSPEND)
		return "suspended by an administrator";
	if (request->verb == MANUAL_HOLD)
		return "held by an administrator";
	if (request->pace_ns < 0)
		return "pace ended by an administrator";
	out[0] = '\0';
	if (request->pace_ns > 0)
		(void)text_append(out, WINDOW_REASON_MAX + 1, 0, "pace set to %s by an administrator",
		    pace_text(request->pace_ns, pace));
	return out;
}

enum by_hand_error windows_by_hand(struct engine *engine, const struct generation *generation,
    const struct by_hand *request, int64_t now_ns, struct window_owner *owner) {
	struct hand hand = { .engine = engine, .generation = generation, .request = request,
		.owner = owner, .now_ns = now_ns };
	char usual[WINDOW_REASON_MAX + 1];
	const char *reason = request->reason != NULL ? request->reason : usual_reason(request, usual);
	enum by_hand_error result;

	*owner = (struct window_owner){ .kind = DESTINATION_NONE };
	(void)windows_reason(reason, strlen(reason), hand.reason);
	if (request->class)
		result = class(&hand);
	else if (request->name_length > 0 &&
	    memchr(request->name, '@', request->name_length) != NULL)
		result = recipient(&hand);
	else
		result = destination(&hand);
	if (result == BY_HAND_DONE && engine->manual != NULL)
		write_down(&hand);
	return result;
}

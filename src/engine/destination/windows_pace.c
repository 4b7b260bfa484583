/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The pace of messages to a destination: tokens, and what a journal kept of it.
 * MODEL    It stands beside the window in the owner's slot; policy/window/pace.h is the law.
 * ERRORS   State that cannot be had: the message goes.
 * THREADS  Any.
 */
#include <string.h>

#include "engine/destination/windows_internal.h"
#include "segment/hints/lane_uses.h"
#include "segment/hints/paced.h"

/* Else there is nothing to take, and results alone are counted. */
static bool is_in_force(const struct pace *pace, const struct window_rules *rules) {
	return rules->pace.limit.count > 0 || pace_is_learned(pace);
}

int64_t windows_pace_take_held(struct state_lock *lock, const struct window_rules *rules,
    int64_t now_ns) {
	struct pace *pace = &lock->state.pace;

	if (!is_in_force(pace, rules))
		return 0;
	return pace_take(pace, &rules->pace, now_ns);
}

void windows_pace_count(struct state_lock *lock, const struct window_rules *rules,
    const struct window_owner *owner, int64_t now_ns) {
	if (is_in_force(&lock->state.pace, rules) &&
	    paced_find(lock->segment, lane_uses_hash(lock->segment, owner->name,
		strlen(owner->name)), now_ns) == NULL)
		(void)windows_pace_take_held(lock, rules, now_ns);
}

/* Before anything is locked. */
static bool may_be_paced(const struct engine *engine, const struct window_owner *owner,
    const struct window_rules *rules) {
	struct destination_window found;

	return rules->pace.limit.count > 0 ||
	    (states_find(engine->segment, owner->name, strlen(owner->name), &found) &&
	    pace_is_learned(&found.state.pace));
}

void windows_pace_take(struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, uint32_t most, int64_t now_ns, struct window_tokens *out) {
	struct window_change change;
	struct window_rules rules;
	struct state_lock lock;

	*out = (struct window_tokens){ .taken = most };
	if (owner->kind == DESTINATION_NONE)
		return;
	windows_rules(generation, windows_mta(engine, generation, owner), owner, &rules);
	if (!may_be_paced(engine, owner, &rules) || windows_lock(&lock, engine, owner, &rules,
	    now_ns, STATES_CREATE, &change) != STATES_HELD)
		return;
	out->is_paced = true;
	out->taken = 0;
	while (out->taken < most &&
	    (out->wait_ns = windows_pace_take_held(&lock, &rules, now_ns)) == 0)
		out->taken++;
	states_store(&lock);
	states_unlock(&lock);
	windows_report_back(engine, generation, owner, &lock.state, &rules.settings, &change,
	    now_ns);
}

void windows_pace_see(const struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, uint32_t most, int64_t now_ns, struct window_tokens *out) {
	struct destination_window found;
	struct window_rules rules;
	struct pace pace = { { 0, 0 } };

	*out = (struct window_tokens){ .taken = most };
	if (owner->kind == DESTINATION_NONE)
		return;
	windows_rules(generation, windows_mta(engine, generation, owner), owner, &rules);
	if (states_find(engine->segment, owner->name, strlen(owner->name), &found))
		pace = found.state.pace;
	if (!rules.is_paced && !pace_is_learned(&pace))
		return;
	out->is_paced = true;
	out->taken = 0;
	while (out->taken < most && (out->wait_ns = pace_take(&pace, &rules.pace, now_ns)) == 0)
		out->taken++;
}

void windows_pace_restore(const struct engine *engine, const struct generation *generation,
    const char *name, int64_t age_ns, int64_t now_ns, struct pace *pace) {
	struct window_owner owner;
	struct window_rules rules;

	if (pace_changed_ns(pace) == 0 ||
	    !windows_owner_named(generation, name, strlen(name), &owner)) {
		*pace = (struct pace){ { 0, 0 } };
		return;
	}
	windows_rules(generation, windows_mta(engine, generation, &owner), &owner, &rules);
	pace_restore(pace, &rules.pace, age_ns, now_ns);
}

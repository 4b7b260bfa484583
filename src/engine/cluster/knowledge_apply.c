/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What the nodes say together, put into the segment of this one.
 * MODEL    One transaction on the destination's slot, and only on what was looked at: where
 *          it changed meanwhile, that is looked at first.  What was put there is noted, so
 *          that it is not taken for our own.
 * ERRORS   A slot that cannot be had: it comes again; where the table is full, when all that
 *          the nodes know is compared next.
 * THREADS  One.
 */
#include "engine/cluster/knowledge_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/decision/decided.h"

#define NEAR_NS		(2 * NS_PER_SECOND)
#define ROUNDED_NS	(200 * NS_PER_MS)

struct applying {
	struct knowledge_store *store;
	struct knowledge_entry *entry;
	struct knowledge m;
	bool stops, lifts, limits;
	bool full;			/* there is no slot for it */
	uint64_t resumed_stamp;		/* of the resume that lifts it; 0: nobody resumed it */
	struct window_owner owner;
	struct window_rules rules;
	struct state_lock lock;
	char reason[WINDOW_REASON_MAX + 1];
	int64_t now_ns;
};

/* The decision there that stops it, and by what it was made (enum decided_by). */
struct origin {
	uint64_t id;
	uint8_t by;
};

static struct origin origin_of(const struct knowledge *m, const struct knowledge_told *told) {
	static const uint8_t bys[] = { [KNOWLEDGE_BY_UNKNOWN] = DECIDED_BY_OTHERS,
		[KNOWLEDGE_BY_COHORTS] = DECIDED_BY_COHORTS,
		[KNOWLEDGE_BY_RULE] = DECIDED_BY_RULE };

	if (told == NULL)
		return (struct origin){ 0, DECIDED_BY_OTHERS };
	if (m->by_hand)
		return (struct origin){ told->manual_id, DECIDED_BY_HAND_OF };
	return (struct origin){ told->learned_id, bys[told->learned_by] };
}

static bool is_near(int64_t a, int64_t b) {
	return a == b || (a != INT64_MAX && b != INT64_MAX && llabs(a - b) < NEAR_NS);
}

/* "mx2: 421 too busy", "mx2: resumed by hand"; our own as it was */
static void find_reason(struct applying *a) {
	const struct knowledge_told *told = knowledge_origin(a->entry,
	    a->stops ? a->m.stamp : a->resumed_stamp);
	char node[SHARED_NODE_NAME_MAX + 1], text[WINDOW_REASON_MAX + 1];
	bool ours = told != NULL && told->node == a->store->own;

	/* our own resume leaves no reason either */
	if (!a->stops && (told == NULL || ours))
		return;
	(void)shared_node_name(a->store->engine->segment, told == NULL ? 0 : told->node, node);
	(void)text_append(text, sizeof(text), 0, "%s%s%s", ours ? "" : node, ours ? "" : ": ",
	    told == NULL ? "" : !a->stops ? "resumed by an administrator" :
	    a->m.by_hand ? told->manual_reason : told->learned_reason);
	(void)windows_reason(text, strlen(text), a->reason);
}

static bool is_ours(const struct applying *a, unsigned node) {
	return node == 0 || node == a->store->own;
}

static void decide(struct applying *a) {
	const struct knowledge_stand *stand = &a->entry->stand;
	const struct knowledge *m = &a->m;

	bool says_stop = m->state != KNOWLEDGE_NONE && m->until_ns > a->now_ns;

	a->stops = says_stop && !(stand->stopped && stand->by_hand == m->by_hand &&
	    is_near(stand->until_ns, m->until_ns));
	/* what Redis has lost was not lifted by anybody */
	a->lifts = !says_stop && stand->stopped && stand->until_ns > a->now_ns &&
	    (m->resumed_stamp != 0 || a->entry->in_force.state != KNOWLEDGE_NONE);
	/* one of before does not lift what came behind it */
	a->resumed_stamp = a->lifts && m->resumed_stamp > a->entry->in_force.resumed_stamp ?
	    m->resumed_stamp : 0;
	/* who withdraws its ceiling ends what it said, and no other's */
	a->limits = m->ceiling != stand->ceiling && (m->ceiling != 0 || m->ceiling_by_hand ||
	    (a->entry->in_force.ceiling == stand->ceiling &&
	    !is_ours(a, a->entry->ceiling_node)));
}

/* --- inside ---------------------------------------------------------------------------- */

static void stop(struct applying *a) {
	struct destination_state *state = &a->lock.state;
	enum window_cause cause = a->m.by_hand ? WINDOW_CAUSE_HAND : WINDOW_CAUSE_NODE;

	/* whatever stopped it before: from now on this does */
	if (a->entry->stand.stopped)
		window_resume(&state->window, &a->rules.settings, 0);
	if (a->m.state == KNOWLEDGE_HELD)
		window_hold(&state->window, cause, a->m.until_ns);
	else
		window_suspend(&state->window, cause, a->m.until_ns);
	a->lock.reason = a->reason;
	a->lock.event = decided_claim_event(a->store->engine);
}

static void lift(struct applying *a) {
	struct destination_state *state = &a->lock.state;

	window_resume(&state->window, &a->rules.settings, 0);
	/* what was tried before somebody resumed it is no news */
	if (a->m.resumed_stamp != 0)
		state->resumed_ns = a->now_ns;
	if (a->resumed_stamp != 0)
		a->lock.reason = a->reason;
}

static void limit(struct applying *a) {
	struct destination_state *state = &a->lock.state;

	window_set_ceiling(&state->window, &a->rules.settings, a->m.ceiling, a->now_ns);
	state->flags &= (uint8_t)~DESTINATION_CEILING;
	if (a->m.ceiling_by_hand)
		state->flags |= DESTINATION_CEILING;
}

static void change(struct applying *a) {
	if (a->stops)
		stop(a);
	if (a->lifts)
		lift(a);
	if (a->limits)
		limit(a);
}

/* --- all of it ---------------------------------------------------------------------------- */

/* Whose it is: of what others said only. */
static void note_origin(struct applying *a) {
	struct knowledge_store *store = a->store;
	const struct knowledge *m = &a->m;
	const struct knowledge_told *holder = m->state == KNOWLEDGE_NONE ? NULL :
	    knowledge_origin(a->entry, m->stamp);
	const struct knowledge_told *limiter = m->ceiling == 0 ? NULL :
	    knowledge_origin(a->entry, m->ceiling_stamp);
	unsigned hold = holder == NULL || holder->node == store->own ? SHARED_OURS :
	    holder->node;
	unsigned ceiling = limiter == NULL || limiter->node == store->own ? SHARED_OURS :
	    limiter->node;
	struct shared_slot *slot = knowledge_slot(store, a->entry,
	    hold != SHARED_OURS || ceiling != SHARED_OURS);

	struct origin origin = origin_of(m, holder);

	a->entry->ceiling_node = (uint8_t)ceiling;
	if (slot == NULL)
		return;
	/* what stands there though nobody says it any more is still whose it was */
	if (m->state != KNOWLEDGE_NONE || !a->entry->stand.stopped) {
		shared_set_hold(slot, hold, m->state != KNOWLEDGE_NONE ? m->until_ns : 0);
		if (hold != SHARED_OURS)
			shared_set_decision(slot, origin.id, origin.by);
	}
	if (m->ceiling != 0 || a->entry->stand.ceiling == 0)
		shared_set_ceiling(slot, ceiling, m->ceiling);
}

/* `stamp`: of the statement that says so. */
static void tell(struct applying *a, enum window_happened what, const struct window *was,
    uint64_t id, uint64_t stamp) {
	const struct knowledge_told *told = knowledge_origin(a->entry, stamp);
	struct origin origin = origin_of(&a->m, told);
	char node[SHARED_NODE_NAME_MAX + 1];
	struct window_report report = windows_report_of(a->store->generation, &a->owner,
	    &a->lock.state, &a->rules.settings, what, a->now_ns);

	report.before = was->concurrency;
	report.ceiling_before = was->ceiling;
	report.id = id;
	report.reason = a->reason;
	report.node = shared_node_name(a->store->engine->segment,
	    told == NULL ? 0 : told->node, node);
	if (what == WINDOW_TOLD_STOP) {
		report.origin = origin.id;
		report.by = origin.by;
	}
	windows_report(a->store->engine, &report);
}

static void tell_all(struct applying *a, const struct window *was, uint64_t id) {
	engine_count(a->store->engine, COUNTER_KNOWLEDGE_APPLIED, 1);
	if (a->stops)
		tell(a, WINDOW_TOLD_STOP, was, id, a->m.stamp);
	if (a->lifts)
		tell(a, WINDOW_TOLD_BACK, was, 0, a->resumed_stamp);
	if (a->limits)
		tell(a, WINDOW_TOLD_CEILING, was, 0, a->m.ceiling_stamp);
}

/* False: it is to be tried again. */
static bool transact(struct applying *a) {
	struct knowledge_entry *entry = a->entry;
	struct knowledge_stand now;
	struct window_change ignored;
	enum states_locked locked;
	struct window was;
	uint64_t id;

	windows_rules(a->store->generation, windows_mta(a->store->engine, a->store->generation,
	    &a->owner), &a->owner, &a->rules);
	locked = windows_lock(&a->lock, a->store->engine, &a->owner, &a->rules, a->now_ns,
	    STATES_CREATE, &ignored);
	if (locked != STATES_HELD) {
		a->full = locked == STATES_FULL;
		if (a->full && !entry->unplaced)
			engine_count(a->store->engine, COUNTER_KNOWLEDGE_UNSHARED, 1);
		return locked != STATES_BUSY;
	}
	now = knowledge_stand_of(&a->lock.state, a->now_ns);
	/* time may have ended what stood there; all else is looked at first */
	if (!entry->is_known || entry->stand.until_ns <= a->now_ns) {
		entry->stand.stopped = entry->stand.by_hand = entry->stand.held = false;
		entry->stand.until_ns = 0;
	}
	if (entry->is_known && !knowledge_same_stand(&now, &entry->stand)) {
		states_unlock(&a->lock);
		return false;
	}
	was = a->lock.state.window;
	change(a);
	id = a->lock.event;
	states_store(&a->lock);
	entry->stand = knowledge_stand_of(&a->lock.state, a->now_ns);
	/* in the slot it is rounded up: it is not to be taken for a resume of our own */
	if (a->lifts)
		entry->stand.resumed_ns += ROUNDED_NS;
	entry->is_known = true;
	states_unlock(&a->lock);
	note_origin(a);
	tell_all(a, &was, id);
	return true;
}

void knowledge_apply(struct knowledge_store *store, struct knowledge_entry *entry,
    int64_t now_ns) {
	struct applying a = { .store = store, .entry = entry, .now_ns = now_ns };
	struct destination_window found;

	/* what stands there now may be ours, and not told yet */
	if (!entry->is_known && states_find(store->engine->segment, entry->name,
	    strlen(entry->name), &found) && found.state.begun)
		knowledge_look_at(store, &found);
	knowledge_put(entry, now_ns, &a.m);
	decide(&a);
	if (a.stops || a.lifts)
		find_reason(&a);
	if ((a.stops || a.lifts || a.limits) && knowledge_is_shared(store->generation,
	    entry->name, strlen(entry->name), &a.owner) && !transact(&a))
		return;
	if (!a.stops && !a.lifts && !a.limits)
		note_origin(&a);
	knowledge_set_unplaced(store, entry, a.full);
	entry->in_force = a.m;
	knowledge_set_applies(store, entry, false);
	/* at once: nobody is to use all of it here first */
	knowledge_divide(store, entry, now_ns);
}

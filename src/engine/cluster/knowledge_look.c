/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What changed on this node, and is to be told.
 * MODEL    A destination that changed is compared with what stood there when it was looked
 *          at last; what was put there for another node stood there then.  The difference
 *          is ours: it becomes the newest statement of all.
 * ERRORS   None.
 * THREADS  One.
 */
#include "engine/cluster/knowledge_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Ends that went to another node and back, or through tenths of seconds. */
#define NEAR_NS		(3 * NS_PER_SECOND)

struct knowledge_stand knowledge_stand_of(const struct destination_state *state,
    int64_t now_ns) {
	const struct window *window = &state->window;
	struct knowledge_stand stand = { .resumed_ns = state->resumed_ns };

	if (!state->begun)
		return stand;
	stand.stopped = window_is_shut(window) && window->until_ns > now_ns;
	if (stand.stopped) {
		stand.by_hand = window_is_by_hand(window);
		stand.held = window->state == WINDOW_HELD;
		stand.until_ns = window->until_ns;
	}
	/* a slow one is what this node's mail meets */
	stand.ceiling = window->slow_ceiling ? 0 : window->ceiling;
	stand.told = stand.ceiling != 0 && (state->flags & DESTINATION_CEILING) != 0;
	return stand;
}

static bool same_stop(const struct knowledge_stand *a, const struct knowledge_stand *b) {
	return a->stopped == b->stopped && a->by_hand == b->by_hand && a->held == b->held &&
	    a->until_ns == b->until_ns;
}

bool knowledge_same_stand(const struct knowledge_stand *a, const struct knowledge_stand *b) {
	return same_stop(a, b) && a->ceiling == b->ceiling && a->told == b->told;
}

static bool is_near(int64_t a, int64_t b) {
	return a == b || (a != INT64_MAX && b != INT64_MAX && llabs(a - b) < NEAR_NS);
}

static void copy_stop(struct knowledge_stand *to, const struct knowledge_stand *from) {
	to->stopped = from->stopped;
	to->by_hand = from->by_hand;
	to->held = from->held;
	to->until_ns = from->until_ns;
}

/* By hand, put here for another node: only a resume ended it early. */
static bool stood_here(const struct shared_seen *shared, const struct knowledge *m) {
	return m->by_hand && shared->known && shared->hold_node != SHARED_OURS &&
	    (m->until_ns == INT64_MAX || is_near(m->until_ns, shared->hold_until_ns));
}

/* "mx2: 421 too busy", of a node that said something of it: put here for that one. */
static bool names_another(const struct knowledge_store *store,
    const struct knowledge_entry *entry, const char *reason) {
	char node[SHARED_NODE_NAME_MAX + 1];

	for (unsigned i = 0; i < entry->count; i++) {
		size_t length;

		if (entry->told[i].node == store->own)
			continue;
		length = strlen(shared_node_name(store->engine->segment, entry->told[i].node,
		    node));
		if (length > 0 && strncmp(reason, node, length) == 0 &&
		    strncmp(reason + length, ": ", 2) == 0)
			return true;
	}
	return false;
}

/* What stands here has been told long since, by this node or another, whoever lifted it
 * meanwhile: it comes from the journal, or from before the role ran. */
static bool was_told(const struct knowledge_store *store, const struct knowledge_entry *entry,
    const struct knowledge_stand *now, const struct destination_window *window) {
	const struct knowledge_told *own = NULL;

	for (unsigned i = 0; i < entry->count; i++)
		if (entry->told[i].node == store->own)
			own = &entry->told[i];
	if (own != NULL && now->by_hand && own->record.manual.stamp != 0 &&
	    own->record.manual.what == (now->held ? KNOWLEDGE_HOLD : KNOWLEDGE_SUSPEND) &&
	    is_near(own->record.manual.until_ns, now->until_ns))
		/* one of the same words may be a new one, where an earlier was lifted, but for
		 * one of the same decision */
		return (window->event != 0 && own->manual_id == window->event) ||
		    (now->resumed_ns == 0 && strcmp(own->manual_reason, window->reason) == 0);
	if (own != NULL && !now->by_hand && own->record.learned.stamp != 0 &&
	    is_near(own->record.learned.until_ns, now->until_ns))
		return true;
	return names_another(store, entry, window->reason);
}

/* Resumed just now, of a destination of which nothing was known. */
static bool is_fresh(const struct knowledge_store *store, const struct knowledge_stand *now) {
	return store->heard && !now->stopped && now->resumed_ns > store->heard_ns &&
	    store->now_ns - now->resumed_ns < KNOWLEDGE_FRESH_NS;
}

/* The first look: what stands there is ours unless somebody said it, or an earlier life of
 * this role put it there for another node. */
static void settle(struct knowledge_store *store, struct knowledge_entry *entry,
    const struct knowledge_stand *now, const struct destination_window *window,
    int64_t now_ns) {
	const struct shared_seen *shared = &window->shared;
	struct knowledge_stand *seen = &entry->stand;
	const struct knowledge_told *origin;
	struct knowledge m;
	bool says_stop;

	knowledge_put(entry, now_ns, &m);
	says_stop = m.state != KNOWLEDGE_NONE;
	origin = knowledge_origin(entry, m.stamp);
	*seen = (struct knowledge_stand){ .resumed_ns = now->resumed_ns };
	if (now->stopped && ((says_stop && m.by_hand == now->by_hand &&
	    is_near(m.until_ns, now->until_ns)) || (shared->hold_node != SHARED_OURS &&
	    (is_near(shared->hold_until_ns, now->until_ns) ||
	    now->until_ns == INT64_MAX)) || was_told(store, entry, now, window)))
		copy_stop(seen, now);
	/* resumed here while nobody could tell */
	if (says_stop && !now->stopped && now->resumed_ns != 0 && origin != NULL &&
	    (origin->node == store->own || stood_here(shared, &m))) {
		seen->stopped = true;
		seen->until_ns = m.until_ns;
		seen->resumed_ns = 0;
	}
	if (is_fresh(store, now))
		seen->resumed_ns = 0;
	if (now->ceiling != 0 && (m.ceiling == now->ceiling ||
	    (shared->ceiling_node != SHARED_OURS && shared->ceiling == now->ceiling))) {
		seen->ceiling = now->ceiling;
		seen->told = now->told;
	}
	entry->is_known = true;
	knowledge_set_applies(store, entry, true);
}

static uint64_t next_stamp(struct knowledge_store *store) {
	uint64_t next = knowledge_next_stamp(store->last_stamp, store->stamp_node);

	if (next <= KNOWLEDGE_STAMP_MAX)
		store->last_stamp = next;
	return store->last_stamp;
}

/* True: a statement was made. */
static bool tell_stop(struct knowledge_store *store, struct knowledge_told *own,
    const struct knowledge_stand *was, const struct knowledge_stand *now,
    const struct destination_window *window, int64_t now_ns) {
	struct knowledge_record *r = &own->record;
	static const uint8_t learned_by[WINDOW_CAUSE_COUNT] = {
		[WINDOW_CAUSE_COHORTS] = KNOWLEDGE_BY_COHORTS,
		[WINDOW_CAUSE_RULE] = KNOWLEDGE_BY_RULE };
	const char *reason = window->reason;
	/* what was done by hand ends early by a resume alone, also just behind another one, whose
	 * time was rounded up */
	bool resumed = now->resumed_ns > was->resumed_ns || (was->stopped && was->by_hand &&
	    now->resumed_ns != 0 && was->until_ns - NEAR_NS > now_ns);

	if (now->stopped) {
		if (same_stop(was, now))
			return false;
		if (now->by_hand) {
			r->manual.stamp = next_stamp(store);
			r->manual.what = now->held ? KNOWLEDGE_HOLD : KNOWLEDGE_SUSPEND;
			r->manual.until_ns = now->until_ns;
			own->manual_id = window->event;
			text_copy(own->manual_reason, sizeof(own->manual_reason), reason,
			    strlen(reason));
		} else {
			r->learned.stamp = next_stamp(store);
			r->learned.until_ns = now->until_ns;
			own->learned_id = window->event;
			own->learned_by = learned_by[window->state.window.cause];
			text_copy(own->learned_reason, sizeof(own->learned_reason), reason,
			    strlen(reason));
		}
		return true;
	}
	if (resumed) {
		r->manual.stamp = next_stamp(store);
		r->manual.what = KNOWLEDGE_RESUME;
		r->manual.until_ns = 0;
		own->manual_id = 0;
		own->manual_reason[0] = '\0';
		return true;
	}
	/* a delivery got through */
	if (was->stopped && was->until_ns > now_ns && r->learned.stamp != 0 &&
	    r->learned.until_ns > now_ns) {
		r->learned.stamp = next_stamp(store);
		r->learned.until_ns = now_ns;
		return true;
	}
	return false;
}

static bool tell_ceiling(struct knowledge_store *store, struct knowledge_told *own,
    const struct knowledge_stand *was, const struct knowledge_stand *now) {
	struct knowledge_record *r = &own->record;

	if (was->ceiling == now->ceiling && was->told == now->told)
		return false;
	if (was->ceiling != 0 && now->ceiling > was->ceiling) {
		r->raised.stamp = next_stamp(store);
		r->raised.level = now->ceiling;
	}
	/* forgotten: by hand for all, else by the law for what this node found */
	r->ceiling.stamp = next_stamp(store);
	r->ceiling.level = now->ceiling;
	r->ceiling.by_hand = now->told || (now->ceiling == 0 &&
	    (was->told || now->resumed_ns > was->resumed_ns));
	return true;
}

void knowledge_look_at(struct knowledge_store *store, const struct destination_window *window) {
	int64_t now_ns = store->now_ns;
	struct knowledge_stand now = knowledge_stand_of(&window->state, now_ns);
	struct knowledge_entry *entry = knowledge_entry(store, window->name, false);
	struct knowledge_told *own;
	struct window_owner owner;
	bool said;

	if (!knowledge_is_shared(store->generation, window->name, strlen(window->name), &owner))
		return;
	if (entry == NULL && !now.stopped && now.ceiling == 0 && !is_fresh(store, &now) &&
	    knowledge_configured(store, &owner) == 0)
		return;
	if (entry == NULL)
		entry = knowledge_entry(store, window->name, true);
	if (entry == NULL)
		return;
	entry->used_ns = now_ns;
	entry->here = now.ceiling;
	if (!entry->is_known)
		settle(store, entry, &now, window, now_ns);
	if (knowledge_same_stand(&entry->stand, &now) &&
	    now.resumed_ns <= entry->stand.resumed_ns)
		return;
	own = knowledge_record_of(store, entry, store->own, true);
	if (own == NULL)
		return;
	said = tell_stop(store, own, &entry->stand, &now, window, now_ns);
	said |= tell_ceiling(store, own, &entry->stand, &now);
	entry->stand = now;
	if (!said)
		return;
	knowledge_set_dirty(store, entry);
	engine_count(store->engine, COUNTER_KNOWLEDGE_FOUND, 1);
	knowledge_set_applies(store, entry, true);
}

void knowledge_look(struct knowledge_store *store, int64_t now_ns) {
	struct learned_follower at = { .word = 0 };
	struct destination_window window;

	store->now_ns = now_ns;
	while (states_next(store->engine->segment, STATES_UNSHARED, &at, &window))
		knowledge_look_at(store, &window);
}

static void look_alone_at(struct knowledge_store *store, const struct destination_window *window) {
	uint16_t ceiling = window->state.begun ? window->state.window.ceiling : 0;
	struct knowledge_entry *entry = knowledge_entry(store, window->name, false);
	struct window_owner owner;

	if (!knowledge_is_shared(store->generation, window->name, strlen(window->name), &owner))
		return;
	if (entry == NULL && (ceiling != 0 || knowledge_configured(store, &owner) != 0))
		entry = knowledge_entry(store, window->name, true);
	if (entry == NULL)
		return;
	entry->here = ceiling;
	knowledge_divide(store, entry, store->now_ns);
}

void knowledge_look_alone(struct knowledge_store *store, int64_t now_ns) {
	struct learned_follower at = { .word = 0 };
	struct destination_window window;

	store->now_ns = now_ns;
	while (states_next(store->engine->segment, STATES_UNSHARED, &at, &window))
		look_alone_at(store, &window);
}

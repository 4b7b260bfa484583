/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The way of a change into the hints file: each turn what changed since the last one.
 * MODEL    A window that changed makes its keys and its queues new; a result tells which lanes
 *          have mail of its queue.  A queue is looked at when a result came, its window
 *          changed, or a time came that it waits for: policy/window/lane.h chooses its lanes,
 *          and its keys are told.  A queue of which nothing was heard for long is given up:
 *          nothing of it can be in any lane.
 * ERRORS   hints_file.c.
 * THREADS  One.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/destination/windows_internal.h"
#include "engine/hints/hints_internal.h"
#include "segment/destination/states.h"

#define WAITS_MS	200	/* so long in the queue manager: mail waits for a place */
#define SLOW_MS		5000	/* a lane in which mail waits longer is slow to drain */
#define PATIENCE_NS	(10 * NS_PER_SECOND)
#define HARMFUL_NS	NS_PER_SECOND

int engine_hints_open(struct engine_hints **hints, struct engine *engine, gid_t group,
    const struct hints_calls *calls, struct diag *diag) {
	struct engine_hints *new = calloc(1, sizeof(*new));
	char path[PATH_MAX + 8];

	if (new == NULL)
		return diag_set(diag, errno, "no memory for the hints");
	new->engine = engine;
	new->group = group;
	new->queue_free = new->share_free = NO_INDEX;
	if (calls != NULL)
		new->calls = *calls;
	snprintf(path, sizeof(path), "%s.hints", segment_path(engine->segment));
	if (hints_writer_open(&new->writer, path, group, diag) != 0) {
		free(new);
		return -1;
	}
	/* programs that may write the file of numbers of sources may cut it at any moment */
	hints_reader_outlive_cuts();
	*hints = new;
	return 0;
}

void engine_hints_close(struct engine_hints **hints) {
	if (*hints == NULL)
		return;
	hints_writer_close(&(*hints)->writer);
	hint_keys_free(*hints);
	hint_queues_free(*hints);
	hint_paces_free(*hints);
	given_free(&(*hints)->given);
	free((*hints)->class_texts);
	free((*hints)->class_full);
	free((*hints)->bounds);
	free((*hints)->recipients);
	free(*hints);
	*hints = NULL;
}

/* --- a window that changed -------------------------------------------------------------- */

void hint_key_say(struct engine_hints *hints, struct hint_key *key, struct hint_queue *queue,
    const struct hint_say *own) {
	static const struct hint_say nothing = { .kind = HINTS_NOTHING };

	if (own != NULL) {
		if (queue != NULL)
			queue->group = hint_key_class(key);
		key->stopped = own->kind == HINTS_HELD &&
		    (queue == NULL || queue->owner_hash != key->owner);
	} else if (key->stopped && key->owner != queue->owner_hash) {
		return;
	} else {
		key->stopped = false;
	}
	hints_writer_set(hints->writer, key->place, !key->live ? &nothing :
	    queue == NULL || key->stopped ? own : &queue->said);
}

void hint_keys_renew(struct engine_hints *hints, const char *name) {
	uint64_t hash = lane_uses_hash(hints->engine->segment, name, strlen(name));
	bool is_of_transport = generation_transport_prefix(name, strlen(name)) != 0;
	uint32_t said_group = HINTS_NO_GROUP;
	uint8_t said_to = UINT8_MAX;
	struct window_owner owner;
	struct window_view view;
	struct hint_say own;
	bool is_paced;

	hint_keys_look_at(hints, name);
	if (map_index(&hints->by_owner, hash) == NO_INDEX || !windows_owner_named(hints->generation,
	    name, strlen(name), &owner))
		return;
	(void)windows_view(hints->engine, hints->generation, &owner, hints->now_ns, &view);
	is_paced = !view.observed && owner.kind != DESTINATION_NONE && view.pace.interval_ns != 0;
	for (uint32_t at = map_index(&hints->by_owner, hash); at != NO_INDEX;
	     at = hints->keys[at].next_of_owner) {
		struct hint_key *key = &hints->keys[at];
		struct hint_queue *queue = hint_queue_find(hints, key->queue);

		/* held for all transports, it was in the place of the key's own, and is no more */
		if (hints->generation->mtas[key->mta].transport != 0 && !is_of_transport &&
		    !hint_is_stopped(&view))
			hints->looked_ns = 0;
		hint_pace_follow(hints, key, &owner, is_paced);
		if (queue != NULL && queue->owner_hash == hash) {
			queue->dirty = true;	/* its keys are told when it was looked at */
			continue;
		}
		if (key->mta != said_to || hint_key_class(key) != said_group)
			hint_queue_idle(hints, key->mta, &owner, &view, hint_key_class(key), &own);
		said_to = key->mta;
		said_group = hint_key_class(key);
		if (queue != NULL && own.kind != HINTS_HELD)
			hint_queue_run_by_less(hints, queue, key, &owner, &view);
		if (queue == NULL || key->stopped || own.kind == HINTS_HELD)
			hint_key_say(hints, key, queue, &own);
	}
}

/* --- a result ------------------------------------------------------------------------- */

static uint32_t lane_of_width(const struct lane_widths *widths, uint16_t width) {
	if (width == 0)
		return HINT_ORIGIN_LANE;
	for (uint32_t i = 0; i < widths->count; i++)
		if (widths->width[i] == width)
			return i;
	return NO_INDEX;
}

static void note_use(struct engine_hints *hints, struct lane_use *use) {
	const struct hint_key *key = hint_keys_find(hints, use->mta, use->domain);
	const struct hint_mta *mta;
	struct hint_queue *queue;
	struct queue_lane *its;
	uint32_t lane;
	lane_set bit;

	if (use->ended_ns > hints->now_ns)
		use->ended_ns = hints->now_ns;
	if (key == NULL || hints->now_ns - use->ended_ns > HINT_IDLE_NS)
		return;
	queue = hint_queue_find(hints, key->queue);
	if (queue == NULL)
		queue = hint_queue_begin_heard(hints, key);
	if (queue == NULL)
		return;
	mta = &hints->mtas[queue->mta];
	queue->dirty = true;
	if (use->ended_ns > queue->last_ns)
		queue->last_ns = use->ended_ns;
	if (use->suspended) {
		hint_queue_note_suspension(mta, queue, use);
		return;
	}
	hint_queue_note_time(queue, use);
	lane = lane_of_width(&mta->widths, use->width);
	if (lane == NO_INDEX)
		return;
	its = &queue->lanes[lane];
	if (lane != HINT_ORIGIN_LANE && use->tried)
		hint_lane_note_result(mta, queue, its, use->width, use);
	bit = UINT32_C(1) << lane;
	/* the transport itself drains as any lane; not so one message that nobody asked about */
	if (lane == HINT_ORIGIN_LANE && ((queue->given | queue->used) & bit) == 0 &&
	    use->waited_ms < WAITS_MS)
		return;
	/* LANE_WIDTHS_MAX, none is out, is the transport's place, too */
	if (lane != HINT_ORIGIN_LANE && lane == queue->canary && (queue->given & bit) == 0)
		return;
	if (lane == queue->single && queue->singles > 0) {
		hint_queue_note_single(queue, use);
		return;
	}
	its->last_ns = use->ended_ns;
	its->waited_ms = its->waited_ms == 0 ? use->waited_ms :
	    (3 * its->waited_ms + use->waited_ms) / 4;
	/* mail that was told otherwise before we looked */
	if ((queue->used & bit) == 0)
		its->moved_ns = use->ended_ns;
	queue->used |= bit;
	if (its->waited_ms >= WAITS_MS)
		queue->waiting |= bit;
	else
		queue->waiting &= ~bit;
}

/* --- a look at a queue ------------------------------------------------------------------ */

/* Others have what is above it, or wait for it. */
static bool is_share(const struct window_view *view) {
	return view->divided && view->window >= view->share;
}

static bool is_limited(const struct window_view *view) {
	return is_share(view) || view->law != WINDOW_LAW_PROBE || view->ceiling != 0 ||
	    view->fail_cohorts > 0;
}

/* More than is allowed is known to do harm, and not for a moment only: windows also
 * fall on suspicion, until a log tells more. */
static bool is_harmful(struct hint_queue *queue, const struct hint_mta *mta,
    const struct window_view *view, uint32_t allowed, int64_t now_ns) {
	if (lane_sum(&mta->widths, queue->given) <= allowed) {
		queue->wide_ns = 0;
		return is_limited(view);
	}
	if (queue->wide_ns == 0)
		queue->wide_ns = now_ns;
	if (now_ns - queue->wide_ns < HARMFUL_NS)
		hint_queue_wait(queue, queue->wide_ns + HARMFUL_NS);
	return is_share(view) ||
	    (is_limited(view) && now_ns - queue->wide_ns >= HARMFUL_NS);
}

/* Where mail may be.  A lane that is silent for long may get some right now, and of a share
 * other machines have the rest. */
static lane_set in_use(const struct hint_queue *queue, const struct window_view *view) {
	return is_share(view) ? queue->used | queue->given : queue->used;
}

static lane_set slow(const struct hint_queue *queue) {
	lane_set set = 0;

	for (uint32_t i = 0; i <= HINT_ORIGIN_LANE; i++)
		if ((queue->waiting >> i & 1) != 0 && queue->lanes[i].waited_ms >= SLOW_MS)
			set |= UINT32_C(1) << i;
	return set;
}

/* False: its class leaves it less than its window. */
static bool choose(struct engine_hints *hints, struct hint_queue *queue,
    const struct window_view *view, struct lane_now *now) {
	struct hint_mta *mta = &hints->mtas[queue->mta];
	lane_set suspended = hint_queue_blocked(queue, view, hints->now_ns);
	uint32_t allowed = view->window == 0 ? 0 : hint_queue_share(hints, queue, view->window);
	uint32_t part = hint_class_part(hints, queue);
	bool bound = part < allowed, harmful;
	struct lane_choice choice;

	if (bound)
		allowed = part;
	harmful = is_harmful(queue, mta, view, allowed, hints->now_ns) ||
	    (bound && lane_sum(&mta->widths, queue->given) > allowed);
	*now = (struct lane_now){ .blocked = suspended, .refused = hint_queue_refused(queue, hints->now_ns),
		.given = queue->given,
		.used = in_use(queue, view), .waiting = queue->waiting,
		.slow = slow(queue),
		.allowed = allowed, .proven = view->proven,
		.singles = queue->singles, .canary = queue->canary,
		.single = queue->singles > 0 ? queue->single : LANE_WIDTHS_MAX,
		.limited = harmful,
		.patient = queue->wide_ns != 0 && (is_share(view) || bound ||
		    hints->now_ns - queue->wide_ns >= PATIENCE_NS) };
	if (queue->wide_ns != 0 && !now->patient)
		hint_queue_wait(queue, queue->wide_ns + PATIENCE_NS);
	lane_choose(&mta->widths, now, &choice);
	hint_queue_want_reload(&hints->mtas[mta->server], queue, &choice, hints->now_ns);
	hint_queue_give(queue, choice.give, hints->now_ns);
	now->used = queue->used;
	if (queue->singles > 0 && (queue->used >> queue->single & 1) != 0)
		queue->singles = now->singles = 0;	/* its lane is counted whole by now */
	return !bound;
}

/* `allowed`: its part of the window. */
static void queue_say(struct engine_hints *hints, const struct hint_queue *queue,
    const struct window_view *view, uint32_t allowed, struct hint_say *out) {
	const struct lane_widths *widths = &hints->mtas[queue->mta].widths;
	lane_set lanes = queue->given & ~LANE_ORIGIN;
	lane_set busy = lanes | (queue->used & ~LANE_ORIGIN);

	*out = (struct hint_say){ .kind = HINTS_NOTHING };
	if (view->observed || queue->owner.kind == DESTINATION_NONE)
		return;
	if (view->window == 0) {
		hint_say_closed(&queue->owner, view, hints->now_ns, out);
	} else if (lanes != 0 && !queue->reloading) {
		hint_say_lanes(widths, lanes, queue->lanes,
		    hint_queue_short_ms(queue, hints->now_ns), out);
		if (queue->canary != LANE_WIDTHS_MAX && hints->now_ns < queue->offered_ns) {
			out->lanes.canary = (uint8_t)queue->canary;
			out->lanes.serial = queue->serial;
			out->lanes.canary_ns = queue->issued_ns;
		}
		out->lanes.begins = hint_class_bounds(hints, queue) &&
		    !hint_queue_is_full(hints, queue);
		out->lanes.single_serial = queue->single_serial;
		/* not those that were offered for a part of it that has fallen since */
		if (queue->singles > 0 && hints->now_ns < queue->single_ns + HINT_OFFER_NS &&
		    lane_sum(widths, busy) + queue->singles <= allowed) {
			out->lanes.single = (uint8_t)queue->single;
			out->lanes.single_count = (uint8_t)(queue->singles > 31 ? 31 :
			    queue->singles);
			out->lanes.single_ns = queue->single_ns;
		}
	} else if ((queue->given & LANE_ORIGIN) == 0 && hints->mtas[queue->mta].widths.count > 0) {
		hint_say_draining(&queue->owner, out);
	}
}

static bool say_is_same(const struct hint_say *a, const struct hint_say *b) {
	return a->kind == b->kind && (a->kind != HINTS_HELD || strcmp(a->text, b->text) == 0) &&
	    (a->kind != HINTS_LANE || memcmp(&a->lanes, &b->lanes, sizeof(a->lanes)) == 0);
}

/* Chooses its lanes anew, and tells its mail; or it has ended. */
static void look(struct engine_hints *hints, struct hint_queue *queue) {
	uint32_t group = queue->group, before = hint_class_use(hints, queue);
	uint32_t count = hints->mtas[queue->mta].widths.count;
	struct lane_now now = { .allowed = 0 };
	int64_t now_ns = hints->now_ns;
	struct window_view view;
	struct hint_say say;
	bool is_over;

	queue->dirty = false;
	queue->due_ns = queue->last_ns + HINT_IDLE_NS;
	(void)windows_view(hints->engine, hints->generation, &queue->owner, now_ns, &view);
	if (view.window == 0 && !view.observed && hint_queue_elsewhere(hints, queue))
		(void)windows_view(hints->engine, hints->generation, &queue->owner, now_ns, &view);
	queue->share_serial = view.share_serial;
	is_over = queue->due_ns <= now_ns && (queue->used & ~queue->given) == 0;
	if (is_over) {
		hint_queue_idle(hints, queue->mta, &queue->owner, &view, group, &say);
	} else {
		hint_queue_drain(queue, now_ns);
		hint_queue_end_canary(queue, &view, now_ns);
		if (view.observed) {
			hint_queue_give(queue, LANE_ORIGIN, now_ns);
		} else if (count > 0) {
			bool whole = choose(hints, queue, &view, &now);

			hint_queue_balance(queue, count, now_ns);
			hint_queue_send_single(hints, queue, &now);
			if (whole)	/* its class bounds all that goes */
				hint_queue_send_canary(hints, queue, &view, &now);
		}
		hint_queue_wait_for_drains(queue, now_ns);
		if (hint_class_bounds(hints, queue) && hint_queue_is_full(hints, queue))
			hint_queue_wait(queue, lane_drained_ns(queue->last_ns, 0,
			    hint_queue_longest_ns(queue, now_ns)));
		queue_say(hints, queue, &view, now.allowed, &say);
	}
	if (queue->untold || !say_is_same(&say, &queue->said)) {
		queue->said = say;
		queue->untold = false;
		for (uint32_t at = map_index(&hints->by_queue, queue->hash); at != NO_INDEX;
		     at = hints->keys[at].next_of_queue)
			hint_key_say(hints, &hints->keys[at], queue, NULL);
	}
	if (is_over)
		hint_queue_end(hints, queue);
	hint_class_used(hints, group, before, is_over ? 0 : hint_class_use(hints, queue));
}

/* --- a turn ------------------------------------------------------------------------------ */

int engine_hints_turn(struct engine_hints *hints, int64_t now_ns, struct diag *diag) {
	struct learned_follower changed = { .word = 0 };
	struct destination_window window;
	bool looked = false, lost = false;
	struct lane_use use;
	int result;

	hints->generation = engine_pin(hints->engine);
	hints->now_ns = now_ns;
	result = hint_file_keep(hints, &looked, diag);
	if (!hint_file_is_current(hints))
		goto out;
	while (states_next(hints->engine->segment, STATES_CHANGED, &changed, &window))
		hint_keys_renew(hints, window.name);
	hints->turned_ns = now_ns;
	/* whoever writes all the time must not keep us for ever */
	for (uint32_t i = 0; i < 2 * SEGMENT_LANE_USES &&
	     lane_uses_next(hints->engine->segment, &hints->cursor, &use, &lost); i++)
		note_use(hints, &use);
	if (lost)
		hint_queues_missed(hints);
	hint_classes_count(hints);
	for (uint32_t i = 0; i < hints->queue_count; i++) {
		struct hint_queue *queue = &hints->queues[i];

		if (queue->hash != 0 && (queue->dirty || queue->due_ns <= now_ns))
			look(hints, queue);
	}
	hint_queues_reload(hints);
	hint_shares_turn(hints);
	hint_recipients_renew(hints, false, looked);
	hint_paces_turn(hints);
	hint_sources_turn(hints);
	hint_classes_renew(hints, now_ns);
out:
	engine_unpin(hints->engine, hints->generation);
	return result;
}

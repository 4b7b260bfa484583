/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What a queue says: lanes, or why its mail is held; and what the keys of the
 *          hints file are told, by their own windows or by the queue that carries their
 *          mail.
 * MODEL    Domains that a site sends to one next hop share a queue of the queue manager,
 *          and have windows of their own.  A queue in use runs by the least of those
 *          that changed last, never by one that takes nothing while another one does;
 *          keys whose own window takes nothing are held for themselves.
 * ERRORS   None.
 * THREADS  One.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "engine/destination/windows_internal.h"
#include "engine/hints/hints_internal.h"

/* Of a provider's window an idle queue is told this part: others may be about to begin,
 * too. */
#define IDLE_PART	4

/* --- what a queue says -------------------------------------------------------------- */

/* The part of the mail that a lane gets, times HINT_LIFT_NONE: its width, times its lift. */
static uint64_t part_of_mail(uint32_t width, const struct queue_lane *lane,
    uint32_t most_ms) {
	uint64_t part = (uint64_t)width * (lane->lift == 0 ? HINT_LIFT_NONE : lane->lift);

	return lane->waited_ms > 3 * most_ms ? (part + 3) / 4 : part;
}

/* `lanes`: how they do, or NULL. */
static void say_lanes(const struct lane_widths *widths, lane_set set,
    const struct queue_lane *lanes, uint32_t most_ms, struct hint_say *say) {
	uint64_t most = 1, parts[HINTS_SET_MAX];
	struct hint_lanes *told = &say->lanes;

	*say = (struct hint_say){ .kind = HINTS_LANE,
		.lanes = { .canary = HINTS_NO_LANE, .single = HINTS_NO_LANE } };
	for (uint32_t i = 0; i < widths->count && told->count < HINTS_SET_MAX; i++) {
		if ((set >> i & 1) == 0)
			continue;
		parts[told->count] = lanes == NULL || set >> i == 1 ?
		    (uint64_t)widths->width[i] * HINT_LIFT_NONE :
		    part_of_mail(widths->width[i], &lanes[i], most_ms);
		if (parts[told->count] > most)
			most = parts[told->count];
		told->lane[told->count++] = (uint8_t)i;
	}
	for (uint32_t i = 0; i < told->count; i++) {
		uint64_t share = parts[i] * 255 / most;

		told->share[i] = (uint8_t)(share == 0 ? 1 : share);
	}
}

static void say_stopped(const struct window_owner *owner, const struct window_view *view,
    int64_t now_ns, struct hint_say *say) {
	char name[SEGMENT_NAME_MAX + 1], until[HINT_TIME_MAX], id[HINT_ID_MAX];

	say->kind = HINTS_HELD;
	(void)text_append(say->text, sizeof(say->text), 0, "Postern: %s is %s%s%s%s%s%s",
	    log_sentence(name, sizeof(name), owner->name),
	    view->state == WINDOW_HELD ? "held" : "suspended",
	    view->until_ns == INT64_MAX ? "" : " until ",
	    hint_time(view->until_ns, now_ns, until), hint_id(view->event, id),
	    view->reason[0] == '\0' ? "" : ": ", view->reason);
}

static void say_crowded(const struct window_owner *owner, struct hint_say *say) {
	char name[SEGMENT_NAME_MAX + 1];

	say->kind = HINTS_HELD;
	say->passing = true;
	snprintf(say->text, sizeof(say->text), "Postern: %s: other nodes use its window",
	    log_sentence(name, sizeof(name), owner->name));
}

/* Nothing may run there now. */
static void say_closed(const struct window_owner *owner, const struct window_view *view,
    int64_t now_ns, struct hint_say *say) {
	if (view->state == WINDOW_DEAD || view->state == WINDOW_HELD)
		say_stopped(owner, view, now_ns, say);
	else
		say_crowded(owner, say);
}

static void say_draining(const struct window_owner *owner, struct hint_say *say) {
	char name[SEGMENT_NAME_MAX + 1];

	say->kind = HINTS_HELD;
	say->passing = true;
	snprintf(say->text, sizeof(say->text), "Postern: %s: deliveries in flight go first",
	    log_sentence(name, sizeof(name), owner->name));
}

void hint_queue_idle(const struct engine_hints *hints, uint8_t mta,
    const struct window_owner *owner, const struct window_view *view, uint32_t group,
    struct hint_say *say) {
	const struct lane_widths *widths = &hints->mtas[mta].widths;
	uint32_t most = hint_class_limit(hints, group);
	struct lane_now now = { .allowed = view->window };
	struct lane_choice choice;

	*say = (struct hint_say){ .kind = HINTS_NOTHING };
	if (view->observed || owner->kind == DESTINATION_NONE)
		return;
	if (view->window == 0) {
		say_closed(owner, view, hints->now_ns, say);
		return;
	}
	if (owner->kind == DESTINATION_PROVIDER)
		now.allowed = view->window <= IDLE_PART ? 1 : view->window / IDLE_PART;
	if (now.allowed > most)
		now.allowed = most;
	lane_choose(widths, &now, &choice);
	if (choice.give != 0)
		say_lanes(widths, choice.give, NULL, HINT_SHORT_MS, say);
	say->lanes.begins = choice.give != 0 && most != HINTS_ANY_ROOM;
}

void hint_queue_say(struct engine_hints *hints, const struct hint_queue *queue,
    const struct window_view *view, struct hint_say *out) {
	const struct lane_widths *widths = &hints->mtas[queue->mta].widths;
	lane_set lanes = queue->given & ~LANE_ORIGIN;

	*out = (struct hint_say){ .kind = HINTS_NOTHING };
	if (view->observed || queue->owner.kind == DESTINATION_NONE)
		return;
	if (view->window == 0) {
		say_closed(&queue->owner, view, hints->now_ns, out);
	} else if (lanes != 0 && !queue->reloading) {
		say_lanes(widths, lanes, queue->lanes, hint_queue_short_ms(queue, hints->now_ns),
		    out);
		if (queue->canary != LANE_WIDTHS_MAX && hints->now_ns < queue->offered_ns) {
			out->lanes.canary = (uint8_t)queue->canary;
			out->lanes.serial = queue->serial;
			out->lanes.canary_ns = queue->issued_ns;
		}
		out->lanes.begins = hint_class_bounds(hints, queue) && !hint_queue_is_full(hints,
		    queue);
		out->lanes.single_serial = queue->single_serial;
		/* not those that were offered for a window that has fallen since */
		if (queue->singles > 0 && hints->now_ns < queue->single_ns + HINT_OFFER_NS &&
		    lane_sum(widths, lanes) + queue->singles <= view->window) {
			out->lanes.single = (uint8_t)queue->single;
			out->lanes.single_count = (uint8_t)(queue->singles > 31 ? 31 :
			    queue->singles);
			out->lanes.single_ns = queue->single_ns;
		}
	} else if ((queue->given & LANE_ORIGIN) == 0 && hints->mtas[queue->mta].widths.count > 0) {
		say_draining(&queue->owner, out);
	}
}

bool hint_say_is_same(const struct hint_say *a, const struct hint_say *b) {
	return a->kind == b->kind && (a->kind != HINTS_HELD || strcmp(a->text, b->text) == 0) &&
	    (a->kind != HINTS_LANE || memcmp(&a->lanes, &b->lanes, sizeof(a->lanes)) == 0);
}

/* --- what keys are told -------------------------------------------------------------- */

static void tell(struct engine_hints *hints, const struct hint_key *key,
    const struct hint_say *say) {
	static const struct hint_say nothing = { .kind = HINTS_NOTHING };

	hints_writer_set(hints->writer, key->place, key->live ? say : &nothing);
}

void hint_keys_tell_queue(struct engine_hints *hints, uint64_t queue,
    const struct hint_say *say) {
	const struct hint_queue *in_use = hint_queue_find(hints, queue);

	for (uint32_t at = map_index(&hints->by_queue, queue); at != NO_INDEX;
	     at = hints->keys[at].next_of_queue) {
		struct hint_key *key = &hints->keys[at];

		if (key->stopped && (in_use == NULL || key->owner != in_use->owner_hash))
			continue;
		key->stopped = false;
		tell(hints, key, say);
	}
}

lane_set hint_unknown_lanes(const struct engine_hints *hints, uint8_t mta,
    struct hint_lanes *lanes) {
	uint32_t origin = hints->mtas[mta].widths.origin;
	static const struct window_owner anybody = { .kind = DESTINATION_DOMAIN };
	struct window_view view;
	struct hint_say say;
	lane_set set = 0;
	const char *detail;

	*lanes = (struct hint_lanes){ .count = 0 };
	if (hint_site_doubt(hints->generation, mta, &detail) != HINT_DOUBT_NONE)
		return 0;
	windows_view_new(hints->generation, mta, hints->now_ns, &view);
	/* what the site allows its transport is not exceeded unseen */
	if (origin != 0 && view.window > origin)
		view.window = origin;
	hint_queue_idle(hints, mta, &anybody, &view, HINTS_NO_GROUP, &say);
	if (view.observed || say.kind != HINTS_LANE)
		return 0;
	*lanes = say.lanes;
	for (uint32_t i = 0; i < lanes->count; i++)
		set |= UINT32_C(1) << lanes->lane[i];
	return set;
}

bool hint_key_owner(const struct engine_hints *hints, const struct hint_key *key,
    struct window_owner *out) {
	char domain[HINTS_NAME_MAX + 1];
	struct destination_seen seen;

	if (!hints_writer_domain(hints->writer, key->place, domain))
		return false;
	if (destinations_find(hints->engine->segment, domain, strlen(domain), &seen))
		return windows_owner_of_mta(hints->engine, hints->generation, &seen, key->mta, out);
	return windows_owner_named(hints->generation, domain, strlen(domain), out) &&
	    windows_owner_by_transport(hints->generation, key->mta, out);
}

/* What a window says by itself, as if no queue were in use. */
static void say_own(const struct engine_hints *hints, uint8_t mta, uint32_t group,
    const struct window_owner *owner, struct hint_say *say) {
	struct window_view view;

	(void)windows_view(hints->engine, hints->generation, owner, hints->now_ns, &view);
	hint_queue_idle(hints, mta, owner, &view, group, say);
}

/* As hint_key_tell; what its own window says is given. */
static void hint_key_tell_own(struct engine_hints *hints, struct hint_key *key,
    const struct hint_say *own) {
	struct hint_queue *queue = hint_queue_find(hints, key->queue);

	if (queue != NULL)
		queue->group = hint_key_class(key);
	key->stopped = own->kind == HINTS_HELD &&
	    (queue == NULL || queue->owner_hash != key->owner);
	tell(hints, key, queue == NULL || key->stopped ? own : &queue->said);
}

void hint_key_tell(struct engine_hints *hints, struct hint_key *key,
    const struct window_owner *owner) {
	struct hint_say own;

	say_own(hints, key->mta, hint_key_class(key), owner, &own);
	hint_key_tell_own(hints, key, &own);
}

/* --- queues that several windows share ------------------------------------------------ */

static bool runs_by_owner(const struct engine_hints *hints, const struct hint_queue *queue,
    uint32_t at) {
	const struct hint_key *key = &hints->keys[at];

	return key->live && key->queue == queue->hash && key->owner == queue->owner_hash;
}

/* Does any mail of the queue run by its window? */
static bool has_owner(const struct engine_hints *hints, struct hint_queue *queue) {
	/* each of very many keys may ask */
	if (queue->owner_key < hints->key_count && runs_by_owner(hints, queue, queue->owner_key))
		return true;
	for (uint32_t at = map_index(&hints->by_queue, queue->hash); at != NO_INDEX;
	     at = hints->keys[at].next_of_queue)
		if (runs_by_owner(hints, queue, at)) {
			queue->owner_key = at;
			return true;
		}
	return false;
}

/* The queue runs by the key's window from now on; mail of the one before stays held, if that
 * takes nothing. */
static void change_owner(struct engine_hints *hints, struct hint_queue *queue,
    const struct hint_key *key, const struct window_owner *owner) {
	uint64_t before = queue->owner_hash;
	struct hint_say own;

	say_own(hints, queue->mta, queue->group, &queue->owner, &own);
	hint_queue_adopt(hints, key, owner);
	if (own.kind != HINTS_HELD)
		return;
	for (uint32_t at = map_index(&hints->by_queue, queue->hash); at != NO_INDEX;
	     at = hints->keys[at].next_of_queue)
		if (hints->keys[at].owner == before)
			hint_key_tell_own(hints, &hints->keys[at], &own);
}

bool hint_queue_elsewhere(struct engine_hints *hints, struct hint_queue *queue) {
	for (uint32_t at = map_index(&hints->by_queue, queue->hash); at != NO_INDEX;
	     at = hints->keys[at].next_of_queue) {
		const struct hint_key *key = &hints->keys[at];
		struct window_owner owner;
		struct hint_say own;

		if (!key->live || key->stopped || key->owner == queue->owner_hash ||
		    !hint_key_owner(hints, key, &owner))
			continue;
		say_own(hints, key->mta, hint_key_class(key), &owner, &own);
		if (own.kind == HINTS_HELD)
			continue;
		change_owner(hints, queue, key, &owner);
		return true;
	}
	return false;
}

void hint_key_follow(struct engine_hints *hints, const struct hint_key *key,
    const struct window_owner *owner) {
	struct hint_queue *queue = hint_queue_find(hints, key->queue);

	if (queue != NULL && (queue->owner_hash == key->owner || !has_owner(hints, queue)))
		hint_queue_adopt(hints, key, owner);
}

void hint_key_changed(struct engine_hints *hints, struct hint_key *key,
    const struct window_owner *owner, const struct window_view *view, const struct hint_say *own) {
	struct hint_queue *queue = hint_queue_find(hints, key->queue);
	struct window_view other;

	if (queue != NULL && queue->owner_hash == key->owner)
		return;			/* it is looked at, as it was touched */
	if (queue != NULL && own->kind != HINTS_HELD) {
		(void)windows_view(hints->engine, hints->generation, &queue->owner, hints->now_ns,
		    &other);
		if (other.window == 0 || view->window < other.window)
			change_owner(hints, queue, key, owner);
	}
	if (queue == NULL || key->stopped || own->kind == HINTS_HELD)
		hint_key_tell_own(hints, key, own);
}

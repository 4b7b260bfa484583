/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Carries windows by lanes: what mail of each queue that is in use is told.
 * MODEL    policy/lane.h chooses.  A queue is looked at when a result
 *          came, its window changed, or a time came that it waits for.  A queue of which
 *          nothing was heard for long is given up: nothing of it can be in any lane.
 *          A reload of the mail server is asked for a moment after it would help, so that
 *          one is enough for a window that falls in steps; mail is told its new lanes just
 *          before, as the reload asks about all of it.
 * ERRORS   None.
 * THREADS  One.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/hints_internal.h"
#include "segment/states.h"

#define PATIENCE_NS	(10 * NS_PER_SECOND)
#define RELOAD_AFTER_NS	NS_PER_SECOND
#define RELOAD_EACH_NS	(60 * NS_PER_SECOND)
#define OFFER_NS	(5 * NS_PER_SECOND)
#define CANARY_NS	(120 * NS_PER_SECOND)
/* Of a provider's window an idle queue is told this part: others may be about to begin,
 * too. */
#define IDLE_PART	4
/* A lane in which mail waits so much longer than in another one gets half of its share;
 * a quarter at least. */
#define EVEN_MS		4000

/* --- what is told -------------------------------------------------------------------- */

/* The part of the mail that a lane gets, times 16: its width, and less where mail waits
 * longer in it than in others. */
static uint32_t part_of_mail(uint32_t width, uint32_t longer_ms) {
	if (longer_ms > 3 * EVEN_MS)
		longer_ms = 3 * EVEN_MS;
	return width * 16 * EVEN_MS / (EVEN_MS + longer_ms);
}

/* `lanes`: how they do, or NULL. */
static void say_lanes(const struct lane_widths *widths, lane_set set,
    const struct queue_lane *lanes, struct hint_say *say) {
	uint32_t least_ms = UINT32_MAX, most = 1, parts[HINTS_SET_MAX];
	struct hint_lanes *told = &say->lanes;

	*say = (struct hint_say){ .kind = HINTS_LANE,
		.lanes = { .canary = HINTS_NO_LANE } };
	for (uint32_t i = 0; lanes != NULL && i < widths->count; i++)
		if ((set >> i & 1) != 0 && lanes[i].waited_ms < least_ms)
			least_ms = lanes[i].waited_ms;
	for (uint32_t i = 0; i < widths->count && told->count < HINTS_SET_MAX; i++) {
		uint32_t *part = &parts[told->count];

		if ((set >> i & 1) == 0)
			continue;
		told->lane[told->count++] = (uint8_t)i;
		*part = part_of_mail(widths->width[i], lanes == NULL ? 0 :
		    lanes[i].waited_ms - least_ms);
		most = *part > most ? *part : most;
	}
	for (uint32_t i = 0; i < told->count; i++) {
		uint64_t share = (uint64_t)parts[i] * 255 / most;

		told->share[i] = (uint8_t)(share == 0 ? 1 : share);
	}
}

static void say_stopped(const struct window_owner *owner, const struct window_view *view,
    int64_t now_ns, struct hint_say *say) {
	char name[SEGMENT_NAME_MAX + 1], until[HINT_TIME_MAX];

	say->kind = HINTS_HELD;
	(void)text_append(say->text, sizeof(say->text), 0, "Postern: %s is %s%s%s%s%s",
	    log_sentence(name, sizeof(name), owner->name),
	    view->state == WINDOW_HELD ? "held" : "suspended",
	    view->until_ns == INT64_MAX ? "" : " until ",
	    hint_time(view->until_ns, now_ns, until),
	    view->reason[0] == '\0' ? "" : ": ", view->reason);
}

static void say_draining(const struct window_owner *owner, struct hint_say *say) {
	char name[SEGMENT_NAME_MAX + 1];

	say->kind = HINTS_HELD;
	snprintf(say->text, sizeof(say->text), "Postern: %s: mail that is on its way goes "
	    "first", log_sentence(name, sizeof(name), owner->name));
}

void hint_queue_idle(const struct engine_hints *hints, uint8_t mta,
    const struct window_owner *owner, const struct window_view *view, int64_t now_ns,
    struct hint_say *say) {
	const struct lane_widths *widths = &hints->mtas[mta].widths;
	struct lane_now now = { .allowed = view->window };
	struct lane_choice choice;

	*say = (struct hint_say){ .kind = HINTS_NOTHING };
	if (view->observed || owner->kind == DESTINATION_NONE)
		return;
	if (view->window == 0) {
		say_stopped(owner, view, now_ns, say);
		return;
	}
	if (owner->kind == DESTINATION_PROVIDER)
		now.allowed = view->window <= IDLE_PART ? 1 : view->window / IDLE_PART;
	lane_choose(widths, &now, &choice);
	if (choice.give != 0)
		say_lanes(widths, choice.give, NULL, say);
}

/* --- one queue ----------------------------------------------------------------------------- */

static int64_t longest_ns(const struct hint_queue *queue) {
	return queue->longest_ns[0] > queue->longest_ns[1] ? queue->longest_ns[0] :
	    queue->longest_ns[1];
}

static void wait_until(struct hint_queue *queue, int64_t at_ns) {
	if (at_ns < queue->due_ns)
		queue->due_ns = at_ns;
}

static int64_t drained_ns(const struct hint_queue *queue, uint32_t lane) {
	return lane_drained_ns(queue->lanes[lane].left_ns, queue->lanes[lane].last_ns,
	    longest_ns(queue));
}

/* Lanes of which nothing was heard for so long that they are empty; those that mail is
 * given to, too: as long as none comes they are in nobody's way. */
static void drain(struct hint_queue *queue, int64_t now_ns) {
	for (uint32_t i = 0; i <= HINT_ORIGIN_LANE; i++) {
		lane_set bit = UINT32_C(1) << i;

		if ((queue->used & bit) == 0 || drained_ns(queue, i) > now_ns)
			continue;
		queue->waiting &= ~bit;
		queue->lanes[i].waited_ms = 0;
		queue->used &= ~bit;
		/* the transport itself is left whenever that can be */
		queue->given &= ~(bit & LANE_ORIGIN);
	}
}

static void wait_for_drains(struct hint_queue *queue, int64_t now_ns) {
	for (uint32_t i = 0; i <= HINT_ORIGIN_LANE; i++)
		if ((queue->used >> i & 1) != 0 && ((queue->given >> i & 1) == 0 ||
			(queue->waiting >> i & 1) != 0 || i == HINT_ORIGIN_LANE) &&
		    drained_ns(queue, i) > now_ns)
			wait_until(queue, drained_ns(queue, i));
}

static void end_canary(struct hint_queue *queue, const struct window_view *view,
    int64_t now_ns) {
	if (queue->canary == LANE_WIDTHS_MAX)
		return;
	if (view->canary_out && now_ns < queue->canary_ns) {
		wait_until(queue, queue->canary_ns);
		if (now_ns < queue->offered_ns)
			wait_until(queue, queue->offered_ns);
	} else {
		queue->canary = LANE_WIDTHS_MAX;
	}
}

/* Deliveries of a queue at once, of late: what it takes of a window though nothing
 * waits in it. */
static uint32_t busy(const struct hint_queue *queue, int64_t now_ns) {
	uint32_t all_ms = queue->took_ms[0] + queue->took_ms[1];

	if (now_ns - queue->last_ns > 2 * NS_PER_SECOND)
		return 0;
	return (all_ms + 1999) / 2000 == 0 ? 1 : (all_ms + 1999) / 2000;
}

/* What this queue alone may take of the window that it shares. */
static uint32_t share(struct engine_hints *hints, const struct hint_queue *queue,
    uint32_t window, int64_t now_ns) {
	struct hint_share *shared = hint_share_of(hints, queue->owner_hash);
	struct destination_window state;
	uint32_t rest, waiting;

	if (shared == NULL)
		return window;
	if (shared->made_ns != now_ns) {
		shared->made_ns = now_ns;
		shared->rest = shared->waiting = 0;
		for (uint32_t at = shared->first; at != NO_INDEX;
		     at = hints->queues[at].next_of_owner) {
			if (hints->queues[at].waiting != 0)
				shared->waiting++;
			else
				shared->rest += busy(&hints->queues[at], now_ns);
		}
		/* places of processes that ask for themselves */
		if (states_find(hints->engine->segment, queue->owner.name,
			strlen(queue->owner.name), &state))
			shared->rest += state.state.in_flight;
	}
	rest = shared->rest;
	waiting = shared->waiting;
	if (queue->waiting == 0) {
		rest -= busy(queue, now_ns) < rest ? busy(queue, now_ns) : rest;
		waiting++;
	}
	return lane_share(window, rest, waiting);
}

static bool is_limited(const struct window_view *view) {
	return view->law != WINDOW_LAW_PROBE || view->ceiling != 0 ||
	    view->fail_cohorts > 0;
}

static bool is_stuck(const struct lane_widths *widths, const struct lane_choice *choice,
    uint32_t allowed) {
	uint32_t given = lane_sum(widths, choice->give);

	return given > allowed || 10 * given < 9 * lane_sum(widths, choice->wanted);
}

/* Since when only a reload would help; true: mail is told what it gets after it. */
static bool reload_is_near(struct hint_mta *mta, struct hint_queue *queue,
    const struct lane_choice *choice, int64_t now_ns) {
	if (!choice->reload || !mta->may_reload) {
		queue->reload_ns = 0;
		return false;
	}
	if (queue->reload_ns == 0)
		queue->reload_ns = now_ns;
	if (mta->reloading)
		return true;
	if (now_ns < queue->reload_ns + RELOAD_AFTER_NS ||
	    now_ns < mta->reload_next_ns) {
		wait_until(queue, queue->reload_ns + RELOAD_AFTER_NS > mta->reload_next_ns ?
		    queue->reload_ns + RELOAD_AFTER_NS : mta->reload_next_ns);
		return false;
	}
	mta->wants_reload = true;
	return true;
}

static void give(struct hint_queue *queue, lane_set set, int64_t now_ns) {
	lane_set left = queue->given & ~set;

	for (uint32_t i = 0; i <= HINT_ORIGIN_LANE; i++)
		if ((left >> i & 1) != 0)
			queue->lanes[i].left_ns = now_ns;
	queue->given = set;
	queue->used |= set;
}

static void choose(struct engine_hints *hints, struct hint_queue *queue,
    const struct window_view *view, struct lane_now *now, int64_t now_ns) {
	struct hint_mta *mta = &hints->mtas[queue->mta];
	struct lane_choice choice;

	*now = (struct lane_now){ .given = queue->given, .used = queue->used,
		.waiting = queue->waiting, .limited = is_limited(view),
		.allowed = view->window == 0 ? 0 :
		    share(hints, queue, view->window, now_ns),
		.patient = queue->stuck_ns != 0 &&
		    now_ns - queue->stuck_ns >= PATIENCE_NS };
	lane_choose(&mta->widths, now, &choice);
	if (now->allowed > 0 && is_stuck(&mta->widths, &choice, now->allowed)) {
		if (queue->stuck_ns == 0)
			queue->stuck_ns = now_ns;
		if (!now->patient)
			wait_until(queue, queue->stuck_ns + PATIENCE_NS);
	} else {
		queue->stuck_ns = 0;
	}
	give(queue, reload_is_near(mta, queue, &choice, now_ns) ?
	    choice.wanted : choice.give, now_ns);
	now->used = queue->used;
}

/* A canary, if the window waits for one and it would be one. */
static void send_canary(struct engine_hints *hints, const struct generation *generation,
    struct hint_queue *queue, const struct window_view *view, const struct lane_now *now,
    int64_t now_ns) {
	const struct lane_widths *widths = &hints->mtas[queue->mta].widths;
	uint32_t lane;

	if (queue->canary != LANE_WIDTHS_MAX || !view->canary_due || view->canary_out)
		return;
	lane = lane_canary(widths, now, queue->given);
	if (lane == LANE_WIDTHS_MAX || !windows_issue_canary(hints->engine, generation,
		&queue->owner, queue->mta, widths->width[lane], now_ns))
		return;
	queue->canary = lane;
	queue->serial = (queue->serial + 1) & 127;
	queue->offered_ns = now_ns + OFFER_NS;
	queue->canary_ns = now_ns + CANARY_NS;
	wait_until(queue, queue->offered_ns);
}

static void say(struct engine_hints *hints, const struct hint_queue *queue,
    const struct window_view *view, int64_t now_ns, struct hint_say *out) {
	lane_set lanes = queue->given & ~LANE_ORIGIN;

	*out = (struct hint_say){ .kind = HINTS_NOTHING };
	if (view->observed || queue->owner.kind == DESTINATION_NONE)
		return;
	if (view->window == 0) {
		say_stopped(&queue->owner, view, now_ns, out);
	} else if (lanes != 0) {
		say_lanes(&hints->mtas[queue->mta].widths, lanes, queue->lanes, out);
		if (queue->canary != LANE_WIDTHS_MAX && now_ns < queue->offered_ns) {
			out->lanes.canary = (uint8_t)queue->canary;
			out->lanes.serial = queue->serial;
		}
	} else if (queue->given == 0 && hints->mtas[queue->mta].widths.count > 0) {
		say_draining(&queue->owner, out);
	}
}

static bool is_same(const struct hint_say *a, const struct hint_say *b) {
	return a->kind == b->kind && (a->kind != HINTS_HELD || strcmp(a->text, b->text) == 0) &&
	    (a->kind != HINTS_LANE || memcmp(&a->lanes, &b->lanes, sizeof(a->lanes)) == 0);
}

/* Nothing was heard of it for long.  Its keys are told what idle ones are. */
static void retire(struct engine_hints *hints, struct hint_queue *queue,
    const struct window_view *view, int64_t now_ns) {
	struct hint_say idle;

	hint_queue_idle(hints, queue->mta, &queue->owner, view, now_ns, &idle);
	if (!is_same(&idle, &queue->said))
		hint_keys_tell_queue(hints, queue->hash, &idle);
	hint_queue_end(hints, queue);
}

static void look_at(struct engine_hints *hints, const struct generation *generation,
    struct hint_queue *queue, int64_t now_ns) {
	struct window_view view;
	struct hint_say new;
	struct lane_now now;

	queue->dirty = false;
	queue->due_ns = queue->last_ns + HINT_IDLE_NS;
	(void)windows_view(hints->engine, generation, &queue->owner, now_ns, &view);
	if (queue->due_ns <= now_ns && (queue->used & ~queue->given) == 0) {
		retire(hints, queue, &view, now_ns);
		return;
	}
	drain(queue, now_ns);
	end_canary(queue, &view, now_ns);
	if (view.observed) {
		give(queue, LANE_ORIGIN, now_ns);
	} else if (hints->mtas[queue->mta].widths.count > 0) {
		choose(hints, queue, &view, &now, now_ns);
		send_canary(hints, generation, queue, &view, &now, now_ns);
	}
	wait_for_drains(queue, now_ns);
	say(hints, queue, &view, now_ns, &new);
	if (is_same(&new, &queue->said))
		return;
	queue->said = new;
	hint_keys_tell_queue(hints, queue->hash, &queue->said);
}

/* --- reloads of mail servers --------------------------------------------------------------- */

static void ask_for_reloads(struct engine_hints *hints,
    const struct generation *generation, int64_t now_ns) {
	for (unsigned i = 0; i < generation->mta_count; i++) {
		struct hint_mta *mta = &hints->mtas[i];

		if (!mta->wants_reload)
			continue;
		mta->wants_reload = false;
		mta->reloading = hints->calls.reload != NULL &&
		    hints->calls.reload(hints->calls.context, i, generation->number);
		mta->reload_next_ns = now_ns + (mta->reloading ? RELOAD_EACH_NS :
		    RELOAD_AFTER_NS);
	}
}

void engine_hints_reloaded(struct engine_hints *hints, unsigned mta, bool done,
    int64_t now_ns) {
	if (mta >= GENERATION_MTAS_MAX)
		return;
	hints->mtas[mta].reloading = false;
	for (uint32_t i = 0; i < hints->queue_count; i++) {
		struct hint_queue *queue = &hints->queues[i];

		if (queue->hash == 0 || queue->mta != mta)
			continue;
		queue->dirty = true;
		queue->reload_ns = 0;
		if (!done)
			continue;
		/* all that waited is on its new way; what was being delivered goes on */
		queue->waiting &= queue->given;
		for (uint32_t j = 0; j <= HINT_ORIGIN_LANE; j++)
			if (((queue->used & ~queue->given) >> j & 1) != 0)
				queue->lanes[j].left_ns = now_ns;
	}
}

void hint_queues_turn(struct engine_hints *hints, const struct generation *generation,
    int64_t now_ns) {
	hint_queues_read(hints, generation, now_ns);
	for (uint32_t i = 0; i < hints->queue_count; i++) {
		struct hint_queue *queue = &hints->queues[i];

		if (queue->hash != 0 && (queue->dirty || queue->due_ns <= now_ns))
			look_at(hints, generation, queue, now_ns);
	}
	ask_for_reloads(hints, generation, now_ns);
}

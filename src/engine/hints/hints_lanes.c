/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Lanes of a queue in use: what is in them, which cannot be had now, their parts of the
 *          mail; and the words that mail is told.
 * MODEL    hints_turn.c looks at a queue, and chooses.
 * ERRORS   None.
 * THREADS  One.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/hints/hints_internal.h"

/* Of lanes beside the widest: their part changes by these factors (of 100) every
 * BALANCE_NS. */
#define WAITS_LONG_MS	1000	/* in the widest lane: the others are to be full */
#define BALANCE_NS	(500 * NS_PER_MS)
#define LIFT_UP		120
#define LIFT_DOWN	95
#define LIFT_LEAST	(HINT_LIFT_NONE / 8)
#define LIFT_MOST	(4 * HINT_LIFT_NONE)
/* Of a provider's window an idle queue is told this part: others may be about to begin,
 * too. */
#define IDLE_PART	4

/* --- one queue ----------------------------------------------------------------------------- */

static int64_t drained_ns(const struct hint_queue *queue, uint32_t lane, int64_t now_ns) {
	return lane_drained_ns(queue->lanes[lane].moved_ns, queue->lanes[lane].last_ns,
	    hint_queue_longest_ns(queue, now_ns));
}

/* Lanes of which nothing was heard for so long that they are empty; those that mail is
 * given to, too: as long as none comes they are in nobody's way. */
void hint_queue_drain(struct hint_queue *queue, int64_t now_ns) {
	for (uint32_t i = 0; i <= HINT_ORIGIN_LANE; i++) {
		lane_set bit = UINT32_C(1) << i;

		if ((queue->used & bit) == 0 || drained_ns(queue, i, now_ns) > now_ns)
			continue;
		queue->waiting &= ~bit;
		queue->lanes[i].waited_ms = 0;
		queue->used &= ~bit;
		/* the transport itself is left whenever that can be */
		queue->given &= ~(bit & LANE_ORIGIN);
	}
}

/* Lanes that Postfix suspends by itself now: nothing waits there.  While nothing is known to be
 * accepted since, others of the lane may run, for whom these were too many: they count until
 * they have been silent for long enough. */
lane_set hint_queue_blocked(struct hint_queue *queue, const struct window_view *view,
    int64_t now_ns) {
	lane_set set = 0;

	for (uint32_t i = 0; i < HINT_ORIGIN_LANE; i++)
		if (queue->lanes[i].blocked_ns > now_ns) {
			set |= UINT32_C(1) << i;
			hint_queue_wait(queue, queue->lanes[i].blocked_ns);
		}
	if (view->fail_cohorts <= 0)
		queue->used &= ~set;
	queue->waiting &= ~set;
	queue->given &= ~set;
	return set;
}

/* Lanes that the site refuses while it takes mail of others. */
lane_set hint_queue_refused(struct hint_queue *queue, int64_t now_ns) {
	lane_set set = 0;

	for (uint32_t i = 0; i < HINT_ORIGIN_LANE; i++)
		if (queue->lanes[i].refused_ns > now_ns) {
			set |= UINT32_C(1) << i;
			hint_queue_wait(queue, queue->lanes[i].refused_ns);
		}
	return set;
}

void hint_queue_wait_for_drains(struct hint_queue *queue, int64_t now_ns) {
	/* then the longest delivery may be of before */
	int64_t span_ns = (now_ns / HINT_LONG_NS + 1) * HINT_LONG_NS;

	for (uint32_t i = 0; i <= HINT_ORIGIN_LANE; i++) {
		int64_t at_ns = drained_ns(queue, i, now_ns);

		if ((queue->used >> i & 1) != 0 && ((queue->given >> i & 1) == 0 ||
			(queue->waiting >> i & 1) != 0 || i == HINT_ORIGIN_LANE) &&
		    at_ns > now_ns)
			hint_queue_wait(queue, at_ns < span_ns ? at_ns : span_ns);
	}
}

/* So long may mail wait in a lane that is not the widest. */
uint32_t hint_queue_short_ms(const struct hint_queue *queue, int64_t now_ns) {
	return HINT_SHORT_MS + (uint32_t)(hint_queue_longest_ns(queue, now_ns) / NS_PER_MS);
}

/* Where mail waits in the widest lane no other one is to run dry: when less mail comes
 * than the window takes, their parts grow until they are full, and the widest one
 * drains. */
void hint_queue_balance(struct hint_queue *queue, uint32_t count, int64_t now_ns) {
	lane_set set = queue->given & ~LANE_ORIGIN;
	uint32_t widest = count, most = hint_queue_short_ms(queue, now_ns);

	while (widest > 0 && (set >> (widest - 1) & 1) == 0)
		widest--;
	if (widest == 0 || (set & (set - 1)) == 0 ||
	    queue->lanes[widest - 1].waited_ms < WAITS_LONG_MS)
		return;
	hint_queue_wait(queue, queue->balanced_ns + BALANCE_NS);
	if (now_ns < queue->balanced_ns + BALANCE_NS)
		return;
	queue->balanced_ns = now_ns;
	hint_queue_wait(queue, now_ns + BALANCE_NS);
	for (uint32_t i = 0; i + 1 < widest; i++) {
		struct queue_lane *lane = &queue->lanes[i];
		bool is_dry = lane->waited_ms < most / 6 ||
		    now_ns - lane->last_ns > hint_queue_longest_ns(queue, now_ns) +
			NS_PER_SECOND;
		uint32_t lift = lane->lift;

		if ((set >> i & 1) == 0 || lift == 0)
			lift = HINT_LIFT_NONE;
		else if (is_dry)
			lift = (lift * LIFT_UP + 99) / 100;
		else if (lane->waited_ms > most)
			lift = lift * LIFT_DOWN / 100;
		lane->lift = (uint16_t)(lift < LIFT_LEAST ? LIFT_LEAST :
		    lift > LIFT_MOST ? LIFT_MOST : lift);
	}
}

uint32_t hint_queue_busy(const struct hint_queue *queue, int64_t now_ns) {
	uint32_t all_ms = queue->took_ms[0] + queue->took_ms[1];

	if (now_ns - queue->last_ns > 2 * NS_PER_SECOND)
		return 0;
	return (all_ms + 1999) / 2000 == 0 ? 1 : (all_ms + 1999) / 2000;
}

void hint_queue_give(struct hint_queue *queue, lane_set set, int64_t now_ns) {
	lane_set moved = queue->given ^ set;

	for (uint32_t i = 0; i <= HINT_ORIGIN_LANE; i++)
		if ((moved >> i & 1) != 0)
			queue->lanes[i].moved_ns = now_ns;
	/* one of which nothing was heard for long may have got some just now */
	queue->used |= set | queue->given;
	queue->given = set;
}

/* --- what it says -------------------------------------------------------------- */

/* The part of the mail that a lane gets, times HINT_LIFT_NONE: its width, times its lift. */
static uint64_t part_of_mail(uint32_t width, const struct queue_lane *lane,
    uint32_t most_ms) {
	uint64_t part = (uint64_t)width * (lane->lift == 0 ? HINT_LIFT_NONE : lane->lift);

	return lane->waited_ms > 3 * most_ms ? (part + 3) / 4 : part;
}

/* `lanes`: how they do, or NULL. */
void hint_say_lanes(const struct lane_widths *widths, lane_set set,
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
void hint_say_closed(const struct window_owner *owner, const struct window_view *view,
    int64_t now_ns, struct hint_say *say) {
	if (view->state == WINDOW_DEAD || view->state == WINDOW_HELD)
		say_stopped(owner, view, now_ns, say);
	else
		say_crowded(owner, say);
}

void hint_say_draining(const struct window_owner *owner, struct hint_say *say) {
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
		hint_say_closed(owner, view, hints->now_ns, say);
		say->paced = view->pace.interval_ns != 0;
		return;
	}
	if (owner->kind == DESTINATION_PROVIDER)
		now.allowed = view->window <= IDLE_PART ? 1 : view->window / IDLE_PART;
	if (now.allowed > most)
		now.allowed = most;
	lane_choose(widths, &now, &choice);
	if (choice.give != 0)
		hint_say_lanes(widths, choice.give, NULL, HINT_SHORT_MS, say);
	say->lanes.begins = choice.give != 0 && most != HINTS_ANY_ROOM;
	say->paced = view->pace.interval_ns != 0;
}

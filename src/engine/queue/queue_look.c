/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What a destination of the driven queue says: may mail go there now?
 * MODEL    A look takes window, class and what is known of runs together.  What is shut is
 *          shut on the board, or (dead, held) its mail is set aside; both are looked at
 *          each second until that ends.  Others are looked at when their mail is chosen.
 *          Doubtful is where the last result was a failure, or a run stalls.
 * ERRORS   What cannot be read holds nothing; the windows have the last word.
 * THREADS  One.
 */
#include <string.h>

#include "engine/queue/queue_internal.h"
#include "segment/destination/states.h"

#define FRESH_NS	(100 * NS_PER_MS)
#define WATCH_NS	NS_PER_SECOND

uint32_t queue_room(const struct dest *dest) {
	uint32_t claimed = (dest->claims + 63) / 64, taken;

	if (dest->owner.kind == DESTINATION_NONE)
		return UINT32_MAX;
	taken = claimed > dest->in_flight ? claimed : dest->in_flight;
	if (taken >= dest->window)
		return dest->canary && claimed <= dest->window ? 1 : 0;
	return dest->window - taken;
}

bool queue_is_doubtful(const struct dest *dest) {
	return dest->stalls > 0 || dest->bad_ns > dest->good_ns;
}

/* Nothing was ever accepted there, as far as anybody remembers. */
bool queue_is_unknown(const struct dest *dest) {
	return dest->owner.kind != DESTINATION_NONE && dest->ok == 0 && dest->good_ns == 0;
}

/* --- window ------------------------------------------------------------------------ */

static void learn_window(struct dest *d, const struct window_view *view, int64_t now_ns) {
	if (!d->seen) {
		d->bad_ns = view->known && view->fail_cohorts > 0 ? now_ns : 0;
		d->good_ns = 0;
	} else if (view->ok != d->ok) {
		d->good_ns = now_ns;
		d->put_offs = 0;
	} else if (view->failed != d->failed) {
		d->bad_ns = now_ns;
	}
	/* resumed by hand, or begun anew: nothing speaks against it any more */
	if (d->seen && view->resumed_ns != d->resumed_ns)
		d->bad_ns = 0;
	d->seen = true;
	d->ok = view->ok;
	d->failed = view->failed;
	d->resumed_ns = view->resumed_ns;
}

/* Each message takes a token when its run asks: those that did not yet are to find theirs. */
static void look_at_pace(struct queue *queue, struct dest *d) {
	uint32_t claimed = (d->claims + 63) / 64;
	uint32_t taken = claimed > d->in_flight ? claimed : d->in_flight;
	uint32_t to_ask = taken - d->in_flight;
	struct window_tokens tokens;

	windows_pace_see(queue->engine, queue->generation, &d->owner, QUEUE_RUN_IDS_MAX,
	    queue->now_ns, &tokens);
	if (!tokens.is_paced)
		return;
	d->tokens = tokens.taken > to_ask ? tokens.taken - to_ask : 0;
	d->canary = d->canary && d->tokens > 0;
	if (taken + d->tokens < d->window)
		d->window = taken + d->tokens;
	if (d->tokens == 0)
		d->pace_ns = queue->now_ns + tokens.wait_ns;
}

/* TURN, SUSPENDED, PACE or WINDOW. */
static enum queue_wait look_at_window(struct queue *queue, struct dest *d) {
	struct window_view view;
	bool stopped;

	d->tokens = UINT32_MAX;
	d->pace_ns = 0;
	if (d->owner.kind == DESTINATION_NONE)
		return QUEUE_WAITS_FOR_TURN;
	(void)windows_view(queue->engine, queue->generation, &d->owner, queue->now_ns, &view);
	learn_window(d, &view, queue->now_ns);
	d->window = view.window;
	d->in_flight = view.in_flight;
	d->canary = view.canary_due && !view.canary_out;
	/* mail waits for it: more of a ceiling that is divided, or its turn */
	windows_want(queue->engine, &d->owner, &view, view.in_flight, queue->now_ns);
	windows_want_canary(queue->engine, &d->owner, &view, queue->now_ns);
	if (view.observed) {
		d->window = UINT32_MAX;
		return QUEUE_WAITS_FOR_TURN;
	}
	stopped = view.state == WINDOW_DEAD || view.state == WINDOW_HELD;
	if (stopped) {
		d->until_ns = view.until_ns;
		return QUEUE_WAITS_SUSPENDED;
	}
	if (view.pace.interval_ns != 0)
		look_at_pace(queue, d);
	if (queue->now_ns < d->pace_ns)
		return QUEUE_WAITS_PACE;
	return queue_room(d) == 0 || queue->now_ns < d->blocked_ns ? QUEUE_WAITS_WINDOW :
	    QUEUE_WAITS_FOR_TURN;
}

/* --- class ------------------------------------------------------------------------- */

/* Runs that are to ask for their first session yet. */
static uint32_t runs_to_come(const struct queue *queue, uint32_t class_index) {
	const struct run *run;
	uint32_t count = 0;

	TAILQ_FOREACH(run, &queue->runs, of_all)
		count += run != queue->building && !run->adopted && run->progress_ns == 0 &&
		    run->dest_count > 0 && run->dests[0]->class_index == class_index;
	return count;
}

/* TURN, SUSPENDED or CLASS. */
static enum queue_wait look_at_class(struct queue *queue, struct dest *d) {
	const struct generation_class *class;
	struct outbound_answer answer;
	struct window_held held;
	const struct limits *limits;
	struct limits own;
	uint32_t open;

	d->class_index = CLASS_NO_RULE;
	if (d->owner.kind != DESTINATION_DOMAIN && d->owner.kind != DESTINATION_RELAY)
		return QUEUE_WAITS_FOR_TURN;
	outbound_explain(queue->engine, queue->generation, d->owner.name,
	    strlen(d->owner.name), &answer, &open);
	d->class_index = answer.answer.class_index;
	if (d->class_index == CLASS_NO_RULE)
		return QUEUE_WAITS_FOR_TURN;
	class = generation_class(queue->generation, d->class_index);
	if (class->outbound_observe)
		return QUEUE_WAITS_FOR_TURN;
	if (windows_class_held(queue->engine, queue->generation, d->class_index, queue->now_ns,
	    &held)) {
		d->until_ns = held.until_ns;
		return QUEUE_WAITS_SUSPENDED;
	}
	limits = class_limits(queue->engine->segment, queue->generation, class, queue->now_ns, &own);
	if (answer.answer.decision.verdict == VERDICT_ADMIT &&
	    open + runs_to_come(queue, d->class_index) < limits->sessions)
		return QUEUE_WAITS_FOR_TURN;
	/* it waits for more than this node has: nobody else asks for that */
	if (class->shared)
		shares_wanted(queue->engine->segment, class, false);
	return QUEUE_WAITS_CLASS;
}

/* --- conclusions --------------------------------------------------------------------- */

static void suspend_dest(struct queue *queue, struct dest *d) {
	struct part *p;

	queue_journal_suspended(queue, d);
	LIST_FOREACH(p, &d->parts, of_dest) {
		if (p->state != PART_DUE)
			continue;
		if (p->on_board)
			queue_unplace_part(queue, p, false);
		p->state = PART_SUSPENDED;
	}
}

/* It is back: all of its mail is due. */
static void release_dest(struct queue *queue, struct dest *d) {
	struct part *p;

	d->back_ns = queue->now_ns;
	queue_journal_recall(queue, d);
	LIST_FOREACH(p, &d->parts, of_dest)
		if (p->state == PART_SUSPENDED || p->state == PART_RETRY)
			p->state = PART_DUE;
}

/* Not at once: to settle a message looks at other destinations. */
void queue_settle_changed(struct queue *queue) {
	struct dest *d;

	while ((d = SLIST_FIRST(&queue->changed)) != NULL) {
		const struct message *last = NULL;
		struct part *next;

		SLIST_REMOVE_HEAD(&queue->changed, of_changed);
		d->changed = false;
		for (struct part *p = LIST_FIRST(&d->parts); p != NULL; p = next) {
			struct message *m = p->message;

			next = LIST_NEXT(p, of_dest);
			/* many of one message stand one after another: domains of one relay */
			if (m != last)
				queue_settle(queue, m);
			last = m;
		}
		queue_leave_dest(queue, d);
	}
}

static void conclude_look(struct queue *queue, struct dest *d, enum queue_wait wait) {
	bool open = wait == QUEUE_WAITS_FOR_TURN, was_suspended = d->suspended;

	d->wait = (uint8_t)wait;
	d->suspended = wait == QUEUE_WAITS_SUSPENDED;
	if (d->open != open)
		job_queue_window(queue->board, d->queue, open ? UINT32_MAX / 2 : 0);
	d->open = open;
	if (open)
		queue_unwatch(d);
	else
		queue_watch(queue, d);
	if (d->suspended == was_suspended)
		return;
	if (d->suspended)
		suspend_dest(queue, d);
	else
		release_dest(queue, d);
	queue_note_changed(queue, d);
}

/* Until then it is shut, unless something changes; 0: it is not by time. */
static int64_t opens_ns(const struct dest *d) {
	return d->blocked_ns > d->pace_ns ? d->blocked_ns : d->pace_ns;
}

/* When that is, it is looked at again. */
static void watch_opening(struct queue *queue, const struct dest *d) {
	if (opens_ns(d) > queue->now_ns && opens_ns(d) < queue->watch_ns)
		queue->watch_ns = opens_ns(d);
}

enum queue_wait queue_look(struct queue *queue, struct dest *d) {
	enum queue_wait wait = look_at_window(queue, d), class;

	d->looked_ns = queue->now_ns;
	class = look_at_class(queue, d);
	if (class == QUEUE_WAITS_SUSPENDED ||
	    (wait == QUEUE_WAITS_FOR_TURN && class != QUEUE_WAITS_FOR_TURN))
		wait = class;
	/* no window that counts: a class has put it off, of a host that is not known here */
	if (wait == QUEUE_WAITS_FOR_TURN && queue->now_ns < d->blocked_ns)
		wait = QUEUE_WAITS_CLASS;
	if (wait == QUEUE_WAITS_FOR_TURN && queue_is_doubtful(d) &&
	    queue->mtas[d->mta].mailers[d->mailer].doubtful >=
		(queue_processes(&queue->settings, d->mta, d->mailer) + 1) / 2)
		wait = QUEUE_WAITS_STALLED;
	if (wait == QUEUE_WAITS_FOR_TURN &&
	    (d->stalls > 0 || ((queue_is_doubtful(d) || queue_is_unknown(d)) && d->tries > 0)))
		wait = QUEUE_WAITS_STALLED;
	if (wait != QUEUE_WAITS_FOR_TURN)
		watch_opening(queue, d);
	conclude_look(queue, d, wait);
	return (enum queue_wait)d->wait;
}

enum queue_wait queue_look_again(struct queue *queue, struct dest *d) {
	if (d->seen && queue->now_ns - d->looked_ns < FRESH_NS && queue->now_ns >= d->looked_ns)
		return (enum queue_wait)d->wait;
	return queue_look(queue, d);
}

/* Time alone does not bring it back yet, and nobody has changed anything. */
static bool dest_stays(const struct dest *d, bool nothing_changed, int64_t now_ns) {
	return nothing_changed && d->suspended && d->until_ns > now_ns && d->looked_ns != 0;
}

void queue_look_at_watched(struct queue *queue) {
	uint64_t version = states_version(queue->engine->segment);
	bool nothing_changed = version == queue->states_version;

	if (queue->now_ns < queue->watch_ns)
		return;
	queue->states_version = version;
	queue->watch_ns = queue->now_ns + WATCH_NS;
	for (struct dest *d = LIST_FIRST(&queue->watched), *next; d != NULL; d = next) {
		next = LIST_NEXT(d, of_watched);
		if (d->part_count == 0 && d->runs == 0 && !d->in_journal)
			queue_unwatch(d);
		else if (dest_stays(d, nothing_changed, queue->now_ns))
			continue;
		else if (d->suspended || queue->now_ns - d->looked_ns >= WATCH_NS ||
		    d->looked_ns == 0 || opens_ns(d) > d->looked_ns)
			(void)queue_look(queue, d);
		watch_opening(queue, d);
	}
}

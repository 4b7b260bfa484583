/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What runs next of the driven queue.
 * MODEL    The board names the next message and dest; the run is built round it as queue.h
 *          says.  What is taken for a run counts as served at once: windows, claims and
 *          processes are kept here.  The grant is written before anything leaves the board.
 * ERRORS   No place for a grant: it is not run now.
 * THREADS  One.
 */
#include <string.h>

#include "engine/queue_internal.h"

#define LOOKED_AT_MOST	512u	/* messages, for those that follow in a run */
#define SMALL_PARTS	4u	/* a message that follows has so many destinations at most */
#define COST_EACH	8u	/* recipients of a message that shares a run with others */
#define DEEP		4u	/* so many messages wait for each process: many wait */
#define VERY_DEEP	8u	/* the same times DEEP: one that hangs may hold a few others up */
#define UNKNOWN_MOST	4u
#define TRIES		64u
#define LAST_NS		(2 * NS_PER_SECOND)
#define FEW_DESTS	3u	/* a run claims a place at each of so few; of more a part */

struct building {
	struct queue *queue;
	struct run *run;
	uint32_t lead;		/* dest */
	bool alone;		/* nothing else goes along */
	bool has_unread;	/* a message of it has unread recipients, which go along */
	uint32_t most;		/* recipients of its biggest message */
	uint32_t listed;	/* messages on the board */
	uint32_t free;		/* processes, this one included */
	uint32_t cap;		/* messages of the run */
	bool no_place;		/* for a grant of the last that was to be added */
	uint32_t unknown, unknown_most;	/* dests of which nothing is known, by those that follow */
	int64_t now_ns;
};

/* --- one message --------------------------------------------------------------------- */

static bool is_in_run(const struct run *run, uint32_t dest)
{
	for (unsigned i = 0; i < run->dest_count; i++)
		if (run->dests[i] == dest)
			return true;
	return false;
}

/* May the dest be in the run, besides the one that it is built for? */
static bool goes_along(struct building *b, uint32_t dest)
{
	const struct dest *d = &b->queue->dests[dest];

	if (is_in_run(b->run, dest))
		return true;
	return !b->alone && b->run->dest_count < RUN_DESTS_MAX &&
	    queue_look_again(b->queue, dest, b->now_ns) == QUEUE_WAITS_FOR_TURN &&
	    !queue_is_doubtful(d) && d->slow_ns <= b->now_ns &&
	    (b->run->count == 0 || !queue_is_unknown(d) || b->unknown < b->unknown_most);
}

/* Marks what is to go, and returns how many parts that are. */
static uint32_t mark(struct building *b, uint32_t message)
{
	struct queue *queue = b->queue;
	uint32_t count = 0, at;

	/* a look may set others of the message aside */
	for (at = queue->messages[message].first_part; at != NONE;
	     at = queue->parts[at].next_of_message)
		if (queue->parts[at].state == PART_DUE && queue->parts[at].placed)
			queue->parts[at].chosen = queue->parts[at].dest == b->lead ||
			    goes_along(b, queue->parts[at].dest);
	for (at = queue->messages[message].first_part; at != NONE;
	     at = queue->parts[at].next_of_message) {
		struct part *p = &queue->parts[at];

		p->chosen = p->chosen && p->state == PART_DUE && p->placed;
		count += p->chosen;
	}
	return count;
}

static void note_dest(struct building *b, uint32_t dest)
{
	struct run *run = b->run;

	if (is_in_run(run, dest) || run->dest_count == RUN_DESTS_MAX)
		return;
	run->dests[run->dest_count++] = dest;
	b->unknown += queue_is_unknown(&b->queue->dests[dest]);
	b->queue->dests[dest].runs++;
	b->queue->dests[dest].tries++;
}

/* Off the board: served, as far as that goes. */
static void take(struct building *b, uint32_t message)
{
	struct queue *queue = b->queue;
	struct message *m = &queue->messages[message];
	struct job_taken taken;

	for (uint32_t at = m->first_part; at != NONE; at = queue->parts[at].next_of_message) {
		struct part *p = &queue->parts[at];

		if (!p->chosen)
			continue;
		p->chosen = false;
		p->state = PART_RUNNING;
		p->ran = p->put_off = p->held = p->timed_out = p->was_last = false;
		p->unanswered = false;
		b->run->recipients += p->recipients;
		note_dest(b, p->dest);
		if (job_take(queue->board, m->job, queue->dests[p->dest].queue, UINT32_MAX, 0,
		    &taken))
			(void)job_done(queue->board, &taken);
	}
	queue_unplace(queue, message);
	queue_clear_timer(queue, message);
	m->state = MESSAGE_RUNS;
	m->run = (uint32_t)(b->run - queue->runs);
	b->run->messages[b->run->count++] = message;
	b->has_unread = b->has_unread || m->unread > 0;
	if (m->recipients > b->most)
		b->most = m->recipients;
}

static bool add(struct building *b, uint32_t message)
{
	uint32_t chosen = mark(b, message);

	b->no_place = false;
	if (chosen == 0)
		return false;
	b->no_place = !queue_put_grant(b->queue, message, chosen, b->run->number);
	if (b->no_place)
		return false;
	take(b, message);
	return true;
}

/* --- those that follow ------------------------------------------------------------------ */

static bool is_full(const struct building *b)
{
	return b->run->count >= b->cap || b->run->count >= QUEUE_RUN_IDS_MAX ||
	    b->run->recipients >= b->cap * COST_EACH;
}

/* Of about the same size: Sendmail has its own order within a run, and small mail is not to
 * stand behind big mail. */
static bool may_follow(const struct building *b, const struct message *m)
{
	return m->in_core <= COST_EACH &&
	    b->run->recipients + m->in_core <= b->cap * COST_EACH &&
	    m->state == MESSAGE_WAITS && !m->reading && m->unread == 0 &&
	    m->directory == b->run->directory;
}

static bool is_for_lead_alone(const struct building *b, const struct message *m)
{
	const struct queue *queue = b->queue;

	for (uint32_t at = m->first_part; at != NONE; at = queue->parts[at].next_of_message)
		if (queue->parts[at].dest != b->lead)
			return false;
	return true;
}

static uint32_t share(uint32_t of, uint32_t among)
{
	return among == 0 ? of : of / among + (of % among != 0);
}

/* Over one connection: as many as leave the other places and processes their part. */
static void follow_to_lead(struct building *b)
{
	struct queue *queue = b->queue;
	const struct dest *d = &queue->dests[b->lead];
	uint32_t room = queue_room(d), at, next, most, looked = 0;
	struct job_queue_view view;

	job_queue_view(queue->board, d->queue, &view);
	most = b->run->count + share(view.waiting_jobs + 1, room < b->free ? room : b->free) - 1;
	if (queue_is_doubtful(d))
		return;
	for (at = job_waiting_next(queue->board, d->queue, JOB_NONE);
	     at != JOB_NONE && b->run->count < most && !is_full(b) &&
	     looked++ < LOOKED_AT_MOST; at = next) {
		uint32_t message = (uint32_t)job_message_word(queue->board, at);
		const struct message *m = &queue->messages[message];

		next = job_waiting_next(queue->board, d->queue, at);
		if (may_follow(b, m) && is_for_lead_alone(b, m))
			(void)add(b, message);
	}
}

/* Where many wait, a process is worth more than a message. */
static void follow(struct building *b)
{
	struct queue *queue = b->queue;
	uint32_t transport = queue->mtas[b->run->mta].transport;
	uint32_t at = job_list_next(queue->board, transport, JOB_NONE), next, looked = 0;

	for (; at != JOB_NONE && !is_full(b) && looked++ < LOOKED_AT_MOST; at = next) {
		uint32_t message = (uint32_t)job_message_word(queue->board, at);
		const struct message *m = &queue->messages[message];

		next = job_list_next(queue->board, transport, at);
		if (may_follow(b, m) && m->part_count <= SMALL_PARTS)
			(void)add(b, message);
	}
}

/* --- the run ------------------------------------------------------------------------------ */

static void want_more(void *context, uint32_t job, uint32_t most)
{
	struct queue *queue = context;
	struct message *m = &queue->messages[job_message_word(queue->board, job)];

	(void)most;
	if (m->more_asked || m->reading || m->more_ns > queue->now_ns)
		return;
	m->more_asked = true;
	queue->calls.read_more(queue->calls.context, m->mta, m->directory, m->id, m->place);
}

/* Does it save up slots by which others slip past? */
static bool is_big(const struct queue *queue, unsigned mta, uint32_t job)
{
	const struct queue_settings *settings = &queue->settings;
	struct job_view view;

	return settings->discipline == QUEUE_PREEMPTIVE && settings->delivery_slot_cost >= 2 &&
	    job_view(queue->board, job, queue->mtas[mta].transport, &view) &&
	    view.most_entries >= (uint64_t)settings->minimum_delivery_slots *
	    settings->delivery_slot_cost && view.waiting_entries > 1;
}

/* What the board has next, and may go indeed. */
static bool find_lead(struct queue *queue, unsigned mta, int64_t now_ns,
    struct job_taken *taken)
{
	const struct job_reader reader = { .read = want_more, .context = queue };
	struct primed *primed = &queue->mtas[mta].primed;

	if (queue->settings.discipline == QUEUE_FIRST_COME &&
	    job_list_next(queue->board, queue->mtas[mta].transport, JOB_NONE) != JOB_NONE)
		return queue_first_come(queue, mta, now_ns, taken);
	for (unsigned i = 0; i < TRIES; i++) {
		uint32_t dest, message;
		enum queue_wait wait;

		if (primed->message != NONE && !queue->dests[primed->dest].open)
			queue_unprime(queue, mta);
		if (!job_next(queue->board, queue->mtas[mta].transport, &reader, now_ns, taken))
			return false;
		dest = (uint32_t)job_queue_word(queue->board, taken->queue);
		message = (uint32_t)job_message_word(queue->board, taken->message);
		wait = queue_look(queue, dest, now_ns);
		if (wait == QUEUE_WAITS_FOR_TURN && (primed->message != NONE ||
		    !is_big(queue, mta, taken->message)))
			return true;
		job_put_back(queue->board, taken);
		if (wait == QUEUE_WAITS_FOR_TURN)
			queue_prime(queue, message, dest);
		else if (message == primed->message)
			queue_unprime(queue, mta);
		if (wait == QUEUE_WAITS_SUSPENDED)
			(void)job_withdraw(queue->board, taken->message, taken->queue);
	}
	return false;
}

static bool is_slow(const struct building *b)
{
	return b->lead != NONE && b->queue->dests[b->lead].slow_ns > b->now_ns;
}

static void claim(struct building *b)
{
	struct run *run = b->run;

	run->weight = run->dest_count <= FEW_DESTS ? 64 : 64 * FEW_DESTS / run->dest_count;
	if (run->weight == 0)
		run->weight = 1;
	for (unsigned i = 0; i < run->dest_count; i++) {
		struct dest *d = &b->queue->dests[run->dests[i]];

		d->claims += run->weight;
		/* it may be the last that goes there for now */
		d->looked_ns = 0;
	}
	/* one that is slow goes alone, and is given its time: to be known, or to have failed */
	run->brief = run->dest_count > 1 ||
	    (!is_slow(b) && (b->unknown > 0 || b->has_unread));
	run->doubtful = b->alone;
	b->queue->mtas[run->mta].doubtful += b->alone;
}

/* Of which each process that is free can have its part. */
static uint32_t places_for_each(const struct building *b)
{
	uint32_t granted = b->queue->granted;

	return granted >= GRANTS_WELL ? 0 : (GRANTS_WELL - granted) / b->free;
}

/* Messages for each process, where many wait. */
static uint32_t deep_of(const struct building *b, const struct queue_settings *settings)
{
	uint32_t deep = b->listed / (DEEP * settings->mtas[b->run->mta].processes);
	uint32_t most = places_for_each(b);

	if (most > QUEUE_RUN_IDS_MAX)
		most = QUEUE_RUN_IDS_MAX;
	return deep < most ? deep : most;
}

static uint32_t cap_of(const struct building *b, const struct queue_settings *settings)
{
	uint32_t deep = deep_of(b, settings), most = places_for_each(b);
	uint32_t cap = deep > settings->backlog ? deep : settings->backlog;

	if (most > QUEUE_RUN_IDS_MAX)
		most = QUEUE_RUN_IDS_MAX;
	if (cap > most)
		cap = most;
	return cap < 1 ? 1 : cap;
}

/* Has the message something else to do than what it would be tried alone for? */
static bool others_are_due(const struct building *b, uint32_t message)
{
	const struct queue *queue = b->queue;

	for (uint32_t at = queue->messages[message].first_part; at != NONE;
	     at = queue->parts[at].next_of_message)
		if (queue->parts[at].state == PART_DUE && queue->parts[at].dest != b->lead &&
		    !queue_is_doubtful(&queue->dests[queue->parts[at].dest]) &&
		    queue->dests[queue->parts[at].dest].slow_ns <= b->now_ns)
			return true;
	return false;
}

/* That cannot go now: both wait a moment, as whoever hangs has all of the message locked. */
static void put_last(struct building *b, uint32_t message, uint32_t dest)
{
	struct queue *queue = b->queue;

	queue_unplace(queue, message);
	for (uint32_t at = queue->messages[message].first_part; at != NONE;
	     at = queue->parts[at].next_of_message) {
		struct part *p = &queue->parts[at];

		if (p->state == PART_DUE && p->dest == dest) {
			p->state = PART_RETRY;
			p->due_ns = b->now_ns + LAST_NS;
		}
	}
	queue_settle(queue, message, b->now_ns);
}

static bool build(struct building *b, const struct job_taken *taken)
{
	struct queue *queue = b->queue;
	uint32_t message = (uint32_t)job_message_word(queue->board, taken->message);
	uint32_t lead = NONE;

	b->run->directory = queue->messages[message].directory;
	/* one entry is out already: what it is of is placed all the same */
	if (b->alone && others_are_due(b, message)) {
		lead = b->lead;
		b->lead = NONE;
		b->alone = false;
	}
	if (!add(b, message)) {
		job_put_back(queue->board, taken);
		if (lead != NONE || b->no_place)
			put_last(b, message, lead != NONE ? lead : b->lead);
		b->run->number = 0;
		return false;
	}
	(void)job_done(queue->board, taken);
	b->cap = cap_of(b, &queue->settings);
	if (b->run->recipients <= COST_EACH && b->lead != NONE) {
		follow_to_lead(b);
		b->cap = deep_of(b, &queue->settings);
		b->unknown_most = b->cap >= VERY_DEEP ? UNKNOWN_MOST : 0;
		if (!b->alone)
			follow(b);
	}
	claim(b);
	return true;
}

/* The next run of the mail server.  False: nothing came of what the board named. */
static bool make(struct queue *queue, unsigned mta, const struct job_taken *taken,
    uint32_t listed, int64_t now_ns, struct queue_run *out)
{
	const struct queue_mta_settings *settings = &queue->settings.mtas[mta];
	struct building b = { .queue = queue, .now_ns = now_ns, .listed = listed };
	bool found;

	b.run = queue_make_run(queue);
	if (b.run == NULL) {
		job_put_back(queue->board, taken);
		return false;
	}
	b.run->mta = (uint8_t)mta;
	queue->building = b.run->number;
	b.run->started_ns = now_ns;
	b.lead = (uint32_t)job_queue_word(queue->board, taken->queue);
	b.alone = queue_is_doubtful(&queue->dests[b.lead]) ||
	    queue->dests[b.lead].slow_ns > now_ns;
	b.free = settings->processes - queue->mtas[mta].running;
	found = build(&b, taken);
	queue->building = 0;
	if (!found)
		return false;
	queue->mtas[mta].running++;
	*out = (struct queue_run){ .run = b.run->number, .mta = mta,
		.directory = b.run->directory, .count = b.run->count,
		.brief = b.run->brief, .recipients = b.most };
	for (unsigned i = 0; i < b.run->count; i++)
		out->ids[i] = queue->messages[b.run->messages[i]].id;
	return true;
}

static bool next_of(struct queue *queue, unsigned mta, int64_t now_ns, struct queue_run *out)
{
	const struct queue_mta_settings *settings = &queue->settings.mtas[mta];
	const struct queue_mta *m = &queue->mtas[mta];
	struct job_taken taken;
	struct job_count count;

	if (!settings->driven || m->running >= settings->processes ||
	    m->running + m->stalled >= 2 * settings->processes || now_ns < m->hold_ns ||
	    queue->granted >= GRANTS_MOST)
		return false;
	for (unsigned i = 0; i < TRIES; i++) {
		job_count(queue->board, &count);
		if (count.listed == 0 || !find_lead(queue, mta, now_ns, &taken))
			return false;
		if (make(queue, mta, &taken, count.listed, now_ns, out))
			return true;
	}
	return false;
}

bool queue_next_run(struct queue *queue, int64_t now_ns, struct queue_run *out)
{
	const struct generation *pinned = queue_pin(queue, now_ns);
	bool found = false;

	queue_settle_changed(queue, now_ns);
	for (unsigned i = 0; i < GENERATION_MTAS_MAX && !found; i++) {
		unsigned mta = (queue->turn + i) % GENERATION_MTAS_MAX;

		found = next_of(queue, mta, now_ns, out);
		if (found)
			queue->turn = (mta + 1) % GENERATION_MTAS_MAX;
	}
	queue_unpin(queue, pinned);
	return found;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What runs next of the driven queue.
 * MODEL    The board names the next envelope and dest; the run is built round the first of its
 *          files that has something for there, as queue.h says.  What is taken for a run counts
 *          as served at once: windows, claims and processes are kept here.  The grant is written before anything leaves the board.
 * ERRORS   No place for a grant: it is not run now.
 * THREADS  One.
 */
#include "engine/queue/queue_internal.h"

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
	struct dest *lead;	/* NULL: none */
	bool alone;		/* nothing else goes along */
	bool has_unread;	/* a message of it has unread recipients, which go along */
	uint32_t most;		/* recipients of its biggest message */
	uint32_t listed;	/* messages on the board, of the mailer */
	uint32_t free;		/* processes, this one included */
	uint32_t cap;		/* messages of the run */
	bool no_place;		/* for a grant of the last that was to be added */
	uint32_t unknown, unknown_most;	/* dests of which nothing is known, by those that follow */
	int64_t now_ns;
};

/* --- one message --------------------------------------------------------------------- */

static bool is_in_run(const struct run *run, const struct dest *d) {
	for (unsigned i = 0; i < run->dest_count; i++)
		if (run->dests[i] == d)
			return true;
	return false;
}

/* For another message of the run: each takes one. */
static bool has_tokens(const struct building *b, const struct dest *d) {
	return d->tokens == UINT32_MAX || b->run->count == 0;
}

/* May the dest be in the run, besides the one that it is built for? */
static bool goes_along(struct building *b, struct dest *d) {
	if (is_in_run(b->run, d))
		return has_tokens(b, d);
	return !b->alone && b->run->dest_count < RUN_DESTS_MAX &&
	    queue_look_again(b->queue, d) == QUEUE_WAITS_FOR_TURN &&
	    !queue_is_doubtful(d) && d->slow_ns <= b->now_ns &&
	    (b->run->count == 0 || !queue_is_unknown(d) || b->unknown < b->unknown_most);
}

static bool part_may_go(const struct part *p) {
	return p->state == PART_DUE && p->on_board;
}

/* Marks what is to go, and returns how many parts that are. */
static uint32_t mark_parts(struct building *b, struct message *m) {
	uint32_t count = 0;

	/* a look may set others of the message aside */
	for (struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (part_may_go(p))
			p->chosen = p->dest == b->lead ? has_tokens(b, p->dest) :
			    goes_along(b, p->dest);
	for (struct part *p = m->parts; p != NULL; p = p->next_of_message) {
		p->chosen = p->chosen && part_may_go(p);
		count += p->chosen;
	}
	return count;
}

static void note_dest(struct building *b, struct dest *d) {
	struct run *run = b->run;

	if (is_in_run(run, d) || run->dest_count == RUN_DESTS_MAX)
		return;
	run->dests[run->dest_count++] = d;
	b->unknown += queue_is_unknown(d);
	d->runs++;
	d->tries++;
}

/* Off the board: served, as far as that goes. */
static void take_parts(struct building *b, struct message *m) {
	struct queue *queue = b->queue;

	for (struct part *p = m->parts; p != NULL; p = p->next_of_message) {
		if (!p->chosen)
			continue;
		p->chosen = false;
		p->state = PART_RUNNING;
		p->ran = p->put_off = p->held = p->timed_out = p->was_last = false;
		p->unanswered = false;
		b->run->recipients += p->recipients;
		note_dest(b, p->dest);
		queue_unplace_part(queue, p, true);
	}
	queue_unplace(queue, m);
	queue_clear_timer(queue, m);
	m->state = MESSAGE_RUNS;
	m->run = b->run;
	b->run->messages[b->run->count++] = m;
	b->has_unread = b->has_unread || m->unread > 0;
	if (m->recipients > b->most)
		b->most = m->recipients;
}

static bool add_message(struct building *b, struct message *m) {
	uint32_t chosen = mark_parts(b, m);

	b->no_place = false;
	if (chosen == 0)
		return false;
	b->no_place = !queue_put_grant(b->queue, m, chosen, b->run->number);
	if (b->no_place)
		return false;
	take_parts(b, m);
	return true;
}

/* --- those that follow ------------------------------------------------------------------ */

static bool is_full(const struct building *b) {
	return b->run->count >= b->cap || b->run->count >= QUEUE_RUN_IDS_MAX ||
	    b->run->recipients >= b->cap * COST_EACH;
}

/* Of about the same size: Sendmail has its own order within a run, and small mail is not to
 * stand behind big mail. */
static bool may_follow(const struct building *b, const struct message *m) {
	return m->in_core <= COST_EACH &&
	    b->run->recipients + m->in_core <= b->cap * COST_EACH &&
	    m->state == MESSAGE_WAITS && m->unread == 0 &&
	    m->directory == b->run->directory;
}

static bool is_for_alone(const struct message *m, const struct dest *d) {
	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (p->dest != d)
			return false;
	return true;
}

static uint32_t share_of(uint32_t of, uint32_t among) {
	return among == 0 ? of : of / among + (of % among != 0);
}

static uint32_t next_listed(const struct building *b, const struct dest *only, uint32_t at) {
	const struct queue_mailer *m = &b->queue->mtas[b->run->mta].mailers[b->run->mailer];

	return only != NULL ? job_waiting_next(b->queue->board, only->queue, at) :
	    job_list_next(b->queue->board, m->transport, at);
}

/* In the scheduler's order: what is for that dest alone, or (NULL) all that has few, until the
 * run has so many messages. */
static void add_followers(struct building *b, const struct dest *only, uint32_t most) {
	uint32_t looked = 0, at, next;

	for (at = next_listed(b, only, JOB_NONE); at != JOB_NONE; at = next) {
		struct message *m;

		next = next_listed(b, only, at);
		TAILQ_FOREACH(m, &queue_job_envelope(b->queue, at)->messages, of_envelope) {
			if (b->run->count >= most || is_full(b) || looked++ >= LOOKED_AT_MOST)
				return;
			if (m->placed[b->run->mailer] > 0 && may_follow(b, m) && (only != NULL ?
			    is_for_alone(m, only) : m->part_count <= SMALL_PARTS))
				(void)add_message(b, m);
		}
	}
}

/* Over one connection: as many as leave the other places and processes their part. */
static uint32_t most_for_lead(const struct building *b) {
	uint32_t room = queue_room(b->lead);

	/* over one connection go only messages that need no tokens */
	return b->lead->tokens != UINT32_MAX ? b->run->count :
	    b->run->count + share_of(b->lead->placed + 1, room < b->free ? room : b->free) - 1;
}

/* --- the run ------------------------------------------------------------------------------ */

/* More of the first of its files that has more. */
static void want_more(void *context, uint32_t job, uint32_t most) {
	struct queue *queue = context;
	struct message *m;

	(void)most;
	TAILQ_FOREACH(m, &queue_job_envelope(queue, job)->messages, of_envelope) {
		if (m->unread_placed == 0 || m->more_asked ||
		    m->more_ns > queue->now_ns)
			continue;
		m->more_asked = true;
		queue->calls.read(queue->calls.context, m->directory, m->id,
		    m->place);
		return;
	}
}

/* Does it save up slots by which others slip past? */
static bool is_big(const struct queue *queue, unsigned mta, unsigned mailer, uint32_t job) {
	const struct job_settings settings = queue_job_settings(&queue->settings, mta, mailer);
	struct job_view view;

	return settings.delivery_slot_cost >= 2 && job_view(queue->board, job,
	    queue->mtas[mta].mailers[mailer].transport, &view) &&
	    view.most_entries >= (uint64_t)settings.minimum_delivery_slots *
	    settings.delivery_slot_cost && view.waiting_entries > 1;
}

/* What the board has next.  True: it may go indeed, as *message for *dest. */
static bool ask_board(struct queue *queue, unsigned mta, unsigned mailer,
    const struct job_taken *taken, struct message **message, struct dest **dest) {
	struct primed *primed = &queue_mailer_of(queue, mta, mailer)->primed;
	const struct envelope *e = queue_job_envelope(queue, taken->message);
	const struct part *first;
	enum queue_wait wait;
	bool primes;

	*dest = queue_job_dest(queue, taken->queue);
	wait = queue_look(queue, *dest);
	first = queue_first_part(e, *dest);
	*message = first == NULL ? NULL : first->message;
	primes = primed->message == NULL && is_big(queue, mta, mailer, taken->message);
	job_put_back(queue->board, taken);
	if (wait == QUEUE_WAITS_SUSPENDED || first == NULL)
		(void)job_withdraw(queue->board, taken->message, taken->queue);
	if (wait != QUEUE_WAITS_FOR_TURN && primed->message != NULL && primed->dest == *dest)
		queue_unprime(queue, mta, mailer);
	if (wait != QUEUE_WAITS_FOR_TURN || first == NULL)
		return false;
	if (primes)
		queue_prime(queue, *message, *dest);
	return !primes;
}

/* False: nothing of the mailer may go. */
static bool find_lead(struct queue *queue, unsigned mta, unsigned mailer,
    struct message **message, struct dest **dest) {
	const struct job_reader reader = { .read = want_more, .context = queue };
	struct queue_mailer *m = queue_mailer_of(queue, mta, mailer);
	struct job_taken taken;

	if (queue->settings.schedule.discipline == DISCIPLINE_FIRST_COME &&
	    job_list_next(queue->board, m->transport, JOB_NONE) != JOB_NONE)
		return queue_first_come(queue, mta, mailer, message, dest);
	for (unsigned i = 0; i < TRIES; i++) {
		if (m->primed.message != NULL && !m->primed.dest->open)
			queue_unprime(queue, mta, mailer);
		if (!job_next(queue->board, m->transport, &reader, queue->now_ns, &taken))
			return false;
		if (ask_board(queue, mta, mailer, &taken, message, dest))
			return true;
	}
	return false;
}

static bool is_slow(const struct building *b) {
	return b->lead != NULL && b->lead->slow_ns > b->now_ns;
}

static void claim_places(struct building *b) {
	struct run *run = b->run;

	run->weight = run->dest_count <= FEW_DESTS ? 64 : 64 * FEW_DESTS / run->dest_count;
	if (run->weight == 0)
		run->weight = 1;
	for (unsigned i = 0; i < run->dest_count; i++) {
		struct dest *d = run->dests[i];

		d->claims += run->weight;
		/* it may be the last that goes there for now */
		d->looked_ns = 0;
	}
	/* one that is slow goes alone, and is given its time: to be known, or to have failed */
	run->brief = run->dest_count > 1 ||
	    (!is_slow(b) && (b->unknown > 0 || b->has_unread));
	run->doubtful = b->alone;
	queue_mailer_of(b->queue, run->mta, run->mailer)->doubtful += b->alone;
}

/* Of which each process that is free can have its part. */
static uint32_t places_for_each(const struct building *b) {
	uint32_t granted = b->queue->granted;
	uint32_t most = granted >= GRANTS_WELL ? 0 : (GRANTS_WELL - granted) / b->free;

	return most < QUEUE_RUN_IDS_MAX ? most : QUEUE_RUN_IDS_MAX;
}

/* Messages for each process, where many wait. */
static uint32_t deep_of(const struct building *b, const struct queue_settings *settings) {
	uint32_t deep = b->listed /
	    (DEEP * queue_processes(settings, b->run->mta, b->run->mailer));
	uint32_t most = places_for_each(b);

	return deep < most ? deep : most;
}

static uint32_t cap_of(const struct building *b, const struct queue_settings *settings) {
	uint32_t deep = deep_of(b, settings), most = places_for_each(b);
	uint32_t cap = deep > settings->schedule.backlog ? deep : settings->schedule.backlog;

	if (cap > most)
		cap = most;
	return cap < 1 ? 1 : cap;
}

/* Has the message something else to do than what it would be tried alone for? */
static bool others_are_due(const struct building *b, const struct message *m) {
	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (p->state == PART_DUE && p->dest != b->lead && !queue_is_doubtful(p->dest) &&
		    p->dest->slow_ns <= b->now_ns)
			return true;
	return false;
}

/* That cannot go now: both wait a moment, as whoever hangs has all of the message locked. */
static void put_last(struct building *b, struct message *m, const struct dest *d) {
	queue_unplace(b->queue, m);
	for (struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (p->state == PART_DUE && p->dest == d) {
			p->state = PART_RETRY;
			p->due_ns = b->now_ns + LAST_NS;
		}
	queue_settle(b->queue, m);
}

static bool build_run(struct building *b, struct message *m) {
	struct dest *lead = b->lead;
	bool put_aside = b->alone && others_are_due(b, m);

	b->run->directory = m->directory;
	if (put_aside) {
		b->lead = NULL;
		b->alone = false;
	}
	if (!add_message(b, m)) {
		if (put_aside || b->no_place)
			put_last(b, m, lead);
		return false;
	}
	b->cap = cap_of(b, &b->queue->settings);
	if (b->run->recipients <= COST_EACH && b->lead != NULL) {
		if (!queue_is_doubtful(b->lead))
			add_followers(b, b->lead, most_for_lead(b));
		b->cap = deep_of(b, &b->queue->settings);
		b->unknown_most = b->cap >= VERY_DEEP ? UNKNOWN_MOST : 0;
		/* where many wait, a process is worth more than a file */
		if (!b->alone)
			add_followers(b, NULL, UINT32_MAX);
	}
	claim_places(b);
	return true;
}

/* The next run of the mailer.  False: nothing came of what the board named. */
static bool make_next_run(struct queue *queue, unsigned mta, unsigned mailer, struct message *message,
    struct dest *dest, struct queue_run *out) {
	struct queue_mailer *m = queue_mailer_of(queue, mta, mailer);
	struct building b = { .queue = queue, .now_ns = queue->now_ns, .listed = m->messages,
		.lead = dest, .run = queue_make_run(queue),
		.alone = queue_is_doubtful(dest) || dest->slow_ns > queue->now_ns,
		.free = queue_processes(&queue->settings, mta, mailer) - m->running };
	bool found;

	if (b.run == NULL)
		return false;
	b.run->mta = (uint8_t)mta;
	b.run->mailer = (uint8_t)mailer;
	b.run->started_ns = queue->now_ns;
	queue->building = b.run;
	found = build_run(&b, message);
	queue->building = NULL;
	if (!found) {
		queue_free_run(queue, b.run);
		return false;
	}
	m->running++;
	*out = (struct queue_run){ .run = b.run->number,
		.directory = b.run->directory, .count = b.run->count,
		.brief = b.run->brief, .recipients = b.most,
		.is_told = mailer == QUEUE_REMOTE && queue_told_works(queue, mta) };
	for (unsigned i = 0; i < b.run->count; i++)
		out->ids[i] = b.run->messages[i]->id;
	return true;
}

static bool next_of(struct queue *queue, unsigned mta, unsigned mailer,
    struct queue_run *out) {
	const struct generation_mta *settings = &queue->settings.mtas[mta];
	const struct queue_mailer *m = queue_mailer_of(queue, mta, mailer);
	uint32_t processes = queue_processes(&queue->settings, mta, mailer);
	struct message *message;
	struct dest *dest;

	if (settings->drive == 0 || m->running >= processes ||
	    m->running + m->stalled >= 2 * processes || queue->now_ns < queue->mtas[mta].hold_ns ||
	    queue->granted >= GRANTS_MOST)
		return false;
	for (unsigned i = 0; i < TRIES; i++) {
		if (m->messages == 0 || !find_lead(queue, mta, mailer, &message, &dest))
			return false;
		if (make_next_run(queue, mta, mailer, message, dest, out))
			return true;
	}
	return false;
}

bool queue_next_run(struct queue *queue, int64_t now_ns, struct queue_run *out) {
	const unsigned all = GENERATION_MTAS_MAX * QUEUE_MAILERS;
	bool found = false;

	queue_begin(queue, now_ns);
	queue_settle_changed(queue);
	for (unsigned i = 0; i < all && !found && !queue_told_waits(queue); i++) {
		unsigned at = (queue->turn + i) % all;

		found = next_of(queue, at / QUEUE_MAILERS, at % QUEUE_MAILERS, out);
		if (found)
			queue->turn = (at + 1) % all;
	}
	return found;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What runs next of the driven queue.
 * MODEL    The board names the next envelope and dest; the run is built round the first of its
 *          files that has something for there, as queue.h says.  What is taken for a run counts as served at once: windows, claims and
 *          processes are kept here.  The grant is written before anything leaves the board.
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
	uint32_t lead;		/* dest */
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

static bool is_in_run(const struct run *run, uint32_t dest) {
	for (unsigned i = 0; i < run->dest_count; i++)
		if (run->dests[i] == dest)
			return true;
	return false;
}

/* May the dest be in the run, besides the one that it is built for? */
static bool goes_along(struct building *b, uint32_t dest) {
	const struct dest *d = &b->queue->dests[dest];

	if (is_in_run(b->run, dest))
		return true;
	return !b->alone && b->run->dest_count < RUN_DESTS_MAX &&
	    queue_look_again(b->queue, dest, b->now_ns) == QUEUE_WAITS_FOR_TURN &&
	    !queue_is_doubtful(d) && d->slow_ns <= b->now_ns &&
	    (b->run->count == 0 || !queue_is_unknown(d) || b->unknown < b->unknown_most);
}

/* Marks what is to go, and returns how many parts that are. */
static uint32_t mark(struct building *b, uint32_t message) {
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

static void note_dest(struct building *b, uint32_t dest) {
	struct run *run = b->run;

	if (is_in_run(run, dest) || run->dest_count == RUN_DESTS_MAX)
		return;
	run->dests[run->dest_count++] = dest;
	b->unknown += queue_is_unknown(&b->queue->dests[dest]);
	b->queue->dests[dest].runs++;
	b->queue->dests[dest].tries++;
}

/* Off the board: served, as far as that goes. */
static void take(struct building *b, uint32_t message) {
	struct queue *queue = b->queue;
	struct message *m = &queue->messages[message];

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
		queue_unplace_part(queue, at, true);
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

static bool add(struct building *b, uint32_t message) {
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

static bool is_full(const struct building *b) {
	return b->run->count >= b->cap || b->run->count >= QUEUE_RUN_IDS_MAX ||
	    b->run->recipients >= b->cap * COST_EACH;
}

/* Of about the same size: Sendmail has its own order within a run, and small mail is not to
 * stand behind big mail. */
static bool may_follow(const struct building *b, const struct message *m) {
	return m->in_core <= COST_EACH &&
	    b->run->recipients + m->in_core <= b->cap * COST_EACH &&
	    m->state == MESSAGE_WAITS && !m->reading && m->unread == 0 &&
	    m->directory == b->run->directory;
}

static bool is_for_lead_alone(const struct building *b, const struct message *m) {
	const struct queue *queue = b->queue;

	for (uint32_t at = m->first_part; at != NONE; at = queue->parts[at].next_of_message)
		if (queue->parts[at].dest != b->lead)
			return false;
	return true;
}

static uint32_t share(uint32_t of, uint32_t among) {
	return among == 0 ? of : of / among + (of % among != 0);
}

/* Over one connection: as many as leave the other places and processes their part. */
static void follow_to_lead(struct building *b) {
	struct queue *queue = b->queue;
	const struct dest *d = &queue->dests[b->lead];
	uint32_t room = queue_room(d), most, looked = 0, at, next, part, after;

	most = b->run->count + share(d->placed + 1, room < b->free ? room : b->free) - 1;
	if (queue_is_doubtful(d))
		return;
	for (at = job_waiting_next(queue->board, d->queue, JOB_NONE); at != JOB_NONE; at = next) {
		uint32_t envelope = (uint32_t)job_message_word(queue->board, at);

		next = job_waiting_next(queue->board, d->queue, at);
		for (part = queue_first_of_peer(queue, envelope, b->lead); part != NONE;
		     part = after) {
			uint32_t message = queue->parts[part].message;

			/* others for there leave the board with it */
			for (after = queue->parts[part].next_of_peer; after != NONE &&
			     queue->parts[after].message == message;
			     after = queue->parts[after].next_of_peer)
				;
			if (b->run->count >= most || is_full(b) || looked++ >= LOOKED_AT_MOST)
				return;
			if (may_follow(b, &queue->messages[message]) &&
			    is_for_lead_alone(b, &queue->messages[message]))
				(void)add(b, message);
		}
	}
}

/* Where many wait, a process is worth more than a file. */
static void follow(struct building *b) {
	struct queue *queue = b->queue;
	uint32_t transport = queue_mailer_of(queue, b->run->mta, b->run->mailer)->transport;
	uint32_t at = job_list_next(queue->board, transport, JOB_NONE), looked = 0;
	uint32_t next, message, after;

	for (; at != JOB_NONE; at = next) {
		uint32_t envelope = (uint32_t)job_message_word(queue->board, at);

		next = job_list_next(queue->board, transport, at);
		for (message = queue->envelopes[envelope].first_message; message != NONE;
		     message = after) {
			const struct message *m = &queue->messages[message];

			after = m->next_of_envelope;
			if (is_full(b) || looked++ >= LOOKED_AT_MOST)
				return;
			if (m->placed[b->run->mailer] > 0 && may_follow(b, m) &&
			    m->part_count <= SMALL_PARTS)
				(void)add(b, message);
		}
	}
}

/* --- the run ------------------------------------------------------------------------------ */

/* More of the first of its files that has more. */
static void want_more(void *context, uint32_t job, uint32_t most) {
	struct queue *queue = context;
	uint32_t at = queue->envelopes[job_message_word(queue->board, job)].first_message;

	(void)most;
	for (; at != NONE; at = queue->messages[at].next_of_envelope) {
		struct message *m = &queue->messages[at];

		if (m->unread_placed == 0 || m->more_asked || m->reading ||
		    m->more_ns > queue->now_ns)
			continue;
		m->more_asked = true;
		queue->calls.read_more(queue->calls.context, m->mta, m->directory, m->id,
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
    const struct job_taken *taken, int64_t now_ns, uint32_t *message, uint32_t *dest) {
	struct queue_mailer *m = queue_mailer_of(queue, mta, mailer);
	uint32_t envelope = (uint32_t)job_message_word(queue->board, taken->message), part;
	enum queue_wait wait;
	bool primes;

	*dest = (uint32_t)job_queue_word(queue->board, taken->queue);
	wait = queue_look(queue, *dest, now_ns);
	part = queue_first_of_peer(queue, envelope, *dest);
	*message = part == NONE ? NONE : queue->parts[part].message;
	primes = m->primed.message == NONE && is_big(queue, mta, mailer, taken->message);
	job_put_back(queue->board, taken);
	if (wait == QUEUE_WAITS_SUSPENDED || part == NONE)
		(void)job_withdraw(queue->board, taken->message, taken->queue);
	if (wait != QUEUE_WAITS_FOR_TURN && m->primed.message != NONE &&
	    m->primed.dest == *dest)
		queue_unprime(queue, mta, mailer);
	if (wait != QUEUE_WAITS_FOR_TURN || part == NONE)
		return false;
	if (primes)
		queue_prime(queue, *message, *dest);
	return !primes;
}

/* False: nothing of the mailer may go. */
static bool find_lead(struct queue *queue, unsigned mta, unsigned mailer, int64_t now_ns,
    uint32_t *message, uint32_t *dest) {
	const struct job_reader reader = { .read = want_more, .context = queue };
	struct queue_mailer *m = queue_mailer_of(queue, mta, mailer);
	struct job_taken taken;

	if (queue->settings.discipline == QUEUE_FIRST_COME &&
	    job_list_next(queue->board, m->transport, JOB_NONE) != JOB_NONE)
		return queue_first_come(queue, mta, mailer, now_ns, message, dest);
	for (unsigned i = 0; i < TRIES; i++) {
		if (m->primed.message != NONE && !queue->dests[m->primed.dest].open)
			queue_unprime(queue, mta, mailer);
		if (!job_next(queue->board, m->transport, &reader, now_ns, &taken))
			return false;
		if (ask_board(queue, mta, mailer, &taken, now_ns, message, dest))
			return true;
	}
	return false;
}

static bool is_slow(const struct building *b) {
	return b->lead != NONE && b->queue->dests[b->lead].slow_ns > b->now_ns;
}

static void claim(struct building *b) {
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
	queue_mailer_of(b->queue, run->mta, run->mailer)->doubtful += b->alone;
}

/* Of which each process that is free can have its part. */
static uint32_t places_for_each(const struct building *b) {
	uint32_t granted = b->queue->granted;

	return granted >= GRANTS_WELL ? 0 : (GRANTS_WELL - granted) / b->free;
}

/* Messages for each process, where many wait. */
static uint32_t deep_of(const struct building *b, const struct queue_settings *settings) {
	uint32_t deep = b->listed /
	    (DEEP * settings->mtas[b->run->mta].processes[b->run->mailer]);
	uint32_t most = places_for_each(b);

	if (most > QUEUE_RUN_IDS_MAX)
		most = QUEUE_RUN_IDS_MAX;
	return deep < most ? deep : most;
}

static uint32_t cap_of(const struct building *b, const struct queue_settings *settings) {
	uint32_t deep = deep_of(b, settings), most = places_for_each(b);
	uint32_t cap = deep > settings->backlog ? deep : settings->backlog;

	if (most > QUEUE_RUN_IDS_MAX)
		most = QUEUE_RUN_IDS_MAX;
	if (cap > most)
		cap = most;
	return cap < 1 ? 1 : cap;
}

/* Has the message something else to do than what it would be tried alone for? */
static bool others_are_due(const struct building *b, uint32_t message) {
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
static void put_last(struct building *b, uint32_t message, uint32_t dest) {
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

static bool build(struct building *b, uint32_t message) {
	struct queue *queue = b->queue;
	uint32_t lead = NONE;

	b->run->directory = queue->messages[message].directory;
	if (b->alone && others_are_due(b, message)) {
		lead = b->lead;
		b->lead = NONE;
		b->alone = false;
	}
	if (!add(b, message)) {
		if (lead != NONE || b->no_place)
			put_last(b, message, lead != NONE ? lead : b->lead);
		b->run->number = 0;
		return false;
	}
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

/* The next run of the mailer.  False: nothing came of what the board named. */
static bool make(struct queue *queue, unsigned mta, unsigned mailer, uint32_t message,
    uint32_t dest, int64_t now_ns, struct queue_run *out) {
	struct queue_mailer *m = queue_mailer_of(queue, mta, mailer);
	struct building b = { .queue = queue, .now_ns = now_ns, .listed = m->messages,
		.lead = dest };
	bool found;

	b.run = queue_make_run(queue);
	if (b.run == NULL)
		return false;
	b.run->mta = (uint8_t)mta;
	b.run->mailer = (uint8_t)mailer;
	b.run->started_ns = now_ns;
	queue->building = b.run->number;
	b.alone = queue_is_doubtful(&queue->dests[b.lead]) ||
	    queue->dests[b.lead].slow_ns > now_ns;
	b.free = queue->settings.mtas[mta].processes[mailer] - m->running;
	found = build(&b, message);
	queue->building = 0;
	if (!found)
		return false;
	m->running++;
	*out = (struct queue_run){ .run = b.run->number, .mta = mta,
		.directory = b.run->directory, .count = b.run->count,
		.brief = b.run->brief, .recipients = b.most,
		.is_told = mailer == QUEUE_REMOTE && queue_told_works(queue, mta) };
	for (unsigned i = 0; i < b.run->count; i++)
		out->ids[i] = queue->messages[b.run->messages[i]].id;
	return true;
}

static bool next_of(struct queue *queue, unsigned mta, unsigned mailer, int64_t now_ns,
    struct queue_run *out) {
	const struct queue_mta_settings *settings = &queue->settings.mtas[mta];
	const struct queue_mailer *m = queue_mailer_of(queue, mta, mailer);
	uint32_t processes = settings->processes[mailer], message, dest;

	if (!settings->driven || m->running >= processes ||
	    m->running + m->stalled >= 2 * processes || now_ns < queue->mtas[mta].hold_ns ||
	    queue->granted >= GRANTS_MOST)
		return false;
	for (unsigned i = 0; i < TRIES; i++) {
		if (m->messages == 0 ||
		    !find_lead(queue, mta, mailer, now_ns, &message, &dest))
			return false;
		if (make(queue, mta, mailer, message, dest, now_ns, out))
			return true;
	}
	return false;
}

bool queue_next_run(struct queue *queue, int64_t now_ns, struct queue_run *out) {
	const struct generation *pinned = queue_pin(queue, now_ns);
	const unsigned all = GENERATION_MTAS_MAX * QUEUE_MAILERS;
	bool found = false;

	queue_settle_changed(queue, now_ns);
	for (unsigned i = 0; i < all && !found && !queue_told_waits(queue); i++) {
		unsigned at = (queue->turn + i) % all;

		found = next_of(queue, at / QUEUE_MAILERS, at % QUEUE_MAILERS, now_ns, out);
		if (found)
			queue->turn = (at + 1) % all;
	}
	queue_unpin(queue, pinned);
	return found;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Runs of the driven queue: those that live, stall, and end.
 * MODEL    A run claims a part of a place at each destination that it may go to, as it is at
 *          one at a time.  What Sendmail asks is seen in the grants: without a sign for a
 *          while, the run stalls at the destination that was asked about last, which then
 *          is granted to nobody else.  After the end the files tell what is left.
 * ERRORS   A run that could not be started puts all of its mail server off (queue_pause.c).
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/queue/queue_internal.h"

#define LOOK_NS		NS_PER_SECOND
#define A_RECIPIENT_NS	(500 * NS_PER_MS)	/* may take so long, without a sign */
#define NO_ANSWER_NS	(5 * NS_PER_SECOND)
#define PUT_OFF_NS	(200 * NS_PER_MS)
#define PUT_OFF_DOUBLINGS 7
#define PUT_OFF_KNOWN_NS (60 * NS_PER_SECOND)	/* without one: from the beginning */
/* Of an earlier role nothing is seen: after so many times the limit it holds nobody up. */
#define ADOPTED_STALLS	3

static struct run *queue_find_run(struct queue *queue, uint32_t number) {
	struct run *run;

	TAILQ_FOREACH(run, &queue->runs, of_all)
		if (run->number == number)
			return run;
	return NULL;
}

struct run *queue_make_run(struct queue *queue) {
	struct run *run = calloc(1, sizeof(*run));

	if (run == NULL)
		return NULL;
	if (++queue->next_run == 0)
		queue->next_run = 1;
	run->number = queue->next_run;
	TAILQ_INSERT_TAIL(&queue->runs, run, of_all);
	return run;
}

void queue_free_run(struct queue *queue, struct run *run) {
	TAILQ_REMOVE(&queue->runs, run, of_all);
	free(run);
}

/* --- stalls ------------------------------------------------------------------------ */

/* The part of the message that bears the domain of this hash, or NULL. */
static struct part *part_of_hash(const struct message *m, uint32_t hash) {
	for (struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (p->domain->hash == hash)
			return p;
	return NULL;
}

static void withdraw_message(struct queue *queue, const struct message *m,
    const struct dest *d) {
	for (struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (p->dest == d && p->state == PART_RUNNING &&
		    grants_withdraw(queue->engine->segment, &m->grant, p->domain->hash))
			p->put_off = true;
}

/* Nothing else is to get stuck there: what has it granted yet, but for the message that is
 * there, is told otherwise. */
static void withdraw_dest(struct queue *queue, const struct message *but, const struct dest *d) {
	const struct run *run;

	TAILQ_FOREACH(run, &queue->runs, of_all)
		for (unsigned i = 0; i < run->count; i++)
			if (run->messages[i] != NULL && run->messages[i] != but)
				withdraw_message(queue, run->messages[i], d);
}

/* It is at one of its destinations, so that the others are as free as without it (or not). */
static void free_others(struct queue *queue, const struct run *run, bool are_free) {
	for (unsigned i = 0; i < run->dest_count; i++) {
		struct dest *d = run->dests[i];

		if (run->dests[i] == run->current)
			continue;
		if (are_free) {
			d->tries--;
			d->claims -= run->weight;
		} else {
			d->tries++;
			d->claims += run->weight;
		}
		d->looked_ns = 0;
		if (d->watched)
			queue->watch_ns = 0;
	}
}

static void begin_stall(struct queue *queue, struct run *run, const struct part *part) {
	struct dest *d = part == NULL ? NULL : part->dest;

	run->stalls = true;
	queue_mailer_of(queue, run->mta, run->mailer)->running--;
	queue_mailer_of(queue, run->mta, run->mailer)->stalled++;
	run->current = d;
	free_others(queue, run, true);
	if (d == NULL)
		return;
	d->stalls++;
	d->bad_ns = queue->now_ns;
	withdraw_dest(queue, part->message, d);
	(void)queue_look(queue, d);
}

static void end_stall(struct queue *queue, struct run *run) {
	struct dest *d = run->current;

	if (!run->stalls)
		return;
	run->stalls = false;
	queue_mailer_of(queue, run->mta, run->mailer)->stalled--;
	queue_mailer_of(queue, run->mta, run->mailer)->running++;
	free_others(queue, run, false);
	run->current = NULL;
	if (d == NULL)
		return;
	d->stalls--;
	/* of a run that does not name it nobody else would */
	queue_leave_dest(queue, d);
}

/* A time to come, but for the moment since the clock was read, some role made up: the run would
 * never be seen to stall. */
static int64_t run_progress_ns(const struct run *run, const struct grant_seen *seen,
    int64_t now_ns) {
	return seen->progress_ns > now_ns + LOOK_NS ? run->started_ns : seen->progress_ns;
}

static void look_at_run(struct queue *queue, struct run *run) {
	const struct segment *segment = queue->engine->segment;
	int64_t limit_ns = queue->settings.mtas[run->mta].stall_ns;
	int64_t latest_ns = 0, since_ns;
	struct part *part = NULL;
	bool is_connected = false;

	for (unsigned i = 0; i < run->count; i++) {
		const struct message *m = run->messages[i];
		struct grant_seen seen;
		int64_t progress_ns;

		if (m == NULL)
			continue;
		grants_see(segment, &m->grant, &seen);
		progress_ns = run_progress_ns(run, &seen, queue->now_ns);
		if (progress_ns <= latest_ns)
			continue;
		latest_ns = progress_ns;
		part = seen.current == 0 ? NULL : part_of_hash(m, seen.current);
		is_connected = seen.is_connected;
	}
	if (latest_ns > run->progress_ns) {
		run->progress_ns = latest_ns;
		end_stall(queue, run);
	}
	since_ns = run->progress_ns > run->started_ns ? run->progress_ns : run->started_ns;
	if (part != NULL && !is_connected && queue->now_ns - since_ns >= NO_ANSWER_NS)
		part->timed_out = true;
	if (part != NULL)
		limit_ns += part->recipients * A_RECIPIENT_NS;
	if (!run->stalls && run->started && queue->now_ns - since_ns >= limit_ns)
		begin_stall(queue, run, part);
}

void queue_look_at_stalls(struct queue *queue) {
	struct run *run;

	if (queue->now_ns < queue->stalls_ns)
		return;
	queue->stalls_ns = queue->now_ns + LOOK_NS;
	TAILQ_FOREACH(run, &queue->runs, of_all) {
		if (!run->adopted)
			look_at_run(queue, run);
		else if (!run->stalls && queue->now_ns - run->started_ns >=
		    ADOPTED_STALLS * queue->settings.mtas[run->mta].stall_ns)
			begin_stall(queue, run, NULL);
	}
}

/* --- ends -------------------------------------------------------------------------- */

static void put_off_dest(struct dest *d, int64_t now_ns) {
	unsigned doublings = d->put_offs < PUT_OFF_DOUBLINGS ? d->put_offs :
	    PUT_OFF_DOUBLINGS;

	if (d->blocked_ns > now_ns)
		return;
	if (now_ns - d->blocked_ns >= PUT_OFF_KNOWN_NS)
		d->put_offs = 0;
	d->blocked_ns = now_ns + (PUT_OFF_NS << doublings);
	d->put_offs++;
}

static void note_part(struct part *p, const struct grant_seen *seen,
    int64_t now_ns) {
	uint32_t hash = p->domain->hash;

	p->ran = true;
	for (unsigned i = 0; i < seen->deferred_count && !p->put_off; i++)
		if (seen->deferred[i] == hash) {
			p->put_off = true;
			p->held = seen->lasting[i];
			/* a class of one of its hosts, which says nothing of the others */
			if (!p->held)
				put_off_dest(p->dest, now_ns);
		}
	/* asked about last, and nobody answered */
	p->unanswered = seen->current == hash && !seen->is_connected && !p->put_off;
	if (p->unanswered)
		p->dest->bad_ns = now_ns;
}

static void end_message(struct queue *queue, const struct run *run, struct message *m,
    enum queue_run_end how) {
	const struct part *last;
	struct grant_seen seen;

	queue_end_grant(queue, m, &seen);
	m->run = NULL;
	m->was_brief = run->brief;
	m->was_asked = seen.progress_ns != 0;
	m->was_connected = seen.connected > 0;
	m->ended = (uint8_t)how;
	queue_note_not_reached(m, &seen);
	m->state = how == QUEUE_RUN_NOT_STARTED ? MESSAGE_WAITS : MESSAGE_AWAITED;
	last = part_of_hash(m, seen.current);
	for (struct part *p = m->parts; p != NULL; p = p->next_of_message) {
		if (p->state != PART_RUNNING)
			continue;
		/* all that has one server may be asked about before it is connected to */
		p->was_last = last != NULL && p->dest == last->dest;
		if (how == QUEUE_RUN_NOT_STARTED) {
			p->state = PART_DUE;
			p->put_off = false;
		} else {
			note_part(p, &seen, queue->now_ns);
		}
	}
	if (how == QUEUE_RUN_NOT_STARTED)
		queue_settle(queue, m);
}

/* Where its mail went may be known better by now. */
static void remap_message(struct queue *queue, const struct message *m) {
	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (p->ran)
			queue_remap_domain(queue, p->domain);
}

static void release_run(struct queue *queue, struct run *run) {
	end_stall(queue, run);
	queue_mailer_of(queue, run->mta, run->mailer)->running--;
	queue_mailer_of(queue, run->mta, run->mailer)->doubtful -= run->doubtful;
	for (unsigned i = 0; i < run->dest_count; i++) {
		struct dest *d = run->dests[i];

		d->claims -= run->weight;
		d->runs--;
		d->tries--;
	}
	for (unsigned i = 0; i < run->dest_count; i++) {
		struct dest *d = run->dests[i];

		if (d->watched && d->runs == 0 && d->part_count > 0)
			(void)queue_look(queue, d);
		else
			d->looked_ns = 0;
		queue_leave_dest(queue, d);
	}
}

static void ask_for_files(struct queue *queue, const struct run *run) {
	for (unsigned i = 0; i < run->count; i++) {
		const char *id = run->adopted ? run->ids[i] :
		    run->messages[i] != NULL ? run->messages[i]->id : NULL;

		if (id != NULL)
			queue->calls.read(queue->calls.context, run->directory, id, 0);
	}
}

void queue_run_started(struct queue *queue, uint32_t number, pid_t pid, int64_t now_ns) {
	struct run *run = queue_find_run(queue, number);

	if (run == NULL)
		return;
	run->started = true;
	run->started_ns = now_ns;
	run->pid = pid;
	queue->now_ns = now_ns;
	for (unsigned i = 0; i < run->count; i++)
		if (run->messages[i] != NULL) {
			queue_told_started(queue, run->messages[i], pid);
			queue_journal_start(queue, run->messages[i]);
		}
}

uint32_t queue_run_of(const struct queue *queue, pid_t pid) {
	const struct run *run;

	TAILQ_FOREACH(run, &queue->runs, of_all)
		if (pid > 0 && run->pid == pid)
			return run->number;
	return 0;
}

void queue_run_ended(struct queue *queue, uint32_t number, enum queue_run_end how,
    int64_t now_ns) {
	struct run *run = queue_find_run(queue, number);

	if (run == NULL)
		return;
	queue_begin(queue, now_ns);
	for (unsigned i = 0; i < run->count; i++)
		if (run->messages[i] != NULL)
			end_message(queue, run, run->messages[i], how);
	if (how == QUEUE_RUN_KILLED)
		queue_told_killed(queue);
	if (how == QUEUE_RUN_NOT_STARTED)
		queue_pause(queue, run->mta, QUEUE_PAUSE_NOT_STARTED);
	else if (how == QUEUE_RUN_NOT_WRITTEN)
		queue_pause(queue, run->mta, QUEUE_PAUSE_NOT_WRITTEN);
	for (unsigned i = 0; i < run->count && how != QUEUE_RUN_NOT_STARTED; i++)
		if (run->messages[i] != NULL)
			remap_message(queue, run->messages[i]);
	release_run(queue, run);
	if (how != QUEUE_RUN_NOT_STARTED)
		ask_for_files(queue, run);
	queue_free_run(queue, run);
	queue_settle_changed(queue);
}

/* --- of an earlier role --------------------------------------------------------------- */

struct run *queue_adopted_with(struct queue *queue, unsigned directory, const char *id) {
	struct run *run;

	TAILQ_FOREACH(run, &queue->runs, of_all) {
		if (!run->adopted || run->directory != directory)
			continue;
		for (unsigned j = 0; j < run->count; j++)
			if (strcmp(run->ids[j], id) == 0)
				return run;
	}
	return NULL;
}

bool queue_is_of_before(const struct queue *queue, int64_t arrival_ns) {
	return arrival_ns < atomic_load(&queue->engine->role->started_ns);
}

uint32_t queue_run_adopt(struct queue *queue, unsigned directory, const char *const ids[],
    unsigned count, pid_t pid, int64_t now_ns) {
	struct run *run = directory < queue->directory_count && count <= QUEUE_RUN_IDS_MAX ?
	    queue_make_run(queue) : NULL;

	if (run == NULL)
		return 0;
	run->adopted = run->started = true;
	run->mta = (uint8_t)queue->directories[directory].mta;
	run->mailer = queue->directories[directory].is_local ? QUEUE_LOCAL : QUEUE_REMOTE;
	run->directory = (uint16_t)directory;
	run->pid = pid;
	run->started_ns = now_ns;
	run->count = count;
	queue_mailer_of(queue, run->mta, run->mailer)->running++;
	for (unsigned i = 0; i < count; i++) {
		struct message *m = queue_find_message(queue, directory, ids[i]);

		text_copy(run->ids[i], sizeof(run->ids[i]), ids[i], strlen(ids[i]));
		if (m == NULL || m->state != MESSAGE_WAITS)
			continue;
		queue_unplace(queue, m);
		queue_clear_timer(queue, m);
		m->state = MESSAGE_RUNS;
		m->run = run;
		m->grant = (struct grant_ref){ 0, 0 };
		run->messages[i] = m;
	}
	return run->number;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What the driven queue writes into its journal.
 * MODEL    A message that was read is put there as its parts stand; a run of it is a start,
 *          what it delivered are deliveries, and what the file tells after it the replacement.
 *          One of which nothing may go before the shortest interval leaves memory then: its
 *          runner brings it.  One that leaves memory for want of room is put as waiting, too.
 * ERRORS   A journal that fails writes nothing (journal/queue/messages.h): memory goes on.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/queue/queue_journal_internal.h"

#define SOON_NS		(2 * NS_PER_SECOND)
#define SWEPT_A_TURN	8192u

enum put_as {
	PUT_HELD,		/* memory has it */
	PUT_RUNNERS,		/* a runner brings it when it is due */
	PUT_EVICTED,		/* the same, and there is no room for it */
};

static int64_t wall_of(const struct queue_journal *j, int64_t ns) {
	return ns == 0 || ns == INT64_MAX ? ns : ns + j->wall_ns;
}

/* --- envelopes ---------------------------------------------------------------------- */

/* When the part may go: 0 at once, INT64_MAX when its dest is back. */
static int64_t part_due_ns(const struct part *p) {
	bool waits = p->state == PART_RETRY || p->state == PART_LOCKED;

	if (p->state == PART_SUSPENDED || (waits && p->dest->suspended))
		return INT64_MAX;
	return waits ? p->due_ns : 0;
}

/* Its runner is not to bring it too early, as it was let go for want of room: so the next
 * longer interval. */
static int64_t late_due_ns(const struct queue_journal *j, int64_t due_ns) {
	int64_t now_ns = queue_journal_now(j);
	unsigned i = 0;

	if (due_ns == INT64_MAX || due_ns <= now_ns)
		return due_ns;
	while (i + 1 < j->intervals && j->intervals_ns[i] < due_ns - now_ns)
		i++;
	return now_ns + j->intervals_ns[i];
}

/* True: nothing of it can go now. */
static bool message_waits(const struct message *m) {
	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (part_due_ns(p) == 0)
			return false;
	return m->part_count > 0;
}

static unsigned gather_groups(const struct queue_journal *j, const struct message *m,
    enum put_as as, struct messages_group *groups, int64_t *first_ns) {
	unsigned count = 0;

	*first_ns = m->part_count == 0 ? 0 : INT64_MAX;
	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message) {
		const char *name = p->domain->name;
		int64_t due_ns = wall_of(j, part_due_ns(p));

		/* the board was full, or so: as good as due */
		if (as == PUT_EVICTED && due_ns <= queue_journal_now(j) + SOON_NS)
			due_ns = 0;
		if (due_ns < *first_ns)
			*first_ns = due_ns;
		if (m->part_count <= QUEUE_JOURNAL_GROUPS)
			groups[count++] = (struct messages_group){ .domain = name,
				.length = strlen(name), .recipients = p->recipients,
				.due_ns = due_ns };
	}
	return count;
}

int64_t queue_journal_made_s(const struct queue *queue, int64_t arrival_ns) {
	return (queue->journal == NULL ? arrival_ns : wall_of(queue->journal, arrival_ns)) /
	    NS_PER_SECOND;
}

/* Of the second that its file says, by which its envelope is found again: the clocks may have
 * moved. */
static int64_t arrival_of(const struct queue_journal *j, const struct message *m) {
	int64_t wall_ns = wall_of(j, m->arrival_ns);

	return wall_ns / NS_PER_SECOND == m->made_s ? wall_ns : m->made_s * NS_PER_SECOND;
}

/* Somebody has to see that the dest is back. */
static void note_dests(const struct message *m) {
	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message)
		p->dest->in_journal = p->dest->in_journal || p->dest->suspended;
}

static bool put_message(struct queue_journal *j, const struct message *m, enum put_as as) {
	static struct messages_group groups[QUEUE_JOURNAL_GROUPS];
	struct messages_envelope envelope = { .id = m->id, .stamp = m->inode,
		.sender = m->sender[0] == '\0' ? NULL : m->sender,
		.arrival_ns = arrival_of(j, m), .tried_ns = wall_of(j, m->tried_ns),
		.tries = m->tries, .recipients = m->recipients, .groups = groups };

	queue_told_envelope(j->queue, m, &envelope);
	envelope.mta = j->queue->directories[m->directory].mta_name;
	envelope.directory = j->queue->directories[m->directory].path;
	envelope.group_count = gather_groups(j, m, as, groups, &envelope.due_ns);
	envelope.rest = envelope.group_count == 0 || m->unread == 0 ? 0 : m->place;
	if (as == PUT_EVICTED)
		envelope.due_ns = late_due_ns(j, envelope.due_ns);
	if (messages_put(j->messages, &envelope, as == PUT_HELD, queue_journal_now(j)) == 0)
		return false;
	if (as != PUT_HELD)
		note_dests(m);
	return true;
}

bool queue_journal_put(struct queue_journal *j, const struct message *m, bool held) {
	return put_message(j, m, held ? PUT_HELD : PUT_EVICTED);
}

bool queue_journal_is_unread(const struct queue *queue) {
	const struct queue_journal *j = queue->journal;

	return j != NULL && !messages_is_replaced(j->messages) &&
	    !messages_is_degraded(j->messages);
}

bool queue_journal_takes(const struct queue *queue) {
	return queue->journal != NULL && !messages_is_degraded(queue->journal->messages);
}

/* Nothing of it may go before the shortest interval has passed.  What somebody else has locked
 * is remembered: how often that was. */
static bool is_for_runners(const struct queue_journal *j, const struct message *m) {
	if (m->state != MESSAGE_WAITS || m->unread > 0 || m->part_count == 0 ||
	    m->part_count > QUEUE_JOURNAL_GROUPS)
		return false;
	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (p->state == PART_LOCKED ||
		    part_due_ns(p) < j->queue->now_ns + j->intervals_ns[1])
			return false;
	return true;
}

bool queue_journal_note(struct queue *queue, const struct message *m, bool has_room) {
	struct queue_journal *j = queue->journal;
	enum put_as as = PUT_HELD;

	if (j == NULL)
		return false;
	if (is_for_runners(j, m))
		as = PUT_RUNNERS;
	else if (!has_room && !message_waits(m) && m->more_ns == 0)
		as = PUT_EVICTED;
	return put_message(j, m, as) && as != PUT_HELD;
}

/* Those that came to wait for long in another way: their dest is dead or held, or there was no
 * journal. */
void queue_journal_sweep(struct queue_journal *j) {
	struct queue *queue = j->queue;
	int64_t now_ns = queue->now_ns;

	if (now_ns < j->sweep_ns || !messages_is_recovered(j->messages) ||
	    messages_is_degraded(j->messages) || j->renewing != NONE)
		return;
	j->sweep_ns = now_ns + NS_PER_SECOND;
	for (uint32_t i = 0; i < SWEPT_A_TURN && i < queue->message_end; i++) {
		struct message *m;

		j->swept = (j->swept + 1) % queue->message_end;
		m = &queue->messages[j->swept];
		if (!queue_is_placed(m) && is_for_runners(j, m) && put_message(j, m, PUT_RUNNERS))
			queue_forget_message(queue, m);
	}
}

bool queue_journal_evict(struct queue *queue, const struct message *m) {
	return queue->journal != NULL && queue_journal_put(queue->journal, m, false);
}

/* --- runs ------------------------------------------------------------------------------ */

void queue_journal_start(struct queue *queue, const struct message *m) {
	struct queue_journal *j = queue->journal;

	if (j != NULL)
		(void)messages_start(j->messages, queue_journal_key(j, m->directory, m->id),
		    m->run == NULL ? 0 : (uint32_t)m->run->pid, queue_journal_now(j));
}

void queue_journal_results(struct queue *queue, const struct message *m) {
	struct queue_journal *j = queue->journal;

	if (j == NULL)
		return;
	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message) {
		const struct journal_delivery delivery = {
			.domain = journal_text_of(p->domain->name), .left = p->left,
			.recipients = p->recipients - p->left - p->told };

		if ((p->ran || p->state == PART_RUNNING) && p->recipients > p->left + p->told)
			(void)messages_delivered(j->messages,
			    queue_journal_key(j, m->directory, m->id), &delivery,
			    queue_journal_now(j));
	}
}

void queue_journal_finish(struct queue *queue, unsigned directory, const char *id) {
	struct queue_journal *j = queue->journal;

	if (j != NULL && directory < queue->directory_count)
		(void)messages_finish(j->messages, queue_journal_key(j, directory, id),
		    queue_journal_now(j));
}

/* --- scans ----------------------------------------------------------------------------- */

bool queue_journal_found(struct queue *queue, unsigned directory, const char *id,
    uint64_t inode) {
	const struct queue_journal *j = queue->journal;

	if (j == NULL || directory >= queue->directory_count)
		return false;
	if (messages_waits(j->messages, queue_journal_key(j, directory, id), inode))
		return true;
	/* it has changed, or is in memory: not gone */
	messages_seen(j->messages, queue_journal_key(j, directory, id));
	return false;
}

bool queue_scan_may_begin(const struct queue *queue) {
	const struct queue_journal *j = queue->journal;

	return j == NULL || messages_is_indexed(j->messages) ||
	    messages_is_degraded(j->messages);
}

void queue_scan_begin(struct queue *queue) {
	struct queue_journal *j = queue->journal;

	if (j == NULL)
		return;
	j->scans = messages_is_indexed(j->messages) && !messages_is_degraded(j->messages);
	if (j->scans)
		messages_seen_begin(j->messages);
}

static void ask_for_unseen(void *context, const char *mta, const char *directory,
    const char *id) {
	struct queue_journal *j = context;
	uint32_t number = queue_journal_directory(j, mta, directory);

	if (number != NONE)
		j->queue->calls.read(j->queue->calls.context, number, id, 0);
}

void queue_scan_end(struct queue *queue, bool whole) {
	struct queue_journal *j = queue->journal;

	if (j != NULL && j->scans && whole)
		messages_seen_end(j->messages, ask_for_unseen, j);
}

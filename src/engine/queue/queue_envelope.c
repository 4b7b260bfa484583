/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Which queue files are one message, and which of them wait for one destination.
 * MODEL    Sendmail cuts a message into files by queue group and by r=; each has an id of its
 *          own.  What they have in common: sender, second, and the id that stands in their
 *          first Received header.  Where that is not known (a file that the journal tells) it
 *          is the process that took it, which is the rest of an id behind its time; bounces,
 *          which have no sender, then stand for themselves.
 * ERRORS   No memory: the caller leaves the mail to the next scan.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/queue/queue_internal.h"

#define ID_TIME		8u	/* bytes of a queue id: its time, and the number within it */
#define ID_LEAST	(ID_TIME + 5u)	/* with a process behind it */
#define KEY_SIZE	(SENDER_SHOWN + 64u)

/* --- who belongs together ------------------------------------------------------------ */

static uint64_t nonzero_hash(const struct queue *queue, const char *text, size_t length) {
	return queue_hash_text(queue, text, length, 0) | 1;
}

static uint64_t envelope_key(const struct queue *queue, const struct message *m) {
	char text[KEY_SIZE];

	text[0] = '\0';
	text_append(text, sizeof(text), 0, "%u %lld %s", (unsigned)m->mta, (long long)m->made_s,
	    m->sender);
	return nonzero_hash(queue, text, strlen(text));
}

/* 0: that tells nothing. */
static uint64_t envelope_process(const struct queue *queue, const struct message *m) {
	size_t length = strlen(m->id);

	return length < ID_LEAST || m->sender[0] == '\0' ? 0 :
	    nonzero_hash(queue, m->id + ID_TIME, length - ID_TIME);
}

static struct envelope *find_envelope(const struct queue *queue, uint64_t key, uint64_t origin,
    uint64_t process) {
	const struct map_cell *cell = map_find(&queue->envelope_map, key);

	for (; cell != NULL; cell = map_next(&queue->envelope_map, cell)) {
		struct envelope *e = cell->item;

		if (origin != 0 && e->origin != 0 ? e->origin == origin :
		    process != 0 && e->process == process)
			return e;
	}
	return NULL;
}

static struct envelope *make_envelope(struct queue *queue, uint64_t key, uint64_t process) {
	struct envelope *e = malloc(sizeof(*e));

	if (e == NULL || !map_add_item(&queue->envelope_map, key, e)) {
		free(e);
		return NULL;
	}
	*e = (struct envelope){ .key = key, .process = process, .job = JOB_NONE };
	TAILQ_INIT(&e->messages);
	return e;
}

bool queue_join_envelope(struct queue *queue, struct message *m, const char *origin) {
	uint64_t from = *origin == '\0' ? 0 : nonzero_hash(queue, origin, strlen(origin));
	uint64_t key = envelope_key(queue, m), process = envelope_process(queue, m);
	struct envelope *e = find_envelope(queue, key, from, process);

	if (e == NULL)
		e = make_envelope(queue, key, process);
	if (e == NULL)
		return false;
	if (e->origin == 0)
		e->origin = from;
	m->envelope = e;
	TAILQ_INSERT_TAIL(&e->messages, m, of_envelope);
	return true;
}

void queue_leave_envelope(struct queue *queue, struct message *m) {
	struct envelope *e = m->envelope;

	if (e == NULL)
		return;
	queue_set_queued(m, false, 0);
	TAILQ_REMOVE(&e->messages, m, of_envelope);
	m->envelope = NULL;
	if (!TAILQ_EMPTY(&e->messages))
		return;
	map_remove_item(&queue->envelope_map, e->key, e);
	free(e);
}

void queue_set_queued(struct message *m, bool queued, int64_t now_ns) {
	struct envelope *e = m->envelope;

	if (queued == m->queued)
		return;
	m->queued = queued;
	if (queued) {
		if (e->queued++ == 0)
			e->queued_ns = now_ns;
	} else if (--e->queued == 0) {
		e->queued_ns = 0;
	}
}

/* --- what waits for one destination ----------------------------------------------------- */

void queue_set_on_board(struct queue *queue, struct part *p, bool on_board) {
	struct message *m = p->message;
	struct dest *d = p->dest;
	uint32_t by = on_board ? 1 : UINT32_MAX;
	bool was = queue_is_placed(m), was_of_mailer = m->placed[d->mailer] > 0;

	p->on_board = on_board;
	m->placed[d->mailer] += by;
	m->envelope->placed += by;
	d->placed += by;
	if (was != queue_is_placed(m))
		queue->placed += by;
	if (was_of_mailer != (m->placed[d->mailer] > 0))
		queue_mailer_of(queue, m->mta, d->mailer)->messages += by;
}

struct part *queue_first_part(const struct envelope *envelope, const struct dest *dest) {
	const struct message *m;

	TAILQ_FOREACH(m, &envelope->messages, of_envelope)
		for (struct part *p = m->parts; m->placed[dest->mailer] > 0 && p != NULL;
		     p = p->next_of_message)
			if (p->on_board && p->dest == dest)
				return p;
	return NULL;
}

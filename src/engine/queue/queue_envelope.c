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
#include <string.h>

#include "base/text.h"
#include "engine/queue/queue_internal.h"

#define ID_TIME		8u	/* bytes of a queue id: its time, and the number within it */
#define ID_LEAST	(ID_TIME + 5u)	/* with a process behind it */
#define KEY_SIZE	(SENDER_SHOWN + 64u)

/* --- who belongs together ------------------------------------------------------------ */

static uint64_t hash_of(const struct queue *queue, const char *text, size_t length) {
	return siphash13(&queue->engine->segment->header->key, text, length) | 1;
}

static uint64_t key_of(const struct queue *queue, const struct message *m) {
	char text[KEY_SIZE];

	text[0] = '\0';
	text_append(text, sizeof(text), 0, "%u %lld %s", (unsigned)m->mta, (long long)m->made_s,
	    m->sender);
	return hash_of(queue, text, strlen(text));
}

/* 0: that tells nothing. */
static uint64_t process_of(const struct queue *queue, const struct message *m) {
	size_t length = strlen(m->id);

	return length < ID_LEAST || m->sender[0] == '\0' ? 0 :
	    hash_of(queue, m->id + ID_TIME, length - ID_TIME);
}

static uint32_t *bucket_of(struct queue *queue, uint64_t key) {
	return &queue->envelope_hash[(uint32_t)(key >> 8) & queue->hash_mask];
}

static uint32_t find(struct queue *queue, uint64_t key, uint64_t origin, uint64_t process) {
	uint32_t at = *bucket_of(queue, key);

	for (; at != NONE; at = queue->envelopes[at].next_of_hash) {
		const struct envelope *e = &queue->envelopes[at];

		if (e->key == key && (origin != 0 && e->origin != 0 ? e->origin == origin :
		    process != 0 && e->process == process))
			break;
	}
	return at;
}

static uint32_t make(struct queue *queue, uint64_t key) {
	uint32_t at = queue->envelope_free, *bucket = bucket_of(queue, key);

	if (at != NONE)
		queue->envelope_free = queue->envelopes[at].next_of_hash;
	else if (queue->envelope_end < queue->envelope_size ||
	    queue_grow((void **)&queue->envelopes, &queue->envelope_size,
		sizeof(struct envelope)))
		at = queue->envelope_end++;
	else
		return NONE;
	queue->envelopes[at] = (struct envelope){ .key = key, .next_of_hash = *bucket,
		.first_message = NONE, .last_message = NONE, .job = JOB_NONE };
	*bucket = at;
	return at;
}

bool queue_join_envelope(struct queue *queue, uint32_t message, const char *origin) {
	struct message *m = &queue->messages[message];
	uint64_t from = *origin == '\0' ? 0 : hash_of(queue, origin, strlen(origin));
	uint64_t key = key_of(queue, m), process = process_of(queue, m);
	uint32_t at = find(queue, key, from, process);
	struct envelope *e;

	if (at == NONE)
		at = make(queue, key);
	if (at == NONE)
		return false;
	e = &queue->envelopes[at];
	if (e->messages == 0)
		e->process = process;
	if (e->origin == 0)
		e->origin = from;
	m->envelope = at;
	m->next_of_envelope = NONE;
	m->prev_of_envelope = e->last_message;
	if (e->last_message == NONE)
		e->first_message = message;
	else
		queue->messages[e->last_message].next_of_envelope = message;
	e->last_message = message;
	e->messages++;
	return true;
}

static uint32_t *next_envelope(struct queue *queue, uint32_t envelope) {
	return &queue->envelopes[envelope].next_of_hash;
}

void queue_leave_envelope(struct queue *queue, uint32_t message) {
	struct message *m = &queue->messages[message];
	uint32_t at = m->envelope;
	struct envelope *e;

	if (at == NONE)
		return;
	queue_set_queued(queue, message, false, 0);
	e = &queue->envelopes[at];
	if (m->prev_of_envelope == NONE)
		e->first_message = m->next_of_envelope;
	else
		queue->messages[m->prev_of_envelope].next_of_envelope = m->next_of_envelope;
	if (m->next_of_envelope == NONE)
		e->last_message = m->prev_of_envelope;
	else
		queue->messages[m->next_of_envelope].prev_of_envelope = m->prev_of_envelope;
	m->envelope = NONE;
	if (--e->messages > 0)
		return;
	queue_unlink_hash(bucket_of(queue, e->key), at, next_envelope, queue);
	e->next_of_hash = queue->envelope_free;
	queue->envelope_free = at;
}

void queue_set_queued(struct queue *queue, uint32_t message, bool queued, int64_t now_ns) {
	struct message *m = &queue->messages[message];
	struct envelope *e = &queue->envelopes[m->envelope];

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

static uint32_t *peer_bucket(const struct queue *queue, uint32_t envelope, uint32_t dest) {
	uint64_t both = ((uint64_t)envelope << 32 | dest) * UINT64_C(0x9e3779b97f4a7c15);

	return &queue->peer_hash[(uint32_t)(both >> 32) & queue->hash_mask];
}

static uint32_t find_peer(const struct queue *queue, uint32_t envelope, uint32_t dest) {
	uint32_t at = *peer_bucket(queue, envelope, dest);

	while (at != NONE && (queue->peers[at].envelope != envelope ||
	    queue->peers[at].dest != dest))
		at = queue->peers[at].next_of_hash;
	return at;
}

static uint32_t make_peer(struct queue *queue, uint32_t envelope, uint32_t dest) {
	uint32_t at = queue->peer_free, *bucket = peer_bucket(queue, envelope, dest);

	if (at != NONE)
		queue->peer_free = queue->peers[at].next_of_hash;
	else if (queue->peer_end < queue->peer_size ||
	    queue_grow((void **)&queue->peers, &queue->peer_size, sizeof(struct peer)))
		at = queue->peer_end++;
	else
		return NONE;
	queue->peers[at] = (struct peer){ .envelope = envelope, .dest = dest,
		.first_part = NONE, .last_part = NONE, .next_of_hash = *bucket };
	*bucket = at;
	return at;
}

/* One more part, or one less, of message, envelope, dest and mailer is on the board. */
static void count(struct queue *queue, const struct part *p, bool more) {
	struct message *m = &queue->messages[p->message];
	struct dest *d = &queue->dests[p->dest];
	uint32_t by = more ? 1 : UINT32_MAX;
	bool was = queue_is_placed(m), was_of_mailer = m->placed[d->mailer] > 0;

	m->placed[d->mailer] += by;
	queue->envelopes[m->envelope].placed += by;
	d->placed += by;
	if (was != queue_is_placed(m))
		queue->placed += by;
	if (was_of_mailer != (m->placed[d->mailer] > 0))
		queue_mailer_of(queue, m->mta, d->mailer)->messages += by;
}

bool queue_enter_peer(struct queue *queue, uint32_t part) {
	struct part *p = &queue->parts[part];
	uint32_t envelope = queue->messages[p->message].envelope;
	uint32_t at = find_peer(queue, envelope, p->dest);
	struct peer *peer;

	if (at == NONE)
		at = make_peer(queue, envelope, p->dest);
	if (at == NONE)
		return false;
	peer = &queue->peers[at];
	p->next_of_peer = NONE;
	p->prev_of_peer = peer->last_part;
	if (peer->last_part == NONE)
		peer->first_part = part;
	else
		queue->parts[peer->last_part].next_of_peer = part;
	peer->last_part = part;
	p->placed = true;
	count(queue, p, true);
	return true;
}

static uint32_t *next_peer(struct queue *queue, uint32_t peer) {
	return &queue->peers[peer].next_of_hash;
}

void queue_leave_peer(struct queue *queue, uint32_t part) {
	struct part *p = &queue->parts[part];
	uint32_t envelope = queue->messages[p->message].envelope;
	uint32_t at = find_peer(queue, envelope, p->dest);
	struct peer *peer = &queue->peers[at];

	if (p->prev_of_peer == NONE)
		peer->first_part = p->next_of_peer;
	else
		queue->parts[p->prev_of_peer].next_of_peer = p->next_of_peer;
	if (p->next_of_peer == NONE)
		peer->last_part = p->prev_of_peer;
	else
		queue->parts[p->next_of_peer].prev_of_peer = p->prev_of_peer;
	p->placed = false;
	count(queue, p, false);
	if (peer->first_part != NONE)
		return;
	queue_unlink_hash(peer_bucket(queue, envelope, p->dest), at, next_peer, queue);
	peer->next_of_hash = queue->peer_free;
	queue->peer_free = at;
}

uint32_t queue_first_of_peer(const struct queue *queue, uint32_t envelope, uint32_t dest) {
	uint32_t at = find_peer(queue, envelope, dest);

	return at == NONE ? NONE : queue->peers[at].first_part;
}

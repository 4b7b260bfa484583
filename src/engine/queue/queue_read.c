/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Messages as their files tell them: new ones, changed ones, those that are gone.
 * MODEL    Who reads gathers domains and counts beside the message, which takes them over
 *          at the end: what became of those that ran follows from what is left.  While it
 *          is read a message is off the board.
 * ERRORS   What there is no memory for counts as unread, or waits for the next scan.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "engine/queue/queue_internal.h"

#define BATCH_MOST	5000u
#define LOCK_FIRST_NS	(500 * NS_PER_MS)
#define LOCK_DOUBLINGS	6
#define THEIRS_MOST	2u
#define SLOW_NS		(3600 * NS_PER_SECOND)
/* Mail of another life of the role that was tried so often waits for its time. */
#define TRIES_KNOWN	2
#define NO_ROOM_NS	NS_PER_SECOND	/* until more is read of which nothing was taken */

struct read_domain {
	struct domain *domain;
	uint32_t recipients;
	uint8_t state;		/* enum part_state, when it is settled */
	int64_t due_ns;
};

struct queue_reading {
	struct queue *queue;
	struct message *message;	/* NULL: it was forgotten meanwhile */
	bool more;		/* not from the beginning */
	bool was_known;
	struct queue_file file;
	char sender[SENDER_SHOWN + 1], origin[QUEUE_ID_MAX + 1];
	uint32_t taken, most;
	struct read_domain *list;
	size_t count, size;
};

/* --- begin ------------------------------------------------------------------------- */

static bool is_driven(const struct queue *queue, unsigned directory) {
	return directory < queue->directory_count &&
	    queue->settings.mtas[queue->directories[directory].mta].driven;
}

static bool may_be_read(const struct message *m) {
	return m->state != MESSAGE_RUNS && m->reading == NULL;
}

bool queue_wants(struct queue *queue, unsigned directory, const char *id) {
	const struct message *m;

	if (!is_driven(queue, directory))
		return false;
	m = queue_find_message(queue, directory, id);
	if (m != NULL)
		return may_be_read(m);
	if (queue_adopted_with(queue, directory, id) != NULL)
		return false;
	if (queue_board_has_room(queue) || queue_journal_takes(queue))
		return true;
	queue->refused++;
	return false;
}

bool queue_knows(const struct queue *queue, unsigned directory, const char *id,
    uint64_t stamp) {
	const struct message *m = queue_find_message(queue, directory, id);

	return m != NULL && m->stamp == stamp && m->state != MESSAGE_AWAITED;
}

bool queue_scan_found(struct queue *queue, unsigned directory, const char *id,
    uint64_t inode) {
	const struct message *m = queue_find_message(queue, directory, id);
	bool waits_there = queue_journal_found(queue, directory, id, inode);

	return m == NULL ? waits_there : m->inode == inode && m->state != MESSAGE_AWAITED;
}

/* The document's first batch: policy/schedule/pool.h. */
static uint32_t first_batch(const struct queue *queue) {
	uint32_t most = queue->settings.schedule.pool.message_recipient_minimum;

	if (queue->in_core < queue->settings.schedule.pool.message_recipient_limit &&
	    queue->settings.schedule.pool.message_recipient_limit - queue->in_core > most)
		most = (uint32_t)(queue->settings.schedule.pool.message_recipient_limit - queue->in_core);
	if (most == 0)
		most = 1;
	return most < BATCH_MOST ? most : BATCH_MOST;
}

static struct queue_reading *begin_reading(struct queue *queue, struct message *m, bool more) {
	struct queue_reading *reading = calloc(1, sizeof(*reading));

	if (reading == NULL)
		return NULL;
	reading->queue = queue;
	reading->message = m;
	reading->more = more;
	reading->most = first_batch(queue);
	/* what is known of its parts would be lost with those that are not read */
	if (!more && reading->most < m->in_core)
		reading->most = m->in_core;
	if (more && m->envelope->job != JOB_NONE) {
		uint32_t room = pool_room(queue->board, m->envelope->job);

		if (room > 0)
			reading->most = room < BATCH_MOST ? room : BATCH_MOST;
	}
	queue_unplace(queue, m);
	m->reading = reading;
	m->more_asked = false;
	return reading;
}

struct queue_reading *queue_read_begin(struct queue *queue, unsigned directory, const char *id,
    const struct queue_file *file) {
	struct queue_reading *reading;
	struct message *m;
	bool known;

	if (!is_driven(queue, directory))
		return NULL;
	m = queue_find_message(queue, directory, id);
	/* what is known of its times counts */
	if (m == NULL && queue_journal_fetch(queue, directory, id))
		m = queue_find_message(queue, directory, id);
	known = m != NULL;
	if (!queue_wants(queue, directory, id))
		return NULL;
	if (!known)
		m = queue_make_message(queue, directory, id);
	if (m == NULL) {
		queue->forgotten++;
		return NULL;
	}
	reading = begin_reading(queue, m, false);
	if (reading == NULL) {
		if (!known)
			queue_forget_message(queue, m);
		return NULL;
	}
	reading->was_known = known;
	reading->file = *file;
	if (file->sender != NULL)
		text_copy(reading->sender, sizeof(reading->sender), file->sender,
		    file->sender_length < SENDER_SHOWN ? file->sender_length : SENDER_SHOWN);
	if (file->origin != NULL)
		(void)text_copy(reading->origin, sizeof(reading->origin), file->origin,
		    file->origin_length);
	return reading;
}

struct queue_reading *queue_read_more(struct queue *queue, unsigned directory, const char *id) {
	struct message *m = queue_find_message(queue, directory, id);

	if (m == NULL)
		return NULL;
	m->more_asked = false;
	return m->state == MESSAGE_WAITS && m->reading == NULL && m->unread > 0 ?
	    begin_reading(queue, m, true) : NULL;
}

void queue_read_forgotten(struct message *m) {
	if (m->reading != NULL)
		m->reading->message = NULL;
	m->reading = NULL;
}

bool queue_read_recipient(struct queue_reading *reading, const char *domain, size_t length) {
	struct queue *queue = reading->queue;
	const struct generation *pinned;
	struct domain *used;

	if (reading->message == NULL || reading->taken >= reading->most ||
	    !array_grow(&reading->list, &reading->size, reading->count, sizeof(*reading->list)))
		return false;
	pinned = queue_pin(queue, queue->now_ns);
	if (queue_directory_of(queue, reading->message)->is_local) {
		domain = QUEUE_LOCAL_DOMAIN;
		length = sizeof(QUEUE_LOCAL_DOMAIN) - 1;
	}
	used = queue_use_domain(queue, reading->message->mta, domain, length);
	queue_unpin(queue, pinned);
	if (used == NULL)
		return false;
	reading->taken++;
	if (reading->count > 0 && reading->list[reading->count - 1].domain == used) {
		reading->list[reading->count - 1].recipients++;
		queue_unuse_domain(queue, used);
		return true;
	}
	reading->list[reading->count++] = (struct read_domain){ .domain = used,
		.recipients = 1 };
	return true;
}

/* --- end --------------------------------------------------------------------------- */

static int by_domain(const void *a, const void *b) {
	uint64_t x = ((const struct read_domain *)a)->domain->number;
	uint64_t y = ((const struct read_domain *)b)->domain->number;

	return (x > y) - (x < y);
}

static void merge_domains(struct queue_reading *reading) {
	size_t used = 0;

	if (reading->count == 0)
		return;
	qsort(reading->list, reading->count, sizeof(*reading->list), by_domain);
	for (size_t i = 1; i < reading->count; i++) {
		if (reading->list[i].domain == reading->list[used].domain) {
			reading->list[used].recipients += reading->list[i].recipients;
			queue_unuse_domain(reading->queue, reading->list[i].domain);
		} else {
			reading->list[++used] = reading->list[i];
		}
	}
	reading->count = used + 1;
}

static int64_t retry_ns(const struct queue *queue, const struct message *m, int64_t age_ns) {
	const struct queue_mta_settings *mta = &queue->settings.mtas[m->mta];

	return age_ns < mta->retry_ns ? mta->retry_ns :
	    age_ns > mta->retry_most_ns ? mta->retry_most_ns : age_ns;
}

/* Its run was killed while it was at another one. */
static bool is_left_over(const struct message *m, const struct part *p) {
	return m->ended == QUEUE_RUN_KILLED && !p->was_last;
}

/* It ran, and is left. */
static void after_a_run(const struct queue *queue, const struct message *m,
    const struct part *p, int64_t now_ns, struct read_domain *out) {
	unsigned doublings = m->lock_tries < LOCK_DOUBLINGS ? m->lock_tries : LOCK_DOUBLINGS;

	if (p->put_off && p->held) {
		out->state = PART_RETRY;
		out->due_ns = now_ns + queue->settings.mtas[m->mta].retry_ns;
	}
	if (p->put_off || m->not_reached)
		return;
	if (m->was_theirs) {
		out->state = PART_LOCKED;
		out->due_ns = now_ns + (LOCK_FIRST_NS << doublings);
	} else if (!m->touched && m->ended != QUEUE_RUN_KILLED &&
	    (m->was_asked || m->ended == QUEUE_RUN_NOT_WRITTEN)) {
		/* perhaps it was delivered, and could not be written: not twice at once */
		out->state = PART_RETRY;
		out->due_ns = now_ns + retry_ns(queue, m, now_ns - m->arrival_ns);
	} else if (m->touched && m->lock_tries == 1 && is_left_over(m, p)) {
		return;
	} else if (!m->touched || is_left_over(m, p)) {
		out->state = PART_LOCKED;
		out->due_ns = now_ns + (LOCK_FIRST_NS << doublings);
	} else if (!m->was_brief || !p->timed_out) {
		out->state = PART_RETRY;
		out->due_ns = now_ns + retry_ns(queue, m, now_ns - m->arrival_ns);
	}
}

/* When may it go?  `old`: what was known of that domain, or NULL. */
static void decide_part(const struct queue_reading *reading, const struct part *old,
    int64_t now_ns, struct read_domain *out) {
	const struct queue *queue = reading->queue;
	const struct message *m = reading->message;
	const struct queue_file *file = &reading->file;

	out->state = PART_DUE;
	out->due_ns = 0;
	if (old != NULL && old->ran) {
		after_a_run(queue, m, old, now_ns, out);
	} else if (old != NULL && m->state != MESSAGE_AWAITED && file->tries > m->tries &&
	    !m->was_theirs) {
		/* somebody else has tried all of it */
		out->state = PART_RETRY;
		out->due_ns = now_ns + retry_ns(queue, m, now_ns - m->arrival_ns);
	} else if (old != NULL && old->state != PART_DUE && old->state != PART_RUNNING) {
		out->state = old->state;
		out->due_ns = old->due_ns;
	} else if (!reading->was_known && file->tries > TRIES_KNOWN) {
		out->due_ns = file->tried_ns +
		    retry_ns(queue, m, file->tried_ns - file->arrival_ns);
		if (out->due_ns > now_ns)
			out->state = PART_RETRY;
	}
}

static void decide_all(struct queue_reading *reading, int64_t now_ns) {
	const struct message *m = reading->message;

	for (struct part *p = m->parts; p != NULL; p = p->next_of_message)
		p->domain->part = p;
	for (size_t i = 0; i < reading->count; i++) {
		struct part *old = reading->list[i].domain->part;

		decide_part(reading, old, now_ns, &reading->list[i]);
		if (old != NULL && !reading->more)
			old->left = reading->list[i].recipients;
		if (old != NULL && old->ran && old->timed_out && m->was_brief)
			old->dest->slow_ns = now_ns + SLOW_NS;
	}
	for (struct part *p = m->parts; p != NULL; p = p->next_of_message)
		p->domain->part = NULL;
}

/* A run of an earlier role goes on, and ends, without a word: what it left was perhaps never
 * tried, and is not put off as what failed.  Its questions may look like ours. */
static void note_theirs(struct message *m, const struct queue_file *file) {
	m->was_theirs = false;
	if (!m->left_running)
		return;
	if (m->state != MESSAGE_AWAITED) {
		m->was_theirs = file->tries > m->tries;
		return;
	}
	/* not for long: perhaps it was ours, delivered, and could not be written */
	m->was_theirs = m->ended == QUEUE_RUN_OVER && (m->touched ?
	    m->was_locked || !m->was_asked : m->lock_tries < THEIRS_MOST);
	m->was_locked = m->was_locked || !m->touched;
	m->left_running = !m->touched;
}

static void take_facts(struct queue_reading *reading, int64_t now_ns) {
	struct message *m = reading->message;
	const struct queue_file *file = &reading->file;

	/* the journal knows its inode alone */
	m->touched = file->tries != m->tries || file->inode != m->inode ||
	    (m->stamp != 0 && file->stamp != m->stamp);
	if (reading->was_known)
		note_theirs(m, file);
	if (m->state == MESSAGE_AWAITED) {
		queue_told_read(reading->queue, m,
		    m->ended == QUEUE_RUN_OVER && m->touched);
		/* those that are killed each time are tried later and later */
		m->lock_tries = m->touched && m->ended != QUEUE_RUN_KILLED ? 0 :
		    m->lock_tries + 1;
		if (m->touched)
			queue_note_works(reading->queue, m->mta);
		else
			queue_note_untouched(reading->queue, m, now_ns);
	}
	if (!reading->was_known) {
		m->arrival_ns = file->arrival_ns;
		m->made_s = file->made_s != 0 ? file->made_s :
		    queue_journal_made_s(reading->queue, file->arrival_ns);
		m->left_running = queue_is_of_before(reading->queue, m->arrival_ns);
	}
	memcpy(m->sender, reading->sender, sizeof(m->sender));
}

/* False: no memory. */
static bool join_envelope(const struct queue_reading *reading) {
	return reading->message->envelope != NULL ||
	    queue_join_envelope(reading->queue, reading->message, reading->origin);
}

/* The parts are linked from the last to the first. */
static bool make_parts(struct queue_reading *reading) {
	struct queue *queue = reading->queue;

	for (size_t i = reading->count; i-- > 0; reading->count--) {
		const struct read_domain *r = &reading->list[i];
		struct part *p = queue_make_part(queue, reading->message, r->domain,
		    r->recipients);

		if (p == NULL)
			return false;
		p->state = r->state;
		p->due_ns = r->due_ns;
	}
	return true;
}

static void release_reading(struct queue_reading **reading) {
	for (size_t i = 0; i < (*reading)->count; i++)
		queue_unuse_domain((*reading)->queue, (*reading)->list[i].domain);
	free((*reading)->list);
	free(*reading);
	*reading = NULL;
}

static void finish_reading(struct queue_reading *reading, bool whole, uint64_t place,
    int64_t now_ns) {
	struct queue *queue = reading->queue;
	struct message *m = reading->message;

	merge_domains(reading);
	if (!reading->more)
		take_facts(reading, now_ns);
	decide_all(reading, now_ns);
	m->reading = NULL;
	m->state = MESSAGE_WAITS;
	if (!reading->more) {
		/* what was not read may be left */
		if (whole)
			queue_journal_results(queue, m);
		queue_drop_parts(queue, m);
		m->tries = reading->file.tries;
		m->tried_ns = reading->file.tried_ns;
		m->stamp = reading->file.stamp;
		m->inode = reading->file.inode;
		m->unread = m->recipients = reading->file.recipients;
	}
	/* there is no room: not at once again */
	m->more_ns = whole || reading->taken > 0 ? 0 : now_ns + NO_ROOM_NS;
	m->unread = whole ? 0 : m->unread > reading->taken ? m->unread - reading->taken : 1;
	m->place = place;
	if (!join_envelope(reading) || !make_parts(reading) ||
	    (m->part_count == 0 && m->unread == 0)) {
		queue_journal_finish(queue, m->directory, m->id);
		queue_forget_message(queue, m);
	} else if (!reading->more &&
	    queue_journal_note(queue, m, queue_board_has_room(queue))) {
		queue_forget_message(queue, m);
	} else {
		queue_settle(queue, m, now_ns);
	}
}

void queue_read_end(struct queue_reading **reading, bool whole, uint64_t place,
    int64_t now_ns) {
	struct queue *queue = (*reading)->queue;
	const struct generation *pinned = queue_pin(queue, now_ns);

	if ((*reading)->message != NULL)
		finish_reading(*reading, whole, place, now_ns);
	release_reading(reading);
	queue_settle_changed(queue, now_ns);
	queue_unpin(queue, pinned);
}

void queue_read_abandon(struct queue_reading **reading, int64_t now_ns) {
	struct queue *queue = (*reading)->queue;
	const struct generation *pinned = queue_pin(queue, now_ns);
	struct message *m = (*reading)->message;

	if (m != NULL) {
		queue_journal_finish(queue, m->directory, m->id);
		queue_forget_message(queue, m);
	}
	release_reading(reading);
	queue_unpin(queue, pinned);
}

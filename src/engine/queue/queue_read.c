/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Messages as their files tell them: new ones, changed ones, those that are gone.
 * MODEL    Who reads gathers parts beside the message, which takes them over at the end: what
 *          became of those that ran follows from what is left.  One is read at a time, and
 *          nothing else is done meanwhile.
 * ERRORS   What there is no memory for counts as unread, or waits for the next scan.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

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

/* --- begin ------------------------------------------------------------------------- */

bool queue_wants(struct queue *queue, unsigned directory, const char *id) {
	const struct message *m;

	if (!queue_drives(queue, directory))
		return false;
	m = queue_find_message(queue, directory, id);
	if (m != NULL)
		return m->state != MESSAGE_RUNS;
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
	const struct pool_settings *pool = &queue->settings.schedule.pool;
	uint32_t most = pool->message_recipient_minimum;

	if (queue->in_core + most < pool->message_recipient_limit)
		most = pool->message_recipient_limit - (uint32_t)queue->in_core;
	if (most == 0)
		most = 1;
	return most < BATCH_MOST ? most : BATCH_MOST;
}

static void begin_reading(struct queue *queue, struct message *m, bool more, bool was_known) {
	uint32_t most = first_batch(queue);

	/* what is known of its parts would be lost with those that are not read */
	if (!more && most < m->in_core)
		most = m->in_core;
	if (more && m->envelope->job != JOB_NONE) {
		uint32_t room = pool_room(queue->board, m->envelope->job);

		if (room > 0)
			most = room < BATCH_MOST ? room : BATCH_MOST;
	}
	queue->reading = (struct queue_reading){ .message = m, .more = more,
		.was_known = was_known, .most = most };
	queue_unplace(queue, m);
	m->more_asked = false;
}

static void take_sender(struct message *m, const struct queue_file *file) {
	size_t length = file->sender_length < SENDER_SHOWN ? file->sender_length : SENDER_SHOWN;

	text_copy(m->sender, sizeof(m->sender), file->sender == NULL ? "" : file->sender,
	    file->sender == NULL ? 0 : length);
}

/* Of a file that is not known.  NULL: no room, or no memory. */
static struct message *make_message(struct queue *queue, unsigned directory, const char *id,
    const struct queue_file *file) {
	struct message *m = queue_make_message(queue, directory, id);

	if (m == NULL)
		return NULL;
	take_sender(m, file);
	m->arrival_ns = file->arrival_ns;
	m->made_s = file->made_s != 0 ? file->made_s :
	    queue_journal_made_s(queue, file->arrival_ns);
	m->left_running = queue_is_of_before(queue, m->arrival_ns);
	if (queue_join_envelope(queue, m, file->origin == NULL ? "" : file->origin))
		return m;
	queue_forget_message(queue, m);
	return NULL;
}

bool queue_read_begin(struct queue *queue, unsigned directory, const char *id,
    const struct queue_file *file) {
	struct message *m;
	bool known;

	if (!queue_drives(queue, directory))
		return false;
	queue_begin(queue, queue->now_ns);
	m = queue_find_message(queue, directory, id);
	/* what is known of its times counts */
	if (m == NULL)
		m = queue_journal_fetch(queue, directory, id);
	known = m != NULL;
	if (!queue_wants(queue, directory, id))
		return false;
	if (known)
		take_sender(m, file);
	else
		m = make_message(queue, directory, id, file);
	if (m == NULL) {
		queue->forgotten++;
		return false;
	}
	begin_reading(queue, m, false, known);
	queue->reading.file = *file;
	return true;
}

bool queue_read_more(struct queue *queue, unsigned directory, const char *id) {
	struct message *m = queue_find_message(queue, directory, id);

	if (m == NULL)
		return false;
	queue_begin(queue, queue->now_ns);
	m->more_asked = false;
	if (m->state != MESSAGE_WAITS || m->unread == 0)
		return false;
	begin_reading(queue, m, true, true);
	return true;
}

bool queue_read_recipient(struct queue *queue, const char *domain, size_t length) {
	struct queue_reading *reading = &queue->reading;
	struct domain *used;

	if (reading->taken >= reading->most)
		return false;
	if (queue_directory_of(queue, reading->message)->is_local) {
		domain = QUEUE_LOCAL_DOMAIN;
		length = sizeof(QUEUE_LOCAL_DOMAIN) - 1;
	}
	used = queue_use_domain(queue, reading->message->mta, domain, length);
	if (used == NULL)
		return false;
	if (used->read != NULL) {
		queue_unuse_domain(queue, used);
	} else {
		used->read = calloc(1, sizeof(*used->read));
		if (used->read == NULL) {
			queue_unuse_domain(queue, used);
			return false;
		}
		used->read->domain = used;
		used->read->next_of_message = reading->parts;
		reading->parts = used->read;
	}
	used->read->recipients++;
	reading->taken++;
	return true;
}

/* --- end --------------------------------------------------------------------------- */

static int64_t retry_ns(const struct queue *queue, const struct message *m, int64_t age_ns) {
	const struct generation_mta *mta = &queue->settings.mtas[m->mta];

	return age_ns < mta->retry_ns ? mta->retry_ns :
	    age_ns > mta->retry_most_ns ? mta->retry_most_ns : age_ns;
}

/* Its run was killed while it was at another one. */
static bool is_left_over(const struct message *m, const struct part *p) {
	return m->ended == QUEUE_RUN_KILLED && !p->was_last;
}

/* It ran, and is left. */
static void after_a_run(const struct queue *queue, const struct message *m,
    const struct part *p, struct part *out) {
	unsigned doublings = m->lock_tries < LOCK_DOUBLINGS ? m->lock_tries : LOCK_DOUBLINGS;

	if (p->put_off && p->held) {
		out->state = PART_RETRY;
		out->due_ns = queue->now_ns + queue->settings.mtas[m->mta].retry_ns;
	}
	if (p->put_off || m->not_reached)
		return;
	if (m->was_theirs) {
		out->state = PART_LOCKED;
		out->due_ns = queue->now_ns + (LOCK_FIRST_NS << doublings);
	} else if (!m->touched && m->ended != QUEUE_RUN_KILLED &&
	    (m->was_asked || m->ended == QUEUE_RUN_NOT_WRITTEN)) {
		/* perhaps it was delivered, and could not be written: not twice at once */
		out->state = PART_RETRY;
		out->due_ns = queue->now_ns + retry_ns(queue, m, queue->now_ns - m->arrival_ns);
	} else if (m->touched && m->lock_tries == 1 && is_left_over(m, p)) {
		return;
	} else if (!m->touched || is_left_over(m, p)) {
		out->state = PART_LOCKED;
		out->due_ns = queue->now_ns + (LOCK_FIRST_NS << doublings);
	} else if (!m->was_brief || !p->timed_out) {
		out->state = PART_RETRY;
		out->due_ns = queue->now_ns + retry_ns(queue, m, queue->now_ns - m->arrival_ns);
	}
}

/* When may it go?  `old`: what was known of that domain, or NULL. */
static void decide_part(const struct queue *queue, const struct part *old,
    struct part *out) {
	const struct message *m = queue->reading.message;
	const struct queue_file *file = &queue->reading.file;

	out->state = PART_DUE;
	out->due_ns = 0;
	if (old != NULL && old->ran) {
		after_a_run(queue, m, old, out);
	} else if (old != NULL && m->state != MESSAGE_AWAITED && file->tries > m->tries &&
	    !m->was_theirs) {
		/* somebody else has tried all of it */
		out->state = PART_RETRY;
		out->due_ns = queue->now_ns + retry_ns(queue, m, queue->now_ns - m->arrival_ns);
	} else if (old != NULL && old->state != PART_DUE && old->state != PART_RUNNING) {
		out->state = old->state;
		out->due_ns = old->due_ns;
	} else if (!queue->reading.was_known && file->tries > TRIES_KNOWN) {
		out->due_ns = file->tried_ns +
		    retry_ns(queue, m, file->tried_ns - file->arrival_ns);
		if (out->due_ns > queue->now_ns)
			out->state = PART_RETRY;
	}
}

static void decide_all(struct queue *queue) {
	const struct queue_reading *reading = &queue->reading;
	const struct message *m = reading->message;

	for (struct part *p = m->parts; p != NULL; p = p->next_of_message)
		p->domain->part = p;
	for (struct part *p = reading->parts; p != NULL; p = p->next_of_message) {
		struct part *old = p->domain->part;

		decide_part(queue, old, p);
		if (old != NULL && !reading->more)
			old->left = p->recipients;
		if (old != NULL && old->ran && old->timed_out && m->was_brief)
			old->dest->slow_ns = queue->now_ns + SLOW_NS;
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

static void take_facts(struct queue *queue) {
	struct message *m = queue->reading.message;
	const struct queue_file *file = &queue->reading.file;

	/* the journal knows its inode alone */
	m->touched = file->tries != m->tries || file->inode != m->inode ||
	    (m->stamp != 0 && file->stamp != m->stamp);
	if (queue->reading.was_known)
		note_theirs(m, file);
	if (m->state != MESSAGE_AWAITED)
		return;
	queue_told_read(queue, m, m->ended == QUEUE_RUN_OVER && m->touched);
	/* those that are killed each time are tried later and later */
	m->lock_tries = m->touched && m->ended != QUEUE_RUN_KILLED ? 0 : m->lock_tries + 1;
	if (m->touched)
		queue_note_works(queue, m->mta);
	else
		queue_note_untouched(queue, m);
}

/* What was read is the message's; or nobody's. */
static void end_parts(struct queue *queue, struct message *m) {
	struct part *p;

	while ((p = queue->reading.parts) != NULL) {
		queue->reading.parts = p->next_of_message;
		p->domain->read = NULL;
		if (m != NULL) {
			queue_add_part(queue, m, p);
			continue;
		}
		queue_unuse_domain(queue, p->domain);
		free(p);
	}
}

void queue_read_end(struct queue *queue, bool whole, uint64_t place, int64_t now_ns) {
	const struct queue_reading *reading = &queue->reading;
	struct message *m = reading->message;

	queue->now_ns = now_ns;
	if (!reading->more)
		take_facts(queue);
	decide_all(queue);
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
	end_parts(queue, m);
	if (m->part_count == 0 && m->unread == 0) {
		queue_journal_finish(queue, m->directory, m->id);
		queue_forget_message(queue, m);
	} else if (!reading->more &&
	    queue_journal_note(queue, m, queue_board_has_room(queue))) {
		queue_forget_message(queue, m);
	} else {
		queue_settle(queue, m);
	}
	queue_settle_changed(queue);
}

void queue_read_abandon(struct queue *queue, int64_t now_ns) {
	struct message *m = queue->reading.message;

	queue->now_ns = now_ns;
	end_parts(queue, NULL);
	queue_journal_finish(queue, m->directory, m->id);
	queue_forget_message(queue, m);
}

/* --- gone ------------------------------------------------------------------------------ */

/* What ran was delivered, or bounced: by somebody who answers there, if there was a connection
 * to it. */
static void note_gone(struct queue *queue, const struct message *m) {
	bool was_connected = m->was_connected;
	struct grant_seen seen;

	if (m->state == MESSAGE_RUNS) {
		grants_see(queue->engine->segment, &m->grant, &seen);
		was_connected = seen.connected > 0;
	}
	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message) {
		if (!p->ran && p->state != PART_RUNNING)
			continue;
		queue_note_works(queue, m->mta);
		if (was_connected && !p->put_off && !p->unanswered)
			p->dest->good_ns = queue->now_ns;
	}
}

void queue_forget_file(struct queue *queue, unsigned directory, const char *id, bool gone,
    int64_t now_ns) {
	struct message *m = queue_find_message(queue, directory, id);

	queue_told_gone(queue, directory, id);
	if (m == NULL) {
		queue_journal_finish(queue, directory, id);
		return;
	}
	queue_begin(queue, now_ns);
	if (gone) {
		queue_journal_results(queue, m);
		note_gone(queue, m);
	}
	queue_journal_finish(queue, directory, id);
	queue_forget_message(queue, m);
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What the driven queue takes out of its journal.
 * MODEL    An envelope becomes a message as if its file had been read, with the times that
 *          stand in it.  Memory is filled by the runners while there is room.  Mail for a
 *          dest that is back is found by a look at all that waits.
 * ERRORS   What there is no memory for is given back.  What is in memory, or in hand of an
 *          earlier role's run, is left as it is: its file is read after the run.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/queue/queue_journal_internal.h"

#define LOADS_A_TURN	256
#define FULL_NS		(100 * NS_PER_MS)

/* --- one message --------------------------------------------------------------------- */

uint32_t queue_journal_directory(const struct queue_journal *j, const char *mta,
    const char *path) {
	for (unsigned i = 0; i < j->queue->directory_count; i++) {
		const struct queue_directory *directory = &j->queue->directories[i];

		if (strcmp(directory->path, path) == 0 && strcmp(directory->mta_name, mta) == 0)
			return i;
	}
	return NONE;
}

/* Of an envelope; NONE: it is driven no more. */
static uint32_t driven_directory(const struct queue_journal *j,
    const struct messages_envelope *envelope) {
	uint32_t number = queue_journal_directory(j, envelope->mta, envelope->directory);

	return queue_drives(j->queue, number) ? number : NONE;
}

/* A time of the past by the queue's clock; of a clock that was set: now. */
static int64_t past_of(const struct queue_journal *j, int64_t wall_ns) {
	int64_t ns = wall_ns - j->wall_ns;

	if (wall_ns == 0)
		return 0;
	return ns > j->queue->now_ns ? j->queue->now_ns : ns == 0 ? 1 : ns;
}

/* When a part is due; a clock that was set makes it wait no longer than a failure does. */
static int64_t group_due_ns(const struct queue_journal *j, unsigned mta, int64_t wall_ns) {
	int64_t now_ns = j->queue->now_ns;
	int64_t most_ns = now_ns + j->queue->settings.mtas[mta].retry_most_ns;
	int64_t ns = wall_ns - j->wall_ns;

	return wall_ns == 0 || wall_ns == INT64_MAX ? 0 : ns > most_ns ? most_ns : ns;
}

static uint64_t sum_of_groups(const struct messages_envelope *envelope) {
	uint64_t sum = 0;

	for (unsigned i = 0; i < envelope->group_count; i++)
		sum += envelope->groups[i].recipients;
	return sum;
}

/* As many as a batch may be: else the file is read in batches. */
static bool envelope_fits(const struct queue *queue, const struct messages_envelope *envelope) {
	uint64_t sum = sum_of_groups(envelope);

	return queue->in_core + sum <= queue->settings.schedule.pool.message_recipient_limit ||
	    sum <= queue->settings.schedule.pool.message_recipient_minimum;
}

/* Without: its file is read.  False: no memory. */
static bool make_parts(struct queue_journal *j, struct message *m,
    const struct messages_envelope *envelope) {
	struct queue *queue = j->queue;
	uint64_t taken = sum_of_groups(envelope);

	if (envelope->group_count == 0 || !envelope_fits(queue, envelope))
		return true;
	/* the parts are linked from the last to the first */
	for (unsigned i = envelope->group_count; i-- > 0;) {
		const struct messages_group *group = &envelope->groups[i];
		struct domain *domain = queue_use_domain(queue, m->mta, group->domain,
		    group->length);
		struct part *p = domain == NULL ? NULL :
		    queue_make_part(queue, m, domain, group->recipients);
		int64_t due_ns = group_due_ns(j, m->mta, group->due_ns);

		if (p == NULL) {
			if (domain != NULL)
				queue_unuse_domain(queue, domain);
			return false;
		}
		p->state = due_ns > queue->now_ns ? PART_RETRY : PART_DUE;
		p->due_ns = due_ns;
	}
	m->place = envelope->rest;
	m->unread = envelope->rest == 0 ? 0 : m->recipients > taken ?
	    m->recipients - (uint32_t)taken : 1;
	return true;
}

/* It is driven no more, or there is no memory for it: a scan finds it then. */
static void give_up_envelope(struct queue_journal *j, const struct messages_envelope *envelope) {
	(void)messages_finish(j->messages, messages_key(envelope->mta, envelope->directory,
	    envelope->id), queue_journal_now(j));
}

/* There is room for it (queue_make_room), so that nothing else is written meanwhile. */
static void load_envelope(struct queue_journal *j, const struct messages_envelope *envelope) {
	struct queue *queue = j->queue;
	uint32_t directory = driven_directory(j, envelope);
	struct message *m;

	if (directory == NONE) {
		give_up_envelope(j, envelope);
		return;
	}
	queue_told_restore(queue, directory, envelope);
	if (queue_find_message(queue, directory, envelope->id) != NULL ||
	    queue_adopted_with(queue, directory, envelope->id) != NULL)
		return;
	m = queue_make_message(queue, directory, envelope->id);
	if (m == NULL) {
		give_up_envelope(j, envelope);
		return;
	}
	m->inode = envelope->stamp;
	m->made_s = envelope->arrival_ns / NS_PER_SECOND;
	m->arrival_ns = past_of(j, envelope->arrival_ns);
	m->tried_ns = past_of(j, envelope->tried_ns);
	/* no run of an earlier role has it that was tried since */
	m->left_running = queue_is_of_before(queue, m->arrival_ns) &&
	    (m->tried_ns == 0 || queue_is_of_before(queue, m->tried_ns));
	m->tries = envelope->tries;
	m->recipients = m->unread = envelope->recipients;
	if (envelope->sender != NULL)
		text_copy(m->sender, sizeof(m->sender), envelope->sender,
		    strlen(envelope->sender));
	if (!queue_join_envelope(queue, m, "") || !make_parts(j, m, envelope)) {
		/* later, from its file */
		queue_drop_parts(queue, m);
		(void)queue_journal_put(j, m, false);
		queue_forget_message(queue, m);
		return;
	}
	queue_settle(queue, m);
}

/* It may be loaded much later; what is read of the log speaks of it at once. */
void queue_journal_recovered(void *context, const struct messages_envelope *envelope) {
	struct queue_journal *j = context;
	uint32_t directory = driven_directory(j, envelope);

	if (directory != NONE)
		queue_told_restore(j->queue, directory, envelope);
}

/* --- those that are back -------------------------------------------------------------------- */

/* It is back: due.  Of those that wait for a time of their own only what was written before its
 * dest came back; where that is dead or held still, somebody is to see when it is not. */
static bool is_back(struct queue_journal *j, uint32_t directory,
    const struct messages_envelope *envelope, const struct messages_group *group) {
	struct queue *queue = j->queue;
	bool waits_for_dest = group->due_ns == INT64_MAX, is_back;
	struct domain *domain;
	struct dest *d;

	if (!waits_for_dest && (!j->returned || group->due_ns <= queue_journal_now(j)))
		return false;
	domain = queue_use_domain(queue, j->queue->directories[directory].mta, group->domain,
	    group->length);
	if (domain == NULL)
		return false;
	d = domain->dest;
	if (waits_for_dest) {
		is_back = queue_look_again(queue, d) != QUEUE_WAITS_SUSPENDED;
		d->in_journal = d->in_journal || !is_back;
	} else {
		is_back = !d->suspended && d->back_ns != 0 &&
		    envelope->written_ns - j->wall_ns <= d->back_ns;
	}
	queue_unuse_domain(queue, domain);
	return is_back;
}

static bool any_is_back(struct queue_journal *j, uint32_t directory,
    const struct messages_envelope *envelope) {
	bool any = false;

	for (unsigned i = 0; i < envelope->group_count && !any; i++)
		any = is_back(j, directory, envelope, &envelope->groups[i]);
	return any;
}

/* Taken out of the log, with what is back of it due; or written again so, if there is no room. */
static void bring_back(struct queue_journal *j, uint32_t directory, uint64_t key) {
	static struct messages_group groups[MESSAGES_GROUPS_MAX];
	struct messages_envelope envelope;
	/* to make room writes, and what was taken is valid until then */
	bool has_room = queue_board_has_room(j->queue) && queue_make_room(j->queue);

	if (!messages_take(j->messages, key, &envelope))
		return;
	for (unsigned i = 0; i < envelope.group_count; i++) {
		groups[i] = envelope.groups[i];
		if (is_back(j, directory, &envelope, &groups[i]))
			groups[i].due_ns = 0;
	}
	envelope.groups = groups;
	envelope.due_ns = 0;
	if (has_room)
		load_envelope(j, &envelope);
	else
		(void)messages_put(j->messages, &envelope, false, queue_journal_now(j));
}

/* All that waits is looked at: each dest that is not back is noted. */
bool queue_journal_look_on(struct queue_journal *j) {
	struct messages_envelope envelope;
	enum messages_answer answer;

	while ((answer = messages_walk_next(j->messages, j->walk, &envelope)) == MESSAGES_ONE) {
		uint32_t directory = driven_directory(j, &envelope);

		if (directory != NONE && any_is_back(j, directory, &envelope))
			bring_back(j, directory, queue_journal_key(j, directory, envelope.id));
	}
	return answer == MESSAGES_MORE;
}

/* --- the runners ------------------------------------------------------------------------ */

/* Its interval is shorter than it is to wait: there is another one for what is left of that. */
static bool is_early(const struct queue_journal *j, const struct messages_envelope *envelope) {
	return envelope->due_ns >= queue_journal_now(j) + j->intervals_ns[1];
}

static void take_envelope(struct queue_journal *j, const struct messages_envelope *envelope) {
	struct messages_envelope later = *envelope;
	struct queue *queue = j->queue;

	/* without its parts the times of these would be lost */
	if (later.due_ns > queue_journal_now(j) && !is_early(j, &later) &&
	    !envelope_fits(queue, &later))
		later.due_ns = queue_journal_now(j) + j->intervals_ns[1];
	if (is_early(j, &later))
		(void)messages_put(j->messages, &later, false, queue_journal_now(j));
	else
		load_envelope(j, envelope);
}

int64_t queue_journal_load(struct queue_journal *j) {
	struct queue *queue = j->queue;

	if (!messages_is_recovered(j->messages))
		return INT64_MAX;
	for (unsigned i = 0; i < LOADS_A_TURN; i++) {
		struct messages_envelope envelope;
		int64_t next_ns;

		if (!queue_board_has_room(queue))
			return INT64_MAX;
		/* all of memory is being read: not again at once */
		if (!queue_make_room(queue))
			return queue->now_ns + FULL_NS;
		switch (messages_next(j->messages, queue_journal_now(j), &envelope, &next_ns)) {
		case MESSAGES_NONE:
			return next_ns == INT64_MAX ? INT64_MAX : next_ns - j->wall_ns;
		case MESSAGES_MORE:
			return queue->now_ns;
		case MESSAGES_ONE:
			take_envelope(j, &envelope);
			break;
		}
	}
	return queue->now_ns;
}

struct message *queue_journal_fetch(struct queue *queue, unsigned directory, const char *id) {
	struct queue_journal *j = queue->journal;
	struct messages_envelope envelope;

	if (j == NULL || directory >= queue->directory_count || !queue_make_room(queue) ||
	    !messages_take(j->messages, queue_journal_key(j, directory, id), &envelope))
		return NULL;
	load_envelope(j, &envelope);
	return queue_find_message(queue, directory, id);
}

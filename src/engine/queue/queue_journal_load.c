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

/* NONE: it is driven no more. */
static uint32_t directory_of(const struct queue_journal *j,
    const struct messages_envelope *envelope) {
	for (unsigned i = 0; i < j->directory_count; i++)
		if (strcmp(j->directories[i].path, envelope->directory) == 0 &&
		    strcmp(j->directories[i].mta_name, envelope->mta) == 0 &&
		    j->queue->settings.mtas[j->directories[i].mta].driven)
			return i;
	return NONE;
}

/* A time of the past by the queue's clock; of a clock that was set: now. */
static int64_t past_of(const struct queue_journal *j, int64_t wall_ns) {
	int64_t ns = wall_ns - j->wall_ns;

	if (wall_ns == 0)
		return 0;
	return ns > j->queue->now_ns ? j->queue->now_ns : ns == 0 ? 1 : ns;
}

/* When a part is due; a clock that was set makes it wait no longer than a failure does. */
static int64_t due_of(const struct queue_journal *j, unsigned mta, int64_t wall_ns) {
	int64_t now_ns = j->queue->now_ns;
	int64_t most_ns = now_ns + j->queue->settings.mtas[mta].retry_most_ns;
	int64_t ns = wall_ns - j->wall_ns;

	return wall_ns == 0 || wall_ns == INT64_MAX ? 0 : ns > most_ns ? most_ns : ns;
}

/* As many as a batch may be: else the file is read in batches. */
static bool fits(const struct queue *queue, const struct messages_envelope *envelope) {
	uint64_t sum = 0;

	for (unsigned i = 0; i < envelope->group_count; i++)
		sum += envelope->groups[i].recipients;
	return queue->in_core + sum <= queue->settings.message_recipient_limit ||
	    sum <= queue->settings.message_recipient_minimum;
}

static bool make_parts(struct queue_journal *j, uint32_t message,
    const struct messages_envelope *envelope) {
	struct queue *queue = j->queue;
	unsigned mta = queue->messages[message].mta;

	/* the parts are linked from the last to the first */
	for (unsigned i = envelope->group_count; i-- > 0;) {
		const struct messages_group *group = &envelope->groups[i];
		uint32_t domain = queue_use_domain(queue, mta, group->domain, group->length);
		uint32_t part = domain == NONE ? NONE :
		    queue_make_part(queue, message, domain, group->recipients);
		int64_t due_ns = due_of(j, mta, group->due_ns);

		if (part == NONE) {
			if (domain != NONE)
				queue_unuse_domain(queue, domain);
			return false;
		}
		queue->parts[part].state = due_ns > queue->now_ns ? PART_RETRY : PART_DUE;
		queue->parts[part].due_ns = due_ns;
	}
	return true;
}

static bool is_local(const struct messages_envelope *envelope) {
	static const char name[] = QUEUE_LOCAL_DOMAIN;

	return envelope->group_count > 0 &&
	    envelope->groups[0].length == sizeof(name) - 1 &&
	    memcmp(envelope->groups[0].domain, name, sizeof(name) - 1) == 0;
}

static uint64_t sum_of_groups(const struct messages_envelope *envelope) {
	uint64_t sum = 0;

	for (unsigned i = 0; i < envelope->group_count; i++)
		sum += envelope->groups[i].recipients;
	return sum;
}

/* It is driven no more, or there is no memory for it: a scan finds it then. */
static void give_up(struct queue_journal *j, const struct messages_envelope *envelope) {
	(void)messages_finish(j->messages, envelope->mta, envelope->directory, envelope->id,
	    queue_journal_now(j));
}

/* There is room for it (queue_make_room), so that nothing else is written meanwhile. */
static void load(struct queue_journal *j, const struct messages_envelope *envelope) {
	struct queue *queue = j->queue;
	uint32_t directory = directory_of(j, envelope), message;
	uint64_t taken = sum_of_groups(envelope);
	struct message *m;
	unsigned mta;

	if (directory == NONE) {
		give_up(j, envelope);
		return;
	}
	mta = j->directories[directory].mta;
	if (queue_find_message(queue, mta, directory, envelope->id) != NONE ||
	    queue_adopted_with(queue, mta, directory, envelope->id) != NULL)
		return;
	message = queue_make_message(queue, mta, directory, envelope->id);
	if (message == NONE) {
		give_up(j, envelope);
		return;
	}
	m = &queue->messages[message];
	m->inode = envelope->stamp;
	m->arrival_ns = past_of(j, envelope->arrival_ns);
	m->left_running = queue_is_of_before(queue, m->arrival_ns);
	m->tried_ns = past_of(j, envelope->tried_ns);
	m->tries = envelope->tries;
	m->recipients = m->unread = envelope->recipients;
	m->is_local = is_local(envelope);
	if (envelope->sender != NULL)
		text_copy(m->sender, sizeof(m->sender), envelope->sender,
		    strlen(envelope->sender));
	if (!queue_join_envelope(queue, message, envelope->arrival_ns / NS_PER_SECOND, "")) {
		(void)queue_journal_put(j, message, false);
		queue_forget_message(queue, message);
		return;
	}
	if (envelope->group_count > 0 && fits(queue, envelope)) {
		if (!make_parts(j, message, envelope)) {
			/* no memory: later, from its file */
			queue_drop_parts(queue, message);
			(void)queue_journal_put(j, message, false);
			queue_forget_message(queue, message);
			return;
		}
		m->place = envelope->rest;
		m->unread = envelope->rest == 0 ? 0 : m->recipients > taken ?
		    m->recipients - (uint32_t)taken : 1;
	}
	queue_settle(queue, message, queue->now_ns);
}

/* --- those that are taken ------------------------------------------------------------------ */

static bool keep(struct queue_journal *j, const struct messages_envelope *from, bool is_due) {
	size_t texts = strlen(from->mta) + strlen(from->directory) + strlen(from->id) +
	    (from->sender == NULL ? 0 : strlen(from->sender)) + 4;
	struct queue_journal_taken *taken;
	char *at;

	for (unsigned i = 0; i < from->group_count; i++)
		texts += from->groups[i].length;
	taken = malloc(sizeof(*taken) + from->group_count * sizeof(*taken->groups) + texts);
	if (taken == NULL)
		return false;
	at = (char *)&taken->groups[from->group_count];
	taken->envelope = *from;
	taken->is_due = is_due;
	taken->envelope.groups = taken->groups;
	taken->envelope.mta = at;
	at = stpcpy(at, from->mta) + 1;
	taken->envelope.directory = at;
	at = stpcpy(at, from->directory) + 1;
	taken->envelope.id = at;
	at = stpcpy(at, from->id) + 1;
	if (from->sender != NULL) {
		taken->envelope.sender = at;
		at = stpcpy(at, from->sender) + 1;
	}
	for (unsigned i = 0; i < from->group_count; i++) {
		taken->groups[i] = from->groups[i];
		taken->groups[i].domain = at;
		memcpy(at, from->groups[i].domain, from->groups[i].length);
		at += from->groups[i].length;
	}
	taken->next = NULL;
	*(j->taken == NULL ? &j->taken : &j->taken_last->next) = taken;
	j->taken_last = taken;
	j->taken_count++;
	return true;
}

bool queue_journal_drain(struct queue_journal *j) {
	bool all = true;

	while (j->taken != NULL) {
		struct queue_journal_taken *taken = j->taken;

		j->taken = taken->next;
		if (taken->is_due)
			taken->envelope.due_ns = 0;
		if (taken->is_due ? queue_board_has_room(j->queue) && queue_make_room(j->queue) :
		    j->queue->message_count < j->queue->message_most) {
			load(j, &taken->envelope);
		} else {
			all = false;
			(void)messages_put(j->messages, &taken->envelope, false,
			    queue_journal_now(j));
		}
		free(taken);
	}
	j->taken_count = 0;
	return all;
}

void queue_journal_free_taken(struct queue_journal *j) {
	while (j->taken != NULL) {
		struct queue_journal_taken *taken = j->taken;

		j->taken = taken->next;
		free(taken);
	}
}

/* --- the runners ------------------------------------------------------------------------ */

int64_t queue_journal_load(struct queue_journal *j) {
	struct queue *queue = j->queue;

	if (!messages_is_recovered(j->messages))
		return INT64_MAX;
	for (unsigned i = 0; i < LOADS_A_TURN; i++) {
		struct messages_envelope envelope;
		int64_t next_ns;

		if (!queue_board_has_room(queue))
			return INT64_MAX;
		switch (messages_next(j->messages, queue_journal_now(j), &envelope, &next_ns)) {
		case MESSAGES_NONE:
			return next_ns == INT64_MAX ? INT64_MAX : next_ns - j->wall_ns;
		case MESSAGES_MORE:
			return queue->now_ns;
		case MESSAGES_ONE:
			/* of a copy, where room is to be made: that writes */
			if (queue->message_count < queue->message_most) {
				load(j, &envelope);
				break;
			}
			if (!keep(j, &envelope, true))
				give_up(j, &envelope);
			/* all of memory is being read: not again at once */
			if (!queue_journal_drain(j))
				return queue->now_ns + FULL_NS;
			break;
		}
	}
	return queue->now_ns;
}

/* --- looks at all of it ------------------------------------------------------------------ */

/* Does any of it wait for a dest that is back?  Where it is not, somebody is to see when. */
static bool has_come_back(struct queue_journal *j, const struct messages_envelope *envelope) {
	struct queue *queue = j->queue;
	uint32_t directory = directory_of(j, envelope);
	bool is_back = false;

	for (unsigned i = 0; directory != NONE && i < envelope->group_count && !is_back; i++) {
		const struct messages_group *group = &envelope->groups[i];
		uint32_t domain;

		if (group->due_ns != INT64_MAX)
			continue;
		domain = queue_use_domain(queue, j->directories[directory].mta, group->domain,
		    group->length);
		if (domain == NONE)
			continue;
		is_back = queue_look_again(queue, queue->domains[domain].dest,
		    queue->now_ns) != QUEUE_WAITS_SUSPENDED;
		if (!is_back)
			queue->dests[queue->domains[domain].dest].in_journal = true;
		queue_unuse_domain(queue, domain);
	}
	return is_back;
}

/* At the start what waits for its time is remembered as far as there is room, too: what is
 * due comes by itself. */
static bool is_remembered(const struct queue_journal *j,
    const struct messages_envelope *envelope) {
	const struct queue *queue = j->queue;

	return j->fills && envelope->due_ns > queue_journal_now(j) &&
	    queue->message_count + j->taken_count < queue->message_most -
	    queue->message_most / 4;
}

bool queue_journal_visit(void *context, const struct messages_envelope *envelope) {
	struct queue_journal *j = context;
	bool is_due = has_come_back(j, envelope);

	return (is_due || is_remembered(j, envelope)) && keep(j, envelope, is_due);
}

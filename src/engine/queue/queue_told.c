/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Who has got the mail of the driven queue, as Sendmail's log tells it at once, and the
 *          queue file only when it is next written.
 * MODEL    Of each message that is in a run it is known by which process (*pid*).  A line of the
 *          log counts if it leaves no doubt (wire/sendmail_sent.h) and is of that message, that
 *          process and the message's age at that time.  Then it is written into the journal; and
 *          the recipient is known as delivered until the file is written anew by the end of an
 *          orderly run, or is gone: from then on the file is right, whatever the log said.  Only
 *          what a run leaves that was killed, or could not write its file, is ever used: by the
 *          next run (segment/queue/told.h), or by the next life of this role.  A line that says
 *          otherwise of such a recipient makes all that was told of the message void.
 * ERRORS   Without memory, or of too many, nothing is known: mail goes out again.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/plain_recipient.h"
#include "base/text.h"
#include "engine/queue/queue_internal.h"
#include "journal/queue/messages.h"

#define MESSAGES_MOST	65536u
#define LINES_A_TURN	512
#define LATE_NS		(5 * NS_PER_SECOND)	/* lines may be read after the end of their run */
#define SILENT_NS	(60 * NS_PER_SECOND)	/* the same of one that died */
#define POLL_NS		(200 * NS_PER_MS)
#define WAIT_POLL_NS	(20 * NS_PER_MS)
#define START_NS	(5 * NS_PER_SECOND)	/* a start waits for the log so long at most */
#define KILLED_NS	(2 * NS_PER_SECOND)	/* and a run that was killed */
#define SILENCE_NS	(5 * NS_PER_SECOND)	/* of who reads the log */
#define SYSLOG_NS	(100 * NS_PER_MS)	/* from a process to its log */

static bool is_wanted(const struct queue *queue, unsigned mta) {
	return queue->settings.mtas[mta].drive != 0 &&
	    queue->settings.mtas[mta].exactly_once != EXACTLY_ONCE_OFF;
}

static bool any_is_wanted(const struct queue *queue) {
	for (unsigned i = 0; i < GENERATION_MTAS_MAX; i++)
		if (is_wanted(queue, i))
			return true;
	return false;
}

/* --- the table ------------------------------------------------------------------------- */

static uint64_t told_hash(const struct queue *queue, const char *id) {
	return queue_hash_text(queue, id, strlen(id), 0);
}

struct told_message *queue_told_find(const struct queue *queue, const char *id) {
	const struct map_cell *cell = map_find(&queue->told_map, told_hash(queue, id));

	while (cell != NULL && strcmp(((const struct told_message *)cell->item)->id, id) != 0)
		cell = map_next(&queue->told_map, cell);
	return cell == NULL ? NULL : cell->item;
}

static struct told_message *find_in(const struct queue *queue, unsigned directory,
    const char *id) {
	struct told_message *message = queue_told_find(queue, id);

	return message != NULL && message->directory == directory ? message : NULL;
}

/* Of an id that is not known.  NULL: no memory, or there are too many. */
static struct told_message *told_add(struct queue *queue, const char *id) {
	struct told_message *message = queue->told_map.count >= MESSAGES_MOST ?
	    NULL : calloc(1, sizeof(*message));

	if (message == NULL || !map_add_item(&queue->told_map, told_hash(queue, id), message)) {
		free(message);
		engine_count(queue->engine, COUNTER_TOLD_LOST, 1);
		return NULL;
	}
	text_copy(message->id, sizeof(message->id), id, strlen(id));
	LIST_INSERT_HEAD(&queue->told, message, of_all);
	return message;
}

/* Found or made, of that file; NULL: no memory.  What was known of another creation of that id
 * is not. */
static struct told_message *told_make(struct queue *queue, unsigned directory, const char *id,
    int64_t made_s) {
	struct told_message *message = queue_told_find(queue, id);

	if (message == NULL)
		message = told_add(queue, id);
	else if (message->made_s != made_s || message->directory != directory)
		queue_told_clear(queue, message);
	if (message == NULL)
		return NULL;
	message->directory = (uint16_t)directory;
	message->made_s = made_s;
	return message;
}

static void told_drop(struct queue *queue, struct told_message *message) {
	map_remove_item(&queue->told_map, told_hash(queue, message->id), message);
	LIST_REMOVE(message, of_all);
	free(message->to);
	free(message->pieces);
	free(message);
}

/* What is over for long, and of which nothing is known. */
static bool is_stale(const struct told_message *message, int64_t now_ns) {
	return message->state != TOLD_RUNS && message->until_ns <= now_ns &&
	    (message->state != TOLD_DIED || message->length == 0);
}

static void sweep_told(struct queue *queue) {
	struct told_message *message = LIST_FIRST(&queue->told), *next;

	for (; message != NULL; message = next) {
		next = LIST_NEXT(message, of_all);
		if (is_stale(message, queue->now_ns))
			told_drop(queue, message);
	}
}

void queue_told_close(struct queue *queue) {
	while (!LIST_EMPTY(&queue->told))
		told_drop(queue, LIST_FIRST(&queue->told));
	map_free(&queue->told_map);
}

/* --- recipients ------------------------------------------------------------------------- */

bool queue_told_next(struct span *list, struct span *one) {
	const char *at = list->text, *end;

	if (list->length == 0)
		return false;
	end = at + list->length;
	if (!plain_recipient_take(&at, end, &one->text, &one->length))
		return false;
	*list = (struct span){ at, (size_t)(end - at) };
	return true;
}

bool queue_told_has(const struct told_message *message, struct span recipient) {
	struct span list = { message->to, message->length }, one;

	while (queue_told_next(&list, &one))
		if (one.length == recipient.length &&
		    memcmp(one.text, recipient.text, one.length) == 0)
			return true;
	return false;
}

static uint64_t key_of(const struct queue *queue, const struct told_message *message,
    struct span recipient) {
	return told_key(queue->engine->segment, message->id, strlen(message->id),
	    (uint32_t)message->made_s, recipient.text, recipient.length);
}

void queue_told_publish(const struct queue *queue, const struct told_message *message,
    struct span recipient) {
	told_publish(queue->engine->segment, key_of(queue, message, recipient));
}

void queue_told_clear(struct queue *queue, struct told_message *message) {
	struct span list = { message->to, message->length }, one;

	while (queue_told_next(&list, &one))
		told_withdraw(queue->engine->segment, key_of(queue, message, one));
	free(message->to);
	free(message->pieces);
	message->to = message->pieces = NULL;
	message->length = message->pieces_length = 0;
	message->pieces_spoiled = false;
}

/* --- runs -------------------------------------------------------------------------------- */

static void wait_for_log(struct queue *queue, int64_t from_ns, int64_t until_ns) {
	if (from_ns > queue->wait_from_ns)
		queue->wait_from_ns = from_ns;
	if (until_ns > queue->wait_until_ns)
		queue->wait_until_ns = until_ns;
}

void queue_told_started(struct queue *queue, const struct message *m, pid_t pid) {
	struct told_message *told;

	if (!is_wanted(queue, m->mta) || m->made_s == 0)
		return;
	told = told_make(queue, m->directory, m->id, m->made_s);
	if (told == NULL)
		return;
	told->pid = (uint32_t)pid;
	told->state = TOLD_RUNS;
}

void queue_told_killed(struct queue *queue) {
	if (any_is_wanted(queue))
		wait_for_log(queue, queue->now_ns + SYSLOG_NS, queue->now_ns + KILLED_NS);
}

/* From now on its file is right. */
static void is_over(struct queue *queue, struct told_message *told) {
	queue_told_clear(queue, told);
	told->state = TOLD_OVER;
	told->until_ns = queue->now_ns + LATE_NS;
}

/* What the log says of its run may be read late; without a word there is nothing to know. */
static void is_dead(const struct queue *queue, struct told_message *told) {
	told->state = TOLD_DIED;
	told->until_ns = queue->now_ns + SILENT_NS;
}

void queue_told_read(struct queue *queue, const struct message *m, bool is_orderly) {
	struct told_message *told = find_in(queue, m->directory, m->id);

	if (told == NULL || told->state != TOLD_RUNS)
		return;
	if (is_orderly)
		is_over(queue, told);
	else
		is_dead(queue, told);
}

void queue_told_gone(struct queue *queue, unsigned directory, const char *id) {
	struct told_message *told = find_in(queue, directory, id);

	if (told != NULL && told->state != TOLD_OVER)
		is_over(queue, told);
}

/* --- the journal -------------------------------------------------------------------------- */

void queue_told_restore(struct queue *queue, unsigned directory,
    const struct messages_envelope *envelope) {
	struct span list = { envelope->delivered, envelope->delivered_length }, one;
	int64_t made_s = envelope->arrival_ns / NS_PER_SECOND;
	struct told_message *told;

	if ((envelope->pid == 0 && envelope->delivered_length == 0) ||
	    !is_wanted(queue, queue->directories[directory].mta) || made_s <= 0 ||
	    find_in(queue, directory, envelope->id) != NULL)
		return;
	told = told_make(queue, directory, envelope->id, made_s);
	if (told == NULL)
		return;
	told->pid = envelope->pid;
	is_dead(queue, told);
	told->to = envelope->delivered_length == 0 ? NULL : malloc(envelope->delivered_length);
	if (told->to != NULL) {
		memcpy(told->to, envelope->delivered, envelope->delivered_length);
		told->length = envelope->delivered_length;
		while (queue_told_next(&list, &one))
			queue_told_publish(queue, told, one);
	}
	if (queue->now_ns - queue->opened_ns < START_NS)
		wait_for_log(queue, queue->opened_ns, queue->now_ns + START_NS);
}

void queue_told_envelope(const struct queue *queue, const struct message *m,
    struct messages_envelope *out) {
	const struct told_message *told = find_in(queue, m->directory, m->id);

	if (told == NULL || told->state == TOLD_OVER || told->made_s != m->made_s)
		return;
	out->delivered = told->to;
	out->delivered_length = told->length;
	out->pid = told->state == TOLD_DIED ? told->pid : 0;
}

/* --- time --------------------------------------------------------------------------------- */

bool queue_told_works(const struct queue *queue, unsigned mta) {
	const struct segment *segment = queue->engine->segment;

	return queue->settings.mtas[mta].exactly_once == EXACTLY_ONCE_ENFORCE &&
	    told_has_worked(segment, mta) &&
	    queue->now_ns - told_reached_ns(segment) < SILENCE_NS;
}

bool queue_told_waits(const struct queue *queue) {
	return any_is_wanted(queue) && (queue->wait_until_ns > queue->now_ns ||
	    (queue_journal_is_unread(queue) && queue->now_ns - queue->opened_ns < START_NS));
}

int64_t queue_told_turn(struct queue *queue) {
	struct segment *segment = queue->engine->segment;
	int64_t now_ns = queue->now_ns;
	struct told_line line;
	bool more = false;

	if (!any_is_wanted(queue))
		return INT64_MAX;
	/* of what this role is in its next life it learns more before it judges */
	if (!queue_journal_is_unread(queue) || now_ns - queue->opened_ns >= START_NS) {
		unsigned lines = 0;

		for (; lines < LINES_A_TURN && told_take(segment, &line); lines++)
			queue_told_judge(queue, &line);
		more = !told_is_empty(segment);
		if (!more && told_reached_ns(segment) >= queue->wait_from_ns)
			queue->wait_until_ns = 0;
	}
	if (now_ns >= queue->told_sweep_ns) {
		sweep_told(queue);
		queue->told_sweep_ns = now_ns + NS_PER_SECOND;
	}
	if (more)
		return now_ns;
	if (queue_told_waits(queue))
		return now_ns + WAIT_POLL_NS;
	return queue->told_map.count > 0 ? now_ns + POLL_NS : INT64_MAX;
}

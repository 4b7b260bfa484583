/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What is known of deliveries of messages that are in a run, or were in one that died.
 * MODEL    queue_told.h.  A table by queue id.
 * ERRORS   Without memory, or of too many, nothing is known: mail goes out again.
 * THREADS  One.
 */
#include "engine/queue/queue_told.h"
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
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
	return queue->settings.mtas[mta].driven &&
	    queue->settings.mtas[mta].once != EXACTLY_ONCE_OFF;
}

/* --- the table ------------------------------------------------------------------------- */

static struct told_message **bucket_of(struct queue_told *told, const char *id) {
	uint32_t hash = 2166136261u;

	for (; *id != '\0'; id++)
		hash = (hash ^ (unsigned char)*id) * 16777619u;
	return &told->table[hash % TOLD_HASH];
}

struct told_message *queue_told_find(const struct queue *queue, const char *id) {
	struct told_message *message;

	if (queue->told == NULL)
		return NULL;
	message = *bucket_of(queue->told, id);
	while (message != NULL && strcmp(message->id, id) != 0)
		message = message->next;
	return message;
}

static struct told_message *find_in(const struct queue *queue, unsigned mta,
    unsigned directory, const char *id) {
	struct told_message *message = queue_told_find(queue, id);

	return message != NULL && message->mta == mta && message->directory == directory ?
	    message : NULL;
}

static struct queue_told *told_of(struct queue *queue) {
	if (queue->told == NULL) {
		queue->told = calloc(1, sizeof(*queue->told));
		if (queue->told != NULL)
			queue->told->opened_ns = queue->now_ns;
	}
	return queue->told;
}

/* Found or made, of that file; NULL: no memory, or of another creation that is not over. */
static struct told_message *told_make(struct queue *queue, unsigned mta, unsigned directory,
    const char *id, int64_t made_s) {
	struct queue_told *told = told_of(queue);
	struct told_message *message = told == NULL ? NULL : queue_told_find(queue, id), **at;

	if (message != NULL) {
		if (message->made_s != made_s || message->mta != mta ||
		    message->directory != directory)
			queue_told_clear(queue, message);
	} else {
		if (told == NULL || told->count >= MESSAGES_MOST ||
		    (message = calloc(1, sizeof(*message))) == NULL) {
			engine_count(queue->engine, COUNTER_TOLD_LOST, 1);
			return NULL;
		}
		text_copy(message->id, sizeof(message->id), id, strlen(id));
		at = bucket_of(told, message->id);
		message->next = *at;
		*at = message;
		told->count++;
	}
	message->mta = (uint8_t)mta;
	message->directory = (uint16_t)directory;
	message->made_s = made_s;
	return message;
}

static void told_free(struct told_message *message) {
	free(message->to);
	free(message->pieces);
	free(message);
}

/* What is over for long, and of which nothing is known; all where `all`. */
static void sweep(struct queue_told *told, int64_t now_ns, bool all) {
	for (uint32_t i = 0; i < TOLD_HASH; i++) {
		struct told_message **at = &told->table[i];

		while (*at != NULL) {
			struct told_message *message = *at;

			if (!all && (message->state == TOLD_RUNS || message->until_ns > now_ns ||
			    (message->state == TOLD_DIED && message->length > 0))) {
				at = &message->next;
				continue;
			}
			*at = message->next;
			told_free(message);
			told->count--;
		}
	}
}

void queue_told_close(struct queue *queue) {
	if (queue->told != NULL)
		sweep(queue->told, 0, true);
	free(queue->told);
	queue->told = NULL;
}

/* --- recipients ------------------------------------------------------------------------- */

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

static void wait_for_log(struct queue_told *told, int64_t from_ns, int64_t until_ns) {
	if (from_ns > told->wait_from_ns)
		told->wait_from_ns = from_ns;
	if (until_ns > told->wait_until_ns)
		told->wait_until_ns = until_ns;
}

void queue_told_started(struct queue *queue, uint32_t message, pid_t pid) {
	const struct message *m = &queue->messages[message];
	struct told_message *told;

	if (!is_wanted(queue, m->mta) || m->made_s == 0)
		return;
	told = told_make(queue, m->mta, m->directory, m->id, m->made_s);
	if (told == NULL)
		return;
	told->pid = (uint32_t)pid;
	told->state = TOLD_RUNS;
}

void queue_told_killed(struct queue *queue) {
	if (queue->told != NULL)
		wait_for_log(queue->told, queue->now_ns + SYSLOG_NS, queue->now_ns + KILLED_NS);
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

void queue_told_read(struct queue *queue, uint32_t message, bool is_orderly) {
	const struct message *m = &queue->messages[message];
	struct told_message *told = find_in(queue, m->mta, m->directory, m->id);

	if (told == NULL || told->state != TOLD_RUNS)
		return;
	if (is_orderly)
		is_over(queue, told);
	else
		is_dead(queue, told);
}

void queue_told_gone(struct queue *queue, unsigned mta, unsigned directory, const char *id) {
	struct told_message *told = find_in(queue, mta, directory, id);

	if (told != NULL && told->state != TOLD_OVER)
		is_over(queue, told);
}

/* --- the journal -------------------------------------------------------------------------- */

void queue_told_restore(struct queue *queue, unsigned mta, unsigned directory,
    const struct messages_envelope *envelope) {
	struct span list = { envelope->delivered, envelope->delivered_length }, one;
	int64_t made_s = envelope->arrival_ns / NS_PER_SECOND;
	struct told_message *told;

	if ((envelope->pid == 0 && envelope->delivered_length == 0) || !is_wanted(queue, mta) ||
	    made_s <= 0 ||
	    find_in(queue, mta, directory, envelope->id) != NULL)
		return;
	told = told_make(queue, mta, directory, envelope->id, made_s);
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
	if (queue->now_ns - queue->told->opened_ns < START_NS)
		wait_for_log(queue->told, queue->told->opened_ns, queue->now_ns + START_NS);
}

void queue_told_envelope(const struct queue *queue, uint32_t message,
    struct messages_envelope *out) {
	const struct message *m = &queue->messages[message];
	const struct told_message *told = find_in(queue, m->mta, m->directory, m->id);

	if (told == NULL || told->state == TOLD_OVER || told->made_s != m->made_s)
		return;
	out->delivered = told->to;
	out->delivered_length = told->length;
	out->pid = told->state == TOLD_DIED ? told->pid : 0;
}

/* --- time --------------------------------------------------------------------------------- */

static bool any_is_wanted(const struct queue *queue) {
	for (unsigned i = 0; i < GENERATION_MTAS_MAX; i++)
		if (is_wanted(queue, i))
			return true;
	return false;
}

bool queue_told_works(const struct queue *queue, unsigned mta) {
	const struct segment *segment = queue->engine->segment;

	return queue->settings.mtas[mta].once == EXACTLY_ONCE_ENFORCE &&
	    told_has_worked(segment, mta) &&
	    queue->now_ns - told_reached_ns(segment) < SILENCE_NS;
}

bool queue_told_waits(const struct queue *queue) {
	return queue->told != NULL && (queue->told->wait_until_ns > queue->now_ns ||
	    (queue_journal_is_unread(queue) &&
		queue->now_ns - queue->told->opened_ns < START_NS));
}

int64_t queue_told_turn(struct queue *queue) {
	struct queue_told *told = any_is_wanted(queue) ? told_of(queue) : NULL;
	struct segment *segment = queue->engine->segment;
	int64_t now_ns = queue->now_ns;
	bool more = false;

	if (told == NULL)
		return INT64_MAX;
	/* of what this role is in its next life it learns more before it judges */
	if (!queue_journal_is_unread(queue) || now_ns - told->opened_ns >= START_NS) {
		unsigned lines = 0;

		for (; lines < LINES_A_TURN && told_take(segment, &told->line); lines++)
			queue_told_judge(queue);
		more = !told_is_empty(segment);
		if (!more && told_reached_ns(segment) >= told->wait_from_ns)
			told->wait_until_ns = 0;
	}
	if (now_ns >= told->sweep_ns) {
		sweep(told, now_ns, false);
		told->sweep_ns = now_ns + NS_PER_SECOND;
	}
	if (more)
		return now_ns;
	if (queue_told_waits(queue))
		return now_ns + WAIT_POLL_NS;
	return told->count > 0 ? now_ns + POLL_NS : INT64_MAX;
}

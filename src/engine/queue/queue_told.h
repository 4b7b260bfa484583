/* SPDX-License-Identifier: ISC */
/*
 * Who has got the mail of the driven queue, as Sendmail's log tells it at once, and the queue
 * file only when it is next written.
 *
 * Of each message that is in a run it is known by which process (*pid*).  A line of the log
 * counts if it leaves no doubt (wire/sendmail_sent.h) and is of that message, that process and
 * the message's age at that time.  Then it is written into the journal; and the recipient is
 * known as delivered until the file is written anew by the end of an orderly run, or is gone:
 * from then on the file is right, whatever the log said.  Only what a run leaves that was
 * killed, or could not write its file, is ever used: by the next run (segment/told.h), or by
 * the next life of this role.
 *
 * A line that says otherwise of such a recipient makes all that was told of the message void.
 */
#ifndef ENGINE_QUEUE_TOLD_H
#define ENGINE_QUEUE_TOLD_H

#include "base/plain_recipient.h"
#include "engine/queue/queue_internal.h"
#include "segment/queue/told.h"

enum told_state {
	TOLD_RUNS,	/* in a run of the process */
	TOLD_DIED,	/* that is over, and did not end as it should, as far as is known */
	TOLD_OVER,	/* the file is right: lines that are read late are written down, no more */
};

struct told_message {
	LIST_ENTRY(told_message) of_all;
	char id[QUEUE_ID_MAX + 1];
	uint8_t state;			/* enum told_state */
	uint16_t directory;
	uint32_t pid;
	int64_t made_s;
	int64_t until_ns;		/* OVER, or DIED and nothing is known: it is forgotten then */
	char *to;			/* delivered, and not written down by Sendmail: "A,B" */
	size_t length;
	char *pieces;			/* of a list that goes on */
	size_t pieces_length;
	bool pieces_spoiled;
};

struct queue_told {
	struct map messages;		/* by id */
	LIST_HEAD(, told_message) all;
	int64_t opened_ns;
	int64_t sweep_ns;
	/* No run is started before the feed has read what was in the logs at `wait_from_ns`; 0: it
	 * need not be waited for, nor any longer than that. */
	int64_t wait_from_ns, wait_until_ns;
	struct told_line line;		/* that is judged */
};

/* The next recipient of a list (base/plain_recipient.h). */
static inline bool queue_told_next(struct span *list, struct span *one) {
	const char *at = list->text, *end;

	if (list->length == 0)
		return false;
	end = at + list->length;
	if (!plain_recipient_take(&at, end, &one->text, &one->length))
		return false;
	*list = (struct span){ at, (size_t)(end - at) };
	return true;
}

/* NULL: nothing is known of it. */
struct told_message *queue_told_find(const struct queue *queue, const char *id);
/* Is this recipient among them?  As in a list, without < >. */
bool queue_told_has(const struct told_message *message, struct span recipient);
/* Nothing of it is known as delivered any more. */
void queue_told_clear(struct queue *queue, struct told_message *message);
void queue_told_publish(const struct queue *queue, const struct told_message *message,
    struct span recipient);

/* queue_told_lines.c: what the line in queue_told.line says of it. */
void queue_told_judge(struct queue *queue);

#endif

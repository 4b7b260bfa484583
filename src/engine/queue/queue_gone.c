/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Messages whose files are there no more, or cannot be used.
 * THREADS  One.
 */
#include "engine/queue/queue_internal.h"

/* What ran was delivered, or bounced: by somebody who answers there, if there was a connection
 * to it. */
static void note_gone(struct queue *queue, const struct message *m, int64_t now_ns) {
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
			p->dest->good_ns = now_ns;
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
		note_gone(queue, m, now_ns);
	}
	queue_journal_finish(queue, directory, id);
	queue_forget_message(queue, m);
}

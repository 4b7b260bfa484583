/* SPDX-License-Identifier: ISC */
/* What the files of the driven queue's journal share. */
#ifndef ENGINE_QUEUE_JOURNAL_INTERNAL_H
#define ENGINE_QUEUE_JOURNAL_INTERNAL_H

#include "engine/journal/journal_status.h"
#include "engine/queue/queue_internal.h"
#include "engine/queue/queue_journal.h"
#include "journal/queue/messages.h"
#include "journal/storage.h"

/* Of more domains the file is read again; so an envelope is small. */
#define QUEUE_JOURNAL_GROUPS	512u

struct queue_journal {
	struct queue *queue;
	struct journal_storage *storage;	/* ours, or NULL */
	struct messages *messages;
	struct journal_told told;
	int64_t wall_ns;		/* to be added to a time of the queue */
	int64_t intervals_ns[MESSAGES_INTERVALS_MAX];
	unsigned intervals;
	bool looked;			/* at all of it since the start: which dests have mail there */
	bool recall;			/* a dest has come back since the last look began */
	bool returned;			/* and mail for one may stand there with a time of its own */
	struct messages_walk *walk;	/* a look goes on; or NULL */
	int64_t look_began_ns;
	int64_t look_again_ns;		/* no further one before that */
	int64_t look_anyway_ns;		/* one then, whatever is known */
	bool scans;			/* all directories are looked through */
	uint32_t renewing;		/* messages from that on are to be written anew; NONE */
	uint32_t swept;			/* messages that wait for long: looked at up to there, */
	int64_t sweep_ns;		/* and further then */
};

/* --- queue_journal.c ----------------------------------------------------------------- */

static inline int64_t queue_journal_now(const struct queue_journal *j) {
	return j->queue->now_ns + j->wall_ns;
}
/* Of a message in the journal. */
static inline uint64_t queue_journal_key(const struct queue_journal *j, unsigned directory,
    const char *id) {
	return messages_key(j->queue->directories[directory].mta_name,
	    j->queue->directories[directory].path, id);
}
/* Writes it as it is in memory; not `held`: there is no room for it. */
bool queue_journal_put(struct queue_journal *j, const struct message *message, bool held);
/* Some of memory is looked at: what is not due soon leaves it. */
void queue_journal_sweep(struct queue_journal *j);

/* --- queue_journal_load.c -------------------------------------------------------------- */

/* NONE: it is driven no more. */
uint32_t queue_journal_directory(const struct queue_journal *j, const char *mta,
    const char *path);
/* Fills memory with what is due, as far as there is room; returns when to come again. */
int64_t queue_journal_load(struct queue_journal *j);
/* A step of the look that goes on: what waits for a dest that is back is loaded, or written
 * again as due; and where mail waits is noted.  False: that was all. */
bool queue_journal_look_on(struct queue_journal *j);
/* messages_calls.recovered */
void queue_journal_recovered(void *context, const struct messages_envelope *envelope);

#endif

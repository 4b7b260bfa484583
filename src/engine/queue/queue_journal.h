/* SPDX-License-Identifier: ISC */
/*
 * The journal of the driven queue (DESIGN section 10; journal/queue/messages.h).
 *
 * Each queue file that was read is an envelope there.  Memory has what is due soon: a message
 * of which nothing may go before the shortest retry interval is there alone, and a runner
 * brings it when it is due; so is what finds no room, until there is.  A role that starts has
 * its queue back without reading a file of it.  A scan of the directories then tells what has
 * come, changed or gone meanwhile: Sendmail's queue is right, always.
 *
 * Without a journal, or while its disk fails, all is as engine/queue/queue.h says: what finds no
 * room is refused, and offered again.
 *
 * In the queue's thread.  Times of the journal are of the wall clock, those of the queue of
 * base/clock.h: the role tells how far they are apart.
 */
#ifndef ENGINE_QUEUE_JOURNAL_H
#define ENGINE_QUEUE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "engine/queue/queue.h"

struct journal_listener;
struct journal_storage;

struct queue_journal_setup {
	const char *path;			/* of its directory */
	const struct journal_storage *storage;	/* tests: instead of it; outlives the queue */
	uint64_t file_size;			/* journal.* */
	int64_t sync_delay_ns, envelope_delay_ns;
	bool threaded;				/* syncs are done in a thread of its own */
};

/* After queue_open, before anything else.  0, or -1 with *diag: the queue has none then, and
 * works on. */
int queue_journal_open(struct queue *queue, const struct queue_journal_setup *setup,
    int64_t now_ns, int64_t wall_ns, struct diag *diag);

/* What the wall clock says at now_ns: now and then, as somebody may set it. */
void queue_journal_wall(struct queue *queue, int64_t now_ns, int64_t wall_ns);

/* Readable when a sync is over: queue_turn is to be called; -1: no such thing. */
int queue_journal_fd(const struct queue *queue);

/* May a scan of the directories begin?  Not before it is known what the journal has. */
bool queue_scan_may_begin(const struct queue *queue);
/* All directories are looked through: queue_scan_found is asked about each file that is found. */
void queue_scan_begin(struct queue *queue);
/* `whole`: nothing was left out.  What was not found is asked for by queue_calls.read. */
void queue_scan_end(struct queue *queue, bool whole);

/* --- to look at ------------------------------------------------------------------ */

/* So many messages are there and in no memory: they come when they are due. */
uint64_t queue_journal_waiting(const struct queue *queue);

/* What waits there and not in memory, in pieces.  What moves while it is listed may come
 * twice.  `sums_up`: for queue_each_destination, which adds it up, else rows.  NULL: there is
 * nothing, or no memory.  The list is closed before the queue. */
struct queue_journal_list;
struct queue_journal_list *queue_journal_list_open(struct queue *queue, bool sums_up);
/* `each` as of queue_each, in the order of the journal; not called for sums.  False: that was
 * all. */
bool queue_journal_list_step(struct queue_journal_list *list, int64_t now_ns,
    bool (*each)(void *context, const struct queue_row *row), void *context);
/* Something was left out: no memory, too many destinations, or another configuration. */
bool queue_journal_list_is_cut(const struct queue_journal_list *list);
void queue_journal_list_close(struct queue_journal_list **list);

/* How it fares, to the segment and who listens (engine/journal/journal_status.h): each second. */
void queue_journal_tell(struct queue *queue, const struct journal_listener *listener,
    int64_t now_ns);

#endif

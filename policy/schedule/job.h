/* SPDX-License-Identifier: ISC */
/*
 * Which mail is delivered next: the preemptive scheduler (DESIGN section 9;
 * contrib/documents.md).  Transports in turn; within one,
 * jobs first come, first served, but small ones slip past big ones in slots that the big
 * ones save up; within a job, destinations in turn.  The choices are those of Postfix's
 * qmgr, to the entry; their cost does not grow with the number of jobs.
 *
 *	transport	what shares one kind of delivery: parameters, jobs, queues
 *	queue		a destination within a transport: its window, what waits and runs
 *	message		mail, with recipients in memory and perhaps more of them unread
 *	job		a message within a transport
 *	peer		a job's part for one queue: so many entries
 *	entry		up to destination_recipient_limit recipients of one peer
 *	blocker		a job all of whose queues are full; left out until one has a place
 *
 * Nobody is known by name here: the caller gives each message, queue and transport a number
 * (a word of its own), and gets an index.  Recipients are counted, not kept.  How many may
 * be in memory: policy/schedule/pool.h.  What is still unread counts by estimates that are on the
 * safe side: a job has at least the entries in memory, and at most one more for each
 * recipient of its message that is unread.
 *
 * Pure: time is an argument (ns; ages count in whole seconds), all state lies in memory that
 * the caller gives, without pointers.  The caller serialises calls on one board.
 */
#ifndef POLICY_JOB_H
#define POLICY_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/schedule/job_settings.h"

#define JOB_NONE	UINT32_MAX	/* no such index; or the table is full */
#define JOB_UNREAD_MAYBE UINT32_MAX	/* none that is counted, but the end was not seen: so qmgr
					 * has it when it has read just as many as it may */

/* How much fits in: at most 2^26 of each. */
struct job_capacity {
	uint32_t transports;
	uint32_t queues;
	uint32_t messages;
	uint32_t jobs;			/* messages x transports that they use */
	uint32_t peers;			/* jobs x destinations that they use */
};

struct job_board;

/* Memory for so much: aligned as for malloc, all zeros (untouched pages stay so). */
size_t job_board_bytes(const struct job_capacity *capacity);
struct job_board *job_board_begin(void *memory, const struct job_capacity *capacity,
    const struct pool_settings *pool);

/* --- transports and queues ---------------------------------------------------- */

/* The one that was opened last has the first turn, as in qmgr.  JOB_NONE: full. */
uint32_t job_transport_open(struct job_board *board, const struct job_settings *settings,
    uint64_t word);
/* Other parameters.  Where recipient_limit is less than before, slots that are given out come
 * back as their recipients are done. */
void job_transport_adjust(struct job_board *board, uint32_t transport,
    const struct job_settings *settings);

uint32_t job_queue_open(struct job_board *board, uint32_t transport, uint32_t window,
    uint64_t word);
/* False: something still waits or runs there. */
bool job_queue_close(struct job_board *board, uint32_t queue);
/* How many entries may run there at once; 0: suspended, what waits stays. */
void job_queue_window(struct job_board *board, uint32_t queue, uint32_t window);

/* --- messages and their recipients -------------------------------------------- */

/* `queued_ns`: since when it waits; its place in the order (of the same second: behind those
 * that are there), and its age.  JOB_NONE: full, or message_active_limit is reached, or no recipient
 * of it could be read now: try again when others are closed. */
uint32_t job_message_open(struct job_board *board, uint64_t word, int64_t queued_ns);

/* Recipients come in batches: begin, add for each destination, end.  `unread`: how many may
 * be left to read after this batch, at most; 0: all are read (JOB_UNREAD_MAYBE).  How many:
 * policy/schedule/pool.h.  qmgr adds them sorted by the names of transport, queue and recipient. */
void job_batch_begin(struct job_board *board, uint32_t message, uint32_t unread, int64_t now_ns);
/* False: full; nothing was added. */
bool job_batch_add(struct job_board *board, uint32_t message, uint32_t queue,
    uint32_t recipients);
/* Ends the batch.  False: nothing of the message waits or runs, and all is read: close it. */
bool job_batch_end(struct job_board *board, uint32_t message);

/* Takes waiting recipients out, of one queue or (JOB_NONE) of all: they are deferred without
 * an attempt, or the message has changed.  How many.  What runs is not touched.  Where nothing is
 * left in memory, but some unread: close it, or read pool_room(). */
uint32_t job_withdraw(struct job_board *board, uint32_t message, uint32_t queue);
/* The same for so many recipients of one queue. */
uint32_t job_withdraw_recipients(struct job_board *board, uint32_t message, uint32_t queue,
    uint32_t recipients);

/* Withdraws all and forgets the message; at once, or with the last of what runs. */
void job_message_close(struct job_board *board, uint32_t message);

/* --- what is next ---------------------------------------------------------------- */

/* Entries that were taken to be delivered; the caller keeps it until they are done. */
struct job_taken {
	uint32_t message;
	uint32_t queue;
	uint32_t peer;			/* inner index */
	uint32_t entries;		/* 1 by job_next */
	uint32_t recipients;
	uint32_t places;		/* of the queue's window and of the processes: 1, or 0 for
					 * what goes along with another entry */
};

/* Asks for more recipients: at most `most` (>= 1) more of `message`.  Either adds a batch
 * (job_batch_begin ... end) before it returns, and no call else on the board; or notes that a batch
 * shall be read, and adds it later: the message is asked for once until then. */
typedef void job_read_fn(void *context, uint32_t message, uint32_t most);
struct job_reader {
	job_read_fn *read;		/* NULL: nothing is read now */
	void *context;
};

/* Takes the next entry of the transport, or (JOB_NONE) of the transport whose turn it is.
 * False: nothing can be delivered now. */
bool job_next(struct job_board *board, uint32_t transport, const struct job_reader *reader,
    int64_t now_ns, struct job_taken *out);

/* Takes up to `entries` waiting entries of one peer, whether it is its turn or not, as so many
 * selections; the window is the caller's business.  places: 1, or 0: they go along
 * with an entry that has a place.  False: nothing waits there. */
bool job_take(struct job_board *board, uint32_t message, uint32_t queue, uint32_t entries,
    uint32_t places, struct job_taken *out);

/* Of the recipients that wait there, so many, and the entries by which there are fewer then (where
 * an entry has several recipients perhaps none): what is delivered together though it fills no
 * entries.  As job_take else. */
bool job_take_recipients(struct job_board *board, uint32_t message, uint32_t queue,
    uint32_t recipients, uint32_t places, struct job_taken *out);

/* What is left when entries are done. */
enum job_left {
	JOB_LEFT_SOME,		/* more of the message waits or runs, or was asked for */
	JOB_LEFT_UNREAD,	/* none in memory, but some unread: read pool_room() of them now */
	JOB_LEFT_NONE,		/* close the message, or add what shall be tried again */
	JOB_LEFT_CLOSED		/* it was closed before, and is gone now */
};
/* The taken entries are done: delivered, bounced or deferred.  Gives back their places.  A
 * part may be told: fewer entries, recipients, places than were taken. */
enum job_left job_done(struct job_board *board, const struct job_taken *taken);

/* They were not tried after all: they wait again, first of their peer, as if never taken. */
void job_put_back(struct job_board *board, const struct job_taken *taken);

/* --- what would be next ------------------------------------------------------------ */

struct job_would {
	uint32_t message, queue;	/* of the entry */
	uint32_t candidate;	/* message that may preempt the current one; JOB_NONE: none */
	bool preempts;		/* and it does: the entry is its own */
};
/* As job_next, but changes nothing (and reads nothing).  False: none. */
bool job_peek(struct job_board *board, uint32_t transport, int64_t now_ns,
    struct job_would *out);

/* --- looking ------------------------------------------------------------------------ */

struct job_view {
	uint32_t message;
	uint32_t transport;
	uint64_t word;			/* the message's */
	int64_t queued_ns;		/* whole seconds */
	uint32_t waiting_entries;
	uint32_t waiting_recipients;
	uint32_t running_entries;
	uint32_t least_entries;		/* in all, taken ones too, as far as can be told */
	uint32_t most_entries;
	uint32_t unread;		/* recipients of the message, at most */
	int32_t slots;			/* saved, times delivery_slot_cost */
	uint32_t level;			/* how deep it stands on the preemption stack; 0: not */
	uint32_t parent;		/* message whose job it has preempted; JOB_NONE: none */
	bool listed;			/* false: all is taken, or more must be read first */
	bool current;
	bool blocker;			/* was found blocked, and nothing has changed since */
	uint32_t in_core;		/* recipients in memory, waiting or running */
	int32_t recipient_slots;	/* given to it (policy/schedule/pool.h) */
	bool reading;			/* a batch was asked for, and has not come */
};
/* False: the message has no job in that transport. */
bool job_view(const struct job_board *board, uint32_t message, uint32_t transport,
    struct job_view *out);

/* Jobs in the scheduler's order, by message; JOB_NONE: the end.  `message` JOB_NONE: the
 * first. */
uint32_t job_list_next(const struct job_board *board, uint32_t transport, uint32_t message);

/* What waits at one destination, in the scheduler's order; also for runs that carry several
 * messages.  `message` JOB_NONE: the first. */
uint32_t job_waiting_next(const struct job_board *board, uint32_t queue, uint32_t message);
struct job_queue_view {
	uint32_t transport;
	uint64_t word;
	uint32_t window;
	uint32_t busy;			/* places taken */
	uint32_t waiting_jobs, waiting_entries, waiting_recipients;
	uint32_t running_entries, running_recipients;
};
void job_queue_view(const struct job_board *board, uint32_t queue, struct job_queue_view *out);

uint64_t job_message_word(const struct job_board *board, uint32_t message);
uint64_t job_queue_word(const struct job_board *board, uint32_t queue);

#endif

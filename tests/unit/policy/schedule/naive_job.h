/* SPDX-License-Identifier: ISC */
/*
 * The preemptive scheduler once more, as simple as can be: lists that are walked, entries that
 * are kept one by one, marks on each job.  What policy/schedule/job.h must choose the same as.
 * Small numbers only; indices are those of policy/schedule/job.h.
 */
#ifndef TESTS_UNIT_NAIVE_JOB_H
#define TESTS_UNIT_NAIVE_JOB_H

#include "policy/schedule/job.h"

#define NAIVE_MESSAGES	400
#define NAIVE_QUEUES	40
#define NAIVE_TRANSPORTS 3
#define NAIVE_ENTRIES	400
#define NAIVE_JOBS	(NAIVE_MESSAGES * NAIVE_TRANSPORTS)	/* message x 3 + transport */
#define NONE		(-1)

struct naive_list {
	int count;
	int item[NAIVE_JOBS];
};

struct naive_peer {
	int queue;
	int waiting;			/* entries, and what is in each */
	int recipients[NAIVE_ENTRIES];
	int running;
};

struct naive_job {
	bool exists;
	int message, transport;
	int parent, level, tag;
	int used, available, selected, read, in_core, slots;
	int peers;			/* in turn */
	struct naive_peer peer[NAIVE_QUEUES];
};

struct naive_message {
	bool more, reading;
	int64_t queued_s, refill_s;
	int unread, in_core, slots, entries, promised;
	struct naive_list jobs;
};

struct naive_queue {
	int transport, window, busy, waiting, tag;
};

struct naive_transport {
	struct job_settings settings;
	int busy, current, next_unread, cache, cache_current, tag, unused;
	int64_t cache_s;
	struct naive_list list, by_time;
};

struct naive {
	struct pool_settings pool;
	int in_core, transports, turn;
	struct naive_transport transport[NAIVE_TRANSPORTS];
	struct naive_queue queue[NAIVE_QUEUES];
	struct naive_message message[NAIVE_MESSAGES];
	struct naive_job job[NAIVE_JOBS];
};

struct naive_taken {
	int job, queue, entries, recipients, places;
};
typedef void naive_read_fn(void *context, int message, int most);

static inline int naive_job_of(int message, int transport) {
	return message * NAIVE_TRANSPORTS + transport;
}
void naive_begin(struct naive *naive, const struct pool_settings *pool);
void naive_transport(struct naive *naive, int transport, const struct job_settings *settings);
/* False: it has to wait. */
bool naive_message(struct naive *naive, int message, int64_t queued_s);
void naive_batch_begin(struct naive *naive, int message, int unread, int64_t now_s);
void naive_batch_add(struct naive *naive, int message, int queue, int recipients);
void naive_batch_end(struct naive *naive, int message);
void naive_withdraw(struct naive *naive, int message, int queue);
void naive_close(struct naive *naive, int message);
void naive_window(struct naive *naive, int queue, int window);
/* transport NONE: by turns */
bool naive_next(struct naive *naive, int transport, naive_read_fn *read, void *context,
    int64_t now_s, struct naive_taken *out);
bool naive_take(struct naive *naive, int message, int queue, int entries, int places,
    struct naive_taken *out);
/* Entries of the message that are left, or 1 that are to come. */
int naive_done(struct naive *naive, const struct naive_taken *taken);
void naive_put_back(struct naive *naive, const struct naive_taken *taken);
int naive_room(const struct naive *naive, int message);
/* Sets the message's first read limit. */
int naive_first(const struct naive *naive, int message);
bool naive_is_blocker(const struct naive *naive, int job);
bool naive_has_children(const struct naive *naive, int job);

#endif

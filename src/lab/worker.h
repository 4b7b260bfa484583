/* SPDX-License-Identifier: ISC */
/*
 * Which worker a job goes to (contrib/documents.md): the allocator of the notes on an MTA
 * scheduler.  Which job is next is policy/job's business.  In delivery a worker is a connection, a job the recipients of one
 * message that go to the same place.  Jobs queue on connections.
 *
 * worker_place chooses by these rules, in this order:
 *	of the first list of destinations one of which works:
 *	recent	  the most recently made connection that has fewer jobs than the backlog
 *	idle	  the message is allowed a new worker: the most recent idle connection
 *	unused	  else a connection to one at random that was not used of late
 *	closed	  else to the one whose last connection was made first
 *	retry	  else to one at random that is broken and whose retry time has passed
 *	one-more  else to one at random of those with the fewest connections
 *	ride	  the message is not allowed a new worker: the most recent connection that has
 *		  fewer jobs than the newest, else the newest; above its maximum, too
 *	crowded	  the same, as no worker is free and no idle connection can be closed
 *	full	  the same, as all destinations have their limit of connections
 *	wait	  none of these three, as there is no active connection
 *	defer	  no destination of any list works
 *
 * What the notes leave open: a message's concurrency is the number of workers that its
 * jobs are on; an idle connection's worker is free; of idle connections the one that has
 * been idle longest is closed for a new one.  A connection past its age takes no new jobs
 * and closes when it has none.  A destination that refused a connection gets no other
 * before its retry time, but what is open there is used.
 *
 * Time (ns of one clock) and random bits are arguments.  One thread.
 */
#ifndef LAB_WORKER_H
#define LAB_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/map.h"

#define WORKER_NONE		UINT32_MAX
/* The pseudo-message of all verification probes; real messages are 1 and up. */
#define WORKER_VERIFICATION	0u

struct worker_settings {
	uint32_t max_message_concurrency;	/* workers a message may have in any case, 5 */
	uint32_t scale_max_concurrency;		/* and as many times the free ones, 10 */
	uint32_t verify_max_concurrency;	/* the same for the pseudo-message, 2 */
	uint32_t verify_scale_concurrency;	/* 1 */
	uint32_t backlog;		/* jobs on a connection: it takes no further, 10 */
	uint32_t destination_limit;	/* connections to one destination, 20; 0: no limit */
	int64_t active_age_ns;		/* a connection takes no jobs from then on, 300 s */
	int64_t idle_age_ns;		/* an idle one closes, 10 s; 0, both: never */
	int64_t closed_keep_ns;		/* closed connections are forgotten, 3600 s */
	int64_t retry_keep_ns;		/* so long after their time retries are, 3600 s */
};
extern const struct worker_settings worker_defaults;

/* May a message that has so many workers have one more (policy/schedule/concurrency.h)?
 * verification: by the pseudo-message's settings. */
bool worker_allowed(const struct worker_settings *settings, bool verification,
    uint32_t concurrency, uint32_t free_workers);

/* The notes' next_router_job, for workers that are all equal: the first of jobs[0, count),
 * each the number of a message, whose message is allowed a new worker; `concurrency' is
 * that of each message.  WORKER_NONE: none is, or no worker is free. */
uint32_t worker_next_router_job(const struct worker_settings *settings,
    const uint32_t *jobs, uint32_t count, const uint32_t *concurrency,
    uint32_t free_workers);

/* --- connections and destinations ---------------------------------------------------- */

/* A job is the caller's, which sets its message. */
struct worker_job {
	uint32_t message;
	struct worker_connection *connection;	/* NULL: on none */
	TAILQ_ENTRY(worker_job) of_list;	/* of its connection, or of those that are lost */
};
TAILQ_HEAD(worker_jobs, worker_job);

struct worker_connection {
	uint64_t order;		/* they were made in this order */
	int64_t opened_ns;
	int64_t idle_ns;	/* no jobs since */
	struct worker_jobs jobs;	/* the first one is being done */
	uint32_t job_count;
	struct worker_destination *destination;	/* NULL: no connection */
	bool past_age;
	bool made;		/* worker_connected was told */
	uint32_t done;		/* jobs */
	TAILQ_ENTRY(worker_connection) of_age;	/* in aged or no_connection */
	TAILQ_ENTRY(worker_connection) of_idle;
	LIST_ENTRY(worker_connection) of_destination;
};
TAILQ_HEAD(worker_connections, worker_connection);

/* Zeros: nothing is known of it. */
struct worker_destination {
	uint64_t order;		/* of the last connection */
	int64_t closed_ns;	/* when that was closed */
	int64_t retry_ns;	/* not to be tried before; 0: not broken */
	LIST_HEAD(, worker_connection) connections;	/* newest first */
	uint32_t connection_count;
};

struct worker_sizes {
	uint32_t workers;	/* connections at most; 1 at least */
	uint32_t messages;	/* their numbers are below; 1 at least */
	uint32_t destinations;	/* the same */
};

struct workers {
	struct worker_settings settings;
	struct worker_sizes sizes;
	struct worker_connection *connections;
	struct worker_destination *destinations;
	uint32_t *concurrency;			/* workers of each message */
	struct map pairs;			/* jobs of one message on one connection */
	struct worker_connections no_connection;
	struct worker_connections aged;		/* open and not past age, oldest first */
	struct worker_connections idle;		/* idle longest first */
	uint32_t open, idle_count;		/* connections */
	uint64_t order;
};

struct workers *worker_open(const struct worker_sizes *sizes,
    const struct worker_settings *settings);
void worker_free(struct workers *workers);

enum worker_rule {
	WORKER_RECENT, WORKER_IDLE, WORKER_UNUSED, WORKER_CLOSED, WORKER_RETRY,
	WORKER_ONE_MORE, WORKER_RIDE, WORKER_CROWDED, WORKER_FULL, WORKER_WAIT, WORKER_DEFER,
	WORKER_RULE_COUNT
};
/* "recent", "idle", ... as above */
const char *worker_rule_word(enum worker_rule rule);

struct worker_request {
	const uint32_t *destinations;	/* numbers, primary first */
	const uint32_t *lists;		/* how many are primary, secondary ... */
	uint32_t list_count;
};

struct worker_place {
	enum worker_rule rule;
	uint32_t list;		/* 0: primary ...; WAIT: the one it waits for */
	struct worker_job *job;	/* NULL: WAIT or DEFER, and nothing of what follows */
	uint32_t connection;
	uint32_t destination;
	bool opened;		/* a new connection, which the caller makes */
	uint32_t closed;	/* the idle connection that it closes first, WORKER_NONE: none
				 * (its number may be the new connection's) */
};

/* Which connection the job goes to.  WAIT: to be asked again when a worker has become free, a
 * connection to one of its destinations was opened, became active again or was closed, or a
 * retry time has come.  The cost grows with the connections that its destinations have. */
void worker_place(struct workers *workers, struct worker_job *job,
    const struct worker_request *request, int64_t now_ns, uint64_t random,
    struct worker_place *out);

/* A job has ended, in whatever order.  True: its connection, which was past its age, has
 * none left and is to be closed now; it is no worker's any more. */
bool worker_done(struct workers *workers, struct worker_job *job, int64_t now_ns);

/* The connection was made. */
void worker_connected(struct workers *workers, uint32_t connection);

/* It could not be made (retry_ns: not to be tried before), or was closed by the remote
 * (retry_ns 0, or a time where that counts as broken).  Its jobs, which are to be rescheduled,
 * come behind those that are lost already. */
void worker_lost(struct workers *workers, uint32_t connection, int64_t retry_ns,
    int64_t now_ns, struct worker_jobs *lost);

/* Ageing.  The next connection that is to be closed now, as it is idle for too long or idle
 * and too old; it is no worker's any more.  Call until WORKER_NONE, at worker_due_ns. */
uint32_t worker_turn(struct workers *workers, int64_t now_ns);
int64_t worker_due_ns(const struct workers *workers);	/* INT64_MAX: nothing */

/* Workers without a job: idle, or without a connection. */
static inline uint32_t worker_idle_count(const struct workers *workers) {
	return workers->sizes.workers - workers->open + workers->idle_count;
}

/* --- between the allocator's files ------------------------------------------------------- */

static inline uint64_t worker_pair_hash(const struct workers *workers, uint32_t message,
    const struct worker_connection *connection) {
	return ((uint64_t)message << 32 | (uint64_t)(connection - workers->connections)) *
	    UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

/* What is known of it is too old to count. */
bool worker_is_stale(const struct workers *workers, const struct worker_destination *destination,
    int64_t now_ns);

/* A job of the message is on the connection: counts its workers. */
void worker_pair_add(struct workers *workers, uint32_t message,
    const struct worker_connection *connection);

/* What is known of its destination stays.  It must have no jobs. */
void worker_close(struct workers *workers, struct worker_connection *connection,
    int64_t now_ns);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * A connection to a Redis server, such that whatever is at its other end can cost no more than
 * the connection: answers are bounded in bytes, values and depth, nothing is believed that was
 * not asked for, a flood ends it.
 *
 * One event loop, one thread.  Handlers are called from the loop, never from within a call
 * of a function below.
 */
#ifndef FRONT_CLUSTER_REDIS_H
#define FRONT_CLUSTER_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "segment/file/layout.h"
#include "wire/cluster/redis_value.h"

struct event_base;
struct redis;

#define REDIS_AT_ONCE	64	/* commands that wait for their answer */

/* The answer of a command, valid during the call; NULL: the connection ended, and whether
 * the command was carried out is not known. */
typedef void redis_answer_fn(void *context, const struct redis_value *answer);

struct redis_handlers {
	/* It stands: commands can be sent. */
	void (*opened)(void *context);
	/* It is over, or could not be had: all answers that were due have come as NULL.
	 * `error` is an enum cluster_error; `text` is valid during the call, and may hold what
	 * the server said. */
	void (*ended)(void *context, enum cluster_error error, const char *text);
	/* A message of a channel that was subscribed to. */
	void (*message)(void *context, const char *text, size_t length);
	/* The channel is subscribed to; may be NULL, as may message. */
	void (*subscribed)(void *context);
};

/* Without a connection.  0, or -1 with *diag.  `handlers` and `context` stay. */
int redis_new(struct redis **redis, struct event_base *base,
    const struct redis_handlers *handlers, void *context, struct diag *diag);
void redis_free(struct redis **redis);

/* Begins to connect to "unix:/path", "inet:address:port" or "inet6:[address]:port", which
 * the configuration has checked; opened or ended follows.  Not while there is a connection. */
void redis_connect(struct redis *redis, const char *address);

/* Ends the connection: ended follows, with this error and text.  Nothing where there is none. */
void redis_drop(struct redis *redis, enum cluster_error error, const char *text);

/* Sends a command; its answer comes by `answer`.  False: there is no connection, or too much
 * waits already. */
bool redis_command(struct redis *redis, const struct span *words, size_t count,
    redis_answer_fn *answer, void *context);

/* Messages of the channel come from now on, and no other command can be sent.  False as
 * above.  The text must outlive the connection. */
bool redis_subscribe(struct redis *redis, const char *channel);

/* Is something waited for, the connection or an answer, without a sign of life for so long? */
bool redis_is_silent(const struct redis *redis, int64_t patience_ns, int64_t now_ns);

#endif

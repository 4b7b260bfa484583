/* SPDX-License-Identifier: ISC */
/*
 * The life of the connections to the Redis of a cluster: connect, say who we are, load the
 * scripts, run them, hear a channel; and again after whatever goes wrong, later each time.
 * What the scripts do is for whoever calls (cluster.c).
 *
 * One event loop, one thread; handlers are called from the loop.
 */
#ifndef FRONT_CLUSTER_SERVER_H
#define FRONT_CLUSTER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "front/cluster/script.h"
#include "segment/file/layout.h"
#include "wire/cluster/redis_value.h"

struct event_base;
struct server;

#define SERVER_SHA_BYTES	41	/* with its NUL */

/* Texts stay as long as the server does. */
struct server_setup {
	const char *address;		/* of the configuration */
	const char *user;		/* "": the default one */
	const char *password;		/* any bytes */
	size_t password_length;		/* 0: none is sent */
	const char *channel;		/* to hear, prefix and all */
	int64_t patience_ns;		/* an answer that takes longer is none */
};

struct server_handlers {
	/* Scripts can be run. */
	void (*ready)(void *context);
	/* They cannot, until ready is called again, which is tried at next_ns.  `text` is what
	 * went wrong: printable ASCII, for people. */
	void (*lost)(void *context, enum cluster_error error, const char *text, int64_t next_ns);
	/* The channel is heard (true), or no more; why not was told by `deaf`. */
	void (*hears)(void *context, bool hears);
	void (*deaf)(void *context, enum cluster_error error, const char *text);
	void (*news)(void *context, const char *text, size_t length);
};

/* What a script answered to the run of this tag; NULL: none will come, the server is lost or will be at once. */
typedef void server_answer_fn(void *context, uint64_t tag, const struct redis_value *answer);

/* 0, or -1 with *diag.  Nothing is connected before server_turn. */
int server_open(struct server **server, struct event_base *base,
    const struct server_setup *setup, const struct server_handlers *handlers, void *context,
    struct diag *diag);
void server_close(struct server **server);

/* Every 100 ms: connects when it is time, gives up on answers that take too long. */
void server_turn(struct server *server, int64_t now_ns);

/* May scripts be run now? */
bool server_is_ready(const struct server *server);

/* By what a script is called; only while it is ready. */
const char *server_sha(const struct server *server, enum cluster_script script);

/* Runs a script: `words` is the whole command, "EVALSHA" and server_sha first.  All is
 * copied.  A server that has lost its scripts is given them again, and the command is sent once
 * more.  False: not now (not ready, or too much waits). */
bool server_run(struct server *server, enum cluster_script script,
    const struct span *words, size_t count, server_answer_fn *answer, void *context,
    uint64_t tag);

/* Gives the connection up: lost follows.  The longer `least_ns`, the later it is tried again. */
void server_drop(struct server *server, enum cluster_error error, const char *text,
    int64_t least_ns);

/* It does what it is for: after the next failure it is tried again soon. */
void server_works(struct server *server);

/* Which kind of error the text of an error answer is ("NOPERM ..."). */
enum cluster_error server_error_of(const char *text, size_t length);

/* WRONGTYPE of a script on records of destinations, for people: `what` failed.  Redis does not
 * say which of its keys it met: one of those of all, or that of `name` (NULL: of none). */
void server_say_foreign(const char *prefix, const char *what, const char *name, char *text,
    size_t size);

/* Commands that were sent in its life. */
uint64_t server_commands(const struct server *server);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * The connections of a front end: accepts them on its listening sockets, which several
 * processes may share, closes those that keep it waiting, and one that can be spared where there
 * are too many (policy.connections).  One event loop, one thread.
 */
#ifndef FRONT_SERVICE_H
#define FRONT_SERVICE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "front/serve/stream.h"

struct engine;
struct service;

struct service_calls {
	const char *name;	/* the front end's in the log */
	size_t size;		/* of a connection: a struct that begins with its struct stream */
	/* A new one, zeroed but for its stream; it may end it. */
	void (*begin)(void *context, void *connection);
	/* To be read, or, while a reply waits, written; the argument is the connection. */
	event_callback_fn ready;
	/* It ends: gives back what it has but its stream.  False: it keeps its place until
	 * service_end is called again, as service_close does. */
	bool (*end)(void *connection);
	/* It has kept us waiting for too long, and is closed: for the log.  NULL: no word. */
	void (*stalled)(void *connection);
	int64_t patience_ns;
	bool by_edges;		/* stream_wait_for_edges */
	/* A connection keeps us waiting from its beginning on, and who does so longest can be
	 * spared; else who has never asked anything can (stream_has_asked). */
	bool waits_first;
	uint32_t most;		/* another limit of connections; 0: none */
	/* NULL, or: `most` is the only limit, and of so many and a new one that goes which this
	 * returns. */
	void *(*spare)(const struct stream_list *connections);
};

/* `base`, `engine` and `calls` outlive it.  0, or -1 with *diag. */
int service_open(struct service **service, struct event_base *base, struct engine *engine,
    const struct service_calls *calls, void *context, struct diag *diag);

/* Serves a listening, non-blocking socket, number `listener` of the generation; the service
 * closes it. */
int service_listen(struct service *service, int fd, uint8_t listener, struct diag *diag);

/* All of them, oldest first, by `all`. */
const struct stream_list *service_connections(const struct service *service);
bool service_is_empty(const struct service *service);

/* The connection ends. */
void service_end(void *connection);

/* About once a second: closes those that keep us waiting. */
void service_second(struct service *service, int64_t now_ns);

/* Ends all connections.  NULL is let pass. */
void service_close(struct service **service);

#endif

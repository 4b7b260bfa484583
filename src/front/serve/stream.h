/* SPDX-License-Identifier: ISC */
/*
 * One connection of a front end: replies that the kernel does not take are kept until
 * it does, and the time of whoever keeps us waiting is counted.  One event loop, one
 * thread.
 */
#ifndef FRONT_STREAM_H
#define FRONT_STREAM_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

TAILQ_HEAD(stream_list, stream);

struct service;

struct stream {
	struct event event;
	struct stream_list *waiting;	/* the front end's; oldest first */
	TAILQ_ENTRY(stream) waits;
	int64_t waits_since_ns;		/* 0: not in the list */
	int fd;
	bool writing;			/* waits to send, and reads nothing */
	bool by_edges;			/* stream_wait_for_edges */
	struct service *service;
	TAILQ_ENTRY(stream) all;	/* of the service's */
	uint8_t listener;
	struct stream_list *newcomers;	/* NULL: it has asked something, whole */
	TAILQ_ENTRY(stream) comes;
	char *out;			/* a reply that waits, NULL: none */
	size_t out_length, out_sent;
};

enum outcome { GOES_ON, MUST_CLOSE };

/* Takes `fd` over and calls `ready` with `owner` when it can be read, or, while a reply
 * waits, written.  False: it is closed, and the stream none. */
bool stream_open(struct stream *stream, struct event_base *base, int fd,
    struct stream_list *waiting, event_callback_fn ready, void *owner);

/* From now on `ready` is called to read when something new has come, with EV_CLOSED (too) when
 * that is the end, not as long as something is there: the kernel looks at each connection
 * half as often.  Whoever read less than all, or not the end, calls stream_look_again.
 * Right after stream_open; false: it is closed. */
bool stream_wait_for_edges(struct stream *stream);
enum outcome stream_look_again(struct stream *stream);

/* It stands in `newcomers` from now on, as the last; until stream_has_asked. */
void stream_is_new(struct stream *stream, struct stream_list *newcomers);
void stream_has_asked(struct stream *stream);

/* The owner of the newcomer that can best be spared where there are too many connections:
 * the oldest one of which nothing waits to be read; or NULL. */
void *stream_spare(const struct stream_list *newcomers);

/* The client keeps us waiting from now on, if it did not before; or no longer. */
void stream_wait_begin(struct stream *stream, int64_t now_ns);
void stream_wait_end(struct stream *stream);

/* Sends; what is not taken waits (stream->out), from now on.  Only when none does. */
enum outcome stream_send(struct stream *stream, const char *data, size_t length,
    int64_t now_ns);

/* Goes on with what waits.  All is sent when stream->out is NULL afterwards. */
enum outcome stream_flush(struct stream *stream);

/* The owner of the stream that has waited longest, for `patience_ns` or more; or NULL. */
void *stream_overdue(const struct stream_list *waiting, int64_t now_ns,
    int64_t patience_ns);

/* Will trying again do, after this errno? */
bool stream_is_passing(int error);

void stream_close(struct stream *stream);

#endif

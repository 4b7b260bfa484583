/* SPDX-License-Identifier: ISC */
/*
 * The feed: what the mail servers tell of deliveries and sessions, in their logs as
 * these grow, in datagrams of a syslog daemon, and over the event socket.  It
 * goes to the engine, and nowhere else.  One event loop, one thread.
 */
#ifndef FRONT_FEED_H
#define FRONT_FEED_H

#include <stdint.h>

#include "base/diag.h"
#include "engine/engine.h"
#include "front/feed/log_files.h"

/* A socket that was opened for us: bound datagrams, or a listening stream. */
struct feed_socket {
	int fd;			/* non-blocking; taken over */
	uint8_t listener;	/* number in the generation */
	uint8_t kind;		/* LISTENER_SYSLOG, LISTENER_EVENTS */
};

struct feed_setup {
	/* Files of logs, opened with more rights than ours; whoever made them frees
	 * the rest. */
	struct log_files *logs;
	unsigned log_count;
	const struct feed_socket *sockets;
	unsigned socket_count;
	int mta_fd;		/* for commands on a Postfix (mta_link.h), taken over; or -1 */
};

/* Reads until a log has to be opened by somebody with more rights: returns 0; or
 * -1 with *diag when it cannot go on. */
int feed_run(struct engine *engine, const struct feed_setup *setup, struct diag *diag);

#endif

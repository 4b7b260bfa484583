/* SPDX-License-Identifier: ISC */
/*
 * One line of the event socket (postern-events(5)): what a mail server that has no
 * reader of its own tells of deliveries and sessions.
 *
 *	delivery status=WORD recipient=ADDRESS [KEY=VALUE ...]
 *	start recipient=ADDRESS [KEY=VALUE ...]
 *	open client=ADDRESS client_port=N [KEY=VALUE ...]
 *	close client=ADDRESS client_port=N [KEY=VALUE ...]
 *	log MTA LINE
 *	sync
 *	source NAME [N]
 *
 * Words are separated by single blanks; %XX in a value stands for a byte, blanks
 * and % among them.  An empty line, or one that begins with #, says nothing.
 * Whatever is not of this form is an error with its place and reason, and nothing of
 * the line counts.  Sans I/O; any thread.
 */
#ifndef WIRE_EVENT_LINE_H
#define WIRE_EVENT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/reply/delivery.h"

#define EVENT_LINE_MAX		8192	/* bytes, but for "log": */
#define EVENT_LOG_LINE_MAX	65536
#define EVENT_WHOLE_MAX	(EVENT_LOG_LINE_MAX + 128)	/* "log MTA " before it */
#define EVENT_SOURCE_MAX	64	/* bytes of a source's name */

enum event_line_kind {
	EVENT_LINE_NOTHING,
	EVENT_LINE_DELIVERY,
	EVENT_LINE_START,
	EVENT_LINE_OPEN,
	EVENT_LINE_CLOSE,
	EVENT_LINE_LOG,
	EVENT_LINE_SYNC,
	EVENT_LINE_SOURCE,
};

struct event_line {
	enum event_line_kind kind;
	struct span mta;	/* the name of a mail server; empty: not told */
	struct delivery delivery;	/* DELIVERY, START */
	int64_t ended_ms;	/* DELIVERY: when it ended, in ms since 1970; 0: just now */
	/* OPEN, CLOSE: */
	struct address client, server;	/* server: or unknown */
	uint16_t client_port, server_port;	/* server_port: 0: not told */
	struct span name;	/* of the client, verified; or empty */
	struct span text;	/* LOG: the line as it stands in the log; SOURCE: its name */
	uint64_t number;	/* SOURCE: lines of it that were sent already */
};

struct event_error {
	size_t offset;		/* in the line */
	const char *reason;	/* static text */
};

/* Reads a line, without its newline, and decodes its values in place: spans point into
 * it.  False: *error. */
bool event_line_read(char *line, size_t length, struct event_line *out,
    struct event_error *error);

#endif

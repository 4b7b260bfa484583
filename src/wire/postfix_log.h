/* SPDX-License-Identifier: ISC */
/*
 * One line of Postfix's log, sans I/O: which program wrote it, of which message,
 * and, of a delivery, all its fields (log_adhoc.c of Postfix):
 *
 *	[DATE] [HOST] NAME/PROGRAM[PID]: QUEUEID: to=<RECIPIENT>, [orig_to=<ADDRESS>,]
 *	relay=HOST[ADDRESS]:PORT, [conn_use=N,] delay=T, delays=A/B/C/D, dsn=X.Y.Z,
 *	status=WORD (TEXT)
 *
 * Anything may stand in a line: recipients are chosen by senders, TEXT by remote
 * servers.  A recipient is read by the rules of a quoted address; where one that
 * is not quoted, or what follows it, could be read in two ways, the line is
 * broken: nothing is to be learned of it.  (Postfix quotes since 3.5, where
 * info_log_addr_form is not "internal": without quotes a recipient can look like
 * one that an alias led to.)  No state; any thread.
 */
#ifndef WIRE_POSTFIX_LOG_H
#define WIRE_POSTFIX_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "policy/address.h"

/* A piece of the caller's line, not NUL-terminated; may be empty. */
struct log_span {
	const char *text;
	size_t length;
};

enum postfix_line_kind {
	POSTFIX_LINE_FOREIGN,	/* no program's name is found in it */
	POSTFIX_LINE_OTHER,	/* a program's, but none of these: */
	POSTFIX_LINE_DELIVERY,	/* what became of one recipient */
	POSTFIX_LINE_BROKEN,	/* a delivery that is cut, forged or of no known form */
};

enum postfix_status {
	POSTFIX_STATUS_OTHER,
	POSTFIX_STATUS_SENT,
	POSTFIX_STATUS_DEFERRED,	/* SOFTBOUNCE, too */
	POSTFIX_STATUS_BOUNCED,
	POSTFIX_STATUS_EXPIRED,
};

struct postfix_delivery {
	struct log_span recipient;	/* without < >; quotes as written */
	struct log_span domain;		/* of the recipient, or empty */
	struct log_span orig_to;	/* or empty */
	struct log_span relay;		/* all of it: "none", "local", "host[address]:25" */
	struct log_span relay_name;	/* "host", where an address follows; else empty */
	struct address relay_address;	/* or unknown */
	uint16_t relay_port;		/* 0: not told */
	uint32_t conn_use;		/* deliveries of this connection so far, 1 or more */
	int64_t delay_ms;		/* since it arrived */
	int64_t delays_ms[4];		/* before qmgr, in qmgr, connecting, sending */
	uint16_t dsn[3];		/* 0.0.0: not told */
	enum postfix_status status;
	struct log_span status_word;
	struct log_span text;		/* without ( ); of a cut line what is left */
};

struct postfix_line {
	enum postfix_line_kind kind;
	const char *why;		/* BROKEN: static text */
	struct log_span program;	/* "postfix/lane1/smtp" */
	struct log_span daemon;		/* "smtp": its last part */
	uint32_t pid;			/* 0: not told */
	struct log_span queue_id;	/* or empty */
	struct log_span message;	/* behind the program and the queue id */
	struct postfix_delivery delivery; /* DELIVERY only */
};

/* Reads one line, without its newline.  Spans point into it.  Returns out->kind. */
enum postfix_line_kind postfix_log_scan(const char *line, size_t length,
    struct postfix_line *out);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * One line of a mail server's log, sans I/O, read by postfix_log.h, sendmail_log.h
 * or, where the server is not known before, by mail_log.h:
 *
 *	[DATE] [HOST] NAME/PROGRAM[PID]: MESSAGE
 *
 * in every form of date and host that syslog daemons, journals and collectors write
 * before it.  Anything may stand in a line: see the readers for what is done about
 * forged ones.  No state; any thread.  Spans point into the caller's line.
 */
#ifndef WIRE_LOG_LINE_H
#define WIRE_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/reply/delivery.h"

enum log_line_kind {
	LOG_LINE_FOREIGN,	/* no mail server's program is found in it */
	LOG_LINE_OTHER,		/* a program's, but none of these: */
	LOG_LINE_DELIVERY,	/* what became of one recipient, or of a list of them */
	LOG_LINE_SESSION,	/* an inbound session: it began, or ended */
	LOG_LINE_ACTIVE,	/* a queue manager looks up a message's recipients: queue_id, sender */
	LOG_LINE_REMOVED,	/* a message has left the queue: queue_id */
	LOG_LINE_BROKEN,	/* a delivery that is cut, forged or of no known form */
};

enum log_session_event {
	LOG_SESSION_CONNECT,
	LOG_SESSION_DISCONNECT,
	LOG_SESSION_LOST,	/* "lost connection", "timeout": the end follows, of Postfix */
	LOG_SESSION_PASSED,	/* postscreen handed it over to smtpd, which tells "connect" */
	LOG_SESSION_REFUSED,	/* by a limit on connections; the end follows, of smtpd */
};

struct log_session {
	enum log_session_event event;
	bool postscreen;
	struct span name;	/* of the client, verified by the server; or empty */
	struct address address;	/* or unknown */
	uint16_t port;		/* of the client; 0: not told */
};

struct log_line {
	enum log_line_kind kind;
	const char *why;	/* BROKEN: static text */
	struct span head;	/* all before the program: log_date_read reads it */
	struct span program;	/* "postfix/lane1/smtp", "sendmail" */
	struct span daemon;	/* "smtp": its last part */
	uint32_t pid;		/* 0: not told */
	struct span queue_id;	/* or empty */
	struct span message;	/* behind the program and the queue id */
	/* DELIVERY only, with program and queue_id again: */
	struct delivery delivery;
	struct span orig_to;	/* Postfix; or empty */
	struct span status_word; /* as written: "SOFTBOUNCE", "Sent", "queued" */
	struct log_session session; /* SESSION only */
	struct span sender;	/* ACTIVE only; as logged, or empty */
};

/* When the head says that it was written, in ms since 1970, by the zone that stands there
 * or else as if it were UTC; `year` where none is told (0: then Jan 1 is taken to be in
 * 1970).  False: no date that is understood. */
bool log_date_read(struct span head, int year, int64_t *ms);

/* Passes over a date at the very beginning, perhaps behind a priority ("<22>"), that ends with
 * a blank or with the head.  False: there is none. */
bool log_date_pass(struct span *head);

#endif

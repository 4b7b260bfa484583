/* SPDX-License-Identifier: ISC */
/*
 * Lines of a mail server's log that say which login sent a message, for analyze alone: anybody
 * who may write a line can write these (engine/account_health.h).  No state; any thread.
 */
#ifndef WIRE_LOGIN_LINE_H
#define WIRE_LOGIN_LINE_H

#include "wire/mail/log_line.h"

enum login_line_kind {
	LOGIN_LINE_OTHER,
	LOGIN_LINE_CLIENT,	/* Postfix: a client begins this message: queue_id, login or none */
	LOGIN_LINE_PROCESS,	/* Sendmail: the client of this process logged in: login */
	LOGIN_LINE_QUEUED,	/* a message is in the queue: queue_id, bytes, recipients */
};

struct login_line {
	enum login_line_kind kind;
	bool of_sendmail;
	bool is_authenticated;	/* QUEUED of Sendmail: its protocol says so (ESMTPA) */
	bool is_bounce;		/* QUEUED: its sender is empty */
	struct span login;	/* into the line; or empty */
	uint64_t bytes;
	uint32_t recipients;
};

/* `line`: as mail_log_scan left it. */
enum login_line_kind login_line_read(const struct log_line *line, struct login_line *out);

#endif

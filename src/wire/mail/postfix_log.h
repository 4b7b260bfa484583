/* SPDX-License-Identifier: ISC */
/*
 * One line of Postfix's log: of a delivery all its fields (log_adhoc.c of Postfix),
 *
 *	[DATE] [HOST] NAME/PROGRAM[PID]: QUEUEID: to=<RECIPIENT>, [orig_to=<ADDRESS>,]
 *	relay=HOST[ADDRESS]:PORT, [conn_use=N,] delay=T, delays=A/B/C/D, dsn=X.Y.Z,
 *	status=WORD (TEXT)
 *	... NAME/qmgr[PID]: QUEUEID: from=<SENDER>, status=expired, returned to sender
 *
 * and what smtpd and postscreen say of a session's begin and end.
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

#include "wire/mail/log_line.h"

/* Reads a line whose head mail_log_scan has read.  Returns line->kind. */
enum log_line_kind postfix_log_read(struct log_line *line);

#endif

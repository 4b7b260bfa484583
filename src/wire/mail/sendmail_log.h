/* SPDX-License-Identifier: ISC */
/*
 * One line of Sendmail's log (deliver.c, logdelivery()):
 *
 *	[DATE] [HOST] PROGRAM[PID]: QUEUEID: to=A[,B...], [ctladdr=C (UID/GID),]
 *	[delay=T, xdelay=T, mailer=M, pri=N, relay=HOST [ADDRESS], dsn=X.Y.Z,]
 *	[quarantine=REASON,] [ntries=N,] [reply=CODE TEXT,] stat=TEXT
 *
 * reply= is what the remote said; stat= may be of another instant ("Connection reset"
 * behind a reply=421), so it comes second.  One line tells of all recipients with
 * the same result; a list that is too long is written as several lines.
 *
 * Sendmail quotes nothing but makes controls visible: recipients and replies may
 * hold ", relay=" and ", stat=".  The fields before reply= are read up to the first
 * that is not of its form; where a recipient is written so that the fields could
 * begin at two places, the line is broken.  A text behind reply= or stat= is never
 * read for fields of the head.
 */
#ifndef WIRE_SENDMAIL_LOG_H
#define WIRE_SENDMAIL_LOG_H

#include "wire/mail/log_line.h"

/* Reads a line whose head mail_log_scan has read.  Returns line->kind. */
enum log_line_kind sendmail_log_read(struct log_line *line);

#endif

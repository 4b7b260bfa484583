/* SPDX-License-Identifier: ISC */
/*
 * A line of the log of some mail server: which one is told by its program.  "NAME/DAEMON"
 * is Postfix's, a program without a slash Sendmail's where it is called sendmail, sm-mta
 * and the like.
 */
#ifndef WIRE_MAIL_LOG_H
#define WIRE_MAIL_LOG_H

#include "wire/mail/log_line.h"

/* Reads one line, without its newline.  Returns out->kind; FOREIGN, too, for programs that
 * are no mail server's.  delivery.source tells the server of a delivery. */
enum log_line_kind mail_log_scan(const char *line, size_t length, struct log_line *out);

#endif

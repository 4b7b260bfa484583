/* SPDX-License-Identifier: ISC */
/*
 * What of Sendmail's log is certain: a line that is whole, in exactly the form in which
 * deliver.c writes of recipients that a remote server took, and in no other, behind one date
 * and a host at most:
 *
 *	to=LIST, [ctladdr=C, ]delay=T, xdelay=T, mailer=M, pri=N, relay=HOST [ADDRESS],
 *	dsn=2.N.N, [reply=TEXT, ]stat=Sent (TEXT)
 *
 * Every recipient of LIST is plain (base/plain_recipient.h).  So neither a line that was cut, nor two that were joined, nor a list that
 * Sendmail cut within quotes is taken for one.  Sans I/O; any thread.
 */
#ifndef WIRE_SENDMAIL_SENT_H
#define WIRE_SENDMAIL_SENT_H

#include "wire/mail/log_line.h"

/* Of a line that sendmail_log_read took for a delivery. */
bool sendmail_line_is_sent(const struct log_line *line);

/* Does its list go on in a further line?  Of any line that begins with "to=". */
bool sendmail_list_goes_on(const struct log_line *line);

#endif

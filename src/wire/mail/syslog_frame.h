/* SPDX-License-Identifier: ISC */
/*
 * One datagram of syslog: "<PRI>" and a line as it would stand in a file (RFC 3164,
 * whose date and host may be missing, as syslog(3) writes it), or RFC 5424's head,
 * which is written anew as such a line.  What comes behind a newline or a NUL is no
 * line of its own: others choose what stands in a message.  Sans I/O; any thread.
 */
#ifndef WIRE_SYSLOG_FRAME_H
#define WIRE_SYSLOG_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/reply/delivery.h"

#define SYSLOG_HEAD_MAX	512	/* of RFC 5424, without its structured data */

/* The line, in the datagram, or in `scratch` (length + SYSLOG_HEAD_MAX bytes).  False: *why
 * (static text) says what is wrong; a line may still be in *out (cut at the
 * newline), or it is empty. */
bool syslog_frame_read(const char *datagram, size_t length, char *scratch,
    struct span *out, const char **why);

#endif

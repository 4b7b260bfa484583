/* SPDX-License-Identifier: ISC */
/* One request to the daemon's control socket, and its reply. */
#ifndef CTL_CONTROL_CLIENT_H
#define CTL_CONTROL_CLIENT_H

#include <stddef.h>

#include "base/diag.h"
#include "view/writer.h"
#include "wire/link/control_frame.h"

struct control_reply {
	int exit;		/* of sysexits, as the daemon says */
	char error[512];	/* why, or "" */
	char generation[24];	/* of the end frame, or "" */
};

/* A connected stream socket, or -1 with *diag; connecting and each sending take timeout_ms at
 * most.  Addresses are those of control_ask. */
int control_connect(const char *address, int timeout_ms, struct diag *diag);

/* Sends the fields (command=... first) and calls `row` (NULL: nothing) for each row of the
 * reply; the frame is valid during the call only.  `address` is "unix:/path",
 * "inet:host:port" or "inet6:[host]:port"; a bare path is a unix socket.
 * -1 with *diag: the daemon is away (ECONNREFUSED, ENOENT), may not be asked
 * (EACCES), is silent for timeout_ms or has not ended after ten times that
 * (ETIMEDOUT), speaks something else, or has no end of rows or bytes (EPROTO). */
int control_ask(const char *address, const struct control_field *fields,
    size_t count, int timeout_ms,
    void (*row)(void *context, const struct control_frame *frame), void *context,
    struct control_reply *reply, struct diag *diag);

/* The same, with complaints: an exit code. */
#define CONTROL_TIMEOUT_MS	10000
int control_order(const char *address, const struct control_field *fields, size_t count,
    void (*row)(void *context, const struct control_frame *frame), void *context);

/* The field of a row as a value of this kind. */
struct value control_value(const struct control_frame *frame, const char *name,
    enum column_kind kind);

#endif

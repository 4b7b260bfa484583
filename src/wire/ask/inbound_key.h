/* SPDX-License-Identifier: ISC */
/*
 * The key that the rules of conf/sendmail-connect.mc look up when a client has connected,
 * sans I/O:
 *
 *	connect;ca=ADDRESS;cp=PORT;da=DAEMON;ia=INTERFACE;dp=PORT;cr=RESOLVED;n=NAME
 *
 * These are Sendmail's {client_addr}, {client_port}, {daemon_addr}, {if_addr},
 * {daemon_port}, {client_resolve} and {client_name}.  The owner of an address fills its name,
 * which goes to the end of the key.  Of a field that stands twice the first counts, others
 * are let pass.
 */
#ifndef WIRE_INBOUND_KEY_H
#define WIRE_INBOUND_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/ask/client_macros.h"

struct inbound_key {
	struct client_tuple session;
	struct span name;		/* verified, or empty */
};

/* False: it does not begin with "connect". */
bool inbound_key_parse(const char *key, size_t length, struct inbound_key *out);

#endif

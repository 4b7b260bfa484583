/* SPDX-License-Identifier: ISC */
/*
 * The keys that the rules of conf/sendmail-outbound.mc look up, sans I/O:
 *
 *	compat;CLIENT;h=HOST;i=QUEUE-ID;t=RECIPIENT	before a connect
 *	tlssrv;CLIENT;h=HOST;i=QUEUE-ID;sn=NAME;sa=ADDRESS	connected
 *	turn;i=QUEUE-ID;h=DOMAIN	of a recipient, before anything is connected
 *
 * CLIENT is ca=ADDRESS;cp=PORT;da=DAEMON;ia=INTERFACE;dp=PORT, the session that the message
 * came by, as in inbound_key.h; it is empty for mail that came otherwise.
 *
 * Blanks that Sendmail puts behind '=' (or anywhere around a value) and the dot
 * at the end of a name are no part of it.  Of a field that stands twice the first
 * counts, so that fields which strangers fill must stand last.  Such a one is t=: it
 * goes to the end of the key, as an address may have anything in it between quotes.
 * Other fields, as n=, c=, u= and f=, are let pass.
 */
#ifndef WIRE_OUTBOUND_KEY_H
#define WIRE_OUTBOUND_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/ask/client_macros.h"

enum outbound_key_kind { OUTBOUND_KEY_COMPAT, OUTBOUND_KEY_TLSSRV, OUTBOUND_KEY_TURN };

struct outbound_key {
	enum outbound_key_kind kind;
	struct span host;	/* of "a:b", which are tried in turn, the first */
	struct span queue_id;
	struct span server_name;
	struct span recipient;	/* without < > around it */
	struct address server;		/* all zero: none, or none that is an address */
	struct client_tuple session;	/* client all zero: it came by none */
};

/* False: it begins with none of these words. */
bool outbound_key_parse(const char *key, size_t length, struct outbound_key *out);

#endif

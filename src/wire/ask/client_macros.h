/* SPDX-License-Identifier: ISC */
/* What the macros of a mail server say of a client at its connect, by milter or socket map,
 * sans I/O. */
#ifndef WIRE_CLIENT_MACROS_H
#define WIRE_CLIENT_MACROS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/limit/address.h"
#include "wire/ask/map_field.h"

/* {daemon_addr} or {if_addr}: takes an address that names an interface, not 0.0.0.0 or ::.
 * False: it names none. */
bool client_macros_server(const char *text, size_t length, struct address *out);

/* The fields ca, cp, da, ia and dp of a socketmap key: {client_addr}, {client_port},
 * {daemon_addr}, {if_addr} and {daemon_port}. */
struct client_fields {
	struct span client, client_port, daemon, interface, daemon_port;
};

/* A client's session with the mail server; what is all zero is not known. */
struct client_tuple {
	struct address client, server;
	uint16_t client_port, server_port;
};

/* False: the field is none of these. */
bool client_fields_take(struct client_fields *fields, const struct map_field *field);
void client_fields_read(const struct client_fields *fields, struct client_tuple *out);

/* A port; 0: none. */
uint16_t client_macros_port(const char *text, size_t length);

/* Has the mail server verified the name?  Not "[192.0.2.1]", "unknown", or one that does not
 * lead back to the address ({client_resolve}; NULL: not said). */
bool client_macros_verified(const char *name, size_t length, const char *resolve,
    size_t resolve_length);

#endif

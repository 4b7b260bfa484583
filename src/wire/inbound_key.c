/* SPDX-License-Identifier: ISC */
/*
 * Keys of questions about clients.
 *
 * MODEL: one pass over the fields between semicolons.
 * ERRORS: a field that makes no sense is as one that is not there.
 * THREADS: pure.
 */
#include "wire/inbound_key.h"

#include <string.h>

#include "wire/client_macros.h"

struct fields {
	struct map_text client, client_port, daemon, interface, daemon_port, resolve, name;
};

static void take(struct map_text rest, struct fields *out)
{
	struct map_field field;

	while (map_field_next(&rest, &field)) {
		if (map_text_is(field.name, "n")) {
			map_text_take_first(&out->name, field.to_end);
			break;
		}
		if (map_text_is(field.name, "ca"))
			map_text_take_first(&out->client, field.value);
		else if (map_text_is(field.name, "cp"))
			map_text_take_first(&out->client_port, field.value);
		else if (map_text_is(field.name, "da"))
			map_text_take_first(&out->daemon, field.value);
		else if (map_text_is(field.name, "ia"))
			map_text_take_first(&out->interface, field.value);
		else if (map_text_is(field.name, "dp"))
			map_text_take_first(&out->daemon_port, field.value);
		else if (map_text_is(field.name, "cr"))
			map_text_take_first(&out->resolve, field.value);
	}
}

bool inbound_key_parse(const char *key, size_t length, struct inbound_key *out)
{
	struct map_text rest = { key, length };
	struct fields fields = { 0 };

	memset(out, 0, sizeof(*out));
	if (!map_text_is(map_word_next(&rest), "connect"))
		return false;
	take(rest, &fields);
	if (fields.client.length > 0 &&
	    !address_parse(fields.client.text, fields.client.length, &out->client))
		memset(&out->client, 0, sizeof(out->client));
	out->client_port = client_macros_port(fields.client_port.text,
	    fields.client_port.length);
	if (!client_macros_server(fields.daemon.text, fields.daemon.length, &out->server))
		(void)client_macros_server(fields.interface.text, fields.interface.length,
		    &out->server);
	out->server_port = client_macros_port(fields.daemon_port.text,
	    fields.daemon_port.length);
	if (client_macros_verified(fields.name.text, fields.name.length, fields.resolve.text,
		fields.resolve.length))
		out->name = fields.name;
	return true;
}

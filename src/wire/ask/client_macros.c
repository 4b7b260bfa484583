/* SPDX-License-Identifier: ISC */
/*
 * Macros about a client.
 *
 * MODEL: the milter front end and the socket map's read the same words, so that a session
 * has one name and one key, whoever tells of it first.
 * ERRORS: a macro that makes no sense is as one that is not set.
 * THREADS: pure.
 */
#include "wire/ask/client_macros.h"

#include <string.h>

#include "base/text.h"

static bool is(const char *text, size_t length, const char *word) {
	return length == strlen(word) && memcmp(text, word, length) == 0;
}

bool client_macros_server(const char *text, size_t length, struct address *out) {
	static const struct address any_v4 = {
		.bytes = { [10] = 0xff, [11] = 0xff } };
	struct address address;

	if (length == 0 || !address_parse(text, length, &address) ||
	    address_is_unknown(&address) || address_equal(&address, &any_v4))
		return false;
	*out = address;
	return true;
}

uint16_t client_macros_port(const char *text, size_t length) {
	uint32_t value;

	return length > 0 && text_to_u32(text, length, UINT16_MAX, &value) ? (uint16_t)value : 0;
}

bool client_macros_verified(const char *name, size_t length, const char *resolve,
    size_t resolve_length) {
	return length > 0 && name[0] != '[' && !is(name, length, "unknown") &&
	    (resolve == NULL || is(resolve, resolve_length, "OK"));
}

bool client_fields_take(struct client_fields *fields, const struct map_field *field) {
	const struct {
		const char *name;
		struct span *text;
	} known[] = {
		{ "ca", &fields->client },
		{ "cp", &fields->client_port },
		{ "da", &fields->daemon },
		{ "ia", &fields->interface },
		{ "dp", &fields->daemon_port },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (!span_is(field->name, known[i].name))
			continue;
		map_text_take_first(known[i].text, field->value);
		return true;
	}
	return false;
}

void client_fields_read(const struct client_fields *fields, struct client_tuple *out) {
	memset(out, 0, sizeof(*out));
	if (fields->client.length > 0 &&
	    !address_parse(fields->client.text, fields->client.length, &out->client))
		memset(&out->client, 0, sizeof(out->client));
	out->client_port = client_macros_port(fields->client_port.text,
	    fields->client_port.length);
	if (!client_macros_server(fields->daemon.text, fields->daemon.length, &out->server))
		(void)client_macros_server(fields->interface.text, fields->interface.length,
		    &out->server);
	out->server_port = client_macros_port(fields->daemon_port.text,
	    fields->daemon_port.length);
}

/* SPDX-License-Identifier: ISC */
/*
 * Keys of outbound questions.
 *
 * MODEL: one pass over the fields between semicolons.
 * ERRORS: a field that makes no sense is as one that is not there.
 * THREADS: pure.
 */
#include "wire/ask/outbound_key.h"

#include <string.h>

static void drop_final_dot(struct span *name) {
	if (name->length > 0 && name->text[name->length - 1] == '.')
		*name = span_trimmed((struct span){ name->text, name->length - 1 });
}

/* Hosts to be tried in turn have colons between them, as an address in brackets
 * may have. */
static void keep_first_host(struct span *host) {
	bool in_brackets = false;

	for (size_t i = 0; i < host->length; i++) {
		if (host->text[i] == '[')
			in_brackets = true;
		else if (host->text[i] == ']')
			in_brackets = false;
		else if (host->text[i] == ':' && !in_brackets)
			host->length = i;
	}
	*host = span_trimmed((struct span){ host->text, host->length });
	drop_final_dot(host);
}

static void drop_brackets(struct span *address) {
	if (address->length >= 2 && address->text[0] == '<' &&
	    address->text[address->length - 1] == '>')
		*address = span_trimmed((struct span){ address->text + 1, address->length - 2 });
}

bool outbound_key_parse(const char *key, size_t length, struct outbound_key *out) {
	struct span rest = { key, length }, address = { NULL, 0 };
	struct span word = map_word_next(&rest);
	struct client_fields session = { 0 };
	struct map_field field;

	memset(out, 0, sizeof(*out));
	if (span_is(word, "tlssrv"))
		out->kind = OUTBOUND_KEY_TLSSRV;
	else if (span_is(word, "turn"))
		out->kind = OUTBOUND_KEY_TURN;
	else if (!span_is(word, "compat"))
		return false;
	while (map_field_next(&rest, &field)) {
		if (span_is(field.name, "t")) {
			map_text_take_first(&out->recipient, field.to_end);
			break;
		}
		if (client_fields_take(&session, &field))
			continue;
		if (span_is(field.name, "h"))
			map_text_take_first(&out->host, field.value);
		else if (span_is(field.name, "i"))
			map_text_take_first(&out->queue_id, field.value);
		else if (span_is(field.name, "sn"))
			map_text_take_first(&out->server_name, field.value);
		else if (span_is(field.name, "sa"))
			map_text_take_first(&address, field.value);
	}
	client_fields_read(&session, &out->session);
	keep_first_host(&out->host);
	drop_final_dot(&out->server_name);
	drop_brackets(&out->recipient);
	if (address.length > 0 && !address_parse(address.text, address.length, &out->server))
		memset(&out->server, 0, sizeof(out->server));
	return true;
}

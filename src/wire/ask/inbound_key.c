/* SPDX-License-Identifier: ISC */
/*
 * Keys of questions about clients.
 *
 * MODEL: one pass over the fields between semicolons.
 * ERRORS: a field that makes no sense is as one that is not there.
 * THREADS: pure.
 */
#include "wire/ask/inbound_key.h"

#include <string.h>

bool inbound_key_parse(const char *key, size_t length, struct inbound_key *out) {
	struct span rest = { key, length }, resolve = { NULL, 0 }, name = { NULL, 0 };
	struct client_fields fields = { 0 };
	struct map_field field;

	memset(out, 0, sizeof(*out));
	if (!span_is(map_word_next(&rest), "connect"))
		return false;
	while (map_field_next(&rest, &field)) {
		if (span_is(field.name, "n")) {
			map_text_take_first(&name, field.to_end);
			break;
		}
		if (!client_fields_take(&fields, &field) && span_is(field.name, "cr"))
			map_text_take_first(&resolve, field.value);
	}
	client_fields_read(&fields, &out->session);
	if (client_macros_verified(name.text, name.length, resolve.text, resolve.length))
		out->name = name;
	return true;
}

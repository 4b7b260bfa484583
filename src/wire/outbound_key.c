/* SPDX-License-Identifier: ISC */
/*
 * Keys of outbound questions.
 *
 * MODEL: one pass over the fields between semicolons.
 * ERRORS: a field that makes no sense is as one that is not there.
 * THREADS: pure.
 */
#include "wire/outbound_key.h"

#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct outbound_text trimmed(const char *text, size_t length)
{
	while (length > 0 && is_blank(text[0])) {
		text++;
		length--;
	}
	while (length > 0 && is_blank(text[length - 1]))
		length--;
	return (struct outbound_text){ text, length };
}

static void drop_final_dot(struct outbound_text *name)
{
	if (name->length > 0 && name->text[name->length - 1] == '.')
		*name = trimmed(name->text, name->length - 1);
}

/* Hosts to be tried in turn have colons between them, as an address in brackets
 * may have. */
static void keep_first_host(struct outbound_text *host)
{
	bool in_brackets = false;

	for (size_t i = 0; i < host->length; i++) {
		if (host->text[i] == '[')
			in_brackets = true;
		else if (host->text[i] == ']')
			in_brackets = false;
		else if (host->text[i] == ':' && !in_brackets)
			host->length = i;
	}
	*host = trimmed(host->text, host->length);
	drop_final_dot(host);
}

static void drop_brackets(struct outbound_text *address)
{
	if (address->length >= 2 && address->text[0] == '<' &&
	    address->text[address->length - 1] == '>')
		*address = trimmed(address->text + 1, address->length - 2);
}

/* Up to the next semicolon; moves on behind it. */
static struct outbound_text next_field(struct outbound_text *rest)
{
	const char *end = memchr(rest->text, ';', rest->length);
	size_t length = end == NULL ? rest->length : (size_t)(end - rest->text);
	struct outbound_text field = trimmed(rest->text, length);

	if (end != NULL)
		length++;
	rest->text += length;
	rest->length -= length;
	return field;
}

static bool is(struct outbound_text text, const char *word)
{
	return text.length == strlen(word) && memcmp(text.text, word, text.length) == 0;
}

static void take_first(struct outbound_text *out, struct outbound_text value)
{
	if (out->text == NULL)
		*out = value;
}

bool outbound_key_parse(const char *key, size_t length, struct outbound_key *out)
{
	struct outbound_text rest = { key, length }, address = { NULL, 0 };
	struct outbound_text word = next_field(&rest);

	memset(out, 0, sizeof(*out));
	if (is(word, "tlssrv"))
		out->kind = OUTBOUND_KEY_TLSSRV;
	else if (is(word, "turn"))
		out->kind = OUTBOUND_KEY_TURN;
	else if (!is(word, "compat"))
		return false;
	while (rest.length > 0) {
		struct outbound_text all = trimmed(rest.text, rest.length);
		struct outbound_text field = next_field(&rest), name, value;
		const char *equals = memchr(field.text, '=', field.length);

		if (equals == NULL)
			continue;
		name = trimmed(field.text, (size_t)(equals - field.text));
		value = trimmed(equals + 1, (size_t)(field.text + field.length - equals - 1));
		if (is(name, "t")) {
			take_first(&out->recipient, trimmed(equals + 1,
			    (size_t)(all.text + all.length - equals - 1)));
			break;
		}
		if (is(name, "h"))
			take_first(&out->host, value);
		else if (is(name, "i"))
			take_first(&out->queue_id, value);
		else if (is(name, "sn"))
			take_first(&out->server_name, value);
		else if (is(name, "sa"))
			take_first(&address, value);
	}
	keep_first_host(&out->host);
	drop_final_dot(&out->server_name);
	drop_brackets(&out->recipient);
	if (address.length > 0 && !address_parse(address.text, address.length, &out->server))
		memset(&out->server, 0, sizeof(out->server));
	return true;
}

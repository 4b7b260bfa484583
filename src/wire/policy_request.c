/* SPDX-License-Identifier: ISC */
/*
 * Parser and writer of the policy protocol.
 *
 * MODEL: one pass, line by line; the first letter of a line picks the few names
 * that it can be.  A name that is not ours costs one search for its '='.
 * ERRORS: what no policy client sends (a NUL, a line without '=', endless lines
 * or requests, another request= or none) spoils the connection, as nobody can
 * tell where the next request begins.  An address or a port that makes no sense
 * is reported, and the request stands.
 * THREADS: pure.
 */
#include "wire/policy_request.h"

#include <string.h>

#include "base/text.h"

void policy_parser_reset(struct policy_parser *parser)
{
	memset(parser, 0, sizeof(*parser));
}

static bool is_unknown(const char *value, size_t length)
{
	return length == 0 || (length == 7 && memcmp(value, "unknown", 7) == 0);
}

static void take_address(struct policy_request *request, const char *value,
    size_t length, struct address *out, const char *name)
{
	memset(out, 0, sizeof(*out));
	if (!is_unknown(value, length) && !address_parse(value, length, out))
		request->bad_value = name;
}

static void take_port(struct policy_request *request, const char *value,
    size_t length, uint16_t *out, const char *name)
{
	uint32_t port = 0;

	if (!is_unknown(value, length) &&
	    !text_to_u32(value, length, UINT16_MAX, &port))
		request->bad_value = name;
	*out = (uint16_t)port;
}

static enum policy_state state_of(const char *value, size_t length)
{
	static const struct {
		const char *name;
		size_t length;
		enum policy_state state;
	} states[] = {
#define STATE(name, state) { name, sizeof(name) - 1, POLICY_STATE_##state }
		STATE("CONNECT", CONNECT),
		STATE("RCPT", RCPT),
		STATE("MAIL", MAIL),
		STATE("EHLO", EHLO),
		STATE("HELO", EHLO),
		STATE("DATA", DATA),
		STATE("END-OF-MESSAGE", END),
		STATE("XCLIENT", XCLIENT),
		STATE("VRFY", VRFY),
		STATE("ETRN", ETRN),
#undef STATE
	};

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (length == states[i].length &&
		    memcmp(value, states[i].name, length) == 0)
			return states[i].state;
	return POLICY_STATE_OTHER;
}

/* Does the line begin with this name and '='?  Then value and rest are set. */
#define IS(name)							\
	(length >= sizeof(name "=") - 1 &&				\
	 memcmp(line, name "=", sizeof(name "=") - 1) == 0 &&		\
	 (value = line + sizeof(name "=") - 1,				\
	  rest = length - (sizeof(name "=") - 1), true))

/* Takes a value that is not kept as text.  False: the line is none such. */
static bool take_parsed(struct policy_request *r, const char *line, size_t length)
{
	const char *value;
	size_t rest;

	switch (line[0]) {
	case 'c':
		if (IS("client_address"))
			take_address(r, value, rest, &r->client, "client_address");
		else if (IS("client_port"))
			take_port(r, value, rest, &r->client_port, "client_port");
		else
			return false;
		return true;
	case 's':
		if (IS("server_address"))
			take_address(r, value, rest, &r->server, "server_address");
		else if (IS("server_port"))
			take_port(r, value, rest, &r->server_port, "server_port");
		else
			return false;
		return true;
	case 'r':
		if (!IS("request"))
			return false;
		r->is_access_request = rest == 19 &&
		    memcmp(value, "smtpd_access_policy", 19) == 0;
		return true;
	case 'p':
		if (!IS("protocol_state"))
			return false;
		r->state = state_of(value, rest);
		return true;
	}
	return false;
}

/* Where the value of the line belongs that is kept as text, or NULL. */
static struct policy_span *span_of(struct policy_request *r, const char *line,
    size_t length, const char **text, size_t *text_length)
{
	struct policy_span *span = NULL;
	const char *value = NULL;
	size_t rest = 0;

	switch (line[0]) {
	case 'c':
		if (IS("client_name"))
			span = &r->client_name;
		break;
	case 's':
		if (IS("sender"))
			span = &r->sender;
		else if (IS("sasl_username"))
			span = &r->sasl_username;
		break;
	case 'r':
		if (IS("recipient"))
			span = &r->recipient;
		else if (IS("reverse_client_name"))
			span = &r->reverse_name;
		break;
	}
	*text = value;
	*text_length = rest;
	return span;
}

/* One line of `length` bytes, not empty.  False: no name and '='. */
static bool take_line(struct policy_request *request, const char *start,
    const char *line, size_t length)
{
	struct policy_span *span;
	const char *text;
	size_t text_length;

	if (take_parsed(request, line, length))
		return true;
	span = span_of(request, line, length, &text, &text_length);
	if (span == NULL)
		return line[0] != '=' && memchr(line, '=', length) != NULL;
	if ((span == &request->client_name || span == &request->reverse_name) &&
	    is_unknown(text, text_length))
		text_length = 0;
	span->offset = (uint32_t)(text - start);
	span->length = (uint32_t)text_length;
	return true;
}

static long malformed(struct policy_error *error, const char *reason,
    size_t offset)
{
	error->reason = reason;
	error->offset = offset;
	return -1;
}

/* The request ended at `used`; were there NULs in it since `from`? */
static bool has_nul(const char *data, size_t from, size_t used, size_t *where)
{
	const char *nul = memchr(data + from, '\0', used - from);

	if (nul == NULL)
		return false;
	*where = (size_t)(nul - data);
	return true;
}

long policy_parser_feed(struct policy_parser *parser, const char *data,
    size_t length, struct policy_error *error)
{
	size_t limit = length < POLICY_REQUEST_MAX ? length : POLICY_REQUEST_MAX;
	size_t fresh = parser->seen, at = parser->line, search = fresh, where;
	const char *end;

	while (search < limit &&
	    (end = memchr(data + search, '\n', limit - search)) != NULL) {
		size_t used = (size_t)(end - data) + 1;
		size_t line_length = used - 1 - at;

		if (line_length == 0) {
			if (has_nul(data, fresh, used, &where))
				return malformed(error, "NUL character", where);
			if (!parser->request.is_access_request)
				return malformed(error,
				    "no request=smtpd_access_policy", 0);
			return (long)used;
		}
		if (line_length > POLICY_LINE_MAX)
			return malformed(error, "line too long", at);
		if (!take_line(&parser->request, data, data + at, line_length))
			return malformed(error, "line without name=value", at);
		at = search = used;
	}
	if (limit > fresh && has_nul(data, fresh, limit, &where))
		return malformed(error, "NUL character", where);
	if (limit - at > POLICY_LINE_MAX)
		return malformed(error, "line too long", at);
	if (limit == POLICY_REQUEST_MAX)
		return malformed(error, "request too long", 0);
	parser->line = (uint32_t)at;
	parser->seen = (uint32_t)limit;
	return 0;
}

/* Adds what fits of `text`, tamed, to out[at], leaving two bytes of `size`. */
static size_t add(char *out, size_t size, size_t at, const char *text)
{
	for (; *text != '\0' && at < size - 2; text++) {
		unsigned char c = (unsigned char)*text;

		out[at++] = c < 0x20 || c == 0x7f ? ' ' : *text;
	}
	return at;
}

size_t policy_reply_write(char *out, size_t size, const char *action,
    const char *text)
{
	size_t length = add(out, size, 0, "action=");

	length = add(out, size, length, action);
	if (text != NULL && text[0] != '\0') {
		length = add(out, size, length, " ");
		length = add(out, size, length, text);
	}
	out[length++] = '\n';
	out[length++] = '\n';
	return length;
}

/* SPDX-License-Identifier: ISC */
/*
 * Parser and writer of the policy protocol.
 *
 * MODEL: one pass by blocks of 64 bytes, of which two masks say where lines end and
 * where a '=' stands; the length of a name picks the few that it can be.
 * ERRORS: what no policy client sends (a NUL, a line without '=', endless lines
 * or requests, another request= or none) spoils the connection, as nobody can
 * tell where the next request begins.  An address or a port that makes no sense
 * is reported, and the request stands.
 * THREADS: pure.
 */
#include "wire/ask/policy_request.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/text.h"

void policy_parser_reset(struct policy_parser *parser) {
	memset(parser, 0, sizeof(*parser));
}

static bool is_unknown(const char *value, size_t length) {
	return length == 0 || (length == 7 && memcmp(value, "unknown", 7) == 0);
}

static void take_address(struct policy_request *request, const char *value,
    size_t length, struct address *out, const char *name) {
	memset(out, 0, sizeof(*out));
	if (!is_unknown(value, length) && !address_parse(value, length, out))
		request->bad_value = name;
}

static void take_port(struct policy_request *request, const char *value,
    size_t length, uint16_t *out, const char *name) {
	uint32_t port = 0;

	if (!is_unknown(value, length) &&
	    !text_to_u32(value, length, UINT16_MAX, &port))
		request->bad_value = name;
	*out = (uint16_t)port;
}

static enum policy_state state_of(const char *value, size_t length) {
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

/* Is the name of so many letters this one? */
#define IS(wanted) (memcmp(name, wanted, sizeof(wanted) - 1) == 0)
#define LENGTH_OF(name) (sizeof(name) - 1)

static struct policy_span span_of(const char *start, const char *value, size_t length) {
	return (struct policy_span){ (uint32_t)(value - start), (uint32_t)length };
}

static struct policy_span name_of(const char *start, const char *value, size_t length) {
	return span_of(start, value, is_unknown(value, length) ? 0 : length);
}

/* Of a value that is none, 0. */
static uint64_t number_of(const char *value, size_t length) {
	uint64_t number = 0;

	for (size_t i = 0; i < length; i++) {
		unsigned digit = (unsigned)(unsigned char)value[i] - '0';

		if (digit > 9 || number > (UINT64_MAX - digit) / 10)
			return 0;
		number = number * 10 + digit;
	}
	return number;
}

/* One attribute of the request that begins at `start`.  Most are none of ours, which their
 * length alone says of nearly all. */
static void attribute_take(struct policy_request *r, const char *start, const char *name,
    size_t name_length, const char *value, size_t length) {
	switch (name_length) {
	case LENGTH_OF("size"):
		if (IS("size"))
			r->size = number_of(value, length);
		break;
	case LENGTH_OF("instance"):
		if (IS("instance"))
			r->instance = span_of(start, value, length);
		else if (IS("queue_id"))
			r->queue_id = span_of(start, value, length);
		break;
	case LENGTH_OF("recipient_count"):
		if (IS("recipient_count"))
			r->recipient_count = number_of(value, length) > UINT32_MAX ?
			    UINT32_MAX : (uint32_t)number_of(value, length);
		break;
	case LENGTH_OF("sender"):
		if (IS("sender"))
			r->sender = span_of(start, value, length);
		break;
	case LENGTH_OF("request"):
		if (IS("request"))
			r->is_access_request = length == 19 &&
			    memcmp(value, "smtpd_access_policy", 19) == 0;
		break;
	case LENGTH_OF("recipient"):
		if (IS("recipient"))
			r->recipient = span_of(start, value, length);
		break;
	case LENGTH_OF("client_port"):
		if (IS("client_port"))
			take_port(r, value, length, &r->client_port, "client_port");
		else if (IS("server_port"))
			take_port(r, value, length, &r->server_port, "server_port");
		else if (IS("client_name"))
			r->client_name = name_of(start, value, length);
		break;
	case LENGTH_OF("sasl_username"):
		if (IS("sasl_username"))
			r->sasl_username = span_of(start, value, length);
		break;
	case LENGTH_OF("client_address"):
		if (IS("client_address"))
			take_address(r, value, length, &r->client, "client_address");
		else if (IS("server_address"))
			take_address(r, value, length, &r->server, "server_address");
		else if (IS("protocol_state"))
			r->state = state_of(value, length);
		break;
	}
}

static long request_malformed(struct policy_error *error, const char *reason,
    size_t offset) {
	error->reason = reason;
	error->offset = offset;
	return -1;
}

/* The request ended at `used`; were there NULs in it since `from`? */
static bool has_nul(const char *data, size_t from, size_t used, size_t *where) {
	const char *nul = memchr(data + from, '\0', used - from);

	if (nul == NULL)
		return false;
	*where = (size_t)(nul - data);
	return true;
}

#define BLOCK	64	/* bytes that are searched at once: as many as a mask has bits */

/* Which of 16 bytes are `wanted`, as bits. */
static inline uint64_t find_in_16(const char *bytes, char wanted) {
#ifdef __SSE2__
	return (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_set1_epi8(wanted),
	    _mm_loadu_si128((const __m128i *)(const void *)bytes)));
#else
	uint64_t found = 0;

	for (unsigned i = 0; i < 16; i++)
		found |= (uint64_t)(bytes[i] == wanted) << i;
	return found;
#endif
}

static inline uint64_t find_in_block(const char block[BLOCK], char wanted) {
	return find_in_16(block, wanted) | find_in_16(block + 16, wanted) << 16 |
	    find_in_16(block + 32, wanted) << 32 | find_in_16(block + 48, wanted) << 48;
}

/* The request's last line, which is empty, begins at `at`.  As policy_parser_feed; `fresh`:
 * so much was looked at in earlier calls. */
static long end_request(const struct policy_parser *parser, const char *data, size_t fresh,
    size_t at, struct policy_error *error) {
	size_t where;

	if (has_nul(data, fresh, at, &where))
		return request_malformed(error, "NUL character", where);
	if (!parser->request.is_access_request)
		return request_malformed(error, "no request=smtpd_access_policy", 0);
	return (long)at + 1;
}

/* The lines that end in the block that begins at data[from].  As policy_parser_feed. */
static long read_block(struct policy_parser *parser, const char *data, size_t fresh,
    size_t from, const char block[BLOCK], struct policy_error *error) {
	uint64_t ends = find_in_block(block, '\n'), equals = find_in_block(block, '=');
	size_t line = parser->line, value = parser->value;

	for (; ends != 0; ends &= ends - 1) {
		size_t end = from + (size_t)__builtin_ctzll(ends);

		if (end == line)
			return end_request(parser, data, fresh, end, error);
		if (value <= line && equals != 0)
			value = from + (size_t)__builtin_ctzll(equals) + 1;
		if (end - line > POLICY_LINE_MAX)
			return request_malformed(error, "line too long", line);
		if (value <= line + 1 || value > end)
			return request_malformed(error, "line without name=value", line);
		attribute_take(&parser->request, data, data + line, value - 1 - line, data + value,
		    end - value);
		line = end + 1;
		equals &= ~(ends ^ (ends - 1));
	}
	if (value <= line && equals != 0)
		value = from + (size_t)__builtin_ctzll(equals) + 1;
	parser->line = (uint32_t)line;
	parser->value = (uint32_t)value;
	return 0;
}

long policy_parser_feed(struct policy_parser *parser, const char *data,
    size_t length, struct policy_error *error) {
	size_t limit = length < POLICY_REQUEST_MAX ? length : POLICY_REQUEST_MAX;
	size_t fresh = parser->seen, where;
	char rest[BLOCK] = { 0 };

	for (size_t from = fresh; from < limit; from += BLOCK) {
		const char *block = data + from;
		long used;

		if (limit - from < BLOCK)
			block = memcpy(rest, block, limit - from);
		used = read_block(parser, data, fresh, from, block, error);
		if (used != 0)
			return used;
	}
	if (limit > fresh && has_nul(data, fresh, limit, &where))
		return request_malformed(error, "NUL character", where);
	if (limit - parser->line > POLICY_LINE_MAX)
		return request_malformed(error, "line too long", parser->line);
	if (limit == POLICY_REQUEST_MAX)
		return request_malformed(error, "request too long", 0);
	parser->seen = (uint32_t)limit;
	return 0;
}

/* Adds what fits of `text`, tamed, to out[at], leaving two bytes of `size`. */
static size_t reply_add(char *out, size_t size, size_t at, const char *text) {
	size_t end = at + strnlen(text, size - 2 - at);

	while (at < end) {
		unsigned char c = (unsigned char)*text;

		if (end - at >= 8 && text_eight_printable(text)) {
			memcpy(out + at, text, 8);
			at += 8;
			text += 8;
			continue;
		}
		out[at++] = c < 0x20 || c == 0x7f ? ' ' : *text;
		text++;
	}
	return at;
}

size_t policy_reply_begin(char *out, const char *action) {
	static const char name[] = "action=";
	size_t length = strlen(action);

	memcpy(out, name, sizeof(name) - 1);
	memcpy(out + sizeof(name) - 1, action, length);
	return sizeof(name) - 1 + length;
}

size_t policy_reply_end(char *out, size_t length) {
	memcpy(out + length, "\n\n", 2);
	return length + 2;
}

size_t policy_reply_write(char *out, size_t size, const char *action,
    const char *text) {
	size_t length = policy_reply_begin(out, action);

	if (text != NULL && text[0] != '\0') {
		out[length++] = ' ';
		length = reply_add(out, size, length, text);
	}
	return policy_reply_end(out, length);
}

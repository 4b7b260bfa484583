/* SPDX-License-Identifier: ISC */
/*
 * A cursor goes over the line once; nothing is copied.  The date is not read:
 * its forms are many, and the program's token is told by its own form.
 */
#include "wire/postfix_log.h"

#include <stdbool.h>
#include <string.h>

#define TOKENS_MAX	9	/* "Nov 21 05:48:22.123 2026 host PROGRAM[1]:", with some to spare */
#define HEADER_MAX	512	/* bytes in which the program stands */
#define QUEUE_ID_MAX	30
#define SECONDS_MAX	999999999

struct cursor {
	const char *at;
	const char *end;
};

static size_t left(const struct cursor *c)
{
	return (size_t)(c->end - c->at);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool begins(const struct cursor *c, const char *text, size_t length)
{
	return left(c) >= length && memcmp(c->at, text, length) == 0;
}

/* Passes over `text`, if it is next. */
#define TAKE(c, text)	take(c, text, sizeof(text) - 1)
static bool take(struct cursor *c, const char *text, size_t length)
{
	if (!begins(c, text, length))
		return false;
	c->at += length;
	return true;
}

static bool is(struct log_span span, const char *text)
{
	return span.length == strlen(text) && memcmp(span.text, text, span.length) == 0;
}

/* Digits up to a number of at most `max`; false: none, or more. */
static bool take_number(struct cursor *c, uint32_t max, uint32_t *out)
{
	uint64_t number = 0;
	const char *start = c->at;

	while (c->at < c->end && is_digit(*c->at)) {
		number = number * 10 + (uint64_t)(*c->at++ - '0');
		if (number > max)
			return false;
	}
	*out = (uint32_t)number;
	return c->at > start;
}

/* "12", "0.02", in milliseconds. */
static bool take_seconds(struct cursor *c, int64_t *ms)
{
	uint32_t seconds;
	int64_t scale = 100;

	if (!take_number(c, SECONDS_MAX, &seconds))
		return false;
	*ms = (int64_t)seconds * 1000;
	if (!TAKE(c, "."))
		return true;
	for (; c->at < c->end && is_digit(*c->at); c->at++, scale /= 10)
		*ms += (*c->at - '0') * scale;
	return true;
}

/* --- the head of a line ---------------------------------------------------- */

static bool is_program_byte(char c)
{
	return is_letter(c) || is_digit(c) || c == '/' || c == '-' || c == '_' || c == '.' ||
	    c == '+';
}

/* "NAME/PROGRAM[PID]:", or "NAME/PROGRAM:" where the name has a part before. */
static bool read_program(struct log_span token, struct postfix_line *out)
{
	struct cursor c = { token.text, token.text + token.length };
	const char *slash = NULL;
	bool numbered;

	while (c.at < c.end && is_program_byte(*c.at)) {
		if (*c.at == '/')
			slash = c.at;
		c.at++;
	}
	out->program = (struct log_span){ token.text, (size_t)(c.at - token.text) };
	out->daemon = slash == NULL ? out->program :
	    (struct log_span){ slash + 1, (size_t)(c.at - slash - 1) };
	out->pid = 0;
	numbered = TAKE(&c, "[") && take_number(&c, INT32_MAX, &out->pid) && TAKE(&c, "]");
	return out->daemon.length > 0 && (numbered || (slash != NULL && out->pid == 0)) &&
	    TAKE(&c, ":") && c.at == c.end;
}

/* "[NAME/PROGRAM]", as some collectors write it. */
static bool read_bracketed(struct log_span token, struct postfix_line *out)
{
	char name[80 + 1];
	size_t length = token.length - 2;

	if (token.length < 3 || token.text[token.length - 1] != ']' || length >= sizeof(name))
		return false;
	memcpy(name, token.text + 1, length);
	name[length] = ':';
	if (!read_program((struct log_span){ name, length + 1 }, out))
		return false;
	out->daemon.text = token.text + 1 + (out->daemon.text - name);
	out->program.text = token.text + 1;
	return out->pid == 0;
}

/* Goes to what the program wrote. */
static bool take_head(struct cursor *c, struct postfix_line *out)
{
	const char *stop = left(c) > HEADER_MAX ? c->at + HEADER_MAX : c->end;
	unsigned tokens = 0;

	while (c->at < stop && tokens < TOKENS_MAX) {
		const char *space = memchr(c->at, ' ', (size_t)(stop - c->at));
		struct log_span token = { c->at, (size_t)((space ? space : stop) - c->at) };

		c->at = space ? space + 1 : stop;
		if (token.length == 0)
			continue;	/* "Nov  1" */
		tokens++;
		if (token.text[0] == '[' ? read_bracketed(token, out) :
		    token.text[token.length - 1] == ':' && read_program(token, out))
			return true;
	}
	return false;
}

/* Solaris: "[ID 197553 mail.info] " */
static void pass_message_id(struct cursor *c)
{
	const char *close;

	if (!begins(c, "[ID ", 4))
		return;
	close = memchr(c->at, ']', left(c));
	if (close != NULL && close + 1 < c->end && close[1] == ' ')
		c->at = close + 2;
}

/* Short ones are hexadecimal, long ones have no vowels (file_id.h of Postfix). */
static void take_queue_id(struct cursor *c, struct log_span *out)
{
	const char *at = c->at;
	bool is_short = true, is_long = true;
	size_t length;

	for (; at < c->end && (is_digit(*at) || is_letter(*at)) &&
	    (is_short || is_long); at++) {
		is_short = is_short && (is_digit(*at) || (*at >= 'A' && *at <= 'F'));
		is_long = is_long && (is_digit(*at) || memchr("aeiouAEIOU", *at, 10) == NULL);
	}
	length = (size_t)(at - c->at);
	*out = (struct log_span){ c->at, 0 };
	if (c->end - at < 2 || at[0] != ':' || at[1] != ' ' || length > QUEUE_ID_MAX ||
	    !((is_short && length >= 3) || (is_long && length >= 10)))
		return;
	out->length = length;
	c->at = at + 2;
}

/* --- a delivery ------------------------------------------------------------ */

/* The inside of < >, up to it. A quoted local part may hold anything; else there
 * is nothing in it that only a quoted one could have. */
static bool take_address(struct cursor *c, struct log_span *out)
{
	const char *start = c->at;
	bool quoted = false;

	for (; c->at < c->end; c->at++) {
		unsigned char byte = (unsigned char)*c->at;

		if (byte < ' ' || byte == 0x7f)
			return false;
		if (byte == '"') {
			quoted = !quoted;
		} else if (quoted) {
			if (byte == '\\' && left(c) > 1)
				c->at++;
		} else if (byte == '>') {
			*out = (struct log_span){ start, (size_t)(c->at++ - start) };
			return true;
		} else if (byte == ' ' || byte == '<' || byte == ',') {
			return false;
		}
	}
	return false;
}

/* Without < >, as anonymizers write it: up to the comma. */
static bool take_bare_address(struct cursor *c, struct log_span *out)
{
	const char *start = c->at;

	for (; c->at < c->end && *c->at != ','; c->at++) {
		unsigned char byte = (unsigned char)*c->at;

		if (byte <= ' ' || byte == 0x7f || byte == '<' || byte == '>' || byte == '"')
			return false;
	}
	*out = (struct log_span){ start, (size_t)(c->at - start) };
	return true;
}

static bool take_any_address(struct cursor *c, struct log_span *out)
{
	return TAKE(c, "<") ? take_address(c, out) : take_bare_address(c, out);
}

/* Behind the last @ that is not quoted. */
static struct log_span domain_of(struct log_span address)
{
	size_t at = address.length;

	while (at > 0 && address.text[at - 1] != '@' && address.text[at - 1] != '"')
		at--;
	if (at == 0 || address.text[at - 1] != '@')
		return (struct log_span){ address.text + address.length, 0 };
	return (struct log_span){ address.text + at, address.length - at };
}

static void read_relay(struct postfix_delivery *d)
{
	const char *end = d->relay.text + d->relay.length;
	const char *open = memchr(d->relay.text, '[', d->relay.length);
	const char *close = open ? memchr(open, ']', (size_t)(end - open)) : NULL;
	struct cursor port;
	uint32_t number;

	if (close == NULL)
		return;
	d->relay_name = (struct log_span){ d->relay.text, (size_t)(open - d->relay.text) };
	(void)address_parse(open + 1, (size_t)(close - open - 1), &d->relay_address);
	port = (struct cursor){ close + 1, end };
	if (TAKE(&port, ":") && take_number(&port, UINT16_MAX, &number) && port.at == end)
		d->relay_port = (uint16_t)number;
}

static bool read_delays(struct cursor *c, struct postfix_delivery *d)
{
	for (int i = 0; i < 4; i++)
		if ((i > 0 && !TAKE(c, "/")) || !take_seconds(c, &d->delays_ms[i]))
			return false;
	return true;
}

static bool read_dsn(struct cursor *c, struct postfix_delivery *d)
{
	for (int i = 0; i < 3; i++) {
		uint32_t number;

		if ((i > 0 && !TAKE(c, ".")) || !take_number(c, 999, &number))
			return false;
		d->dsn[i] = (uint16_t)number;
	}
	return true;
}

static bool read_status(struct cursor *c, struct postfix_delivery *d)
{
	static const struct {
		const char *word;
		enum postfix_status status;
	} words[] = {
		{ "sent", POSTFIX_STATUS_SENT },
		{ "deferred", POSTFIX_STATUS_DEFERRED },
		{ "SOFTBOUNCE", POSTFIX_STATUS_DEFERRED },
		{ "bounced", POSTFIX_STATUS_BOUNCED },
		{ "expired", POSTFIX_STATUS_EXPIRED },
		{ "force-expired", POSTFIX_STATUS_EXPIRED },
	};
	const char *start = c->at;

	while (c->at < c->end && (is_letter(*c->at) || *c->at == '-'))
		c->at++;
	d->status_word = (struct log_span){ start, (size_t)(c->at - start) };
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (is(d->status_word, words[i].word))
			d->status = words[i].status;
	if (d->status_word.length == 0)
		return false;
	if (TAKE(c, " (")) {
		d->text = (struct log_span){ c->at, left(c) };
		if (d->text.length > 0 && c->end[-1] == ')')
			d->text.length--;
		return true;
	}
	/* a cut line may have lost the rest of the word */
	return left(c) > 0 || d->status != POSTFIX_STATUS_OTHER;
}

/* A field between two commas; false: what stands there is no such value. */
static bool read_field(struct log_span key, struct cursor value, struct postfix_delivery *d)
{
	if (is(key, "relay")) {
		if (d->relay.length > 0)
			return false;
		d->relay = (struct log_span){ value.at, left(&value) };
		read_relay(d);
		return d->relay.length > 0;
	}
	if (is(key, "conn_use"))
		return take_number(&value, UINT32_MAX, &d->conn_use) && left(&value) == 0;
	if (is(key, "delay"))
		return take_seconds(&value, &d->delay_ms) && left(&value) == 0;
	if (is(key, "delays"))
		return read_delays(&value, d) && left(&value) == 0;
	if (is(key, "dsn"))
		return read_dsn(&value, d) && left(&value) == 0;
	return true;	/* of a Postfix to come */
}

/* ", key=value" each, and status last. */
static const char *read_fields(struct cursor *c, struct postfix_delivery *d)
{
	while (TAKE(c, ", ")) {
		const char *start = c->at, *comma;
		struct log_span key;

		while (c->at < c->end && (is_letter(*c->at) || *c->at == '_'))
			c->at++;
		key = (struct log_span){ start, (size_t)(c->at - start) };
		if (!TAKE(c, "="))
			return "it ends within its fields";
		if (is(key, "status"))
			return read_status(c, d) ? NULL : "its status is cut";
		comma = memchr(c->at, ',', left(c));
		if (comma == NULL)
			return "it ends within its fields";
		if (!read_field(key, (struct cursor){ c->at, comma }, d))
			return "a field has no value of its kind";
		c->at = comma;
	}
	return "its fields are not separated as they should be";
}

/* Does what looks like the end of the addresses come once more?  Then an address
 * may have ended earlier than we think, or a server's reply plays the same game. */
static bool is_ambiguous(struct cursor c)
{
	static const char end_of_addresses[] = ">, relay=";
	const char *found;

	while ((found = memchr(c.at, '>', left(&c))) != NULL) {
		c.at = found;
		if (begins(&c, end_of_addresses, sizeof(end_of_addresses) - 1))
			return true;
		c.at++;
	}
	return false;
}

/* Returns NULL, or why it is broken. */
static const char *read_delivery(struct cursor c, struct postfix_delivery *d)
{
	memset(d, 0, sizeof(*d));
	d->conn_use = 1;
	if (!take_any_address(&c, &d->recipient))
		return "its recipient is no address, or does not end";
	d->domain = domain_of(d->recipient);
	if (TAKE(&c, ", orig_to=") && !take_any_address(&c, &d->orig_to))
		return "its orig_to is no address, or does not end";
	if (!begins(&c, ", relay=", 8))
		return "no relay stands behind its recipient";
	if (is_ambiguous(c))
		return "it can be read in two ways";
	return read_fields(&c, d);
}

enum postfix_line_kind postfix_log_scan(const char *line, size_t length,
    struct postfix_line *out)
{
	struct cursor c = { line, line + length };

	out->kind = POSTFIX_LINE_FOREIGN;
	out->why = NULL;
	if (!take_head(&c, out))
		return out->kind;
	pass_message_id(&c);
	take_queue_id(&c, &out->queue_id);
	out->message = (struct log_span){ c.at, left(&c) };
	out->kind = POSTFIX_LINE_OTHER;
	if (out->queue_id.length > 0 && TAKE(&c, "to=")) {
		out->why = read_delivery(c, &out->delivery);
		out->kind = out->why ? POSTFIX_LINE_BROKEN : POSTFIX_LINE_DELIVERY;
	}
	return out->kind;
}

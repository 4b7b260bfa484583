/* SPDX-License-Identifier: ISC */
/* Keys are rows of a table: which lines may have them, which must, and where their
 * values go. */
#include "wire/mail/event_line.h"

#include <string.h>

#include "base/text.h"
#include "wire/ask/span.h"
#include "wire/mail/log_cursor.h"

#define SECONDS_MAX	(400 * 86400)	/* of a delay */
#define WALL_MAX	UINT32_MAX		/* seconds since 1970 */

#define SMTP_PORT	25

#define BIT(kind)	(1U << (kind))
#define OF_DELIVERY	BIT(EVENT_LINE_DELIVERY)
#define OF_BOTH		(BIT(EVENT_LINE_DELIVERY) | BIT(EVENT_LINE_START))
#define OF_OPEN		BIT(EVENT_LINE_OPEN)
#define OF_SESSION	(BIT(EVENT_LINE_OPEN) | BIT(EVENT_LINE_CLOSE))

struct reading {
	struct event_line *out;
	struct event_error *error;
	const char *start;		/* of the line */
};

static bool line_refuse(struct reading *r, const char *at, const char *reason) {
	*r->error = (struct event_error){ (size_t)(at - r->start), reason };
	return false;
}

/* --- values --------------------------------------------------------------------- */

/* A key, and what its value is. */
struct key {
	const char *name;
	unsigned of;		/* lines that may have it */
	bool (*set)(const struct key *key, struct span value, void *out);
	size_t at;		/* in struct event_line: where that puts it */
	const char *fault;	/* of a value */
	const char *const *words;	/* set_word: by their numbers, some NULL; the last is "" */
	uint32_t max_s;		/* set_ms */
};

static bool set_text(const struct key *key, struct span value, void *out) {
	(void)key;
	*(struct span *)out = value;
	return true;
}

static bool set_address(const struct key *key, struct span value, void *out) {
	(void)key;
	return address_parse(value.text, value.length, out);
}

static bool set_port(const struct key *key, struct span value, void *out) {
	struct cursor c = { value.text, value.text + value.length };
	uint32_t number;

	(void)key;
	if (!take_number(&c, UINT16_MAX, &number) || c.at != c.end || number == 0)
		return false;
	*(uint16_t *)out = (uint16_t)number;
	return true;
}

static bool set_ms(const struct key *key, struct span value, void *out) {
	struct cursor c = { value.text, value.text + value.length };

	return take_ms(&c, key->max_s, out) && c.at == c.end && is_digit(c.end[-1]);
}

static bool set_dsn(const struct key *key, struct span value, void *out) {
	struct cursor c = { value.text, value.text + value.length };

	(void)key;
	return take_dsn(&c, out) && c.at == c.end;
}

static bool set_recipients(const struct key *key, struct span value, void *out) {
	struct cursor c = { value.text, value.text + value.length };

	(void)key;
	return take_number(&c, 1000000, out) && c.at == c.end && *(uint32_t *)out > 0;
}

/* Of an enum. */
static bool set_word(const struct key *key, struct span value, void *out) {
	for (int i = 0; key->words[i] == NULL || key->words[i][0] != '\0'; i++)
		if (key->words[i] != NULL && span_is(value, key->words[i])) {
			memcpy(out, &i, sizeof(i));
			return true;
		}
	return false;
}

static bool set_relay(const struct key *key, struct span value, void *out) {
	struct delivery *delivery = out;

	(void)key;
	delivery->relay = delivery->relay_name = value;
	if (value.length > 0 && value.text[value.length - 1] == '.')
		delivery->relay_name.length--;
	return true;
}

/* --- keys ------------------------------------------------------------------------ */

static const char *const statuses[] = { [DELIVERY_SENT] = "sent",
	[DELIVERY_DEFERRED] = "deferred", [DELIVERY_BOUNCED] = "bounced",
	[DELIVERY_EXPIRED] = "expired", "" };
static const char *const agents[] = { [AGENT_SMTP] = "remote", [AGENT_LOCAL] = "local",
	[AGENT_ERROR] = "none", "" };
/* As delivery_phase_word: wire/ knows no laws. */
static const char *const phases[] = { NULL, "none", "dns", "connect", "greeting", "ehlo",
	"starttls", "auth", "mail", "rcpt", "data", "end-of-data", "" };

enum { KEY_STATUS, KEY_REPLY, KEY_CLIENT, KEY_CLIENT_PORT };

#define AT(field)	offsetof(struct event_line, field)
#define TIME_FAULT	"is not a time in seconds"

static const struct key keys[] = {
	[KEY_STATUS] = { "status", OF_DELIVERY, set_word, .at = AT(delivery.status),
	    "is not sent, deferred, bounced or expired", .words = statuses },
	[KEY_REPLY] = { "reply", OF_DELIVERY, set_text, .at = AT(delivery.text) },
	[KEY_CLIENT] = { "client", OF_SESSION, set_address, .at = AT(client), "is not an IP address" },
	[KEY_CLIENT_PORT] = { "client_port", OF_SESSION, set_port, .at = AT(client_port), "is not a port" },
	{ "mta", OF_BOTH | OF_SESSION, set_text, .at = AT(mta) },
	{ "recipient", OF_BOTH, set_text, .at = AT(delivery.recipient) },
	{ "domain", OF_BOTH, set_text, .at = AT(delivery.domain) },
	{ "id", OF_BOTH, set_text, .at = AT(delivery.queue_id) },
	{ "relay", OF_BOTH, set_relay, .at = AT(delivery) },
	{ "address", OF_BOTH, set_address, .at = AT(delivery.relay_address), "is not an IP address" },
	{ "port", OF_BOTH, set_port, .at = AT(delivery.relay_port), "is not a port" },
	{ "dsn", OF_DELIVERY, set_dsn, .at = AT(delivery.dsn), "is not a status code such as 4.7.0" },
	{ "phase", OF_DELIVERY, set_word, .at = AT(delivery.phase), "is not a phase of a delivery",
	    .words = phases },
	{ "delay", OF_DELIVERY, set_ms, .at = AT(delivery.delay_ms), TIME_FAULT, .max_s = SECONDS_MAX },
	{ "connect", OF_DELIVERY, set_ms, .at = AT(delivery.delays_ms[2]), TIME_FAULT, .max_s = SECONDS_MAX },
	{ "send", OF_DELIVERY, set_ms, .at = AT(delivery.delays_ms[3]), TIME_FAULT, .max_s = SECONDS_MAX },
	{ "recipients", OF_DELIVERY, set_recipients, .at = AT(delivery.recipients),
	    "is not a number from 1 to 1000000" },
	{ "ended", OF_DELIVERY, set_ms, .at = AT(ended_ms), TIME_FAULT " since 1970", .max_s = WALL_MAX },
	{ "agent", OF_DELIVERY, set_word, .at = AT(delivery.agent), "is not remote, local or none",
	    .words = agents },
	{ "server", OF_SESSION, set_address, .at = AT(server), "is not an IP address" },
	{ "server_port", OF_SESSION, set_port, .at = AT(server_port), "is not a port" },
	{ "name", OF_OPEN, set_text, .at = AT(name) },
};
#define KEY_COUNT	(sizeof(keys) / sizeof(keys[0]))

static const struct key *find_key(struct span name) {
	for (size_t i = 0; i < KEY_COUNT; i++)
		if (span_is(name, keys[i].name))
			return &keys[i];
	return NULL;
}

/* Decodes in place.  NULL with the error set, or the end of what it became. */
static char *value_decode(struct reading *r, char *value, char *end) {
	char *to = value;

	for (char *at = value; at < end; at++) {
		int byte;

		if (*at != '%') {
			*to++ = *at;
			continue;
		}
		byte = text_hex_byte(at + 1, end);
		if (byte <= 0) {
			(void)line_refuse(r, at, "a % must be followed by two hexadecimal digits "
			    "other than 00");
			return NULL;
		}
		*to++ = (char)byte;
		at += 2;
	}
	return to;
}

/* One word, KEY=VALUE. */
static bool read_pair(struct reading *r, char *word, char *end, unsigned *seen) {
	char *equals = memchr(word, '=', (size_t)(end - word)), *value_end;
	const struct key *key;

	if (equals == NULL)
		return line_refuse(r, word, "not KEY=VALUE");
	key = find_key(span_of(word, equals));
	if (key == NULL)
		return line_refuse(r, word, "unknown key");
	if ((key->of & BIT(r->out->kind)) == 0)
		return line_refuse(r, word, "this key is not allowed in such a line");
	if ((*seen & BIT(key - keys)) != 0)
		return line_refuse(r, word, "duplicate key");
	*seen |= BIT(key - keys);
	value_end = value_decode(r, equals + 1, end);
	if (value_end == NULL)
		return false;
	if (value_end == equals + 1 && key != &keys[KEY_REPLY])
		return line_refuse(r, equals + 1, "the value is empty");
	return key->set(key, span_of(equals + 1, value_end), (char *)r->out + key->at) ||
	    line_refuse(r, equals + 1, key->fault);
}

static bool is_whole(struct reading *r, unsigned seen) {
	struct event_line *out = r->out;

	if (out->delivery.relay_port == 0 && (out->delivery.relay_name.length > 0 ||
	    !address_is_unknown(&out->delivery.relay_address)))
		out->delivery.relay_port = SMTP_PORT;
	switch (out->kind) {
	case EVENT_LINE_DELIVERY:
		if ((seen & BIT(KEY_STATUS)) == 0)
			return line_refuse(r, r->start, "a delivery needs a status");
		/* fall through */
	case EVENT_LINE_START:
		if (out->delivery.domain.length == 0 && out->delivery.recipient.length > 0)
			out->delivery.domain = domain_of(out->delivery.recipient);
		return out->delivery.domain.length > 0 ||
		    line_refuse(r, r->start, "a recipient with a domain, or a domain, is required");
	case EVENT_LINE_OPEN:
	case EVENT_LINE_CLOSE:
		return ((seen & BIT(KEY_CLIENT)) != 0 && (seen & BIT(KEY_CLIENT_PORT)) != 0) ||
		    line_refuse(r, r->start, "a session needs client and client_port");
	default:
		return true;
	}
}

static bool read_pairs(struct reading *r, char *at, char *end) {
	struct delivery *d = &r->out->delivery;
	unsigned seen = 0;

	*d = (struct delivery){ .source = DELIVERY_OF_OTHER, .agent = AGENT_SMTP,
		.delay_ms = DELIVERY_MS_UNKNOWN, .delays_ms = { DELIVERY_MS_UNKNOWN,
		DELIVERY_MS_UNKNOWN, DELIVERY_MS_UNKNOWN, DELIVERY_MS_UNKNOWN },
		.conn_use = 1, .recipients = 1, .status = DELIVERY_STATUS_OTHER };
	while (at < end) {
		char *space = memchr(at, ' ', (size_t)(end - at));
		char *word_end = space == NULL ? end : space;

		if (!read_pair(r, at, word_end, &seen))
			return false;
		if (space != NULL && space + 1 == end)
			return line_refuse(r, space, "the line ends with a blank");
		at = space == NULL ? end : space + 1;
	}
	return is_whole(r, seen);
}

/* "log MTA LINE" */
static bool read_log(struct reading *r, char *at, char *end) {
	char *space = memchr(at, ' ', (size_t)(end - at));

	if (space == NULL || space == at)
		return line_refuse(r, at, "a log line must follow a mail server's name, or *");
	if (space - at != 1 || *at != '*')
		r->out->mta = span_of(at, space);
	r->out->text = span_of(space + 1, end);
	return true;
}

/* "source NAME [N]" */
static bool read_source(struct reading *r, char *at, char *end) {
	char *space = memchr(at, ' ', (size_t)(end - at));
	struct cursor c = { space == NULL ? end : space + 1, end };

	r->out->text = span_of(at, space == NULL ? end : space);
	if (r->out->text.length == 0 || r->out->text.length > EVENT_SOURCE_MAX)
		return line_refuse(r, at, "a source needs a name of at most 64 bytes");
	for (; c.at < c.end && is_digit(*c.at) && r->out->number < UINT64_C(1) << 59; c.at++)
		r->out->number = r->out->number * 10 + (uint64_t)(*c.at - '0');
	return c.at == c.end ? space == NULL || space + 1 < end ||
	    line_refuse(r, space, "the line ends with a blank") :
	    line_refuse(r, c.at, "a number must follow a source's name");
}

static const struct {
	const char *word;
	enum event_line_kind kind;
} verbs[] = {
	{ "delivery", EVENT_LINE_DELIVERY }, { "start", EVENT_LINE_START },
	{ "open", EVENT_LINE_OPEN }, { "close", EVENT_LINE_CLOSE },
	{ "log", EVENT_LINE_LOG }, { "sync", EVENT_LINE_SYNC },
	{ "source", EVENT_LINE_SOURCE },
};

static bool find_verb(struct span word, enum event_line_kind *kind) {
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (span_is(word, verbs[i].word)) {
			*kind = verbs[i].kind;
			return true;
		}
	return false;
}

static const char *find_control(const char *at, const char *end) {
	while (at < end && !is_control(*at))
		at++;
	return at < end ? at : NULL;
}

bool event_line_read(char *line, size_t length, struct event_line *out,
    struct event_error *error) {
	struct reading r = { out, error, line };
	char *end = line + length, *space = memchr(line, ' ', length);
	char *rest = space == NULL ? end : space + 1;
	const char *control;

	*out = (struct event_line){ .kind = EVENT_LINE_NOTHING };
	if (length == 0 || *line == '#')
		return true;
	if (length > EVENT_WHOLE_MAX)
		return line_refuse(&r, line + EVENT_WHOLE_MAX, "the line is too long");
	if (!find_verb(span_of(line, space == NULL ? end : space), &out->kind))
		return line_refuse(&r, line, "unknown kind of line");
	if (out->kind == EVENT_LINE_LOG)
		return read_log(&r, rest, end);
	if (length > EVENT_LINE_MAX)
		return line_refuse(&r, line + EVENT_LINE_MAX, "the line is too long");
	control = find_control(line, end);
	if (control != NULL)
		return line_refuse(&r, control, "the line has a control character");
	if (out->kind == EVENT_LINE_SYNC)
		return space == NULL || line_refuse(&r, space, "nothing may follow sync");
	if (out->kind == EVENT_LINE_SOURCE)
		return read_source(&r, rest, end);
	return read_pairs(&r, rest, end);
}

/* SPDX-License-Identifier: ISC */
/* Keys are rows of a table: which lines may have them, which must, and where their
 * values go. */
#include "wire/mail/event_line.h"

#include <string.h>

#include "wire/mail/log_cursor.h"

#define SECONDS_MAX	(INT64_C(400) * 86400)	/* of a delay */
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

static bool refuse(struct reading *r, const char *at, const char *reason) {
	*r->error = (struct event_error){ (size_t)(at - r->start), reason };
	return false;
}

/* --- values --------------------------------------------------------------------- */

static bool set_address(struct span value, struct address *out) {
	return address_parse(value.text, value.length, out);
}

static bool set_port(struct span value, uint16_t *out) {
	struct cursor c = { value.text, value.text + value.length };
	uint32_t number;

	if (!take_number(&c, UINT16_MAX, &number) || c.at != c.end || number == 0)
		return false;
	*out = (uint16_t)number;
	return true;
}

/* Seconds, with decimals, in ms. */
static bool set_ms(struct span value, int64_t max_s, int64_t *out) {
	struct cursor c = { value.text, value.text + value.length };
	int64_t scale = 100;
	uint32_t seconds;

	if (!take_number(&c, UINT32_MAX, &seconds) || seconds > max_s)
		return false;
	*out = (int64_t)seconds * 1000;
	if (c.at == c.end)
		return true;
	if (!TAKE(&c, ".") || c.at == c.end)
		return false;
	for (; c.at < c.end && is_digit(*c.at); c.at++, scale /= 10)
		*out += (*c.at - '0') * scale;
	return c.at == c.end;
}

static bool set_dsn(struct span value, uint16_t dsn[3]) {
	struct cursor c = { value.text, value.text + value.length };

	return take_dsn(&c, dsn) && c.at == c.end;
}

static bool set_recipients(struct span value, uint32_t *out) {
	struct cursor c = { value.text, value.text + value.length };

	return take_number(&c, 1000000, out) && c.at == c.end && *out > 0;
}

static bool find_word(struct span value, const char *const *words, unsigned *place) {
	for (*place = 0; words[*place] != NULL; ++*place)
		if (strlen(words[*place]) == value.length &&
		    memcmp(words[*place], value.text, value.length) == 0)
			return true;
	return false;
}

static bool set_status(struct span value, enum delivery_status *out) {
	static const char *const words[] = { "sent", "deferred", "bounced", "expired", NULL };
	static const enum delivery_status statuses[] = { DELIVERY_SENT, DELIVERY_DEFERRED,
		DELIVERY_BOUNCED, DELIVERY_EXPIRED };
	unsigned place;

	if (!find_word(value, words, &place))
		return false;
	*out = statuses[place];
	return true;
}

static bool set_agent(struct span value, enum delivery_agent *out) {
	static const char *const words[] = { "remote", "local", "none", NULL };
	static const enum delivery_agent agents[] = { AGENT_SMTP, AGENT_LOCAL, AGENT_ERROR };
	unsigned place;

	if (!find_word(value, words, &place))
		return false;
	*out = agents[place];
	return true;
}

/* As delivery_phase_word: wire/ knows no laws. */
static bool set_phase(struct span value, enum delivery_phase *out) {
	static const char *const words[] = { "none", "dns", "connect", "greeting", "ehlo",
		"starttls", "auth", "mail", "rcpt", "data", "end-of-data", NULL };
	unsigned place;

	if (!find_word(value, words, &place))
		return false;
	*out = (enum delivery_phase)(place + 1);
	return true;
}

static bool set_relay(struct span value, struct delivery *out) {
	out->relay = out->relay_name = value;
	if (value.length > 0 && value.text[value.length - 1] == '.')
		out->relay_name.length--;
	return true;
}

/* --- keys ------------------------------------------------------------------------ */

enum key { KEY_MTA, KEY_STATUS, KEY_RECIPIENT, KEY_DOMAIN, KEY_ID, KEY_RELAY, KEY_ADDRESS,
	KEY_PORT, KEY_DSN, KEY_REPLY, KEY_PHASE, KEY_DELAY, KEY_CONNECT, KEY_SEND, KEY_RECIPIENTS,
	KEY_ENDED, KEY_AGENT, KEY_CLIENT, KEY_CLIENT_PORT, KEY_SERVER, KEY_SERVER_PORT,
	KEY_NAME, KEY_COUNT };

static const struct {
	const char *name;
	unsigned of;		/* lines that may have it */
	const char *fault;	/* of a value */
} keys[KEY_COUNT] = {
	[KEY_MTA] = { "mta", OF_BOTH | OF_SESSION, NULL },
	[KEY_STATUS] = { "status", OF_DELIVERY, "is not sent, deferred, bounced or expired" },
	[KEY_RECIPIENT] = { "recipient", OF_BOTH, NULL },
	[KEY_DOMAIN] = { "domain", OF_BOTH, NULL },
	[KEY_ID] = { "id", OF_BOTH, NULL },
	[KEY_RELAY] = { "relay", OF_BOTH, NULL },
	[KEY_ADDRESS] = { "address", OF_BOTH, "is not an IP address" },
	[KEY_PORT] = { "port", OF_BOTH, "is not a port" },
	[KEY_DSN] = { "dsn", OF_DELIVERY, "is not a status code such as 4.7.0" },
	[KEY_REPLY] = { "reply", OF_DELIVERY, NULL },
	[KEY_PHASE] = { "phase", OF_DELIVERY, "is not a phase of a delivery" },
	[KEY_DELAY] = { "delay", OF_DELIVERY, "is not a time in seconds" },
	[KEY_CONNECT] = { "connect", OF_DELIVERY, "is not a time in seconds" },
	[KEY_SEND] = { "send", OF_DELIVERY, "is not a time in seconds" },
	[KEY_RECIPIENTS] = { "recipients", OF_DELIVERY, "is not a number from 1 to 1000000" },
	[KEY_ENDED] = { "ended", OF_DELIVERY, "is not a time in seconds since 1970" },
	[KEY_AGENT] = { "agent", OF_DELIVERY, "is not remote, local or none" },
	[KEY_CLIENT] = { "client", OF_SESSION, "is not an IP address" },
	[KEY_CLIENT_PORT] = { "client_port", OF_SESSION, "is not a port" },
	[KEY_SERVER] = { "server", OF_SESSION, "is not an IP address" },
	[KEY_SERVER_PORT] = { "server_port", OF_SESSION, "is not a port" },
	[KEY_NAME] = { "name", OF_OPEN, NULL },
};

static bool set_delivery(enum key key, struct span value, struct event_line *out) {
	struct delivery *d = &out->delivery;

	switch (key) {
	case KEY_STATUS:
		return set_status(value, &d->status);
	case KEY_RECIPIENT:
		d->recipient = value;
		return true;
	case KEY_DOMAIN:
		d->domain = value;
		return true;
	case KEY_ID:
		d->queue_id = value;
		return true;
	case KEY_RELAY:
		return set_relay(value, d);
	case KEY_ADDRESS:
		return set_address(value, &d->relay_address);
	case KEY_PORT:
		return set_port(value, &d->relay_port);
	case KEY_DSN:
		return set_dsn(value, d->dsn);
	case KEY_REPLY:
		d->text = value;
		return true;
	case KEY_PHASE:
		return set_phase(value, &d->phase);
	case KEY_DELAY:
		return set_ms(value, SECONDS_MAX, &d->delay_ms);
	case KEY_CONNECT:
		return set_ms(value, SECONDS_MAX, &d->delays_ms[2]);
	case KEY_SEND:
		return set_ms(value, SECONDS_MAX, &d->delays_ms[3]);
	case KEY_RECIPIENTS:
		return set_recipients(value, &d->recipients);
	case KEY_ENDED:
		return set_ms(value, WALL_MAX, &out->ended_ms);
	case KEY_AGENT:
		return set_agent(value, &d->agent);
	default:
		return false;
	}
}

static bool set_value(enum key key, struct span value, struct event_line *out) {
	switch (key) {
	case KEY_MTA:
		out->mta = value;
		return true;
	case KEY_CLIENT:
		return set_address(value, &out->client);
	case KEY_CLIENT_PORT:
		return set_port(value, &out->client_port);
	case KEY_SERVER:
		return set_address(value, &out->server);
	case KEY_SERVER_PORT:
		return set_port(value, &out->server_port);
	case KEY_NAME:
		out->name = value;
		return true;
	default:
		return set_delivery(key, value, out);
	}
}

static bool find_key(struct span name, enum key *key) {
	for (*key = 0; *key < KEY_COUNT; ++*key)
		if (strlen(keys[*key].name) == name.length &&
		    memcmp(keys[*key].name, name.text, name.length) == 0)
			return true;
	return false;
}

static int digit_of(char c) {
	return is_digit(c) ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 :
	    c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes in place.  NULL with the error set, or the end of what it became. */
static char *decode(struct reading *r, char *value, char *end) {
	char *to = value;

	for (char *at = value; at < end; at++) {
		int high, low;

		if (*at != '%') {
			*to++ = *at;
			continue;
		}
		high = end - at > 2 ? digit_of(at[1]) : -1;
		low = high < 0 ? -1 : digit_of(at[2]);
		if (low < 0 || high * 16 + low == 0) {
			(void)refuse(r, at, "a % must be followed by two hexadecimal digits "
			    "other than 00");
			return NULL;
		}
		*to++ = (char)(high * 16 + low);
		at += 2;
	}
	return to;
}

/* One word, KEY=VALUE. */
static bool read_pair(struct reading *r, char *word, char *end, unsigned *seen) {
	char *equals = memchr(word, '=', (size_t)(end - word)), *value_end;
	enum key key;

	if (equals == NULL)
		return refuse(r, word, "not KEY=VALUE");
	if (!find_key(span_of(word, equals), &key))
		return refuse(r, word, "unknown key");
	if ((keys[key].of & BIT(r->out->kind)) == 0)
		return refuse(r, word, "this key is not allowed in such a line");
	if ((*seen & BIT(key)) != 0)
		return refuse(r, word, "duplicate key");
	*seen |= BIT(key);
	value_end = decode(r, equals + 1, end);
	if (value_end == NULL)
		return false;
	if (value_end == equals + 1 && key != KEY_REPLY)
		return refuse(r, equals + 1, "the value is empty");
	return set_value(key, span_of(equals + 1, value_end), r->out) ||
	    refuse(r, equals + 1, keys[key].fault);
}

static bool is_whole(struct reading *r, unsigned seen) {
	struct event_line *out = r->out;

	if (out->delivery.relay_port == 0 && (out->delivery.relay_name.length > 0 ||
	    !address_is_unknown(&out->delivery.relay_address)))
		out->delivery.relay_port = SMTP_PORT;
	switch (out->kind) {
	case EVENT_LINE_DELIVERY:
		if ((seen & BIT(KEY_STATUS)) == 0)
			return refuse(r, r->start, "a delivery needs a status");
		/* fall through */
	case EVENT_LINE_START:
		if (out->delivery.domain.length == 0 && out->delivery.recipient.length > 0)
			out->delivery.domain = domain_of(out->delivery.recipient);
		return out->delivery.domain.length > 0 ||
		    refuse(r, r->start, "a recipient with a domain, or a domain, is required");
	case EVENT_LINE_OPEN:
	case EVENT_LINE_CLOSE:
		return ((seen & BIT(KEY_CLIENT)) != 0 && (seen & BIT(KEY_CLIENT_PORT)) != 0) ||
		    refuse(r, r->start, "a session needs client and client_port");
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
			return refuse(r, space, "the line ends with a blank");
		at = space == NULL ? end : space + 1;
	}
	return is_whole(r, seen);
}

/* "log MTA LINE" */
static bool read_log(struct reading *r, char *at, char *end) {
	char *space = memchr(at, ' ', (size_t)(end - at));

	if (space == NULL || space == at)
		return refuse(r, at, "a log line must follow a mail server's name, or *");
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
		return refuse(r, at, "a source needs a name of at most 64 bytes");
	for (; c.at < c.end && is_digit(*c.at) && r->out->number < UINT64_C(1) << 59; c.at++)
		r->out->number = r->out->number * 10 + (uint64_t)(*c.at - '0');
	return c.at == c.end ? space == NULL || space + 1 < end ||
	    refuse(r, space, "the line ends with a blank") :
	    refuse(r, c.at, "a number must follow a source's name");
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
		if (strlen(verbs[i].word) == word.length &&
		    memcmp(verbs[i].word, word.text, word.length) == 0) {
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
		return refuse(&r, line + EVENT_WHOLE_MAX, "the line is too long");
	if (!find_verb(span_of(line, space == NULL ? end : space), &out->kind))
		return refuse(&r, line, "unknown kind of line");
	if (out->kind == EVENT_LINE_LOG)
		return read_log(&r, rest, end);
	if (length > EVENT_LINE_MAX)
		return refuse(&r, line + EVENT_LINE_MAX, "the line is too long");
	control = find_control(line, end);
	if (control != NULL)
		return refuse(&r, control, "the line has a control character");
	if (out->kind == EVENT_LINE_SYNC)
		return space == NULL || refuse(&r, space, "nothing may follow sync");
	if (out->kind == EVENT_LINE_SOURCE)
		return read_source(&r, rest, end);
	return read_pairs(&r, rest, end);
}

/* SPDX-License-Identifier: ISC */
/* A cursor goes over the line once; nothing is copied. */
#include "wire/mail/postfix_log.h"

#include "wire/mail/log_cursor.h"

#define QUEUE_ID_MAX	30
#define SECONDS_MAX	999999999

/* Short ones are hexadecimal, long ones have no vowels (file_id.h of Postfix). */
static void take_queue_id(struct cursor *c, struct span *out) {
	const char *at = c->at;
	bool is_short = true, is_long = true;
	size_t length;

	for (; at < c->end && (is_digit(*at) || is_letter(*at)) &&
	    (is_short || is_long); at++) {
		is_short = is_short && (is_digit(*at) || (*at >= 'A' && *at <= 'F'));
		is_long = is_long && (is_digit(*at) || memchr("aeiouAEIOU", *at, 10) == NULL);
	}
	length = (size_t)(at - c->at);
	*out = (struct span){ c->at, 0 };
	if (c->end - at < 2 || at[0] != ':' || at[1] != ' ' || length > QUEUE_ID_MAX ||
	    !((is_short && length >= 3) || (is_long && length >= 10)))
		return;
	out->length = length;
	c->at = at + 2;
}

/* --- addresses ------------------------------------------------------------- */

/* The inside of < >, up to it. A quoted local part may hold anything; else there
 * is nothing in it that only a quoted one could have, but for a blank. */
static bool take_address(struct cursor *c, struct span *out) {
	const char *start = c->at;
	bool quoted = false;

	for (; c->at < c->end; c->at++) {
		char byte = *c->at;

		if (is_control(byte))
			return false;
		if (byte == '"') {
			quoted = !quoted;
		} else if (quoted) {
			if (byte == '\\' && left(c) > 1)
				c->at++;
		} else if (byte == '>') {
			*out = span_of(start, c->at++);
			return true;
		} else if (byte == '<' || byte == ',') {
			return false;
		}
	}
	return false;
}

/* Without < >, as anonymizers write it: up to the comma. */
static bool take_bare_address(struct cursor *c, struct span *out) {
	const char *start = c->at;

	for (; c->at < c->end && *c->at != ','; c->at++) {
		char byte = *c->at;

		if (byte == ' ' || is_control(byte) || byte == '<' || byte == '>' || byte == '"' ||
		    byte == '\\')
			return false;
	}
	*out = span_of(start, c->at);
	return true;
}

static bool take_any_address(struct cursor *c, struct span *out) {
	return TAKE(c, "<") ? take_address(c, out) : take_bare_address(c, out);
}

/* "NAME[ADDRESS]" or "NAME[ADDRESS]:PORT", all of it; false: no such thing, but what
 * could be read is set. */
static bool read_host(struct span text, struct span *name, struct address *address,
    uint16_t *port) {
	const char *end = text.text + text.length;
	const char *open = memchr(text.text, '[', text.length);
	const char *close = open ? memchr(open, ']', (size_t)(end - open)) : NULL;
	struct cursor c;
	uint32_t number;

	if (close == NULL)
		return false;
	*name = span_of(text.text, open);
	if (name->length > 0 && open[-1] == '.')
		name->length--;
	c = (struct cursor){ close + 1, end };
	if (TAKE(&c, ":") && take_number(&c, UINT16_MAX, &number) && c.at == end)
		*port = (uint16_t)number;
	return address_parse(open + 1, (size_t)(close - open - 1), address) && c.at == end;
}

/* --- a delivery ------------------------------------------------------------ */

static bool read_delays(struct cursor *c, struct delivery *d) {
	for (int i = 0; i < 4; i++)
		if ((i > 0 && !TAKE(c, "/")) || !take_ms(c, SECONDS_MAX, &d->delays_ms[i]))
			return false;
	return true;
}

static enum delivery_status status_of(struct span word) {
	static const struct {
		const char *word;
		enum delivery_status status;
	} words[] = {
		{ "sent", DELIVERY_SENT },
		{ "deferred", DELIVERY_DEFERRED },
		{ "bounced", DELIVERY_BOUNCED },
		{ "SOFTBOUNCE", DELIVERY_DEFERRED },
		{ "expired", DELIVERY_EXPIRED },
		{ "force-expired", DELIVERY_EXPIRED },
		{ "deliverable", DELIVERY_DELIVERABLE },
		{ "undeliverable", DELIVERY_UNDELIVERABLE },
		{ "undeliverable-but-not-cached", DELIVERY_UNDELIVERABLE },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (word.length == strlen(words[i].word) &&
		    memcmp(word.text, words[i].word, word.length) == 0)
			return words[i].status;
	return DELIVERY_STATUS_OTHER;
}

static bool read_status(struct cursor *c, struct log_line *line) {
	const char *start = c->at;
	struct delivery *d = &line->delivery;

	while (c->at < c->end && (is_letter(*c->at) || *c->at == '-'))
		c->at++;
	line->status_word = span_of(start, c->at);
	d->status = status_of(line->status_word);
	if (line->status_word.length == 0)
		return false;
	if (TAKE(c, " (")) {
		d->text = span_of(c->at, c->end);
		if (d->text.length > 0 && c->end[-1] == ')')
			d->text.length--;
		return true;
	}
	/* a cut line may have lost the rest of the word */
	return left(c) > 0 || d->status != DELIVERY_STATUS_OTHER;
}

/* A field between two commas; false: what stands there is no such value. */
static bool read_field(struct span key, struct cursor value, struct delivery *d) {
	if (SPAN_IS(key, "relay")) {
		if (d->relay.length > 0)
			return false;
		d->relay = span_of(value.at, value.end);
		(void)read_host(d->relay, &d->relay_name, &d->relay_address, &d->relay_port);
		return d->relay.length > 0;
	}
	if (SPAN_IS(key, "conn_use"))
		return take_number(&value, UINT32_MAX, &d->conn_use) && left(&value) == 0;
	if (SPAN_IS(key, "delay"))
		return take_ms(&value, SECONDS_MAX, &d->delay_ms) && left(&value) == 0;
	if (SPAN_IS(key, "delays"))
		return read_delays(&value, d) && left(&value) == 0;
	if (SPAN_IS(key, "dsn"))
		return take_dsn(&value, d->dsn) && left(&value) == 0;
	return true;	/* of a Postfix to come */
}

/* ", key=value" each, and status last. */
static const char *read_fields(struct cursor *c, struct log_line *line) {
	while (TAKE(c, ", ")) {
		const char *start = c->at, *comma;
		struct span key;

		while (c->at < c->end && (is_letter(*c->at) || is_digit(*c->at) || *c->at == '_' ||
		    *c->at == '-'))
			c->at++;
		key = span_of(start, c->at);
		if (!TAKE(c, "="))
			return "it ends within its fields";
		if (SPAN_IS(key, "status"))
			return read_status(c, line) ? NULL : "its status is incomplete";
		comma = memchr(c->at, ',', left(c));
		if (comma == NULL)
			return "it ends within its fields";
		if (!read_field(key, (struct cursor){ c->at, comma }, &line->delivery))
			return "a field has an invalid value";
		c->at = comma;
	}
	return "its fields are not separated correctly";
}

/* Does what looks like the end of the addresses come once more?  Then an address
 * may have ended earlier than we think, or a server's reply plays the same game.  It
 * does not, where no field could stand there: a relay has no blank in it. */
static bool is_ambiguous(struct cursor c) {
	static const char end_of_addresses[] = ">, relay=";
	const char *found;

	while ((found = memchr(c.at, '>', left(&c))) != NULL) {
		c.at = found;
		if (!take(&c, end_of_addresses, sizeof(end_of_addresses) - 1)) {
			c.at++;
			continue;
		}
		while (c.at < c.end && *c.at != ' ' && *c.at != ',')
			c.at++;
		if (c.at == c.end || *c.at == ',')
			return true;
	}
	return false;
}

/* Does the relay lie behind a network?  lmtp may speak to a socket in a directory:
 * "host[private/lmtp]", or "connect to host[/run/lmtp]: ..." where it did not come
 * so far. */
static bool is_remote(const struct delivery *d) {
	struct cursor c = { d->text.text, d->text.text + d->text.length };
	const char *open;

	if (!address_is_unknown(&d->relay_address) || memchr(d->relay.text, '[', d->relay.length))
		return !address_is_unknown(&d->relay_address);
	open = memchr(c.at, '[', left(&c));
	if (open == NULL)
		return true;
	c.at = open + 1;
	return !BEGINS(&c, "/") && !BEGINS(&c, "private/") && !BEGINS(&c, "public/");
}

static enum delivery_agent agent_of(struct span daemon, const struct delivery *d) {
	if (daemon.length >= 4 && memcmp(daemon.text, "smtp", 4) == 0)
		return AGENT_SMTP;
	if (SPAN_IS(daemon, "error") || SPAN_IS(daemon, "retry"))
		return AGENT_ERROR;
	if (SPAN_IS(daemon, "qmgr") || SPAN_IS(daemon, "nqmgr") || SPAN_IS(daemon, "oqmgr"))
		return AGENT_QUEUE;
	if (daemon.length >= 4 && memcmp(daemon.text, "lmtp", 4) == 0 && is_remote(d))
		return AGENT_SMTP;
	return AGENT_LOCAL;
}

static void delivery_begin(struct log_line *line) {
	const char *nowhere = line->message.text;

	begin_delivery(&line->delivery, nowhere);
	line->delivery.source = DELIVERY_OF_POSTFIX;
	line->delivery.program = line->program;
	line->delivery.queue_id = line->queue_id;
	line->delivery.recipients = 1;
	line->orig_to = (struct span){ nowhere, 0 };
	line->status_word = (struct span){ nowhere, 0 };
}

/* qmgr gives up: "from=<SENDER>, status=expired, returned to sender", of all that is
 * left of a message. */
static bool read_expired(struct cursor c, struct log_line *line) {
	struct span sender;

	if (!take_any_address(&c, &sender) || !TAKE(&c, ", status="))
		return false;
	delivery_begin(line);
	line->delivery.agent = AGENT_QUEUE;
	line->status_word = span_of(c.at, c.at);
	while (c.at < c.end && (is_letter(*c.at) || *c.at == '-'))
		c.at++;
	line->status_word.length = (size_t)(c.at - line->status_word.text);
	line->delivery.status = status_of(line->status_word);
	if (TAKE(&c, ", "))
		line->delivery.text = span_of(c.at, c.end);
	return line->delivery.status == DELIVERY_EXPIRED;
}

/* --- sessions -------------------------------------------------------------- */

/* Up to a blank: "NAME[ADDRESS]", perhaps ":PORT" and a colon or a comma. */
static bool read_client(struct cursor *c, struct log_session *session) {
	struct span client = { c->at, 0 };
	const char *blank = memchr(c->at, ' ', left(c));

	client.length = (size_t)((blank ? blank : c->end) - c->at);
	while (client.length > 0 && (client.text[client.length - 1] == ':' ||
	    client.text[client.length - 1] == ','))
		client.length--;
	if (!read_host(client, &session->name, &session->address, &session->port) &&
	    session->name.length == 0)
		return false;
	if (SPAN_IS(session->name, "unknown"))
		session->name.length = 0;
	return true;
}

/* "... from NAME[ADDRESS]": what stands before is smtpd's own. */
static bool read_client_behind_from(struct cursor *c, struct log_session *session) {
	const char *from = FIND(c, " from ");

	if (from == NULL)
		return false;
	c->at = from + sizeof(" from ") - 1;
	return read_client(c, session);
}

static bool read_smtpd(struct cursor c, struct log_session *out) {
	if (TAKE(&c, "connect from ")) {
		out->event = LOG_SESSION_CONNECT;
		return read_client(&c, out);
	}
	if (TAKE(&c, "disconnect from ")) {
		out->event = LOG_SESSION_DISCONNECT;
		return read_client(&c, out);
	}
	out->event = LOG_SESSION_LOST;
	(void)TAKE(&c, "NOQUEUE: ");
	if (TAKE(&c, "lost connection after ") || TAKE(&c, "timeout after ") ||
	    TAKE(&c, "too many errors after "))
		return read_client_behind_from(&c, out);
	out->event = LOG_SESSION_REFUSED;
	if (TAKE(&c, "warning: Connection concurrency limit exceeded: ") ||
	    TAKE(&c, "warning: Connection rate limit exceeded: "))
		return read_client_behind_from(&c, out);
	return false;
}

static bool read_postscreen(struct cursor c, struct log_session *out) {
	out->postscreen = true;
	if (TAKE(&c, "CONNECT from "))
		out->event = LOG_SESSION_CONNECT;
	else if (TAKE(&c, "DISCONNECT "))
		out->event = LOG_SESSION_DISCONNECT;
	else if (TAKE(&c, "PASS OLD ") || TAKE(&c, "PASS NEW ") || TAKE(&c, "WHITELISTED ") ||
	    TAKE(&c, "ALLOWLISTED "))
		out->event = LOG_SESSION_PASSED;
	else if (TAKE(&c, "NOQUEUE: reject: CONNECT from "))
		out->event = LOG_SESSION_REFUSED;
	else
		return false;
	return read_client(&c, out);
}

static bool read_session(struct cursor c, struct log_line *line) {
	memset(&line->session, 0, sizeof(line->session));
	if (SPAN_IS(line->daemon, "smtpd"))
		return read_smtpd(c, &line->session);
	if (SPAN_IS(line->daemon, "postscreen"))
		return read_postscreen(c, &line->session);
	return false;
}

/* "<SENDER>, size=N, nrcpt=N (queue active)"; the sender may hold any of that, too. */
static bool read_active(struct cursor c, struct log_line *line) {
	static const char end[] = " (queue active)", size[] = ">, size=";
	size_t length = (size_t)(c.end - c.at);
	const char *at;

	if (length < sizeof(end) - 1 || memcmp(c.end - (sizeof(end) - 1), end,
	    sizeof(end) - 1) != 0 || !TAKE(&c, "<"))
		return false;
	for (at = c.end - (sizeof(size) - 1); at >= c.at; at--)
		if (memcmp(at, size, sizeof(size) - 1) == 0) {
			line->sender = span_of(c.at, at);
			return true;
		}
	return false;
}

/* What is no delivery to somebody. */
static enum log_line_kind kind_of_other(struct cursor c, struct log_line *line) {
	bool begun = line->queue_id.length > 0;

	if (!begun || SPAN_IS(line->daemon, "smtpd"))
		/* of a message begun: how its session ended, since Postfix 3.10 */
		return read_session(c, line) && (!begun || line->session.event ==
		    LOG_SESSION_LOST) ? LOG_LINE_SESSION : LOG_LINE_OTHER;
	if (SPAN_IS(line->message, "removed"))
		return LOG_LINE_REMOVED;
	if (!SPAN_IS(line->daemon, "qmgr") || !TAKE(&c, "from="))
		return LOG_LINE_OTHER;
	return read_expired(c, line) ? LOG_LINE_DELIVERY : read_active(c, line) ?
	    LOG_LINE_ACTIVE : LOG_LINE_OTHER;
}

enum log_line_kind postfix_log_read(struct log_line *line) {
	struct cursor c = { line->message.text, line->message.text + line->message.length };
	struct delivery *d = &line->delivery;

	take_queue_id(&c, &line->queue_id);
	line->message = span_of(c.at, c.end);
	/* a collector may have taken the queue id for a field of its own */
	if (!TAKE(&c, "to=")) {
		line->kind = kind_of_other(c, line);
		return line->kind;
	}
	delivery_begin(line);
	if (!take_any_address(&c, &d->recipient)) {
		line->why = "its recipient is not an address, or does not end";
	} else if (TAKE(&c, ", orig_to=") && !take_any_address(&c, &line->orig_to)) {
		line->why = "its orig_to is not an address, or does not end";
	} else if (!BEGINS(&c, ", relay=")) {
		line->why = "no relay follows its recipient";
	} else if (is_ambiguous(c)) {
		line->why = "it is ambiguous";
	} else {
		d->domain = domain_of(d->recipient);
		line->why = read_fields(&c, line);
		d->agent = agent_of(line->daemon, d);
	}
	line->kind = line->why ? LOG_LINE_BROKEN : LOG_LINE_DELIVERY;
	return line->kind;
}

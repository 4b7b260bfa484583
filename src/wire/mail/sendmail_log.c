/* SPDX-License-Identifier: ISC */
/* A cursor goes over the line once, but for the search that forgers cause. */
#include "wire/mail/sendmail_log.h"

#include "wire/mail/log_cursor.h"

#define QUEUE_ID_MAX	30
#define DAYS_MAX	99999

/* Letters and digits: "e6EKWRO24933", "21QBRGdX006005". */
static void take_queue_id(struct cursor *c, struct span *out) {
	const char *at = c->at;
	bool numbered = false;

	for (; at < c->end && (is_digit(*at) || is_letter(*at)); at++)
		numbered = numbered || is_digit(*at);
	*out = (struct span){ c->at, 0 };
	if (c->end - at < 2 || at[0] != ':' || at[1] != ' ' || !numbered ||
	    at - c->at > QUEUE_ID_MAX || at - c->at < 5)
		return;
	*out = span_of(c->at, at);
	c->at = at + 2;
}

/* --- recipients ------------------------------------------------------------ */

/* Passes over what stands in quotes, comments and < >, where commas do not separate.
 * False: it does not end, or there is a control in it. */
static bool pass_address(struct cursor *c) {
	unsigned depth = 0;
	bool quoted = false, angle = false;

	for (; c->at < c->end; c->at++) {
		char byte = *c->at;

		if (is_control(byte))
			return false;
		if (byte == '\\') {
			if (left(c) < 2 || is_control(c->at[1]))
				return false;
			c->at++;
		} else if (byte == '"' && depth == 0) {
			quoted = !quoted;
		} else if (quoted) {
			continue;
		} else if (byte == '(') {
			depth++;
		} else if (depth > 0) {
			depth -= byte == ')';
		} else if (byte == '<') {
			if (angle)
				return false;
			angle = true;
		} else if (byte == '>') {
			if (!angle)
				return false;
			angle = false;
		} else if (byte == ',' && !angle) {
			return true;
		} else if (byte == ' ' && !angle && BEGINS(c, " [more], ")) {
			return true;
		}
	}
	return false;
}

static struct span without_brackets(struct span address) {
	const char *open = memchr(address.text, '<', address.length);

	if (open == NULL || address.text[address.length - 1] != '>')
		return address;
	return span_of(open + 1, address.text + address.length - 1);
}

/* "A,B,C, ": stands behind the first comma that a blank follows, at the next key. */
static bool take_recipients(struct cursor *c, struct delivery *d) {
	const char *start = c->at;

	d->recipients = 0;
	for (;;) {
		const char *one = c->at;

		if (!pass_address(c))
			return false;
		if (d->recipients++ == 0)
			d->recipient = without_brackets(span_of(one, c->at));
		if (*c->at == ' ') {
			d->list = span_of(start, c->at);
			c->at += sizeof(" [more], ") - 1;
			break;
		}
		if (left(c) > 1 && c->at[1] == ' ') {
			d->list = span_of(start, c->at);
			if (!TAKE(c, ", [more], "))
				c->at += 2;
			break;
		}
		c->at++;
	}
	d->domain = domain_of(d->recipient);
	return true;
}

/* --- fields ---------------------------------------------------------------- */

static bool take_two_digits(struct cursor *c, int64_t *out) {
	if (left(c) < 2 || !is_digit(c->at[0]) || !is_digit(c->at[1]))
		return false;
	*out = (c->at[0] - '0') * 10 + (c->at[1] - '0');
	c->at += 2;
	return true;
}

/* "00:04:57", "1+03:11:17" with days */
static bool read_interval(struct cursor c, int64_t *ms) {
	struct cursor ahead = c;
	uint32_t days = 0;
	int64_t hours, minutes, seconds;

	if (take_number(&ahead, DAYS_MAX, &days) && TAKE(&ahead, "+"))
		c = ahead;
	else
		days = 0;
	if (!take_two_digits(&c, &hours) || !TAKE(&c, ":") || !take_two_digits(&c, &minutes) ||
	    !TAKE(&c, ":") || !take_two_digits(&c, &seconds) || left(&c) > 0)
		return false;
	*ms = ((((int64_t)days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000;
	return true;
}

/* "HOST. [ADDRESS]", "[ADDRESS] [ADDRESS]", or "HOST" where nobody was reached. */
static bool read_relay(struct delivery *d) {
	const char *end = d->relay.text + d->relay.length;
	struct span name = d->relay;

	if (d->relay.length == 0)
		return false;
	if (end[-1] == ']') {
		const char *open = memrchr(d->relay.text, '[', d->relay.length);

		if (open == NULL)
			return false;
		(void)address_parse(open, (size_t)(end - open), &d->relay_address);
		if (open > d->relay.text + 1 && open[-1] == ' ')
			name = span_of(d->relay.text, open - 1);
	}
	if (name.length > 2 && name.text[0] == '[' && name.text[name.length - 1] == ']')
		name = (struct span){ name.text + 1, name.length - 2 };
	else if (name.length > 0 && name.text[name.length - 1] == '.')
		name.length--;
	d->relay_name = name;
	return true;
}

/* A field before reply= and stat=; false: it has no value of its kind. */
static bool read_field(struct span key, struct cursor value, struct delivery *d) {
	if (SPAN_IS(key, "delay"))
		return read_interval(value, &d->delay_ms);
	if (SPAN_IS(key, "xdelay"))
		return read_interval(value, &d->delays_ms[3]);
	if (SPAN_IS(key, "mailer"))
		d->mailer = span_of(value.at, value.end);
	else if (SPAN_IS(key, "relay")) {
		d->relay = span_of(value.at, value.end);
		return read_relay(d);
	} else if (SPAN_IS(key, "dsn"))
		return take_dsn(&value, d->dsn) && left(&value) == 0;
	return true;	/* pri, quarantine, ntries, of a Sendmail to come */
}

/* The address that controls them is as free as the recipients. */
static bool pass_controller(struct cursor *c) {
	if (!pass_address(c) || left(c) < 2 || c->at[1] != ' ')
		return false;
	c->at += 2;
	return true;
}

/* Do fields that stand once come again, in a text that somebody else wrote?  Then that
 * text may begin earlier than we think. */
static bool is_ambiguous(struct span text) {
	struct cursor c = { text.text, text.text + text.length };
	const char *comma;

	while ((comma = memchr(c.at, ',', left(&c))) != NULL) {
		c.at = comma + 1;
		if (BEGINS(&c, " stat=") || BEGINS(&c, " dsn=") || BEGINS(&c, " mailer="))
			return true;
	}
	return false;
}

static bool equal_ignoring_case(const char *a, const char *lower, size_t length) {
	for (size_t i = 0; i < length; i++)
		if (((unsigned char)a[i] | 0x20) != (unsigned char)lower[i])
			return false;
	return true;
}
#define STATUS_BEGINS(span, lower) ((span).length >= sizeof(lower) - 1 && \
	equal_ignoring_case((span).text, lower, sizeof(lower) - 1))

/* stat= for what it says of the attempt, dsn= for the rest. */
static enum delivery_status status_of(const struct delivery *d) {
	if (STATUS_BEGINS(d->text, "sent"))
		return d->dsn[0] == 4 ? DELIVERY_DEFERRED :
		    d->dsn[0] == 5 ? DELIVERY_BOUNCED : DELIVERY_SENT;
	if (STATUS_BEGINS(d->text, "deferred") || STATUS_BEGINS(d->text, "queued") ||
	    STATUS_BEGINS(d->text, "quarantined") || d->dsn[0] == 4)
		return DELIVERY_DEFERRED;
	if (d->dsn[0] == 2)
		return DELIVERY_SENT;
	if (d->dsn[0] == 0 && STATUS_BEGINS(d->text, "transient parse error"))
		return DELIVERY_DEFERRED;
	return DELIVERY_BOUNCED;
}

static struct span first_word(struct span text) {
	const char *at = text.text, *end = text.text + text.length;

	while (at < end && *at != ' ' && *at != ':')
		at++;
	return span_of(text.text, at);
}

static const char *read_stat(struct cursor *c, struct log_line *line) {
	struct delivery *d = &line->delivery;

	d->text = span_of(c->at, c->end);
	if (d->text.length == 0)
		return "its status is incomplete";
	if (is_ambiguous(d->text) || is_ambiguous(d->reply))
		return "it is ambiguous";
	d->status = status_of(d);
	line->status_word = first_word(d->text);
	return NULL;
}

/* "key=value, " each, then reply= and stat=. */
static const char *read_fields(struct cursor *c, struct log_line *line) {
	struct delivery *d = &line->delivery;

	for (;;) {
		const char *start = c->at, *end;
		struct span key;

		while (c->at < c->end && (is_letter(*c->at) || is_digit(*c->at) || *c->at == '_' ||
		    *c->at == '-'))
			c->at++;
		key = span_of(start, c->at);
		if (key.length == 0 || !TAKE(c, "="))
			return "it ends within its fields";
		if (SPAN_IS(key, "stat"))
			return read_stat(c, line);
		if (SPAN_IS(key, "reply")) {
			end = FIND(c, ", stat=");
			d->reply = span_of(c->at, end ? end : c->end);
			if (end == NULL)
				return "it ends within its reply";
		} else if (SPAN_IS(key, "ctladdr")) {
			if (!pass_controller(c))
				return "its ctladdr does not end";
			continue;
		} else {
			end = FIND(c, ", ");
			if (end == NULL || !read_field(key, (struct cursor){ c->at, end }, d))
				return "a field has an invalid value, or does not end";
		}
		c->at = end + 2;
	}
}

/* --- a delivery ------------------------------------------------------------ */

/* Mailers of sendmail.cf that end on this host; what has an address was remote,
 * whatever its name. */
static enum delivery_agent agent_of(const struct delivery *d) {
	static const char *const local[] = { "local", "prog", "*file*", "*include*", "procmail",
		"cyrus", "cyrusv2", "cyrusbb", "uucp", "suucp", "uucp-old", "uucp-new", "error",
		"discard", "bitbucket", "maildrop", "dovecot", "mailman", "phquery", "fax", "mail11" };

	if (!address_is_unknown(&d->relay_address))
		return AGENT_SMTP;
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		if (d->mailer.length == strlen(local[i]) &&
		    memcmp(d->mailer.text, local[i], d->mailer.length) == 0)
			return AGENT_LOCAL;
	/* a message that comes in and is refused, by a milter say, has neither */
	if (d->mailer.length == 0 && (d->relay.length == 0 ||
	    (SPAN_IS(d->relay, "local") && d->status == DELIVERY_SENT)))
		return AGENT_LOCAL;
	return AGENT_SMTP;
}

static const char *read_delivery(struct cursor c, struct log_line *line) {
	struct delivery *d = &line->delivery;
	const char *why;

	begin_delivery(d, line->message.text);
	d->source = DELIVERY_OF_SENDMAIL;
	d->program = line->program;
	d->queue_id = line->queue_id;
	line->orig_to = (struct span){ line->message.text, 0 };
	line->status_word = (struct span){ line->message.text, 0 };
	if (!take_recipients(&c, d))
		return "its recipients do not end";
	why = read_fields(&c, line);
	d->agent = agent_of(d);
	return why;
}

/* --- sessions -------------------------------------------------------------- */

/* "NAME [ADDRESS]", "[ADDRESS]", "root@localhost" and what follows a blank. */
static bool read_client(struct span text, struct log_session *out) {
	const char *end = text.text + text.length;
	const char *open = memchr(text.text, '[', text.length);
	const char *close = open ? memchr(open, ']', (size_t)(end - open)) : NULL;

	if (close == NULL || !address_parse(open, (size_t)(close + 1 - open), &out->address))
		return false;
	if (open > text.text + 1 && open[-1] == ' ')
		out->name = span_of(text.text, open - 1);
	return memchr(out->name.text, ' ', out->name.length) == NULL;
}

static bool read_session(struct cursor c, struct log_line *line) {
	static const char lost[] = "lost input channel from ", idle[] = " did not issue ";
	struct log_session *out = &line->session;
	const char *end;

	memset(out, 0, sizeof(*out));
	out->name = (struct span){ c.at, 0 };
	if (TAKE(&c, "NOQUEUE: ") && TAKE(&c, "connect from ")) {
		out->event = LOG_SESSION_CONNECT;
		return read_client(span_of(c.at, c.end), out);
	}
	out->event = LOG_SESSION_DISCONNECT;
	if (take(&c, lost, sizeof(lost) - 1)) {
		end = FIND(&c, " to ");
		return end != NULL && read_client(span_of(c.at, end), out);
	}
	end = find(&c, idle, sizeof(idle) - 1);
	return end != NULL && read_client(span_of(c.at, end), out);
}

enum log_line_kind sendmail_log_read(struct log_line *line) {
	struct cursor c = { line->message.text, line->message.text + line->message.length };

	take_queue_id(&c, &line->queue_id);
	line->message = span_of(c.at, c.end);
	line->kind = LOG_LINE_OTHER;
	/* a collector may have taken the queue id for a field of its own */
	if (TAKE(&c, "to=")) {
		line->why = read_delivery(c, line);
		line->kind = line->why ? LOG_LINE_BROKEN : LOG_LINE_DELIVERY;
	} else if (read_session(c, line)) {
		line->kind = LOG_LINE_SESSION;
	}
	return line->kind;
}

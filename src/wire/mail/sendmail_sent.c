/* SPDX-License-Identifier: ISC */
/* A cursor goes over the line once; nothing is searched for but the end of what the remote said. */
#include "wire/mail/sendmail_sent.h"
#include "base/plain_recipient.h"
#include "wire/ask/span.h"
#include "wire/mail/log_cursor.h"

/* --- recipients ---------------------------------------------------------------------- */

static bool is_domain_byte(char c) {
	return is_letter(c) || is_digit(c) || c == '-' || c == '.';
}

/* A list that goes on ends with a comma. */
static bool is_plain(struct span list) {
	const char *at = list.text, *end = list.text + list.length, *one;
	size_t length;

	while (at < end)
		if (!plain_recipient_take(&at, end, &one, &length))
			return false;
	return true;
}

/* Behind the list. */
static bool take_more(struct cursor *c) {
	return TAKE(c, ", [more], ") || TAKE(c, " [more], ");
}

bool sendmail_list_goes_on(const struct log_line *line) {
	const struct span *list = &line->delivery.list;
	struct cursor c = { line->message.text, line->message.text + line->message.length };

	/* nobody knows where the list of a broken one ends */
	if (line->kind != LOG_LINE_DELIVERY)
		return FIND(&c, " [more], ") != NULL;
	c.at = list->text + list->length;
	return take_more(&c);
}

/* --- the head ------------------------------------------------------------------------- */

/* One date, and a host at most: of two lines that were joined there are two. */
static bool is_whole_head(struct span head) {
	struct span host;

	if (!log_date_pass(&head))
		return false;
	head = span_trimmed(head);
	host = span_until(&head, ' ');
	for (size_t i = 0; i < host.length; i++)
		if (!is_domain_byte(host.text[i]) && host.text[i] != '_')
			return false;
	return head.length == 0;
}

/* --- fields --------------------------------------------------------------------------- */

/* Of these bytes, one at least, and ", " behind them. */
static bool take_word(struct cursor *c, bool (*is_of_it)(char)) {
	const char *start = c->at;

	while (c->at < c->end && is_of_it(*c->at))
		c->at++;
	return c->at > start && TAKE(c, ", ");
}

static bool is_interval_byte(char c) {
	return is_digit(c) || c == ':' || c == '+';
}

static bool is_mailer_byte(char c) {
	return is_letter(c) || is_digit(c) || c == '_' || c == '-';
}

/* "HOST. [ADDRESS], " */
static bool take_relay(struct cursor *c) {
	const char *close;
	struct address address;

	while (c->at < c->end && (is_domain_byte(*c->at) || (*c->at != '\0' &&
	    strchr("[]:_", *c->at) != NULL)))
		c->at++;
	if (!TAKE(c, " ") || !BEGINS(c, "["))
		return false;
	close = memchr(c->at, ']', left(c));
	if (close == NULL || !address_parse(c->at, (size_t)(close + 1 - c->at), &address))
		return false;
	c->at = close + 1;
	return TAKE(c, ", ");
}

static bool take_dsn_sent(struct cursor *c) {
	uint16_t dsn[3];

	return take_dsn(c, dsn) && dsn[0] == 2 && TAKE(c, ", ");
}

/* A text of somebody else: sendmail_log_read found nothing ambiguous in it. */
static bool take_reply(struct cursor *c) {
	const char *end;

	if (!TAKE(c, "reply="))
		return true;
	end = FIND(c, ", stat=");
	if (end == NULL)
		return false;
	c->at = end + 2;
	return true;
}

/* What the remote said follows, in brackets that are closed at the end of the line. */
static bool is_sent(struct cursor c) {
	unsigned depth = 1;

	if (!TAKE(&c, "stat=Sent ("))
		return false;
	for (; c.at < c.end && depth > 0; c.at++)
		depth += *c.at == '(' ? 1 : *c.at == ')' ? -1u : 0;
	return depth == 0 && c.at == c.end;
}

static bool take_controller(struct cursor *c) {
	const char *end;

	if (!TAKE(c, "ctladdr="))
		return true;
	/* an address, perhaps with "(UID/GID)" behind it: nothing that could be a field */
	end = FIND(c, ", ");
	if (end == NULL || memchr(c->at, '"', (size_t)(end - c->at)) != NULL ||
	    memchr(c->at, '=', (size_t)(end - c->at)) != NULL)
		return false;
	c->at = end + 2;
	return true;
}

bool sendmail_line_is_sent(const struct log_line *line) {
	const struct delivery *d = &line->delivery;
	struct cursor c = { line->message.text, line->message.text + line->message.length };

	if (line->pid == 0 || d->status != DELIVERY_SENT || d->delay_ms < 0 ||
	    d->queue_id.length == 0 || !is_whole_head(line->head) || !TAKE(&c, "to=") || d->list.text != c.at ||
	    !is_plain(d->list))
		return false;
	c.at += d->list.length;
	return (take_more(&c) || TAKE(&c, ", ")) && take_controller(&c) &&
	    TAKE(&c, "delay=") && take_word(&c, is_interval_byte) &&
	    TAKE(&c, "xdelay=") && take_word(&c, is_interval_byte) &&
	    TAKE(&c, "mailer=") && take_word(&c, is_mailer_byte) &&
	    TAKE(&c, "pri=") && take_word(&c, is_digit) &&
	    TAKE(&c, "relay=") && take_relay(&c) &&
	    TAKE(&c, "dsn=") && take_dsn_sent(&c) && take_reply(&c) && is_sent(c);
}

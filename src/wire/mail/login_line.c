/* SPDX-License-Identifier: ISC */
/*
 * Who logged in (login_line.h).  What clients choose stands between marks of the mail server's
 * own: fields are found from the side on which nothing of a client's can stand.
 */
#include "wire/mail/login_line.h"

#include <string.h>

#include "wire/mail/log_cursor.h"

/* The number behind the last of these words. */
static bool last_number(struct cursor c, const char *words, uint64_t *out) {
	size_t length = strlen(words);
	const char *at;

	if (left(&c) < length)
		return false;
	for (at = c.end - length; at >= c.at; at--)
		if (memcmp(at, words, length) == 0)
			break;
	if (at < c.at)
		return false;
	*out = 0;
	for (at += length; at < c.end && is_digit(*at); at++)
		*out = *out > UINT64_MAX / 100 ? *out : *out * 10 + (uint64_t)(*at - '0');
	return true;
}

/* Goes on behind the words; false: they are not there. */
static bool pass(struct cursor *c, const char *words) {
	const char *at = find(c, words, strlen(words));

	if (at != NULL)
		c->at = at + strlen(words);
	return at != NULL;
}

/* Ends before the words, where they are. */
static void end_before(struct cursor *c, const char *words) {
	const char *at = find(c, words, strlen(words));

	if (at != NULL)
		c->end = at;
}

/* "client=NAME[ADDRESS], sasl_method=PLAIN, sasl_username=LOGIN, sasl_sender=..., ..." */
static enum login_line_kind read_client(struct cursor c, struct login_line *out) {
	if (!pass(&c, "], sasl_method=") || !pass(&c, ", sasl_username="))
		return LOGIN_LINE_CLIENT;
	end_before(&c, ", sasl_sender=");
	end_before(&c, ", orig_queue_id=");
	end_before(&c, ", orig_client=");
	out->login = span_of(c.at, c.end);
	return LOGIN_LINE_CLIENT;
}

static enum login_line_kind read_queued(struct cursor c, bool of_sendmail,
    struct login_line *out) {
	uint64_t recipients = 0;

	if (!last_number(c, "size=", &out->bytes) ||
	    !last_number(c, of_sendmail ? "nrcpts=" : "nrcpt=", &recipients))
		return LOGIN_LINE_OTHER;
	out->recipients = recipients > UINT32_MAX ? UINT32_MAX : (uint32_t)recipients;
	out->is_bounce = BEGINS(&c, "from=<>");
	out->is_authenticated = of_sendmail && pass(&c, ", proto=ESMTP") &&
	    (BEGINS(&c, "A") || BEGINS(&c, "SA"));
	return LOGIN_LINE_QUEUED;
}

/* "AUTH=server, relay=NAME [ADDRESS], authid=LOGIN, mech=PLAIN, bits=0" */
static enum login_line_kind read_process(struct cursor c, struct login_line *out) {
	const char *end = pass(&c, "], authid=") ? FIND(&c, ", mech=") : NULL;

	if (end == NULL || end == c.at)
		return LOGIN_LINE_OTHER;
	out->login = span_of(c.at, end);
	return LOGIN_LINE_PROCESS;
}

enum login_line_kind login_line_read(const struct log_line *line, struct login_line *out) {
	struct cursor c = { line->message.text, line->message.text + line->message.length };
	bool has_id = line->queue_id.length > 0;

	*out = (struct login_line){ .kind = LOGIN_LINE_OTHER,
		.login = { line->message.text, 0 },
		.of_sendmail = line->daemon.length == line->program.length };
	if (line->kind == LOG_LINE_FOREIGN || line->kind == LOG_LINE_DELIVERY)
		return out->kind;
	if (out->of_sendmail && !has_id && BEGINS(&c, "AUTH=server,"))
		out->kind = read_process(c, out);
	else if (out->of_sendmail && has_id && BEGINS(&c, "from="))
		out->kind = read_queued(c, true, out);
	else if (!out->of_sendmail && has_id && SPAN_IS(line->daemon, "smtpd") &&
	    BEGINS(&c, "client="))
		out->kind = read_client(c, out);
	else if (line->kind == LOG_LINE_ACTIVE && SPAN_IS(line->daemon, "qmgr"))
		out->kind = read_queued(c, false, out);
	return out->kind;
}

/* SPDX-License-Identifier: ISC */
/*
 * Who logged in (login_line.h).  What clients choose stands between marks of the mail server's
 * own: fields are found from the side on which nothing of a client's can stand.
 */
#include "wire/mail/login_line.h"

#include <string.h>

static bool begins(struct span text, const char *with) {
	size_t length = strlen(with);

	return text.length >= length && memcmp(text.text, with, length) == 0;
}

static struct span behind(struct span text, size_t bytes) {
	return (struct span){ text.text + bytes, text.length - bytes };
}

static const char *text_find(struct span text, const char *words) {
	return memmem(text.text, text.length, words, strlen(words));
}

/* The number behind the last of these words. */
static bool last_number(struct span text, const char *words, uint64_t *out) {
	size_t length = strlen(words);
	const char *end = text.text + text.length, *at;

	if (text.length < length)
		return false;
	for (at = end - length; at >= text.text; at--)
		if (memcmp(at, words, length) == 0)
			break;
	if (at < text.text)
		return false;
	*out = 0;
	for (at += length; at < end && *at >= '0' && *at <= '9'; at++)
		*out = *out > UINT64_MAX / 100 ? *out : *out * 10 + (uint64_t)(*at - '0');
	return true;
}

/* "client=NAME[ADDRESS], sasl_method=PLAIN, sasl_username=LOGIN, sasl_sender=..., ..." */
static enum login_line_kind read_client(struct span text, struct login_line *out) {
	static const char method[] = "], sasl_method=", name[] = ", sasl_username=";
	static const char *const ends[] = { ", sasl_sender=", ", orig_queue_id=", ", orig_client=" };
	const char *at = text_find(text, method), *end = text.text + text.length;
	struct span rest;

	if (at == NULL)
		return LOGIN_LINE_CLIENT;
	rest = (struct span){ at, (size_t)(end - at) };
	at = text_find(rest, name);
	if (at == NULL)
		return LOGIN_LINE_CLIENT;
	rest = (struct span){ at + sizeof(name) - 1, (size_t)(end - at) - (sizeof(name) - 1) };
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		at = text_find(rest, ends[i]);
		if (at != NULL)
			rest.length = (size_t)(at - rest.text);
	}
	out->login = rest;
	return LOGIN_LINE_CLIENT;
}

static enum login_line_kind read_queued(struct span text, bool of_sendmail,
    struct login_line *out) {
	uint64_t recipients = 0;

	if (!last_number(text, "size=", &out->bytes) ||
	    !last_number(text, of_sendmail ? "nrcpts=" : "nrcpt=", &recipients))
		return LOGIN_LINE_OTHER;
	out->recipients = recipients > UINT32_MAX ? UINT32_MAX : (uint32_t)recipients;
	out->is_bounce = begins(text, "from=<>");
	if (of_sendmail) {
		const char *at = text_find(text, ", proto=ESMTP");
		struct span rest = at == NULL ? (struct span){ text.text, 0 } :
		    (struct span){ at, (size_t)(text.text + text.length - at) };

		out->is_authenticated = begins(rest, ", proto=ESMTPA") ||
		    begins(rest, ", proto=ESMTPSA");
	}
	return LOGIN_LINE_QUEUED;
}

/* "AUTH=server, relay=NAME [ADDRESS], authid=LOGIN, mech=PLAIN, bits=0" */
static enum login_line_kind read_process(struct span text, struct login_line *out) {
	static const char name[] = "], authid=";
	const char *at = text_find(text, name), *end;

	if (at == NULL)
		return LOGIN_LINE_OTHER;
	text = behind(text, (size_t)(at - text.text) + sizeof(name) - 1);
	end = text_find(text, ", mech=");
	if (end == NULL || end == text.text)
		return LOGIN_LINE_OTHER;
	out->login = (struct span){ text.text, (size_t)(end - text.text) };
	return LOGIN_LINE_PROCESS;
}

enum login_line_kind login_line_read(const struct log_line *line, struct login_line *out) {
	static const char smtpd[] = "smtpd", qmgr[] = "qmgr";
	struct span daemon = line->daemon;

	*out = (struct login_line){ .kind = LOGIN_LINE_OTHER,
		.login = { line->message.text, 0 },
		.of_sendmail = line->daemon.length == line->program.length };
	if (line->kind == LOG_LINE_FOREIGN || line->kind == LOG_LINE_DELIVERY)
		return out->kind;
	if (out->of_sendmail && line->queue_id.length == 0 &&
	    begins(line->message, "AUTH=server,"))
		out->kind = read_process(line->message, out);
	else if (out->of_sendmail && line->queue_id.length > 0 && begins(line->message, "from="))
		out->kind = read_queued(line->message, true, out);
	else if (!out->of_sendmail && line->queue_id.length > 0 &&
	    daemon.length == sizeof(smtpd) - 1 && begins(daemon, smtpd) &&
	    begins(line->message, "client="))
		out->kind = read_client(line->message, out);
	else if (line->kind == LOG_LINE_ACTIVE && daemon.length == sizeof(qmgr) - 1 &&
	    begins(daemon, qmgr))
		out->kind = read_queued(line->message, false, out);
	return out->kind;
}

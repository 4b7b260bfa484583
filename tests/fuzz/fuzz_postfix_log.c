/* SPDX-License-Identifier: ISC */
/* A log line of any bytes: every span lies inside it, and of a delivery the parts
 * that something is learned from are of their form. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "policy/reply/reply.h"
#include "wire/mail/login_line.h"
#include "wire/mail/mail_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(struct span span, const char *line, size_t size) {
	MUST(span.length == 0 || (span.text >= line && span.length <= size &&
	    span.text <= line + size - span.length));
}

static void check_delivery(const struct log_line *out, const char *line, size_t size) {
	const struct delivery *d = &out->delivery;
	const struct span spans[] = { d->recipient, d->domain, out->orig_to, d->relay,
		d->relay_name, out->status_word, d->text };
	struct reply reply;

	for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++)
		inside(spans[i], line, size);
	MUST(d->agent == AGENT_QUEUE || d->relay.length > 0);
	MUST(out->status_word.length > 0 && d->recipients == 1);
	MUST(d->domain.length <= d->recipient.length);
	for (size_t i = 0; i < d->domain.length; i++) {
		unsigned char c = (unsigned char)d->domain.text[i];

		MUST(c > ' ' && c != '"' && c != '@' && c != '<' && c != '>' && c != ',' && c != 0x7f);
	}
	MUST(d->delay_ms >= DELIVERY_MS_UNKNOWN && d->dsn[0] < 1000);
	reply_judge(d, &reply);
	MUST((unsigned)reply.class < RESULT_CLASS_COUNT && (unsigned)reply.phase < PHASE_COUNT);
	inside(reply.words, line, size);
	MUST(address_is_unknown(&d->relay_address) || d->relay.length > d->relay_name.length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct login_line login;
	struct log_line out;
	char *line = malloc(size ? size : 1);	/* no NUL behind it */

	if (line == NULL)
		return 0;
	if (size > 0)
		memcpy(line, data, size);
	(void)mail_log_scan(line, size, &out);
	/* Sendmail's: fuzz_sendmail_log */
	if (out.kind != LOG_LINE_FOREIGN && out.daemon.length == out.program.length) {
		free(line);
		return 0;
	}
	switch (out.kind) {
	case LOG_LINE_DELIVERY:
		check_delivery(&out, line, size);
		break;
	case LOG_LINE_BROKEN:
		MUST(out.why != NULL);
		break;
	case LOG_LINE_SESSION:
		inside(out.session.name, line, size);
		break;
	case LOG_LINE_ACTIVE:
		inside(out.sender, line, size);
		MUST(out.queue_id.length > 0);
		break;
	case LOG_LINE_REMOVED:
		MUST(out.queue_id.length > 0);
		break;
	case LOG_LINE_OTHER:
		break;
	case LOG_LINE_FOREIGN:
		free(line);
		return 0;
	}
	(void)login_line_read(&out, &login);
	inside(login.login, line, size);
	inside(out.program, line, size);
	inside(out.daemon, line, size);
	inside(out.queue_id, line, size);
	inside(out.message, line, size);
	MUST(out.daemon.length > 0 && out.daemon.length <= out.program.length);
	free(line);
	return 0;
}

/* SPDX-License-Identifier: ISC */
/* A log line of any bytes: every span lies inside it, and of a delivery the parts
 * that something is learned from are of their form.  What it means is told, too. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/plain_recipient.h"
#include "policy/reply/reply.h"
#include "wire/mail/login_line.h"
#include "wire/mail/mail_log.h"
#include "wire/mail/sendmail_log.h"
#include "wire/mail/sendmail_sent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(struct span span, const char *line, size_t size) {
	MUST(span.length == 0 || (span.text >= line && span.length <= size &&
	    span.text <= line + size - span.length));
}

static void check_delivery(const struct log_line *out, const char *line, size_t size) {
	const struct delivery *d = &out->delivery;
	const struct span spans[] = { d->recipient, d->domain, d->list, d->relay, d->relay_name,
		d->mailer, d->text, d->reply, out->status_word };
	struct reply reply;

	for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++)
		inside(spans[i], line, size);
	MUST(d->text.length > 0 && d->recipients > 0 && d->status != DELIVERY_STATUS_OTHER);
	MUST(d->recipient.length <= d->list.length && d->domain.length <= d->recipient.length);
	for (size_t i = 0; i < d->domain.length; i++) {
		unsigned char c = (unsigned char)d->domain.text[i];

		MUST(c > ' ' && c != '"' && c != '@' && c != '<' && c != '>' && c != ',' && c != 0x7f);
	}
	MUST(d->delay_ms >= DELIVERY_MS_UNKNOWN && d->delays_ms[3] >= DELIVERY_MS_UNKNOWN);
	MUST(d->dsn[0] < 1000);
	reply_judge(d, &reply);
	MUST((unsigned)reply.class < RESULT_CLASS_COUNT && (unsigned)reply.phase < PHASE_COUNT);
	inside(reply.words, line, size);
}

/* What is certain is of one form, and names nobody in doubt. */
static void check_sent(const struct log_line *out) {
	const struct delivery *d = &out->delivery;
	const char *at = d->list.text, *end = at + d->list.length, *one;
	size_t length;

	(void)sendmail_list_goes_on(out);
	if (out->kind != LOG_LINE_DELIVERY || !sendmail_line_is_sent(out))
		return;
	MUST(out->pid != 0 && d->queue_id.length > 0 && d->status == DELIVERY_SENT &&
	    d->dsn[0] == 2 && d->delay_ms >= 0 && d->text.length > 6 &&
	    memcmp(d->text.text, "Sent (", 6) == 0 && d->text.text[d->text.length - 1] == ')');
	while (at < end)
		MUST(plain_recipient_take(&at, end, &one, &length) &&
		    memchr(one, '"', length) == NULL && memchr(one, ' ', length) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct log_line out, same;
	struct login_line login;
	char *line = malloc(size ? size : 1);	/* no NUL behind it */
	int64_t ms;

	if (line == NULL)
		return 0;
	if (size > 0)
		memcpy(line, data, size);
	if (mail_log_scan(line, size, &out) != LOG_LINE_FOREIGN &&
	    out.daemon.length < out.program.length)
		out.kind = LOG_LINE_OTHER;	/* Postfix's */
	if (out.kind == LOG_LINE_DELIVERY)
		check_delivery(&out, line, size);
	if (out.kind == LOG_LINE_DELIVERY || out.kind == LOG_LINE_BROKEN)
		check_sent(&out);
	MUST(out.kind != LOG_LINE_BROKEN || out.why != NULL);
	if (out.kind == LOG_LINE_SESSION)
		inside(out.session.name, line, size);
	if (out.kind != LOG_LINE_FOREIGN) {
		inside(out.head, line, size);
		inside(out.program, line, size);
		inside(out.queue_id, line, size);
		inside(out.message, line, size);
		(void)login_line_read(&out, &login);
		inside(login.login, line, size);
		(void)log_date_read(out.head, 2026, &ms);
	}
	/* who reads it is the program's matter alone */
	mail_log_scan(line, size, &same);
	MUST(same.kind == LOG_LINE_FOREIGN || same.daemon.length < same.program.length ||
	    same.kind == out.kind);
	free(line);
	return 0;
}

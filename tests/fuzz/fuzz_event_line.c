/* SPDX-License-Identifier: ISC */
/*
 * Lines of the event socket.  Spans lie inside the line; an error has its place and a
 * reason; what was decoded holds no NUL, and a session has its client.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/mail/event_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_span(struct span span, const char *line, size_t length) {
	MUST(span.length == 0 || (span.text >= line && span.text + span.length <= line + length));
}

static void check_delivery(const struct delivery *d, const char *line, size_t length) {
	check_span(d->queue_id, line, length);
	check_span(d->recipient, line, length);
	check_span(d->domain, line, length);
	check_span(d->relay, line, length);
	check_span(d->relay_name, line, length);
	check_span(d->text, line, length);
	MUST(d->domain.length > 0 && memchr(d->domain.text, '\0', d->domain.length) == NULL);
	MUST(d->recipients > 0 && d->source == DELIVERY_OF_OTHER);
}

static void check_line(const char *text, size_t length) {
	char *line = malloc(length ? length : 1);	/* of exactly its size */
	struct event_error error = { 0, NULL };
	struct event_line out;

	if (line == NULL)
		abort();
	memcpy(line, text, length);
	if (!event_line_read(line, length, &out, &error)) {
		MUST(error.reason != NULL && error.offset <= length);
		free(line);
		return;
	}
	check_span(out.mta, line, length);
	check_span(out.text, line, length);
	check_span(out.name, line, length);
	if (out.kind == EVENT_LINE_DELIVERY || out.kind == EVENT_LINE_START)
		check_delivery(&out.delivery, line, length);
	MUST(out.kind != EVENT_LINE_DELIVERY || out.delivery.status != DELIVERY_STATUS_OTHER);
	MUST((out.kind != EVENT_LINE_OPEN && out.kind != EVENT_LINE_CLOSE) ||
	    out.client_port != 0);
	free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const char *at = (const char *)data, *end = at + size;

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		check_line(at, (size_t)((newline == NULL ? end : newline) - at));
		at = newline == NULL ? end : newline + 1;
	}
	return 0;
}

/* SPDX-License-Identifier: ISC */
/*
 * Messages about a configuration.  Without memory for one it is still counted,
 * so that a file with mistakes is never taken for a good one.
 */
#include "config/read/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/order.h"
#include "base/text.h"

void report_begin(struct report *report, struct config_messages *messages) {
	memset(messages, 0, sizeof(*messages));
	memset(report, 0, sizeof(*report));
	report->messages = messages;
}

/* File names are printed as they are where that does no harm. */
static void copy_name(char *out, size_t size, const char *name) {
	size_t length = strlen(name);

	for (size_t i = 0; i < length; i++)
		if (name[i] < ' ' || name[i] > '~') {
			log_quote(out, size, name, length);
			return;
		}
	text_copy(out, size, name, length);
}

void report_add(struct report *report, enum message_severity severity,
    const char *file, unsigned line, unsigned order, const char *format, ...) {
	struct config_messages *messages = report->messages;
	struct config_message *message;
	va_list args;

	if (severity == MESSAGE_ERROR)
		messages->errors++;
	else
		messages->notes++;
	if (messages->count == REPORT_KEPT || !array_grow(&messages->list, &report->room,
	    messages->count, sizeof(*messages->list)))
		return;
	message = &messages->list[messages->count];
	*message = (struct config_message){ .severity = severity, .line = (int)line,
		.order = order, .place = (unsigned)messages->count++ };
	copy_name(message->file, sizeof(message->file), file);
	va_start(args, format);
	if (vsnprintf(message->text, sizeof(message->text), format, args) < 0)
		message->text[0] = '\0';
	va_end(args);
}

static int by_order(const void *a, const void *b) {
	const struct config_message *left = a, *right = b;

	return order_then(ORDER(left->order, right->order), ORDER(left->place, right->place));
}

void report_end(struct report *report) {
	if (report->messages->count > 1)
		qsort(report->messages->list, report->messages->count,
		    sizeof(report->messages->list[0]), by_order);
}

void config_messages_free(struct config_messages *messages) {
	free(messages->list);
	memset(messages, 0, sizeof(*messages));
}

const char *message_severity_word(enum message_severity severity) {
	return severity == MESSAGE_ERROR ? "error" : "note";
}

void config_messages_print(const struct config_messages *messages, FILE *out, const char *before) {
	size_t all = messages->errors + messages->notes;

	for (size_t i = 0; i < messages->count; i++) {
		const struct config_message *message = &messages->list[i];

		fprintf(out, "%s%s", before, message->file);
		if (message->line > 0)
			fprintf(out, ":%d", message->line);
		fprintf(out, ": %s: %s\n", message_severity_word(message->severity), message->text);
	}
	if (all > messages->count)
		fprintf(out, "%s... and %zu more\n", before, all - messages->count);
	/* what a fork or _exit finds in the buffer is lost */
	(void)fflush(out);
}

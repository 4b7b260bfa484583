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

#include "base/log.h"
#include "base/order.h"
#include "base/text.h"

void report_begin(struct report *report, struct config_messages *messages) {
	memset(messages, 0, sizeof(*messages));
	memset(report, 0, sizeof(*report));
	report->messages = messages;
}

static bool make_room(struct report *report) {
	size_t room = report->room == 0 ? 16 : report->room * 2;
	struct config_message *list;
	unsigned *orders;

	if (report->messages->count >= REPORT_KEPT)
		return false;
	if (report->messages->count < report->room)
		return true;
	list = realloc(report->messages->list, room * sizeof(*list));
	if (list == NULL)
		return false;
	report->messages->list = list;
	orders = realloc(report->orders, room * sizeof(*orders));
	if (orders == NULL)
		return false;
	report->orders = orders;
	report->room = room;
	return true;
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
	if (!make_room(report))
		return;
	report->orders[messages->count] = order;
	message = &messages->list[messages->count++];
	message->severity = severity;
	message->line = (int)line;
	copy_name(message->file, sizeof(message->file), file);
	va_start(args, format);
	if (vsnprintf(message->text, sizeof(message->text), format, args) < 0)
		message->text[0] = '\0';
	va_end(args);
}

struct ranked {
	unsigned order;
	size_t place;
};

static int by_order(const void *a, const void *b) {
	const struct ranked *left = a, *right = b;

	return order_then(ORDER(left->order, right->order), ORDER(left->place, right->place));
}

void report_end(struct report *report) {
	struct config_messages *messages = report->messages;
	size_t count = messages->count;
	struct config_message *sorted = NULL;
	struct ranked *ranks = NULL;

	if (count > 1) {
		sorted = malloc(count * sizeof(*sorted));
		ranks = malloc(count * sizeof(*ranks));
	}
	if (sorted != NULL && ranks != NULL) {
		for (size_t i = 0; i < count; i++)
			ranks[i] = (struct ranked){ report->orders[i], i };
		qsort(ranks, count, sizeof(*ranks), by_order);
		for (size_t i = 0; i < count; i++)
			sorted[i] = messages->list[ranks[i].place];
		free(messages->list);
		messages->list = sorted;
		sorted = NULL;
	}
	free(sorted);
	free(ranks);
	free(report->orders);
	report->orders = NULL;
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

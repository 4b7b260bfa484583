/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl sendmail queue and posternctl sendmail next.
 * MODEL    The queue role answers; rows are copied, as aligned text is written in two
 *          passes, and sorted.  Names in them come from mail: they are printed as the writer prints
 *          whatever it is given.
 * ERRORS   Complained about; a role that is away is EX_UNAVAILABLE.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/array.h"
#include "base/order.h"
#include "base/text.h"
#include "ctl/act/control_client.h"
#include "ctl/cli/ctl.h"
#include "view/name_pattern.h"
#include "view/view.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define TIMEOUT_MS	30000

struct rows {
	const struct column *columns;
	size_t column_count;
	const struct mask *pattern;	/* of the destination; NULL: all */
	bool by_age;			/* rows of parts: by destination, the oldest first */
	struct value *list;		/* column_count each, and by_age; texts are ours */
	size_t count, size;
	uint64_t number;		/* of rows so far */
	bool json;
	bool no_memory;
};

/* Words and what they mean; the first is for those that another build says. */
static const struct words {
	const char *word, *text;
} waits[] = {
#define WAIT(symbol, word, text) { word, text },
#include "defs/waits.def"
#undef WAIT
}, whys[] = {
#define WHY(symbol, word, text) { word, text },
#include "defs/whys.def"
#undef WHY
};

static const char *meaning(const struct words *words, size_t count, const char *word) {
	for (size_t i = 0; word != NULL && i < count; i++)
		if (strcmp(words[i].word, word) == 0)
			return words[i].text;
	return NULL;
}

/* --- rows ------------------------------------------------------------------------------- */

static struct value value_of(const struct rows *rows, const struct control_frame *frame,
    const struct column *column) {
	if (strcmp(column->name, "waits_for") == 0)
		return value_text(meaning(waits, COUNT_OF(waits),
		    control_frame_get(frame, "wait")));
	if (strcmp(column->name, "because") == 0)
		return value_text(meaning(whys, COUNT_OF(whys),
		    control_frame_get(frame, "why")));
	/* a bounce: for people not the same as "not known" */
	if (!rows->json && strcmp(column->name, "sender") == 0 &&
	    control_value(frame, column->name, column->kind).known && control_frame_get(frame, "sender")[0] == '\0')
		return value_text("<>");
	if (strcmp(column->name, "place") == 0)
		return value_number(rows->number);
	return control_value(frame, column->name, column->kind);
}

static size_t width_of(const struct rows *rows) {
	return rows->column_count + rows->by_age;
}

static void keep_row(void *context, const struct control_frame *frame) {
	static const struct column since = { "since_ms", COLUMN_NUMBER };
	struct rows *rows = context;
	const char *destination = control_frame_get(frame, "destination");
	struct value *values;

	rows->number++;
	if (rows->pattern != NULL &&
	    (destination == NULL || !name_fits(destination, rows->pattern)))
		return;
	if (rows->no_memory || !array_grow(&rows->list, &rows->size, rows->count,
	    width_of(rows) * sizeof(*rows->list))) {
		rows->no_memory = true;
		return;
	}
	values = rows->list + rows->count++ * width_of(rows);
	if (rows->by_age)
		values[rows->column_count] = control_value(frame, since.name, since.kind);
	for (size_t i = 0; i < rows->column_count; i++) {
		values[i] = value_of(rows, frame, &rows->columns[i]);
		if (rows->columns[i].kind != COLUMN_TEXT || values[i].text == NULL)
			continue;
		values[i].text = strdup(values[i].text);
		rows->no_memory = rows->no_memory || values[i].text == NULL;
	}
}

static void free_rows(struct rows *rows) {
	for (size_t i = 0; i < rows->count; i++)
		for (size_t k = 0; k < rows->column_count; k++)
			if (rows->columns[k].kind == COLUMN_TEXT)
				free((char *)(uintptr_t)rows->list[i * width_of(rows) + k].text);
	free(rows->list);
}

/* Places of list_parts' values; the last is by_age's. */
enum { PART_DESTINATION, PART_ID, PART_SINCE = 13 };

static int compare_parts(const void *a, const void *b) {
	const struct value *x = a, *y = b;
	int order = order_then(strcmp(
	    x[PART_DESTINATION].text != NULL ? x[PART_DESTINATION].text : "",
	    y[PART_DESTINATION].text != NULL ? y[PART_DESTINATION].text : ""),
	    ORDER(y[PART_SINCE].number, x[PART_SINCE].number));

	if (order != 0)
		return order;
	return x[PART_ID].text == NULL || y[PART_ID].text == NULL ? 0 :
	    strcmp(x[PART_ID].text, y[PART_ID].text);
}

static void put_row(void *context, struct writer *writer, const void *item) {
	const struct rows *rows = context;
	const struct value *values = item;

	for (size_t i = 0; i < rows->column_count; i++)
		writer_member(writer, rows->columns[i].name, rows->columns[i].kind, values[i]);
}

/* --- asking ------------------------------------------------------------------------------ */

/* Nobody would answer. */
static int complain_if_refused(const struct places *places) {
	struct diag ignored;
	struct view view;
	int result = EX_OK;

	if (view_open(&view, places->state, &ignored) == 0 && view.generation != NULL &&
	    generation_drive_is_refused(view.generation)) {
		ctl_complain("the queue is not managed; see posternctl status");
		result = EX_UNAVAILABLE;
	}
	view_close(&view);
	return result;
}

/* The address of the queue role's socket.  EX_OK, or an exit code after a complaint. */
static int find_queue(const struct ctl *ctl, struct places *places, const char **address) {
	int result = places_find(ctl, places);

	*address = ctl->socket != NULL ? ctl->socket : places->queue;
	if (result == EX_OK && (*address)[0] == '\0') {
		ctl_complain("%s: no managed queue is configured (mta.drive)",
		    ctl->config_path);
		result = EX_UNAVAILABLE;
	}
	return result == EX_OK ? complain_if_refused(places) : result;
}

static int ask_queue(struct ctl *ctl, struct rows *rows, const struct control_field *fields,
    size_t field_count) {
	struct control_reply reply;
	struct places places;
	struct diag diag;
	const char *address;
	int result = find_queue(ctl, &places, &address);

	rows->json = ctl->writer.json;
	if (result == EX_OK && control_ask(address, fields, field_count, TIMEOUT_MS, keep_row,
	    rows, &reply, &diag) != 0)
		result = ctl_fail(&diag);
	else if (result == EX_OK)
		result = reply.exit;
	if (result == EX_OK && rows->no_memory) {
		result = ctl_os_error(ENOMEM);
	} else if (result == EX_OK) {
		if (rows->by_age && rows->count > 1)
			qsort(rows->list, rows->count,
			    width_of(rows) * sizeof(*rows->list), compare_parts);
		writer_table(&ctl->writer, &(const struct table){ .row = put_row,
		    .context = rows, .items = rows->list, .count = rows->count,
		    .each = width_of(rows) * sizeof(*rows->list) });
	}
	if ((result == EX_OK || result == reply.exit) && reply.error[0] != '\0')
		ctl_complain("%s", reply.error);
	free_rows(rows);
	return result;
}

#define PART_COLUMNS							\
	{ "destination", COLUMN_TEXT },					\
	{ "id", COLUMN_TEXT },						\
	{ "mta", COLUMN_TEXT },						\
	{ "age", COLUMN_SECONDS },					\
	{ "recipients", COLUMN_NUMBER },				\
	{ "unread", COLUMN_NUMBER },					\
	{ "tries", COLUMN_NUMBER },					\
	{ "tried", COLUMN_SECONDS },					\
	{ "wait", COLUMN_TEXT },					\
	{ "until", COLUMN_SECONDS },					\
	{ "run", COLUMN_NUMBER },					\
	{ "sender", COLUMN_TEXT }

static const struct column parts[] = { PART_COLUMNS, { "waits_for", COLUMN_TEXT } };
_Static_assert(COUNT_OF(parts) == PART_SINCE, "the next one is by_age's");

static const struct column destinations[] = {
	{ "destination", COLUMN_TEXT },
	{ "messages", COLUMN_NUMBER },
	{ "recipients", COLUMN_NUMBER },
	{ "running", COLUMN_NUMBER },
	{ "window", COLUMN_NUMBER },
	{ "age", COLUMN_SECONDS },
	{ "wait", COLUMN_TEXT },
	{ "until", COLUMN_SECONDS },
	{ "doubtful", COLUMN_TRUTH },
	{ "proven", COLUMN_TRUTH },
	{ "waits_for", COLUMN_TEXT },
};

static const struct column runs[] = {
	{ "run", COLUMN_NUMBER },
	{ "pid", COLUMN_NUMBER },
	{ "mta", COLUMN_TEXT },
	{ "messages", COLUMN_NUMBER },
	{ "recipients", COLUMN_NUMBER },
	{ "destination", COLUMN_TEXT },
	{ "age", COLUMN_SECONDS },
	{ "progress", COLUMN_SECONDS },
	{ "stalls", COLUMN_TRUTH },
	{ "adopted", COLUMN_TRUTH },
};

static const struct {
	const char *view;
	const struct column *columns;
	size_t count;
	bool takes_pattern, by_age;
} lists[] = {
	{ "parts", parts, COUNT_OF(parts), true, true },
	{ "destinations", destinations, COUNT_OF(destinations), true, false },
	{ "runs", runs, COUNT_OF(runs), false, false },
};

static int list_rows(struct ctl *ctl, unsigned which, const struct mask *pattern) {
	struct rows rows = { .columns = lists[which].columns,
		.column_count = lists[which].count, .pattern = pattern,
		.by_age = lists[which].by_age };
	const struct control_field fields[] = { { "command", "queue" },
		{ "view", lists[which].view },
		{ "pattern", pattern != NULL ? ctl->arguments[0] : NULL } };

	return ask_queue(ctl, &rows, fields,
	    COUNT_OF(fields) - (pattern == NULL || !lists[which].takes_pattern));
}

int command_SENDMAIL_QUEUE(struct ctl *ctl) {
	struct mask mask, *pattern = NULL;
	const char *why;

	if (ctl->argument_count > 0) {
		if (!name_pattern(ctl->arguments[0], &mask, &why))
			return ctl_usage(COMMAND_SENDMAIL_QUEUE, "bad pattern %s: %s",
			    ctl->arguments[0], why);
		pattern = &mask;
	}
	if (ctl->destinations && ctl->runs)
		return ctl_usage(COMMAND_SENDMAIL_QUEUE, "--destinations and --runs cannot be combined");
	return list_rows(ctl, ctl->destinations ? 1 : ctl->runs ? 2 : 0, pattern);
}

int command_SENDMAIL_NEXT(struct ctl *ctl) {
	static const struct column columns[] = {
		{ "place", COLUMN_NUMBER },
		{ "why", COLUMN_TEXT },
		PART_COLUMNS,
		{ "because", COLUMN_TEXT },
	};
	struct rows rows = { .columns = columns, .column_count = COUNT_OF(columns) };
	const char *most = ctl->argument_count > 0 ? ctl->arguments[0] : "10";
	const struct control_field fields[] = { { "command", "next" }, { "most", most } };
	uint32_t number;

	if (!text_to_u32(most, strlen(most), 10000, &number) || number == 0)
		return ctl_usage(COMMAND_SENDMAIL_NEXT, "%s: must be a number from 1 to 10000", most);
	return ask_queue(ctl, &rows, fields, COUNT_OF(fields));
}

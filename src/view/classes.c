/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The host classes as people see them.
 * MODEL    Copied first and shown in the order of the configuration in force (it
 *          decides who matches first), removed ones behind them.
 * ERRORS   No memory.
 * THREADS  One.
 */
#include "view/classes.h"

#include <stdlib.h>

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))

struct placed_class {
	uint32_t place;
	struct reader_class class;
};

struct class_list {
	struct placed_class *list;
	size_t count, size;
};

static void keep_class(void *context, const struct reader_class *class) {
	struct class_list *classes = context;

	if (classes->count == classes->size)
		return;
	classes->list[classes->count].place = UINT32_MAX;
	classes->list[classes->count++].class = *class;
}

static int compare_places(const void *a, const void *b) {
	const struct placed_class *one = a, *other = b;

	if (one->place != other->place)
		return one->place < other->place ? -1 : 1;
	return (int)one->class.record - (int)other->class.record;
}

static int compare_records(const void *a, const void *b) {
	const struct placed_class *one = a, *other = b;

	return (int)one->class.record - (int)other->class.record;
}

/* By the configuration in force; without it they stay in order of record. */
static void place_classes(struct class_list *classes,
    const struct generation *generation) {
	if (generation == NULL)
		return;
	for (uint32_t i = 0; i < generation->class_count; i++) {
		struct placed_class key, *found;

		key.class.record = (uint16_t)generation_class(generation, i)->record;
		found = bsearch(&key, classes->list, classes->count,
		    sizeof(key), compare_records);
		if (found != NULL)
			found->place = i;
	}
	qsort(classes->list, classes->count, sizeof(*classes->list), compare_places);
}

/* Beside the limit that it comes to first. */
static struct value open_value(const struct reader_class *c) {
	uint32_t limit = c->inbound < c->sessions ? c->inbound : c->sessions;

	return value_toned_if(value_number(c->open), limit != LIMIT_NONE && c->open > 0 &&
	    (uint64_t)c->open * 10 >= (uint64_t)limit * 8, c->open >= limit ? TONE_BAD : TONE_WARN);
}

static void class_rows(void *context, struct writer *writer) {
	const struct class_list *classes = context;

	for (size_t i = 0; i < classes->count; i++) {
		const struct reader_class *c = &classes->list[i].class;
		uint32_t inbound = c->open_inbound <= c->open ? c->open_inbound : c->open;
		const struct value values[] = {
			value_text(c->name), open_value(c),
			value_number(inbound), value_number(c->open - inbound),
			value_limit(c->sessions), value_limit(c->inbound),
			value_number(c->peak), value_number(c->admitted),
			value_number(c->refused), value_number(c->observed),
			value_number(c->deferred), value_number(c->adopted),
			value_truth(c->observe), value_truth(c->removed),
		};

		writer_row(writer, values);
	}
}

int view_classes_write(const struct view *view, struct writer *writer, const char *name,
    unsigned *torn) {
	static const struct column columns[] = {
		{ "name", COLUMN_TEXT },
		{ "open", COLUMN_NUMBER },
		{ "open_inbound", COLUMN_NUMBER },
		{ "open_outbound", COLUMN_NUMBER },
		{ "sessions", COLUMN_NUMBER },
		{ "inbound", COLUMN_NUMBER },
		{ "peak", COLUMN_NUMBER },
		{ "admitted", COLUMN_NUMBER },
		{ "refused", COLUMN_NUMBER },
		{ "observed", COLUMN_NUMBER },
		{ "deferred", COLUMN_NUMBER },
		{ "adopted", COLUMN_NUMBER },
		{ "observe", COLUMN_TRUTH },
		{ "removed", COLUMN_TRUTH },
	};
	struct class_list classes = { .size = view->status.records_size };

	classes.list = calloc(classes.size, sizeof(*classes.list));
	if (classes.list == NULL)
		return -1;
	*torn = reader_classes(view->reader, keep_class, &classes);
	place_classes(&classes, view->generation);
	writer_table(writer, name, columns, COUNT_OF(columns), class_rows, &classes);
	free(classes.list);
	return 0;
}

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
#include <string.h>

#include "base/text.h"
#include "view/destination_page.h"

struct placed_class {
	uint32_t place;
	struct reader_class class;
};

struct class_list {
	const struct view *view;
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

bool view_class_share(const struct view *view, const struct reader_class *class,
    struct view_share *out) {
	uint64_t whole = class->inbound > class->sessions ? class->inbound : class->sessions;
	int64_t now_ns = view->status.now_ns;
	int64_t lease_ns = view->generation == NULL ? 0 : view->generation->cluster.lease_ns;

	if (!class->shared)
		return false;
	out->fixed = (uint64_t)class->share_fixed[0] + class->share_fixed[1];
	out->share = out->fixed;
	out->lease = "ended";
	if (now_ns < class->share_until_ns) {
		out->lease = "held";
		out->share += (uint64_t)class->share_leased[0] + class->share_leased[1];
	} else if (class->share_alone && now_ns - class->share_since_ns >= lease_ns) {
		out->lease = "alone";
		out->share = whole;
	}
	out->overhang = class->open > out->share ? class->open - out->share : 0;
	return true;
}

struct view_limits view_class_limits(const struct view *view,
    const struct reader_class *class) {
	struct view_limits out = { .inbound = class->inbound, .sessions = class->sessions };

	if (!class->shared || view->status.now_ns >= class->share_until_ns)
		return out;
	if (class->share_whole[0] < out.inbound)
		out.inbound = class->share_whole[0];
	if (class->share_whole[1] < out.sessions)
		out.sessions = class->share_whole[1];
	return out;
}

/* Behind the others where any class is shared. */
#define SHARE_COLUMNS	8
#define CLASS_COLUMNS	(15 + SHARE_COLUMNS)

struct value view_in_force(uint32_t limit, uint32_t own) {
	return value_toned_if(value_limit(limit), limit != own, TONE_WARN);
}

static void share_values(const struct view *view, const struct reader_class *class,
    struct value *values) {
	struct view_share share;
	struct view_limits limits;

	for (unsigned i = 0; i < SHARE_COLUMNS; i++)
		values[i] = value_unknown();
	values[0] = value_text("node");
	if (!view_class_share(view, class, &share))
		return;
	values[0] = value_text("cluster");
	values[1] = value_text(share.lease);
	values[2] = value_number(share.share);
	values[3] = value_number(share.fixed);
	values[4] = value_toned_if(value_number(share.overhang), share.overhang > 0, TONE_WARN);
	values[5] = value_number(class->share_refused[0] + class->share_refused[1]);
	limits = view_class_limits(view, class);
	values[6] = view_in_force(limits.sessions, class->sessions);
	values[7] = view_in_force(limits.inbound, class->inbound);
}

static void class_rows(void *context, struct writer *writer) {
	const struct class_list *classes = context;

	for (size_t i = 0; i < classes->count; i++) {
		const struct reader_class *c = &classes->list[i].class;
		uint32_t inbound = c->open_inbound <= c->open ? c->open_inbound : c->open;
		struct value values[CLASS_COLUMNS] = {
			value_text(c->name), open_value(c),
			value_number(inbound), value_number(c->open - inbound),
			value_limit(c->sessions), value_limit(c->inbound),
			value_number(c->admitted), value_number(c->refused),
			(struct value){ .known = true, .number = c->refusing },
			value_number(c->observed), value_number(c->deferred),
			value_number(c->peak), value_number(c->adopted),
			value_truth(c->observe), value_truth(c->removed),
		};

		share_values(classes->view, c, values + CLASS_COLUMNS - SHARE_COLUMNS);
		writer_row(writer, values);
	}
}

static void write_table(const struct class_list *classes, bool shared,
    struct writer *writer, const char *name) {
	static const struct column columns[CLASS_COLUMNS] = {
		{ "name", COLUMN_TEXT },
		{ "open", COLUMN_NUMBER },
		{ "open_inbound", COLUMN_NUMBER },
		{ "open_outbound", COLUMN_NUMBER },
		{ "hold_at", COLUMN_NUMBER },
		{ "refuse_at", COLUMN_NUMBER },
		{ "admitted", COLUMN_NUMBER },
		{ "refused", COLUMN_NUMBER },
		{ "refusing", COLUMN_DECIMAL },
		{ "observed", COLUMN_NUMBER },
		{ "deferred", COLUMN_NUMBER },
		{ "peak", COLUMN_NUMBER },
		{ "adopted", COLUMN_NUMBER },
		{ "observe", COLUMN_TRUTH },
		{ "removed", COLUMN_TRUTH },
		{ "scope", COLUMN_TEXT },
		{ "lease", COLUMN_TEXT },
		{ "share", COLUMN_NUMBER },
		{ "share_fixed", COLUMN_NUMBER },
		{ "overhang", COLUMN_NUMBER },
		{ "refused_share", COLUMN_NUMBER },
		{ "sessions_in_force", COLUMN_NUMBER },
		{ "inbound_in_force", COLUMN_NUMBER },
	};

	writer_table(writer, name, columns, shared ? CLASS_COLUMNS :
	    CLASS_COLUMNS - SHARE_COLUMNS, class_rows, (void *)(uintptr_t)classes);
}

/* In the order of the configuration.  False: no memory. */
static bool gather(const struct view *view, struct class_list *classes, bool *shared,
    unsigned *torn) {
	*classes = (struct class_list){ .size = view->status.records_used, .view = view };
	*shared = false;
	classes->list = calloc(classes->size + 1, sizeof(*classes->list));
	if (classes->list == NULL)
		return false;
	*torn = reader_classes(view->reader, keep_class, classes);
	place_classes(classes, view->generation);
	for (size_t i = 0; i < classes->count; i++)
		*shared |= classes->list[i].class.shared;
	return true;
}

int view_classes_write(const struct view *view, struct writer *writer, const char *name,
    unsigned *torn) {
	struct class_list classes;
	bool shared;

	if (!gather(view, &classes, &shared, torn))
		return -1;
	write_table(&classes, shared, writer, name);
	free(classes.list);
	return 0;
}

/* --- pages ------------------------------------------------------------------------ */

double view_class_trouble(const struct view *view, const struct reader_class *class) {
	struct view_share share = { .share = 0 };
	double limit = class->inbound < class->sessions ? class->inbound : class->sessions;
	double load;

	if (view_class_share(view, class, &share))
		limit = (double)share.share;
	load = class->open / (limit > 0 ? limit : 0.5);
	if (class->refusing == 0)
		return load < 100 ? load : 100;
	return class->observe ? 1000 + class->refusing : 1e10 + class->refusing;
}

struct class_order {
	const struct view *view;
	const struct page_choice *choice;
};

static int compare_choice(const void *a, const void *b, void *context) {
	const struct class_order *order = context;
	const struct reader_class *one = &((const struct placed_class *)a)->class;
	const struct reader_class *other = &((const struct placed_class *)b)->class;
	double x = 0, y = 0;
	int result;

	if (order->choice->sort == PAGE_BY_TROUBLE) {
		x = view_class_trouble(order->view, one);
		y = view_class_trouble(order->view, other);
	} else if (order->choice->sort == PAGE_BY_LOAD) {
		x = one->open;
		y = other->open;
	}
	result = x != y ? (x > y ? -1 : 1) : strcmp(one->name, other->name);
	return order->choice->reversed ? -result : result;
}

static bool has(const char *text, const char *find) {
	size_t length = strlen(find);

	if (length == 0)
		return true;
	for (; *text != '\0'; text++)
		if (strnlen(text, length) == length && text_equal_nocase(text, find, length))
			return true;
	return false;
}

/* Those that are found, in their order. */
static void choose(struct class_list *classes, const struct page_choice *choice) {
	struct class_order order = { classes->view, choice };
	size_t kept = 0;

	for (size_t i = 0; i < classes->count; i++)
		if (choice->exact ? strcmp(classes->list[i].class.name, choice->find) == 0 :
		    has(classes->list[i].class.name, choice->find))
			classes->list[kept++] = classes->list[i];
	classes->count = kept;
	qsort_r(classes->list, classes->count, sizeof(*classes->list), compare_choice, &order);
}

int view_classes_page(const struct view *view, const struct page_choice *choice,
    struct writer *writer) {
	struct class_list classes;
	struct placed_class *list;
	size_t total, found;
	unsigned torn;
	bool shared;

	if (!gather(view, &classes, &shared, &torn))
		return -1;
	list = classes.list;
	total = classes.count;
	choose(&classes, choice);
	found = classes.count;
	classes.list += choice->offset < found ? choice->offset : found;
	classes.count -= choice->offset < found ? choice->offset : found;
	if (classes.count > choice->limit)
		classes.count = choice->limit;
	writer_object_begin(writer, NULL);
	page_counts_write(writer, total, found, choice->offset);
	write_table(&classes, shared, writer, "rows");
	writer_object_end(writer);
	free(list);
	return 0;
}

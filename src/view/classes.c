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

#include "base/order.h"
#include "view/destination_page.h"

static void keep_class(void *context, const struct reader_class *class) {
	struct view_classes *classes = context;

	if (classes->count < classes->size)
		classes->list[classes->count++] = *class;
	classes->shared |= class->shared;
}

bool view_classes_read(const struct view *view, struct view_classes *out) {
	*out = (struct view_classes){ .view = view, .size = view->status.records_size,
		.list = calloc((size_t)view->status.records_size + 1, sizeof(*out->list)) };
	if (out->list == NULL)
		return false;
	out->torn = reader_classes(view->reader, keep_class, out);
	return true;
}

struct class_search {
	const char *name;
	struct reader_class *out;
	bool found;
};

/* Of one that was removed and is configured anew that one counts. */
static void look_at_class(void *context, const struct reader_class *class) {
	struct class_search *search = context;

	if (strcmp(class->name, search->name) != 0 || (search->found && class->removed))
		return;
	*search->out = *class;
	search->found = true;
}

bool view_class_find(const struct view *view, const char *name, struct reader_class *out) {
	struct class_search search = { .name = name, .out = out };

	(void)reader_classes(view->reader, look_at_class, &search);
	return search.found;
}

/* Behind those of the configuration in force are the removed ones; without it they stay in
 * order of record. */
static int compare_places(const void *a, const void *b, void *context) {
	const struct reader_class *one = a, *other = b;
	const uint32_t *places = context;
	/* of none: the last */
	uint32_t of_one = places[one->record] - 1, of_other = places[other->record] - 1;

	return order_then(ORDER(of_one, of_other), (int)one->record - (int)other->record);
}

bool view_classes_read_in_order(const struct view *view, struct view_classes *out) {
	const struct generation *g = view->generation;
	uint32_t *places = calloc(UINT16_MAX + 1, sizeof(*places));

	if (!view_classes_read(view, out) || places == NULL) {
		free(out->list);
		free(places);
		return false;
	}
	for (uint32_t i = 0; g != NULL && i < g->class_count; i++)
		places[generation_class(g, i)->record & UINT16_MAX] = i + 1;
	qsort_r(out->list, out->count, sizeof(*out->list), compare_places, places);
	free(places);
	return true;
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

static struct value in_force(uint32_t limit, uint32_t own) {
	return value_toned_if(value_limit(limit), limit != own, TONE_WARN);
}

void view_class_share_put(const struct view *view, const struct reader_class *class,
    struct writer *writer) {
	struct view_share share = { .lease = NULL };
	bool shared = view_class_share(view, class, &share);
	struct view_limits limits = view_class_limits(view, class);

	writer_text(writer, "lease", share.lease);
	writer_number_if(writer, "share", shared, share.share);
	writer_number_if(writer, "share_fixed", shared, share.fixed);
	writer_member(writer, "overhang", COLUMN_NUMBER, value_toned_if(value_number_if(shared,
	    share.overhang), share.overhang > 0, TONE_WARN));
	writer_number_if(writer, "refused_share", shared, class->share_refused[0] +
	    class->share_refused[1]);
	writer_member(writer, "sessions_in_force", COLUMN_NUMBER, shared ?
	    in_force(limits.sessions, class->sessions) : value_unknown());
	writer_member(writer, "inbound_in_force", COLUMN_NUMBER, shared ?
	    in_force(limits.inbound, class->inbound) : value_unknown());
}

static void class_row(void *context, struct writer *writer, const void *item) {
	const struct view_classes *classes = context;
	const struct reader_class *c = item;
	uint32_t inbound = c->open_inbound <= c->open ? c->open_inbound : c->open;

	writer_text(writer, "name", c->name);
	writer_member(writer, "open", COLUMN_NUMBER, open_value(c));
	writer_number(writer, "open_inbound", inbound);
	writer_number(writer, "open_outbound", c->open - inbound);
	writer_member(writer, "hold_at", COLUMN_NUMBER, value_limit(c->sessions));
	writer_member(writer, "refuse_at", COLUMN_NUMBER, value_limit(c->inbound));
	writer_number(writer, "admitted", c->admitted);
	writer_number(writer, "refused", c->refused);
	writer_decimal(writer, "refusing", value_number(c->refusing));
	writer_number(writer, "observed", c->observed);
	writer_number(writer, "deferred", c->deferred);
	writer_number(writer, "peak", c->peak);
	writer_number(writer, "adopted", c->adopted);
	writer_truth(writer, "observe", c->observe);
	writer_truth(writer, "removed", c->removed);
	if (!classes->shared)
		return;
	writer_text(writer, "scope", c->shared ? "cluster" : "node");
	view_class_share_put(classes->view, c, writer);
}

static void write_table(struct view_classes *classes, struct writer *writer,
    const char *name) {
	writer_table(writer, &(const struct table){ .name = name, .row = class_row,
	    .context = classes, .items = classes->list, .count = classes->count,
	    .each = sizeof(*classes->list) });
}

int view_classes_write(const struct view *view, struct writer *writer, unsigned *torn) {
	struct view_classes classes;

	if (!view_classes_read_in_order(view, &classes))
		return -1;
	*torn = classes.torn;
	write_table(&classes, writer, NULL);
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
	const struct reader_class *one = a, *other = b;
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

/* Those that are found, in their order. */
static void classes_choose(struct view_classes *classes, const struct page_choice *choice) {
	struct class_order order = { classes->view, choice };
	size_t kept = 0;

	for (size_t i = 0; i < classes->count; i++)
		if (choice->exact ? strcmp(classes->list[i].name, choice->find) == 0 :
		    strcasestr(classes->list[i].name, choice->find) != NULL)
			classes->list[kept++] = classes->list[i];
	classes->count = kept;
	qsort_r(classes->list, classes->count, sizeof(*classes->list), compare_choice, &order);
}

int view_classes_page(const struct view *view, const struct page_choice *choice,
    struct writer *writer) {
	struct reader_class *list;
	struct view_classes classes;
	size_t total, found;

	if (!view_classes_read_in_order(view, &classes))
		return -1;
	list = classes.list;
	total = classes.count;
	classes_choose(&classes, choice);
	found = classes.count;
	classes.list += choice->offset < found ? choice->offset : found;
	classes.count -= choice->offset < found ? choice->offset : found;
	if (classes.count > choice->limit)
		classes.count = choice->limit;
	writer_object_begin(writer, NULL);
	page_counts_write(writer, total, found, choice->offset);
	write_table(&classes, writer, "rows");
	writer_object_end(writer);
	free(list);
	return 0;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The order of the rows of posternctl top, which of them keys act on, and how many
 *          there is room for.
 * MODEL    The chosen row is known by what it is about: it stays chosen where it goes.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/text.h"
#include "ctl/show/top.h"
#include "view/decided.h"
#include "view/decision_page.h"

enum class_sort { CLASS_BY_TROUBLE, CLASS_BY_LOAD, CLASS_BY_OPEN, CLASS_BY_REFUSED,
	CLASS_BY_NAME, CLASS_AS_CONFIGURED, CLASS_SORTS };
enum destination_sort { DESTINATION_BY_TROUBLE, DESTINATION_BY_FLIGHT, DESTINATION_BY_WINDOW,
	DESTINATION_BY_END, DESTINATION_BY_NAME, DESTINATION_SORTS };

static const char *const class_words[CLASS_SORTS] = { "trouble", "load", "open", "refused/s",
	"name", "configured" };
static const char *const destination_words[DESTINATION_SORTS] = { "trouble", "in flight",
	"window", "until", "name" };

unsigned top_sorts(enum top_pane pane) {
	return pane == TOP_CLASSES ? CLASS_SORTS : pane == TOP_DESTINATIONS ? DESTINATION_SORTS : 1;
}

const char *top_sort_word(enum top_pane pane, unsigned sort) {
	return pane == TOP_CLASSES ? class_words[sort] :
	    pane == TOP_DESTINATIONS ? destination_words[sort] : "time";
}

/* How near the first of its limits it is. */
static double load_of(const struct top_class *class) {
	double limit = class->class.shared ? (double)class->share.share :
	    class->class.inbound < class->class.sessions ? class->class.inbound :
	    class->class.sessions;

	return class->class.open / (limit > 0 ? limit : 0.5);
}

/* The greater ones come first, and equal ones by name. */
static double class_weight(const struct top_class *one, unsigned sort) {
	switch (sort) {
	case CLASS_BY_TROUBLE:
		return one->trouble;
	case CLASS_BY_LOAD:
		return load_of(one);
	case CLASS_BY_OPEN:
		return one->class.open;
	case CLASS_BY_REFUSED:
		return one->refused;
	case CLASS_AS_CONFIGURED:
		return -(double)one->place;
	default:
		return 0;
	}
}

static double destination_weight(const struct view_destination *one, unsigned sort) {
	switch (sort) {
	case DESTINATION_BY_FLIGHT:
		return one->in_flight;
	case DESTINATION_BY_WINDOW:
		return one->window;
	case DESTINATION_BY_END:
		return (double)one->until_ns;
	default:
		return 0;
	}
}

static int by_class(const void *a, const void *b, void *context) {
	const struct top_class *one = a, *other = b;
	const struct top_list *list = context;
	int order = order_then(ORDER(class_weight(other, list->sort),
	    class_weight(one, list->sort)), strcmp(one->class.name, other->class.name));

	return list->reversed ? -order : order;
}

static int by_destination(const void *a, const void *b, void *context) {
	const struct view_destination *one = a, *other = b;
	const struct top_list *list = context;
	int order = list->sort == DESTINATION_BY_TROUBLE ?
	    view_trouble_compare(&one->trouble, &other->trouble) :
	    ORDER(destination_weight(other, list->sort), destination_weight(one, list->sort));

	order = order_then(order, strcmp(one->name, other->name));
	return list->reversed ? -order : order;
}

/* --- the choice ---------------------------------------------------------------------------- */

static uint64_t key_of(const char *name) {
	return text_hash(0, name, strlen(name));
}

size_t top_count(const struct top *top, enum top_pane pane) {
	return pane == TOP_CLASSES ? top->class_count :
	    pane == TOP_DESTINATIONS ? top->destination_count : top->shown_count;
}

/* What tells a row from others of its pane. */
static uint64_t top_key(const struct top *top, enum top_pane pane, size_t row) {
	return pane == TOP_CLASSES ? key_of(top->classes[row].class.name) :
	    pane == TOP_DESTINATIONS ? key_of(top->destinations[row].name) :
	    top->shown_keys[row];
}

void top_choose(struct top *top, long row) {
	struct top_list *list = &top->lists[top->pane];
	size_t count = top_count(top, top->pane);

	if (row >= (long)count)
		row = (long)count - 1;
	list->chosen = row < 0 ? 0 : (size_t)row;
	list->is_chosen = top->pane != TOP_DECISIONS || row > 0;
	list->chosen_key = count == 0 ? 0 : top_key(top, top->pane, list->chosen);
}

/* The first row is, as long as nobody chose another one. */
static void find_chosen(struct top *top, enum top_pane pane) {
	struct top_list *list = &top->lists[pane];
	size_t count = top_count(top, pane);

	if (!list->is_chosen)
		list->chosen = 0;
	for (size_t i = 0; i < count && list->is_chosen; i++)
		if (top_key(top, pane, i) == list->chosen_key) {
			list->chosen = i;
			return;
		}
	if (list->chosen >= count)
		list->chosen = count > 0 ? count - 1 : 0;
	list->chosen_key = count > 0 ? top_key(top, pane, list->chosen) : 0;
}

static bool decision_fits(const struct decided *decided, const char *filter) {
	const uint32_t texts = 1u << DECIDED_NAME | 1u << DECIDED_CLASS | 1u << DECIDED_RECIPIENT |
	    1u << DECIDED_REASON;

	return strcasestr(decided_word(decided->kind), filter) != NULL ||
	    view_decided_has(decided, texts, filter, false);
}

static void show_decision(struct top *top, size_t number) {
	uint64_t key = decision_group_key(&top->decisions.list[number]);
	size_t row = 0;

	while (row < top->shown_count && top->shown_keys[row] != key)
		row++;
	if (row < top->shown_count) {
		top->alike[row]++;
		return;
	}
	top->shown[row] = number;
	top->shown_keys[row] = key;
	top->alike[row] = 1;
	top->shown_count++;
}

void top_order(struct top *top) {
	if (top->class_count > 1)
		qsort_r(top->classes, top->class_count, sizeof(*top->classes), by_class,
		    &top->lists[TOP_CLASSES]);
	if (top->destination_count > 1)
		qsort_r(top->destinations, top->destination_count, sizeof(*top->destinations),
		    by_destination, &top->lists[TOP_DESTINATIONS]);
	top->shown_count = 0;
	for (size_t i = 0; i < top->decisions.count; i++)
		if (decision_fits(&top->decisions.list[i], top->filter))
			show_decision(top, i);
	for (unsigned pane = 0; pane < TOP_PANES; pane++)
		find_chosen(top, (enum top_pane)pane);
}

/* --- room ---------------------------------------------------------------------------- */

unsigned top_room(const struct top *top, enum top_pane pane, int rows) {
	int left = rows - (int)top_header_rows(top) - 1 - (top->alone ? 1 : (int)TOP_PANES);
	size_t share[TOP_PANES], spare = 0;

	if (left <= 0)
		return 0;
	if (top->alone)
		return pane == top->pane ? (unsigned)left : 0;
	share[TOP_CLASSES] = (size_t)left / 4;
	share[TOP_DECISIONS] = (size_t)left / 3;
	share[TOP_DESTINATIONS] = (size_t)left - share[TOP_CLASSES] - share[TOP_DECISIONS];
	for (unsigned i = 0; i < TOP_PANES; i++)
		if (top_count(top, (enum top_pane)i) < share[i]) {
			spare += share[i] - top_count(top, (enum top_pane)i);
			share[i] = top_count(top, (enum top_pane)i);
		}
	for (unsigned i = 0; i < TOP_PANES && spare > 0; i++) {
		size_t wants = top_count(top, (enum top_pane)i) - share[i];
		size_t given = wants < spare ? wants : spare;

		share[i] += given;
		spare -= given;
	}
	return (unsigned)share[pane];
}

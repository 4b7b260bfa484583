/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Rows of a page of destinations.
 * MODEL    The index has what is sought and sorted by; what is shown is read anew, by the
 *          number of the slot.  Sorted are numbers of entries, of those that were found.
 * ERRORS   No memory.
 * THREADS  One.
 */
#include "view/destination_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/order.h"
#include "policy/window/window.h"

#define BUILD_SHARE	10		/* a tenth of the time at most */
#define BUILD_LEAST_NS	(250 * NS_PER_MS)

struct entry {
	char name[SEGMENT_NAME_MAX + 1];
	bool begun;
	uint32_t number, window, reason;	/* reason: 1 + place in reasons; 0 */
	struct view_trouble trouble;
	int64_t until_ns;
};

struct destination_index {
	struct entry *entries;
	size_t count, size;
	char (*reasons)[SEGMENT_REASON_MAX + 1];
	size_t reason_count, reason_size;
	bool no_memory;
	int64_t built_ns, took_ns;
	uint32_t *found;		/* numbers of entries, in their order */
	size_t found_size;
	uint64_t reader_created;	/* of the state that it is of */
	const struct view *view;
};

enum page_sort page_sort_of(const char *word) {
	static const char *const words[PAGE_SORTS] = { "trouble", "name", "load", "window",
		"until" };
	unsigned i = 0;

	while (i < PAGE_SORTS && strcmp(words[i], word) != 0)
		i++;
	return (enum page_sort)i;
}

struct destination_index *destination_index_new(void) {
	return calloc(1, sizeof(struct destination_index));
}

void destination_index_free(struct destination_index **index) {
	if (*index == NULL)
		return;
	free((*index)->entries);
	free((*index)->reasons);
	free((*index)->found);
	free(*index);
	*index = NULL;
}

/* --- making the index -------------------------------------------------------------------- */

static uint32_t keep_reason(struct destination_index *index, const char *reason) {
	if (reason[0] == '\0' || !array_grow(&index->reasons, &index->reason_size,
		index->reason_count, sizeof(*index->reasons)))
		return 0;
	memcpy(index->reasons[index->reason_count], reason, sizeof(*index->reasons));
	return (uint32_t)++index->reason_count;
}

static void index_add(void *context, const struct destination_window *one) {
	struct destination_index *index = context;
	struct entry *entry;

	if (!array_grow(&index->entries, &index->size, index->count, sizeof(*entry))) {
		index->no_memory = true;
		return;
	}
	entry = &index->entries[index->count++];
	*entry = (struct entry){ .trouble = view_trouble_of(index->view, one),
		.begun = one->state.begun, .number = one->number,
		.window = one->state.window.concurrency,
		.until_ns = one->state.window.until_ns };
	memcpy(entry->name, one->name, sizeof(entry->name));
	entry->reason = keep_reason(index, one->reason);
}

static int index_build(struct destination_index *index, const struct view *view) {
	int64_t now_ns = clock_now_ns();

	if (index->built_ns != 0 && index->reader_created == (uint64_t)view->status.created_ns &&
	    now_ns - index->built_ns < BUILD_LEAST_NS + index->took_ns * BUILD_SHARE)
		return 0;
	index->count = index->reason_count = 0;
	index->view = view;
	index->no_memory = false;
	(void)states_each(view->reader, index_add, index);
	index->built_ns = clock_now_ns();
	index->took_ns = index->built_ns - now_ns;
	index->reader_created = (uint64_t)view->status.created_ns;
	if (!index->no_memory)
		return 0;
	errno = ENOMEM;
	return -1;
}

/* --- finding and sorting ------------------------------------------------------------------- */

static bool is_wanted(const struct destination_index *index, const struct entry *entry,
    const struct page_choice *choice) {
	if (choice->exact)
		return strcmp(entry->name, choice->find) == 0;
	if (choice->trouble && entry->trouble.rank < 2)
		return false;
	if (choice->find[0] == '\0')
		return entry->begun;	/* a domain of a provider has no window of its own */
	return strcasestr(entry->name, choice->find) != NULL || (entry->reason != 0 &&
	    strcasestr(index->reasons[entry->reason - 1], choice->find) != NULL);
}

struct order {
	const struct entry *entries;
	const struct page_choice *choice;
};

/* The greater ones come first, and equal ones by name. */
static int64_t weight_of(const struct entry *one, enum page_sort sort) {
	switch (sort) {
	case PAGE_BY_LOAD:
		return one->trouble.in_flight;
	case PAGE_BY_WINDOW:
		return one->window;
	case PAGE_BY_END:
		return one->trouble.rank >= 2 ? one->until_ns : 0;
	default:
		return 0;
	}
}

static int entry_compare(const void *a, const void *b, void *context) {
	const struct order *order = context;
	const struct entry *one = &order->entries[*(const uint32_t *)a];
	const struct entry *other = &order->entries[*(const uint32_t *)b];
	enum page_sort sort = order->choice->sort;
	int result = sort == PAGE_BY_TROUBLE ?
	    view_trouble_compare(&one->trouble, &other->trouble) :
	    ORDER(weight_of(other, sort), weight_of(one, sort));

	result = order_then(result, strcmp(one->name, other->name));
	return order->choice->reversed ? -result : result;
}

/* A heap of the first `most`, the last of them on top: no need to sort all of them. */
static void sift(uint32_t *heap, size_t count, size_t at, struct order *order) {
	for (;;) {
		size_t child = 2 * at + 1;
		uint32_t moved = heap[at];

		if (child >= count)
			return;
		if (child + 1 < count && entry_compare(&heap[child + 1], &heap[child], order) > 0)
			child++;
		if (entry_compare(&heap[child], &moved, order) <= 0)
			return;
		heap[at] = heap[child];
		heap[child] = moved;
		at = child;
	}
}

static void keep_first(uint32_t *heap, size_t *kept, size_t most, uint32_t entry,
    struct order *order) {
	if (*kept < most) {
		heap[(*kept)++] = entry;
		for (size_t i = *kept == most ? most / 2 : 0; i-- > 0;)
			sift(heap, most, i, order);
	} else if (entry_compare(&entry, &heap[0], order) < 0) {
		heap[0] = entry;
		sift(heap, most, 0, order);
	}
}

/* The first ones of those that are wanted, sorted, in index->found; -1: no memory. */
static int index_find(struct destination_index *index, const struct page_choice *choice,
    size_t *kept, uint64_t *found) {
	struct order order = { index->entries, choice };
	size_t most = (size_t)choice->offset + choice->limit;

	if (most > index->count)
		most = index->count;
	if (most > index->found_size || index->found == NULL) {
		uint32_t *grown = reallocarray(index->found, most + 1, sizeof(*grown));

		if (grown == NULL)
			return -1;
		index->found = grown;
		index->found_size = most + 1;
	}
	*kept = 0;
	*found = 0;
	for (size_t i = 0; i < index->count; i++) {
		if (!is_wanted(index, &index->entries[i], choice))
			continue;
		++*found;
		if (most > 0)
			keep_first(index->found, kept, most, (uint32_t)i, &order);
	}
	qsort_r(index->found, *kept, sizeof(*index->found), entry_compare, &order);
	return 0;
}

/* --- what is shown ------------------------------------------------------------------------- */

void page_counts_write(struct writer *writer, uint64_t total, uint64_t found, unsigned offset) {
	writer_number(writer, "total", total);
	writer_number(writer, "found", found);
	writer_number(writer, "offset", offset);
}

int destination_page_write(struct destination_index *index, const struct view *view,
    const struct page_choice *choice, bool counts, struct writer *writer) {
	const struct view_choice none = { .no_recipients = true };
	struct destination_window *rows = calloc(PAGE_ROWS_MOST, sizeof(*rows));
	struct view_destinations all = { .view = view, .windows = { .list = (char *)rows,
		.each = sizeof(*rows), .choice = &none } };
	uint64_t total = 0, found;
	size_t kept;

	if (rows == NULL || index_build(index, view) != 0 ||
	    index_find(index, choice, &kept, &found) != 0) {
		free(rows);
		return -1;
	}
	for (size_t i = choice->offset; i < kept && all.windows.count < PAGE_ROWS_MOST; i++) {
		const struct entry *entry = &index->entries[index->found[i]];
		struct destination_window *row = &rows[all.windows.count];

		if (states_at(view->reader, entry->number, row) &&
		    strcmp(row->name, entry->name) == 0)
			all.windows.count++;
	}
	for (size_t i = 0; i < index->count; i++)
		total += index->entries[i].begun;
	if (counts) {
		writer_object_begin(writer, NULL);
		page_counts_write(writer, total, found, choice->offset);
	}
	view_destinations_write(&all, writer, counts ? "rows" : NULL);
	if (counts)
		writer_object_end(writer);
	free(rows);
	return 0;
}

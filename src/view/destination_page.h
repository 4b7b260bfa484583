/* SPDX-License-Identifier: ISC */
/*
 * A page out of all destinations, for who looks at 100,000 of them: an index of them is made
 * at most so often that making it takes a tenth of the time, and each request takes its rows
 * out of it.  One thread.
 */
#ifndef VIEW_DESTINATION_PAGE_H
#define VIEW_DESTINATION_PAGE_H

#include "view/destinations.h"

struct destination_index;

enum page_sort { PAGE_BY_TROUBLE, PAGE_BY_NAME, PAGE_BY_LOAD, PAGE_BY_WINDOW, PAGE_BY_END,
	PAGE_SORTS };
/* "trouble", "name", "load" ...; PAGE_SORTS: of none. */
enum page_sort page_sort_of(const char *word);

struct page_choice {
	char find[64];		/* in the name or the reason, whatever the case; "": all */
	enum page_sort sort;
	bool reversed;
	bool trouble;		/* those alone that are stopped, or would be */
	bool exact;		/* find is the whole name */
	unsigned offset, limit;	/* at most PAGE_ROWS_MOST */
};
#define PAGE_ROWS_MOST	200u

/* Members of the open object: total, found, offset. */
void page_counts_write(struct writer *writer, uint64_t total, uint64_t found, unsigned offset);

/* NULL: no memory. */
struct destination_index *destination_index_new(void);
void destination_index_free(struct destination_index **index);

/* An object: total, found, offset, and the table "rows" as of view_destinations_write; or
 * (`counts` false) that table alone.  -1: no memory (errno). */
int destination_page_write(struct destination_index *index, const struct view *view,
    const struct page_choice *choice, bool counts, struct writer *writer);

#endif

/* SPDX-License-Identifier: ISC */
/* The host classes: what is open, limits, what was decided. */
#ifndef VIEW_CLASSES_H
#define VIEW_CLASSES_H

#include "view/view.h"

/* What this node may use of a class whose limits hold for all nodes of a cluster. */
struct view_share {
	const char *lease;	/* "held", "ended" (only what is fixed counts), "alone" (the whole
				 * limit does) */
	uint64_t share;		/* sessions that may be open here now */
	uint64_t fixed;		/* of them always */
	uint64_t overhang;	/* open ones above that, as a lease ended */
};
/* False: the class is not shared. */
bool view_class_share(const struct view *view, const struct reader_class *class,
    struct view_share *out);

/* Its sessions and inbound as they count: of a shared class the lowest of all nodes, while it is
 * known. */
struct view_limits {
	uint32_t inbound, sessions;
};
struct view_limits view_class_limits(const struct view *view, const struct reader_class *class);

struct value view_in_force(uint32_t limit, uint32_t own);

/* How much it asks to be looked at: one that refuses comes before one that is near its limit, and
 * that before one that would refuse. */
double view_class_trouble(const struct view *view, const struct reader_class *class);

/* A page of them (view/destination_page.h), as an object: total, found, offset, and the table
 * "rows" as of view_classes_write.  Sorts: trouble, name, load (open sessions).  A class that is
 named whole is a page of one.  -1: no memory (errno). */
struct page_choice;
int view_classes_page(const struct view *view, const struct page_choice *choice,
    struct writer *writer);

/* The table of posternctl classes; `name` as of writer_table.  *torn: how many could not be
 * read consistently.  -1: no memory (errno). */
int view_classes_write(const struct view *view, struct writer *writer, const char *name,
    unsigned *torn);

#endif

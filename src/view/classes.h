/* SPDX-License-Identifier: ISC */
/* The host classes: what is open, limits, what was decided. */
#ifndef VIEW_CLASSES_H
#define VIEW_CLASSES_H

#include "view/view.h"

/* Copies of all of them, in no order; the caller frees the list. */
struct view_classes {
	const struct view *view;
	struct reader_class *list;
	size_t count, size;
	bool shared;			/* one of them is */
	unsigned torn;			/* so many could not be read consistently */
};
/* The class of this name, removed or not; false: there is none. */
bool view_class_find(const struct view *view, const char *name, struct reader_class *out);

/* False: no memory. */
bool view_classes_read(const struct view *view, struct view_classes *out);
/* As the configuration has them, removed ones behind. */
bool view_classes_read_in_order(const struct view *view, struct view_classes *out);

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

/* What this node may use of it, as members: lease, share ... */
void view_class_share_put(const struct view *view, const struct reader_class *class,
    struct writer *writer);

/* How much it asks to be looked at: one that refuses comes before one that is near its limit, and
 * that before one that would refuse. */
double view_class_trouble(const struct view *view, const struct reader_class *class);

/* A page of them (view/destination_page.h), as an object: total, found, offset, and the table
 * "rows" as of view_classes_write.  Sorts: trouble, name, load (open sessions).  A class that is
 named whole is a page of one.  -1: no memory (errno). */
struct page_choice;
int view_classes_page(const struct view *view, const struct page_choice *choice,
    struct writer *writer);

/* The table of posternctl classes.  *torn: how many could not be read consistently.  -1: no
 * memory (errno). */
int view_classes_write(const struct view *view, struct writer *writer, unsigned *torn);

#endif

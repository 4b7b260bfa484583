/* SPDX-License-Identifier: ISC */
/* The whole daemon at a glance. */
#ifndef VIEW_STATUS_H
#define VIEW_STATUS_H

#include "view/view.h"

/* An object at top level.  `all`: in text also counters that have counted nothing. */
void view_status_write(struct view *view, struct writer *writer, bool all);

/* Postfix sites that have no hints until posternctl postfix-lanes has read them again. */
uint64_t view_sites_changed(const struct view *view);

/* The tables of the state file; accounts, the last one, only where there are any. */
struct view_table {
	const char *name;
	uint64_t size, used;
};
#define VIEW_TABLES	8
unsigned view_tables(const struct reader_status *status, struct view_table out[VIEW_TABLES]);

/* Copies of all roles; returns how many there are. */
unsigned view_roles(const struct view *view, struct reader_role out[SEGMENT_ROLES_MAX]);

#endif

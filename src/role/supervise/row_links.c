/* SPDX-License-Identifier: ISC */
/* The links of optional rows.  No state, no errors of its own; the supervisor's thread. */
#include "role/supervise/row_links.h"

#include <poll.h>
#include <stddef.h>

/* The next row from `row` on that has a link; *row is NULL: there is none. */
static const struct role_row *const *linked(const struct role_row *const *row) {
	while (*row != NULL && (*row)->link == NULL)
		row++;
	return row;
}

#define EACH_LINKED(row) \
	const struct role_row *const *row = linked(role_rows); *row != NULL; row = linked(row + 1)

void row_links_init(struct supervisor *supervisor) {
	for (EACH_LINKED(row))
		(*row)->link->init(supervisor);
}

void row_links_close(struct supervisor *supervisor) {
	for (EACH_LINKED(row))
		(*row)->link->close(supervisor);
}

void row_links_poll(const struct supervisor *supervisor, struct pollfd *polled) {
	for (unsigned i = 0; i < ROLE_ROWS_MAX; i++)
		polled[i] = (struct pollfd){ .fd = -1 };
	for (EACH_LINKED(row))
		(*row)->link->poll(supervisor, polled++);
}

void row_links_turn(struct supervisor *supervisor, int64_t now_ns) {
	for (EACH_LINKED(row))
		(*row)->link->turn(supervisor, now_ns);
}

int64_t row_links_next_ns(const struct supervisor *supervisor) {
	int64_t next_ns = INT64_MAX;

	for (EACH_LINKED(row)) {
		int64_t its_ns = (*row)->link->next_ns(supervisor);

		if (its_ns < next_ns)
			next_ns = its_ns;
	}
	return next_ns;
}

void row_links_reloaded(struct supervisor *supervisor) {
	for (EACH_LINKED(row))
		(*row)->link->reloaded(supervisor);
}

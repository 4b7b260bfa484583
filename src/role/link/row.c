/* SPDX-License-Identifier: ISC */
/* The optional rows of this build.  No state. */
#include "role/link/row.h"

#include <stddef.h>

extern const struct role_row queue_row, cluster_row;

const struct role_row *const role_rows[] = {
#ifdef WITH_QUEUE
	&queue_row,
#endif
#ifdef WITH_CLUSTER
	&cluster_row,
#endif
	NULL,
};

const struct role_row *role_row_of(enum role_kind kind) {
	for (const struct role_row *const *row = role_rows; *row != NULL; row++)
		if ((*row)->kind == kind)
			return *row;
	return NULL;
}

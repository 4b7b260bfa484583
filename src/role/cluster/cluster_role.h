/* SPDX-License-Identifier: ISC */
/* The cluster role's secret. */
#ifndef ROLE_CLUSTER_ROLE_H
#define ROLE_CLUSTER_ROLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "config/generation/generation.h"
#include "role/link/role.h"

#define CLUSTER_SECRET_BYTES	(CLUSTER_PASSWORD_MAX + 1)

struct cluster_secret {
	char password[CLUSTER_SECRET_BYTES];
	size_t length;		/* 0: none is sent */
	char error[256];	/* why it could not be read; "": it was */
	uint64_t stamp;		/* of the file (base/file_stamp.h), from before it was read */
};

/* For the password: in no core, and in this process alone.  NULL with *diag. */
struct cluster_secret *cluster_secret_page(struct diag *diag);

/* After fork, while it is still root: reads cluster.password_file into a page that no core
 * has, and that this process alone has.  -1 with *diag: there is no such page. */
int cluster_role_open(const struct generation *generation, struct role_context *context,
    struct diag *diag);

#endif

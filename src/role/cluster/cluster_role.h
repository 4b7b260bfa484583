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

#endif

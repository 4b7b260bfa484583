/* SPDX-License-Identifier: ISC */
/* What prepare.h has done by a process of its own, without privileges. */
#ifndef ROLE_PREPARE_BEGIN_H
#define ROLE_PREPARE_BEGIN_H

#include <stdint.h>

#include "role/run/handover.h"

/* What the one that makes the segment reports; nobody believes more of it than is checked. */
struct prepare_result {
	uint64_t generation;	/* its number */
};

/* Does its duty; the exit code of the process. */
int prepare_begin(const struct handover *handover);

#endif

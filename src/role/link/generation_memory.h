/* SPDX-License-Identifier: ISC */
/* A configuration generation as a file in memory that nobody can change any more: so it goes
 * from the supervisor, which compiled it, to the process that publishes it. */
#ifndef ROLE_GENERATION_MEMORY_H
#define ROLE_GENERATION_MEMORY_H

#include "base/diag.h"
#include "config/generation/generation.h"

/* A close-on-exec descriptor of the sealed file, or -1 with *diag. */
int generation_memory_make(const struct generation *generation, struct diag *diag);

/* The same in two steps, which may be of two processes: an empty one, and what it is to hold. */
int generation_memory_open(struct diag *diag);
int generation_memory_fill(int fd, const struct generation *generation, struct diag *diag);

/* Writes all of `bytes`.  0, or -1 with errno. */
int generation_memory_write(int fd, const void *bytes, size_t length);

/* It verified, for generation_memory_unmap; what the caller changes (never `bytes`) nobody else
 * sees.  NULL with *diag: it is no such file, is not sealed, or holds no generation.  `fd` may
 * be closed. */
struct generation *generation_memory_map(int fd, struct diag *diag);
void generation_memory_unmap(struct generation *generation);

#endif

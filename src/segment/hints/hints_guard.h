/* SPDX-License-Identifier: ISC */
/* A mapping that somebody else may cut short while it is read. */
#ifndef SEGMENT_HINTS_GUARD_H
#define SEGMENT_HINTS_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* The one hints file that is read from now on (base NULL: none).  Where its file ends too
 * early, it reads as zeros from then on, if hints_reader_outlive_cuts was called; else
 * SIGBUS is what it was. */
void hints_guard(void *base, size_t bytes);
/* Has that happened since? */
bool hints_guard_was_cut(void);

/* The same of the one file of numbers (segment/hints/given.h), which is also written, by whatever
 * thread has it. */
void given_guard(void *base, size_t bytes);
bool given_guard_was_cut(const void *base);

#endif

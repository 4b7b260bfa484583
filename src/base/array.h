/* SPDX-License-Identifier: ISC */
/* An array on the heap that grows by doubling. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Room for number `at` of elements of `each` bytes, of which *size have room; `array` is the
 * address of the pointer to them (NULL: none yet).  False: no memory (errno), and nothing has
 * changed. */
bool array_grow(void *array, size_t *size, size_t at, size_t each);

#endif

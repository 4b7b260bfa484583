/* SPDX-License-Identifier: ISC */
/* Memory of a simulation: where there is none, the program ends (EX_OSERR). */
#ifndef LAB_MEMORY_H
#define LAB_MEMORY_H

#include <stddef.h>

/* Zeros; never NULL, whatever the count. */
void *memory_of(size_t count, size_t size);

/* The same pointer, of something that is NULL without memory. */
void *memory_is_there(void *memory);

/* array_grow (base/array.h). */
void memory_grow(void *array, size_t *size, size_t at, size_t each);

#endif

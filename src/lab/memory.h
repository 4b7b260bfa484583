/* SPDX-License-Identifier: ISC */
/* Memory of a simulation: where there is none, the program ends (EX_OSERR). */
#ifndef LAB_MEMORY_H
#define LAB_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Zeros; never NULL, whatever the count. */
void *memory_of(size_t count, size_t size);

/* The same pointer, of something that is NULL without memory. */
void *memory_is_there(void *memory);

/* array_grow (base/array.h). */
void memory_grow(void *array, size_t *size, size_t at, size_t each);

/* Rows that a simulation keeps until it ends, because the figures stand first. */
struct memory_rows {
	char *list;
	size_t count, room;
	bool full;	/* there were more than `most` */
};

/* Adds a row of `size` bytes, the same at each call. */
void memory_rows_add(struct memory_rows *rows, const void *row, size_t size, size_t most);

#endif

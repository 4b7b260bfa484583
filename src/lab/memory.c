/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Memory of a simulation.
 * ERRORS   Complained about; the program ends.
 * THREADS  One.
 */
#include "lab/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/array.h"
#include "lab/lab.h"

void *memory_is_there(void *memory) {
	if (memory == NULL)
		exit(lab_complain(EX_OSERR, "%s", strerror(ENOMEM)));
	return memory;
}

void *memory_of(size_t count, size_t size) {
	return memory_is_there(calloc(count + 1, size));
}

void memory_grow(void *array, size_t *size, size_t at, size_t each) {
	if (!array_grow(array, size, at, each))
		(void)memory_is_there(NULL);
}

void memory_rows_add(struct memory_rows *rows, const void *row, size_t size, size_t most) {
	rows->full = rows->full || rows->count == most;
	if (rows->full)
		return;
	memory_grow(&rows->list, &rows->room, rows->count, size);
	memcpy(rows->list + rows->count++ * size, row, size);
}

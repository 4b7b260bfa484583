/* SPDX-License-Identifier: ISC */
/* An array that grows. */
#include "base/array.h"

#include <stdlib.h>
#include <string.h>

#define SIZE_FIRST	64

bool array_grow(void *array, size_t *size, size_t at, size_t each) {
	size_t wanted = *size == 0 ? SIZE_FIRST : *size;
	void *old, *grown;

	if (at < *size)
		return true;
	while (wanted <= at)
		wanted *= 2;
	memcpy(&old, array, sizeof(old));
	grown = reallocarray(old, wanted, each);
	if (grown == NULL)
		return false;
	memcpy(array, &grown, sizeof(grown));
	*size = wanted;
	return true;
}

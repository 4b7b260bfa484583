/* SPDX-License-Identifier: ISC */
/* Memory for the indexes of policy/limit/class.h, which has none of its own. */
#include "config/generation/mask_index.h"

#include <stdlib.h>

#define ALIGNMENT	64

void *mask_index_make(const struct class_rule *masks, uint32_t count, size_t *bytes) {
	size_t index_bytes, scratch_bytes;
	void *index, *scratch;

	class_index_measure(masks, count, &index_bytes, &scratch_bytes);
	index = aligned_alloc(ALIGNMENT, (index_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
	scratch = malloc(scratch_bytes + 1);
	*bytes = index == NULL || scratch == NULL ? 0 : class_index_build(masks, count, index,
	    index_bytes, scratch, scratch_bytes);
	free(scratch);
	if (*bytes != 0)
		return index;
	free(index);
	return NULL;
}

/* SPDX-License-Identifier: ISC */
/* Memory for the indexes of policy/limit/class.h, which has none of its own; masks in a block. */
#include "config/generation/mask_index.h"

#include <stdlib.h>

#include "base/text.h"
#include "config/generation/block.h"

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

uint32_t mask_index_store(struct block *block, const struct class_rule *masks, uint32_t count) {
	uint32_t present = 0, offset;
	size_t bytes;
	void *index;

	for (uint32_t i = 0; i < count; i++)
		present += !masks[i].left_out;
	if (present == 0 || block->failed)
		return 0;
	index = mask_index_make(masks, count, &bytes);
	block->failed |= index == NULL;
	offset = block_store(block, index, bytes);
	free(index);
	return offset;
}

uint32_t mask_names_store(struct block *block, const struct class_rule *masks, uint32_t count,
    size_t longest) {
	uint32_t names = count == 0 ? 0 : block_reserve(block, count * sizeof(uint32_t));

	for (uint32_t i = 0; i < count && !block->failed; i++) {
		const struct mask *mask = &masks[i].mask;
		char name[MASK_NAME_MAX + 1];
		uint32_t text;

		if (mask->kind != MASK_NAME || mask->name_length > longest ||
		    !text_copy(name, sizeof(name), mask->name, mask->name_length))
			continue;
		for (char *at = name; *at != '\0'; at++)
			if (*at >= 'A' && *at <= 'Z')
				*at = (char)(*at | 0x20);
		text = block_text(block, name);
		if (!block->failed)
			((uint32_t *)block_at(block, names))[i] = text;
	}
	return names;
}

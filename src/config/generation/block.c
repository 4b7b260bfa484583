/* SPDX-License-Identifier: ISC */
/* The first failure is remembered and everything after it does nothing, so
 * that the callers check once, at the end. */
#include "config/generation/block.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/generation/generation.h"

static bool grow(struct block *block, size_t bytes) {
	size_t room = block->room;
	char *data;

	if (block->failed || bytes > GENERATION_BYTES_MAX - block->used) {
		block->failed = true;
		return false;
	}
	while (room < block->used + bytes)
		room = room == 0 ? 4096 : room * 2;
	if (room == block->room)
		return true;
	data = realloc(block->data, room);
	if (data == NULL) {
		block->failed = true;
		return false;
	}
	block->data = data;
	block->room = room;
	return true;
}

void block_begin(struct block *block, size_t bytes) {
	memset(block, 0, sizeof(*block));
	if (!grow(block, bytes))
		return;
	memset(block->data, 0, bytes);
	block->used = bytes;
}

void block_free(struct block *block) {
	free(block->data);
	map_free(&block->texts);
	memset(block, 0, sizeof(*block));
}

struct generation *block_finish(struct block *block) {
	struct generation *whole = NULL;

	/* it ends with a NUL: no text in it runs over */
	(void)block_reserve(block, 8);
	if (!block->failed) {
		whole = (struct generation *)(void *)block->data;
		whole->bytes = block->used;
		block->data = NULL;
	}
	block_free(block);
	return whole;
}

uint32_t block_reserve(struct block *block, size_t bytes) {
	size_t padding = -block->used & 7;
	size_t offset;

	if (bytes > GENERATION_BYTES_MAX || !grow(block, padding + bytes)) {
		block->failed = true;
		return 0;
	}
	memset(block->data + block->used, 0, padding + bytes);
	offset = block->used + padding;
	block->used = offset + bytes;
	return (uint32_t)offset;
}

uint32_t block_store(struct block *block, const void *array, size_t bytes) {
	uint32_t offset = bytes == 0 ? 0 : block_reserve(block, bytes);

	if (offset != 0)
		memcpy(block_at(block, offset), array, bytes);
	return offset;
}

void *block_at(const struct block *block, uint32_t offset) {
	return block->data + offset;
}

uint32_t block_text(struct block *block, const char *text) {
	size_t length = strlen(text);
	uint64_t hash = text_hash(0, text, length);
	struct map_cell *cell = map_find(&block->texts, hash);

	if (block->failed || length == 0)
		return 0;
	while (cell != NULL && strcmp(block->data + cell->index, text) != 0)
		cell = map_next(&block->texts, cell);
	if (cell != NULL)
		return cell->index;
	if (!grow(block, length + 1) || (cell = map_add(&block->texts, hash)) == NULL) {
		block->failed = true;
		return 0;
	}
	cell->index = (uint32_t)block->used;
	memcpy(block->data + block->used, text, length + 1);
	block->used += length + 1;
	return cell->index;
}

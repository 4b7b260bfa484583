/* SPDX-License-Identifier: ISC */
/* The first failure is remembered and everything after it does nothing, so
 * that the callers check once, at the end. */
#include "config/block.h"

#include <stdlib.h>
#include <string.h>

#include "config/generation.h"

static bool grow(struct block *block, size_t bytes)
{
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

void block_begin(struct block *block, size_t bytes)
{
	memset(block, 0, sizeof(*block));
	if (!grow(block, bytes))
		return;
	memset(block->data, 0, bytes);
	block->used = bytes;
}

void block_free(struct block *block)
{
	free(block->data);
	free(block->texts);
	memset(block, 0, sizeof(*block));
}

uint32_t block_reserve(struct block *block, size_t bytes)
{
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

void block_trim(struct block *block, uint32_t offset, size_t bytes)
{
	if (!block->failed && offset + bytes < block->used)
		block->used = offset + bytes;
}

void *block_at(const struct block *block, uint32_t offset)
{
	return block->data + offset;
}

static uint64_t hash(const char *text, size_t length)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < length; i++)
		h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 29;
}

/* Where the text is, or where its offset belongs. */
static uint32_t *find(const struct block *block, const char *text, size_t length)
{
	size_t mask = block->text_room - 1;
	size_t i = (size_t)hash(text, length) & mask;

	for (; block->texts[i] != 0; i = (i + 1) & mask) {
		const char *known = block->data + block->texts[i];

		if (memcmp(known, text, length) == 0 && known[length] == '\0')
			break;
	}
	return &block->texts[i];
}

static bool grow_table(struct block *block)
{
	size_t old_room = block->text_room;
	uint32_t *old = block->texts;

	if (block->text_count * 2 < old_room)
		return true;
	block->text_room = old_room == 0 ? 256 : old_room * 2;
	block->texts = calloc(block->text_room, sizeof(*block->texts));
	if (block->texts == NULL) {
		block->texts = old;
		block->text_room = old_room;
		block->failed = true;
		return false;
	}
	for (size_t i = 0; i < old_room; i++)
		if (old[i] != 0)
			*find(block, block->data + old[i], strlen(block->data + old[i])) = old[i];
	free(old);
	return true;
}

uint32_t block_text(struct block *block, const char *text)
{
	size_t length = strlen(text);
	uint32_t *place;

	if (block->failed || length == 0 || !grow_table(block))
		return 0;
	/* room first: find() may then read `length` bytes behind any known text */
	if (!grow(block, length + 1))
		return 0;
	memset(block->data + block->used, 0, length + 1);
	place = find(block, text, length);
	if (*place == 0) {
		*place = (uint32_t)block->used;
		memcpy(block->data + block->used, text, length);
		block->used += length + 1;
		block->text_count++;
	}
	return *place;
}

/* SPDX-License-Identifier: ISC */
/* The first failure is remembered and everything after it does nothing, so
 * that the callers check once, at the end. */
#include "config/generation/block.h"

#include <stdlib.h>
#include <string.h>

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
	free(block->texts);
	memset(block, 0, sizeof(*block));
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

static uint32_t hash_text(const char *text, size_t length) {
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < length; i++)
		h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	return (uint32_t)(h ^ h >> 29);
}

/* Where the text is, or where it belongs. */
static struct block_known_text *find(const struct block *block, const char *text,
    size_t length, uint32_t hash) {
	size_t mask = block->text_room - 1, i = hash & mask;

	for (; block->texts[i].offset != 0; i = (i + 1) & mask) {
		const char *known = block->data + block->texts[i].offset;

		if (block->texts[i].hash == hash && memcmp(known, text, length) == 0 &&
		    known[length] == '\0')
			break;
	}
	return &block->texts[i];
}

static bool grow_table(struct block *block) {
	size_t old_room = block->text_room, room = old_room == 0 ? 256 : old_room * 2;
	struct block_known_text *texts;

	if (block->text_count * 2 < old_room)
		return true;
	texts = calloc(room, sizeof(*texts));
	if (texts == NULL) {
		block->failed = true;
		return false;
	}
	for (size_t i = 0; i < old_room; i++) {
		size_t at = block->texts[i].hash & (room - 1);

		if (block->texts[i].offset == 0)
			continue;
		while (texts[at].offset != 0)
			at = (at + 1) & (room - 1);
		texts[at] = block->texts[i];
	}
	free(block->texts);
	block->texts = texts;
	block->text_room = room;
	return true;
}

uint32_t block_text(struct block *block, const char *text) {
	size_t length = strlen(text);
	struct block_known_text *place;
	uint32_t hash;

	if (block->failed || length == 0 || !grow_table(block))
		return 0;
	/* room first: find() may then read `length` bytes behind any known text */
	if (!grow(block, length + 1))
		return 0;
	memset(block->data + block->used, 0, length + 1);
	hash = hash_text(text, length);
	place = find(block, text, length, hash);
	if (place->offset == 0) {
		*place = (struct block_known_text){ (uint32_t)block->used, hash };
		memcpy(block->data + block->used, text, length);
		block->used += length + 1;
		block->text_count++;
	}
	return place->offset;
}

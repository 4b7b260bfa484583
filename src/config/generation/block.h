/* SPDX-License-Identifier: ISC */
/* A generation's block while it grows: texts (each kept once) and arrays at
 * offsets that stay valid, though the memory may move. */
#ifndef CONFIG_BLOCK_H
#define CONFIG_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct generation;

struct block {
	char *data;
	size_t used;
	size_t room;
	struct map texts;	/* their offsets */
	bool failed;		/* no memory, or beyond GENERATION_BYTES_MAX: the block is not to be used */
};

/* Begins with `bytes` zeroes. */
void block_begin(struct block *block, size_t bytes);
void block_free(struct block *block);

/* Room for an array, zeroed, 8-byte aligned: its offset, or 0 (failed). */
uint32_t block_reserve(struct block *block, size_t bytes);
/* A copy of an array there; 0 of an empty one. */
uint32_t block_store(struct block *block, const void *array, size_t bytes);
void *block_at(const struct block *block, uint32_t offset);

/* Hands it over as it is complete (free()), or NULL: it failed.  Nothing is left of it then. */
struct generation *block_finish(struct block *block);

/* The offset of a text; "" is 0. */
uint32_t block_text(struct block *block, const char *text);

#endif

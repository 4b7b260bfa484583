/* SPDX-License-Identifier: ISC */
/* A supervisor with a generation whose texts a test writes. */
#ifndef TESTS_SUPERVISED_H
#define TESTS_SUPERVISED_H

#include "role/supervise/supervisor.h"
#include "tests/unit/caught_log.h"

static struct {
	struct generation generation;
	char texts[4096];
} block;
static size_t block_used;
static struct supervisor supervisor;

static inline struct generation *block_begin(void) {
	memset(&block, 0, sizeof(block));
	block.generation.bytes = sizeof(block);
	block_used = 0;
	supervisor = (struct supervisor){ .generation = &block.generation };
	return &block.generation;
}

static inline uint32_t text(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline uint32_t text(const char *format, ...) {
	size_t at = block_used;
	va_list args;

	va_start(args, format);
	block_used += (size_t)vsnprintf(block.texts + at, sizeof(block.texts) - at, format, args) + 1;
	va_end(args);
	assert_true(block_used <= sizeof(block.texts));
	return (uint32_t)(offsetof(__typeof__(block), texts) + at);
}

#endif

/* SPDX-License-Identifier: ISC */
/* An input as a list of operations: a byte says which, and what belongs to it follows. */
#ifndef TESTS_FUZZ_OPERATIONS_H
#define TESTS_FUZZ_OPERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct operations {
	const uint8_t *at, *end;
};

/* What is not there is 0. */
static inline uint8_t take_byte(struct operations *operations) {
	return operations->at < operations->end ? *operations->at++ : 0;
}

static inline unsigned take_pair(struct operations *operations) {
	unsigned high = take_byte(operations);

	return high << 8 | take_byte(operations);
}

/* A byte of length, and so many bytes: at most those that are left. */
static inline size_t take_bytes(struct operations *operations, const char **bytes) {
	size_t length = take_byte(operations), left = (size_t)(operations->end - operations->at);

	if (length > left)
		length = left;
	*bytes = (const char *)operations->at;
	operations->at += length;
	return length;
}

static inline bool has_more(const struct operations *operations) {
	return operations->at < operations->end;
}

#endif

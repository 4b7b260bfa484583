/* SPDX-License-Identifier: ISC */
/* A set of masks and its index, for tests.  Include cmocka.h before. */
#ifndef TESTS_UNIT_CLASS_SET_H
#define TESTS_UNIT_CLASS_SET_H

#include <stdlib.h>
#include <string.h>

#include "policy/limit/class.h"

/* A set of rules with the texts they point into, and its index. */
struct set {
	struct class_rule *rules;
	char (*texts)[300];
	uint32_t count;
	void *index;
	size_t bytes;
};

static inline struct set set_new(uint32_t room) {
	struct set set = { 0 };

	set.rules = calloc(room ? room : 1, sizeof *set.rules);
	set.texts = calloc(room ? room : 1, sizeof *set.texts);
	assert_non_null(set.rules);
	assert_non_null(set.texts);
	return set;
}

static inline bool set_add(struct set *set, const char *text) {
	const char *why = NULL;
	size_t length = strlen(text);

	assert_true(length < sizeof set->texts[0]);
	memcpy(set->texts[set->count], text, length + 1);
	if (!mask_parse(set->texts[set->count], length,
	    &set->rules[set->count].mask, &why)) {
		assert_non_null(why);
		return false;
	}
	set->count++;
	return true;
}

/* The index in a block of exactly its size, so that ASan sees a step outside. */
static inline void set_build(struct set *set) {
	size_t most, scratch_bytes;
	void *block, *scratch;

	class_index_measure(set->rules, set->count, &most, &scratch_bytes);
	block = malloc(most);
	scratch = malloc(scratch_bytes ? scratch_bytes : 1);
	assert_non_null(block);
	assert_non_null(scratch);
	memset(block, 0xa5, most);
	set->bytes = class_index_build(set->rules, set->count, block, most,
	    scratch, scratch_bytes);
	assert_true(set->bytes > 0 && set->bytes <= most);
	set->index = malloc(set->bytes);
	assert_non_null(set->index);
	memcpy(set->index, block, set->bytes);
	assert_true(class_index_is_sound(set->index, set->bytes));
	memset(block, 0x5a, most);
	free(block);
	free(scratch);
}

static inline void set_free(struct set *set) {
	free(set->rules);
	free(set->texts);
	free(set->index);
}

#endif

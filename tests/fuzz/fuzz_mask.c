/* SPDX-License-Identifier: ISC */
/*
 * Masks, prefixes, addresses and names, one a line: masks up to an empty line,
 * then questions ("ADDRESS NAME", either may be "-").  The index must agree with
 * a matcher that tries one mask after the other, and whatever is written must
 * read back as the same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/limit/class.h"
#include "tests/unit/policy/limit/naive_class.h"

#define RULES_MAX 64

#define CHECK(condition) do { \
	if (!(condition)) { \
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
		abort(); \
	} \
} while (0)

struct line {
	const char *text;
	size_t length;
};

/* The next line; false at the end. */
static bool next_line(const char **at, const char *end, struct line *line) {
	const char *stop;

	if (*at >= end)
		return false;
	stop = memchr(*at, '\n', (size_t)(end - *at));
	if (stop == NULL)
		stop = end;
	line->text = *at;
	line->length = (size_t)(stop - *at);
	*at = stop + 1;
	return true;
}

static void check_round_trips(const struct prefix *prefix) {
	struct prefix again;
	struct address address;
	const char *why;
	char text[ADDRESS_TEXT_MAX];
	size_t length = prefix_format(prefix, text);

	CHECK(length < sizeof text && text[length] == '\0');
	CHECK(prefix_parse(text, length, &again, &why));
	CHECK(memcmp(&again, prefix, sizeof again) == 0);
	length = address_format(&prefix->base, text);
	CHECK(length < sizeof text && text[length] == '\0');
	CHECK(address_parse(text, length, &address) !=
	    address_is_unknown(&prefix->base));
}

static uint32_t read_rules(const char **at, const char *end, struct class_rule *rules) {
	uint32_t count = 0;
	struct line line;

	while (next_line(at, end, &line) && line.length > 0) {
		struct mask mask;
		const char *why = NULL;

		if (!mask_parse(line.text, line.length, &mask, &why)) {
			CHECK(why != NULL && why[0] != '\0');
			continue;
		}
		if (mask.kind == MASK_ADDRESS)
			check_round_trips(&mask.prefix);
		if (mask.kind != MASK_ALL && mask.kind != MASK_ADDRESS)
			CHECK(mask.name_length > 0 && mask.name_length <= MASK_NAME_MAX &&
			    mask.name >= line.text &&
			    mask.name + mask.name_length <= line.text + line.length);
		if (count < RULES_MAX)
			rules[count++] = (struct class_rule){ .mask = mask };
	}
	return count;
}

static void *build(const struct class_rule *rules, uint32_t count) {
	size_t most, scratch_bytes, bytes;
	void *block, *scratch, *index;

	class_index_measure(rules, count, &most, &scratch_bytes);
	block = malloc(most);
	scratch = malloc(scratch_bytes ? scratch_bytes : 1);
	CHECK(block != NULL && scratch != NULL);
	bytes = class_index_build(rules, count, block, most, scratch, scratch_bytes);
	CHECK(bytes > 0 && bytes <= most);
	index = malloc(bytes);
	CHECK(index != NULL);
	memcpy(index, block, bytes);
	free(block);
	free(scratch);
	return index;
}

static void ask(const void *index, const struct class_rule *rules, uint32_t count,
    const struct address *address, const char *name, size_t length) {
	CHECK(class_index_match(index, address, name, length) ==
	    naive_match(rules, count, address, name, length));
}

static void ask_line(const void *index, const struct class_rule *rules, uint32_t count,
    const struct line *line) {
	const char *space = memchr(line->text, ' ', line->length);
	size_t address_length = space != NULL ? (size_t)(space - line->text) : line->length;
	struct address address = { { 0 } };
	struct address again;
	char text[ADDRESS_TEXT_MAX];

	if (address_parse(line->text, address_length, &address) &&
	    !address_is_unknown(&address)) {
		CHECK(address_parse(text, address_format(&address, text), &again));
		CHECK(address_equal(&address, &again));
	}
	if (space == NULL)
		ask(index, rules, count, &address, NULL, 0);
	else
		ask(index, rules, count, &address, space + 1,
		    line->length - address_length - 1);
}

/* Every rule by its own name or address, and what covers it. */
static void ask_rules(const void *index, const struct class_rule *rules, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		const struct mask *mask = &rules[i].mask;
		uint32_t cover = class_index_cover(index, mask);

		CHECK(cover <= i);
		CHECK(cover == naive_cover(rules, count, mask));
		ask(index, rules, count,
		    mask->kind == MASK_ADDRESS ? &mask->prefix.base : NULL,
		    mask->name, mask->name_length);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const char *at = (const char *)data, *end = at + size;
	struct class_rule rules[RULES_MAX];
	uint32_t count = read_rules(&at, end, rules);
	void *index = build(rules, count);
	struct line line;

	ask_rules(index, rules, count);
	while (next_line(&at, end, &line))
		ask_line(index, rules, count, &line);
	free(index);
	return 0;
}

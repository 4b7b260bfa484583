/* SPDX-License-Identifier: ISC */
/*
 * Fields of socket map keys.
 *
 * MODEL: one pass between semicolons.
 * ERRORS: what has no '=' is no field, and let pass.
 * THREADS: pure.
 */
#include "wire/ask/map_field.h"

#include <string.h>

static bool is_blank(char c) {
	return c == ' ' || c == '\t';
}

struct map_text map_text_trimmed(const char *text, size_t length) {
	while (length > 0 && is_blank(text[0])) {
		text++;
		length--;
	}
	while (length > 0 && is_blank(text[length - 1]))
		length--;
	return (struct map_text){ text, length };
}

bool map_text_is(struct map_text text, const char *word) {
	return text.length == strlen(word) && memcmp(text.text, word, text.length) == 0;
}

struct map_text map_word_next(struct map_text *rest) {
	const char *end = memchr(rest->text, ';', rest->length);
	size_t length = end == NULL ? rest->length : (size_t)(end - rest->text);
	struct map_text word = map_text_trimmed(rest->text, length);

	if (end != NULL)
		length++;
	rest->text += length;
	rest->length -= length;
	return word;
}

bool map_field_next(struct map_text *rest, struct map_field *out) {
	while (rest->length > 0) {
		struct map_text all = map_text_trimmed(rest->text, rest->length);
		struct map_text field = map_word_next(rest);
		const char *equals = memchr(field.text, '=', field.length);

		if (equals == NULL)
			continue;
		out->name = map_text_trimmed(field.text, (size_t)(equals - field.text));
		out->value = map_text_trimmed(equals + 1,
		    (size_t)(field.text + field.length - equals - 1));
		out->to_end = map_text_trimmed(equals + 1,
		    (size_t)(all.text + all.length - equals - 1));
		return true;
	}
	return false;
}

void map_text_take_first(struct map_text *out, struct map_text value) {
	if (out->text == NULL)
		*out = value;
}

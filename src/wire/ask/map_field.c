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

struct span map_word_next(struct span *rest) {
	return span_trimmed(span_until(rest, ';'));
}

bool map_field_next(struct span *rest, struct map_field *out) {
	while (rest->length > 0) {
		struct span all = span_trimmed(*rest), field = map_word_next(rest);

		if (memchr(field.text, '=', field.length) == NULL)
			continue;
		out->name = span_trimmed(span_until(&field, '='));
		out->value = span_trimmed(field);
		all.length -= (size_t)(field.text - all.text);
		all.text = field.text;
		out->to_end = span_trimmed(all);
		return true;
	}
	return false;
}

void map_text_take_first(struct span *out, struct span value) {
	if (out->text == NULL)
		*out = value;
}

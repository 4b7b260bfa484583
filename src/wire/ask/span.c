/* SPDX-License-Identifier: ISC */
/* No memory, no errors. */
#include "wire/ask/span.h"

#include <string.h>
#include <strings.h>

bool span_is(struct span span, const char *word) {
	return span.length == strlen(word) &&
	    (span.length == 0 || memcmp(span.text, word, span.length) == 0);
}

bool span_is_nocase(struct span span, const char *word) {
	return span.length == strlen(word) && strncasecmp(span.text, word, span.length) == 0;
}

static bool is_blank(char c) {
	return c == ' ' || c == '\t';
}

struct span span_trimmed(struct span span) {
	while (span.length > 0 && is_blank(span.text[0])) {
		span.text++;
		span.length--;
	}
	while (span.length > 0 && is_blank(span.text[span.length - 1]))
		span.length--;
	return span;
}

struct span span_until(struct span *rest, char end) {
	const char *at = rest->length == 0 ? NULL : memchr(rest->text, end, rest->length);
	struct span span = { rest->text, at == NULL ? rest->length : (size_t)(at - rest->text) };
	size_t passed = span.length + (at != NULL);

	rest->text += passed;
	rest->length -= passed;
	return span;
}

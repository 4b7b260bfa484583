/* SPDX-License-Identifier: ISC */
/*
 * The fields of a key that Sendmail's rules look up, sans I/O: WORD;NAME=VALUE;...
 * Blanks that Sendmail puts behind '=' (or anywhere around a name or value) are no part of
 * it.
 */
#ifndef WIRE_MAP_FIELD_H
#define WIRE_MAP_FIELD_H

#include <stdbool.h>
#include <stddef.h>

struct map_text {
	const char *text;	/* in the key; not ended by a NUL */
	size_t length;		/* 0: empty, or not there */
};

struct map_field {
	struct map_text name, value;
	struct map_text to_end;	/* value and all that stands behind it, to the end of the key */
};

/* Without the blanks around it. */
struct map_text map_text_trimmed(const char *text, size_t length);
bool map_text_is(struct map_text text, const char *word);

/* Up to the next semicolon; *rest moves on behind it. */
struct map_text map_word_next(struct map_text *rest);
/* The next one that has a '='; false: there is none. */
bool map_field_next(struct map_text *rest, struct map_field *out);

/* Of a field that stands twice the first counts. */
void map_text_take_first(struct map_text *out, struct map_text value);

#endif

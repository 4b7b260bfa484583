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

#include "wire/ask/span.h"

struct map_field {
	struct span name, value;
	struct span to_end;	/* value and all that stands behind it, to the end of the key */
};

/* Up to the next semicolon; *rest moves on behind it. */
struct span map_word_next(struct span *rest);
/* The next one that has a '='; false: there is none. */
bool map_field_next(struct span *rest, struct map_field *out);

/* Of a field that stands twice the first counts. */
void map_text_take_first(struct span *out, struct span value);

#endif

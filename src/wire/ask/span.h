/* SPDX-License-Identifier: ISC */
/* Pieces of somebody's text (struct span).  Pure. */
#ifndef WIRE_SPAN_H
#define WIRE_SPAN_H

#include <stdbool.h>
#include <string.h>

#include "policy/reply/delivery.h"

static inline struct span span_text(const char *text) {
	return (struct span){ text, strlen(text) };
}

bool span_is(struct span span, const char *word);
/* ASCII without case. */
bool span_is_nocase(struct span span, const char *word);

/* Without the blanks and tabs around it. */
struct span span_trimmed(struct span span);

/* What stands before `end`, or all; *rest moves on behind it. */
struct span span_until(struct span *rest, char end);

#endif

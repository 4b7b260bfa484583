/* SPDX-License-Identifier: ISC */
/* Words of what an administrator orders (defs/manual.def). */
#ifndef BASE_MANUAL_H
#define BASE_MANUAL_H

#include <stdbool.h>

enum manual_verb {
	MANUAL_NONE,
#define MANUAL(symbol, word, done) MANUAL_##symbol,
#include "defs/manual.def"
#undef MANUAL
	MANUAL_VERBS
};

/* "suspend", and "suspended"; others "unknown", "changed". */
const char *manual_word(unsigned verb);
const char *manual_done(unsigned verb);
/* MANUAL_NONE: no such word. */
enum manual_verb manual_find(const char *word);

static inline bool manual_stops(unsigned verb) {
	return verb == MANUAL_SUSPEND || verb == MANUAL_HOLD;
}

#endif

/* SPDX-License-Identifier: ISC */
/* Words of what an administrator orders; any thread. */
#include "base/manual.h"

#include <string.h>

static const struct {
	const char *word, *done;
} verbs[MANUAL_VERBS] = {
	[MANUAL_NONE] = { "unknown", "changed" },
#define MANUAL(symbol, word, done) [MANUAL_##symbol] = { word, done },
#include "defs/manual.def"
#undef MANUAL
};

const char *manual_word(unsigned verb) {
	return verbs[verb < MANUAL_VERBS ? verb : MANUAL_NONE].word;
}

const char *manual_done(unsigned verb) {
	return verbs[verb < MANUAL_VERBS ? verb : MANUAL_NONE].done;
}

enum manual_verb manual_find(const char *word) {
	for (unsigned verb = MANUAL_NONE + 1; verb < MANUAL_VERBS; verb++)
		if (strcmp(verbs[verb].word, word) == 0)
			return (enum manual_verb)verb;
	return MANUAL_NONE;
}

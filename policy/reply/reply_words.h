/* SPDX-License-Identifier: ISC */
/* What the words of a reply or of a mail server's own text are about.  For reply.c
 * alone.  Pure; any thread. */
#ifndef POLICY_REPLY_WORDS_H
#define POLICY_REPLY_WORDS_H

#include <stdbool.h>

#include "policy/reply/delivery.h"

/* From `at` on; up to it; without blanks and quotes around. */
static inline struct span words_behind(struct span span, const char *at) {
	return (struct span){ at, (size_t)(span.text + span.length - at) };
}

static inline struct span words_before(struct span span, const char *at) {
	return (struct span){ span.text, (size_t)(at - span.text) };
}

static inline struct span words_trimmed(struct span span) {
	while (span.length > 0 && (*span.text == ' ' || *span.text == '"'))
		span = words_behind(span, span.text + 1);
	while (span.length > 0 && span.text[span.length - 1] == ' ')
		span.length--;
	return span;
}

/* What somebody who puts a message off asks for. */
struct asking {
	bool for_less;	/* a lower rate, fewer connections; greylisting and what concerns one
			 * recipient, message or session alone is not that */
	bool again;	/* the same message soon, as greylisting does, or a session that took
			 * as many messages as one may */
};
struct asking words_ask(struct span words);

/* Does it say that a recipient, a message or a sender is not wanted?  For texts without
 * a code. */
bool words_refuse(struct span words);

/* Does it speak of a later attempt?  For texts without a code. */
bool words_put_off(struct span words);

/* A fault of the mail server's own host, as the server itself tells it. */
bool words_tell_own_fault(struct span words);

/* At the start, whatever its case. */
bool words_begin(struct span words, const char *lower);

/* Where it stands first, whatever its case; NULL: nowhere. */
const char *words_find(struct span words, const char *lower);
/* The same of just these letters. */
const char *words_find_exactly(struct span words, const char *text);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * Lists of phrases, looked up at each word's start in one pass.  A blank in a phrase
 * stands for whatever separates words there, and for the code that a reply of several
 * lines has at each ("unusual rate of 421-4.7.0 unsolicited mail").  A phrase matches
 * what begins with it ("throttl": throttled, throttling), unless a "." ends it: then
 * the word must end there, too.  "#" is a number.  Pure; any thread.
 */
#ifndef POLICY_REPLY_PHRASES_H
#define POLICY_REPLY_PHRASES_H

#include "policy/reply/delivery.h"

struct phrase {
	const char *text;
	unsigned kind;
};

/* By their first letter; a second one follows it. */
#define PHRASES_LETTERS	26
#define PHRASES		(const struct phrase[])

/* The kinds of all phrases in there that stand at the start of a word. */
unsigned phrases_kinds(struct span words, const struct phrase *const lists[PHRASES_LETTERS]);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * What a delivery result means: by the phase that it failed in first, by the reply
 * then (DESIGN section 8).  Pure; any thread.
 */
#ifndef POLICY_REPLY_H
#define POLICY_REPLY_H

#include "policy/reply/delivery.h"

enum result_class {
#define RESULT(symbol, word, text) RESULT_##symbol,
#include "defs/results.def"
#undef RESULT
	RESULT_CLASS_COUNT
};
/* "ok", "site-failure" ... */
const char *result_class_word(enum result_class class);

struct reply {
	enum result_class class;
	enum delivery_phase phase;
	uint16_t code;		/* of the remote's reply: 421, 550; 0: there is none */
	uint16_t enhanced[3];	/* of the reply itself, 0.0.0: none */
	struct span words;	/* what the remote said ("421 4.7.0 ..."), or what happened */
};

/* Never fails: what is not understood is RCPT_TEMPORARY where it was deferred,
 * PERMANENT where it bounced. */
void reply_judge(const struct delivery *delivery, struct reply *out);

/* A reply alone, as "421 4.7.0 text", that came in this phase (or UNKNOWN). */
void reply_judge_text(struct span words, enum delivery_phase phase, struct reply *out);

#endif

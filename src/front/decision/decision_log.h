/* SPDX-License-Identifier: ISC */
/* A decision in words: one log line for each that turned somebody away (or would
 * have, in observe mode), and the text that the client may read. */
#ifndef FRONT_DECISION_LOG_H
#define FRONT_DECISION_LOG_H

#include "base/log.h"
#include "base/reply_text.h"
#include "engine/engine.h"

/* At which moment of the session the question was asked. */
enum decision_stage { DECISION_AT_CONNECT, DECISION_AT_RECIPIENT };

/* Nothing for a plain admission, for a session that was known already, and for
 * one that is let in to be asked about at each recipient. */
void decision_log(struct engine *engine, const struct generation *generation,
    const struct question *question, const struct answer *answer,
    enum decision_stage stage);

/* What the client is told after "421 4.7.0 ": the class's text with its
 * placeholders replaced, or one of ours.  Never empty, one printable line.  Returns its length. */
size_t decision_client_text(const struct generation *generation,
    const struct question *question, const struct answer *answer,
    char out[REPLY_TEXT_SIZE]);

/* Bytes of a quoted name in the log: a flood has many. */
#define DECISION_NAME_SHOWN	(4 * 64 + 4)

/* Which class and rule an answer came from, quoted for a log line; "-": none. */
struct decision_rule {
	char class[4 * GENERATION_CLASS_NAME_MAX + 4];
	char place[512];	/* FILE:LINE */
	char mask[DECISION_NAME_SHOWN];
};
void decision_rule_words(const struct generation *generation,
    const struct answer *answer, struct decision_rule *out);

/* " cluster_limit=N lease=WORD" of an answer by this node's share of it; else "". */
#define DECISION_SHARE_SHOWN	48
const char *decision_share_words(const struct answer *answer, char out[DECISION_SHARE_SHOWN]);

/* The kind of line that an answer is worth, if it is worth any. */
enum event_kind decision_event(const struct answer *answer);

#endif

/* SPDX-License-Identifier: ISC */
/* A decision in words: one log line for each that turned somebody away (or would
 * have, in observe mode), and the text that the client may read. */
#ifndef FRONT_DECISION_LOG_H
#define FRONT_DECISION_LOG_H

#include "base/reply_text.h"
#include "engine/engine.h"

/* At which moment of the session the question was asked. */
enum decision_stage { DECISION_AT_CONNECT, DECISION_AT_RECIPIENT };

/* Nothing for a plain admission, for a session that was known already, and for
 * one that is let in to be asked about at each recipient. */
void decision_log(const struct engine *engine, const struct generation *generation,
    const struct question *question, const struct answer *answer,
    enum decision_stage stage);

/* What the client is told after "421 4.7.0 ": the class's text with its
 * placeholders replaced, or one of ours.  Never empty, one line.  Returns `out`. */
const char *decision_client_text(const struct engine *engine,
    const struct generation *generation, const struct question *question,
    const struct answer *answer, char out[REPLY_TEXT_SIZE]);

/* The reason's word in logs and answers. */
const char *decision_reason_word(enum reason reason);

#endif

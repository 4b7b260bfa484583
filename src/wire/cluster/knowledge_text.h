/* SPDX-License-Identifier: ISC */
/*
 * What one node says of a destination (policy/window/knowledge.h), as text: so it lies in Redis,
 * and goes over the channel.  Printable ASCII, fields in any order, each once at most:
 *
 *	m=WHAT,STAMP,LEFT,REASON	suspend, hold or resume
 *	l=STAMP,LEFT,REASON		learned suspension
 *	c=STAMP,LEVEL,HOW		ceiling: told or found
 *	r=STAMP,LEVEL			canary that was accepted
 *	i=ID				decision there that m stands on, if it is known
 *	j=ID,BY				the same of l ("-": not known); BY: cohorts or rule
 *
 * LEFT are milliseconds from when it was written, or "-": until somebody resumes it.  In
 * REASON "%XX" stands for a byte; fields of other letters are passed over.
 * Pure; whatever the bytes are, they are read or refused.
 */
#ifndef WIRE_KNOWLEDGE_TEXT_H
#define WIRE_KNOWLEDGE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/reply/delivery.h"
#include "policy/window/knowledge.h"

/* Of what is written; what is read may be twice as long. */
#define KNOWLEDGE_TEXT_MAX	(2 * 3 * KNOWLEDGE_REASON_MAX + 256)
#define KNOWLEDGE_LEFT_MAX_MS	(INT64_C(400) * 86400 * 1000)

/* `node` is not in the text, nor what is not known of a decision.  Returns its length, without a
 * NUL; out has room for KNOWLEDGE_TEXT_MAX.  A part whose time is over is told with 0 ms left. */
size_t knowledge_text_write(const struct knowledge_told *told, int64_t now_ns, char *out);

/* Written `age_ms` ago.  False: it is none of these; *out is undefined. */
bool knowledge_text_read(const char *text, size_t length, int64_t age_ms, int64_t now_ns,
    struct knowledge_told *out);

/* "NUMBER NODE NAME RECORD": a message of the channel.  The parts lie in the text; names
 * are not looked at but for being one word. */
struct knowledge_news {
	uint64_t number;
	struct span node, name, record;
};
bool knowledge_news_read(const char *text, size_t length, struct knowledge_news *out);

/* "MS RECORD", as the hash has it: when it was written by Redis's clock. */
bool knowledge_stored_read(const char *text, size_t length, int64_t *written_ms,
    struct span *record);

#endif

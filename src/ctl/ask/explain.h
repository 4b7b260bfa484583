/* SPDX-License-Identifier: ISC */
/* What "explain session" and "explain destination" have in common. */
#ifndef CTL_EXPLAIN_H
#define CTL_EXPLAIN_H

#include <sysexits.h>

#include "ctl/act/control_client.h"
#include "ctl/cli/ctl.h"
#include "policy/limit/decision.h"

#define EXPLAIN_VALUES_MAX	52
#define EXPLAIN_AWAY		(-1)

/* One object, out of the one row that the daemon answers.  Columns are named as
 * the row's fields; besides there are `source`, for the reason `text`, and `note`. */
struct explanation {
	struct writer *writer;
	const struct column *columns;
	size_t column_count;		/* at most EXPLAIN_VALUES_MAX */
	const char *note;		/* NULL: none */
	bool answered;
};

/* Asks the daemon and writes its answer.  An exit code after a complaint, or
 * EXPLAIN_AWAY: there is none, it was complained about, and places->generation
 * is to answer. */
int explain_ask(struct places *places, struct explanation *explanation,
    const struct control_field *fields, size_t field_count);

void explain_write(struct explanation *explanation, const struct value *values);

/* The word of a reason, and its meaning. */
struct value explain_reason_word(enum reason reason);
struct value explain_reason_text(enum reason reason);

#endif

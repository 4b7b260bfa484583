/* SPDX-License-Identifier: ISC */
/*
 * A decision (segment/decision/decisions.h) on one line: for people, whom it is about and what was
 * decided why, in printable ASCII; for programs, columns that are the same for all kinds,
 * with what a kind does not have unknown.  Any thread.
 */
#ifndef VIEW_DECIDED_LINE_H
#define VIEW_DECIDED_LINE_H

#include "segment/decision/decisions.h"
#include "view/decided.h"
#include "view/writer.h"

#define DECIDED_LINE_MAX	640

/* The client with its name, the destination, the recipient or the class; "-": nobody. */
const char *decided_line_subject(const struct decided *decided, char out[DECIDED_LINE_MAX]);
/* What was decided, and why. */
const char *decided_line_text(const struct decided *decided, char out[DECIDED_LINE_MAX]);

#define DECIDED_COLUMNS		36
#define DECIDED_COLUMN_KIND	2
#define DECIDED_COLUMN_COUNT	15
/* By what it was suspended, or what somebody did by hand; NULL: neither. */
const char *decided_by(const struct decided *decided);

extern const struct column decided_columns[DECIDED_COLUMNS];
/* The texts that values point at. */
struct decided_texts {
	char id[24], cause[24], time[VIEW_TIME_MAX], client[ADDRESS_TEXT_MAX];
	char what[VIEW_DECIDED_MAX];
};
/* `now_ns` (base/clock.h) and `wall_ns` are of one moment. */
void decided_values(const struct decided *decided, int64_t now_ns, int64_t wall_ns,
    struct decided_texts *texts, struct value values[DECIDED_COLUMNS]);

#endif

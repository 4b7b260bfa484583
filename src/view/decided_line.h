/* SPDX-License-Identifier: ISC */
/*
 * A decision (segment/decision/decisions.h) on one line: for people, whom it is about and what was
 * decided why, in printable ASCII; for programs, each value by its name, the same names for all
 * kinds, with what a kind does not have unknown.  Any thread.
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

/* "FILE:LINE" of the rule's file, or "" without a line.  Returns `out`. */
#define DECIDED_PLACE_MAX	256
const char *decided_place(const struct decided *decided, uint32_t line,
    char out[DECIDED_PLACE_MAX]);

/* What posternctl why finds out besides. */
struct decided_now {
	const char *source, *user;
	struct value age, cluster, cluster_error, until, left, in_force;
	struct value undo_before, undo, undo_note;
};

struct decided_shown {
	const struct decided *d;
	const struct decided *origin;	/* what holds the mail; NULL: the decision itself */
	int64_t wall_ns;		/* when it was decided */
	bool is_public;			/* recipients' addresses are left out */
	struct decided_now now;
};

/* Which values of defs/decision.def. */
enum decided_list { DECIDED_FOR_TAIL = 1, DECIDED_FOR_WHY = 2 };

/* Puts each of them, as writer_member does. */
typedef void decided_put_value(struct writer *writer, const char *name, enum column_kind kind,
    struct value value);
void decided_write(const struct decided_shown *shown, enum decided_list list,
    struct writer *writer, decided_put_value *put);

#endif

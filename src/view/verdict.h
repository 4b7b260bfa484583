/* SPDX-License-Identifier: ISC */
/*
 * Is something wrong, and what?  A line of parts, the worst first, the same for the page,
 * posternctl top, posternctl status and /healthz: "2 classes refusing (30/s) · 4 destinations
 * suspended · log of mx1-out 40 s behind · cluster without Redis".
 */
#ifndef VIEW_VERDICT_H
#define VIEW_VERDICT_H

#include <stdio.h>

#include "view/view.h"

#define VERDICT_PARTS		14
#define VERDICT_TEXT_MAX	200
#define VERDICT_COMMAND_MAX	400
#define VERDICT_LINE_MAX	1024

struct verdict_part {
	enum tone tone;			/* WARN or BAD */
	bool is_mode;			/* as somebody wants it: observe mode */
	char text[VERDICT_TEXT_MAX];	/* of printable ASCII */
	const char *about;		/* where the page tells more: "classes", "destinations",
					 * "mail", "cluster", "accounts", "workers", "faults" */
	char command[VERDICT_COMMAND_MAX];	/* and which command: "posternctl classes" */
};

struct view_verdict {
	enum tone tone;			/* of the worst part; GOOD: there is none */
	unsigned count;
	struct verdict_part parts[VERDICT_PARTS];
};

/* Remembers in *view the ends of the logs, to tell how far behind their reader is. */
void view_verdict(struct view *view, struct view_verdict *out);

/* The parts on one line, with `between` between them; "no problems" without any.  Returns
 * `out`. */
const char *view_verdict_line(const struct view_verdict *verdict, const char *between,
    char out[VERDICT_LINE_MAX]);

/* Writes a line for each reason why not, or "ok"; then lines "note: ..." of what an admin
 * should know all the same (out may be NULL).  A role that is away, silent or behind
 * makes it false, and so does a state without signs of life; a shut gate, a journal that cannot be
 * written and the like do not. */
bool health_check(struct view *view, FILE *out);

/* Members "verdict" and "problems" of the open object. */
void view_verdict_write(const struct view_verdict *verdict, struct writer *writer);

#endif

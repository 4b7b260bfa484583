/* SPDX-License-Identifier: ISC */
/* What goes on with each mail server of the configuration, for the status. */
#ifndef VIEW_STATUS_MTAS_H
#define VIEW_STATUS_MTAS_H

#include "view/view.h"

/* Is the role there that drives a queue?  "driven", "starting", "away"; "refused": the
 * service confines what it would start; "none": no queue is to be driven; NULL: not known. */
const char *status_queue_word(const struct view *view);

/* What is to be read of a log (path or pattern). */
struct view_log {
	bool known;
	uint64_t unread, read;	/* bytes */
	int64_t written_s;	/* wall time of its last change */
	int64_t behind_s;	/* age of the first line that is not read; 0: none, or not known */
};
struct view_log view_log(const struct segment *reader, const char *log);

/* Of each mail server whose deliveries are not read, its name and why: "out: no deliveries are
 * read: ...".  Returns the length; empty where all is well or nothing is known. */
size_t status_mtas_unread(const struct view *view, char *out, size_t size);

/* Why deliveries of the mail server of this number are not read, or NULL. */
const char *status_mta_unread(const struct view *view, unsigned mta);

/* A table "mtas" of the open object; view->generation may be NULL. */
void status_mtas_write(struct writer *writer, const struct view *view);

#endif

/* SPDX-License-Identifier: ISC */
/* The host classes: what is open, limits, what was decided. */
#ifndef VIEW_CLASSES_H
#define VIEW_CLASSES_H

#include "view/view.h"

/* The table of posternctl classes; `name` as of writer_table.  *torn: how many could not be
 * read consistently.  -1: no memory (errno). */
int view_classes_write(const struct view *view, struct writer *writer, const char *name,
    unsigned *torn);

#endif

/* SPDX-License-Identifier: ISC */
/* The metrics in the text format of Prometheus (version 0.0.4). */
#ifndef VIEW_METRICS_H
#define VIEW_METRICS_H

#include <stdio.h>

#include "view/view.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Every metric of counters.def and metrics.def, those without a value by their names
 * alone.  -1: no memory (errno). */
int metrics_write(struct view *view, FILE *out);

/* A label's value between its quotes: what is not UTF-8, and control characters, as \xNN
 * (that is, "\\xNN" once escaped). */
void metrics_label(FILE *out, const char *value);

#endif

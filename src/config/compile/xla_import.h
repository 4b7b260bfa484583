/* SPDX-License-Identifier: ISC */
/* The L lines of a sendmail.cf with the extended load average, to classes
 * (contrib/documents.md). */
#ifndef CONFIG_XLA_IMPORT_H
#define CONFIG_XLA_IMPORT_H

#include <stdio.h>

#include "config/compile/compile.h"

/* Reads `in` (called `name` in messages) to its end and writes a `classes`
 * block to `out`, with the lines that are wrong as comments.  0, or -1 when a line is
 * wrong, there is none, or a file fails; `messages` says which.  Free them in both cases. */
int xla_import(FILE *in, const char *name, FILE *out, struct config_messages *messages);

#endif

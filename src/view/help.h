/* SPDX-License-Identifier: ISC */
/* Texts of --help, folded for a terminal of 80 columns. */
#ifndef VIEW_HELP_H
#define VIEW_HELP_H

#include <stdio.h>

/* Words of a text with `end` behind it, in lines that begin at a column. */
void help_fold(FILE *out, int column, const char *text, const char *end);

/* An option or argument with its value ("": none), and its text below. */
void help_option(FILE *out, const char *name, const char *value, const char *text);

/* The same of an example. */
void help_example(FILE *out, const char *program, const char *words, const char *text);

#endif

/* SPDX-License-Identifier: ISC */
/* Whether colours are wanted, and progress on stderr. */
#ifndef CTL_COLOR_H
#define CTL_COLOR_H

#include <stdbool.h>
#include <stdint.h>

enum color_choice { COLOR_AUTO, COLOR_NEVER, COLOR_ALWAYS };

/* "never", "auto", "always". */
bool color_parse(const char *word, enum color_choice *choice);

/* AUTO: where standard output is a terminal that knows them, unless NO_COLOR is set to
 * anything. */
bool color_is_wanted(enum color_choice choice);

/* How far something is that takes long: a line on stderr that is written over, from half a
 * second on, where that is a terminal.  One at a time. */
void progress_begin(const char *what, uint64_t total);	/* total 0: not known */
/* Cheap: looks at the clock, and no more than ten times a second at the terminal. */
void progress_step(uint64_t done);
/* Before something else is written there, or at the end: the line is gone. */
void progress_hide(void);
void progress_end(void);

#endif

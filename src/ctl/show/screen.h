/* SPDX-License-Identifier: ISC */
/*
 * A terminal as a whole screen (ncurses, which is named in screen.c alone): styled text at
 * places, and keys.  What is put there is printable ASCII; anything else becomes '?'.
 * Built without ncurses it cannot be opened.
 */
#ifndef CTL_SCREEN_H
#define CTL_SCREEN_H

#include <stdbool.h>

#include "base/diag.h"

enum screen_style {
	SCREEN_PLAIN,
	SCREEN_HEADING,		/* reversed, to the end of the row */
	SCREEN_BOLD,
	SCREEN_DIM,
	SCREEN_GOOD,
	SCREEN_WARN,
	SCREEN_BAD,
	SCREEN_CHOSEN,		/* the row that keys act on */
	SCREEN_STYLES
};

/* Besides characters; 0: none came in time. */
enum screen_key {
	SCREEN_KEY_NONE = 0,
	SCREEN_KEY_ENTER = '\n',
	SCREEN_KEY_ESCAPE = 27,
	SCREEN_KEY_UP = 256, SCREEN_KEY_DOWN, SCREEN_KEY_PAGE_UP, SCREEN_KEY_PAGE_DOWN,
	SCREEN_KEY_HOME, SCREEN_KEY_END, SCREEN_KEY_ERASE, SCREEN_KEY_RESIZED,
	SCREEN_KEY_OTHER, SCREEN_KEY_CLOSED
};

/* -1 with *diag: no terminal, or one that cannot do it. */
int screen_open(bool color, struct diag *diag);
/* Also of none that is open. */
void screen_close(void);

void screen_size(int *rows, int *columns);
void screen_clear(void);
/* Cut at the right edge. */
void screen_put(int row, int column, enum screen_style style, const char *text);
/* The style in the whole row. */
void screen_fill(int row, enum screen_style style);
/* Where the cursor stands while somebody types; row -1: it is not shown. */
void screen_cursor(int row, int column);
void screen_show(void);

/* Waits for one at most so long. */
int screen_key(int timeout_ms);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  ncurses, and nothing of it elsewhere.
 * MODEL    Styles are colours where there are some, and else what any terminal can do.
 * ERRORS   A terminal that cannot place its cursor is refused before anything is written.
 * THREADS  One.
 */
#include "ctl/show/screen.h"

#ifdef HAVE_NCURSES

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NCURSES_NOMACROS
#include <curses.h>

#define ESCAPE_MS	25

/* Of <term.h>, which makes macros of everybody's words. */
extern int setupterm(const char *name, int fd, int *error);

static SCREEN *terminal;
static int attributes[SCREEN_STYLES];

static void use_colors(void) {
	start_color();
	(void)use_default_colors();
	(void)init_pair(1, COLOR_GREEN, -1);
	(void)init_pair(2, COLOR_YELLOW, -1);
	(void)init_pair(3, COLOR_RED, -1);
	attributes[SCREEN_GOOD] = COLOR_PAIR(1);
	attributes[SCREEN_WARN] = COLOR_PAIR(2);
	attributes[SCREEN_BAD] = COLOR_PAIR(3) | (int)A_BOLD;
}

static void choose_attributes(bool color) {
	attributes[SCREEN_HEADING] = (int)A_REVERSE;
	attributes[SCREEN_BOLD] = (int)A_BOLD;
	attributes[SCREEN_DIM] = color ? (int)A_DIM : 0;
	attributes[SCREEN_GOOD] = 0;
	attributes[SCREEN_WARN] = (int)A_BOLD;
	attributes[SCREEN_BAD] = (int)A_BOLD;
	attributes[SCREEN_CHOSEN] = (int)A_REVERSE;
	if (color && has_colors())
		use_colors();
}

int screen_open(bool color, struct diag *diag) {
	const char *name = getenv("TERM");
	int error = 0;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return diag_set(diag, 0, "top: standard input and output must be a terminal");
	if (name == NULL || *name == '\0')
		return diag_set(diag, 0, "top: TERM is not set");
	/* with `error` it neither complains nor ends us, and writes nothing */
	if (setupterm(name, STDOUT_FILENO, &error) != OK)
		return diag_set(diag, 0, "TERM=%s: unknown terminal type", name);
	if (tigetstr("cup") == NULL || tigetstr("cup") == (char *)-1)
		return diag_set(diag, 0, "TERM=%s: this terminal cannot move its cursor; use "
		    "status, classes, destinations and tail instead", name);
	terminal = newterm(name, stdout, stdin);
	if (terminal == NULL)
		return diag_set(diag, 0, "TERM=%s: cannot use this terminal", name);
	choose_attributes(color);
	cbreak();
	noecho();
	nonl();
	(void)keypad(stdscr, TRUE);
	(void)set_escdelay(ESCAPE_MS);
	(void)curs_set(0);
	return 0;
}

void screen_close(void) {
	if (terminal == NULL)
		return;
	(void)endwin();
	delscreen(terminal);
	terminal = NULL;
}

void screen_size(int *rows, int *columns) {
	*rows = getmaxy(stdscr);
	*columns = getmaxx(stdscr);
}

void screen_clear(void) {
	(void)erase();
}

void screen_put(int row, int column, enum screen_style style, const char *text) {
	int columns = getmaxx(stdscr);

	if (row < 0 || row >= getmaxy(stdscr) || column < 0)
		return;
	(void)attrset(attributes[style]);
	for (; *text != '\0' && column < columns; text++, column++)
		(void)mvaddch(row, column, *text >= ' ' && *text <= '~' ?
		    (chtype)*text : (chtype)'?');
	(void)attrset((int)A_NORMAL);
}

void screen_fill(int row, enum screen_style style) {
	int columns = getmaxx(stdscr);

	if (row < 0 || row >= getmaxy(stdscr))
		return;
	(void)attrset(attributes[style]);
	for (int column = 0; column < columns; column++)
		(void)mvaddch(row, column, ' ');
	(void)attrset((int)A_NORMAL);
}

void screen_cursor(int row, int column) {
	(void)curs_set(row >= 0 ? 1 : 0);
	if (row >= 0)
		(void)move(row, column);
}

void screen_show(void) {
	(void)refresh();
}

int screen_key(int timeout_ms) {
	int key;

	timeout(timeout_ms);
	errno = 0;
	key = getch();
	switch (key) {
	case ERR:
		/* a terminal that is gone answers at once, for ever */
		return timeout_ms > 0 && errno == EIO ? SCREEN_KEY_CLOSED : SCREEN_KEY_NONE;
	case '\r': case '\n': case KEY_ENTER:
		return SCREEN_KEY_ENTER;
	case KEY_UP:
		return SCREEN_KEY_UP;
	case KEY_DOWN:
		return SCREEN_KEY_DOWN;
	case KEY_PPAGE:
		return SCREEN_KEY_PAGE_UP;
	case KEY_NPAGE:
		return SCREEN_KEY_PAGE_DOWN;
	case KEY_HOME:
		return SCREEN_KEY_HOME;
	case KEY_END:
		return SCREEN_KEY_END;
	case KEY_BACKSPACE: case 0x7f: case '\b':
		return SCREEN_KEY_ERASE;
	case KEY_RESIZE:
		return SCREEN_KEY_RESIZED;
	default:
		return key < 256 ? key : SCREEN_KEY_OTHER;
	}
}

#else
void screen_close(void) {
}
#endif

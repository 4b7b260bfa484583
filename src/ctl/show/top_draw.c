/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  How posternctl top lies on the screen.
 * MODEL    Header, panes one below the other (or one alone), and a row for what was said
 *          or can be done.  A pane that has fewer rows than its share leaves them to others.
 * THREADS  One.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "ctl/show/top.h"

#define LEAST_ROWS	10
#define LEAST_COLUMNS	40

/* --- panes ---------------------------------------------------------------------------- */

static void scroll(struct top_list *list, size_t count, unsigned room) {
	if (list->chosen < list->first)
		list->first = list->chosen;
	if (room > 0 && list->chosen >= list->first + room)
		list->first = list->chosen - room + 1;
	if (list->first + room > count)
		list->first = count > room ? count - room : 0;
}

/* The last row of a pane that has more than it shows says so. */
static unsigned draw_more(size_t count, size_t next, int row) {
	char text[64];

	if (next >= count)
		return 0;
	snprintf(text, sizeof(text), "+%zu more", count - next);
	screen_put(row, 0, SCREEN_DIM, text);
	return 1;
}

static int draw_pane(struct top *top, enum top_pane pane, int row, int rows, int columns) {
	struct top_list *list = &top->lists[pane];
	enum screen_style heading = pane == top->pane ? SCREEN_HEADING : SCREEN_BOLD;
	unsigned room = top_room(top, pane, rows);
	size_t count = top_count(top, pane);
	char text[TOP_TEXT_MAX];

	if (top->alone && pane != top->pane)
		return row;
	if (pane != TOP_DECISIONS && count > room && room > 1)
		room--;
	scroll(list, count, room);
	top_heading(top, pane, columns, text);
	if (pane == top->pane)
		screen_fill(row, heading);
	screen_put(row++, 0, heading, text);
	for (size_t i = list->first; i < count && i < list->first + room; i++, row++) {
		enum screen_style style = top_row(top, pane, i, columns, text);

		if (pane == top->pane && i == list->chosen) {
			screen_fill(row, SCREEN_CHOSEN);
			style = SCREEN_CHOSEN;
		}
		screen_put(row, 0, style, text);
	}
	if (pane != TOP_DECISIONS && top_room(top, pane, rows) > room)
		row += (int)draw_more(count, list->first + room, row);
	return row;
}

/* --- all of it ------------------------------------------------------------------------- */

static void draw_header(const struct top *top, int columns) {
	char text[TOP_TEXT_MAX];

	for (unsigned row = 0; row < top_header_rows(top); row++) {
		enum screen_style style = top_header(top, row, columns, text);

		screen_put((int)row, 0, style, text);
	}
}

static void draw_footer(const struct top *top, int row) {
	const struct top_list *list = &top->lists[top->pane];
	char text[TOP_TEXT_MAX], filter[4 * TOP_FILTER_MAX + 4];
	size_t length;

	if (top->message[0] != '\0') {
		screen_put(row, 0, top->message_is_bad ? SCREEN_BAD : SCREEN_GOOD, top->message);
		return;
	}
	length = text_append(text, sizeof(text), 0, "u suspend  r resume  w why  / filter");
	if (top->filter[0] != '\0')
		length = text_append(text, sizeof(text), length, ": %s",
		    log_quote(filter, sizeof(filter), top->filter, strlen(top->filter)));
	length = text_append(text, sizeof(text), length, "  s sort: %s%s  Tab  ? help  q quit",
	    top_sort_word(top->pane, list->sort), list->reversed ? " (reversed)" : "");
	if (top->pane == TOP_DESTINATIONS && top->found.known > top->destination_count)
		(void)text_append(text, sizeof(text), length, "  (%zu of %zu)",
		    top->destination_count, top->found.known);
	screen_put(row, 0, SCREEN_DIM, text);
}

void top_draw(struct top *top) {
	int rows, columns, row = (int)top_header_rows(top);

	screen_size(&rows, &columns);
	screen_clear();
	screen_cursor(-1, 0);
	if (rows < LEAST_ROWS || columns < LEAST_COLUMNS) {
		screen_put(0, 0, SCREEN_BAD, "terminal too small: needs 40x10");
		screen_show();
		return;
	}
	draw_header(top, columns);
	for (unsigned pane = 0; pane < TOP_PANES; pane++)
		row = draw_pane(top, (enum top_pane)pane, row, rows, columns);
	draw_footer(top, rows - 1);
	screen_show();
}

/* --- a page ---------------------------------------------------------------------------- */

/* How many rows a text takes on a screen so wide; draws those from `first` on. */
static int put_text(const char *text, int first, int rows, int columns) {
	int row = 0;

	while (*text != '\0') {
		int length = (int)strcspn(text, "\n"), shown = length < columns ? length : columns;
		char line[TOP_TEXT_MAX];

		if (shown >= TOP_TEXT_MAX)
			shown = TOP_TEXT_MAX - 1;
		if (row >= first && row - first < rows) {
			snprintf(line, sizeof(line), "%.*s", shown, text);
			screen_put(1 + row - first, 0, SCREEN_PLAIN, line);
		}
		row++;
		text += shown;
		if (*text == '\n')
			text++;
	}
	return row;
}

void top_page(const char *title, const char *text) {
	int first = 0;

	for (;;) {
		int rows, columns, all, key;

		screen_size(&rows, &columns);
		if (rows < 3 || columns < 2)
			return;
		screen_clear();
		screen_cursor(-1, 0);
		screen_fill(0, SCREEN_HEADING);
		screen_put(0, 0, SCREEN_HEADING, title);
		all = put_text(text, first, rows - 2, columns);
		screen_put(rows - 1, 0, SCREEN_DIM, all > rows - 2 ?
		    "arrows: scroll   any other key: back" : "any key: back");
		screen_show();
		do {
			key = screen_key(1000);
		} while (key == SCREEN_KEY_NONE);
		if (key == SCREEN_KEY_DOWN && first + rows - 2 < all)
			first++;
		else if (key == SCREEN_KEY_UP && first > 0)
			first--;
		else if (key == SCREEN_KEY_PAGE_DOWN && first + rows - 2 < all)
			first += rows - 2;
		else if (key == SCREEN_KEY_PAGE_UP)
			first = first > rows - 2 ? first - (rows - 2) : 0;
		else if (key != SCREEN_KEY_RESIZED && key != SCREEN_KEY_DOWN &&
		    key != SCREEN_KEY_UP && key != SCREEN_KEY_PAGE_DOWN)
			return;
	}
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Which columns of a table a terminal has room for.
 * MODEL    Those that --columns names; else as many as fit.  First go those that say nothing
 *          in any row (-, 0, false), then others, from the right.  The first one stays, and a
 *          text in the last one, which is cut: the name and the reason.
 * THREADS  One.
 */
#include <string.h>

#include "view/writer.h"

#define GAP		2
#define LAST_LEAST	16	/* of a text that is cut */

static bool is_listed(const char *list, const char *name) {
	size_t length = strlen(name);

	for (; *list != '\0'; list += *list == ',') {
		size_t word = strcspn(list, ",");

		if (word == length && memcmp(list, name, length) == 0)
			return true;
		list += word;
	}
	return false;
}

/* False: the table has none of them. */
static bool choose_columns(struct writer *writer) {
	bool any = false;

	for (size_t i = 0; i < writer->column_count; i++)
		any |= is_listed(writer->chosen, writer->columns[i].name);
	for (size_t i = 0; any && i < writer->column_count; i++)
		writer->hidden[i] = !is_listed(writer->chosen, writer->columns[i].name);
	writer->chosen_found |= any;
	return any;
}

static size_t needed(const struct writer *writer) {
	size_t width = 0;

	for (size_t i = 0; i < writer->column_count; i++)
		if (!writer->hidden[i])
			width += writer->width[i] + (width > 0 ? GAP : 0);
	return width;
}

/* Hides columns from the right until the table needs no more than `most`. */
static void hide(struct writer *writer, size_t most, bool silent_only) {
	size_t last = writer->column_count - 1;

	if (writer->columns[last].kind != COLUMN_TEXT || (silent_only && !writer->says[last]))
		last++;
	for (size_t i = last; i-- > 1 && needed(writer) > most;)
		if (!writer->hidden[i] && !(silent_only && writer->says[i])) {
			writer->hidden[i] = true;
			writer->left_out++;
		}
}

static void shrink(struct writer *writer, size_t room) {
	size_t last = writer->column_count - 1, cut = 0;

	hide(writer, room, true);
	if (!writer->hidden[last] && writer->columns[last].kind == COLUMN_TEXT &&
	    writer->width[last] > LAST_LEAST)
		cut = writer->width[last] - LAST_LEAST;
	hide(writer, room + cut, false);
	if (needed(writer) > room && cut > 0)
		writer->last_most = writer->width[last] - (needed(writer) - room);
}

void writer_fit(struct writer *writer, size_t indent) {
	if ((writer->chosen == NULL || !choose_columns(writer)) && writer->fit > indent)
		shrink(writer, writer->fit - indent);
	while (writer->hidden[writer->first])
		writer->first++;
	for (size_t i = 0; i < writer->column_count; i++)
		if (!writer->hidden[i])
			writer->last = i;
}

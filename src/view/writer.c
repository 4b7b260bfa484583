/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Aligned text and JSON out of the same calls.
 * MODEL    A stack of "nothing written yet" flags places JSON's commas.  A text
 *          table runs its rows twice: the first run only widens the columns.  Rows
 *          that grew in between stand out of line, nothing worse.
 * ERRORS   Kept by stdio until writer_finish.
 * THREADS  One.
 */
#include "view/writer.h"

#include <stddef.h>
#include <string.h>

#include "base/diag.h"
#include "base/text.h"

void writer_init(struct writer *writer, FILE *out, bool json) {
	memset(writer, 0, sizeof(*writer));
	writer->out = out;
	writer->json = json;
	writer->empty[0] = true;
}

void writer_tone(const struct writer *writer, enum tone tone) {
	static const char *const codes[] = { [TONE_NONE] = "\033[0m", [TONE_GOOD] = "\033[32m",
		[TONE_WARN] = "\033[33m", [TONE_BAD] = "\033[1;31m" };

	if (writer->color && !writer->json)
		fputs(codes[tone], writer->out);
}

size_t writer_print(FILE *out, const char *text) {
	size_t width = 0;

	for (const char *c = text; *c != '\0'; c++) {
		bool printable = *c >= ' ' && *c <= '~';

		width += printable ? 1 : 4;
		if (out == NULL)
			continue;
		if (printable)
			putc(*c, out);
		else
			fprintf(out, "\\x%02x", (unsigned)(unsigned char)*c);
	}
	return width;
}

static void spaces(FILE *out, size_t count) {
	while (count-- > 0)
		putc(' ', out);
}

/* JSON: a new line for the next thing at this depth, and its name if it has one. */
static void json_next(struct writer *writer, const char *name) {
	if (writer->depth > 0)
		fputs(writer->empty[writer->depth] ? "\n" : ",\n", writer->out);
	writer->empty[writer->depth] = false;
	spaces(writer->out, 2 * (size_t)writer->depth);
	if (name != NULL) {
		writer_json_string(writer->out, name);
		fputs(": ", writer->out);
	}
}

static void json_open(struct writer *writer, const char *name, char bracket) {
	json_next(writer, name);
	putc(bracket, writer->out);
	MUST(writer->depth + 1 < WRITER_DEPTH_MAX);
	writer->empty[++writer->depth] = true;
}

static void json_close(struct writer *writer, char bracket) {
	bool empty = writer->empty[writer->depth];

	MUST(writer->depth > 0);
	writer->depth--;
	if (!empty) {
		putc('\n', writer->out);
		spaces(writer->out, 2 * (size_t)writer->depth);
	}
	putc(bracket, writer->out);
	if (writer->depth == 0)
		putc('\n', writer->out);
}

static void text_heading(struct writer *writer, const char *name) {
	if (!writer->empty[0])
		putc('\n', writer->out);
	fprintf(writer->out, "%s:\n", name);
	writer->empty[0] = false;
}

void writer_object_begin(struct writer *writer, const char *name) {
	if (writer->json) {
		json_open(writer, name, '{');
		return;
	}
	if (name != NULL)
		text_heading(writer, name);
	writer->depth++;
}

void writer_object_end(struct writer *writer) {
	if (writer->json) {
		json_close(writer, '}');
		return;
	}
	MUST(writer->depth > 0);
	writer->depth--;
}

static size_t text_indent(const struct writer *writer) {
	return writer->depth > 1 ? 2 * (size_t)(writer->depth - 1) : 0;
}

#define MEMBER_WIDTH	23

static void text_name(struct writer *writer, const char *name) {
	size_t length = strlen(name);

	spaces(writer->out, text_indent(writer));
	fputs(name, writer->out);
	spaces(writer->out, length < MEMBER_WIDTH ? MEMBER_WIDTH - length : 0);
	fputs("  ", writer->out);
	writer->empty[0] = false;
}

static void toned_print(const struct writer *writer, uint8_t tone, const char *text) {
	if (tone != TONE_NONE)
		writer_tone(writer, (enum tone)tone);
	writer_print(writer->out, text);
	if (tone != TONE_NONE)
		writer_tone(writer, TONE_NONE);
}

void writer_values_begin(struct writer *writer, const char *name) {
	writer->any = false;
	if (writer->json)
		json_open(writer, name, '[');
	else
		text_name(writer, name);
}

void writer_value(struct writer *writer, enum column_kind kind, struct value value) {
	char space[WRITER_NUMBER_MAX];

	if (writer->json) {
		json_next(writer, NULL);
		writer_json_value(writer->out, kind, &value);
		return;
	}
	if (writer->any)
		putc(' ', writer->out);
	writer->any = true;
	writer_print(writer->out, writer_value_text(kind, &value, space));
}

void writer_values_end(struct writer *writer) {
	if (writer->json)
		json_close(writer, ']');
	else
		fputs(writer->any ? "\n" : "-\n", writer->out);
}

static bool is_right(enum column_kind kind) {
	return kind == COLUMN_NUMBER || kind == COLUMN_SECONDS || kind == COLUMN_BYTES ||
	    kind == COLUMN_DECIMAL;
}

/* What a cut text has room for, and a + for the rest. */
static void cut_print(struct writer *writer, const char *text) {
	size_t width = 0;

	for (; *text != '\0'; text++) {
		char one[2] = { *text, '\0' };

		width += writer_print(NULL, one);
		if (width >= writer->last_most)
			break;
		writer_print(writer->out, one);
	}
	putc('+', writer->out);
}

static void text_cell(struct writer *writer, size_t column, uint8_t tone, const char *text) {
	size_t width = writer_print(NULL, text);
	size_t wanted = writer->width[column];
	size_t padding = wanted > width ? wanted - width : 0;
	bool right = is_right(writer->columns[column].kind);

	if (writer->hidden[column])
		return;
	if (column != writer->first)
		fputs("  ", writer->out);
	if (column == writer->last && writer->last_most > 0 && width > writer->last_most) {
		cut_print(writer, text);
		return;
	}
	if (right)
		spaces(writer->out, padding);
	toned_print(writer, tone, text);
	if (!right && column != writer->last)
		spaces(writer->out, padding);
}

/* --- tables --------------------------------------------------------------------------- */

void writer_row_begin(struct writer *writer) {
	writer->in_row = true;
	writer->at = 0;
	if (writer->json) {
		json_next(writer, NULL);
		putc('{', writer->out);
	} else if (!writer->measuring) {
		spaces(writer->out, text_indent(writer));
	}
}

/* The first row names the columns. */
static void name_column(struct writer *writer, const char *name, enum column_kind kind) {
	size_t i = writer->column_count++;

	MUST(i < WRITER_COLUMNS_MAX && writer->measuring);
	writer->columns[i] = (struct column){ name, kind };
	writer->width[i] = strlen(name);
	writer->says[i] = writer->hidden[i] = false;
}

static void measure_cell(struct writer *writer, size_t i, const struct value *value,
    const char *text) {
	size_t width = writer_print(NULL, text);

	if (width > writer->width[i])
		writer->width[i] = width;
	writer->says[i] |= value->known && strcmp(text, "-") != 0 && strcmp(text, "false") != 0 &&
	    (writer->columns[i].kind == COLUMN_TEXT || value->number != 0);
}

static void put_cell(struct writer *writer, const char *name, enum column_kind kind,
    const struct value *value) {
	char space[WRITER_NUMBER_MAX];
	size_t i = writer->at++;

	if (writer->json) {
		if (i > 0)
			fputs(", ", writer->out);
		writer_json_string(writer->out, name);
		fputs(": ", writer->out);
		writer_json_value(writer->out, kind, value);
		return;
	}
	if (i == writer->column_count)
		name_column(writer, name, kind);
	if (writer->naming)
		return;
	if (writer->measuring)
		measure_cell(writer, i, value, writer_value_text(kind, value, space));
	else
		text_cell(writer, i, value->tone, writer_value_text(kind, value, space));
}

void writer_row_end(struct writer *writer) {
	writer->in_row = false;
	if (writer->json)
		putc('}', writer->out);
	if (writer->json ? writer->streaming : !writer->measuring)
		putc('\n', writer->out);
}

void writer_row(struct writer *writer, const void *item) {
	const struct table *table = writer->table;

	MUST(table != NULL);
	writer_row_begin(writer);
	table->row(table->context, writer, item);
	writer_row_end(writer);
}

static void text_header(struct writer *writer) {
	spaces(writer->out, text_indent(writer));
	for (size_t i = 0; i < writer->column_count; i++)
		text_cell(writer, i, TONE_NONE, writer->columns[i].name);
	putc('\n', writer->out);
	writer->empty[0] = false;
}

static void begin_table(struct writer *writer, const struct table *table) {
	MUST(table->each <= WRITER_ITEM_MAX);
	writer->table = table;
	writer->column_count = writer->first = writer->last_most = 0;
}

/* By an item of which nothing is known. */
static void name_columns(struct writer *writer) {
	static _Alignas(max_align_t) const char none[WRITER_ITEM_MAX];

	writer->naming = writer->measuring = true;
	writer_row(writer, none);
	writer->naming = writer->measuring = false;
	writer->last = writer->column_count - 1;
}

void writer_rows(struct writer *writer) {
	const struct table *table = writer->table;
	const char *item = table->items;

	if (table->rows != NULL)
		table->rows(table->context, writer);
	for (size_t i = 0; i < table->count; i++)
		writer_row(writer, item + i * table->each);
}

static void text_table(struct writer *writer) {
	const char *name = writer->table->name;

	writer->measuring = true;
	writer_rows(writer);
	writer->measuring = false;
	if (writer->column_count == 0)
		name_columns(writer);
	writer->last = writer->column_count - 1;
	writer_fit(writer, name == NULL ? text_indent(writer) : 2 * (size_t)writer->depth);
	if (name != NULL)
		text_heading(writer, name);
	writer->depth += name != NULL;
	text_header(writer);
	writer_rows(writer);
	writer->depth -= name != NULL;
}

void writer_table(struct writer *writer, const struct table *table) {
	begin_table(writer, table);
	if (writer->json) {
		writer_list_begin(writer, table->name);
		writer_rows(writer);
		writer_list_end(writer);
	} else {
		text_table(writer);
	}
	writer->table = NULL;
}

void writer_list_begin(struct writer *writer, const char *name) {
	json_open(writer, name, '[');
}

void writer_list_end(struct writer *writer) {
	json_close(writer, ']');
}

void writer_stream(struct writer *writer, const struct table *table, const size_t *widths) {
	begin_table(writer, table);
	writer->streaming = true;
	if (writer->json)
		return;
	name_columns(writer);
	for (size_t i = 0; widths != NULL && i < writer->column_count; i++)
		if (widths[i] > writer->width[i])
			writer->width[i] = widths[i];
	text_header(writer);
}

void writer_stream_end(struct writer *writer) {
	writer->streaming = false;
	writer->table = NULL;
}

void writer_member(struct writer *writer, const char *name, enum column_kind kind,
    struct value value) {
	char space[WRITER_NUMBER_MAX];

	if (writer->in_row) {
		put_cell(writer, name, kind, &value);
	} else if (writer->in_line) {
		writer_line_put(writer, name, kind, &value);
	} else if (writer->json) {
		json_next(writer, name);
		writer_json_value(writer->out, kind, &value);
	} else {
		text_name(writer, name);
		toned_print(writer, value.tone, writer_value_text(kind, &value, space));
		putc('\n', writer->out);
	}
}

void writer_text(struct writer *writer, const char *name, const char *text) {
	writer_member(writer, name, COLUMN_TEXT, value_text(text));
}

void writer_text_if(struct writer *writer, const char *name, const char *text) {
	writer_member(writer, name, COLUMN_TEXT, value_text_if(text));
}

void writer_number(struct writer *writer, const char *name, uint64_t number) {
	writer_member(writer, name, COLUMN_NUMBER, value_number(number));
}

void writer_number_if(struct writer *writer, const char *name, bool known, uint64_t number) {
	writer_member(writer, name, COLUMN_NUMBER, value_number_if(known, number));
}

void writer_seconds(struct writer *writer, const char *name, struct value value) {
	writer_member(writer, name, COLUMN_SECONDS, value);
}

void writer_decimal(struct writer *writer, const char *name, struct value value) {
	writer_member(writer, name, COLUMN_DECIMAL, value);
}

void writer_truth(struct writer *writer, const char *name, bool truth) {
	writer_member(writer, name, COLUMN_TRUTH, value_truth(truth));
}

void writer_message(const struct writer *writer, const char *place, const char *severity,
    const char *text) {
	writer_print(writer->out, place);
	fputs(place[0] == '\0' ? "" : ": ", writer->out);
	writer_tone(writer, strcmp(severity, "error") == 0 ? TONE_BAD : TONE_WARN);
	writer_print(writer->out, severity);
	writer_tone(writer, TONE_NONE);
	fputs(": ", writer->out);
	writer_print(writer->out, text);
	putc('\n', writer->out);
}

bool writer_finish(const struct writer *writer) {
	return fflush(writer->out) == 0 && ferror(writer->out) == 0;
}

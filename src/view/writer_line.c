/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Lines whose members differ, as text and as JSON.
 * MODEL    One line is open at a time, and in it at most one list.  As text a value in
 *          quotes has \" and \\ for these two and \xNN for all that is not printable.
 * ERRORS   Kept by stdio until writer_finish.
 * THREADS  One.
 */
#include <string.h>

#include "view/writer.h"

/* Nothing in it that a reader, or a shell that it is copied to, would stumble over. */
static bool is_word(const char *text) {
	static const char others[] = ".,:@/+-_%";
	const char *c = text;

	for (; *c != '\0'; c++)
		if (!(*c >= '0' && *c <= '9') && !(*c >= 'A' && *c <= 'Z') &&
		    !(*c >= 'a' && *c <= 'z') && strchr(others, *c) == NULL)
			return false;
	return c > text;
}

static void quote(FILE *out, const char *text) {
	putc('"', out);
	for (const char *c = text; *c != '\0'; c++) {
		if (*c == '"' || *c == '\\')
			fprintf(out, "\\%c", *c);
		else if (*c >= ' ' && *c <= '~')
			putc(*c, out);
		else
			fprintf(out, "\\x%02x", (unsigned)(unsigned char)*c);
	}
	putc('"', out);
}

static void text_value(FILE *out, enum column_kind kind, const struct value *value) {
	if (kind == COLUMN_TEXT && is_word(value->text))
		fputs(value->text, out);
	else if (kind == COLUMN_TEXT)
		quote(out, value->text);
	else
		writer_json_value(out, kind, value);	/* numbers are to be read by programs, too */
}

void writer_line_begin(struct writer *writer) {
	if (writer->json)
		putc('{', writer->out);
	writer->in_line = writer->line_empty = true;
}

static void next(struct writer *writer) {
	if (!writer->line_empty)
		fputs(writer->json ? ", " : " ", writer->out);
	writer->line_empty = false;
}

void writer_line_put(struct writer *writer, const char *name, enum column_kind kind,
    const struct value *value) {
	if (!writer->json && !value->known)
		return;
	next(writer);
	if (writer->json) {
		writer_json_string(writer->out, name);
		fputs(": ", writer->out);
		writer_json_value(writer->out, kind, value);
	} else {
		fprintf(writer->out, "%s=", name);
		text_value(writer->out, kind, value);
	}
}

void writer_line_list_begin(struct writer *writer, const char *name) {
	next(writer);
	if (writer->json) {
		writer_json_string(writer->out, name);
		fputs(": [", writer->out);
	} else {
		fprintf(writer->out, "%s=[", name);
	}
	writer->items = false;
}

static void close_item(struct writer *writer) {
	if (writer->item_open && writer->json)
		putc('}', writer->out);
	writer->item_open = false;
}

void writer_line_item(struct writer *writer) {
	close_item(writer);
	if (writer->items)
		fputs(writer->json ? ", " : "; ", writer->out);
	if (writer->json)
		putc('{', writer->out);
	writer->items = writer->item_open = true;
	writer->line_empty = true;
}

void writer_line_list_end(struct writer *writer) {
	close_item(writer);
	putc(']', writer->out);
	writer->line_empty = false;
}

void writer_line_end(struct writer *writer) {
	writer->in_line = false;
	fputs(writer->json ? "}\n" : "\n", writer->out);
}

/* SPDX-License-Identifier: ISC */
/* What the analyses write: for programs one event a line, for people tables and a summary. */
#include "ctl/analyze/analyze.h"

#define TEXT_FROM	2	/* people need neither "event" nor "line" */

void analyze_write_table(struct writer *writer, const char *name, const struct column *columns,
    size_t count, void (*rows)(void *context, struct writer *writer), void *context) {
	if (!writer->json) {
		writer_table(writer, name, columns + TEXT_FROM, count - TEXT_FROM, rows, context);
		return;
	}
	writer_stream(writer, columns, NULL, count);
	rows(context, writer);
	writer_stream_end(writer);
}

void analyze_write_row(struct writer *writer, const struct value *values) {
	writer_row(writer, writer->json ? values : values + TEXT_FROM);
}

void analyze_summary_value(struct writer *writer, const char *name, enum column_kind kind,
    struct value value) {
	if (writer->json)
		writer_line_value(writer, name, kind, value);
	else
		writer_member(writer, name, kind, value);
}

void analyze_summary_number(struct writer *writer, const char *name, uint64_t number) {
	analyze_summary_value(writer, name, COLUMN_NUMBER, value_number(number));
}

static void summary_time(struct writer *writer, const char *name,
    const struct analyze_clock *clock, int64_t ms) {
	char text[ANALYZE_TIME_MAX];

	analyze_summary_value(writer, name, COLUMN_TEXT, clock->started ?
	    value_text(analyze_time(ms, text)) : value_unknown());
}

void analyze_summary_begin(struct writer *writer, const struct analyze_lines *lines,
    const struct analyze_clock *clock) {
	if (writer->json) {
		writer_line_begin(writer);
		writer_line_value(writer, "event", COLUMN_TEXT, value_text("summary"));
		writer_line_value(writer, "line", COLUMN_NUMBER, value_unknown());
	} else {
		writer_object_begin(writer, "summary");
	}
	analyze_summary_number(writer, "lines", lines->lines);
	summary_time(writer, "from", clock, clock->first_ms);
	summary_time(writer, "until", clock, clock->now_ms);
}

void analyze_summary_end(struct writer *writer, const char *name, const char *block) {
	if (writer->json) {
		if (block != NULL)
			writer_line_value(writer, name, COLUMN_TEXT, value_text(block));
		writer_line_end(writer);
		return;
	}
	writer_object_end(writer);
	if (block != NULL)
		fprintf(writer->out, "\n%s", block);
}

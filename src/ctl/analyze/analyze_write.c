/* SPDX-License-Identifier: ISC */
/* What the analyses write: for programs one event a line, for people tables and a summary. */
#include "ctl/analyze/analyze.h"

void analyze_write_table(struct writer *writer, const struct table *table) {
	if (!writer->json) {
		writer_table(writer, table);
		return;
	}
	writer_stream(writer, table, NULL);
	writer_rows(writer);
	writer_stream_end(writer);
}

void analyze_event_put(struct writer *writer, const char *event) {
	if (!writer->json)
		return;
	writer_text(writer, "event", event);
	writer_member(writer, "line", COLUMN_NUMBER, value_unknown());
}

static void summary_time(struct writer *writer, const char *name,
    const struct analyze_clock *clock, int64_t ms) {
	char text[ANALYZE_TIME_MAX];

	writer_text(writer, name, clock->started ? analyze_time(ms, text) : NULL);
}

void analyze_summary_begin(struct writer *writer, const struct analyze_lines *lines,
    const struct analyze_clock *clock) {
	if (writer->json)
		writer_line_begin(writer);
	else
		writer_object_begin(writer, "summary");
	analyze_event_put(writer, "summary");
	writer_number(writer, "lines", lines->lines);
	summary_time(writer, "from", clock, clock->first_ms);
	summary_time(writer, "until", clock, clock->now_ms);
}

void analyze_summary_end(struct writer *writer, const char *name, const char *block) {
	if (writer->json) {
		if (block != NULL)
			writer_text(writer, name, block);
		writer_line_end(writer);
		return;
	}
	writer_object_end(writer);
	if (block != NULL)
		fprintf(writer->out, "\n%s", block);
}

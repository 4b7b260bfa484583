/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Minutes to rows.
 * MODEL    Totals are two series side by side.  The minute that runs has no slot yet: the last
 *          row is the one before it.
 * ERRORS   No memory, or a file that cannot be read: -1.
 * THREADS  One.
 */
#include "view/history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "view/decided.h"

#define VALUES_MOST	(2 * HISTORY_VALUES)

struct value_column {
	const char *name;
	bool is_count;
};

static const struct value_column columns_of[HISTORY_KINDS][HISTORY_VALUES] = {
	[HISTORY_SESSIONS] = { { "open", false }, { "admitted", true }, { "refused", true },
	    { "deferred", true }, { "observed", true } },
	[HISTORY_OUTBOUND] = { { "in_flight", false }, { "ok", true }, { "failed", true },
	    { "suspended", false }, { "would_suspend", false } },
	[HISTORY_CLASS] = { { "open", false }, { "admitted", true }, { "refused", true },
	    { "deferred", true }, { "observed", true } },
	[HISTORY_DESTINATION] = { { "in_flight", false }, { "window", false }, { "ok", true },
	    { "failed", true }, { "stopped", false } },
};

/* What is read: one series, or the totals. */
struct reading {
	unsigned count;			/* minutes */
	unsigned width;			/* values of a minute */
	struct value_column columns[VALUES_MOST];
	uint8_t known[HISTORY_MINUTES];
	struct history_values *values[2];
};

uint32_t view_history_minute(void) {
	return (uint32_t)(clock_wall_s() / 60) - 1;
}

static void end_reading(struct reading *reading) {
	free(reading->values[0]);
	free(reading->values[1]);
}

static bool read_series(struct history *history, uint32_t minute, enum history_kind kind,
    const char *name, struct reading *reading) {
	unsigned at = reading->width / HISTORY_VALUES;
	int series = history_find(history, kind, name);

	if (series < 0)
		return false;
	reading->values[at] = calloc(reading->count, sizeof(*reading->values[at]));
	memcpy(reading->columns + reading->width, columns_of[kind], sizeof(columns_of[kind]));
	reading->width += HISTORY_VALUES;
	return reading->values[at] != NULL && history_read(history, (unsigned)series, minute,
	    reading->known, reading->count, reading->values[at]);
}

static bool begin_reading(struct history *history, uint32_t minute,
    const struct view_history_want *want, struct reading *reading) {
	*reading = (struct reading){ .count = want->minutes > HISTORY_MINUTES ?
		HISTORY_MINUTES : want->minutes };
	if (reading->count == 0 || !history_minutes(history, minute, reading->known))
		return false;
	if (!read_series(history, minute, want->kind, want->name, reading))
		return false;
	return want->kind != HISTORY_SESSIONS ||
	    read_series(history, minute, HISTORY_OUTBOUND, "", reading);
}

/* A row of several minutes. */
struct row {
	unsigned minutes, flags;
	bool known;
	uint64_t values[VALUES_MOST];
	bool has[VALUES_MOST];
};

static void add_minute(const struct reading *reading, unsigned minute, struct row *row) {
	unsigned flags = reading->known[HISTORY_MINUTES - reading->count + minute];

	row->minutes++;
	row->flags |= flags;
	row->known |= flags != 0;
	for (unsigned i = 0; i < reading->width; i++) {
		uint32_t value = reading->values[i / HISTORY_VALUES][minute].value[
		    i % HISTORY_VALUES];

		if (value == HISTORY_UNKNOWN)
			continue;
		if (!row->has[i])
			row->values[i] = 0;
		row->has[i] = true;
		if (reading->columns[i].is_count)
			row->values[i] += value;
		else if (value > row->values[i])
			row->values[i] = value;
	}
}

static struct row row_at(const struct reading *reading, unsigned first, unsigned step) {
	struct row row = { .minutes = 0 };

	for (unsigned i = first; i < reading->count && i < first + step; i++)
		add_minute(reading, i, &row);
	return row;
}

static const char *mark_of(unsigned flags) {
	return (flags & HISTORY_STARTED) != 0 ? "started" :
	    (flags & HISTORY_ROLE_RESTARTED) != 0 ? "restarted" : NULL;
}

/* --- a table ---------------------------------------------------------------------------- */

struct table_of_minutes {
	const struct reading *reading;
	uint32_t minute;		/* the last one */
	unsigned step;
};

static void minute_row(void *context, struct writer *writer, const void *item) {
	const struct table_of_minutes *table = context;
	const struct reading *reading = table->reading;
	unsigned first = *(const unsigned *)item;
	struct row row = row_at(reading, first, table->step);
	int64_t minute = (int64_t)table->minute - (reading->count - 1) + first;
	char time[VIEW_TIME_MAX];

	writer_text(writer, "time", view_time(minute * 60 * NS_PER_SECOND, time));
	writer_number(writer, "minutes", row.minutes);
	writer_truth(writer, "gap", !row.known);
	writer_text(writer, "mark", mark_of(row.flags));
	for (unsigned i = 0; i < reading->width; i++)
		writer_number_if(writer, reading->columns[i].name, row.has[i], row.values[i]);
}

static void minute_rows(void *context, struct writer *writer) {
	const struct table_of_minutes *table = context;

	for (unsigned i = 0; i < table->reading->count; i += table->step)
		writer_row(writer, &i);
}

int view_history_write(struct history *history, uint32_t minute,
    const struct view_history_want *want, struct writer *writer) {
	struct reading reading;
	struct table_of_minutes table = { &reading, minute, want->step == 0 ? 1 : want->step };
	bool there = begin_reading(history, minute, want, &reading);

	if (there)
		writer_table(writer, &(const struct table){ .row = minute_row,
		    .rows = minute_rows, .context = &table });
	end_reading(&reading);
	return there ? 0 : -1;
}

/* --- for plots -------------------------------------------------------------------------- */

static void put_row(FILE *out, const struct reading *reading, const struct row *row) {
	if (!row->known) {
		fputs("null", out);
		return;
	}
	for (unsigned i = 0; i < reading->width; i++) {
		fputs(i == 0 ? "[" : ",", out);
		if (row->has[i])
			fprintf(out, "%" PRIu64, row->values[i]);
		else
			fputs("null", out);
	}
	putc(']', out);
}

int view_history_plot(struct history *history, uint32_t minute,
    const struct view_history_want *want, FILE *out) {
	unsigned step = want->step == 0 ? 1 : want->step, marks = 0;
	struct reading reading;
	bool there = begin_reading(history, minute, want, &reading);

	if (!there) {
		end_reading(&reading);
		return -1;
	}
	fprintf(out, "{\"minute\": %" PRIu32 ", \"step\": %u, \"columns\": [",
	    minute - (reading.count - 1), step);
	for (unsigned i = 0; i < reading.width; i++)
		fprintf(out, "%s\"%s\"", i > 0 ? ", " : "", reading.columns[i].name);
	fputs("], \"rows\": [", out);
	for (unsigned i = 0; i < reading.count; i += step) {
		struct row row = row_at(&reading, i, step);

		fputs(i > 0 ? "," : "", out);
		put_row(out, &reading, &row);
	}
	fputs("], \"marks\": [", out);
	for (unsigned i = 0; i < reading.count; i += step) {
		struct row row = row_at(&reading, i, step);
		const char *mark = mark_of(row.flags);

		if (mark != NULL)
			fprintf(out, "%s[%u, \"%s\"]", marks++ > 0 ? ", " : "", i / step, mark);
	}
	fputs("]}\n", out);
	end_reading(&reading);
	return 0;
}

int view_history_sparks(struct history *history, uint32_t minute, enum history_kind kind,
    unsigned minutes, FILE *out) {
	struct history_values *values = calloc(HISTORY_MINUTES, sizeof(*values));
	uint8_t known[HISTORY_MINUTES];
	bool first = true;

	if (values == NULL || minutes == 0 || minutes > HISTORY_MINUTES ||
	    !history_minutes(history, minute, known)) {
		free(values);
		return -1;
	}
	putc('{', out);
	for (unsigned i = 0; i < history_size(history); i++) {
		const struct history_name *name = history_at(history, i);

		if (name->kind != kind || !history_read(history, i, minute, known, minutes,
			values))
			continue;
		fputs(first ? "" : ",\n", out);
		writer_json_string(out, name->name);
		fputs(":", out);
		for (unsigned j = 0; j < minutes; j++) {
			fputs(j == 0 ? "[" : ",", out);
			if (values[j].value[0] == HISTORY_UNKNOWN)
				fputs("null", out);
			else
				fprintf(out, "%" PRIu32, values[j].value[0]);
		}
		putc(']', out);
		first = false;
	}
	fputs("}\n", out);
	free(values);
	return 0;
}

/* SPDX-License-Identifier: ISC */
/*
 * Output for people and for programs from one description: a member has a name, a kind and a
 * value, and objects, rows of tables and lines use them in both outputs.
 *
 * Text: tables aligned, numbers to the right, a member of an object a line;
 * only printable ASCII ever reaches the terminal, every other byte is \xNN, and
 * what is not known, or empty, is "-".  JSON: numbers, true and false, null for
 * what is not known; bytes that are no UTF-8 become the characters \xNN.
 * No allocation.  One thread a writer.
 */
#ifndef VIEW_WRITER_H
#define VIEW_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define WRITER_COLUMNS_MAX	40
#define WRITER_DEPTH_MAX	8

enum column_kind {
	COLUMN_TEXT,
	COLUMN_NUMBER,
	COLUMN_SECONDS,		/* JSON: a number; text: "3m07s" */
	COLUMN_BYTES,		/* JSON: a number; text: "13.0M" */
	COLUMN_DECIMAL,		/* three digits behind the point */
	COLUMN_TRUTH,
};

struct column {
	const char *name;
	enum column_kind kind;
};

/* In colour, where they are wanted: what is well, what to look at, what is wrong. */
enum tone { TONE_NONE, TONE_GOOD, TONE_WARN, TONE_BAD };

struct value {
	bool known;
	uint8_t tone;		/* enum tone */
	const char *text;	/* NUL-terminated; COLUMN_TEXT */
	uint64_t number;	/* every other kind; COLUMN_DECIMAL: thousandths, as int64_t */
};

static inline struct value value_unknown(void) {
	return (struct value){ .known = false };
}

/* NULL is not known. */
static inline struct value value_text(const char *text) {
	return (struct value){ .known = text != NULL, .text = text };
}

/* An empty one is not known. */
static inline struct value value_text_if(const char *text) {
	return value_text(text[0] == '\0' ? NULL : text);
}

static inline struct value value_number(uint64_t number) {
	return (struct value){ .known = true, .number = number };
}

static inline struct value value_decimal(double number) {
	double thousandths = number * 1000 + (number < 0 ? -0.5 : 0.5);

	return (struct value){ .known = true, .number = (uint64_t)(int64_t)thousandths };
}

static inline struct value value_number_if(bool known, uint64_t number) {
	return known ? value_number(number) : value_unknown();
}

static inline struct value value_decimal_if(bool known, double number) {
	return known ? value_decimal(number) : value_unknown();
}

static inline struct value value_truth(bool truth) {
	return (struct value){ .known = true, .number = truth };
}

/* Of the tone where `when` holds. */
static inline struct value value_toned_if(struct value value, bool when, enum tone tone) {
	if (when)
		value.tone = (uint8_t)tone;
	return value;
}

/* Of what should not be. */
static inline struct value value_counted(uint64_t count) {
	return value_toned_if(value_number(count), count > 0, TONE_WARN);
}

static inline struct value value_toned(struct value value, enum tone tone) {
	value.tone = (uint8_t)tone;
	return value;
}

struct writer {
	FILE *out;
	bool json;
	bool color;			/* text has colours; set by who knows the terminal */
	bool measuring;			/* rows only widen the columns */
	bool streaming;			/* rows stand alone: no list, no alignment afterwards */
	size_t fit;			/* width that tables keep to; 0: as wide as they are */
	const char *chosen;		/* columns that are wanted, with commas; NULL: all */
	bool chosen_found;		/* a table had one of them */
	unsigned left_out;		/* columns that had no room, in all tables */
	unsigned depth;
	bool empty[WRITER_DEPTH_MAX];	/* nothing written yet at this depth */
	bool in_row, in_line;		/* members are cells of a row, or of a line */
	bool any;			/* value of the open list */
	bool line_empty, item_open, items;	/* of the open line */
	const struct table *table;	/* the open one, or NULL */
	bool naming;			/* its row names columns, and is not shown */
	size_t at;			/* cells of the open row so far */
	struct column columns[WRITER_COLUMNS_MAX];	/* of text */
	size_t column_count;
	size_t width[WRITER_COLUMNS_MAX];
	bool says[WRITER_COLUMNS_MAX];	/* more than "-", 0 or false in some row */
	bool hidden[WRITER_COLUMNS_MAX];
	size_t first, last;		/* that are shown */
	size_t last_most;		/* the last one is cut to; 0: whole */
};

void writer_init(struct writer *writer, FILE *out, bool json);

/* An object: `name` is NULL at top level.  In text a named one is a heading. */
void writer_object_begin(struct writer *writer, const char *name);
void writer_object_end(struct writer *writer);

/* A member of the open object, line or row.  Text of a member that is NULL is not known. */
void writer_member(struct writer *writer, const char *name, enum column_kind kind,
    struct value value);
void writer_text(struct writer *writer, const char *name, const char *text);
/* Of value_text_if. */
void writer_text_if(struct writer *writer, const char *name, const char *text);
void writer_number(struct writer *writer, const char *name, uint64_t number);
void writer_number_if(struct writer *writer, const char *name, bool known, uint64_t number);
void writer_truth(struct writer *writer, const char *name, bool truth);
void writer_seconds(struct writer *writer, const char *name, struct value value);
void writer_decimal(struct writer *writer, const char *name, struct value value);

/* A member that is a list of values. */
void writer_values_begin(struct writer *writer, const char *name);
void writer_value(struct writer *writer, enum column_kind kind, struct value value);
void writer_values_end(struct writer *writer);

/*
 * A table: what `row` puts of an item are the cells of a row, and their names the columns: of
 * each item the same ones, in one order.  Of a table without rows it is called with an item of
 * zeros, for their names.
 */
struct table {
	const char *name;	/* of the member; NULL: at top level */
	void (*row)(void *context, struct writer *writer, const void *item);
	void *context;
	/* The items: an array; or `rows` calls writer_row for each, twice for aligned text. */
	const void *items;
	size_t count, each;
	void (*rows)(void *context, struct writer *writer);
};
#define WRITER_ITEM_MAX		4096

void writer_table(struct writer *writer, const struct table *table);
void writer_row(struct writer *writer, const void *item);
/* All rows of the open table. */
void writer_rows(struct writer *writer);

/* writer_fit.c: which columns of the table that was measured are shown. */
void writer_fit(struct writer *writer, size_t indent);

/* For JSON: a list of rows, or of objects, that can be produced only once. */
void writer_list_begin(struct writer *writer, const char *name);
void writer_row_begin(struct writer *writer);
void writer_row_end(struct writer *writer);
void writer_list_end(struct writer *writer);

/* Rows as they come, for more than fit into memory: JSON is one object a line, and text
 * has columns as wide as `widths` (NULL: their names) at least.  *table stays until the end. */
void writer_stream(struct writer *writer, const struct table *table, const size_t *widths);
void writer_stream_end(struct writer *writer);

/* A line of its own for what has members of its kind: an object of JSON, or NAME=VALUE ...,
 * where a value that is no plain word stands in quotes and what is not known is left out.
 * A list of such objects is a member: NAME=[A=1 B=2; A=3 B=4]. */
void writer_line_begin(struct writer *writer);
void writer_line_list_begin(struct writer *writer, const char *name);
void writer_line_item(struct writer *writer);	/* the next object of the list begins */
void writer_line_list_end(struct writer *writer);
void writer_line_end(struct writer *writer);

/* For the writer's own files: a member of a line, a string of JSON, and any value. */
void writer_line_put(struct writer *writer, const char *name, enum column_kind kind,
    const struct value *value);
void writer_json_string(FILE *out, const char *text);
void writer_json_value(FILE *out, enum column_kind kind, const struct value *value);

/* And what people see of it; numbers are written into `space`. */
#define WRITER_NUMBER_MAX	32
const char *writer_value_text(enum column_kind kind, const struct value *value,
    char space[WRITER_NUMBER_MAX]);

/* Length of the well-formed UTF-8 sequence (RFC 3629) at `text`, which ends with a NUL
 * somewhere, or 0. */
size_t writer_utf8_length(const char *text);

/* "3m07s", "2d04h". */
void writer_seconds_text(char *out, size_t size, uint64_t seconds);

/* Text that follows is of this tone (NONE: as usual again). */
void writer_tone(const struct writer *writer, enum tone tone);

/* Text for people, made printable; returns how many characters it takes (out
 * may be NULL). */
size_t writer_print(FILE *out, const char *text);

/* For people, "FILE:LINE: error: TEXT"; any other severity is no error.  place "": nowhere. */
void writer_message(const struct writer *writer, const char *place, const char *severity,
    const char *text);

/* Flushes; false: something could not be written. */
bool writer_finish(const struct writer *writer);

#endif

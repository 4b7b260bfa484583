/* SPDX-License-Identifier: ISC */
/*
 * Options of a simulation: each is a row of defs/simulate_WORD.def, made with lab/option_rows.h.
 */
#ifndef LAB_OPTIONS_H
#define LAB_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTION_WORDS_MAX	4
#define OPTION_SHOULD_BYTES	128

enum option_kind {
	OPTION_COUNT, OPTION_DURATION, OPTION_SHARE, OPTION_CHOICE, OPTION_TEXT,
	OPTION_FLAG,	/* has no value */
	OPTION_OWN
};

struct option_row {
	const char *name, *argument, *text;	/* "--seed", "S"; help */
	enum option_kind kind;
	size_t offset, size;	/* of the field */
	int64_t least, most;
	const char *words[OPTION_WORDS_MAX];
	bool (*parse)(void *values, const char *text);
	const char *should;
};

struct option_table {
	const struct option_row *rows;
	size_t count;
};

/* NULL: the table has no such option. */
const struct option_row *option_find(const struct option_table *table, const char *name);

/* Reads a value into its field; false: it is none, and `should` has what it should be. */
bool option_parse(const struct option_row *row, const char *text, void *values,
    char should[OPTION_SHOULD_BYTES]);

/* For readers of their own: all of a text, between two bounds. */
bool option_parse_count(const char *text, size_t length, uint32_t least, uint32_t most,
    uint32_t *out);
bool option_parse_duration(const char *text, int64_t least, int64_t most, int64_t *out);
/* A number that holds from a time on, or comes at it. */
struct timed_count {
	int64_t at_ns;
	uint32_t count;
};
/* "N", "N@TIME" (without: 0; at most a day). */
bool option_parse_count_at(const char *text, uint32_t most, struct timed_count *out);
/* "N,N@TIME": as many as it has, by time; `changes`: of the first there is no time, of all others
 * one.  0: it is no such list, or has more than `room`. */
uint32_t option_parse_counts(const char *text, bool changes, uint32_t most, int64_t most_ns,
    struct timed_count *list, uint32_t room);

#endif

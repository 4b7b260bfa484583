/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Values of options, by the rows of the simulations' tables.
 * ERRORS   The caller complains, with what the value should be.
 * THREADS  No state.
 */
#include "lab/options.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"

#define HOUR_NS	(3600 * NS_PER_SECOND)
#define DAY_NS	(24 * HOUR_NS)

bool option_parse_count(const char *text, size_t length, uint32_t least, uint32_t most,
    uint32_t *out) {
	return text_to_u32(text, length, most, out) && *out >= least;
}

bool option_parse_duration(const char *text, int64_t least, int64_t most, int64_t *out) {
	return text_to_duration_ns(text, out) && *out >= least && *out <= most;
}

static bool parse_timed(const char *text, size_t length, uint32_t most, int64_t most_ns,
    struct timed_count *out) {
	const char *at = memchr(text, '@', length);
	size_t digits = at != NULL ? (size_t)(at - text) : length;
	char duration[32];

	out->at_ns = 0;
	if (!option_parse_count(text, digits, 0, most, &out->count))
		return false;
	return at == NULL ||
	    (text_copy(duration, sizeof(duration), at + 1, length - digits - 1) &&
		option_parse_duration(duration, 0, most_ns, &out->at_ns));
}

bool option_parse_count_at(const char *text, uint32_t most, struct timed_count *out) {
	return parse_timed(text, strlen(text), most, DAY_NS, out);
}

uint32_t option_parse_counts(const char *text, bool changes, uint32_t most, int64_t most_ns,
    struct timed_count *list, uint32_t room) {
	uint32_t count = 0;

	for (; count < room; text++) {
		size_t length = strcspn(text, ",");
		bool has_time = memchr(text, '@', length) != NULL;

		if (!parse_timed(text, length, most, most_ns, &list[count]) ||
		    (changes && has_time == (count == 0)) ||
		    (count > 0 && list[count].at_ns < list[count - 1].at_ns))
			return 0;
		count++;
		text += length;
		if (*text == '\0')
			return count;
	}
	return 0;
}

const struct option_row *option_find(const struct option_table *table, const char *name) {
	for (size_t i = 0; i < table->count; i++)
		if (strcmp(table->rows[i].name, name) == 0)
			return &table->rows[i];
	return NULL;
}

/* Fields of counts and choices are of 1, 4 or 8 bytes. */
static void store_number(const struct option_row *row, uint32_t number, void *field) {
	if (row->size == sizeof(uint64_t))
		*(uint64_t *)field = number;
	else if (row->size == sizeof(uint32_t))
		*(uint32_t *)field = number;
	else
		*(bool *)field = number != 0;
}

static bool parse_choice(const struct option_row *row, const char *text, void *field) {
	for (uint32_t i = 0; i < OPTION_WORDS_MAX && row->words[i] != NULL; i++)
		if (strcmp(text, row->words[i]) == 0) {
			store_number(row, i, field);
			return true;
		}
	return false;
}

static bool parse_value(const struct option_row *row, const char *text, void *values) {
	void *field = (char *)values + row->offset;
	uint32_t number = 1;

	switch (row->kind) {
	case OPTION_COUNT:
		if (!option_parse_count(text, strlen(text), (uint32_t)row->least,
			(uint32_t)row->most, &number))
			return false;
		store_number(row, number, field);
		return true;
	case OPTION_DURATION:
		return option_parse_duration(text, row->least, row->most, field);
	case OPTION_SHARE:
		return text_to_share(text, field);
	case OPTION_CHOICE:
		return parse_choice(row, text, field);
	case OPTION_TEXT:
		*(const char **)field = text;
		return true;
	case OPTION_FLAG:
		*(bool *)field = true;
		return true;
	case OPTION_OWN:
		return row->parse(values, text);
	}
	return false;
}

static const char *duration_word(int64_t ns) {
	return ns == 0 ? "0s" : ns == NS_PER_MS ? "1ms" : ns == HOUR_NS ? "1h" : "1d";
}

/* "refuse, connect-timeout or greeting-timeout" */
static void describe_choice(const struct option_row *row, char *out) {
	size_t length = 0;

	for (unsigned i = 0; i < OPTION_WORDS_MAX && row->words[i] != NULL; i++) {
		bool last = i + 1 == OPTION_WORDS_MAX || row->words[i + 1] == NULL;

		length = text_append(out, OPTION_SHOULD_BYTES, length, "%s%s",
		    i == 0 ? "" : last ? " or " : ", ", row->words[i]);
	}
}

static void describe_value(const struct option_row *row, char *out) {
	switch (row->kind) {
	case OPTION_COUNT:
		text_append(out, OPTION_SHOULD_BYTES, 0, "%lld to %lld", (long long)row->least,
		    (long long)row->most);
		break;
	case OPTION_DURATION:
		text_append(out, OPTION_SHOULD_BYTES, 0, "%s to %s", duration_word(row->least),
		    duration_word(row->most));
		break;
	case OPTION_SHARE:
		text_append(out, OPTION_SHOULD_BYTES, 0, "0 to 1, or 0%% to 100%%");
		break;
	case OPTION_CHOICE:
		describe_choice(row, out);
		break;
	case OPTION_OWN:
		text_append(out, OPTION_SHOULD_BYTES, 0, "%s", row->should);
		break;
	case OPTION_TEXT: case OPTION_FLAG:
		break;
	}
}

bool option_parse(const struct option_row *row, const char *text, void *values,
    char should[OPTION_SHOULD_BYTES]) {
	should[0] = '\0';
	if (parse_value(row, text, values))
		return true;
	describe_value(row, should);
	return false;
}

/* SPDX-License-Identifier: ISC */
/*
 * Settings of libconfig's groups against their rows: what they say, where a row wants it kept,
 * and messages about their place.
 */
#include "config/read/compilation.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

void compilation_say(struct compilation *c, enum message_severity severity,
    const config_setting_t *where, const char *format, ...) {
	unsigned line = where ? config_setting_source_line(where) : 0, file_line;
	const char *file = source_place(&c->source, line, &file_line);
	char text[384];
	va_list args;

	va_start(args, format);
	if (vsnprintf(text, sizeof(text), format, args) < 0)
		text[0] = '\0';
	va_end(args);
	report_add(&c->report, severity, file, file_line, line, "%s", text);
}

uint32_t compilation_place(struct compilation *c, const config_setting_t *where,
    uint32_t *line) {
	unsigned file_line;
	const char *file = source_place(&c->source, config_setting_source_line(where),
	    &file_line);

	*line = file_line;
	if (c->last_file == 0 || strcmp(block_at(&c->block, c->last_file), file) != 0)
		c->last_file = block_text(&c->block, file);
	return c->last_file;
}

void compilation_check_unique(struct compilation *c, const config_setting_t *group,
    const char *what, uint32_t name) {
	uint64_t key = text_hash(name, what, strlen(what));
	unsigned line = config_setting_source_line(group), file_line;
	uint32_t first = name == 0 || c->block.failed ? line : map_index(&c->names, key);
	const char *text, *file;
	char quoted[128];

	if (first == MAP_NONE) {
		c->block.failed |= !map_set_index(&c->names, key, line);
	} else if (name != 0 && !c->block.failed) {
		text = block_at(&c->block, name);
		file = source_place(&c->source, first, &file_line);
		complain(c, group, "%s name %s is already used at %s:%u", what,
		    log_quote(quoted, sizeof(quoted), text, strlen(text)), file, file_line);
	}
}

unsigned compilation_length(const config_setting_t *list) {
	return list != NULL && config_setting_is_list(list) ?
	    (unsigned)config_setting_length(list) : 0;
}

const config_setting_t *compilation_next_group(const config_setting_t *list, unsigned *at) {
	while (*at < compilation_length(list)) {
		const config_setting_t *element = config_setting_get_elem(list, (*at)++);

		if (config_setting_is_group(element))
			return element;
	}
	return NULL;
}

const config_setting_t *compilation_member(const config_setting_t *group, const char *path) {
	config_setting_t *in = (config_setting_t *)(uintptr_t)group;
	const char *point = strrchr(path, '.'), *old_name;
	const config_setting_t *member;

	if (group == NULL)
		return NULL;
	member = config_setting_get_member(in, point ? point + 1 : path);
	if (member == NULL && (old_name = setting_old_name(path)) != NULL)
		member = config_setting_get_member(in, old_name);
	return member;
}

/* As compilation_value of what is given, or NULL. */
static bool given_value(const struct setting *row, const config_setting_t *value,
    struct setting_value *out) {
	char why[256];

	memset(out, 0, sizeof(*out));
	if (value != NULL && setting_parse(row, value, out, why, sizeof(why)))
		return true;
	memset(out, 0, sizeof(*out));
	if (*row->fallback != '\0')
		(void)setting_parse_text(row, row->fallback, out, why, sizeof(why));
	return false;
}

bool compilation_value_of(const struct setting *row, const config_setting_t *group,
    struct setting_value *out) {
	return given_value(row, compilation_member(group, row->path), out);
}

bool compilation_value(const config_setting_t *group, const char *path,
    struct setting_value *out) {
	return compilation_value_of(setting_find(path), group, out);
}

bool compilation_element(const config_setting_t *group, const char *path, unsigned index,
    struct setting_value *out) {
	const config_setting_t *value = compilation_member(group, path);
	char why[256];

	return value != NULL && setting_parse(setting_find(path), setting_element(value, index), out,
	    why, sizeof(why));
}

unsigned compilation_element_count(const config_setting_t *group, const char *path) {
	const config_setting_t *value = compilation_member(group, path);

	return value == NULL ? 0 : setting_element_count(value);
}

bool compilation_add_number(uint16_t *numbers, uint32_t *count, uint32_t most, uint16_t number) {
	uint32_t at = 0;

	while (at < *count && numbers[at] < number)
		at++;
	if (at < *count && numbers[at] == number)
		return true;
	if (*count == most)
		return false;
	memmove(numbers + at + 1, numbers + at, (*count - at) * sizeof(*numbers));
	numbers[at] = number;
	++*count;
	return true;
}

bool compilation_numbers(const config_setting_t *group, const char *path, uint16_t *numbers,
    uint32_t *count, uint32_t most) {
	struct setting_value value;
	bool fits = true;

	if (compilation_member(group, path) == NULL) {
		compilation_value(NULL, path, &value);
		return compilation_add_number(numbers, count, most, (uint16_t)value.number);
	}
	for (unsigned i = 0; i < compilation_element_count(group, path); i++)
		if (compilation_element(group, path, i, &value))
			fits &= compilation_add_number(numbers, count, most,
			    (uint16_t)value.number);
	return fits;
}

static void store_number(const struct setting *row, int64_t number, void *out) {
	char *at = (char *)out + row->offset;
	uint32_t four = (uint32_t)number;
	uint16_t two = (uint16_t)number;

	if (row->bytes == sizeof(number))
		memcpy(at, &number, sizeof(number));
	else if (row->bytes == sizeof(four))
		memcpy(at, &four, sizeof(four));
	else if (row->bytes == sizeof(two))
		memcpy(at, &two, sizeof(two));
	else
		*(uint8_t *)at = (uint8_t)number;
}

static void store_rate(const struct setting *row, const struct setting_value *value, void *out) {
	const struct rate_limit rate = { .count = (uint32_t)value->number,
		.period_ns = value->period_ns };

	memcpy((char *)out + row->offset, &rate, sizeof(rate));
}

/* Texts are in the block already: it may move. */
static void store_value(const struct setting *row, const struct setting_value *value,
    uint32_t text, void *out) {
	if (row->place == PLACE_RATE)
		store_rate(row, value, out);
	else
		store_number(row, row->place == PLACE_TEXT ? text : value->number, out);
}

static uint32_t keep_text(struct compilation *c, const struct setting_value *value) {
	return value->text == NULL ? 0 : block_text(&c->block, value->text);
}

static bool is_stored(const struct setting *row) {
	return row->place == PLACE_TEXT || row->place == PLACE_NUMBER || row->place == PLACE_RATE;
}

/* Does its path have one word more? */
static bool is_right_below(const struct setting *row, const char *path, size_t length) {
	return strncmp(row->path, path, length) == 0 && row->path[length] == '.' &&
	    strpbrk(row->path + length + 1, ".[") == NULL;
}

void compilation_store(struct compilation *c, enum setting_book book, const char *path,
    const config_setting_t *group, void *out) {
	size_t count, length = strlen(path);
	const struct setting *rows = settings_in(book, &count);

	for (size_t i = 0; i < count; i++) {
		struct setting_value value;

		if (is_stored(&rows[i]) && is_right_below(&rows[i], path, length) &&
		    (compilation_value_of(&rows[i], group, &value) || *rows[i].fallback != '\0'))
			store_value(&rows[i], &value, keep_text(c, &value), out);
	}
}

void compilation_store_header(struct compilation *c) {
	size_t count;
	const struct setting *rows = settings(&count);

	for (size_t i = 0; i < count; i++) {
		struct setting_value value;
		uint32_t text;

		if (!is_stored(&rows[i]) || rows[i].is_in_element)
			continue;
		(void)given_value(&rows[i], config_lookup(&c->config, rows[i].path), &value);
		text = keep_text(c, &value);
		store_value(&rows[i], &value, text, compilation_header(c));
	}
}

/* libconfig says where it stopped, not why. */
static const char *syntax_hint(const char *error) {
	if (strcmp(error, "syntax error") != 0)
		return "";
	return " here or just before: a bracket, quote or comma is missing, or there is a "
	    "comma before a closing bracket";
}

/* The name that is set in this line, where it is one alone; its length, or 0. */
static size_t name_in_line(const char *text, unsigned line, const char **name) {
	static const char of_names[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	    "0123456789_*-";
	size_t length = 0, at_length;

	while (line > 1 && text != NULL && (text = strchr(text, '\n')) != NULL) {
		text++;
		line--;
	}
	for (; text != NULL && *text != '\0' && *text != '\n' && *text != '"' && *text != '#';
	     text += at_length == 0 ? 1 : at_length) {
		const char *behind;

		at_length = strspn(text, of_names);
		behind = text + at_length + strspn(text + at_length, " \t");
		if (at_length == 0 || (*behind != '=' && *behind != ':'))
			continue;
		if (length > 0)
			return 0;
		length = at_length;
		*name = text;
	}
	return length;
}

static void compilation_syntax_error(struct compilation *c) {
	unsigned line = (unsigned)config_error_line(&c->config), file_line;
	const char *file = source_place(&c->source, line, &file_line), *name = "";
	const char *error = config_error_text(&c->config);
	size_t length = strcmp(error, "duplicate setting name") == 0 ?
	    name_in_line(c->source.text, line, &name) : 0;

	if (length > 0)
		report_add(&c->report, MESSAGE_ERROR, file, file_line, line,
		    "%.*s is set twice in this group", (int)length, name);
	else
		report_add(&c->report, MESSAGE_ERROR, file, file_line, line, "%s%s", error,
		    syntax_hint(error));
}

bool compilation_parse(struct compilation *c, enum setting_book book) {
	config_init(&c->config);
	/* No include directive is left in the text; were there one, it would
	 * find nothing below a device. */
	config_set_include_dir(&c->config, "/dev/null");
	if (config_read_string(&c->config, c->source.text) != CONFIG_TRUE) {
		compilation_syntax_error(c);
		return false;
	}
	if (!c->places_only)
		check_settings(c, book);
	return true;
}

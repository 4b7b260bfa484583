/* SPDX-License-Identifier: ISC */
/*
 * Scans a configuration once, as libconfig's own scanner will (strings with
 * backslashes, three kinds of comments, names, numbers), and copies it: the
 * copy has the same tokens, one file, and a line map.
 *
 * Names of included files are relative to the directory of the main file.  At
 * most 10 deep, 1,000 files and 64 MiB in all.  A mistake that would lead the
 * real parser astray makes the text unusable.
 */
#include "config/read/source.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "config/read/read_file.h"
#include "config/read/setting.h"

#define DEPTH_MAX	10
#define FILES_MAX	1000
#define BYTES_MAX	((size_t)64 << 20)

struct scan {
	struct source *source;
	struct report *report;
	const char *directory;	/* with its last '/', or NULL: no files */
	size_t directory_length;
	bool complained;	/* of a size or of memory: once is enough */
	/* Place just behind the last string, while only blanks and comments
	 * followed it; else 0. */
	size_t after_string;
	unsigned after_string_line;
};

/* One file while it is copied. */
struct input {
	const char *text;
	size_t length;
	size_t at;
	unsigned file;
	unsigned line;
	unsigned depth;
};

static void expand(struct scan *scan, struct input *input);

static void complain(struct scan *scan, const struct input *input, unsigned line,
    const char *what, const char *detail) {
	char quoted[200];

	report_add(scan->report, MESSAGE_ERROR, scan->source->files[input->file], line,
	    scan->source->line, "%s%s", what,
	    detail ? log_quote(quoted, sizeof(quoted), detail, strlen(detail)) : "");
}

static void give_up(struct scan *scan, const struct input *input, unsigned line,
    const char *what, const char *detail) {
	scan->source->usable = false;
	if (!scan->complained)
		complain(scan, input, line, what, detail);
}

static bool make_room(struct scan *scan, const struct input *input, size_t length) {
	struct source *source = scan->source;
	size_t room = source->room == 0 ? 4096 : source->room;
	char *text = NULL;

	if (source->length + length < source->room)
		return true;
	while (room <= source->length + length)
		room *= 2;
	if (source->length < BYTES_MAX)
		text = realloc(source->text, room);
	if (text == NULL) {
		give_up(scan, input, input->line, source->length < BYTES_MAX ?
		    "out of memory" : "the configuration is larger than 64 MiB", NULL);
		scan->complained = true;
		return false;
	}
	source->text = text;
	source->room = room;
	return true;
}

static void put_character(struct scan *scan, const struct input *input, char c) {
	struct source *source = scan->source;

	if (!make_room(scan, input, 1))
		return;
	source->text[source->length++] = c;
	source->text[source->length] = '\0';
	if (c == '\n')
		source->line++;
}

/* Copies the next character. */
static char take_character(struct scan *scan, struct input *input) {
	char c = input->text[input->at++];

	put_character(scan, input, c);
	if (c == '\n')
		input->line++;
	return c;
}

/* Copies the next `length` characters, none of which ends a line. */
static void take_run(struct scan *scan, struct input *input, size_t length) {
	struct source *source = scan->source;

	if (make_room(scan, input, length)) {
		memcpy(source->text + source->length, input->text + input->at, length);
		source->length += length;
		source->text[source->length] = '\0';
	}
	input->at += length;
}

static bool add_part(struct scan *scan, unsigned file, unsigned file_line) {
	struct source *source = scan->source;

	if (!array_grow(&source->parts, &source->part_room, source->part_count,
	    sizeof(*source->parts)))
		return false;
	source->parts[source->part_count++] =
	    (struct source_part){ source->line, file, file_line };
	return true;
}

static bool add_file(struct source *source, const char *name) {
	if (!array_grow(&source->files, &source->file_room, source->file_count,
	    sizeof(*source->files)))
		return false;
	source->files[source->file_count] = strdup(name);
	return source->files[source->file_count] != NULL && ++source->file_count > 0;
}

/* @include "name": the name's text is length bytes at name. */
static void include(struct scan *scan, struct input *input, const char *name, size_t length) {
	struct source *source = scan->source;
	bool absolute = name[0] == '/';
	size_t before = absolute ? 0 : scan->directory_length;
	struct input inner = { .depth = input->depth + 1, .line = 1 };
	char *path, *text = NULL;

	if (scan->directory == NULL) {
		give_up(scan, input, input->line, "this text cannot include a file", NULL);
		return;
	}
	if (inner.depth > DEPTH_MAX || source->file_count >= FILES_MAX) {
		give_up(scan, input, input->line,
		    "includes too many files (1,000), or too deeply (10)", NULL);
		scan->complained = true;
		return;
	}
	path = malloc(before + length + 1);
	if (path != NULL) {
		memcpy(path, scan->directory, before);
		memcpy(path + before, name, length);
		path[before + length] = '\0';
		errno = ENAMETOOLONG;
		text = read_file(path, BYTES_MAX, &inner.length);
		if (text == NULL) {
			const char *reason = read_file_error();
			char quoted[200];

			source->usable = false;
			report_add(scan->report, MESSAGE_ERROR, source->files[input->file],
			    input->line, source->line, "cannot include %s: %s",
			    log_quote(quoted, sizeof(quoted), path, strlen(path)), reason);
		}
	}
	inner.text = text;
	inner.file = (unsigned)source->file_count;
	if (text != NULL && add_file(source, path) && add_part(scan, inner.file, 1)) {
		expand(scan, &inner);
		if (source->length > 0 && source->text[source->length - 1] != '\n')
			put_character(scan, input, '\n');
		if (!add_part(scan, input->file, input->line))
			give_up(scan, input, input->line, "out of memory", NULL);
	} else if (path == NULL || text != NULL) {
		give_up(scan, input, input->line, "out of memory", NULL);
	}
	free(text);
	free(path);
}

/* At a first non-blank '@': an include directive?  Steps over it then. */
static bool try_include(struct scan *scan, struct input *input) {
	static const char word[] = "@include";
	size_t at = input->at + sizeof(word) - 1, end;

	if (input->length - input->at < sizeof(word) ||
	    memcmp(input->text + input->at, word, sizeof(word) - 1) != 0)
		return false;
	if (input->text[at] != ' ' && input->text[at] != '\t')
		return false;
	while (at < input->length && (input->text[at] == ' ' || input->text[at] == '\t'))
		at++;
	if (at >= input->length || input->text[at] != '"')
		return false;
	for (end = ++at; end < input->length && input->text[end] != '"'; end++)
		if (input->text[end] == '\n' || input->text[end] == '\\')
			return false;
	if (end >= input->length)
		return false;
	input->at = end + 1;
	include(scan, input, input->text + at, end - at);
	return true;
}

/* How many characters come before the first of these, or the end. */
static size_t run_without(const struct input *input, const char *these) {
	/* the text ends with a NUL, and has none */
	return strcspn(input->text + input->at, these);
}

static void scan_string(struct scan *scan, struct input *input) {
	unsigned line = input->line;

	take_character(scan, input);
	while (input->at < input->length) {
		char c;

		take_run(scan, input, run_without(input, "\"\\\n"));
		if (input->at == input->length)
			break;
		c = take_character(scan, input);
		if (c == '"') {
			scan->after_string = scan->source->length;
			scan->after_string_line = scan->source->line;
			return;
		}
		if (c == '\\' && input->at < input->length)
			take_character(scan, input);
	}
	give_up(scan, input, line, "missing closing \" for the text that starts here", NULL);
}

/* At a '/', or '#': a comment?  Copies it then. */
static bool scan_comment(struct scan *scan, struct input *input) {
	unsigned line = input->line;
	char first = input->text[input->at];
	char second = input->at + 1 < input->length ? input->text[input->at + 1] : '\0';

	if (first == '#' || (first == '/' && second == '/')) {
		take_run(scan, input, run_without(input, "\n"));
		return true;
	}
	if (first != '/' || second != '*')
		return false;
	take_character(scan, input);
	take_character(scan, input);
	while (input->at < input->length) {
		if (take_character(scan, input) == '*' && input->at < input->length &&
		    input->text[input->at] == '/') {
			take_character(scan, input);
			return true;
		}
	}
	give_up(scan, input, line, "missing end of the comment that starts here", NULL);
	return true;
}

/* Does the integer of this token fit into the type that libconfig will give it? */
static bool number_fits(const char *token, size_t length) {
	bool negative = token[0] == '-';
	uint64_t value = 0, base = 10, limit = INT32_MAX;
	size_t i = negative || token[0] == '+';

	if (length - i > 2 && token[i] == '0' && (token[i + 1] == 'x' || token[i + 1] == 'X')) {
		base = 16;
		i += 2;
	}
	if (token[length - 1] == 'L')
		limit = INT64_MAX;
	for (; i < length; i++) {
		uint64_t digit;

		if (token[i] == 'L')
			continue;
		if (!isxdigit((unsigned char)token[i]))
			return true;	/* with a point, or no number: not ours to judge */
		digit = (uint64_t)(isdigit((unsigned char)token[i]) ? token[i] - '0' :
		    tolower((unsigned char)token[i]) - 'a' + 10);
		if (digit >= base)
			return true;
		if (value > (limit - digit) / base)
			return false;
		value = value * base + digit;
	}
	return true;
}

/* Zeros in front of a decimal integer whose digits begin at `at`: libconfig 1.7 reads
 * 0660 in octal, 1.5 in decimal. */
static size_t leading_zeros(const char *token, size_t length, size_t at) {
	size_t end = at, zeros = 0;

	while (end < length && isdigit((unsigned char)token[end]))
		end++;
	while (at + zeros + 1 < end && token[at + zeros] == '0')
		zeros++;
	while (end < length && token[end] == 'L')
		end++;
	return end == length ? zeros : 0;
}

static void scan_number(struct scan *scan, struct input *input) {
	const char *token = input->text + input->at;
	bool sign = token[0] == '-' || token[0] == '+';
	size_t length = 1, zeros;

	while (input->at + length < input->length && (token[length] == '.' ||
	    isalnum((unsigned char)token[length])))
		length++;
	if (number_fits(token, length)) {
		zeros = leading_zeros(token, length, sign);
		length -= zeros;
		if (sign) {
			take_character(scan, input);
			length--;
		}
		input->at += zeros;
		take_run(scan, input, length);
		return;
	}
	report_add(scan->report, MESSAGE_ERROR, scan->source->files[input->file], input->line,
	    scan->source->line, "the number %.*s%s is too large: bare numbers end at "
	    "2147483647; write sizes in quotes, such as \"64k\"",
	    length > 40 ? 40 : (int)length, token,
	    length > 40 ? "..." : "");
	for (const char *p = SETTING_UNREADABLE_TEXT; *p != '\0'; p++)
		put_character(scan, input, *p);
	input->at += length;
}

static void scan_name(struct scan *scan, struct input *input) {
	size_t length = 1;

	while (input->at + length < input->length &&
	    (isalnum((unsigned char)input->text[input->at + length]) ||
	    strchr("-_*", input->text[input->at + length]) != NULL))
		length++;
	take_run(scan, input, length);
}

/* Brings a closing bracket or comma up to the line of the string before it:
 * libconfig notes the line of what it read last. */
static void put_after_string(struct scan *scan, struct input *input) {
	char *text = scan->source->text;
	size_t from = scan->after_string, length = scan->source->length;

	if (length == from || scan->after_string_line == scan->source->line) {
		take_character(scan, input);
		return;
	}
	put_character(scan, input, ' ');
	text = scan->source->text;
	if (scan->source->length == length + 1) {
		memmove(text + from + 1, text + from, length - from);
		text[from] = input->text[input->at];
	}
	input->at++;
}

/* libconfig would take a NUL byte for the end. */
static bool refuse_nul(struct scan *scan, const struct input *input) {
	const char *nul = input->length > 0 ? memchr(input->text, '\0', input->length) : NULL;
	unsigned line = 1;

	if (nul == NULL)
		return false;
	for (const char *p = input->text; p < nul; p++)
		line += *p == '\n';
	give_up(scan, input, line, "the file contains a NUL byte: it is not a text file", NULL);
	return true;
}

static void expand(struct scan *scan, struct input *input) {
	bool line_begins = true;

	if (refuse_nul(scan, input))
		return;
	while (input->at < input->length && !scan->complained) {
		char c = input->text[input->at];
		size_t string = scan->after_string;

		if (isspace((unsigned char)c)) {
			take_character(scan, input);
			line_begins = c == '\n' || (line_begins && (c == ' ' || c == '\t'));
			continue;
		}
		if (c == '@' && line_begins && try_include(scan, input)) {
			line_begins = false;
			continue;
		}
		line_begins = false;
		if ((c == '/' || c == '#') && scan_comment(scan, input)) {
			line_begins = false;
			continue;
		}
		scan->after_string = 0;
		if (c == '"') {
			scan_string(scan, input);
		} else if (string != 0 && (c == ',' || c == ']' || c == ')')) {
			scan->after_string = string;
			put_after_string(scan, input);
			scan->after_string = 0;
		} else if (isdigit((unsigned char)c) || ((c == '-' || c == '+') &&
		    input->at + 1 < input->length &&
		    isdigit((unsigned char)input->text[input->at + 1]))) {
			scan_number(scan, input);
		} else if (isalpha((unsigned char)c) || c == '*') {
			scan_name(scan, input);
		} else {
			take_character(scan, input);
		}
	}
}

static void read_main(struct source *source, struct input *input, const char *name,
    const char *directory, size_t directory_length, struct report *report) {
	struct scan scan = { .source = source, .report = report, .directory = directory,
	    .directory_length = directory_length };

	source->usable = true;
	input->line = 1;
	if (!add_file(source, name) || !add_part(&scan, 0, 1)) {
		source->usable = false;
		report_add(report, MESSAGE_ERROR, name, 0, 0, "out of memory");
		return;
	}
	put_character(&scan, input, '\n');	/* there is a text, however empty the file */
	source->length = 0;
	source->line = 1;
	if (source->text != NULL)
		source->text[0] = '\0';
	expand(&scan, input);
}

void source_read_file(struct source *source, const char *path, struct report *report) {
	const char *slash = strrchr(path, '/');
	struct input input = { .text = NULL };
	char *text;

	memset(source, 0, sizeof(*source));
	source->line = 1;
	text = read_file(path, BYTES_MAX, &input.length);
	if (text == NULL) {
		report_add(report, MESSAGE_ERROR, path, 0, 0, "cannot be read: %s", read_file_error());
		return;
	}
	input.text = text;
	read_main(source, &input, path, path, slash ? (size_t)(slash - path) + 1 : 0, report);
	free(text);
}

void source_read_text(struct source *source, const char *text, const char *name,
    struct report *report) {
	struct input input = { .text = text, .length = strlen(text) };

	memset(source, 0, sizeof(*source));
	source->line = 1;
	read_main(source, &input, name, NULL, 0, report);
}

void source_free(struct source *source) {
	for (size_t i = 0; i < source->file_count; i++)
		free(source->files[i]);
	free(source->files);
	free(source->parts);
	free(source->text);
	memset(source, 0, sizeof(*source));
}

const char *source_place(const struct source *source, unsigned line, unsigned *file_line) {
	size_t low = 0, high = source->part_count;

	/* the last part that begins at or before the line */
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (source->parts[middle].first_line <= line)
			low = middle;
		else
			high = middle;
	}
	if (source->part_count == 0 || line == 0) {
		*file_line = 0;
		return source->file_count ? source->files[0] : "";
	}
	*file_line = source->parts[low].file_line + (line - source->parts[low].first_line);
	return source->files[source->parts[low].file];
}

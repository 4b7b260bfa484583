/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  sendmail.cf, or only its L lines, to postern.conf.
 * MODEL    Lines are joined as sendmail does (a blank at the start continues the
 *          line before); those that do not begin with L are somebody else's.
 *          "L/file" named XLA's counters: nothing is left to do for it.  Rules
 *          that an earlier one makes unreachable become comments, as the
 *          compiler refuses such classes.
 * ERRORS   All wrong lines are reported; then nothing is written.
 */
#include "config/xla_import.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "config/report.h"
#include "policy/class.h"

#define XLA_RULES	20	/* the original's MAXLARULES */
#define RULES_MAX	10000
#define NUMBER_MAX	(16u << 20)	/* as classes[].sessions */
#define NAME_MAX_BYTES	80
#define FIELDS		3

struct rule {
	char *line;		/* as written, blanks folded, for the comment */
	char *mask;
	char name[NAME_MAX_BYTES + 1];
	unsigned number;	/* of the line */
	uint32_t queue;
	uint32_t reject;
	uint32_t taken_by;	/* an earlier rule, or CLASS_NO_RULE */
};

struct import {
	struct report report;
	const char *name;
	struct rule *rules;
	struct class_rule *masks;
	uint32_t count;
	uint32_t room;
	bool has_file;
};

#define say(import, severity, line, ...) \
	report_add(&(import)->report, severity, (import)->name, line, line, __VA_ARGS__)

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Splits at blanks: how many fields there are, FIELDS + 1 standing for more. A
 * field that begins with # ends the line. */
static unsigned split(char *text, char *fields[FIELDS])
{
	unsigned count = 0;

	for (;;) {
		while (is_blank(*text))
			*text++ = '\0';
		if (*text == '\0' || *text == '#')
			break;
		if (count == FIELDS)
			return FIELDS + 1;
		fields[count++] = text;
		while (*text != '\0' && !is_blank(*text))
			text++;
	}
	*text = '\0';
	return count;
}

/* A copy that is safe inside a comment: one line, printable. */
static char *comment(const char *line)
{
	char *copy = strdup(line);
	size_t length = 0;

	if (copy == NULL)
		return NULL;
	for (; *line != '\0'; line++) {
		if (!is_blank(*line))
			copy[length++] = *line < ' ' || *line > '~' ? '?' : *line;
		else if (length > 0 && copy[length - 1] != ' ')
			copy[length++] = ' ';
	}
	if (length > 0 && copy[length - 1] == ' ')
		length--;
	copy[length] = '\0';
	return copy;
}

static bool make_room(struct import *import)
{
	uint32_t room = import->room == 0 ? 32 : import->room * 2;
	struct class_rule *masks;
	struct rule *rules;

	if (import->count < import->room)
		return true;
	rules = realloc(import->rules, room * sizeof(*rules));
	if (rules == NULL)
		return false;
	import->rules = rules;
	masks = realloc(import->masks, room * sizeof(*masks));
	if (masks == NULL)
		return false;
	import->masks = masks;
	import->room = room;
	return true;
}

/* The three fields are good: keeps them. */
static void add_rule(struct import *import, unsigned number, const char *line,
    const char *mask, uint32_t queue, uint32_t reject)
{
	struct rule rule = { .number = number, .queue = queue, .reject = reject,
	    .taken_by = CLASS_NO_RULE };
	const char *why;

	if (import->count == RULES_MAX) {
		say(import, MESSAGE_ERROR, number, "more than %d rules", RULES_MAX);
		return;
	}
	rule.line = comment(line);
	rule.mask = strdup(mask);
	if (rule.line == NULL || rule.mask == NULL || !make_room(import)) {
		say(import, MESSAGE_ERROR, number, "out of memory");
		free(rule.line);
		free(rule.mask);
		return;
	}
	/* parsed anew, as it points into the text */
	(void)mask_parse(rule.mask, strlen(rule.mask), &import->masks[import->count].mask, &why);
	import->masks[import->count].left_out = false;
	import->rules[import->count++] = rule;
	if (import->count == XLA_RULES + 1)
		say(import, MESSAGE_NOTE, number, "XLA has room for %d rules; Postern uses all "
		    "of these", XLA_RULES);
	if (queue < reject)
		say(import, MESSAGE_NOTE, number, "queue (%u) is below reject (%u): valid but "
		    "unusual; outbound connections are held first", queue, reject);
}

static bool parse_count(struct import *import, unsigned number, const char *what,
    const char *text, uint32_t *out)
{
	char quoted[96];

	if (text_to_u32(text, strlen(text), NUMBER_MAX, out))
		return true;
	say(import, MESSAGE_ERROR, number, "the %s number \"%s\" must be a number up to %u",
	    what,
	    log_quote(quoted, sizeof(quoted), text, strlen(text)), NUMBER_MAX);
	return false;
}

/* One logical line without its L.  Changes `text`. */
static void take_line(struct import *import, unsigned number, char *text, const char *line)
{
	char *fields[FIELDS], quoted[96];
	unsigned count = split(text, fields);
	uint32_t queue = 0, reject = 0;
	struct mask mask;
	const char *why;
	bool good;

	if (count > 0 && fields[0][0] == '/') {
		if (import->has_file)
			say(import, MESSAGE_NOTE, number, "a second counter file");
		import->has_file = true;
		return;
	}
	if (count != FIELDS) {
		say(import, MESSAGE_ERROR, number, "an L line needs three fields (mask, queue "
		    "number, reject number), this one has %s%u",
		    count > FIELDS ? "more than " : "",
		    count > FIELDS ? FIELDS : count);
		return;
	}
	good = mask_parse(fields[0], strlen(fields[0]), &mask, &why);
	if (good && mask.kind != MASK_ALL && mask.kind != MASK_NAME && mask.kind != MASK_DOMAIN) {
		why = "XLA supports host.name, *.domain and * only";
		good = false;
	}
	if (!good)
		say(import, MESSAGE_ERROR, number, "bad mask \"%s\": %s",
		    log_quote(quoted, sizeof(quoted), fields[0], strlen(fields[0])), why);
	good &= parse_count(import, number, "queue", fields[1], &queue);
	good &= parse_count(import, number, "reject", fields[2], &reject);
	if (good)
		add_rule(import, number, line, fields[0], queue, reject);
}

static void take_logical_line(struct import *import, unsigned number, const char *line,
    size_t length)
{
	char *copy;

	if (line[0] != 'L')
		return;
	if (strlen(line) != length) {
		say(import, MESSAGE_ERROR, number, "the file contains a NUL byte: it is not a "
		    "text file");
		return;
	}
	copy = strdup(line + 1);
	if (copy == NULL)
		say(import, MESSAGE_ERROR, number, "out of memory");
	else
		take_line(import, number, copy, line);
	free(copy);
}

/* Joins continued lines. */
static void read_lines(struct import *import, FILE *in)
{
	char *line = NULL, *logical = NULL;
	size_t room = 0, length = 0;
	unsigned number = 0, first = 0;
	ssize_t n;

	errno = 0;
	while ((n = getline(&line, &room, in)) >= 0) {
		bool continues = logical != NULL && (line[0] == ' ' || line[0] == '\t');
		char *joined;

		number++;
		if (!continues) {
			if (logical != NULL)
				take_logical_line(import, first, logical, length);
			length = 0;
			first = number;
		}
		joined = realloc(logical, length + (size_t)n + 1);
		if (joined == NULL) {
			say(import, MESSAGE_ERROR, number, "out of memory");
			break;
		}
		logical = joined;
		memcpy(logical + length, line, (size_t)n + 1);
		length += (size_t)n;
	}
	if (logical != NULL)
		take_logical_line(import, first, logical, length);
	if (ferror(in))
		say(import, MESSAGE_ERROR, number, "cannot be read: %s", strerror(errno));
	free(logical);
	free(line);
}

static void find_taken(struct import *import)
{
	size_t index_bytes, scratch_bytes;
	void *index, *scratch;

	class_index_measure(import->masks, import->count, &index_bytes, &scratch_bytes);
	index = malloc(index_bytes + 8);
	scratch = malloc(scratch_bytes + 8);
	if (index == NULL || scratch == NULL) {
		say(import, MESSAGE_ERROR, 0, "out of memory");
	} else {
		class_index_build(import->masks, import->count, index, index_bytes, scratch,
		    scratch_bytes);
		for (uint32_t i = 0; i < import->count; i++) {
			uint32_t by = class_index_cover(index, &import->masks[i].mask);

			if (by >= i)
				continue;
			import->rules[i].taken_by = by;
			say(import, MESSAGE_NOTE, import->rules[i].number, "%s can never "
			    "match, because %s in line %u matches first: written as a comment",
			    import->rules[i].mask, import->rules[by].mask,
			    import->rules[by].number);
		}
		if (class_index_cover(index, &(struct mask){ .kind = MASK_ALL }) == CLASS_NO_RULE)
			say(import, MESSAGE_NOTE, 0, "the last line L* is missing: hosts that "
			    "match no class are admitted uncounted");
	}
	free(index);
	free(scratch);
}

static bool name_is_taken(const struct import *import, uint32_t before, const char *name)
{
	for (uint32_t i = 0; i < before; i++)
		if (strcmp(import->rules[i].name, name) == 0)
			return true;
	return false;
}

/* The mask without its "*.", and a number where that is taken. */
static void name_rules(struct import *import)
{
	for (uint32_t i = 0; i < import->count; i++) {
		struct rule *rule = &import->rules[i];
		const char *base = rule->mask;
		unsigned serial = 1;

		if (rule->taken_by != CLASS_NO_RULE)
			continue;
		if (import->masks[i].mask.kind == MASK_ALL)
			base = "everyone";
		else if (import->masks[i].mask.kind == MASK_DOMAIN)
			base += 2;
		snprintf(rule->name, sizeof(rule->name), "%.80s", base);
		while (name_is_taken(import, i, rule->name))
			snprintf(rule->name, sizeof(rule->name), "%.68s-%u", base, ++serial);
	}
}

/* In a comment: blanks are none the worse there, an end of the line would be. */
static void write_name(const char *name, FILE *out)
{
	for (; *name != '\0'; name++)
		fputc(*name >= ' ' && *name <= '~' ? *name : '?', out);
}

static void write_rules(const struct import *import, FILE *out)
{
	uint32_t last = 0;

	for (uint32_t i = 0; i < import->count; i++)
		if (import->rules[i].taken_by == CLASS_NO_RULE)
			last = i;
	fputs("# From the L lines of ", out);
	write_name(import->name, out);
	fputs(", by posternctl import-xla.\nclasses = (", out);
	for (uint32_t i = 0; i < import->count; i++) {
		const struct rule *rule = &import->rules[i];

		if (rule->taken_by != CLASS_NO_RULE) {
			fprintf(out, "\n\t# never matches: %s", rule->line);
			continue;
		}
		fprintf(out, "\n\t# %s\n\t{ name = \"%s\"; match = [ \"%s\" ]; sessions = %u; "
		    "inbound = %u; }%s", rule->line, rule->name, rule->mask, rule->queue,
		    rule->reject, i < last ? "," : "");
	}
	fputs("\n);\n", out);
}

int xla_import(FILE *in, const char *name, FILE *out, struct config_messages *messages)
{
	struct import import = { .name = name };

	report_begin(&import.report, messages);
	read_lines(&import, in);
	if (import.count == 0 && messages->errors == 0)
		say(&import, MESSAGE_ERROR, 0, "no L line defines a class");
	if (messages->errors == 0) {
		if (!import.has_file)
			say(&import, MESSAGE_NOTE, 0, "no L line names a counter file; none is "
			    "needed");
		find_taken(&import);
		name_rules(&import);
	}
	if (messages->errors == 0) {
		write_rules(&import, out);
		if (fflush(out) != 0 || ferror(out))
			say(&import, MESSAGE_ERROR, 0, "the classes cannot be written: %s",
			    strerror(errno));
	}
	report_end(&import.report);
	for (uint32_t i = 0; i < import.count; i++) {
		free(import.rules[i].line);
		free(import.rules[i].mask);
	}
	free(import.rules);
	free(import.masks);
	return messages->errors == 0 ? 0 : -1;
}

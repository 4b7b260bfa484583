/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  sendmail.cf, or only its L lines, to postern.conf.
 * MODEL    Lines are joined as sendmail does (a blank at the start continues the
 *          line before); those that do not begin with L are somebody else's.
 *          "L/file" named XLA's counters: nothing is left to do for it.  Rules
 *          that an earlier one makes unreachable become comments, as the
 *          compiler refuses such classes.
 *          Masks that XLA's read-me does not know and its code takes ("prefix.*", and
 *          "[192.0.2.1]", as Sendmail calls a host without a name) are taken with a note.
 * ERRORS   Each wrong line is reported and stands in the output as a comment; the rest is
 *          written.
 */
#include "config/compile/xla_import.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/text.h"
#include "config/generation/mask_index.h"
#include "config/read/report.h"
#include "policy/limit/class.h"

#define XLA_RULES	20	/* the original's MAXLARULES */
#define RULES_MAX	10000
#define NUMBER_MAX	(16u << 20)	/* as classes[].hold_at */
#define NAME_MAX_BYTES	80
#define FIELDS		3

struct rule {
	char *line;		/* as written, blanks folded, for the comment */
	char *mask;
	char name[NAME_MAX_BYTES + 1];	/* "": the line is wrong, and stays a comment */
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
	uint32_t good_count;	/* of them that are classes */
	size_t rule_room, mask_room;
	bool has_file;
};

#define say(import, severity, line, ...) \
	report_add(&(import)->report, severity, (import)->name, line, line, __VA_ARGS__)

static bool is_blank(char c) {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Splits at blanks: how many fields there are, FIELDS + 1 standing for more. A
 * field that begins with # ends the line. */
static unsigned split(char *text, char *fields[FIELDS]) {
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
static char *comment(const char *line) {
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

static bool import_grow(struct import *import) {
	return array_grow(&import->rules, &import->rule_room, import->count,
	    sizeof(*import->rules)) && array_grow(&import->masks, &import->mask_room,
	    import->count, sizeof(*import->masks));
}

/* Keeps a line, whose mask is good, or NULL. */
static bool keep_rule(struct import *import, const char *line, const char *mask,
    struct rule rule) {
	struct class_rule *kept;
	const char *why;

	if (import->count == RULES_MAX) {
		say(import, MESSAGE_ERROR, rule.number, "more than %d rules", RULES_MAX);
		return false;
	}
	rule.line = comment(line);
	rule.mask = strdup(mask == NULL ? "" : mask);
	if (rule.line == NULL || rule.mask == NULL || !import_grow(import)) {
		say(import, MESSAGE_ERROR, rule.number, "out of memory");
		free(rule.line);
		free(rule.mask);
		return false;
	}
	kept = &import->masks[import->count];
	*kept = (struct class_rule){ .left_out = mask == NULL };
	/* a mask points into its text */
	if (mask != NULL)
		(void)mask_parse(rule.mask, strlen(rule.mask), &kept->mask, &why);
	import->rules[import->count++] = rule;
	return true;
}

static void add_rule(struct import *import, unsigned number, const char *line,
    const char *mask, uint32_t queue, uint32_t reject) {
	if (!keep_rule(import, line, mask, (struct rule){ .number = number, .queue = queue,
		.reject = reject, .taken_by = CLASS_NO_RULE }))
		return;
	if (++import->good_count == XLA_RULES + 1)
		say(import, MESSAGE_NOTE, number, "XLA has room for %d rules; Postern uses all "
		    "of these", XLA_RULES);
	if (queue < reject)
		say(import, MESSAGE_NOTE, number, "queue (%u) is below reject (%u): valid but "
		    "unusual; outbound connections are held first", queue, reject);
}

static bool parse_count(struct import *import, unsigned number, const char *what,
    const char *text, uint32_t *out) {
	char quoted[96];

	if (text_to_u32(text, strlen(text), NUMBER_MAX, out))
		return true;
	say(import, MESSAGE_ERROR, number, "the %s number \"%s\" must be a number up to %u",
	    what,
	    log_quote(quoted, sizeof(quoted), text, strlen(text)), NUMBER_MAX);
	return false;
}

static void keep_wrong_line(struct import *import, unsigned number, const char *line) {
	(void)keep_rule(import, line, NULL, (struct rule){ .number = number,
		.taken_by = CLASS_NO_RULE });
}

/* Sendmail writes the address of a host without a name in brackets: they go, from `text`,
 * too. */
static bool parse_mask(struct import *import, unsigned number, char *text) {
	size_t length = strlen(text);
	char quoted[96];
	struct mask mask;
	const char *why;

	if (length > 2 && text[0] == '[' && text[length - 1] == ']') {
		memmove(text, text + 1, length - 2);
		text[length - 2] = '\0';
	}
	if (!mask_parse(text, strlen(text), &mask, &why)) {
		say(import, MESSAGE_ERROR, number, "bad mask \"%s\": %s",
		    log_quote(quoted, sizeof(quoted), text, strlen(text)), why);
		return false;
	}
	if (mask.kind == MASK_NAME_PREFIX)
		say(import, MESSAGE_NOTE, number, "%s takes host names that begin so", text);
	else if (mask.kind == MASK_ADDRESS)
		say(import, MESSAGE_NOTE, number, "%s takes addresses, whatever the host's name: XLA "
		    "compared it with the name", text);
	return true;
}

/* One logical line without its L.  Changes `text`. */
static void take_line(struct import *import, unsigned number, char *text, const char *line) {
	char *fields[FIELDS];
	unsigned count = split(text, fields);
	uint32_t queue = 0, reject = 0;
	bool good;

	if (count > 0 && fields[0][0] == '/') {
		if (import->has_file)
			say(import, MESSAGE_NOTE, number, "a second counter file");
		import->has_file = true;
		return;
	}
	if (count != FIELDS) {
		keep_wrong_line(import, number, line);
		say(import, MESSAGE_ERROR, number, "an L line needs three fields (mask, queue "
		    "number, reject number), this one has %s%u", count > FIELDS ? "more than " : "",
		    count > FIELDS ? FIELDS : count);
		return;
	}
	good = parse_mask(import, number, fields[0]);
	good &= parse_count(import, number, "queue", fields[1], &queue);
	good &= parse_count(import, number, "reject", fields[2], &reject);
	if (good)
		add_rule(import, number, line, fields[0], queue, reject);
	else
		keep_wrong_line(import, number, line);
}

static void take_logical_line(struct import *import, unsigned number, const char *line,
    size_t length) {
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
static void read_lines(struct import *import, FILE *in) {
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

static void find_taken(struct import *import) {
	size_t bytes;
	void *index = mask_index_make(import->masks, import->count, &bytes);

	if (index == NULL) {
		say(import, MESSAGE_ERROR, 0, "out of memory");
		return;
	}
	for (uint32_t i = 0; i < import->count; i++) {
		uint32_t by = class_index_cover(index, &import->masks[i].mask);

		if (by >= i || import->masks[i].left_out)
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
	free(index);
}

static bool name_is_taken(const struct import *import, uint32_t before, const char *name) {
	for (uint32_t i = 0; i < before; i++)
		if (strcmp(import->rules[i].name, name) == 0)
			return true;
	return false;
}

/* The mask without its "*." or ".*", and a number where that is taken. */
static void name_rules(struct import *import) {
	for (uint32_t i = 0; i < import->count; i++) {
		struct rule *rule = &import->rules[i];
		const char *base = rule->mask;
		unsigned serial = 1;
		size_t length;

		if (rule->taken_by != CLASS_NO_RULE || import->masks[i].left_out)
			continue;
		if (import->masks[i].mask.kind == MASK_ALL)
			base = "everyone";
		else if (import->masks[i].mask.kind == MASK_DOMAIN)
			base += 2;
		length = strlen(base);
		if (length > 2 && strcmp(base + length - 2, ".*") == 0)
			length -= 2;
		snprintf(rule->name, sizeof(rule->name), "%.*s", (int)length, base);
		while (name_is_taken(import, i, rule->name))
			snprintf(rule->name, sizeof(rule->name), "%.*s-%u",
			    (int)(length < 68 ? length : 68), base, ++serial);
	}
}

/* In a comment: blanks are none the worse there, an end of the line would be. */
static void write_name(const char *name, FILE *out) {
	for (; *name != '\0'; name++)
		fputc(*name >= ' ' && *name <= '~' ? *name : '?', out);
}

static void write_rules(const struct import *import, FILE *out) {
	uint32_t last = 0;

	for (uint32_t i = 0; i < import->count; i++)
		if (import->rules[i].name[0] != '\0')
			last = i;
	fputs("# From the L lines of ", out);
	write_name(import->name, out);
	fputs(", by posternctl import-xla.\nclasses = (", out);
	for (uint32_t i = 0; i < import->count; i++) {
		const struct rule *rule = &import->rules[i];

		if (rule->name[0] == '\0') {
			fprintf(out, "\n\t# %s: %s", import->masks[i].left_out ?
			    "cannot be taken" : "never matches", rule->line);
			continue;
		}
		fprintf(out, "\n\t# %s\n\t{ name = \"%s\"; match = [ \"%s\" ]; hold_at = %u; "
		    "refuse_at = %u; }%s", rule->line, rule->name, rule->mask, rule->queue,
		    rule->reject, i < last ? "," : "");
	}
	fputs("\n);\n", out);
}

int xla_import(FILE *in, const char *name, FILE *out, struct config_messages *messages) {
	struct import import = { .name = name };

	report_begin(&import.report, messages);
	read_lines(&import, in);
	if (import.good_count == 0) {
		say(&import, MESSAGE_ERROR, 0, "no L line defines a class");
	} else {
		if (!import.has_file)
			say(&import, MESSAGE_NOTE, 0, "no L line names a counter file; none is "
			    "needed");
		find_taken(&import);
		name_rules(&import);
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

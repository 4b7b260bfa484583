/* SPDX-License-Identifier: ISC */
/*
 * Scanner of queue lists.
 *
 * MODEL: JSON as far as a list can have it: objects of texts, numbers and words, one
 * list of objects.  Texts are unescaped in place, which only makes them shorter.
 * Values of unknown members are passed over, nested ones up to a depth.
 * ERRORS: what is no list's line is refused; a line that is cut, or goes wrong in its
 * recipients, gives those before.
 * THREADS: pure.
 */
#include "wire/mail/queue_list.h"

#include <string.h>

#include "base/text.h"

#define DEPTH_MAX	8
#define TIME_DIGITS	10	/* more seconds are too many nanoseconds for 64 bits */

static void pass_blanks(struct queue_listed *scan) {
	while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t' ||
	    *scan->at == '\r' || *scan->at == '\n'))
		scan->at++;
}

static bool scan_take(struct queue_listed *scan, char c) {
	pass_blanks(scan);
	if (scan->at == scan->end || *scan->at != c)
		return false;
	scan->at++;
	return true;
}

/* \uXXXX, behind the u: a byte where it is one, else '?'. */
static bool take_unicode(struct queue_listed *scan, char *out) {
	int value = 0;

	if (scan->end - scan->at < 4)
		return false;
	for (unsigned i = 0; i < 4; i++) {
		int digit = text_hex_digit(*scan->at++);

		if (digit < 0)
			return false;
		value = value * 16 + digit;
	}
	*out = value < 0x80 ? (char)value : '?';
	return true;
}

static bool take_escape(struct queue_listed *scan, char *out) {
	static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
	const char *letter;
	char c;

	if (scan->at == scan->end)
		return false;
	c = *scan->at++;
	if (c == 'u')
		return take_unicode(scan, out);
	letter = c == '\0' ? NULL : strchr(letters, c);
	if (letter == NULL)
		return false;
	*out = bytes[letter - letters];
	return true;
}

static bool take_text(struct queue_listed *scan, struct span *text) {
	char *out;

	if (!scan_take(scan, '"'))
		return false;
	out = scan->at;
	text->text = out;
	while (scan->at < scan->end) {
		char c = *scan->at++;

		if (c == '"') {
			text->length = (size_t)(out - text->text);
			return true;
		}
		if (c == '\\' && !take_escape(scan, &c))
			return false;
		*out++ = c;
	}
	return false;
}

static bool take_number(struct queue_listed *scan, int64_t *number) {
	unsigned digits = 0;

	pass_blanks(scan);
	for (*number = 0; scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';
	     digits++) {
		if (digits == TIME_DIGITS)
			return false;
		*number = *number * 10 + (*scan->at++ - '0');
	}
	return digits > 0;
}

/* A number or a word. */
static bool pass_plain(struct queue_listed *scan) {
	const char *from = scan->at;

	while (scan->at < scan->end && *scan->at != '\0' && strchr(",]} \t\r\n", *scan->at) == NULL)
		scan->at++;
	return scan->at > from;
}

/* Any value; opening brackets are only counted, as whoever prints them closes them. */
static bool pass_value(struct queue_listed *scan) {
	struct span text;
	unsigned depth = 0;

	do {
		char c;

		pass_blanks(scan);
		if (scan->at == scan->end)
			return false;
		c = *scan->at;
		if (c == '"') {
			if (!take_text(scan, &text))
				return false;
		} else if (c == '{' || c == '[') {
			if (++depth > DEPTH_MAX)
				return false;
			scan->at++;
		} else if (depth > 0 && (c == '}' || c == ']')) {
			depth--;
			scan->at++;
		} else if (depth > 0 && (c == ',' || c == ':')) {
			scan->at++;
		} else if (!pass_plain(scan)) {
			return false;
		}
	} while (depth > 0);
	return true;
}

static bool is(struct span text, const char *word) {
	return text.length == strlen(word) && memcmp(text.text, word, text.length) == 0;
}

/* NAME: */
static bool take_name(struct queue_listed *scan, struct span *name) {
	return take_text(scan, name) && scan_take(scan, ':');
}

bool queue_list_scan(char *line, size_t length, struct queue_listed *out) {
	*out = (struct queue_listed){ .at = line, .end = line + length };
	if (!scan_take(out, '{'))
		return false;
	do {
		struct span name;
		bool good;

		if (!take_name(out, &name))
			return false;
		if (is(name, "recipients"))
			return out->queue_id.length > 0 && scan_take(out, '[');
		if (is(name, "queue_id"))
			good = take_text(out, &out->queue_id);
		else if (is(name, "arrival_time"))
			good = take_number(out, &out->arrival_s);
		else
			good = pass_value(out);
		if (!good)
			return false;
	} while (scan_take(out, ','));
	return false;
}

bool queue_list_recipient(struct queue_listed *listed, struct span *address,
    struct span *reason) {
	*address = *reason = (struct span){ "", 0 };
	(void)scan_take(listed, ',');
	if (!scan_take(listed, '{'))
		return false;
	do {
		struct span name;
		bool good;

		if (!take_name(listed, &name))
			return false;
		if (is(name, "address"))
			good = take_text(listed, address);
		else if (is(name, "delay_reason"))
			good = take_text(listed, reason);
		else
			good = pass_value(listed);
		if (!good)
			return false;
	} while (scan_take(listed, ','));
	return scan_take(listed, '}') && address->length > 0;
}

/* SPDX-License-Identifier: ISC */
/* Finds phrases in replies (reply_phrases.h). */
#include "policy/reply/reply_phrases.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static unsigned char lower(char c) {
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

static bool is_digit(char c) {
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c) {
	return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || (unsigned char)c >= 0x80;
}

/* Over "421-4.7.0 ", if it is that. */
static const char *pass_code(const char *at, const char *end) {
	const char *start = at;

	while (at < end && is_digit(*at))
		at++;
	if (at - start != 3 || at == end || (*at != '-' && *at != ' '))
		return start;
	for (start = ++at; at < end && (is_digit(*at) || *at == '.'); at++)
		;
	while (at < end && *at == ' ')
		at++;
	return at;
}

/* Over what separates two words, and the code of a line; NULL: nothing does. */
static const char *pass_gap(const char *at, const char *end, bool with_code) {
	const char *start = at;

	while (at < end && !is_alnum(*at))
		at++;
	return at == start ? NULL : with_code ? pass_code(at, end) : at;
}

/* Over a number that is no line's code; NULL: there is none. */
static const char *pass_number(const char *at, const char *end) {
	const char *start = at, *behind = pass_code(at, end);

	while (at < end && is_digit(*at))
		at++;
	return at == start || behind > at + 1 || (behind > at && *at == '-') ? NULL : at;
}

static bool matches(const char *at, const char *end, const char *phrase) {
	for (; *phrase != '\0'; phrase++) {
		if (*phrase == '.' && phrase[1] == '\0')
			return at == end || !is_alnum(*at);
		if (*phrase == ' ') {
			at = pass_gap(at, end, phrase[1] != '#');
			if (at == NULL)
				return false;
		} else if (*phrase == '#') {
			at = pass_number(at, end);
			if (at == NULL)
				return false;
		} else if (at == end || lower(*at++) != (unsigned char)*phrase) {
			return false;
		}
	}
	return true;
}

static bool has_byte(struct span words, char byte) {
	return words.length > 0 && memchr(words.text, byte, words.length) != NULL;
}

/* Over addresses, "<host.example[192.0.2.7]>:" and URLs: others chose the words in them. */
static const char *pass_names(const char *at, const char *end) {
	const char *token = at;
	bool is_name = false, bracketed = false;

	for (; at < end && *at != ' '; at++) {
		bracketed = bracketed || *at == '<';
		is_name = is_name || *at == '@' || (bracketed && (*at == '.' || *at == '[')) ||
		    (*at == ':' && end - at > 2 && at[1] == '/' && at[2] == '/');
	}
	return is_name ? at : token;
}

unsigned phrases_kinds(struct span words, const struct phrase *const lists[PHRASES_LETTERS]) {
	const char *end;
	unsigned kinds = 0;
	bool has_names;

	if (words.length == 0)	/* there may be no text at all */
		return 0;
	end = words.text + words.length;
	has_names = has_byte(words, '@') || has_byte(words, '<') || has_byte(words, '/');
	for (const char *at = words.text; at < end; at += at < end) {
		const struct phrase *phrase = NULL;

		if (has_names && (at == words.text || at[-1] == ' '))
			at = pass_names(at, end);
		if (end - at > 1 && lower(*at) >= 'a' && lower(*at) <= 'z')
			phrase = lists[lower(*at) - 'a'];
		for (; phrase != NULL && phrase->text != NULL; phrase++)
			if ((unsigned char)phrase->text[1] == lower(at[1]) &&
			    matches(at + 2, end, phrase->text + 2))
				kinds |= phrase->kind;
		while (at < end && is_alnum(*at))
			at++;
	}
	return kinds;
}

/* SPDX-License-Identifier: ISC */
/* Words of commands that people copy. */
#include "view/shell_word.h"

#include <string.h>

#include "base/text.h"

#define SHELL_WORD_MAX	1200	/* a login, each letter of it quoted */

static bool is_plain(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	    (c != '\0' && strchr("@%_+=:,./-", c) != NULL);
}

bool shell_word(const char *word, char *out, size_t size) {
	bool plain = *word != '\0';
	size_t length = 0;

	for (const char *c = word; *c != '\0'; c++) {
		plain = plain && is_plain(*c);
		if (*c < ' ' || *c > '~')
			return false;
	}
	out[0] = '\0';
	if (!plain)
		length = text_append(out, size, length, "'");
	for (const char *c = word; *c != '\0'; c++) {
		if (length + 8 >= size)
			return false;
		if (*c == '\'')
			length = text_append(out, size, length, "'\\''");
		else
			length = text_append(out, size, length, "%c", *c);
	}
	if (!plain)
		length = text_append(out, size, length, "'");
	return length + 1 < size;
}

bool shell_command(const char *verb, const char *name, const char *options, char *out, size_t size) {
	char word[SHELL_WORD_MAX];

	if (!shell_word(name, word, sizeof(word)))
		return false;
	return text_append(out, size, 0, "posternctl %s%s%s%s", verb, *name == '-' ? " -- " : " ",
	    word, options) + 1 < size;
}

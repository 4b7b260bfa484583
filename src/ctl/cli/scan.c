/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Finds one string setting in text that the configuration's own parser
 *          refuses.
 * MODEL    Words, strings and single characters one after the other, comments
 *          left out; a brace behind `group =` opens the group, its partner closes
 *          it.  A guess by nature: used only to find a daemon that runs already.
 * ERRORS   None: what is not found is not found.
 * THREADS  Pure.
 */
#include "ctl/cli/scan.h"

#include <string.h>

#include "base/text.h"

enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_STRING, TOKEN_OTHER };

struct token {
	enum token_kind kind;
	const char *start;	/* of a string: behind the quote */
	size_t length;
};

static bool is_word(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Leaves out blanks and the three kinds of comments. */
static const char *skip(const char *at) {
	for (;;) {
		at += strspn(at, " \t\r\n");
		if (*at == '#' || (at[0] == '/' && at[1] == '/')) {
			at += strcspn(at, "\n");
		} else if (at[0] == '/' && at[1] == '*') {
			const char *end = strstr(at + 2, "*/");

			at = end == NULL ? at + strlen(at) : end + 2;
		} else {
			return at;
		}
	}
}

static const char *next(const char *at, struct token *token) {
	at = skip(at);
	token->start = at;
	token->length = 1;
	token->kind = TOKEN_OTHER;
	if (*at == '\0') {
		token->kind = TOKEN_END;
		token->length = 0;
	} else if (*at == '"') {
		token->kind = TOKEN_STRING;
		token->start = ++at;
		while (*at != '\0' && *at != '"' && *at != '\n')
			at += at[0] == '\\' && at[1] != '\0' ? 2 : 1;
		token->length = (size_t)(at - token->start);
		return *at == '"' ? at + 1 : at;
	} else if (is_word(*at)) {
		token->kind = TOKEN_WORD;
		while (is_word(at[token->length]))
			token->length++;
	}
	return at + token->length;
}

static bool is_char(const struct token *token, char c) {
	return token->kind == TOKEN_OTHER && token->start[0] == c;
}

static bool is_named(const struct token *token, const char *name) {
	return token->kind == TOKEN_WORD && token->length == strlen(name) &&
	    memcmp(token->start, name, token->length) == 0;
}

static bool is_assignment(const struct token *token) {
	return is_char(token, '=') || is_char(token, ':');
}

/* The first string of the value at `at`. */
static bool value(const char *at, char *out, size_t size) {
	bool in_group = false, is_address = false;
	struct token token;

	for (;;) {
		at = next(at, &token);
		if (token.kind == TOKEN_END || is_char(&token, '}') ||
		    (is_char(&token, ';') && !in_group))
			return false;
		if (is_char(&token, '{'))
			in_group = true;
		else if (token.kind == TOKEN_WORD)
			is_address = is_named(&token, "address");
		else if (token.kind == TOKEN_STRING && (!in_group || is_address))
			return token.length > 0 && token.length < size &&
			    text_copy(out, size, token.start, token.length);
	}
}

bool scan_setting(const char *text, const char *group, const char *name,
    char *out, size_t size) {
	struct token token, one = { .kind = TOKEN_END }, two = one;
	unsigned depth = 0, group_depth = 0;

	/* `one` is the token before this one, `two` the one before that */
	for (;; two = one, one = token) {
		const char *at = next(text, &token);

		if (token.kind == TOKEN_END)
			return false;
		if (is_char(&token, '{')) {
			depth++;
			if (depth == 1 && is_assignment(&one) && is_named(&two, group))
				group_depth = depth;
		} else if (is_char(&token, '}') && depth > 0) {
			if (depth == group_depth)
				group_depth = 0;
			depth--;
		} else if (group_depth != 0 && depth == group_depth &&
		    is_assignment(&token) && is_named(&one, name)) {
			return value(at, out, size);
		}
		text = at;
	}
}

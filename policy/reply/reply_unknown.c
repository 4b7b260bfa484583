/* SPDX-License-Identifier: ISC */
/*
 * Does a result say that there is no such recipient?  By the enhanced status code, of the reply
 * or of the mail server; where that says nothing (5.0.0, none), by words that mail servers use.
 * Pure.
 */
#include "policy/reply/reply_unknown.h"

#include <stddef.h>
#include <string.h>

static const char *const words[] = {
	"user unknown", "unknown user", "no such user", "unknown recipient", "invalid recipient",
	"recipient unknown", "no such recipient", "does not exist", "doesn't exist", "no such mailbox",
	"mailbox not found", "unknown mailbox", "mailbox unavailable", "no mailbox here",
	"recipient not found", "user not found", "unknown address", "address unknown",
	"not a valid mailbox", "unrouteable address", "recipient address rejected: undeliverable",
	"unknown local part", "account is disabled",
};

static bool is_unknown_code(const uint16_t code[3]) {
	if (code[0] != 5)
		return false;
	if (code[1] == 1)	/* addressing: mailbox, system, syntax, ambiguous, moved, null MX */
		return code[2] == 1 || code[2] == 2 || code[2] == 3 || code[2] == 6 ||
		    code[2] == 10;
	return code[1] == 4 && code[2] == 4;	/* no such domain */
}

/* Would it have been told, if it were something else? */
static bool says_nothing(const uint16_t code[3]) {
	return code[0] != 5 || (code[1] == 0 && code[2] == 0) ||
	    (code[1] == 5 && code[2] == 0) || (code[1] == 2 && code[2] == 0);
}

static char lower(char c) {
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool stands_in(const char *word, struct span text) {
	size_t length = strlen(word);

	for (size_t at = 0; length <= text.length && at <= text.length - length; at++) {
		size_t i = 0;

		while (i < length && lower(text.text[at + i]) == word[i])
			i++;
		if (i == length)
			return true;
	}
	return false;
}

bool reply_is_unknown_recipient(const struct delivery *delivery, const struct reply *reply) {
	const uint16_t *code = reply->enhanced[0] != 0 ? reply->enhanced : delivery->dsn;

	if (reply->class != RESULT_PERMANENT)
		return false;
	if (is_unknown_code(code))
		return true;
	for (size_t i = 0; says_nothing(code) && i < sizeof(words) / sizeof(words[0]); i++)
		if (stands_in(words[i], reply->words))
			return true;
	return false;
}

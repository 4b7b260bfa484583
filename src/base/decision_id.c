/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Numbers of decisions as text.
 * MODEL    D. Crockford's base 32.  32 is 3 modulo 29, of which the powers go round in 28
 *          steps: one wrong digit, or two that changed places, gives another remainder,
 *          unless they are 29 apart.
 * ERRORS   What is no id is told as such.
 * THREADS  No state.
 */
#include "base/decision_id.h"

#include <string.h>

#define DIGITS_LEAST	11
#define DIGITS_MOST	13	/* of 64 bits */
#define CHECK		29

static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";

const char *decision_id_text(uint64_t id, char out[DECISION_ID_MAX]) {
	size_t count = DIGITS_LEAST;
	uint64_t rest = id;

	if (id == 0) {
		memcpy(out, "-", 2);
		return out;
	}
	while (count < DIGITS_MOST && id >> 5 * count != 0)
		count++;
	for (size_t at = count; at-- > 0; rest >>= 5)
		out[at] = digits[rest & 31];
	out[count] = digits[id % CHECK];
	out[count + 1] = '\0';
	return out;
}

/* -1: none. */
static int digit_of(char c) {
	const char *found;

	if (c >= 'A' && c <= 'Z')
		c = (char)(c + ('a' - 'A'));
	if (c == 'o')
		c = '0';
	if (c == 'i' || c == 'l')
		c = '1';
	found = c == '\0' ? NULL : strchr(digits, c);
	return found == NULL ? -1 : (int)(found - digits);
}

/* What stands round it in a line. */
static void strip(const char **text, size_t *length) {
	static const char before[] = "([<\"'", behind[] = ")]>\"',.;:";
	static const char key[] = "id=";

	while (*length > 0 && strchr(before, **text) != NULL && **text != '\0') {
		(*text)++;
		(*length)--;
	}
	if (*length > strlen(key) && memcmp(*text, key, strlen(key)) == 0) {
		*text += strlen(key);
		*length -= strlen(key);
	}
	while (*length > 0 && (*text)[*length - 1] != '\0' &&
	    strchr(behind, (*text)[*length - 1]) != NULL)
		(*length)--;
}

bool decision_id_parse(const char *text, size_t length, uint64_t *id) {
	uint64_t value = 0;

	strip(&text, &length);
	if (length < DIGITS_LEAST + 1 || length >= DECISION_ID_MAX)
		return false;
	for (size_t i = 0; i + 1 < length; i++) {
		int digit = digit_of(text[i]);

		if (digit < 0 || value >> 59 != 0)
			return false;
		value = value << 5 | (unsigned)digit;
	}
	if (value == 0 || digit_of(text[length - 1]) != (int)(value % CHECK))
		return false;
	*id = value;
	return true;
}

/* SPDX-License-Identifier: ISC */
/* What needs quotes, or is no address, is not plain.  Pure. */
#include "base/plain_recipient.h"

#include <string.h>

static bool is_domain_byte(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	    c == '-' || c == '.';
}

static bool is_local_byte(char c) {
	return is_domain_byte(c) || (c != '\0' && strchr("!#$%&'*+/=?^_`{|}~", c) != NULL);
}

bool plain_recipient_take(const char **at, const char *end, const char **text, size_t *length) {
	const char *c = *at, *domain;
	bool bracketed = c < end && *c == '<';

	*text = c += bracketed;
	while (c < end && is_local_byte(*c))
		c++;
	if (c == *text || c == end || *c != '@')
		return false;
	domain = ++c;
	while (c < end && is_domain_byte(*c))
		c++;
	*length = (size_t)(c - *text);
	if (c == domain || *length > PLAIN_RECIPIENT_MAX)
		return false;
	if (bracketed && (c == end || *c++ != '>'))
		return false;
	if (c < end && *c++ != ',')
		return false;
	*at = c;
	return true;
}

const char *plain_recipient_domain(const char *text, size_t length) {
	while (length > 0 && text[length - 1] != '@')
		length--;
	return text + length;
}

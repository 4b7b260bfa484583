/* SPDX-License-Identifier: ISC */
/*
 * Host masks from text (class.h).
 *
 * Model: the star decides the kind; what can only be an address must be one;
 * the rest is a name, checked label by label.  Errors: false and a static text.
 * Threads: no state.
 */
#include "policy/limit/class.h"

#include <string.h>

#define LABEL_MAX 63

static bool is_digit(char c) {
	return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Digits and dots, a digit first. */
static bool is_numeric(const char *text, size_t length) {
	for (size_t i = 0; i < length; i++)
		if (!is_digit(text[i]) && text[i] != '.')
			return false;
	return length > 0 && is_digit(text[0]);
}

static bool contains(const char *text, size_t length, char wanted) {
	for (size_t i = 0; i < length; i++)
		if (text[i] == wanted)
			return true;
	return false;
}

/* Why `c` may not stand in a mask's name, or NULL. */
static const char *refuse_character(char c) {
	unsigned char byte = (unsigned char)c;

	switch (c) {
	case ' ':
		return "a mask cannot contain a space";
	case '*':
		return "'*' may only stand alone, before a domain (*.domain) or after a prefix (prefix.*)";
	case '/':
	case ':':
	case '[':
	case ']':
		return "not an IPv4 or IPv6 address, and a host name has no '/', ':' or brackets";
	case '@':
		return "a mask names hosts, not mail addresses";
	case ',':
		return "one mask at a time: a host name has no comma";
	}
	if (byte >= 0x80)
		return "a host name is ASCII (write an international name as xn--...)";
	if (byte < 0x20 || byte == 0x7f)
		return "a mask contains no control characters";
	if (!is_digit(c) && !is_letter(c) && c != '-' && c != '_')
		return "a host name has letters, digits, '-', '_' and dots alone";
	return NULL;
}

static bool check_name(const char *name, size_t length, const char **why) {
	size_t label = 0;

	if (length > MASK_NAME_MAX) {
		*why = "longer than a host name can be (255 bytes)";
		return false;
	}
	for (size_t i = 0; i <= length; i++) {
		if (i == length || name[i] == '.') {
			if (label == 0) {
				*why = "a host name has no empty label (two dots in a row, or one at its start)";
				return false;
			}
			label = 0;
			continue;
		}
		*why = refuse_character(name[i]);
		if (*why != NULL)
			return false;
		if (++label > LABEL_MAX) {
			*why = "a label of a host name is at most 63 bytes long";
			return false;
		}
	}
	return true;
}

/* The digits of "192.0.2.*": one to three numbers. */
static bool parse_digits_prefix(const char *text, size_t length,
    struct mask *out, const char **why) {
	char whole[ADDRESS_TEXT_MAX];
	size_t dots = 0;

	for (size_t i = 0; i < length; i++)
		dots += text[i] == '.';
	if (dots > 2 || length > sizeof "255.255.255" - 1) {
		*why = "an address prefix like 192.0.2.* has one to three numbers from 0 to 255";
		return false;
	}
	memcpy(whole, text, length);
	for (size_t i = dots; i < 3; i++) {
		whole[length++] = '.';
		whole[length++] = '0';
	}
	out->kind = MASK_ADDRESS;
	if (!address_parse(whole, length, &out->prefix.base)) {
		*why = "an address prefix like 192.0.2.* has one to three numbers from 0 to 255";
		return false;
	}
	out->prefix.bits = (uint8_t)(96 + 8 * (dots + 1));
	return true;
}

/* "10.0.0.0-10.0.0.255": digits, dots and a hyphen, and no top-level domain is so. */
static bool is_range(const char *text, size_t length) {
	for (size_t i = 0; i < length; i++)
		if (!is_digit(text[i]) && text[i] != '.' && text[i] != '-')
			return false;
	return length > 0 && is_digit(text[0]) && contains(text, length, '.') &&
	    contains(text, length, '-');
}

/* "hash:/etc/postfix/customers", "/etc/mail/customers" */
static bool is_table(const char *text, size_t length) {
	size_t word = 0;

	while (word < length && (is_letter(text[word]) || is_digit(text[word]) ||
	    text[word] == '_'))
		word++;
	return text[0] == '/' || (is_letter(text[0]) && word + 1 < length &&
	    text[word] == ':' && text[word + 1] == '/');
}

/* What people write who know other lists; NULL: nothing of that. */
static const char *refuse_form(const char *text, size_t length) {
	if (text[0] == '!')
		return "a mask cannot be negated: use a separate class above this one, or "
		    "exempt";
	if (is_range(text, length))
		return "a range of addresses is written as prefixes, such as 10.0.0.0/24";
	if (is_table(text, length))
		return "files and lookup tables are not read: list the masks here, or @include "
		    "a file of them";
	if (length > 1 && text[0] == '.' && (is_letter(text[1]) || is_digit(text[1])))
		return "a domain and all names below it is written *.domain";
	return NULL;
}

static bool parse_address_mask(const char *text, size_t length,
    struct mask *out, const char **why) {
	out->kind = MASK_ADDRESS;
	if (prefix_parse(text, length, &out->prefix, why))
		return true;
	if (is_numeric(text, length))
		*why = "not a whole IPv4 address (a prefix is written 192.0.2.* or 192.0.2.0/24)";
	else if (contains(text, length, '*'))
		*why = "an address takes no '*' (an IPv6 prefix is written 2001:db8::/32)";
	return false;
}

static bool looks_like_address(const char *text, size_t length) {
	return contains(text, length, ':') || contains(text, length, '/') ||
	    contains(text, length, '[') || is_numeric(text, length);
}

/* Spaces and the like are told before anything else that they would cause. */
static bool check_bytes(const char *text, size_t length, const char **why) {
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = (unsigned char)text[i];

		if (byte <= 0x20 || byte >= 0x7f) {
			*why = refuse_character(text[i]);
			return false;
		}
	}
	return true;
}

bool mask_parse(const char *text, size_t length, struct mask *out,
    const char **why) {
	struct mask mask;

	memset(&mask, 0, sizeof mask);
	if (length == 0) {
		*why = "a mask is empty";
		return false;
	}
	if (!check_bytes(text, length, why))
		return false;
	if (length == 1 && text[0] == '*') {
		mask.kind = MASK_ALL;
		*out = mask;
		return true;
	}
	*why = refuse_form(text, length);
	if (*why != NULL)
		return false;
	if (looks_like_address(text, length)) {
		if (!parse_address_mask(text, length, &mask, why))
			return false;
		*out = mask;
		return true;
	}
	mask.kind = MASK_NAME;
	mask.name = text;
	mask.name_length = length;
	if (length >= 2 && text[0] == '*' && text[1] == '.') {
		mask.kind = MASK_DOMAIN;
		mask.name += 2;
		mask.name_length -= 2;
	} else if (length >= 2 && text[length - 1] == '*' && text[length - 2] == '.') {
		mask.kind = MASK_NAME_PREFIX;
		mask.name_length -= 2;
		if (is_numeric(text, mask.name_length)) {
			mask.name = NULL;
			if (!parse_digits_prefix(text, mask.name_length, &mask, why))
				return false;
			mask.name_length = 0;
			*out = mask;
			return true;
		}
	}
	if (mask.kind != MASK_NAME_PREFIX && mask.name_length > 1 &&
	    mask.name[mask.name_length - 1] == '.')
		mask.name_length--;
	if (!check_name(mask.name, mask.name_length, why))
		return false;
	*out = mask;
	return true;
}

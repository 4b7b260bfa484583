/* SPDX-License-Identifier: ISC */
/*
 * Addresses and prefixes as text and as bits (address.h).
 *
 * Model: 16 bytes in network order, IPv4 under ::ffff:0:0/96.  Text is parsed by
 * hand, as inet_pton knows neither lengths nor brackets and takes a NUL for an
 * end.  Errors: false.  Threads: no state.
 */
#include "policy/limit/address.h"

#include <string.h>

#define V4_FIRST	sizeof address_v4_head	/* where the four bytes of an IPv4 address stand */
#define V4_BITS		96

const uint8_t address_v4_head[12] = {
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff
};

static bool is_digit(char c) {
	return c >= '0' && c <= '9';
}

/* Where `wanted` first stands, or `length`. */
static size_t find_char(const char *text, size_t length, char wanted) {
	size_t at = 0;

	while (at < length && text[at] != wanted)
		at++;
	return at;
}

static char lower(char c) {
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static int hex_value(char c) {
	if (is_digit(c))
		return c - '0';
	c = lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A decimal number of 1 to 3 digits, at most `max`, without leading zeros. */
static bool parse_decimal(const char *text, size_t length, unsigned max,
    unsigned *out) {
	unsigned value = 0;

	if (length == 0 || length > 3 || (length > 1 && text[0] == '0'))
		return false;
	for (size_t i = 0; i < length; i++) {
		if (!is_digit(text[i]))
			return false;
		value = value * 10 + (unsigned)(text[i] - '0');
	}
	if (value > max)
		return false;
	*out = value;
	return true;
}

static bool parse_quad(const char *text, size_t length, uint8_t out[4]) {
	size_t at = 0;

	for (int part = 0; part < 4; part++) {
		size_t from = at;
		unsigned value = 0;

		for (; at < length && is_digit(text[at]) && value < 256; at++)
			value = value * 10 + (unsigned)(text[at] - '0');
		if (at == from || value > 255 || (text[from] == '0' && at > from + 1))
			return false;
		out[part] = (uint8_t)value;
		if (part < 3 && (at == length || text[at++] != '.'))
			return false;
	}
	return at == length;
}

/* One to four hex digits at text[*at]; *at moves behind them. */
static bool parse_group(const char *text, size_t length, size_t *at,
    unsigned *out) {
	size_t from = *at;
	unsigned value = 0;
	int digit;

	while (*at < length && *at - from < 4 &&
	    (digit = hex_value(text[*at])) >= 0) {
		value = value << 4 | (unsigned)digit;
		++*at;
	}
	*out = value;
	return *at > from;
}

static bool parse_v6(const char *text, size_t length, uint8_t out[16]) {
	uint8_t bytes[16] = { 0 };
	size_t filled = 0, at = 0, gap = sizeof bytes + 1;

	if (length >= 2 && text[0] == ':' && text[1] == ':') {
		gap = 0;
		at = 2;
	}
	while (at < length) {
		size_t from = at;
		unsigned group;

		if (filled == sizeof bytes ||
		    !parse_group(text, length, &at, &group))
			return false;
		if (at < length && text[at] == '.') {
			if (filled > V4_FIRST || !parse_quad(text + from,
			    length - from, bytes + filled))
				return false;
			filled += 4;
			break;
		}
		bytes[filled++] = (uint8_t)(group >> 8);
		bytes[filled++] = (uint8_t)group;
		if (at == length)
			break;
		if (text[at++] != ':' || at == length)
			return false;
		if (text[at] == ':') {
			if (gap <= sizeof bytes)
				return false;
			gap = filled;
			at++;
		}
	}
	if (gap > sizeof bytes) {
		if (filled != sizeof bytes)
			return false;
	} else {
		size_t tail = filled - gap;

		if (filled > sizeof bytes - 2)
			return false;
		memmove(bytes + sizeof bytes - tail, bytes + gap, tail);
		memset(bytes + gap, 0, sizeof bytes - filled);
	}
	memcpy(out, bytes, sizeof bytes);
	return true;
}

/* Takes off [ ] and "IPv6:".  *tagged: the tag was there. */
static bool unwrap(const char **text, size_t *length, bool *tagged) {
	static const char tag[] = "ipv6:";
	size_t tag_length = sizeof tag - 1, same = 0;

	if (*length > 0 && **text == '[') {
		if (*length < 2 || (*text)[*length - 1] != ']')
			return false;
		*text += 1;
		*length -= 2;
	}
	while (same < tag_length && same < *length &&
	    lower((*text)[same]) == tag[same])
		same++;
	*tagged = same == tag_length;
	if (*tagged) {
		*text += tag_length;
		*length -= tag_length;
	}
	return true;
}

/* As address_parse; *colons: it was written as IPv6. */
static bool parse_either(const char *text, size_t length, struct address *out,
    bool *colons) {
	struct address parsed;
	bool tagged;

	memcpy(parsed.bytes, address_v4_head, sizeof address_v4_head);
	*colons = !parse_quad(text, length, parsed.bytes + V4_FIRST);
	if (*colons) {
		if (!unwrap(&text, &length, &tagged))
			return false;
		/* [192.0.2.1] */
		*colons = tagged || !parse_quad(text, length, parsed.bytes + V4_FIRST);
		if (*colons && !parse_v6(text, length, parsed.bytes))
			return false;
	}
	*out = parsed;
	return true;
}

bool address_parse(const char *text, size_t length, struct address *out) {
	bool colons;

	return parse_either(text, length, out, &colons);
}

bool address_is_loopback(const struct address *address) {
	static const struct address six = { { [15] = 1 } };

	return (address_is_v4(address) && address->bytes[12] == 127) ||
	    address_equal(address, &six);
}

void address_truncate(struct address *address, unsigned bits) {
	size_t whole = bits / 8;

	if (whole >= sizeof address->bytes)
		return;
	address->bytes[whole] &= (uint8_t)(0xff00u >> bits % 8);
	memset(address->bytes + whole + 1, 0, sizeof address->bytes - whole - 1);
}

static size_t write_decimal(char *out, unsigned value) {
	size_t length = 0;

	if (value >= 100)
		out[length++] = (char)('0' + value / 100);
	if (value >= 10)
		out[length++] = (char)('0' + value / 10 % 10);
	out[length++] = (char)('0' + value % 10);
	return length;
}

static size_t write_quad(char *out, const uint8_t bytes[4]) {
	size_t length = 0;

	for (int part = 0; part < 4; part++) {
		if (part > 0)
			out[length++] = '.';
		length += write_decimal(out + length, bytes[part]);
	}
	return length;
}

/* The longest run of two or more zero groups, the first among equals. */
static void find_gap(const uint8_t bytes[16], int *from, int *to) {
	*from = *to = -1;
	for (int first = 0; first < 8; first++) {
		int end = first;

		while (end < 8 && bytes[2 * end] == 0 && bytes[2 * end + 1] == 0)
			end++;
		if (end - first >= 2 && end - first > *to - *from) {
			*from = first;
			*to = end;
		}
		if (end > first)
			first = end;
	}
}

static size_t write_v6(char *out, const uint8_t bytes[16]) {
	static const char digits[] = "0123456789abcdef";
	size_t length = 0;
	int gap_from, gap_to;

	find_gap(bytes, &gap_from, &gap_to);
	for (int group = 0; group < 8; group++) {
		unsigned value = (unsigned)bytes[2 * group] << 8 |
		    bytes[2 * group + 1];
		int shift = 12;

		if (group == gap_from) {
			out[length++] = ':';
			out[length++] = ':';
			group = gap_to - 1;
			continue;
		}
		if (group > 0 && group != gap_to)
			out[length++] = ':';
		while (shift > 0 && value >> shift == 0)
			shift -= 4;
		for (; shift >= 0; shift -= 4)
			out[length++] = digits[value >> shift & 15];
	}
	return length;
}

static size_t write_address(char *out, const struct address *address) {
	return address_is_v4(address) ?
	    write_quad(out, address->bytes + V4_FIRST) :
	    write_v6(out, address->bytes);
}

size_t address_format(const struct address *address,
    char text[ADDRESS_TEXT_MAX]) {
	static const char unknown[] = "unknown";
	size_t length;

	if (address_is_unknown(address)) {
		memcpy(text, unknown, sizeof unknown);
		return sizeof unknown - 1;
	}
	length = write_address(text, address);
	text[length] = '\0';
	return length;
}

bool prefix_parse(const char *text, size_t length, struct prefix *out,
    const char **why) {
	size_t slash = find_char(text, length, '/');
	struct prefix parsed = { .bits = 128 };
	struct address truncated;
	bool colons, v4;
	unsigned bits;

	if (!parse_either(text, slash, &parsed.base, &colons)) {
		*why = "not an IPv4 or IPv6 address";
		return false;
	}
	v4 = address_is_v4(&parsed.base);
	if (slash < length) {
		if (!parse_decimal(text + slash + 1, length - slash - 1,
		    colons ? 128 : 32, &bits)) {
			*why = colons ?
			    "the length of an IPv6 prefix is a number from 0 to 128" :
			    "the length of an IPv4 prefix is a number from 0 to 32";
			return false;
		}
		if (!colons)
			bits += V4_BITS;
		else if (v4 && bits < V4_BITS) {
			*why = "a prefix of an IPv4-mapped address has 96 to 128 bits";
			return false;
		}
		parsed.bits = (uint8_t)bits;
	}
	truncated = parsed.base;
	address_truncate(&truncated, parsed.bits);
	if (!address_equal(&truncated, &parsed.base)) {
		*why = "the address has bits set beyond the prefix length";
		return false;
	}
	*out = parsed;
	return true;
}

bool prefix_contains(const struct prefix *prefix, const struct address *address) {
	struct address truncated = *address;

	if (address_is_unknown(address) ||
	    (prefix->bits < V4_BITS && address_is_v4(address)))
		return false;
	address_truncate(&truncated, prefix->bits);
	return address_equal(&truncated, &prefix->base);
}

size_t prefix_format(const struct prefix *prefix, char text[ADDRESS_TEXT_MAX]) {
	size_t length = write_address(text, &prefix->base);
	unsigned bits = prefix->bits;

	if (address_is_v4(&prefix->base) && bits >= V4_BITS)
		bits -= V4_BITS;
	text[length++] = '/';
	length += write_decimal(text + length, bits);
	text[length] = '\0';
	return length;
}

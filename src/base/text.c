/* SPDX-License-Identifier: ISC */
/*
 * Bounded text.  All pure; any thread.  Parsers accept exactly what the header
 * says and report by their result; *out is untouched when they fail.
 */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define DISTANCE_LETTERS 32

size_t text_append(char *buffer, size_t size, size_t length,
    const char *format, ...) {
	va_list args;
	int n;

	if (size == 0)
		return 0;
	if (length >= size - 1)
		return size - 1;
	va_start(args, format);
	n = vsnprintf(buffer + length, size - length, format, args);
	va_end(args);
	if (n < 0) {
		buffer[length] = '\0';
		return length;
	}
	if ((size_t)n >= size - length)
		return size - 1;
	return length + (size_t)n;
}

bool text_copy(char *out, size_t size, const char *text, size_t length) {
	bool fits = length < size;

	if (size == 0)
		return false;
	if (!fits)
		length = size - 1;
	if (length > 0)
		memcpy(out, text, length);
	out[length] = '\0';
	return fits;
}

/* Digits at the start of text: returns how many, 0 when none or beyond max. */
static size_t leading_number(const char *text, size_t length, uint64_t max,
    uint64_t *out) {
	uint64_t value = 0;
	size_t i;

	for (i = 0; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
		uint64_t digit = (uint64_t)(text[i] - '0');

		if (value > (max - digit) / 10 || digit > max)
			return 0;
		value = value * 10 + digit;
	}
	if (i > 0)
		*out = value;
	return i;
}

bool text_to_u32(const char *text, size_t length, uint32_t max, uint32_t *out) {
	uint64_t value = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
		if (value > max)
			return false;
	}
	if (length > 0)
		*out = (uint32_t)value;
	return length > 0;
}

bool text_to_u64(const char *text, uint64_t *out) {
	uint64_t value;
	size_t length = strlen(text);

	if (length == 0 || leading_number(text, length, UINT64_MAX, &value) != length)
		return false;
	*out = value;
	return true;
}

bool text_to_size(const char *text, uint64_t *out) {
	unsigned shift = 0;
	uint64_t value;
	size_t digits = leading_number(text, strlen(text), UINT64_MAX, &value);

	if (digits == 0)
		return false;
	switch (text[digits]) {
	case '\0':
		*out = value;
		return true;
	case 'k': case 'K':
		shift = 10;
		break;
	case 'm': case 'M':
		shift = 20;
		break;
	case 'g': case 'G':
		shift = 30;
		break;
	default:
		return false;
	}
	if (text[digits + 1] != '\0' || value > UINT64_MAX >> shift)
		return false;
	*out = value << shift;
	return true;
}

/* A unit of time, or 0. */
static int64_t unit_ns(const char *unit) {
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = {
		{ "ms", NS_PER_MS },
		{ "s", NS_PER_SECOND },
		{ "m", 60 * NS_PER_SECOND },
		{ "h", 3600 * NS_PER_SECOND },
		{ "d", 86400 * NS_PER_SECOND },
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(unit, units[i].name) == 0)
			return units[i].ns;
	return 0;
}

bool text_to_duration_ns(const char *text, int64_t *out) {
	uint64_t value;
	size_t digits = leading_number(text, strlen(text), INT64_MAX, &value);
	int64_t unit;

	if (digits == 0)
		return false;
	unit = unit_ns(text + digits);
	if (unit == 0 || value > (uint64_t)(INT64_MAX / unit))
		return false;
	*out = (int64_t)value * unit;
	return true;
}

bool text_to_share(const char *text, double *out) {
	size_t length = strlen(text), digits = 0;
	double value = 0, scale = 1;
	bool percent = length > 0 && text[length - 1] == '%', point = false;

	for (size_t i = 0; i < length - percent; i++) {
		if (text[i] == '.' && !point) {
			point = true;
		} else if (text[i] >= '0' && text[i] <= '9' && ++digits <= 12) {
			value = value * 10 + (text[i] - '0');
			scale *= point ? 10 : 1;
		} else {
			return false;
		}
	}
	*out = value / scale / (percent ? 100 : 1);
	return digits > 0 && *out <= 1;
}

bool text_to_rate(const char *text, uint32_t *count, int64_t *period_ns) {
	uint64_t value;
	size_t digits = leading_number(text, strlen(text), UINT32_MAX, &value);
	int64_t period;

	if (digits == 0 || value == 0 || text[digits] != '/')
		return false;
	text += digits + 1;
	period = unit_ns(text);
	if (period == 0 && !text_to_duration_ns(text, &period))
		return false;
	if (period == 0)
		return false;
	*count = (uint32_t)value;
	*period_ns = period;
	return true;
}

uint64_t text_hash(uint64_t seed, const void *bytes, size_t length) {
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed;
	const unsigned char *at = bytes;

	for (; length > 0; length--)
		hash = (hash ^ *at++) * UINT64_C(0x100000001b3);
	return hash;
}

unsigned text_distance(const char *a, const char *b) {
	unsigned rows[3][DISTANCE_LETTERS + 1];
	size_t m = strlen(a), n = strlen(b);

	if (m > DISTANCE_LETTERS || n > DISTANCE_LETTERS)
		return UINT32_MAX;
	for (size_t j = 0; j <= n; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= m; i++) {
		unsigned *now = rows[i % 3], *last = rows[(i + 2) % 3];

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= n; j++) {
			unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1] &&
			    rows[(i + 1) % 3][j - 2] + 1 < best)
				best = rows[(i + 1) % 3][j - 2] + 1;
			now[j] = best;
		}
	}
	return rows[m % 3][n];
}

size_t text_bare_host(const char **text, size_t length) {
	const char *host = *text;

	if (length > 0 && host[length - 1] == '.')
		length--;
	if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
		*text = host + 1;
		length -= 2;
	}
	return length;
}

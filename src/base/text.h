/* SPDX-License-Identifier: ISC */
/* Bounded text building, and numbers and units out of text. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* printf at the end of a bounded string: returns the new length, never above
 * size - 1; what does not fit is cut. */
size_t text_append(char *buffer, size_t size, size_t length,
    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Copies with a NUL, cut to fit; returns false when cut. */
bool text_copy(char *out, size_t size, const char *text, size_t length);

/* Decimal digits only, whole text, at most `max`. */
bool text_to_u32(const char *text, size_t length, uint32_t max, uint32_t *out);

/* The same, up to UINT64_MAX. */
bool text_to_u64(const char *text, uint64_t *out);

/* "64k" "1M" "300": powers of 1024. */
bool text_to_size(const char *text, uint64_t *out);
/* "500ms" "90s" "5m" "1h" "2d". */
bool text_to_duration_ns(const char *text, int64_t *out);
/* "0.25" "25%": 0..1. */
bool text_to_share(const char *text, double *out);
/* "60/1m" "5/s". */
bool text_to_rate(const char *text, uint32_t *count, int64_t *period_ns);

/* How many letters must be added, dropped, changed or swapped with their
 * neighbour to make one text of the other: for "did you mean".  UINT32_MAX where
 * one is longer than 32. */
unsigned text_distance(const char *a, const char *b);

/* FNV-1a, of more than one text by the hash of what was before as `seed` (else 0): for what no
 * stranger chooses. */
uint64_t text_hash(uint64_t seed, const void *bytes, size_t length);

/* A host without one dot behind it and without [ ] around it: moves *text, returns
 * the length. */
size_t text_bare_host(const char **text, size_t length);

/* Capital letters of ASCII are small in `out`, which may be `text`. */
static inline void text_lower(char *out, const char *text, size_t length) {
	for (size_t i = 0; i < length; i++)
		out[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20) : text[i];
}

/* Of a hexadecimal digit; -1: it is none. */
static inline int text_hex_digit(char c) {
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 :
	    c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Of two; -1: they are not both there, before `end`. */
static inline int text_hex_byte(const char *at, const char *end) {
	int high = end - at >= 2 ? text_hex_digit(at[0]) : -1;
	int low = high < 0 ? -1 : text_hex_digit(at[1]);

	return low < 0 ? -1 : high << 4 | low;
}

/* Are eight bytes printable ASCII, all of them?  For loops over long texts: then they can be
 * taken as they are. */
static inline bool text_eight_printable(const char *eight) {
	const uint64_t each = UINT64_C(0x0101010101010101);
	uint64_t word;

	memcpy(&word, eight, sizeof(word));
	/* the highest bit of the lowest byte that is below ' ', or above '~', is set */
	return (((word - ' ' * each) | word | (word + each)) & 0x80 * each) == 0;
}

#endif

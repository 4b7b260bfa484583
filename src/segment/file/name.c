/* SPDX-License-Identifier: ISC */
/* Names of hosts and domains as the segment stores them.  Any thread. */
#include "segment/file/name.h"

#include <string.h>

#define EACH_BYTE(byte)	(UINT64_C(0x0101010101010101) * (byte))

/* Bit 7 of each byte that is below `byte` (at most 0x80); the bytes have no bit 7. */
static uint64_t bytes_below(uint64_t word, uint8_t byte) {
	return (EACH_BYTE(0x80) + EACH_BYTE(byte) - EACH_BYTE(1) - word) &
	    EACH_BYTE(0x80);
}

/* Eight bytes at a time: letters in lower case.  False: there is a byte that no
 * name has. `all`: 0xff where the name has a byte. */
static inline bool fold_word(uint64_t *word, uint64_t all) {
	uint64_t low = *word & EACH_BYTE(0x7f), high = *word & EACH_BYTE(0x80);
	uint64_t is_upper = bytes_below(low, 'Z' + 1) & ~bytes_below(low, 'A') &
	    ~high;
	uint64_t is_bad = (bytes_below(low, ' ' + 1) |
	    ~bytes_below(low, 0x7f)) & ~high & EACH_BYTE(0x80) & all;

	*word |= is_upper >> 2; /* 0x80 to 0x20 */
	return is_bad == 0;
}

/* The last `length` bytes (1 to 7) of a text: `all` has 0xff for each.  Where bytes stand
 * before them all are read at once (base/siphash.c wants little-endian, too). */
static uint64_t last_word(const char *text, size_t length, bool has_before,
    uint64_t *all) {
	uint64_t word = 0;

	*all = UINT64_MAX >> 8 * (8 - length);
	if (has_before) {
		memcpy(&word, text + length - 8, sizeof(word));
		return word >> 8 * (8 - length);
	}
	for (size_t i = 0; i < length; i++)
		word |= (uint64_t)(unsigned char)text[i] << 8 * i;
	return word;
}

static inline uint32_t text_fold(const char *text, size_t length, size_t max, uint64_t *words) {
	uint32_t at = 0, count;
	uint64_t all;

	if (length > 0 && text[length - 1] == '.')
		length--;
	if (length == 0 || length > max || text[length - 1] == '.')
		return 0;
	for (; length - at * 8 >= 8; at++) {
		memcpy(&words[at], text + at * 8, sizeof(words[at]));
		if (!fold_word(&words[at], UINT64_MAX))
			return 0;
	}
	if (length % 8 != 0) {
		words[at] = last_word(text + at * 8, length % 8, at > 0, &all);
		if (!fold_word(&words[at++], all))
			return 0;
	}
	count = at;
	for (; at < max / 8; at++)
		words[at] = 0;
	return count;
}

uint32_t name_fold(const char *name, size_t length, uint64_t words[NAME_WORDS]) {
	return text_fold(name, length, SEGMENT_NAME_MAX, words);
}

uint64_t name_hash(const struct siphash_key *key, const uint64_t *words, uint32_t count) {
	while (count > 1 && words[count - 1] == 0)
		count--;
	return siphash13(key, words, count * sizeof(words[0]));
}

uint32_t recipient_fold(const char *address, size_t length,
    uint64_t words[RECIPIENT_WORDS]) {
	return text_fold(address, length, RECIPIENT_MAX, words);
}

static bool is_name_byte(unsigned char c) {
	return c > ' ' && c != 0x7f;
}

static bool is_folded(const char *text, size_t max) {
	size_t length = strnlen(text, max);

	if (length == 0 || text[length - 1] == '.')
		return false;
	for (size_t i = 0; i < max; i++) {
		unsigned char c = (unsigned char)text[i];

		if (i < length ? !is_name_byte(c) || (c >= 'A' && c <= 'Z') :
		    c != 0)
			return false;
	}
	return true;
}

bool name_is_folded(const char name[SEGMENT_NAME_MAX]) {
	return is_folded(name, SEGMENT_NAME_MAX);
}

bool recipient_is_folded(const char address[RECIPIENT_MAX]) {
	return is_folded(address, RECIPIENT_MAX);
}

void name_copy(const char from[SEGMENT_NAME_MAX], char out[SEGMENT_NAME_MAX + 1]) {
	for (size_t i = 0; i < SEGMENT_NAME_MAX; i++)
		out[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	out[SEGMENT_NAME_MAX] = '\0';
}

static bool is_harmless_byte(char c) {
	return c >= ' ' && c < 0x7f;
}

void text_harmless(const char *from, char *to, size_t size) {
	size_t length = strnlen(from, size);

	for (size_t i = 0; i < length; i++)
		to[i] = is_harmless_byte(from[i]) ? from[i] : '?';
	memset(to + length, 0, size - length);
}

bool text_is_harmless(const char *text, size_t size) {
	size_t length = strnlen(text, size);

	for (size_t i = 0; i < size; i++) {
		if (i < length ? !is_harmless_byte(text[i]) : text[i] != '\0')
			return false;
	}
	return true;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  CRC32C.
 * MODEL    The reflected polynomial 0x82f63b78, begun and ended with all ones.  Portable:
 *          eight tables of 256, eight bytes a step; they are made with the first use
 *          (0.02 ms).
 * THREADS  Any: whoever comes second either finds the tables or makes the same.
 */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL	0x82f63b78U

static uint32_t tables[8][256];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_tables(void) {
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		tables[0][byte] = crc;
	}
	for (unsigned byte = 0; byte < 256; byte++)
		for (unsigned table = 1; table < 8; table++)
			tables[table][byte] = tables[table - 1][byte] >> 8 ^
			    tables[0][tables[table - 1][byte] & 0xff];
}

static uint32_t step(uint32_t crc, uint8_t byte) {
	return crc >> 8 ^ tables[0][(crc ^ byte) & 0xff];
}

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t length) {
	const uint8_t *at = data;

	pthread_once(&made, make_tables);
	crc = ~crc;
	for (; length >= 8; length -= 8, at += 8) {
		uint32_t low = crc ^ (at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
		    (uint32_t)at[3] << 24);

		crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^
		    tables[5][low >> 16 & 0xff] ^ tables[4][low >> 24] ^
		    tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
	}
	for (; length > 0; length--)
		crc = step(crc, *at++);
	return ~crc;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2")))
static uint32_t by_instruction(uint32_t crc, const uint8_t *at, size_t length) {
	uint64_t sum = ~crc;
	uint64_t word;

	for (; length >= 8; length -= 8, at += 8) {
		memcpy(&word, at, sizeof(word));
		sum = __builtin_ia32_crc32di(sum, word);
	}
	for (; length > 0; length--)
		sum = __builtin_ia32_crc32qi((uint32_t)sum, *at++);
	return ~(uint32_t)sum;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t length) {
	if (__builtin_cpu_supports("sse4.2"))
		return by_instruction(crc, data, length);
	return crc32c_portable(crc, data, length);
}

#else

uint32_t crc32c(uint32_t crc, const void *data, size_t length) {
	return crc32c_portable(crc, data, length);
}

#endif

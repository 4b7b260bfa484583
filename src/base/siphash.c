/* SPDX-License-Identifier: ISC */
/*
 * SipHash-1-3 over whole buffers: one compression round a 64-bit word, three at
 * the end.  Pure; any thread.
 */
#include "base/siphash.h"

#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are read in memory order: little-endian machines only"
#endif

struct sip_state {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate_left(uint64_t value, unsigned bits) {
	return value << bits | value >> (64 - bits);
}

static inline void sip_round(struct sip_state *s) {
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = rotate_left(s->v1, 13) ^ s->v0;
	s->v3 = rotate_left(s->v3, 16) ^ s->v2;
	s->v0 = rotate_left(s->v0, 32);
	s->v2 += s->v1;
	s->v0 += s->v3;
	s->v1 = rotate_left(s->v1, 17) ^ s->v2;
	s->v3 = rotate_left(s->v3, 21) ^ s->v0;
	s->v2 = rotate_left(s->v2, 32);
}

static inline void absorb(struct sip_state *s, uint64_t word) {
	s->v3 ^= word;
	sip_round(s);
	s->v0 ^= word;
}

uint64_t siphash13(const struct siphash_key *key, const void *data,
    size_t length) {
	struct sip_state s = {
		.v0 = key->k0 ^ UINT64_C(0x736f6d6570736575),
		.v1 = key->k1 ^ UINT64_C(0x646f72616e646f6d),
		.v2 = key->k0 ^ UINT64_C(0x6c7967656e657261),
		.v3 = key->k1 ^ UINT64_C(0x7465646279746573),
	};
	const uint8_t *p = data;
	size_t whole = length & ~(size_t)7;
	uint64_t word;

	for (size_t i = 0; i < whole; i += 8) {
		memcpy(&word, p + i, 8);
		absorb(&s, word);
	}
	word = (uint64_t)length << 56;
	if (whole > 0 && length > whole) {
		uint64_t last;

		memcpy(&last, p + length - 8, 8);	/* some of them again */
		word |= last >> 8 * (8 - (length - whole));
	} else {
		for (size_t i = whole; i < length; i++)
			word |= (uint64_t)p[i] << (8 * (i - whole));
	}
	absorb(&s, word);
	s.v2 ^= 0xff;
	sip_round(&s);
	sip_round(&s);
	sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

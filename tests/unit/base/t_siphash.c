/* SPDX-License-Identifier: ISC */
/* siphash13 against a second implementation written for any number of rounds,
 * which itself is checked by the vector of the SipHash paper. */
#include "tests/unit/test.h"
#include "base/siphash.h"

static uint64_t rotl(uint64_t x, int b) {
	return (x << b) | (x >> (64 - b));
}

static uint64_t read_le(const uint8_t *p, size_t n) {
	uint64_t word = 0;

	for (size_t i = n; i-- > 0;)
		word = word << 8 | p[i];
	return word;
}

/* Straight from the figures of the paper: an array of four, any rounds. */
static uint64_t plain(const struct siphash_key *key, const uint8_t *in, size_t length,
    int compress, int finish) {
	static const char nothing_up[] = "somepseudorandomlygeneratedbytes";
	uint64_t v[4], words = length / 8 + 1;

	for (int i = 0; i < 4; i++) {
		v[i] = 0;
		for (int j = 0; j < 8; j++)
			v[i] = v[i] << 8 | (uint8_t)nothing_up[8 * i + j];
		v[i] ^= i % 2 == 0 ? key->k0 : key->k1;
	}
	for (uint64_t w = 0; w <= words; w++) {
		uint64_t word = 0;
		int rounds = w == words ? finish : compress;

		if (w + 1 < words)
			word = read_le(in + 8 * w, 8);
		else if (w < words)
			word = read_le(in + 8 * w, length % 8) | (uint64_t)length << 56;
		else
			v[2] ^= 0xff;
		v[3] ^= word;
		for (int r = 0; r < rounds; r++) {
			v[0] += v[1]; v[1] = rotl(v[1], 13); v[1] ^= v[0]; v[0] = rotl(v[0], 32);
			v[2] += v[3]; v[3] = rotl(v[3], 16); v[3] ^= v[2];
			v[0] += v[3]; v[3] = rotl(v[3], 21); v[3] ^= v[0];
			v[2] += v[1]; v[1] = rotl(v[1], 17); v[1] ^= v[2]; v[2] = rotl(v[2], 32);
		}
		v[0] ^= word;
	}
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

TEST(the_second_implementation_is_right) {
	uint8_t bytes[16];
	struct siphash_key key;

	for (uint8_t i = 0; i < 16; i++)
		bytes[i] = i;
	key.k0 = read_le(bytes, 8);
	key.k1 = read_le(bytes + 8, 8);
	/* "SipHash: a fast short-input PRF", appendix A */
	assert_true(plain(&key, bytes, 15, 2, 4) == UINT64_C(0xa129ca6149be45e5));
}

TEST(both_agree_at_every_length) {
	uint8_t bytes[130];
	struct siphash_key key = { UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210) };

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
	for (size_t length = 0; length < sizeof(bytes); length++) {
		assert_true(siphash13(&key, bytes, length) == plain(&key, bytes, length, 1, 3));
		key.k0 = key.k0 * UINT64_C(6364136223846793005) + 1;
		key.k1 ^= key.k0 >> 7;
	}
}

TEST(every_bit_matters) {
	struct siphash_key key = { 1, 2 }, other = { 1, 3 };
	uint8_t bytes[24] = { 0 };
	uint64_t first = siphash13(&key, bytes, sizeof(bytes));

	for (size_t bit = 0; bit < sizeof(bytes) * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_true(siphash13(&key, bytes, sizeof(bytes)) != first);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_true(siphash13(&other, bytes, sizeof(bytes)) != first);
	assert_true(siphash13(&key, bytes, 23) != first);
}

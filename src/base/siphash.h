/* SPDX-License-Identifier: ISC */
/* SipHash-1-3 (Aumasson and Bernstein; reduced rounds as in hash tables of
 * other projects): a keyed hash, as strangers choose the keys of our tables. */
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
	uint64_t k0, k1;
};

uint64_t siphash13(const struct siphash_key *key, const void *data, size_t length);

#endif

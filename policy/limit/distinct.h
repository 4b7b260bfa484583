/* SPDX-License-Identifier: ISC */
/*
 * How many different things were seen in a time: exact up to 64, then an estimate whose
 * standard error is 6.5 % (HyperLogLog of 256 registers).
 *
 * Exact, time is cut into twelfths of the period, as quota.h does: what was seen counts for the
 * period at least and for 13/12 of it at most.  Estimated, it counts for the period at least and
 * for two of them at most, as registers cannot forget one by one.
 *
 * Things are known by hashes of 64 bits.  Pure; the caller holds whatever makes it stand still.
 */
#ifndef POLICY_LIMIT_DISTINCT_H
#define POLICY_LIMIT_DISTINCT_H

#include <stdbool.h>
#include <stdint.h>

#define DISTINCT_EXACT		64
#define DISTINCT_REGISTERS	256

struct distinct_entry {
	uint32_t hash;
	uint32_t part;		/* number of the twelfth in which it was seen last */
};

/* All zero: nothing was seen. */
struct distinct {
	uint32_t period_s;
	uint32_t turn;		/* estimated: number of the period that runs */
	uint32_t count;		/* of entries; above DISTINCT_EXACT: estimated */
	uint32_t reserved;
	union {
		struct distinct_entry entries[DISTINCT_EXACT];
		uint8_t registers[2][DISTINCT_REGISTERS];	/* of turn n at n % 2 */
	};
};
_Static_assert(sizeof(struct distinct) == 528, "whole words");

/* Another period than before: nothing was seen. */
void distinct_add(struct distinct *set, uint64_t hash, uint32_t period_s, int64_t now_ns);
uint32_t distinct_count(const struct distinct *set, uint32_t period_s, int64_t now_ns);

#endif

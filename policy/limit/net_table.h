/* SPDX-License-Identifier: ISC */
/*
 * The addresses of a class index (class.h).  Prefixes lie inside or outside one
 * another, never across: so the address space falls into disjoint ranges, each
 * with the lowest rule that covers it.  Matching finds the range in a static
 * B+ tree whose nodes are a cache line of eight keys; the prefixes themselves
 * are kept beside it to tell which masks cover a mask.
 *
 * IPv4 and IPv6 have a table each.  A key is the upper 64 bits of an IPv6
 * address, or an IPv4 address shifted up by 32; ranges that differ only below
 * bit 64 share a key and are told apart by a second, short search.
 */
#ifndef POLICY_NET_TABLE_H
#define POLICY_NET_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/limit/class.h"

#define NET_LINE_KEYS	8
#define NET_LEVELS_MAX	14	/* 8 x 9^10 keys are more than 2^32; even, for alignment */

/* One prefix; sorted by bits of the address, the wider first. */
struct net {
	uint64_t high;
	uint64_t low;
	uint32_t lowest;	/* lowest rule of it and of all around it */
	uint32_t parent;	/* number of the next wider one, or NET_NONE */
	uint32_t bits;		/* 0..128 of (high, low) */
	uint32_t reserved;
};
#define NET_NONE	UINT32_MAX
#define NET_ALIGNMENT	64

/* Part of the index's header; offsets are from the index's start. */
struct net_table {
	uint64_t tree;		/* uint64_t[8] a line: upper levels, then all keys */
	uint64_t runs;		/* uint32_t[key_count + 1]: a key's first range; wide only */
	uint64_t lows;		/* uint64_t[range_count]; wide only */
	uint64_t rules;		/* uint32_t[range_count] */
	uint64_t nets;		/* struct net[net_count] */
	uint32_t key_count;
	uint32_t range_count;	/* 0: no prefixes */
	uint32_t net_count;
	uint32_t wide;		/* some range begins inside a key */
	uint32_t level_count;
	uint32_t level[NET_LEVELS_MAX];	/* first line of each, top first; then the end */
};

/* An address as a table sees it. */
struct net_key {
	uint64_t high;
	uint64_t low;
};

/* Prefixes among the rules, by family. */
struct net_need {
	uint64_t v4;
	uint64_t v6;
};

void net_table_need(const struct class_rule *rules, uint32_t count,
    struct net_need *need);

/* At most, for one table of so many prefixes (multiples of NET_ALIGNMENT). */
uint64_t net_table_bytes(uint64_t prefixes);
uint64_t net_table_scratch_bytes(uint64_t prefixes);

/* Builds one family's table at `index` + *end (a multiple of NET_ALIGNMENT); fills *table and
 * moves *end behind what is used. */
void net_table_build(struct net_table *table, void *index, uint64_t *end,
    const struct class_rule *rules, uint32_t count, bool v4, void *scratch);

/* class_index_is_sound for this table of an index of `bytes`. */
bool net_table_is_sound(const void *index, size_t bytes, const struct net_table *table);

struct net_key net_key_of(const struct address *address, bool v4);

/* The lowest rule of the range that holds the key. */
uint32_t net_table_match(const void *index, const struct net_table *table,
    struct net_key key);

/* The lowest rule whose prefix alone covers the `bits` (0..128 of the key). */
uint32_t net_table_cover(const void *index, const struct net_table *table,
    struct net_key key, unsigned bits);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * The names of a class index (class.h): a trie over labels, flattened into one
 * open-addressing table.  A slot is a node; its key is (parent's slot, label).
 * Two tries share the table: backwards from the top-level domain for host.name
 * and *.domain, forwards for prefix.*.
 *
 * A slot's place comes from a hash of the whole path, known before the parent
 * is found: so all slots of a name are fetched at once, and a match costs about
 * one miss of the cache.  What a slot compares is exact: its parent, its label.
 */
#ifndef POLICY_LIMIT_CLASS_INTERNAL_H
#define POLICY_LIMIT_CLASS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/limit/class.h"

#define NAME_LABEL_INLINE	19	/* longer ones go on in the label store */

struct name_slot {
	uint32_t parent;	/* slot number, or a root */
	uint32_t exact;		/* lowest rule for this very name, or CLASS_NO_RULE */
	uint32_t below;		/* lowest *.domain or prefix.* rule, or CLASS_NO_RULE */
	uint8_t length;		/* of the label; 0: the slot is free */
	char label[NAME_LABEL_INLINE];
};

/* Part of the index's header; offsets are from the index's start. */
struct name_table {
	uint64_t slots;			/* struct name_slot[slot_count] */
	uint64_t labels;		/* long labels, whole */
	uint32_t slot_count;		/* 0: no names */
	uint32_t label_bytes;
	uint32_t depth_backward;	/* most labels of a path */
	uint32_t depth_forward;
};

/* What the names of the rules take, at most. */
struct name_need {
	uint64_t nodes;
	uint64_t label_bytes;
};

void name_table_need(const struct class_rule *rules, uint32_t count,
    struct name_need *need);

/* Bytes of the table for that need (a multiple of 8). */
uint64_t name_table_bytes(const struct name_need *need);

/* Builds at `index` + *end, which name_table_bytes of zeroed or other memory
 * follow; fills *table and moves *end behind what is used. */
void name_table_build(struct name_table *table, void *index, uint64_t *end,
    const struct class_rule *rules, uint32_t count, const struct name_need *need);

/* class_index_is_sound for this table of an index of `bytes`. */
bool name_table_is_sound(const void *index, size_t bytes, const struct name_table *table);

/* A name made ready: folded, split and its slots on their way to the cache. */
#define NAME_LABELS_MAX	((MASK_NAME_MAX + 1) / 2 + 1)

struct name_path {
	uint32_t count;			/* labels, no more than the trie is deep */
	uint32_t whole;			/* the name has no further label */
	uint8_t from[NAME_LABELS_MAX];
	uint8_t length[NAME_LABELS_MAX];
	uint64_t hash[NAME_LABELS_MAX];
};

struct name_query {
	struct name_path backward;
	struct name_path forward;
	uint64_t text[MASK_NAME_MAX / 8 + 2];	/* folded, zeros behind */
};

/* `name` without trailing dot, 1..MASK_NAME_MAX bytes. */
void name_query_prepare(struct name_query *query, const void *index,
    const struct name_table *table, const char *name, size_t length);

/* The lowest rule that matches the prepared name. */
uint32_t name_query_match(const struct name_query *query, const void *index,
    const struct name_table *table);

/* The lowest rule that alone covers a mask by name. */
uint32_t name_table_cover(const void *index, const struct name_table *table,
    const struct mask *mask);

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

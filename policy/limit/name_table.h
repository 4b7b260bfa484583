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
#ifndef POLICY_NAME_TABLE_H
#define POLICY_NAME_TABLE_H

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

#endif

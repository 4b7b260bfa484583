/* SPDX-License-Identifier: ISC */
/*
 * Finding an address among the ranges of a class index (net_table.h; net_build.c
 * builds them).
 *
 * Model: a search counts, in each line from the top, the keys that are not above
 * the wanted one; the count is the child to go on with.  Free places of a line
 * hold the greatest key, and what they add is cut off.  Errors: none.  Threads:
 * read only.
 */
#include "policy/limit/class_internal.h"

#include <string.h>

static uint64_t load_bytes(const uint8_t *bytes) {
	uint64_t value;

	memcpy(&value, bytes, sizeof value);
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ?
	    __builtin_bswap64(value) : value;
}

struct net_key net_key_of(const struct address *address, bool v4) {
	struct net_key key = {
		load_bytes(address->bytes), load_bytes(address->bytes + 8)
	};

	if (v4) {
		key.high = key.low << 32;
		key.low = 0;
	}
	return key;
}

static const void *at(const void *index, uint64_t offset) {
	return (const char *)index + offset;
}

/* Written out, as gcc leaves a loop a loop at -O2. */
static uint32_t count_not_above(const uint64_t line[NET_LINE_KEYS], uint64_t wanted) {
	_Static_assert(NET_LINE_KEYS == 8, "one term a key");
	return (uint32_t)((line[0] <= wanted) + (line[1] <= wanted) +
	    (line[2] <= wanted) + (line[3] <= wanted) + (line[4] <= wanted) +
	    (line[5] <= wanted) + (line[6] <= wanted) + (line[7] <= wanted));
}

static const uint64_t *keys_of(const void *index, const struct net_table *table) {
	const uint64_t *tree = at(index, table->tree);

	return tree + (size_t)table->level[table->level_count - 1] * NET_LINE_KEYS;
}

/* The number of the last key <= wanted; there is one, as the first key is 0. */
static uint32_t find_key(const void *index, const struct net_table *table,
    uint64_t wanted) {
	const uint64_t *tree = at(index, table->tree);
	uint32_t line = 0, rank;

	for (uint32_t level = 0; level + 1 < table->level_count; level++) {
		uint32_t first = table->level[level];
		uint32_t last_below = table->level[level + 2] -
		    table->level[level + 1] - 1;

		line = line * (NET_LINE_KEYS + 1) + count_not_above(
		    tree + (size_t)(first + line) * NET_LINE_KEYS, wanted);
		if (line > last_below)
			line = last_below;
	}
	rank = line * NET_LINE_KEYS + count_not_above(
	    keys_of(index, table) + (size_t)line * NET_LINE_KEYS, wanted);
	return (rank < table->key_count ? rank : table->key_count) - 1;
}

/* The range of a wide table: the last one that begins at or before `low` within
 * the key's run, or before the run. */
static uint32_t find_in_run(const void *index, const struct net_table *table,
    uint32_t key, uint64_t high, uint64_t low) {
	const uint32_t *runs = at(index, table->runs);
	const uint64_t *lows = at(index, table->lows);
	uint32_t from = runs[key], to = runs[key + 1];

	if (keys_of(index, table)[key] != high)
		return to - 1;
	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (lows[middle] <= low)
			from = middle + 1;
		else
			to = middle;
	}
	return from - 1;
}

uint32_t net_table_match(const void *index, const struct net_table *table,
    struct net_key key) {
	uint32_t range;

	if (table->range_count == 0)
		return CLASS_NO_RULE;
	range = find_key(index, table, key.high);
	if (table->wide)
		range = find_in_run(index, table, range, key.high, key.low);
	return ((const uint32_t *)at(index, table->rules))[range];
}

/* -1, 0 or 1: the net against (key, bits) in the order of the array. */
static int compare_net(const struct net *net, struct net_key key, unsigned bits) {
	if (net->high != key.high)
		return net->high < key.high ? -1 : 1;
	if (net->low != key.low)
		return net->low < key.low ? -1 : 1;
	return net->bits == bits ? 0 : net->bits < bits ? -1 : 1;
}

static bool net_takes(const struct net *net, struct net_key key, unsigned bits) {
	uint64_t high = net->bits == 0 ? 0 :
	    net->bits >= 64 ? UINT64_MAX : UINT64_MAX << (64 - net->bits);
	uint64_t low = net->bits <= 64 ? 0 : UINT64_MAX << (128 - net->bits);

	return net->bits <= bits && (key.high & high) == net->high &&
	    (key.low & low) == net->low;
}

uint32_t net_table_cover(const void *index, const struct net_table *table,
    struct net_key key, unsigned bits) {
	const struct net *nets = at(index, table->nets);
	uint32_t from = 0, to = table->net_count;

	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (compare_net(&nets[middle], key, bits) <= 0)
			from = middle + 1;
		else
			to = middle;
	}
	/* Whatever takes the key stands before it, and around its neighbour. */
	for (uint32_t i = from == 0 ? NET_NONE : from - 1; i != NET_NONE;
	    i = nets[i].parent)
		if (net_takes(&nets[i], key, bits))
			return nets[i].lowest;
	return CLASS_NO_RULE;
}

/* Blocks that others wrote. */

static bool array_fits(uint64_t offset, uint64_t count, size_t each, size_t alignment,
    size_t bytes) {
	return offset % alignment == 0 && offset <= bytes && count <= (bytes - offset) / each;
}

/* Each level has a line; the last has the keys, the first of which is 0. */
static bool tree_is_sound(const void *index, size_t bytes, const struct net_table *table) {
	uint32_t last;

	if (table->level_count == 0 || table->level_count >= NET_LEVELS_MAX)
		return false;
	for (uint32_t level = 0; level < table->level_count; level++)
		if (table->level[level] >= table->level[level + 1])
			return false;
	last = table->level[table->level_count - 1];
	return array_fits(table->tree, table->level[table->level_count],
	    NET_LINE_KEYS * sizeof(uint64_t), 8, bytes) &&
	    table->key_count > 0 && (table->key_count - 1) / NET_LINE_KEYS <
	    table->level[table->level_count] - last && keys_of(index, table)[0] == 0;
}

/* Of a wide table: each key's ranges follow those of the key before. */
static bool runs_are_sound(const void *index, size_t bytes, const struct net_table *table) {
	const uint32_t *runs;
	const uint64_t *lows;

	if (!array_fits(table->runs, (uint64_t)table->key_count + 1, sizeof *runs, 4, bytes) ||
	    !array_fits(table->lows, table->range_count, sizeof *lows, 8, bytes))
		return false;
	runs = at(index, table->runs);
	lows = at(index, table->lows);
	if (runs[0] != 0 || lows[0] != 0 || runs[table->key_count] > table->range_count)
		return false;
	for (uint32_t key = 0; key < table->key_count; key++)
		if (runs[key] >= runs[key + 1])
			return false;
	return true;
}

/* What is around a net stands before it. */
static bool nets_are_sound(const void *index, size_t bytes, const struct net_table *table) {
	const struct net *nets;

	if (!array_fits(table->nets, table->net_count, sizeof *nets, 8, bytes))
		return false;
	nets = at(index, table->nets);
	for (uint32_t i = 0; i < table->net_count; i++)
		if (nets[i].bits > 128 || (nets[i].parent != NET_NONE && nets[i].parent >= i))
			return false;
	return true;
}

bool net_table_is_sound(const void *index, size_t bytes, const struct net_table *table) {
	if (!nets_are_sound(index, bytes, table))
		return false;
	if (table->range_count == 0)
		return true;
	if (!tree_is_sound(index, bytes, table) ||
	    !array_fits(table->rules, table->range_count, sizeof(uint32_t), 4, bytes))
		return false;
	return table->wide != 0 ? runs_are_sound(index, bytes, table) :
	    table->key_count <= table->range_count;
}

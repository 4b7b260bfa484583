/* SPDX-License-Identifier: ISC */
/*
 * Building the address table of a class index (net_table.h).
 *
 * Model: the prefixes, sorted by address with the wider first, are walked with a
 * stack of those that are open; each beginning and each end starts a range.
 * Errors: none; the caller has measured.  Threads: works on its arguments only.
 */
#include "policy/limit/class_internal.h"

#include <string.h>

struct span {
	uint64_t high;
	uint64_t low;
	uint32_t rule;
	uint32_t bits;		/* a range: unused */
};

static bool rule_is_net(const struct class_rule *rule, bool v4) {
	return !rule->left_out && rule->mask.kind == MASK_ADDRESS &&
	    (rule->mask.prefix.bits >= 96 &&
	    address_is_v4(&rule->mask.prefix.base)) == v4;
}

void net_table_need(const struct class_rule *rules, uint32_t count,
    struct net_need *need) {
	need->v4 = need->v6 = 0;
	for (uint32_t i = 0; i < count; i++) {
		need->v4 += rule_is_net(&rules[i], true);
		need->v6 += rule_is_net(&rules[i], false);
	}
}

static uint64_t align(uint64_t bytes, uint64_t to) {
	return (bytes + to - 1) / to * to;
}

static uint64_t ranges_of(uint64_t prefixes) {
	return 2 * prefixes + 1;
}

static uint64_t lines_of(uint64_t keys) {
	return (keys + NET_LINE_KEYS - 1) / NET_LINE_KEYS;
}

static uint64_t tree_lines(uint64_t keys) {
	uint64_t lines = lines_of(keys), total = lines;

	while (lines > 1) {
		lines = (lines + NET_LINE_KEYS) / (NET_LINE_KEYS + 1);
		total += lines;
	}
	return total;
}

uint64_t net_table_bytes(uint64_t prefixes) {
	uint64_t ranges = ranges_of(prefixes);
	uint64_t bytes = align(prefixes * sizeof(struct net), NET_ALIGNMENT);

	if (prefixes == 0)
		return 0;
	bytes += tree_lines(ranges) * NET_LINE_KEYS * sizeof(uint64_t);
	bytes += align((ranges + 1) * sizeof(uint32_t), 8);
	bytes += ranges * sizeof(uint64_t);
	bytes += align(ranges * sizeof(uint32_t), 8);
	return align(bytes, NET_ALIGNMENT);
}

uint64_t net_table_scratch_bytes(uint64_t prefixes) {
	return prefixes == 0 ? 0 :
	    (2 * prefixes + ranges_of(prefixes)) * sizeof(struct span);
}

static bool goes_before(const struct span *a, const struct span *b) {
	if (a->high != b->high)
		return a->high < b->high;
	if (a->low != b->low)
		return a->low < b->low;
	if (a->bits != b->bits)
		return a->bits < b->bits;
	return a->rule < b->rule;
}

static void merge(const struct span *from, struct span *to, uint32_t left,
    uint32_t middle, uint32_t right) {
	uint32_t a = left, b = middle;

	for (uint32_t i = left; i < right; i++)
		if (a < middle && (b == right || !goes_before(&from[b], &from[a])))
			to[i] = from[a++];
		else
			to[i] = from[b++];
}

/* Merges runs of growing width to and fro; returns the sorted one of the two. */
static struct span *sort_spans(struct span *spans, struct span *spare,
    uint32_t count) {
	for (uint64_t width = 1; width < count; width *= 2) {
		struct span *swap = spans;

		for (uint64_t left = 0; left < count; left += 2 * width) {
			uint64_t middle = left + width < count ? left + width : count;
			uint64_t right = middle + width < count ? middle + width : count;

			merge(spans, spare, (uint32_t)left, (uint32_t)middle,
			    (uint32_t)right);
		}
		spans = spare;
		spare = swap;
	}
	return spans;
}

static uint32_t collect(struct span *spans, const struct class_rule *rules,
    uint32_t count, bool v4) {
	uint32_t found = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct prefix *prefix = &rules[i].mask.prefix;
		struct net_key key;

		if (!rule_is_net(&rules[i], v4))
			continue;
		key = net_key_of(&prefix->base, v4);
		spans[found++] = (struct span){
			.high = key.high, .low = key.low, .rule = i,
			.bits = v4 ? prefix->bits - 96u : prefix->bits
		};
	}
	return found;
}

struct ranges {
	struct span *list;
	uint32_t count;
};

/* From here on `rule` holds; ends of nested prefixes may fall together. */
static void emit(struct ranges *ranges, struct net_key from, uint32_t rule) {
	struct span *last = &ranges->list[ranges->count - 1];

	if (last->high == from.high && last->low == from.low) {
		last->rule = rule;
		if (ranges->count > 1 && last[-1].rule == rule)
			ranges->count--;
	} else if (last->rule != rule) {
		ranges->list[ranges->count++] = (struct span){
			.high = from.high, .low = from.low, .rule = rule
		};
	}
}

/* False: it reaches to the end of all addresses. */
static bool end_of_net(const struct net *net, struct net_key *end) {
	*end = (struct net_key){ net->high, net->low };
	if (net->bits == 0)
		return false;
	if (net->bits <= 64) {
		end->high += UINT64_C(1) << (64 - net->bits);
		return end->high != 0;
	}
	end->low += UINT64_C(1) << (128 - net->bits);
	if (end->low == 0)
		end->high++;
	return end->low != 0 || end->high != 0;
}

/* Closes `open` and those around it that end at or before `start` (NULL: all);
 * returns the innermost that stays open. */
static uint32_t close_nets(struct ranges *ranges, const struct net *nets,
    uint32_t open, const struct span *start) {
	while (open != NET_NONE) {
		uint32_t parent = nets[open].parent;
		struct net_key end;
		bool ends = end_of_net(&nets[open], &end);

		if (start != NULL && (!ends || end.high > start->high ||
		    (end.high == start->high && end.low > start->low)))
			break;
		if (ends)
			emit(ranges, end, parent == NET_NONE ? CLASS_NO_RULE :
			    nets[parent].lowest);
		open = parent;
	}
	return open;
}

/* Sorted prefixes to nets and ranges; returns the number of nets. */
static uint32_t flatten(const struct span *spans, uint32_t count,
    struct net *nets, struct ranges *ranges) {
	uint32_t open = NET_NONE, net_count = 0;

	ranges->list[0] = (struct span){ .rule = CLASS_NO_RULE };
	ranges->count = 1;
	for (uint32_t i = 0; i < count; i++) {
		const struct span *span = &spans[i];
		struct net *net = &nets[net_count];

		if (i > 0 && span->high == span[-1].high &&
		    span->low == span[-1].low && span->bits == span[-1].bits)
			continue;	/* the same prefix again: the first has the lower rule */
		open = close_nets(ranges, nets, open, span);
		*net = (struct net){
			.high = span->high, .low = span->low, .bits = span->bits,
			.lowest = span->rule, .parent = open
		};
		if (open != NET_NONE && nets[open].lowest < net->lowest)
			net->lowest = nets[open].lowest;
		open = net_count++;
		emit(ranges, (struct net_key){ span->high, span->low }, net->lowest);
	}
	close_nets(ranges, nets, open, NULL);
	return net_count;
}

/* The lines of the tree for `keys` keys: upper levels are filled from the last,
 * which already stands in its place. */
static void build_levels(struct net_table *table, uint64_t *tree) {
	uint32_t lines[NET_LEVELS_MAX], count = 0, first = 0;
	uint64_t *bottom;
	uint64_t below = 1;	/* bottom lines under a line of the level below */

	lines[count++] = (uint32_t)lines_of(table->key_count);
	while (lines[count - 1] > 1) {
		lines[count] = (lines[count - 1] + NET_LINE_KEYS) / (NET_LINE_KEYS + 1);
		count++;
	}
	table->level_count = count;
	for (uint32_t level = 0; level < count; level++) {
		table->level[level] = first;
		first += lines[count - 1 - level];
	}
	table->level[count] = first;
	bottom = tree + (size_t)table->level[count - 1] * NET_LINE_KEYS;
	for (uint32_t up = 1; up < count; up++, below *= NET_LINE_KEYS + 1) {
		uint64_t *out = tree +
		    (size_t)table->level[count - 1 - up] * NET_LINE_KEYS;

		for (uint64_t line = 0; line < lines[up]; line++)
			for (uint64_t k = 0; k < NET_LINE_KEYS; k++) {
				uint64_t child = line * (NET_LINE_KEYS + 1) + k + 1;

				*out++ = child < lines[up - 1] ?
				    bottom[child * below * NET_LINE_KEYS] : UINT64_MAX;
			}
	}
}

static void *take(void *index, uint64_t *end, uint64_t bytes, uint64_t *offset) {
	char *from = (char *)index + *end;

	*offset = *end;
	memset(from, 0, (size_t)align(bytes, 8));
	*end += align(bytes, 8);
	return from;
}

static void build_tree(struct net_table *table, void *index, uint64_t *end,
    const struct ranges *ranges) {
	uint64_t lines, *tree, *keys;

	table->key_count = 0;
	for (uint32_t i = 0; i < ranges->count; i++) {
		table->key_count += i == 0 ||
		    ranges->list[i].high != ranges->list[i - 1].high;
		table->wide |= ranges->list[i].low != 0;
	}
	lines = tree_lines(table->key_count);
	tree = take(index, end, lines * NET_LINE_KEYS * sizeof *tree, &table->tree);
	keys = tree + (lines - lines_of(table->key_count)) * NET_LINE_KEYS;
	memset(keys, 0xff, (size_t)lines_of(table->key_count) * NET_LINE_KEYS * sizeof *keys);
	for (uint32_t i = 0, key = 0; i < ranges->count; i++)
		if (i == 0 || ranges->list[i].high != ranges->list[i - 1].high)
			keys[key++] = ranges->list[i].high;
	build_levels(table, tree);
}

static void build_runs(struct net_table *table, void *index, uint64_t *end,
    const struct ranges *ranges) {
	uint32_t *runs = take(index, end,
	    (table->key_count + UINT64_C(1)) * sizeof *runs, &table->runs);
	uint64_t *lows = take(index, end, ranges->count * sizeof *lows,
	    &table->lows);

	for (uint32_t i = 0, key = 0; i < ranges->count; i++) {
		if (i == 0 || ranges->list[i].high != ranges->list[i - 1].high)
			runs[key++] = i;
		lows[i] = ranges->list[i].low;
	}
	runs[table->key_count] = ranges->count;
}

void net_table_build(struct net_table *table, void *index, uint64_t *end,
    const struct class_rule *rules, uint32_t count, bool v4, void *scratch) {
	struct net_need need;
	struct span *spans = scratch;
	struct ranges ranges;
	struct net *nets;
	uint32_t prefixes, *range_rules;
	uint64_t keep;

	memset(table, 0, sizeof *table);
	net_table_need(rules, count, &need);
	prefixes = (uint32_t)(v4 ? need.v4 : need.v6);
	if (prefixes == 0)
		return;
	collect(spans, rules, count, v4);
	ranges.list = spans + 2 * (size_t)prefixes;
	spans = sort_spans(spans, spans + prefixes, prefixes);

	/* The nets first, as the number of ranges is not known before. */
	nets = take(index, end, prefixes * sizeof *nets, &table->nets);
	table->net_count = flatten(spans, prefixes, nets, &ranges);
	*end = table->nets + table->net_count * sizeof *nets;
	keep = *end;
	*end = align(*end, NET_ALIGNMENT);
	memset((char *)index + keep, 0, (size_t)(*end - keep));
	table->range_count = ranges.count;
	build_tree(table, index, end, &ranges);
	if (table->wide)
		build_runs(table, index, end, &ranges);
	range_rules = take(index, end, ranges.count * sizeof *range_rules,
	    &table->rules);
	for (uint32_t i = 0; i < ranges.count; i++)
		range_rules[i] = ranges.list[i].rule;
	keep = *end;
	*end = align(*end, NET_ALIGNMENT);
	memset((char *)index + keep, 0, (size_t)(*end - keep));
}

/* SPDX-License-Identifier: ISC */
/*
 * First match over many masks (class.h).
 *
 * Model: the index is a header, a table of names (name_table.h) and a table of
 * addresses for each family (net_table.h).  Each answers with its lowest rule;
 * the lowest of these is the first match in file order.  Errors: a build that
 * would not fit returns 0.  Threads: a built index is read only.
 */
#include "policy/limit/class.h"

#include <string.h>

#include "policy/limit/class_internal.h"

#define ALIGNMENT 64	/* of tables within the index: a line of the cache */

struct class_index {
	uint64_t bytes;
	uint32_t all;		/* lowest rule `*`, or CLASS_NO_RULE */
	uint32_t reserved;
	struct name_table names;
	struct net_table v4;
	struct net_table v6;
};

struct need {
	struct name_need names;
	struct net_need nets;
	uint64_t index_bytes;
	uint64_t scratch_bytes;
};

static uint64_t align(uint64_t bytes) {
	return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void measure(const struct class_rule *rules, uint32_t count,
    struct need *need) {
	uint64_t most;

	name_table_need(rules, count, &need->names);
	net_table_need(rules, count, &need->nets);
	need->index_bytes = align(sizeof(struct class_index)) +
	    align(name_table_bytes(&need->names)) +
	    net_table_bytes(need->nets.v4) + net_table_bytes(need->nets.v6);
	most = need->nets.v4 > need->nets.v6 ? need->nets.v4 : need->nets.v6;
	need->scratch_bytes = net_table_scratch_bytes(most);
}

/* What exceeds the address space cannot be allocated: SIZE_MAX. */
static size_t allocatable(uint64_t bytes) {
	return bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}

void class_index_measure(const struct class_rule *rules, uint32_t count,
    size_t *index_bytes, size_t *scratch_bytes) {
	struct need need;

	measure(rules, count, &need);
	*index_bytes = allocatable(need.index_bytes);
	*scratch_bytes = allocatable(need.scratch_bytes);
}

static uint32_t lowest_all(const struct class_rule *rules, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		if (!rules[i].left_out && rules[i].mask.kind == MASK_ALL)
			return i;
	return CLASS_NO_RULE;
}

static uint64_t pad(void *index, uint64_t end) {
	uint64_t to = align(end);

	memset((char *)index + end, 0, (size_t)(to - end));
	return to;
}

size_t class_index_build(const struct class_rule *rules, uint32_t count,
    void *index, size_t index_bytes, void *scratch, size_t scratch_bytes) {
	struct class_index *header = index;
	struct need need;
	uint64_t end;

	measure(rules, count, &need);
	/* Table slots and label bytes are numbered with 32 bits. */
	if (need.index_bytes > index_bytes || need.scratch_bytes > scratch_bytes ||
	    need.index_bytes / sizeof(struct name_slot) >= UINT32_MAX / 2 ||
	    need.names.label_bytes > UINT32_MAX || count >= UINT32_MAX / 4)
		return 0;
	memset(header, 0, sizeof *header);
	header->all = lowest_all(rules, count);
	end = pad(index, sizeof *header);
	name_table_build(&header->names, index, &end, rules, count, &need.names);
	end = pad(index, end);
	net_table_build(&header->v4, index, &end, rules, count, true, scratch);
	net_table_build(&header->v6, index, &end, rules, count, false, scratch);
	header->bytes = end;
	return (size_t)end;
}

bool class_index_is_sound(const void *index, size_t bytes) {
	const struct class_index *header = index;

	return bytes >= sizeof *header &&
	    name_table_is_sound(index, bytes, &header->names) &&
	    net_table_is_sound(index, bytes, &header->v4) &&
	    net_table_is_sound(index, bytes, &header->v6);
}

static uint32_t lower(uint32_t a, uint32_t b) {
	return a < b ? a : b;
}

uint32_t class_index_match(const void *index, const struct address *address,
    const char *name, size_t name_length) {
	const struct class_index *header = index;
	uint32_t lowest = header->all;
	struct name_query query;
	bool v4, named;

	if (name != NULL && name_length > 0 && name[name_length - 1] == '.')
		name_length--;
	named = name != NULL && name_length > 0 && name_length <= MASK_NAME_MAX &&
	    header->names.slot_count != 0;
	/* The name's slots are fetched while the address is sought. */
	if (named)
		name_query_prepare(&query, index, &header->names, name, name_length);
	if (address != NULL && !address_is_unknown(address)) {
		v4 = address_is_v4(address);
		lowest = lower(lowest, net_table_match(index,
		    v4 ? &header->v4 : &header->v6, net_key_of(address, v4)));
	}
	if (named)
		lowest = lower(lowest,
		    name_query_match(&query, index, &header->names));
	return lowest;
}

uint32_t class_index_cover(const void *index, const struct mask *mask) {
	const struct class_index *header = index;
	const struct prefix *prefix = &mask->prefix;
	bool v4;

	switch (mask->kind) {
	case MASK_ALL:
		break;
	case MASK_NAME:
	case MASK_DOMAIN:
	case MASK_NAME_PREFIX:
		return lower(header->all,
		    name_table_cover(index, &header->names, mask));
	case MASK_ADDRESS:
		v4 = prefix->bits >= 96 && address_is_v4(&prefix->base);
		return lower(header->all, net_table_cover(index,
		    v4 ? &header->v4 : &header->v6, net_key_of(&prefix->base, v4),
		    v4 ? prefix->bits - 96u : prefix->bits));
	}
	return header->all;
}

/* SPDX-License-Identifier: ISC */
/*
 * The names of a class index (name_table.h).
 *
 * Model: name_table.h.  A path's hash is made of its labels in walking order; the
 * table is sized after a first filling has counted the nodes.  Errors: none; the
 * caller has measured.  Threads: a built table is read only.
 */
#include "policy/limit/class_internal.h"

#include <string.h>

/* A parent that is no slot: the two tries. */
#define ROOT_BACKWARD	UINT32_MAX
#define ROOT_FORWARD	(UINT32_MAX - 1)
#define NO_SLOT		UINT32_MAX

#define FETCH_AHEAD	4	/* labels of a path whose slots are fetched at once */

/* What an inline label holds of a long one, before the offset of the whole. */
#define LABEL_HEAD	(NAME_LABEL_INLINE - sizeof(uint32_t))

static uint64_t load_word(const char *text) {
	uint64_t word;

	memcpy(&word, text, sizeof word);
	return word;
}

/* Both halves of a 64 x 64 bit product. */
static uint64_t mix(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
	uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX);
	uint64_t cross = (a >> 32) * (b & UINT32_MAX) + (low >> 32);
	uint64_t middle = (a & UINT32_MAX) * (b >> 32) + (cross & UINT32_MAX);

	return (a * b) ^ ((a >> 32) * (b >> 32) + (cross >> 32) + (middle >> 32));
#endif
}

/* The hash of a path goes on with one label.  Up to 7 bytes behind the label are
 * read (and ignored).  Unkeyed: only the administrator's masks are in the table,
 * so strangers cannot make a long chain. */
static uint64_t hash_label(uint64_t hash, const char *label, size_t length) {
	size_t left = length;

	for (; left >= 8; left -= 8, label += 8)
		hash = mix(hash ^ load_word(label), UINT64_C(0x9e3779b97f4a7c15));
	if (left > 0) {
		uint64_t kept = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ?
		    UINT64_MAX >> (64 - 8 * left) : UINT64_MAX << (64 - 8 * left);

		hash ^= load_word(label) & kept;
	}
	return mix(hash + length, UINT64_C(0xd6e8feb86659fd93));
}

static uint64_t root_hash(uint32_t root) {
	return root == ROOT_FORWARD ? UINT64_C(0x243f6a8885a308d3) :
	    UINT64_C(0x13198a2e03707344);
}

static uint32_t slot_of_hash(uint64_t hash, uint32_t slot_count) {
	return (uint32_t)(((hash >> 32) * slot_count +
	    ((hash & UINT32_MAX) * slot_count >> 32)) >> 32);
}

/* Eight bytes to lower case, ASCII only. */
static uint64_t fold_word(uint64_t word) {
	const uint64_t each = UINT64_C(0x0101010101010101);
	uint64_t low = word & 0x7f * each;
	uint64_t from_a = low + (0x80 - 'A') * each;
	uint64_t after_z = low + (0x7f - 'Z') * each;
	uint64_t upper = from_a & ~after_z & ~word & 0x80 * each;

	return word | upper >> 2;
}

static void fold_name(struct name_query *query, const char *name, size_t length) {
	size_t words = length / 8 + 1;

	query->text[words - 1] = 0;
	query->text[words] = 0;
	memcpy(query->text, name, length);
	for (size_t i = 0; i < words; i++)
		query->text[i] = fold_word(query->text[i]);
}

static void split_backward(struct name_path *path, const char *text,
    size_t length, uint32_t depth) {
	size_t end = length;

	path->count = 0;
	path->whole = 0;
	while (path->count < depth) {
		size_t from = end;

		while (from > 0 && text[from - 1] != '.')
			from--;
		path->from[path->count] = (uint8_t)from;
		path->length[path->count++] = (uint8_t)(end - from);
		if (from == 0) {
			path->whole = 1;
			break;
		}
		end = from - 1;
	}
}

static void split_forward(struct name_path *path, const char *text,
    size_t length, uint32_t depth) {
	size_t from = 0;

	path->count = 0;
	path->whole = 0;
	while (path->count < depth) {
		size_t end = from;

		while (end < length && text[end] != '.')
			end++;
		path->from[path->count] = (uint8_t)from;
		path->length[path->count++] = (uint8_t)(end - from);
		if (end == length) {
			path->whole = 1;
			break;
		}
		from = end + 1;
	}
}

/* Hashes the path, and asks for the first slots. */
static void hash_path(struct name_path *path, uint32_t root, const char *text,
    const struct name_slot *slots, uint32_t slot_count) {
	uint64_t hash = root_hash(root);

	for (uint32_t i = 0; i < path->count; i++) {
		hash = hash_label(hash, text + path->from[i], path->length[i]);
		path->hash[i] = hash;
		if (i < FETCH_AHEAD)
			__builtin_prefetch(&slots[slot_of_hash(hash, slot_count)]);
	}
}

static bool slot_is(const struct name_slot *slot, uint32_t parent,
    const char *label, size_t length, const char *labels) {
	uint32_t offset;

	if (slot->parent != parent || slot->length != length)
		return false;
	if (length <= NAME_LABEL_INLINE)
		return memcmp(slot->label, label, length) == 0;
	memcpy(&offset, slot->label + LABEL_HEAD, sizeof offset);
	return memcmp(slot->label, label, LABEL_HEAD) == 0 &&
	    memcmp(labels + offset, label, length) == 0;
}

/* The slot of a path that goes on from `parent`, or the free one where it would
 * be.  A table always has a free slot. */
static uint32_t find_slot(const struct name_slot *slots, uint32_t slot_count,
    const char *labels, uint32_t parent, uint64_t hash, const char *label,
    size_t length) {
	uint32_t i = slot_of_hash(hash, slot_count);

	while (slots[i].length != 0 &&
	    !slot_is(&slots[i], parent, label, length, labels))
		i = i + 1 == slot_count ? 0 : i + 1;
	return i;
}

static const struct name_slot *table_slots(const void *index,
    const struct name_table *table) {
	return (const struct name_slot *)(const void *)
	    ((const char *)index + table->slots);
}

/* Walks `count` labels of a path; *lowest falls to the lowest `below` of the
 * nodes passed.  The last node, or NULL when the path leaves the trie. */
static const struct name_slot *walk(const void *index,
    const struct name_table *table, const struct name_path *path,
    uint32_t count, uint32_t root, const char *text, uint32_t *lowest) {
	const struct name_slot *slots = table_slots(index, table);
	const struct name_slot *slot = NULL;
	uint32_t parent = root;

	for (uint32_t i = 0; i < count; i++) {
		parent = find_slot(slots, table->slot_count,
		    (const char *)index + table->labels, parent, path->hash[i],
		    text + path->from[i], path->length[i]);
		slot = &slots[parent];
		if (slot->length == 0)
			return NULL;
		if (slot->below < *lowest)
			*lowest = slot->below;
	}
	return slot;
}

void name_query_prepare(struct name_query *query, const void *index,
    const struct name_table *table, const char *name, size_t length) {
	const struct name_slot *slots = table_slots(index, table);
	const char *text = (const char *)query->text;

	fold_name(query, name, length);
	split_backward(&query->backward, text, length, table->depth_backward);
	hash_path(&query->backward, ROOT_BACKWARD, text, slots, table->slot_count);
	split_forward(&query->forward, text, length, table->depth_forward);
	hash_path(&query->forward, ROOT_FORWARD, text, slots, table->slot_count);
}

uint32_t name_query_match(const struct name_query *query, const void *index,
    const struct name_table *table) {
	const struct name_path *backward = &query->backward;
	const struct name_path *forward = &query->forward;
	const char *text = (const char *)query->text;
	uint32_t lowest = CLASS_NO_RULE;
	const struct name_slot *slot;

	slot = walk(index, table, backward, backward->count, ROOT_BACKWARD, text,
	    &lowest);
	if (slot != NULL && backward->whole && slot->exact < lowest)
		lowest = slot->exact;
	/* "prefix.*" wants a dot behind the prefix: never the last label. */
	walk(index, table, forward, forward->count - forward->whole, ROOT_FORWARD,
	    text, &lowest);
	return lowest;
}

uint32_t name_table_cover(const void *index, const struct name_table *table,
    const struct mask *mask) {
	struct name_query query;
	const char *text = (const char *)query.text;
	uint32_t lowest = CLASS_NO_RULE;

	if (table->slot_count == 0 || mask->name_length == 0 ||
	    mask->name_length > MASK_NAME_MAX)
		return CLASS_NO_RULE;
	name_query_prepare(&query, index, table, mask->name, mask->name_length);
	switch (mask->kind) {
	case MASK_NAME:
		return name_query_match(&query, index, table);
	case MASK_DOMAIN:
		walk(index, table, &query.backward, query.backward.count,
		    ROOT_BACKWARD, text, &lowest);
		return lowest;
	case MASK_NAME_PREFIX:
		walk(index, table, &query.forward, query.forward.count,
		    ROOT_FORWARD, text, &lowest);
		return lowest;
	case MASK_ALL:
	case MASK_ADDRESS:
		break;
	}
	return CLASS_NO_RULE;
}

/* Blocks that others wrote. */

/* Slots in a row that are taken: find_slot looks at no more.  At this load chance makes no
 * row of more than some hundred. */
#define ROW_MOST	4096

static bool slot_is_sound(const struct name_slot *slot, uint32_t label_bytes) {
	uint32_t offset;

	if (slot->length <= NAME_LABEL_INLINE)
		return true;
	memcpy(&offset, slot->label + LABEL_HEAD, sizeof offset);
	return offset <= label_bytes && slot->length <= label_bytes - offset;
}

/* The last row goes on at the first slot. */
static bool rows_are_short(const struct name_slot *slots, uint32_t slot_count) {
	uint32_t row = 0, first = NO_SLOT;

	for (uint32_t i = 0; i < slot_count; i++) {
		row = slots[i].length == 0 ? 0 : row + 1;
		if (row > ROW_MOST)
			return false;
		if (row == 0 && first == NO_SLOT)
			first = i;
	}
	return first != NO_SLOT && row + first <= ROW_MOST;
}

bool name_table_is_sound(const void *index, size_t bytes, const struct name_table *table) {
	const struct name_slot *slots;

	if (table->slot_count == 0)
		return true;
	if (table->slots % _Alignof(struct name_slot) != 0 || table->slots > bytes ||
	    table->slot_count > (bytes - table->slots) / sizeof *slots ||
	    table->labels > bytes || table->label_bytes > bytes - table->labels ||
	    table->depth_backward > NAME_LABELS_MAX || table->depth_forward > NAME_LABELS_MAX)
		return false;
	slots = table_slots(index, table);
	for (uint32_t i = 0; i < table->slot_count; i++)
		if (!slot_is_sound(&slots[i], table->label_bytes))
			return false;
	return rows_are_short(slots, table->slot_count);
}

/* Building. */

static bool rule_has_name(const struct class_rule *rule) {
	return !rule->left_out && (rule->mask.kind == MASK_NAME ||
	    rule->mask.kind == MASK_DOMAIN ||
	    rule->mask.kind == MASK_NAME_PREFIX) &&
	    rule->mask.name_length > 0 &&
	    rule->mask.name_length <= MASK_NAME_MAX;
}

/* How many labels at the end of both names are the same: neighbours in a file often share
 * them, and a table that is to fit need not be built twice then. */
static uint32_t labels_shared(const struct mask *before, const struct mask *mask,
    size_t *characters) {
	size_t most, same = 0;
	uint32_t labels = 0;

	*characters = 0;
	if (before == NULL || before->kind == MASK_NAME_PREFIX ||
	    mask->kind == MASK_NAME_PREFIX)
		return 0;
	most = before->name_length < mask->name_length ? before->name_length :
	    mask->name_length;
	while (same < most && before->name[before->name_length - 1 - same] ==
	    mask->name[mask->name_length - 1 - same])
		if (mask->name[mask->name_length - 1 - same++] == '.') {
			*characters = same;
			labels++;
		}
	return labels;
}

void name_table_need(const struct class_rule *rules, uint32_t count,
    struct name_need *need) {
	const struct mask *before = NULL;

	need->nodes = 0;
	need->label_bytes = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct mask *mask = &rules[i].mask;
		size_t label = 0, shared;

		if (!rule_has_name(&rules[i]))
			continue;
		(void)labels_shared(before, mask, &shared);
		before = mask;
		for (size_t at = 0; at + shared <= mask->name_length; at++) {
			if (at < mask->name_length && mask->name[at] != '.') {
				label++;
				continue;
			}
			need->nodes++;
			if (label > NAME_LABEL_INLINE)
				need->label_bytes += label;
			label = 0;
		}
	}
}

static uint64_t slots_for(uint64_t nodes) {
	return nodes == 0 ? 0 : nodes + nodes * 3 / 5 + 1;
}

uint64_t name_table_bytes(const struct name_need *need) {
	return slots_for(need->nodes) * sizeof(struct name_slot) +
	    (need->label_bytes + 7) / 8 * 8;
}

struct builder {
	struct name_slot *slots;
	uint32_t slot_count;
	uint32_t nodes;
	char *labels;
	uint32_t label_bytes;
	const struct mask *before;	/* that was inserted last, and its path */
	uint32_t path[NAME_LABELS_MAX];
	uint64_t hash[NAME_LABELS_MAX];
};

static void fill_slot(struct builder *builder, struct name_slot *slot,
    uint32_t parent, const char *label, size_t length) {
	slot->parent = parent;
	slot->exact = CLASS_NO_RULE;
	slot->below = CLASS_NO_RULE;
	slot->length = (uint8_t)length;
	builder->nodes++;
	if (length <= NAME_LABEL_INLINE) {
		memcpy(slot->label, label, length);
		return;
	}
	memcpy(slot->label, label, LABEL_HEAD);
	memcpy(slot->label + LABEL_HEAD, &builder->label_bytes,
	    sizeof builder->label_bytes);
	memcpy(builder->labels + builder->label_bytes, label, length);
	builder->label_bytes += (uint32_t)length;
}

static void insert(struct builder *builder, const struct mask *mask,
    uint32_t rule, uint32_t *depth_backward, uint32_t *depth_forward) {
	bool forward = mask->kind == MASK_NAME_PREFIX;
	uint32_t *depth = forward ? depth_forward : depth_backward;
	uint32_t root = forward ? ROOT_FORWARD : ROOT_BACKWARD, parent = root, i;
	struct name_query query;
	const struct name_path *path = &query.backward;
	const char *text = (const char *)query.text;
	uint32_t *lowest;
	size_t ignored;

	fold_name(&query, mask->name, mask->name_length);
	(forward ? split_forward : split_backward)(&query.backward, text,
	    mask->name_length, NAME_LABELS_MAX);
	i = labels_shared(builder->before, mask, &ignored);
	builder->before = mask;
	for (; i < path->count; i++) {
		const char *label = text + path->from[i];
		struct name_slot *slot;

		parent = i == 0 ? root : builder->path[i - 1];
		builder->hash[i] = hash_label(i == 0 ? root_hash(root) :
		    builder->hash[i - 1], label, path->length[i]);
		builder->path[i] = find_slot(builder->slots, builder->slot_count,
		    builder->labels, parent, builder->hash[i], label, path->length[i]);
		slot = &builder->slots[builder->path[i]];
		if (slot->length == 0)
			fill_slot(builder, slot, parent, label, path->length[i]);
	}
	parent = builder->path[path->count - 1];	/* a name has a label */
	if (path->count > *depth)
		*depth = path->count;
	lowest = mask->kind == MASK_NAME ? &builder->slots[parent].exact :
	    &builder->slots[parent].below;
	if (rule < *lowest)
		*lowest = rule;
}

static void fill(struct builder *builder, struct name_table *table,
    uint64_t slot_count, const struct class_rule *rules, uint32_t count) {
	builder->slot_count = (uint32_t)slot_count;
	builder->nodes = 0;
	builder->label_bytes = 0;
	builder->before = NULL;
	builder->labels = (char *)(builder->slots + slot_count);
	memset(builder->slots, 0, (size_t)slot_count * sizeof *builder->slots);
	for (uint32_t i = 0; i < count; i++)
		if (rule_has_name(&rules[i]))
			insert(builder, &rules[i].mask, i,
			    &table->depth_backward, &table->depth_forward);
}

void name_table_build(struct name_table *table, void *index, uint64_t *end,
    const struct class_rule *rules, uint32_t count, const struct name_need *need) {
	struct builder builder = {
		.slots = (struct name_slot *)(void *)((char *)index + *end)
	};

	memset(table, 0, sizeof *table);
	table->slots = table->labels = *end;
	if (need->nodes == 0)
		return;
	/* Rules share nodes: fill once to count them, again to fit, where it is worth it. */
	fill(&builder, table, slots_for(need->nodes), rules, count);
	if (builder.nodes < need->nodes - need->nodes / 16)
		fill(&builder, table, slots_for(builder.nodes), rules, count);
	table->slot_count = builder.slot_count;
	table->label_bytes = builder.label_bytes;
	table->labels = *end + (uint64_t)builder.slot_count * sizeof *builder.slots;
	*end = table->labels + builder.label_bytes;
	while (*end % 8 != 0)
		((char *)index)[(*end)++] = 0;
}

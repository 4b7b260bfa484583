/* SPDX-License-Identifier: ISC */
/* Linear probing; no gaps are left. */
#include "ctl/replay/replay_table.h"

#include <stdlib.h>

static struct number_entry *table_find(const struct number_table *table, uint64_t key) {
	size_t at = (size_t)key & (table->size - 1);

	while (table->entries[at].key != 0 && table->entries[at].key != key)
		at = (at + 1) & (table->size - 1);
	return &table->entries[at];
}

static bool table_grow(struct number_table *table) {
	struct number_table larger = { .size = table->size == 0 ? 1024 : 2 * table->size,
		.count = table->count };

	larger.entries = calloc(larger.size, sizeof(*larger.entries));
	if (larger.entries == NULL)
		return false;
	for (size_t i = 0; i < table->size; i++)
		if (table->entries[i].key != 0)
			*table_find(&larger, table->entries[i].key) = table->entries[i];
	free(table->entries);
	*table = larger;
	return true;
}

bool number_table_put(struct number_table *table, uint64_t key, uint32_t value) {
	struct number_entry *entry;

	if (2 * table->count >= table->size && !table_grow(table))
		return false;
	entry = table_find(table, key);
	table->count += entry->key == 0;
	*entry = (struct number_entry){ key, value };
	return true;
}

uint32_t number_table_get(const struct number_table *table, uint64_t key) {
	const struct number_entry *entry;

	if (table->size == 0)
		return UINT32_MAX;
	entry = table_find(table, key);
	return entry->key == 0 ? UINT32_MAX : entry->value;
}

/* Whoever may move into the gap does. */
void number_table_remove(struct number_table *table, uint64_t key) {
	size_t mask = table->size - 1, gap, at;

	if (table->size == 0 || table_find(table, key)->key == 0)
		return;
	gap = (size_t)(table_find(table, key) - table->entries);
	for (at = (gap + 1) & mask; table->entries[at].key != 0; at = (at + 1) & mask) {
		size_t home = (size_t)table->entries[at].key & mask;

		if (((at - home) & mask) < ((at - gap) & mask))
			continue;
		table->entries[gap] = table->entries[at];
		gap = at;
	}
	table->entries[gap].key = 0;
	table->count--;
}

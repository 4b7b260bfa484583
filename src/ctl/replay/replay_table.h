/* SPDX-License-Identifier: ISC */
/* Numbers by keys that are hashes already.  All zero is an empty one; free(entries). */
#ifndef CTL_REPLAY_TABLE_H
#define CTL_REPLAY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct number_table {
	struct number_entry {
		uint64_t key;	/* 0: free; no key is 0 */
		uint32_t value;
	} *entries;
	size_t size, count;
};

/* False: no memory. */
bool number_table_put(struct number_table *table, uint64_t key, uint32_t value);
/* UINT32_MAX: it is not there. */
uint32_t number_table_get(const struct number_table *table, uint64_t key);
void number_table_remove(struct number_table *table, uint64_t key);

#endif

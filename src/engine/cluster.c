/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The cluster role's places in the segment.
 * MODEL    An order is a name and a number, which is stored last; one that is given while
 *          another one is taken replaces it.
 * THREADS  Any.
 */
#include "engine/cluster.h"

#include <string.h>

#include "engine/internal.h"

struct cluster_record *engine_cluster_told(struct engine *engine) {
	return &engine->segment->header->cluster;
}

uint64_t engine_cluster_order(struct engine *engine, const char name[CLUSTER_TOLD_NAME]) {
	struct cluster_order *order = &engine->segment->header->cluster_order;
	uint64_t words[CLUSTER_ORDER_WORDS];

	memcpy(words, name, sizeof(words));
	for (size_t i = 0; i < CLUSTER_ORDER_WORDS; i++)
		atomic_store(&order->name[i], words[i]);
	return atomic_fetch_add(&order->number, 1) + 1;
}

uint64_t engine_cluster_ordered(struct engine *engine, char name[CLUSTER_TOLD_NAME]) {
	struct cluster_order *order = &engine->segment->header->cluster_order;
	uint64_t number = atomic_load(&order->number), words[CLUSTER_ORDER_WORDS];

	for (size_t i = 0; i < CLUSTER_ORDER_WORDS; i++)
		words[i] = atomic_load(&order->name[i]);
	memcpy(name, words, sizeof(words));
	name[CLUSTER_TOLD_NAME - 1] = '\0';
	return number;
}

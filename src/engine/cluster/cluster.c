/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The cluster role's places in the segment.
 * MODEL    An order is a name and a number, which is odd while the name changes; one that is
 *          given before the one before it was taken replaces it.
 * THREADS  Any; orders are given by one, the keeper's.
 */
#include "engine/cluster/cluster.h"

#include <string.h>

#include "engine/internal.h"

struct cluster_record *engine_cluster_told(struct engine *engine) {
	return &engine->segment->header->cluster;
}

uint64_t engine_cluster_order(struct engine *engine, const char name[CLUSTER_TOLD_NAME],
    uid_t uid) {
	struct cluster_order *order = &engine->segment->header->cluster_order;
	/* odd already, where a keeper died in the middle */
	uint64_t words[CLUSTER_ORDER_WORDS], odd = atomic_load(&order->number) | 1;

	memcpy(words, name, sizeof(words));
	atomic_store(&order->number, odd);
	for (size_t i = 0; i < CLUSTER_ORDER_WORDS; i++)
		atomic_store(&order->name[i], words[i]);
	atomic_store(&order->uid, uid);
	atomic_store(&order->number, odd + 1);
	return odd + 1;
}

uint64_t engine_cluster_ordered(struct engine *engine, char name[CLUSTER_TOLD_NAME],
    uid_t *uid) {
	struct cluster_order *order = &engine->segment->header->cluster_order;
	uint64_t number = atomic_load(&order->number), words[CLUSTER_ORDER_WORDS];

	for (size_t i = 0; i < CLUSTER_ORDER_WORDS; i++)
		words[i] = atomic_load(&order->name[i]);
	*uid = (uid_t)atomic_load(&order->uid);
	memcpy(name, words, sizeof(words));
	name[CLUSTER_TOLD_NAME - 1] = '\0';
	/* else half of one name and half of another */
	return number % 2 == 0 && number == atomic_load(&order->number) ? number : 0;
}

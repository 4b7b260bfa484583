/* SPDX-License-Identifier: ISC */
/* The cluster role's places in the segment, but for the shares (engine/cluster/shares.h): what it
 * tells of itself, and what it is asked to do by hand. */
#ifndef ENGINE_CLUSTER_H
#define ENGINE_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/engine.h"

/* segment/cluster/cluster_told.h; written by the role alone. */
struct cluster_record *engine_cluster_told(struct engine *engine);

/* Asks the role to take a node out of the cluster, as `uid` wishes.  Returns the number of the
 * order, which told.order_number reaches when it was dealt with, or one that came behind it.
 * The keeper. */
uint64_t engine_cluster_order(struct engine *engine, const char name[CLUSTER_TOLD_NAME],
    uid_t uid);

/* The last order: its number, its node, and who asked; 0: there was none, or one is being given
 * just now.  The role. */
uint64_t engine_cluster_ordered(struct engine *engine, char name[CLUSTER_TOLD_NAME],
    uid_t *uid);

#endif

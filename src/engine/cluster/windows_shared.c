/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What of a window is another node's, where a cluster divides it.
 * MODEL    The cluster role divides ceilings, and limits that are for all nodes, and leases
 *          parts of them (knowledge_pools.c); here its shares are only used.  A limit that
 *          it has not come to yet is no more than what each node has for good.
 * ERRORS   None.
 * THREADS  Any.
 */
#include <string.h>

#include "engine/cluster/knowledge.h"
#include "engine/destination/windows_internal.h"
#include "policy/window/share.h"

uint32_t windows_share(const struct generation *generation, const struct window_owner *owner,
    const struct window_settings *settings, const struct shared_seen *shared, int64_t now_ns) {
	const struct generation_cluster *cluster = &generation->cluster;
	uint32_t most = shared_most(shared, now_ns), fixed;

	if (most != UINT32_MAX || !settings->shared || settings->limit == 0 ||
	    !generation_has_cluster(generation) || cluster->when_unreachable == CLUSTER_ALONE ||
	    !knowledge_tells_of(generation, owner->name, strlen(owner->name)))
		return most;
	fixed = share_static((struct share_pools){ settings->limit, 0 }, cluster->nodes,
	    cluster->fraction).base;
	return fixed > 0 ? fixed : 1;
}

void windows_view_shared(const struct generation *generation, const struct window_owner *owner,
    const struct window_settings *settings, const struct shared_seen *shared, int64_t now_ns,
    struct window_view *out) {
	out->hold_node = shared->hold_node;
	out->hold_id = shared->hold_id;
	out->hold_by = shared->hold_by;
	out->ceiling_node = shared->ceiling_node;
	out->share = windows_share(generation, owner, settings, shared, now_ns);
	out->share_serial = shared->serial;
	out->divided = out->share != UINT32_MAX;
	if (!out->divided)
		return;
	if (out->window > out->share)
		out->window = out->share;
	if (out->canary_due && now_ns >= shared->canary_ns) {
		out->canary_due = false;
		out->canary_waits = true;
	}
}

void windows_want(const struct engine *engine, const struct window_owner *owner,
    const struct window_view *view, uint32_t places, int64_t now_ns) {
	struct state_key key;

	/* what is stopped needs no places */
	if (view->divided && places >= view->window && view->state != WINDOW_DEAD &&
	    view->state != WINDOW_HELD &&
	    states_key(engine->segment, owner->name, strlen(owner->name), &key))
		shared_ask(engine->segment, key.hash, now_ns);
}

void windows_want_canary(const struct engine *engine, const struct window_owner *owner,
    const struct window_view *view, int64_t now_ns) {
	struct state_key key;

	if (view->canary_waits &&
	    states_key(engine->segment, owner->name, strlen(owner->name), &key))
		shared_ask_canary(engine->segment, key.hash, now_ns);
}

bool windows_may_send_canary(const struct state_lock *lock, int64_t now_ns) {
	struct shared_seen shared;

	if (!shared_find(lock->segment, lock->key.hash, &shared) ||
	    shared.share == SHARED_NO_SHARE || now_ns < shared.canary_ns)
		return true;
	shared_ask_canary(lock->segment, lock->key.hash, now_ns);
	return false;
}

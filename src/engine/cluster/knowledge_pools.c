/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Ceilings that are divided among the nodes.
 * MODEL    Each ceiling is a pool as a class's limit is (policy/window/share.h): a static part of
 *          each node, the rest leased.  What may be used stands in the segment and is lowered
 *          there first; what is told as held is never less than what may be in use: places of
 *          processes that ask, and lanes, as far as whoever makes hints has seen the share
 *          of now.  How much is wanted: knowledge_wants.c.  A canary is a pool of one place.
 * ERRORS   More than POOLS_MOST that are in use are told in turns.
 * THREADS  One.
 */
#include "engine/cluster/knowledge_internal.h"

#include <string.h>

#include "base/text.h"
#include "policy/window/share.h"

#define POOLS_MOST	120
/* So long after its share fell mail may still come to a lane that was told before, and be on
 * its way: as long as policy/window/lane.h gives a lane of which nothing was heard. */
#define TOLD_NS		(6 * NS_PER_SECOND)
#define POOLS_NS	NS_PER_SECOND
#define CANARY_ISSUE_NS	(2 * NS_PER_SECOND)	/* of the lease, in which it may be sent */

struct shared_slot *knowledge_slot(struct knowledge_store *store,
    struct knowledge_entry *entry, bool make) {
	struct shared_seen seen;

	if (!make && !shared_find(store->engine->segment, entry->hash, &seen))
		return NULL;
	return shared_take(store->engine->segment, entry->hash);
}

/* --- what may be used ------------------------------------------------------------------- */

/* As it is to stand in the segment, under the destination's lock, so that whoever takes a
 * place meanwhile has taken it before; and hints look again. */
static bool put_share(struct knowledge_use *u, struct shared_slot *slot, uint32_t share) {
	struct segment *segment = u->store->engine->segment;
	struct knowledge_entry *entry = u->entry;
	struct state_lock lock;

	if (!states_aim(segment, entry->name, strlen(entry->name), &lock) ||
	    states_lock(&lock, u->now_ns, STATES_KNOWN_ONLY) != STATES_HELD)
		return false;
	shared_set_share(slot, share, u->alone);
	states_touch(&lock);
	states_unlock(&lock);
	return true;
}

static bool set_share(struct knowledge_use *u, uint32_t share) {
	struct segment *segment = u->store->engine->segment;
	struct knowledge_entry *entry = u->entry;
	struct shared_slot *slot = knowledge_slot(u->store, entry, true);
	const struct shared_seen was = u->found.shared;

	if (slot == NULL)
		return false;
	if (was.known && was.share == share && was.alone == u->alone)
		return true;
	if (!put_share(u, slot, share))
		return false;
	/* of lanes that carry mail it is known when they are empty */
	if (was.known && was.share != SHARED_NO_SHARE && share < was.share &&
	    knowledge_has_lanes(u->generation) && was.lanes == 0) {
		/* of several that fell within this time the greatest */
		if (u->now_ns >= entry->told_until_ns || was.share > entry->told_share)
			entry->told_share = was.share;
		entry->told_until_ns = u->now_ns + TOLD_NS;
	}
	(void)states_find(segment, entry->name, strlen(entry->name), &u->found);
	return true;
}

/* There is nothing to divide any more: it goes as it would without a cluster, and what was
 * leased is given back at once.  True: that is still to be told. */
static bool join(struct knowledge_use *u) {
	struct shared_slot *slot = knowledge_slot(u->store, u->entry, false);

	/* one that is not known any more has no share either */
	if (slot != NULL && u->found.shared.share != SHARED_NO_SHARE &&
	    !put_share(u, slot, SHARED_NO_SHARE))
		shared_set_share(slot, SHARED_NO_SHARE, 0);
	u->entry->limit = 0;
	u->entry->divided = knowledge_is_counted(u->entry);
	return u->entry->divided;
}

/* --- calls -------------------------------------------------------------------------------- */

/* The leased part that is kept: what may be used, or is. */
static uint32_t keep(struct knowledge_use *u, uint32_t want) {
	struct knowledge_entry *entry = u->entry;
	uint32_t share = knowledge_leased_here(entry), least, used;

	/* what nobody here wants any more is not used from now on */
	least = want > u->fixed ? want - u->fixed : 0;
	if (share > least && set_share(u, u->fixed + least)) {
		share = least;
		entry->fair = (uint16_t)least;
		/* whether lanes have seen it is told later */
		if (knowledge_has_lanes(u->generation))
			u->certain = false;
	}
	used = u->used > u->fixed ? u->used - u->fixed : 0;
	if (!u->certain || used > entry->granted)
		return entry->granted;
	return used > share ? used : share;
}

static const char *pool_name(struct knowledge_store *store, char kind,
    const struct knowledge_entry *entry, size_t index) {
	char *name = store->pool_names[index];

	(void)text_append(name, sizeof(store->pool_names[0]), 0, "%c:%s", kind, entry->name);
	return name;
}

/* What is configured is so since ever. */
static uint64_t version_of(const struct knowledge_entry *entry, uint32_t limit) {
	return limit == entry->most ? 0 : entry->in_force.ceiling_stamp;
}

/* Is a canary of ours out, or may one be sent? */
static bool keeps_canary(const struct knowledge_use *u) {
	return u->known && u->found.state.window.canary_out != 0;
}

static bool wants_canary(const struct knowledge_use *u) {
	const struct shared_seen *shared = &u->found.shared;

	return u->known && shared->known && shared->canary_asked_ns != 0 &&
	    u->now_ns - shared->canary_asked_ns < KNOWLEDGE_CANARY_ASKED_NS;
}

/* Are all places in use, as far as that can be known?  Else a canary that is accepted would
 * prove nothing: all that can be leased is this node's, or leased and others need more. */
static bool is_full(const struct knowledge_use *u) {
	const struct knowledge_entry *entry = u->entry;

	return entry->spare == 0 && (entry->others_short > 0 ||
	    knowledge_leased_here(entry) >= u->leasable);
}

static size_t add_canary(struct knowledge_use *u, struct knowledge_pool *out, size_t index,
    bool *due) {
	struct knowledge_entry *entry = u->entry;
	bool had = entry->canary_granted, keeps = keeps_canary(u);
	bool may = had && u->known && u->found.shared.canary_ns > u->now_ns;
	bool asks = !had && wants_canary(u) && is_full(u);

	if (had && !keeps && !may) {
		struct shared_slot *slot = knowledge_slot(u->store, entry, false);

		if (slot != NULL)
			shared_set_canary(slot, 0);
	}
	if (!had && !asks && !entry->canary_counts)
		return 0;
	*due |= !had || (!keeps && !may);
	*out = (struct knowledge_pool){ .name = pool_name(u->store, 'c', entry, index),
		.limit = 1, .hold = had && (keeps || may),
		.entry = (uint32_t)(entry - u->store->entries), .life = entry->life,
		.canary = true };
	/* one that was not sent in time is given back, before there is another */
	out->want = out->hold != 0 || asks;
	entry->canary_asks = out->want > 0;
	entry->canary_counts |= entry->canary_asks;
	return 1;
}

static size_t add_pool(struct knowledge_use *u, struct knowledge_pool *out, size_t index,
    bool *due) {
	struct knowledge_entry *entry = u->entry;
	uint32_t want = u->limit == 0 ? 0 : knowledge_wanted(u), hold;

	hold = u->limit == 0 ? 0 : keep(u, want);
	want = want > u->fixed ? want - u->fixed : 0;
	if (want > u->leasable)
		want = u->leasable;
	if (want < hold)
		want = hold;
	/* who asked, and was granted none, must say that it wants none: others wait for it */
	if (want == 0 && entry->granted == 0 && !entry->counts)
		return 0;
	*due |= hold < entry->granted || want == 0 || (want > entry->granted && knowledge_is_asked(u));
	*out = (struct knowledge_pool){ .name = pool_name(u->store, 'd', entry, index),
		.limit = u->limit, .fixed = u->fixed, .version = version_of(entry, u->limit),
		.hold = hold, .want = want,
		.entry = (uint32_t)(entry - u->store->entries), .life = entry->life };
	entry->asks = want > 0;
	entry->counts |= entry->asks;
	return 1;
}

/* A ceiling that came, changed or went. */
static bool follow(struct knowledge_use *u) {
	struct knowledge_entry *entry = u->entry;
	uint32_t share = knowledge_leased_here(entry);

	if (u->limit == 0)
		return join(u);
	if (!entry->divided && !u->known)
		return false;
	if (share > u->leasable)
		share = u->leasable;
	if (!set_share(u, u->fixed + share))
		return entry->divided;
	entry->divided = true;
	entry->limit = u->limit;
	return true;
}

void knowledge_divide(struct knowledge_store *store, struct knowledge_entry *entry,
    int64_t now_ns) {
	struct knowledge_use u = { .store = store, .entry = entry, .generation = store->generation,
		.now_ns = now_ns };
	uint32_t limit = knowledge_limit(store, entry, now_ns);

	if (entry->divided ? limit == entry->limit : limit == 0)
		return;
	knowledge_use_look(&u);
	(void)follow(&u);
}

void knowledge_pools_turn(struct knowledge_store *store, int64_t now_ns) {
	if (now_ns - store->pools_ns < POOLS_NS)
		return;
	store->pools_ns = now_ns;
	for (uint32_t i = 0; i < store->count; i++)
		if (store->entries[i].name[0] != '\0')
			knowledge_divide(store, &store->entries[i], now_ns);
}

/* Of one destination. */
static size_t add_entry(struct knowledge_store *store, struct knowledge_entry *entry,
    int64_t now_ns, struct knowledge_pool *out, size_t index, bool *due) {
	struct knowledge_use u = { .store = store, .entry = entry, .generation = store->generation,
		.now_ns = now_ns };
	uint32_t limit = entry->name[0] == '\0' ? 0 : knowledge_limit(store, entry, now_ns);
	size_t count;

	if (entry->name[0] == '\0' || (limit == 0 && !entry->divided) ||
	    knowledge_is_quiet(store, entry, limit, now_ns))
		return 0;
	knowledge_use_look(&u);
	if (!follow(&u))
		return 0;
	count = add_pool(&u, out, index, due);
	return count + add_canary(&u, out + count, index + count, due);
}

size_t knowledge_pools(struct knowledge_store *store, const struct generation *generation,
    int64_t now_ns, struct knowledge_pool *out, size_t most, bool *due) {
	size_t count = 0;

	*due = false;
	store->generation = generation;
	store->pools_next = 0;
	if (most > 2 * POOLS_MOST)
		most = 2 * POOLS_MOST;
	for (uint32_t i = 0; store->heard && i < store->count; i++) {
		uint32_t index = (store->pools_from + i) % store->count;

		if (count + 2 > most) {
			store->pools_next = index;
			break;
		}
		count += add_entry(store, &store->entries[index], now_ns, &out[count], count, due);
	}
	return count;
}

void knowledge_asked(struct knowledge_store *store) {
	store->pools_from = store->pools_next;
}

void knowledge_granted(struct knowledge_store *store, const struct generation *generation,
    uint32_t index, uint32_t life, bool canary, uint32_t granted, uint32_t fair,
    uint32_t others_short, uint32_t spare, int64_t until_ns, int64_t now_ns) {
	struct knowledge_use u = { .store = store, .generation = generation, .now_ns = now_ns };
	struct knowledge_entry *entry;
	struct shared_slot *slot;

	shared_set_until(store->engine->segment, until_ns);
	if (index >= store->count || store->entries[index].life != life)
		return;
	store->generation = generation;
	u.entry = entry = &store->entries[index];
	slot = knowledge_slot(store, entry, true);
	if (canary) {
		if (granted > 0 && !entry->canary_granted && slot != NULL)
			shared_set_canary(slot, now_ns + CANARY_ISSUE_NS);
		entry->canary_granted = granted > 0;
		entry->canary_counts = granted > 0 || entry->canary_asks;
		return;
	}
	entry->granted = (uint16_t)(granted < UINT16_MAX ? granted : UINT16_MAX);
	entry->fair = (uint16_t)(fair < UINT16_MAX ? fair : UINT16_MAX);
	entry->counts = granted > 0 || entry->asks;
	entry->others_short = others_short;
	entry->spare = spare;
	knowledge_use_look(&u);
	if (u.limit != 0)
		(void)set_share(&u, u.fixed + knowledge_leased_here(entry));
}

void knowledge_leased(struct knowledge_store *store, int64_t until_ns) {
	shared_set_until(store->engine->segment, until_ns);
}

void knowledge_reborn(struct knowledge_store *store, const struct generation *generation,
    int64_t now_ns) {
	store->generation = generation;
	for (uint32_t i = 0; i < store->count; i++) {
		struct knowledge_use u = { .store = store, .entry = &store->entries[i],
			.generation = generation, .now_ns = now_ns };

		if (!u.entry->divided)
			continue;
		/* none may be used; but what the server may have recorded is to be given back */
		u.entry->granted = 1;
		u.entry->fair = 0;
		u.entry->canary_granted = true;
		knowledge_use_look(&u);
		(void)set_share(&u, u.fixed);
	}
}

/* --- an earlier life ------------------------------------------------------------------------ */

/* Until it is told otherwise all of it may be recorded for us, and lanes may have been told of
 * all there is. */
static void take_over(void *context, const struct destination_window *window) {
	struct knowledge_store *store = context;
	struct knowledge_use u = { .store = store, .generation = store->generation,
		.now_ns = store->now_ns };
	struct knowledge_entry *entry;
	uint32_t leased;

	if (!window->shared.known || window->shared.share == SHARED_NO_SHARE)
		return;
	entry = knowledge_entry(store, window->name, true);
	if (entry == NULL)
		return;
	entry->here = window->state.begun ? window->state.window.ceiling : 0;
	entry->divided = entry->canary_granted = true;
	u.entry = entry;
	knowledge_use_look(&u);
	leased = window->shared.share > u.fixed ? window->shared.share - u.fixed : 0;
	entry->fair = (uint16_t)leased;
	entry->granted = (uint16_t)(u.leasable > leased ? u.leasable : leased);
	if (entry->granted == 0)
		entry->granted = 1;
	entry->told_share = (uint16_t)u.limit;
	entry->told_until_ns = store->now_ns + TOLD_NS;
	entry->had_ns = store->now_ns;
	if (leased > 0)
		entry->busy_ns = store->now_ns;
}

void knowledge_pools_begin(struct knowledge_store *store) {
	if (shared_is_used(store->engine->segment))
		(void)states_each(store->engine->segment, take_over, store);
}

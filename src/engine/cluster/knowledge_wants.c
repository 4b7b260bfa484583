/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  How much of a divided ceiling is used here, and how much could be.
 * MODEL    Who has mail that waits wants all of it and gets an equal part; who has none keeps
 *          what nobody else wants.  Mail that a Postfix keeps is told of again and again
 *          (requeue.c).  A queue run of Sendmail that found no place asks once and comes again
 *          much later: one is had for it.
 * ERRORS   None.
 * THREADS  One.
 */
#include "engine/cluster/knowledge_internal.h"

#include <string.h>

#include "policy/window/share.h"

#define ASKED_NS	(6 * NS_PER_SECOND)	/* so long a wish is one, */
#define MET_NS		(3 * NS_PER_SECOND / 2)	/* where places are free here */
#define IDLE_NS		(20 * NS_PER_SECOND)
#define RUNS_NS		(3600 * NS_PER_SECOND)	/* between queue runs */
#define PEAK_NS		(10 * NS_PER_SECOND)
#define MOST_NS		(10 * NS_PER_SECOND)

bool knowledge_has_lanes(const struct generation *generation) {
	for (uint32_t i = 0; i < generation->mta_count; i++)
		if (generation->mtas[i].kind == MTA_POSTFIX &&
		    generation->mtas[i].lane_count > 0)
			return true;
	return false;
}

/* Does any mail server run its queue by itself, and ask then? */
static bool has_runs(const struct generation *generation) {
	for (uint32_t i = 0; i < generation->mta_count; i++)
		if (generation->mtas[i].kind == MTA_SENDMAIL && generation->mtas[i].drive == 0)
			return true;
	return false;
}

uint32_t knowledge_configured(struct knowledge_store *store, const struct window_owner *owner) {
	struct window_rules rules;

	windows_rules(store->generation, windows_mta(store->engine, store->generation, owner), owner,
	    &rules);
	return rules.settings.shared ? rules.settings.limit : 0;
}

uint32_t knowledge_limit(struct knowledge_store *store, struct knowledge_entry *entry,
    int64_t now_ns) {
	uint32_t ceiling = entry->in_force.ceiling != 0 ? entry->in_force.ceiling : entry->here;
	struct window_owner owner;

	if (entry->most_of != store->generation->number || now_ns - entry->most_ns > MOST_NS) {
		entry->most_of = store->generation->number;
		entry->most_ns = now_ns;
		entry->most = knowledge_is_shared(store->generation, entry->name,
		    strlen(entry->name), &owner) ? knowledge_configured(store, &owner) : 0;
	}
	return ceiling == 0 || (entry->most != 0 && entry->most < ceiling) ? entry->most :
	    ceiling;
}

void knowledge_use_look(struct knowledge_use *u) {
	const struct generation_cluster *cluster = &u->generation->cluster;
	struct knowledge_entry *entry = u->entry;
	const struct shared_seen *shared = &u->found.shared;
	struct share_pools whole, fixed;

	u->limit = knowledge_limit(u->store, entry, u->now_ns);
	whole = (struct share_pools){ u->limit, 0 };
	fixed = share_static(whole, cluster->nodes, cluster->fraction);
	u->fixed = fixed.base;
	u->leasable = share_leasable(whole, cluster->nodes, fixed).base;
	u->alone = cluster->when_unreachable == CLUSTER_ALONE ? u->limit : u->fixed > 0 ? u->fixed : 1;
	u->known = states_find(u->store->engine->segment, entry->name, strlen(entry->name),
	    &u->found);
	u->certain = true;
	u->used = u->busy = 0;
	if (!u->known)
		return;
	u->used = u->busy = u->found.state.in_flight;
	if (!knowledge_has_lanes(u->generation))
		return;
	u->certain = shared->lanes_serial == shared->serial;
	u->used += shared->lanes;
	u->busy += shared->wanted < shared->lanes ? shared->wanted : shared->lanes;
	/* nothing runs by lanes, but what they were told is still believed */
	if (u->now_ns < entry->told_until_ns && u->used < entry->told_share)
		u->used = entry->told_share;
}

/* The most that was busy of late. */
static uint32_t peak(struct knowledge_use *u) {
	struct knowledge_entry *entry = u->entry;

	if (u->busy >= entry->peak || u->now_ns - entry->peak_ns > PEAK_NS) {
		entry->peak = (uint16_t)(u->busy < UINT16_MAX ? u->busy : UINT16_MAX);
		entry->peak_ns = u->now_ns;
	}
	return entry->peak;
}

/* Does mail wait in lanes?  Nobody asks for it where none of it is ever kept. */
static bool waits_in_lanes(const struct generation *generation,
    const struct shared_seen *shared) {
	return shared->wanted == UINT16_MAX && knowledge_has_lanes(generation);
}

bool knowledge_is_asked(const struct knowledge_use *u) {
	const struct shared_seen *shared = &u->found.shared;

	if (!u->known || !shared->known)
		return false;
	if (waits_in_lanes(u->generation, shared))
		return true;
	/* whoever asked may have had one by then; mail that is kept asks again and again */
	return shared->asked_ns != 0 && u->now_ns - shared->asked_ns <
	    (u->busy < u->fixed + knowledge_leased_here(u->entry) ? MET_NS : ASKED_NS);
}

/* Did a queue run find no place at all, and none came since that took one? */
static bool is_refused(const struct knowledge_use *u) {
	struct knowledge_entry *entry = u->entry;
	const struct shared_seen *shared = &u->found.shared;

	if (knowledge_leased_here(entry) > 0)
		entry->had_ns = u->now_ns;
	else if (u->known && shared->known && shared->asked_ns > entry->had_ns)
		entry->refused_ns = shared->asked_ns;
	if (u->busy > 0 || u->fixed > 0 || !has_runs(u->generation))
		entry->refused_ns = 0;
	return entry->refused_ns != 0 && u->now_ns - entry->refused_ns < RUNS_NS;
}

uint32_t knowledge_wanted(struct knowledge_use *u) {
	struct knowledge_entry *entry = u->entry;
	uint32_t most = peak(u), had = u->fixed + knowledge_leased_here(entry), want;
	bool asked = knowledge_is_asked(u), refused = is_refused(u);
	int64_t idle_ns = u->fixed == 0 && has_runs(u->generation) ? RUNS_NS : IDLE_NS;

	if (asked || u->busy > 0)
		entry->busy_ns = u->now_ns;
	if (asked)
		return u->limit;
	/* others wait for what is not used here */
	if (entry->others_short > 0) {
		want = u->busy == 0 ? 0 : most;
	} else {
		if (entry->busy_ns == 0 || u->now_ns - entry->busy_ns > idle_ns)
			return refused ? 1 : u->busy;
		want = most + 1 + most / 4 > had ? most + 1 + most / 4 : had;
	}
	if (want == 0 && refused)
		want = 1;
	return want < u->limit ? want : u->limit;
}

bool knowledge_is_quiet(const struct knowledge_store *store, const struct knowledge_entry *entry,
    uint32_t limit, int64_t now_ns) {
	struct shared_seen seen;

	return entry->divided && !knowledge_is_counted(entry) &&
	    entry->limit == limit && shared_find(store->engine->segment, entry->hash, &seen) &&
	    entry->refused_ns == 0 && now_ns - seen.asked_ns > ASKED_NS &&
	    !waits_in_lanes(store->generation, &seen) &&
	    now_ns - seen.canary_asked_ns > KNOWLEDGE_CANARY_ASKED_NS;
}

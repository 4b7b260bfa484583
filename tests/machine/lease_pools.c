/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "tests/machine/lease_internal.h"

#define SLICE		5000
#define PLACES_MAX	1000000000

static struct lease_pool *pool_of(struct lease_data *lease, const char *name, bool make) {
	for (unsigned i = 0; i < lease->pool_count; i++)
		if (strcmp(lease->pools[i].name, name) == 0)
			return &lease->pools[i];
	if (!make)
		return NULL;
	MUST(lease->pool_count < LEASE_POOLS);
	lease->pools[lease->pool_count] = (struct lease_pool){ .count = 0 };
	snprintf(lease->pools[lease->pool_count].name, LEASE_NAME, "%s", name);
	return &lease->pools[lease->pool_count++];
}

struct lease_part *lease_read_pool(struct turn *t, const char *name, struct lease_pool *out) {
	const struct lease_pool *stored = pool_of(&t->now, name, false);
	struct lease_part *own = NULL;

	out->count = 0;
	for (unsigned i = 0; stored != NULL && i < stored->count; i++) {
		const struct lease_part *part = &stored->parts[i];
		const struct lease_node *node = &t->now.nodes[part->slot];

		if (!node->used || !node->alive || node->life != part->life)
			continue;
		if (part->slot == (int64_t)t->slot)
			own = &out->parts[out->count];
		out->parts[out->count++] = *part;
	}
	return own;
}

struct sum {
	int64_t limit, fixed, granted, need, lacking;
	bool differs;
};

static struct sum sum_up(const struct lease_pool *pool, const struct lease_part *own) {
	struct sum sum = { .limit = -1 };
	int64_t version = 0;

	for (unsigned i = 0; i < pool->count; i++) {
		const struct lease_part *part = &pool->parts[i];

		if (part->version > version) {
			version = part->version;
			sum.limit = -1;
		}
		if (part->version == version && (sum.limit < 0 || part->limit < sum.limit))
			sum.limit = part->limit;
		sum.fixed = most_of(sum.fixed, part->fixed);
		sum.differs |= part->limit != own->limit || part->fixed != own->fixed;
		if (part == own)
			continue;
		sum.granted += part->granted;
		sum.need += part->need;
		sum.lacking += most_of(0, part->need - part->granted);
	}
	return sum;
}

static int64_t odd_one(struct turn *t, const struct lease_pool *pool, const bool *waiting,
    struct lease_part *own, int64_t odd, int64_t before) {
	int64_t having = 0, ahead = 0;
	bool others = false;

	for (unsigned i = 0; i < pool->count; i++) {
		const struct lease_part *part = &pool->parts[i];

		if (!waiting[i] || part == own)
			continue;
		having += part->odd > 0;
		others |= part->odd == 0;
		ahead += part->odd == 0 && part->waits > 0 &&
		    (own->waits == 0 || part->waits < own->waits) &&
		    t->now.nodes[part->slot].last > before;
	}
	if (own->odd > 0) {
		if ((others && (t->head.sent - own->odd >= SLICE || t->head.sent < own->odd)) ||
		    having >= odd) {
			own->odd = 0;
			own->waits = t->now.event;
			return 0;
		}
		return 1;
	}
	if (having + ahead < odd) {
		own->odd = t->head.sent;
		own->waits = 0;
		return 1;
	}
	if (own->waits == 0)
		own->waits = t->now.event;
	return 0;
}

static int64_t fair_part(struct turn *t, const struct lease_pool *pool, struct lease_part *own,
    int64_t places, int64_t needs, int64_t before) {
	int64_t level = places, rest = places, count = pool->count, last = -1;
	bool waiting[LEASE_SLOTS];

	memset(waiting, true, sizeof(waiting));
	while (needs > places && count != last) {
		last = count;
		level = rest / count;
		for (unsigned i = 0; i < pool->count; i++) {
			if (!waiting[i] || pool->parts[i].need > level)
				continue;
			rest -= pool->parts[i].need;
			waiting[i] = false;
			count--;
		}
	}
	if (needs > places && own->need > level && rest > level * count)
		return level + odd_one(t, pool, waiting, own, rest - level * count, before);
	own->odd = own->waits = 0;
	return level;
}

static void keep_pool(struct turn *t, const struct ask *ask, struct lease_pool *pool,
    struct lease_part *own) {
	struct lease_pool *stored;

	if (own->granted == 0 && own->need == 0 && ask->open == 0 && (ask->limit == PLACES_MAX ||
	    (strncmp(ask->name, "b:", 2) != 0 && strncmp(ask->name, "e:", 2) != 0))) {
		for (; own < &pool->parts[pool->count - 1]; own++)
			*own = own[1];
		pool->count--;
	}
	stored = pool_of(&t->now, ask->name, true);
	memcpy(pool->name, stored->name, sizeof(pool->name));
	*stored = *pool;
}

void lease_settle(struct turn *t, const struct ask *ask, int64_t most, bool waits,
    int64_t before) {
	struct lease_pool pool = { .count = 0 };
	struct lease_part *own = lease_read_pool(t, ask->name, &pool);
	bool tells = strncmp(ask->name, "b:", 2) == 0 || strncmp(ask->name, "e:", 2) == 0;
	int64_t hold, need, places, fair = 0, granted = 0;
	struct sum others;

	if (own == NULL) {
		own = &pool.parts[pool.count++];
		*own = (struct lease_part){ .slot = (int64_t)t->slot,
			.life = t->now.nodes[t->slot].life };
	}
	hold = least_of(ask->hold, own->granted);
	need = most_of(ask->need, hold);
	own->limit = ask->limit;
	own->fixed = ask->fixed;
	own->version = ask->version;
	own->open = ask->open;
	own->need = need;
	others = sum_up(&pool, own);
	places = most_of(0, others.limit - most * others.fixed);
	if (!waits) {
		fair = fair_part(t, &pool, own, places, others.need + need, before);
		granted = most_of(hold, least_of(least_of(others.lacking == 0 ?
		    most_of(ask->want, need) : need, fair),
		    most_of(hold, places - others.granted)));
		own->granted = granted;
		t->lacks |= need > granted && others.granted > 0 && tells;
		keep_pool(t, ask, &pool, own);
	}
	reply_number(t->reply, granted);
	reply_number(t->reply, fair);
	reply_number(t->reply, others.lacking);
	reply_number(t->reply, others.limit);
	reply_number(t->reply, places);
	reply_number(t->reply, most_of(0, places - others.granted - granted));
	reply_number(t->reply, others.differs || most != t->head.nodes);
}

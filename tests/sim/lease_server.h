/* SPDX-License-Identifier: ISC */
/* One pool of src/front/cluster/lease.lua, for laws in virtual time: max-min fairness, places of
 * too few in turns, and no grant before another has ended.  Included by one test program, behind
 * cmocka.h. */
#ifndef TESTS_SIM_LEASE_SERVER_H
#define TESTS_SIM_LEASE_SERVER_H

#include <stdbool.h>
#include <stdlib.h>

#define LEASE_NODES	3
#define LEASE_SLICE_MS	5000

struct lease_entry {
	bool alive;
	uint32_t granted, need, want;
	int64_t odd_ms, waits, last;	/* last: event of the node's last call */
};

struct lease_server {
	struct lease_entry entries[LEASE_NODES];
	uint32_t places;		/* leasable */
	int64_t event;
};

struct lease_answer {
	uint32_t granted, fair, others_short;
};

static inline uint32_t lease_least(uint32_t a, uint32_t b) {
	return a < b ? a : b;
}

/* Is one of `odd` places its own now, which as many need as have the same level? */
static inline uint32_t lease_odd(struct lease_server *server, struct lease_entry *own,
    uint32_t level, uint32_t odd, int64_t before, int64_t now_ms) {
	uint32_t having = 0, ahead = 0;
	bool others = false;

	for (unsigned i = 0; i < LEASE_NODES; i++) {
		const struct lease_entry *e = &server->entries[i];

		if (e == own || !e->alive || e->need <= level)
			continue;
		having += e->odd_ms > 0;
		others |= e->odd_ms == 0;
		ahead += e->odd_ms == 0 && e->waits > 0 &&
		    (own->waits == 0 || e->waits < own->waits) && e->last > before;
	}
	if (own->odd_ms > 0) {
		if ((!others || now_ms - own->odd_ms < LEASE_SLICE_MS) && having < odd)
			return 1;
		own->odd_ms = 0;
		own->waits = server->event;
		return 0;
	}
	if (having + ahead < odd) {
		own->odd_ms = now_ms;
		own->waits = 0;
		return 1;
	}
	if (own->waits == 0)
		own->waits = server->event;
	return 0;
}

static inline uint32_t lease_fair(struct lease_server *server, struct lease_entry *own,
    int64_t before, int64_t now_ms) {
	uint32_t rest = server->places, count = 0, level = 0;
	bool more = true;

	/* those that need no more than the level leave what they do not need to the others */
	while (more) {
		rest = server->places;
		count = 0;
		more = false;
		for (unsigned i = 0; i < LEASE_NODES; i++) {
			const struct lease_entry *e = &server->entries[i];

			if (e->alive && e->need <= level)
				rest -= e->need;
			else
				count += e->alive;
		}
		for (unsigned i = 0; i < LEASE_NODES && count > 0; i++)
			more |= server->entries[i].alive && server->entries[i].need > level &&
			    server->entries[i].need <= rest / count;
		if (count > 0)
			level = rest / count;
	}
	if (count == 0 || own->need <= level) {
		own->odd_ms = own->waits = 0;
		return count == 0 ? server->places : level;
	}
	if (rest == level * count) {
		own->odd_ms = own->waits = 0;
		return level;
	}
	return level + lease_odd(server, own, level, rest - level * count, before, now_ms);
}

static inline struct lease_answer lease_call(struct lease_server *server, unsigned node,
    uint32_t hold, uint32_t want, int64_t now_ms) {
	struct lease_entry *own = &server->entries[node];
	struct lease_answer answer = { 0, 0, 0 };
	uint32_t others = 0, most;
	int64_t before = own->last;

	own->alive = true;
	own->last = ++server->event;
	hold = lease_least(hold, own->granted);
	own->need = want > hold ? want : hold;
	for (unsigned i = 0; i < LEASE_NODES; i++) {
		const struct lease_entry *e = &server->entries[i];

		if (e == own || !e->alive)
			continue;
		others += e->granted;
		answer.others_short += e->need > e->granted ? e->need - e->granted : 0;
	}
	assert_true(others <= server->places);
	answer.fair = lease_fair(server, own, before, now_ms);
	most = server->places - others > hold ? server->places - others : hold;
	own->granted = lease_least(lease_least(own->need, answer.fair), most);
	if (own->granted < hold)
		own->granted = hold;
	assert_true(others + own->granted <= server->places);
	answer.granted = own->granted;
	return answer;
}

#endif

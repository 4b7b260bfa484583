/* SPDX-License-Identifier: ISC */
/* Limits of several machines: pools, parts and what must stay.  Integers only, no errors. */
#include "policy/window/share.h"

static uint32_t smaller(uint32_t a, uint32_t b) {
	return a < b ? a : b;
}

static uint32_t less(uint32_t a, uint32_t b) {
	return a > b ? a - b : 0;
}

struct share_pools share_pools_of(uint32_t sessions, uint32_t inbound) {
	uint32_t least = smaller(sessions, inbound);

	/* LIMIT_NONE is the greatest number: with one of them, base is the other. */
	if (sessions == LIMIT_NONE || inbound == LIMIT_NONE)
		return (struct share_pools){ least, 0 };
	return (struct share_pools){ least, (sessions > inbound ? sessions : inbound) - least };
}

static uint32_t static_part(uint32_t pool, uint32_t nodes, uint32_t percent) {
	uint32_t part;

	if (pool == LIMIT_NONE || nodes == 0)
		return 0;
	part = (uint32_t)((uint64_t)pool * percent / (100 * (uint64_t)nodes));
	return part == 0 && percent > 0 && pool / 2 >= nodes ? 1 : part;
}

struct share_pools share_static(struct share_pools whole, uint32_t nodes, uint32_t percent) {
	return (struct share_pools){ static_part(whole.base, nodes, percent),
		static_part(whole.extra, nodes, percent) };
}

struct share_pools share_leasable(struct share_pools whole, uint32_t nodes,
    struct share_pools fixed) {
	return (struct share_pools){ less(whole.base, nodes * fixed.base),
		less(whole.extra, nodes * fixed.extra) };
}

void share_limits(const struct limits *limits, struct share_pools own, struct limits *out) {
	uint64_t both = (uint64_t)own.base + own.extra;
	uint32_t most = both < LIMIT_NONE ? (uint32_t)both : LIMIT_NONE - 1;

	*out = *limits;
	if (limits->inbound != LIMIT_NONE)
		out->inbound = smaller(limits->inbound,
		    limits->inbound <= limits->sessions ? own.base : most);
	if (limits->sessions != LIMIT_NONE)
		out->sessions = smaller(limits->sessions,
		    limits->sessions <= limits->inbound ? own.base : most);
}

struct share_pools share_least(struct share_pools fixed, struct share_pools leased,
    uint32_t open, uint32_t open_small, struct share_pools to) {
	struct share_pools least = { smaller(leased.base, to.base),
		smaller(leased.extra, to.extra) };
	uint64_t places;
	uint32_t base = less(open_small, fixed.base), more;

	if (least.base < base)
		least.base = smaller(base, leased.base);
	places = (uint64_t)fixed.base + least.base + fixed.extra + least.extra;
	if (places >= open)
		return least;
	more = smaller((uint32_t)(open - places), leased.extra - least.extra);
	least.extra += more;
	places += more;
	if (places < open)
		least.base += smaller((uint32_t)(open - places), leased.base - least.base);
	return least;
}

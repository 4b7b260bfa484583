/* SPDX-License-Identifier: ISC */
/*
 * The choice of lanes.  Sets are small (16 lanes, four at a time: 2,516 sets), so all
 * of them are looked at; what is preferred stands in is_better.
 */
#include "policy/lane.h"

#define ALL_LANES	(LANE_ORIGIN - 1)
#define NS_PER_SECOND	(INT64_C(1000) * 1000 * 1000)
/* A set that can be had at once is as good as one that is a tenth wider. */
#define NEAR_NUMERATOR	9
#define NEAR_DENOMINATOR 10
#define DRAIN_LEAST_NS	(5 * NS_PER_SECOND / 2)	/* cached connections live for 2 s */
#define DRAIN_UNKNOWN_NS (5 * NS_PER_SECOND)
#define DRAIN_MOST_NS	(600 * NS_PER_SECOND)

static uint32_t count_of(lane_set set) {
	uint32_t count = 0;

	for (; set != 0; set &= set - 1)
		count++;
	return count;
}

uint32_t lane_sum(const struct lane_widths *widths, lane_set set) {
	uint32_t sum = 0;

	for (uint32_t i = 0; i < widths->count; i++)
		if ((set >> i & 1) != 0)
			sum += widths->width[i];
	if ((set & LANE_ORIGIN) != 0)
		sum += widths->origin == 0 ? UINT16_MAX : widths->origin;
	return sum;
}

struct search {
	const struct lane_widths *widths;
	lane_set used;
	uint32_t allowed;
	bool at_once;		/* only sets that fit beside all that is used */
	lane_set best;
	uint32_t best_sum;
};

/* Wider; else more of what is in use; else fewer lanes; else the one with the wider
 * lanes in it. */
static bool is_better(const struct search *search, lane_set set, uint32_t sum) {
	uint32_t kept, best_kept;

	if (sum != search->best_sum)
		return sum > search->best_sum;
	kept = lane_sum(search->widths, set & search->used & ALL_LANES);
	best_kept = lane_sum(search->widths, search->best & search->used & ALL_LANES);
	if (kept != best_kept)
		return kept > best_kept;
	if (count_of(set) != count_of(search->best))
		return count_of(set) < count_of(search->best);
	return set > search->best;
}

/* Sets with lanes of number `from` and above added to `set`; not deeper than
 * LANE_SET_MAX. */
static void search_from(struct search *search, uint32_t from, lane_set set,
    uint32_t left) {
	for (uint32_t i = from; i < search->widths->count && left > 0; i++) {
		lane_set more = set | UINT32_C(1) << i;
		uint32_t sum = lane_sum(search->widths, more);

		if (sum > search->allowed)
			break;		/* widths rise */
		if (search->at_once && lane_sum(search->widths, search->used | more) >
			search->allowed)
			continue;
		if (is_better(search, more, sum)) {
			search->best = more;
			search->best_sum = sum;
		}
		search_from(search, i + 1, more, left - 1);
	}
}

static lane_set best_set(const struct lane_widths *widths, lane_set used,
    uint32_t allowed, bool at_once) {
	struct search search = { .widths = widths, .used = used, .allowed = allowed,
		.at_once = at_once };

	search_from(&search, 0, 0, LANE_SET_MAX);
	return search.best;
}

/* What of `wanted` can be had now: lanes of it that are used, and the widest of the
 * others that fit beside everything. */
static lane_set part_of(const struct lane_widths *widths, lane_set wanted,
    lane_set used, uint32_t allowed) {
	lane_set part = wanted & used;

	for (uint32_t i = widths->count; i-- > 0;) {
		lane_set lane = UINT32_C(1) << i;

		if ((wanted & lane) != 0 && (part & lane) == 0 &&
		    lane_sum(widths, used | part | lane) <= allowed)
			part |= lane;
	}
	return part;
}

/* Something must be left before `wanted` can be had, of which there is `part`; what
 * fits beside all that is used is `near`. */
static lane_set give_meanwhile(const struct lane_widths *widths,
    const struct lane_now *now, uint32_t allowed, lane_set near, lane_set part) {
	uint32_t given = lane_sum(widths, now->given);
	bool is_wide = 2 * lane_sum(widths, part) >= allowed;

	if (now->given == 0)
		return near != 0 ? near : part;
	if (is_wide)
		return part;
	if (given <= allowed) {
		/* room for more: rather than through a narrow part of what might be, mail
		 * goes on as it does, unless it has waited for that */
		if (now->patient && part != 0)
			return part;
		return near != 0 ? near : now->given;
	}
	if ((now->waiting & now->given) == 0 && !now->patient)
		return now->given;	/* it will have drained before long */
	return now->limited ? 0 : now->given;
}

void lane_choose(const struct lane_widths *widths, const struct lane_now *now,
    struct lane_choice *choice) {
	uint32_t allowed = now->allowed;
	lane_set near, left;

	*choice = (struct lane_choice){ .give = 0 };
	if (allowed > 0 && widths->count > 0) {
		if (allowed < widths->width[0])
			allowed = widths->width[0];
		choice->wanted = best_set(widths, now->used, allowed, false);
		near = best_set(widths, now->used, allowed, true);
		if (NEAR_DENOMINATOR * lane_sum(widths, near) >=
		    NEAR_NUMERATOR * lane_sum(widths, choice->wanted))
			choice->give = near;
		else
			choice->give = give_meanwhile(widths, now, allowed, near,
			    part_of(widths, choice->wanted, now->used, allowed));
	}
	left = now->used & ~choice->give;
	choice->reload = (left & now->waiting) != 0 &&
	    lane_sum(widths, now->used | choice->give) > allowed;
}

uint32_t lane_canary(const struct lane_widths *widths, const struct lane_now *now,
    lane_set give) {
	if (give == 0 || (give & LANE_ORIGIN) != 0 || (now->used & ~give) != 0 ||
	    lane_sum(widths, give) != now->allowed || (now->waiting & give) != give)
		return LANE_WIDTHS_MAX;
	for (uint32_t i = 0; i < widths->count; i++)
		if ((give >> i & 1) == 0)
			return i;
	return LANE_WIDTHS_MAX;
}

int64_t lane_drained_ns(int64_t left_ns, int64_t last_ns, int64_t longest_ns) {
	int64_t from_ns = left_ns > last_ns ? left_ns : last_ns;
	int64_t quiet_ns = DRAIN_UNKNOWN_NS;

	/* one delivery may just have begun when the last one ended, and may be longer
	 * than any before */
	if (longest_ns > 0)
		quiet_ns = DRAIN_LEAST_NS + longest_ns / 2 * 3;
	if (quiet_ns > DRAIN_MOST_NS)
		quiet_ns = DRAIN_MOST_NS;
	return from_ns + quiet_ns;
}

uint32_t lane_share(uint32_t window, uint32_t rest, uint32_t waiting) {
	uint32_t left = window > rest ? window - rest : 0;
	uint32_t share = waiting > 1 ? left / waiting : left;

	if (window == 0)
		return 0;
	return share == 0 ? 1 : share;
}

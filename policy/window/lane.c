/* SPDX-License-Identifier: ISC */
/*
 * The choice of lanes.  Sets are small (16 lanes, four at a time: 2,516 sets), so all
 * of them are looked at; what is preferred stands in is_better.
 */
#include "policy/window/lane.h"

#include <stddef.h>

#define ALL_LANES	(LANE_ORIGIN - 1)
#define NS_PER_SECOND	(INT64_C(1000) * 1000 * 1000)
/* A set that can be had at once is as good as one that is a tenth wider. */
#define NEAR_NUMERATOR	9
#define NEAR_DENOMINATOR 10
#define REFUSED_ROW	2u	/* one may be chance */
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

/* All that may run when mail is given to this set, too. */
static uint32_t run_with(const struct lane_widths *widths, const struct lane_now *now,
    lane_set set) {
	lane_set all = now->used | set;
	bool counted = now->single < LANE_WIDTHS_MAX && (all >> now->single & 1) != 0;

	return lane_sum(widths, all) + (counted ? 0 : now->singles);
}

struct search {
	const struct lane_widths *widths;
	lane_set used, blocked;
	uint32_t allowed;
	const struct lane_now *beside;	/* only sets that fit beside all that runs now; or
					 * NULL */
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
		if ((search->blocked >> i & 1) != 0)
			continue;
		if (search->beside != NULL &&
		    run_with(search->widths, search->beside, more) > search->allowed)
			continue;
		if (is_better(search, more, sum)) {
			search->best = more;
			search->best_sum = sum;
		}
		search_from(search, i + 1, more, left - 1);
	}
}

static lane_set best_set(const struct lane_widths *widths, lane_set used,
    lane_set blocked, uint32_t allowed, const struct lane_now *beside) {
	struct search search = { .widths = widths, .used = used, .blocked = blocked,
		.allowed = allowed, .beside = beside };

	search_from(&search, 0, 0, LANE_SET_MAX);
	return search.best;
}

/* What of `wanted` can be had now: lanes of it that are used, and the widest of the
 * others that fit beside everything. */
static lane_set part_of(const struct lane_widths *widths, const struct lane_now *now,
    lane_set wanted, uint32_t allowed) {
	lane_set part = wanted & now->used;

	for (uint32_t i = widths->count; i-- > 0;) {
		lane_set lane = UINT32_C(1) << i;

		if ((wanted & lane) != 0 && (part & lane) == 0 &&
		    run_with(widths, now, part | lane) <= allowed)
			part |= lane;
	}
	return part;
}

/* Something must be left before `wanted` can be had; what fits beside all that is used
 * is `near`. */
static lane_set give_meanwhile(const struct lane_widths *widths,
    const struct lane_now *now, uint32_t allowed, lane_set wanted, lane_set near) {
	lane_set part = part_of(widths, now, wanted, allowed);
	uint32_t given = lane_sum(widths, now->given);
	bool is_soon = (now->used & ~part & now->slow) == 0;

	if (now->given == 0)
		return near != 0 ? near : part;
	if (part != 0 && (is_soon || 2 * lane_sum(widths, part) >= allowed))
		return part;
	if (given <= allowed) {
		/* room for more: rather than through a narrow part of what might be for
		 * long, mail goes on as it does, and single messages fill the rest */
		return near != 0 ? near : now->given;
	}
	if ((now->waiting & now->given) == 0 && !now->patient)
		return now->given;	/* it will have drained before long */
	return now->limited ? 0 : now->given;
}

static bool is_narrow(const struct lane_widths *widths, lane_set set, lane_set wanted) {
	return NEAR_DENOMINATOR * lane_sum(widths, set) <
	    NEAR_NUMERATOR * lane_sum(widths, wanted);
}

bool lane_is_refused(uint16_t width, uint32_t row, bool others) {
	return width == 1 && row >= REFUSED_ROW && others;
}

/* Lanes that mail must not be given to. */
static lane_set avoided(const struct lane_widths *widths, const struct lane_now *now,
    uint32_t allowed) {
	lane_set all = now->blocked | now->refused;

	return best_set(widths, now->used, all, allowed, NULL) != 0 ? all : now->blocked;
}

/* Lanes may come up to this.  Where it is not known how much is too much, a lane that is too
 * many would be refused again and again, until what was given to it has drained. */
static uint32_t widest(const struct lane_widths *widths, const struct lane_now *now) {
	uint32_t most = lane_sum(widths, now->given);

	if (most < now->proven)
		most = now->proven;
	return now->proven != 0 && most < now->allowed ? most : now->allowed;
}

void lane_choose(const struct lane_widths *widths, const struct lane_now *now,
    struct lane_choice *choice) {
	uint32_t allowed = widest(widths, now);
	lane_set wanted, near, barred;

	*choice = (struct lane_choice){ .give = 0 };
	if (allowed > 0 && widths->count > 0) {
		if (allowed < widths->width[0])
			allowed = widths->width[0];
		choice->wanted = best_set(widths, now->used, 0, allowed, NULL);
		barred = avoided(widths, now, allowed);
		wanted = best_set(widths, now->used, barred, allowed, NULL);
		near = best_set(widths, now->used, barred, allowed, now);
		if (!is_narrow(widths, near, wanted))
			choice->give = near;
		else
			choice->give = give_meanwhile(widths, now, allowed, wanted, near) &
			    ~barred;
	}
	choice->reload = (now->used & ~choice->give & now->waiting) != 0 &&
	    lane_sum(widths, now->used | choice->give) > allowed;
	/* single messages fill what is missed; for the greater part they are too slow */
	if ((now->blocked & choice->wanted) != 0 &&
	    2 * lane_sum(widths, choice->give) < lane_sum(widths, choice->wanted))
		choice->reload = true;
}

/* Mail waits in all that it was given to. */
static bool is_full(const struct lane_now *now, lane_set give) {
	return give != 0 && (give & LANE_ORIGIN) == 0 && (now->waiting & give) == give;
}

/* A connection that is kept would count beside those of the lanes that come next. */
static bool keeps(const struct lane_widths *widths, uint32_t lane) {
	return widths->keep_from != 0 && widths->width[lane] >= widths->keep_from;
}

/* Nothing is in it, and mail may be given to it. */
static bool is_free(const struct lane_now *now, lane_set give, uint32_t lane) {
	return ((now->used | give | now->blocked) >> lane & 1) == 0;
}

uint32_t lane_singles(const struct lane_widths *widths, const struct lane_now *now,
    lane_set give, uint32_t *lane) {
	uint32_t run = run_with(widths, now, give), gap, room;

	*lane = now->single;
	if (!is_full(now, give) || run >= now->allowed)
		return 0;
	gap = now->allowed - run;
	if (now->singles > 0 && now->single < widths->count) {
		room = widths->width[now->single];
		room = room > now->singles ? room - now->singles : 0;
		if (!is_free(now, give, now->single))
			return 0;
		return room < gap ? room : gap;
	}
	*lane = LANE_WIDTHS_MAX;
	for (uint32_t i = 0; i < widths->count; i++) {
		if (!is_free(now, give, i) || i == now->canary)
			continue;
		if (*lane != LANE_WIDTHS_MAX && keeps(widths, i) && !keeps(widths, *lane))
			break;
		*lane = i;
		if (widths->width[i] >= gap)
			break;
	}
	if (*lane == LANE_WIDTHS_MAX)
		return 0;
	return widths->width[*lane] < gap ? widths->width[*lane] : gap;
}

uint32_t lane_canary(const struct lane_widths *widths, const struct lane_now *now,
    lane_set give) {
	if (!is_full(now, give) || run_with(widths, now, give) != now->allowed)
		return LANE_WIDTHS_MAX;
	for (uint32_t i = 0; i < widths->count; i++)
		if (is_free(now, give, i) && (now->singles == 0 || i != now->single))
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

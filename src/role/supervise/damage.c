/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  See damage.h.
 * THREADS  One, the supervisor's.
 */
#include "role/supervise/damage.h"

#include "base/clock.h"

#define DEATHS		6
#define WITHIN_NS	(20 * NS_PER_SECOND)
#define APART_NS	(20 * NS_PER_SECOND)	/* it may be a bug of ours */
#define APART_LAST_NS	(2560 * NS_PER_SECOND)
#define AGAIN_NS	(5 * NS_PER_SECOND)

void damage_note(struct damage *damage, unsigned place, int64_t now_ns) {
	if (damage->deaths == 0 || now_ns - damage->since_ns > WITHIN_NS) {
		damage->deaths = 0;
		damage->places = 0;
		damage->since_ns = now_ns;
	}
	damage->deaths++;
	damage->places |= UINT64_C(1) << place;
}

static bool damage_is_of_one(const struct damage *damage) {
	return (damage->places & (damage->places - 1)) == 0;
}

bool damage_is_found(const struct damage *damage, int64_t now_ns) {
	return damage->deaths >= DEATHS && now_ns >= damage->from_ns &&
	    (!damage_is_of_one(damage) || now_ns >= damage->for_one_from_ns);
}

void damage_mended(struct damage *damage, int64_t now_ns) {
	int64_t *apart_ns = &damage->for_one_apart_ns;

	if (damage_is_of_one(damage)) {
		if (*apart_ns == 0 || now_ns - damage->for_one_from_ns > *apart_ns)
			*apart_ns = APART_NS;
		else if (*apart_ns < APART_LAST_NS)
			*apart_ns *= 2;
		damage->for_one_from_ns = now_ns + *apart_ns;
	}
	damage->from_ns = now_ns + APART_NS;
	damage->deaths = 0;
}

void damage_put_off(struct damage *damage, int64_t now_ns) {
	damage->from_ns = now_ns + AGAIN_NS;
}

/* SPDX-License-Identifier: ISC */
/*
 * The law probe beside those that others use (tests/sim/laws), means of six seeds; SEED tells the
 * first.  Best, or within 5 % of the best, in what a user feels: how long a backlog takes, and how
 * long one mail in a hundred waits.  What is refused costs reputation: nobody refuses a point less
 * who is not slower by that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"
#include "tests/sim/laws/laws.h"

#define SEEDS	6
#define WITHIN	1.05
#define POINT	1
#define LITTLE_S	2	/* of delay: the length of a delivery */

/* Where probe is not the best, and by how much at most. */
static const struct weakness {
	const char *site;
	double drain, delay;	/* times the best */
	bool refused;		/* somebody refuses less and is no slower */
} weaknesses[] = {
	/* It looks for more room with few canaries, as most limits never rise. */
	{ "5, then 20", 1.25, WITHIN, false },
	/* Who refuses less is slower, but not in each six seeds; a mail refused once more
	 * waits for 600 s. */
	{ "1 bad server of 4", WITHIN, 1.2, true },
	{ "25 % noise", WITHIN, 1.2, false },
};

static struct weakness weakness_of(const struct site *site) {
	for (size_t i = 0; i < sizeof(weaknesses) / sizeof(weaknesses[0]); i++)
		if (strcmp(weaknesses[i].site, site->name) == 0)
			return weaknesses[i];
	return (struct weakness){ site->name, WITHIN, WITHIN, false };
}

static bool is_beside(const struct site_result *probe, const struct site_result *other,
    const struct weakness *weakness) {
	bool refuses_less = other->refused < probe->refused - POINT &&
	    other->drain_s <= WITHIN * probe->drain_s && other->delay_s <= WITHIN * probe->delay_s;

	return probe->drain_s <= weakness->drain * other->drain_s &&
	    probe->delay_s <= weakness->delay * other->delay_s + LITTLE_S &&
	    (!refuses_less || weakness->refused);
}

TEST(nobody_is_better_than_probe) {
	const char *seed_text = getenv("SEED");
	uint64_t seed = seed_text != NULL ? strtoul(seed_text, NULL, 10) : 1;
	bool better = false;

	for (unsigned i = 0; i < site_count; i++) {
		struct weakness weakness = weakness_of(&sites[i]);
		struct site_result probe, other;

		assert_true(laws_mean(&sites[i], laws[LAW_PROBE], seed, SEEDS, &probe));
		for (unsigned j = LAW_PROBE + 1; j < LAW_COUNT; j++) {
			if (!laws_mean(&sites[i], laws[j], seed, SEEDS, &other) ||
			    is_beside(&probe, &other, &weakness))
				continue;
			printf("     %s: probe %.2f %% %.0f s %.0f s, %s %.2f %% %.0f s %.0f s\n",
			    sites[i].name, probe.refused, probe.drain_s, probe.delay_s,
			    laws[j]->name, other.refused, other.drain_s, other.delay_s);
			better = true;
		}
	}
	assert_false(better);
}

/* Durations say it alone: nobody else hears that. */
TEST(a_tarpit_is_heard_by_probe) {
	struct site_result oracle, probe, other;

	for (unsigned i = 0; i < site_count; i++) {
		if (sites[i].mode != SITE_TARPITS)
			continue;
		assert_true(laws_mean(&sites[i], laws[LAW_ORACLE], 1, SEEDS, &oracle));
		assert_true(laws_mean(&sites[i], laws[LAW_PROBE], 1, SEEDS, &probe));
		assert_true(probe.drain_s < 1.25 * oracle.drain_s);
		for (unsigned j = LAW_PROBE + 1; j < LAW_COUNT; j++)
			if (laws_mean(&sites[i], laws[j], 1, SEEDS, &other))
				assert_true(probe.drain_s < 0.5 * other.drain_s);
	}
}

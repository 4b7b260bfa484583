/* SPDX-License-Identifier: ISC */
/* Means of some seeds of each law at each site. */
#ifndef TESTS_SIM_LAWS_LAWS_H
#define TESTS_SIM_LAWS_LAWS_H

#include "tests/sim/laws/site.h"

/* NULL first: the oracle. */
static const struct law *const laws[] = {
	NULL, &law_probe, &law_postfix, &law_document, &law_aimd, &law_vegas, &law_gradient2,
	&law_envoy, &law_failsafe, &law_cinnamon, &law_bbr, &law_snap_back, &law_ramp,
	&law_two_modes, &law_two_modes_success,
};
#define LAW_COUNT	(sizeof(laws) / sizeof(laws[0]))
#define LAW_ORACLE	0
#define LAW_PROBE	1

/* refused and used in percent.  False: mail of the law was never taken. */
static inline bool laws_mean(const struct site *site, const struct law *law, uint64_t first_seed,
    uint32_t seeds, struct site_result *mean) {
	*mean = (struct site_result){ .refused = 0 };
	for (uint32_t i = 0; i < seeds; i++) {
		struct site_result result = { .refused = 0 };

		if (!site_run(site, law, first_seed + i, &result))
			return false;
		mean->refused += 100 * result.refused / seeds;
		mean->drain_s += result.drain_s / seeds;
		mean->used += 100 * result.used / seeds;
		mean->delay_s += result.delay_s / seeds;
	}
	return true;
}

#endif

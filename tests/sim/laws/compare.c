/* SPDX-License-Identifier: ISC */
/*
 * compare_laws [SEEDS]: the laws of concurrency beside each other (law.h) at each site (site.h),
 * means of seeds 1 to SEEDS (50), as a table.
 *
 *	refused	share of first attempts that the site refused or did not answer
 *	drain	time until 99 % of a backlog of 3000 were taken, beside an oracle that knows the limit
 *	used	share of the site's limit in use meanwhile
 *	delay	99th percentile of a stream at 70 % of the limit, in seconds
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/laws/laws.h"

#define SEEDS	50

int main(int argc, char **argv) {
	uint32_t seeds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : SEEDS;

	if (seeds == 0 || argc > 2) {
		fprintf(stderr, "usage: compare_laws [SEEDS]\n");
		return 64;
	}
	printf("seeds 1 to %u; every law begins with %u and has %u at most\n", seeds, LAW_INITIAL,
	    LAW_MOST);
	for (unsigned i = 0; i < site_count; i++) {
		double oracle_s = 0;

		printf("%-18srefused %%   drain x  used %%   delay s\n", sites[i].name);
		for (unsigned j = 0; j < LAW_COUNT; j++) {
			const char *name = j == LAW_ORACLE ? "oracle" : laws[j]->name;
			struct site_result mean;

			if (!laws_mean(&sites[i], laws[j], 1, seeds, &mean)) {
				printf("  %-14s  mail that was never taken\n", name);
				continue;
			}
			if (j == LAW_ORACLE)
				oracle_s = mean.drain_s;
			printf("  %-14s  %9.2f  %8.3f  %6.1f  %8.1f\n", name, mean.refused,
			    mean.drain_s / oracle_s, mean.used, mean.delay_s);
		}
	}
	for (unsigned j = LAW_PROBE; j < LAW_COUNT; j++)
		printf("%-14s  %s\n", laws[j]->name, laws[j]->source);
	return ferror(stdout) || fflush(stdout) != 0;
}

/* SPDX-License-Identifier: ISC */
/* A site that each input finds as the first one did: made once, then its state is copied back.
 * To make one takes a hundred times as long. */
#ifndef TESTS_FUZZ_FRESH_SITE_H
#define TESTS_FUZZ_FRESH_SITE_H

#include "tests/unit/site.h"

struct fresh_site {
	struct site site;
	uint64_t first;			/* generation in force before any input */
	unsigned char *pristine;
};

/* Before each input.  `classes`: of site_open_sized, of which this is the first call; 64
 * sessions and destinations. */
void fresh_site_begin(struct fresh_site *fresh, const char *classes);

/* Sessions that are open, of all classes. */
unsigned fresh_site_open(const struct fresh_site *fresh);

/* Counts are what slots say, and, where `limited`, none is above its class's limit. */
void fresh_site_check(const struct fresh_site *fresh, bool limited);

/* COUNTER_x */
uint64_t fresh_site_counted(const struct fresh_site *fresh, enum counter counter);

#endif

/* SPDX-License-Identifier: ISC */
/* What a judge has. */
#ifndef ENGINE_JUDGE_JUDGE_INTERNAL_H
#define ENGINE_JUDGE_JUDGE_INTERNAL_H

#include "base/pattern.h"
#include "engine/judge/judge.h"

struct judge_pattern {
	struct pattern *pattern;	/* NULL: not to be tried */
	unsigned given_up;
};

struct judge {
	const struct generation *generation;
	struct pattern_room *room;
	struct sieve *sieve;
	uint64_t given_up;
	struct judge_pattern *patterns;	/* by number of the rule */
	char line[PATTERN_SUBJECT_MAX];	/* of a reply of several */
};

#endif

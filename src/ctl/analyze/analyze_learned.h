/* SPDX-License-Identifier: ISC */
/* Destinations of a analyze by name, with what is known of each. */
#ifndef CTL_ANALYZE_LEARNED_H
#define CTL_ANALYZE_LEARNED_H

#include "base/map.h"
#include "base/siphash.h"
#include "ctl/analyze/analyze.h"
#include "policy/window/level.h"

#define LEARNED_RULES	4	/* with a count, of one destination */

struct rule_count {
	uint64_t identity;
	uint32_t count;
	int64_t since_ns;
};

struct learned {
	struct analyze_destination shown;
	bool has_window;
	uint32_t rolls_up;	/* provider of the domain's last relay, or JUDGE_NONE */
	uint32_t provider;
	unsigned mta;
	int64_t died_ns;
	struct level level;
	struct level_told lines;
	struct rule_count rules[LEARNED_RULES];
};

struct analyze_learning {
	const struct generation *generation;
	struct siphash_key key;
	struct map by_name;
	struct learned **all;
	size_t count, size;
	const struct analyze_destination **list;
	struct analyze_actions actions;
	int64_t now_ns;
};

/* NULL: it is not known. */
struct learned *analyze_learned_find(const struct analyze_learning *learning, const char *name);
/* Made if need be; NULL: no memory. */
struct learned *analyze_learned_get(struct analyze_learning *learning, const char *name);

#endif

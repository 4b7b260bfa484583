/* SPDX-License-Identifier: ISC */
/* Destinations of a analyze by name, with what is known of each. */
#ifndef CTL_ANALYZE_LEARNED_H
#define CTL_ANALYZE_LEARNED_H

#include "base/map.h"
#include "base/siphash.h"
#include "engine/judge/judge.h"
#include "policy/window/level.h"
#include "policy/window/window.h"

#define LEARNED_RULES	4	/* with a count, of one destination */

struct rule_count {
	uint64_t identity;
	uint32_t count;
	int64_t since_ns;
};

/* Of one destination. */
struct learned {
	char name[JUDGE_NAME_MAX + 1];
	bool has_window;	/* else it is a domain of a provider, and nothing is shown */
	struct window window;
	struct window_settings settings;
	uint64_t ok, failed;
	uint64_t suspended;	/* the mail server held it itself */
	uint64_t deaths;	/* suspensions, by cohorts or by a rule */
	uint64_t held;		/* attempts that Postern would have held */
	uint64_t saved;		/* of these, those that failed */
	uint64_t delayed;	/* and those that went through */
	char reason[160 + 1];	/* of the last failure */
	uint32_t rolls_up;	/* provider of the domain's last relay, or JUDGE_NONE */
	uint32_t provider;
	unsigned mta;
	int64_t died_ns;
	struct level level;
	struct level_told lines;
	struct rule_count rules[LEARNED_RULES];
};

struct analyze_actions {
	uint64_t suspensions, ceilings, recipients_held, alerts;
};

struct analyze_learning {
	const struct generation *generation;
	struct siphash_key key;
	struct map by_name;
	struct learned **all;
	size_t count, size;
	struct analyze_actions actions;
	int64_t now_ns;
};

void analyze_learning_begin(struct analyze_learning *learning, const struct generation *generation);
void analyze_learning_end(struct analyze_learning *learning);

/* When a result was logged. */
struct analyze_moment {
	int64_t now_ns;		/* never goes back */
	int64_t end_ns;		/* as the line itself says: now_ns, or before it */
	int64_t slack_ns;	/* of that */
};
void analyze_learn(struct analyze_learning *learning, const struct delivery *delivery,
    const struct judgement *judgement, const struct analyze_moment *moment);
/* Nothing more will come. */
void analyze_learn_end(struct analyze_learning *learning);
/* By failures, most first. */
void analyze_learned_sort(struct analyze_learning *learning);

/* NULL: it is not known. */
struct learned *analyze_learned_find(const struct analyze_learning *learning, const char *name);
/* Made if need be; NULL: no memory. */
struct learned *analyze_learned_get(struct analyze_learning *learning, const char *name);

#endif

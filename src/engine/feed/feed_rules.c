/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Thresholds of provider rules: so many replies in so much time; and what rules do
 *          to windows.
 * MODEL    A small table of rule x destination (or recipient), each with the times of
 *          its last matches; of a full bucket the one that was used longest ago goes.
 * ERRORS   Without memory a rule with a threshold does nothing.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/feed/feed_internal.h"

#define BUCKETS		1024
#define WAYS		8
#define TIMES_MAX	1000

struct feed_match {
	uint64_t identity;	/* of the rule; with key 0: free */
	uint64_t key;
	int64_t used_ns;
	int64_t quiet_ns;
	uint32_t size, next, filled;
	int64_t *times;		/* of the last `size` matches, a ring */
};

struct feed_matches {
	struct feed_match ways[BUCKETS][WAYS];
};

struct feed_matches *feed_matches_open(void) {
	return calloc(1, sizeof(struct feed_matches));
}

void feed_matches_close(struct feed_matches **matches) {
	if (*matches == NULL)
		return;
	for (unsigned i = 0; i < BUCKETS; i++)
		for (unsigned j = 0; j < WAYS; j++)
			free((*matches)->ways[i][j].times);
	free(*matches);
	*matches = NULL;
}

static uint32_t size_of(const struct judge_rule *rule) {
	return rule->count < 1 ? 1 : rule->count > TIMES_MAX ? TIMES_MAX : rule->count;
}

/* Makes it that of this rule and key. */
static bool begin(struct feed_match *match, const struct judge_rule *rule, uint64_t key) {
	uint32_t size = size_of(rule);
	int64_t *times = calloc(size, sizeof(*times));

	if (times == NULL)
		return false;
	free(match->times);
	*match = (struct feed_match){ .identity = rule->identity, .key = key, .size = size,
		.times = times };
	return true;
}

struct feed_match *feed_match(struct feed_matches *matches, const struct judge_rule *rule,
    uint64_t key, int64_t now_ns) {
	struct feed_match *ways = matches->ways[(rule->identity ^ key) % BUCKETS];
	struct feed_match *found = &ways[0];

	for (unsigned i = 0; i < WAYS; i++) {
		if (ways[i].key == key && ways[i].identity == rule->identity) {
			found = &ways[i];
			break;
		}
		if (ways[i].used_ns < found->used_ns)
			found = &ways[i];
	}
	/* another one, or the rule was given another count */
	if (found->key != key || found->identity != rule->identity ||
	    found->size != size_of(rule)) {
		if (!begin(found, rule, key))
			return NULL;
	}
	found->used_ns = now_ns;
	return found;
}

bool feed_match_counts(struct feed_match *match, const struct judge_rule *rule,
    int64_t now_ns) {
	if (match->size == 1)
		return true;
	match->times[match->next] = now_ns;
	match->next = (match->next + 1) % match->size;
	if (match->filled < match->size)
		match->filled++;
	if (match->filled < match->size ||
	    now_ns - match->times[match->next] > rule->period_ns)
		return false;
	match->filled = 0;	/* the next action takes as many again */
	return true;
}

bool feed_match_is_quiet(struct feed_match *match, int64_t now_ns, int64_t until_ns) {
	if (now_ns < match->quiet_ns)
		return true;
	match->quiet_ns = until_ns;
	return false;
}

static void set_ceiling(struct feed_learning *l) {
	struct destination_state *state = &l->lock.state;
	struct window *window = &state->window;

	if ((state->flags & DESTINATION_CEILING) != 0 ||
	    (window->ceiling != 0 && window->ceiling <= l->rule.ceiling))
		return;
	window_set_ceiling(window, &l->rules.settings, l->rule.ceiling, l->result->now_ns);
	if (l->rule.for_ns > 0)
		window->canary_ns = l->rule_end_ns;
	l->told.ruled = true;
}

static void suspend_window(struct feed_learning *l) {
	struct window *window = &l->lock.state.window;
	bool was_stopped = window_is_shut(window) && window->cause != WINDOW_CAUSE_COHORTS;

	/* what people say stands: its end, and their reason */
	if (window_is_by_hand(window))
		return;
	window_suspend(window, WINDOW_CAUSE_RULE, l->rule_end_ns);
	l->told.ruled = !was_stopped;
}

void feed_rule_acts(struct feed_learning *l) {
	if (l->rule.action == REPLY_ACTION_CEILING)
		set_ceiling(l);
	else if (l->rule.action == REPLY_ACTION_SUSPEND)
		suspend_window(l);
}

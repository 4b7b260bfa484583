/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What windows would have learned from a log, and what they would have held.
 * MODEL    For each destination the window of policy/window/window.h and the levels of
 *          policy/window/level.h, fed as the daemon feeds them; what was held is told by the
 *          window as it stood when an attempt's level became known: above it, or
 *          begun while it was dead.  The attempts were made all the same, and teach.
 *          A domain whose result tells no relay belongs to the provider that its last
 *          relay was of.
 * ERRORS   Without memory a destination is left out, and a level is not known.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "base/text.h"
#include "ctl/analyze/analyze_learned.h"

#define ENTRIES_FIRST	8u
#define ENTRIES_MAX	16384u
#define TAG_HELD	0x100		/* beside the class: counted already */

/* --- whose ------------------------------------------------------------------------- */

/* A domain in lower case, as a destination is named. */
static bool fold_domain(struct span domain, char out[JUDGE_NAME_MAX + 1]) {
	if (domain.length == 0 || domain.length > JUDGE_NAME_MAX)
		return false;
	text_lower(out, domain.text, domain.length);
	out[domain.length] = '\0';
	return true;
}

/* The domain's entry knows its provider, where a relay told it once. */
static uint32_t rolled_up(struct analyze_learning *learning, const struct delivery *delivery,
    const struct judgement *judgement) {
	bool tried = judgement->tried.name.length > 0 ||
	    !address_is_unknown(&judgement->tried.address);
	char domain[JUDGE_NAME_MAX + 1];
	struct learned *own;

	if (judgement->owner.kind == DESTINATION_RELAY || !fold_domain(delivery->domain, domain))
		return JUDGE_NONE;
	if (!tried) {
		own = analyze_learned_find(learning, domain);
		return own == NULL ? JUDGE_NONE : own->rolls_up;
	}
	own = judgement->owner.provider == JUDGE_NONE ? analyze_learned_find(learning, domain) :
	    analyze_learned_get(learning, domain);
	if (own != NULL)
		own->rolls_up = judgement->owner.provider;
	return judgement->owner.provider;
}

static struct learned *owner(struct analyze_learning *learning, const struct delivery *delivery,
    const struct judgement *judgement) {
	uint32_t provider = rolled_up(learning, delivery, judgement);
	char name[JUDGE_NAME_MAX + 1];
	struct learned *own;

	if (provider == JUDGE_NONE ||
	    !judge_provider_destination(learning->generation, provider, name) ||
	    !judge_transport_name(learning->generation, judgement->mta <
		learning->generation->mta_count ? &learning->generation->mtas[judgement->mta] :
		NULL, name))
		memcpy(name, judgement->owner.name, sizeof(name));
	own = analyze_learned_get(learning, name);
	if (own == NULL)
		return NULL;
	own->provider = provider;
	own->mta = judgement->mta;
	(void)generation_window_settings(learning->generation, own->mta, name, strlen(name),
	    provider, &own->settings);
	if (own->has_window) {
		window_adjust(&own->window, &own->settings);
	} else {
		window_begin(&own->window, &own->settings);
		own->has_window = true;
	}
	return own;
}

/* --- an attempt --------------------------------------------------------------------- */

struct attempt {
	struct learned *own;
	const struct judgement *judgement;
	enum result_class class;	/* as the window hears of it */
	enum judged_weight weight;
	int64_t end_ns, start_ns;	/* start_ns 0: not known */
	int64_t given_ns;	/* to the mail server, past recall; 0: not known */
	int64_t slack_ns;
	bool kept;		/* its connection may be */
};

static void find_start(const struct delivery *d, struct attempt *out) {
	if (level_began(d, out->end_ns, &out->start_ns, &out->slack_ns) && out->start_ns > 0 &&
	    d->source != DELIVERY_OF_SENDMAIL)
		out->given_ns = level_given_ns(out->start_ns, out->slack_ns, d->delays_ms[1]);
}

/* Did another line tell of this delivery? */
static bool was_told(struct analyze_learning *learning, const struct attempt *attempt,
    struct span id) {
	return level_was_told(&attempt->own->lines, id.length == 0 ? 0 :
	    siphash13(&learning->key, id.text, id.length),
	    attempt->start_ns != 0 ? attempt->start_ns : attempt->end_ns,
	    2 * attempt->slack_ns + NS_PER_MS, (uint8_t)attempt->weight);
}

static void count_held(struct learned *own, enum judged_weight weight) {
	own->held++;
	own->saved += weight == JUDGED_NEGATIVE;
	own->delayed += weight == JUDGED_POSITIVE;
}

static void note_change(struct learned *own, const struct window_change *change,
    int64_t now_ns) {
	if (!change->died)
		return;
	own->deaths++;
	own->died_ns = now_ns;
}

static void take_verdicts(struct learned *own, int64_t due_ns, int64_t now_ns) {
	struct level_verdict verdict;
	struct window_change change;

	while (own->level.entries != NULL && level_next(&own->level, due_ns, &verdict)) {
		enum result_class class = (enum result_class)(verdict.tag & 0xff);

		if ((verdict.tag & TAG_HELD) == 0 && verdict.level > 0 &&
		    own->window.state != WINDOW_DEAD &&
		    verdict.level > window_now(&own->window, &own->settings, now_ns))
			count_held(own, judged_weight(class));
		window_late_level(&own->window, &own->settings, class,
		    level_heard(&verdict, own->window.ceiling), now_ns, &change);
		note_change(own, &change, now_ns);
		if (class != RESULT_OK)
			continue;
		window_took(&own->window, &own->settings, &verdict, now_ns, &change);
		note_change(own, &change, now_ns);
	}
}

static void add_attempt(struct attempt *attempt, bool held, int64_t now_ns) {
	struct level *level = &attempt->own->level;
	const struct level_attempt one = { .start_ns = attempt->start_ns,
		.end_ns = attempt->end_ns,
		.slack_ns = attempt->slack_ns, .accepted = attempt->weight == JUDGED_POSITIVE,
		.kept = attempt->kept,
		.tag = (uint64_t)attempt->class | (held ? TAG_HELD : 0) };

	if (attempt->start_ns == 0 || attempt->weight == JUDGED_NEUTRAL)
		return;
	if (level->entries == NULL || level_count(level) == level->capacity) {
		uint32_t capacity = level->entries == NULL ? ENTRIES_FIRST : 4 * level->capacity;
		struct level_entry *old = level->entries;
		struct level_entry *entries = capacity > ENTRIES_MAX ? NULL :
		    calloc(capacity, sizeof(*entries));

		if (entries == NULL && old == NULL)
			return;
		if (entries != NULL && old == NULL)
			level_begin(level, entries, capacity);
		else if (entries != NULL) {
			level_move(level, entries, capacity);
			free(old);
		}
	}
	(void)level_add(level, &one, now_ns);
}

/* --- rules -------------------------------------------------------------------------- */

/* So many within the period, which begins with the first; a rule beyond those that are
 * remembered acts at once. */
static bool rule_fires(struct learned *own, const struct judge_rule *rule, int64_t now_ns) {
	struct rule_count *count = NULL;

	for (unsigned i = 0; i < LEARNED_RULES && count == NULL && rule->count > 1; i++)
		if (own->rules[i].identity == rule->identity || own->rules[i].identity == 0)
			count = &own->rules[i];
	if (count == NULL)
		return true;
	if (count->identity == 0 || now_ns - count->since_ns > rule->period_ns)
		*count = (struct rule_count){ rule->identity, 0, now_ns };
	if (++count->count < rule->count)
		return false;
	count->count = 0;
	return true;
}

static void apply_rule(struct analyze_learning *learning, struct learned *own,
    const struct judgement *judgement, int64_t now_ns) {
	struct window *window = &own->window;
	struct judge_rule rule;
	int64_t for_ns;

	if (judgement->rule == JUDGE_NONE)
		return;
	judge_rule(learning->generation, judgement->rule, &rule);
	for_ns = rule.for_ns > 0 ? rule.for_ns : own->settings.suspend_ns;
	if (rule.action == REPLY_ACTION_NONE || !rule_fires(own, &rule, now_ns))
		return;
	if (rule.action == REPLY_ACTION_SUSPEND) {
		if (window->state != WINDOW_DEAD)
			note_change(own, &(struct window_change){ .died = true }, now_ns);
		learning->actions.suspensions++;
		window_suspend(window, WINDOW_CAUSE_RULE, now_ns + for_ns);
	} else if (rule.action == REPLY_ACTION_CEILING) {
		if (window->ceiling == 0 || window->ceiling > rule.ceiling) {
			learning->actions.ceilings++;
			window_set_ceiling(window, &own->settings, rule.ceiling, now_ns);
		}
	} else if (rule.action == REPLY_ACTION_HOLD_RECIPIENT) {
		learning->actions.recipients_held++;
	} else if (rule.action == REPLY_ACTION_ALERT) {
		learning->actions.alerts++;
	}
}

/* --- all of it ------------------------------------------------------------------------ */

static void count_result(struct learned *own, const struct reply *reply) {
	if (reply->class == RESULT_OK) {
		own->ok++;
	} else if (reply->class == RESULT_SUSPENDED) {
		own->suspended++;
	} else if (reply->class != RESULT_LOCAL) {
		own->failed++;
		text_copy(own->reason, sizeof(own->reason), reply->words.text,
		    reply->words.length);
	}
}

void analyze_learn(struct analyze_learning *learning, const struct delivery *delivery,
    const struct judgement *judgement, const struct analyze_moment *moment) {
	struct attempt attempt = { .judgement = judgement, .end_ns = moment->end_ns,
		.slack_ns = moment->slack_ns };
	int64_t now_ns = moment->now_ns;
	struct window_change change;
	struct learned *own;
	bool held;

	learning->now_ns = now_ns;
	if (judgement->owner.kind == DESTINATION_NONE ||
	    (own = owner(learning, delivery, judgement)) == NULL)
		return;
	attempt.own = own;
	attempt.class = judge_heard(learning->generation, judgement);
	attempt.weight = judged_weight(attempt.class);
	find_start(delivery, &attempt);
	attempt.kept = judge_keeps(learning->generation, judgement, delivery);
	window_turn(&own->window, &own->settings, 0, now_ns, &change);
	take_verdicts(own, now_ns, now_ns);
	if (was_told(learning, &attempt, delivery->queue_id))
		return;
	count_result(own, &judgement->reply);
	held = attempt.weight != JUDGED_NEUTRAL && own->window.state == WINDOW_DEAD &&
	    (attempt.start_ns == 0 ? attempt.end_ns : attempt.start_ns) > own->died_ns;
	if (held)
		count_held(own, attempt.weight);
	window_result(&own->window, &own->settings, &(struct window_result){
		.class = attempt.class, .start_ns = attempt.start_ns,
		.took_ns = attempt.start_ns != 0 ? attempt.end_ns - attempt.start_ns : 0,
		.given_ns = attempt.given_ns, .answered = judgement->reply.code != 0,
		.in_flight = level_running(&own->level, now_ns) }, now_ns, &change);
	note_change(own, &change, now_ns);
	add_attempt(&attempt, held, now_ns);
	apply_rule(learning, own, judgement, now_ns);
}

void analyze_learn_end(struct analyze_learning *learning) {
	struct window_change change;

	for (size_t i = 0; i < learning->count; i++) {
		struct learned *own = learning->all[i];

		if (!own->has_window)
			continue;
		take_verdicts(own, INT64_MAX, learning->now_ns);
		window_turn(&own->window, &own->settings, 0, learning->now_ns,
		    &change);
	}
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What a window learns from one result, and what the rule does that its reply
 *          matched.
 * MODEL    One transaction on the destination's slot: levels that are known by now,
 *          the result, the rule's action, counts and reason.  All that needs memory is
 *          found before, all that tells somebody comes after.  A delivery with several
 *          recipients has a line for each, and is one result: the worst of them.
 * ERRORS   A slot that cannot be had: nothing is learned, what was due comes again.
 * THREADS  One.
 */
#include <string.h>

#include "base/clock.h"
#include "engine/decision/decided.h"
#include "engine/feed/feed_internal.h"
#include "policy/limit/rate.h"
#include "segment/destination/flights.h"

#define VERDICTS_MAX	16

/* --- before ---------------------------------------------------------------------- */

/* The level, where the mail server told it at the start. */
static void find_level(struct feed_learning *l) {
	const struct feed_result *result = l->result;
	const struct delivery *d = result->delivery;
	struct flight_attempt attempt;
	uint32_t running;

	if (d->queue_id.length == 0)
		return;
	if (d->source == DELIVERY_OF_SENDMAIL) {
		struct segment *segment = result->memory->engine->segment;
		uint64_t hash = flights_queue_hash(segment, d->queue_id.text,
		    d->queue_id.length);

		l->asked = flights_find_attempt(segment, result->owner.name,
		    strlen(result->owner.name), hash, result->now_ns, &attempt);
		if (l->asked) {
			l->canary = attempt.canary;
			l->connected = attempt.connected;
			l->level = attempt.level;
		}
	} else if (result->memory->starts != NULL && l->destination != NULL) {
		l->level = feed_starts_end(result->memory->starts, l->destination->hash,
		    l->queue, result->now_ns, &running);
		if (l->level != 0) {
			l->destination->running = running;
			l->destination->running_ns = result->now_ns;
		}
	}
}

/* The reason that the slot is to have from now on. */
static void find_reason(struct feed_learning *l) {
	struct span words = l->result->judgement->reply.words;

	if (l->weight != JUDGED_NEGATIVE && !l->has_rule)
		return;
	(void)windows_reason(words.text, words.length, l->reason);
	l->has_reason = true;
}

/* --- inside ------------------------------------------------------------------------ */

static void count_delivery(struct destination_state *state, enum result_class class) {
	if (class == RESULT_OK)
		state->ok++;
	else if (class == RESULT_SUSPENDED)
		state->held++;
	else if (class != RESULT_LOCAL)
		state->failed++;
}

static void write_reason(struct feed_learning *l) {
	if (l->has_reason && !window_is_by_hand(&l->lock.state.window))
		l->lock.reason = l->reason;
}

/* A destination that fails all the time does not wash out what others did. */
static bool may_note_failure(struct feed_learning *l) {
	static const struct rate_limit limit = { .period_ns = NS_PER_SECOND, .count = 10,
		.burst = 100 };
	struct feed_destination *destination = l->destination;
	int64_t now_ns = l->result->now_ns;

	if (destination == NULL)
		return true;
	if (!rate_allows(&limit, destination->failure_tat_ns, now_ns))
		return false;
	destination->failure_tat_ns = rate_after(&limit, destination->failure_tat_ns, now_ns);
	return true;
}

/* The ids of what is to be told: the slot remembers by what it is held. */
static void claim(struct feed_learning *l, const struct window *was) {
	struct engine *engine = l->result->memory->engine;
	struct feed_destination *destination = l->destination;
	bool was_stopped = was->state == WINDOW_DEAD || was->state == WINDOW_HELD;
	bool failed = l->counts && l->weight == JUDGED_NEGATIVE && !was_stopped;
	bool ruled = l->told.ruled && l->rule.action == REPLY_ACTION_SUSPEND;

	l->told.fell = l->lock.state.window.ceiling != 0 &&
	    (was->ceiling == 0 || l->lock.state.window.ceiling < was->ceiling);
	if (l->told.died || ruled || ((failed || l->fires) && may_note_failure(l)))
		l->told.failure = decided_claim_event(engine);
	/* a row of failures: a success ends it */
	if (destination != NULL && l->told.failure != 0) {
		l->told.cause = was->fail_cohorts > 0 ? destination->failure : 0;
		destination->failure = l->told.failure;
	}
	if (l->told.died)
		l->told.died_by = l->lock.event = decided_claim_event(engine);
	if (ruled)
		l->told.held_by = l->lock.event = decided_claim_event(engine);
}

/* Under the lock. */
static void learn(struct feed_learning *l, const struct level_verdict *verdicts, unsigned count) {
	struct destination_state *state = &l->lock.state;
	struct feed_result *result = l->result;
	const struct window was = state->window;

	l->told.before = was.concurrency;
	l->told.ceiling_before = was.ceiling;
	l->told.would_hold = !l->asked && l->weight != JUDGED_NEUTRAL &&
	    (state->window.state == WINDOW_DEAD || state->window.state == WINDOW_HELD) &&
	    windows_observed(result->generation, &result->owner);
	feed_hear_echo(l);
	feed_hear_levels(&l->lock, &l->rules, verdicts, count, result->now_ns, &l->told);
	l->counts = l->destination == NULL || !feed_was_told(l->destination, l->queue,
	    result->start_ns, 2 * result->slack_ns + NS_PER_MS, l->weight);
	/* mail that was kept waits for a place */
	if (l->class == RESULT_SUSPENDED)
		shared_ask(l->lock.segment, l->lock.key.hash, result->now_ns);
	if (l->counts) {
		count_delivery(state, result->judgement->reply.class);
		feed_hear(l);
	}
	feed_act(l);
	claim(l, &was);
	write_reason(l);
	if (l->destination != NULL) {
		uint32_t running = feed_running(l->destination, result->now_ns);

		l->destination->told_running = running;
		state->running = (uint16_t)(running < UINT16_MAX ? running : UINT16_MAX);
	}
	l->lock.origin = result->origin;
}

/* --- after ------------------------------------------------------------------------- */

void feed_report(const struct feed_learning *l, enum window_happened what) {
	const struct feed_result *result = l->result;
	struct window_report report = windows_report_of(result->generation, &result->owner,
	    &l->lock.state, &l->rules.settings, what, result->now_ns);

	report.before = l->told.before;
	report.ceiling_before = l->told.ceiling_before;
	report.limit = l->rules.settings.failed_cohort_limit;
	report.delivery = result->delivery;
	report.cause = l->told.failure;
	report.silent = what == WINDOW_FAILED || (what == WINDOW_CHANGED && !l->rules.debug) ||
	    (what == WINDOW_RULE_HELD && l->told.quiet);
	if (what == WINDOW_FAILED) {
		report.id = l->told.failure;
		report.cause = l->told.cause;
		report.at_ns = result->end_ns;
		report.for_ns = 0;
	} else if (what == WINDOW_DIED) {
		report.id = l->told.died_by;
	} else if (what == WINDOW_RULE_SUSPENDED || what == WINDOW_RULE_HELD) {
		report.id = l->told.held_by;
	}
	report.rule = l->has_rule ? &l->rule : NULL;
	report.judgement = result->judgement;
	report.reason = l->reason;
	if (what == WINDOW_RULE_HELD) {
		report.name = result->delivery->recipient.text;
		report.name_length = result->delivery->recipient.length;
		report.for_ns = feed_rule_end_ns(l) - result->now_ns;
	}
	windows_report(result->memory->engine, &report);
}

static void tell(struct feed_learning *l) {
	if (l->told.back)
		feed_report(l, WINDOW_BACK);
	if (l->told.failure != 0)
		feed_report(l, WINDOW_FAILED);
	if (l->told.died) {
		engine_count(l->result->memory->engine, COUNTER_SUSPENSIONS, 1);
		feed_report(l, WINDOW_DIED);
	}
	if (l->told.would_hold)
		engine_count(l->result->memory->engine, COUNTER_WINDOW_HOLDS_OBSERVED, 1);
	if ((l->told.changed && l->rules.debug) || l->told.fell)
		feed_report(l, WINDOW_CHANGED);
	if (l->fires)
		feed_tell_action(l);
}

/* Whoever asked, and could not connect, does not try again: it has no connection there,
 * and so no place. */
static void free_place(const struct feed_learning *l) {
	const struct feed_result *result = l->result;
	struct segment *segment = result->memory->engine->segment;
	struct span id = result->delivery->queue_id;

	/* an echo, too */
	if (l->asked && !l->connected && judged_weight(judge_heard(result->generation, result->judgement)) == JUDGED_NEGATIVE)
		(void)flights_end_attempt(segment, result->owner.name,
		    strlen(result->owner.name), flights_queue_hash(segment, id.text, id.length),
		    result->now_ns);
}

/* Attempts whose level nobody told get it when those that began before have ended. */
static void add_attempt(struct feed_learning *l) {
	const struct feed_result *result = l->result;
	const struct level_attempt attempt = {
		.start_ns = result->start_ns, .end_ns = result->end_ns,
		.slack_ns = result->slack_ns,
		.tag = (uint64_t)l->class | (l->canary ? FEED_TAG_CANARY : 0),
		.accepted = l->weight == JUDGED_POSITIVE,
		.kept = judge_keeps(result->generation, result->judgement, result->delivery),
	};

	if (l->destination == NULL || !l->counts || l->level != 0 || !result->has_start ||
	    l->weight == JUDGED_NEUTRAL)
		return;
	feed_add_attempt(result->memory, l->destination, &attempt, result->now_ns);
}

/* From which mail server, for a provider or a relay that was not known before. */
static void note_mta(const struct feed_result *result) {
	const struct delivery_seen seen = { .name = result->owner.name,
		.name_length = strlen(result->owner.name),
		.mta = (uint8_t)result->judgement->mta, .cloned = result->judgement->cloned };

	(void)destinations_note(result->memory->engine->segment, &seen, result->now_ns);
}

/* --- all of it ------------------------------------------------------------------------ */

static unsigned due_levels(struct feed_destination *destination, int64_t now_ns,
    struct level_verdict verdicts[VERDICTS_MAX]) {
	unsigned count = 0;

	while (destination != NULL && count < VERDICTS_MAX &&
	    level_next(&destination->level, now_ns, &verdicts[count]))
		count++;
	return count;
}

/* Whose it is, in our memory and in the segment, which is fetched meanwhile. */
static bool aim(struct feed_learning *l) {
	struct feed_result *result = l->result;
	struct feed_memory *memory = result->memory;

	if (result->expected != NULL)
		result->key = *result->expected;
	else if (!states_key(memory->engine->segment, result->owner.name,
	    strlen(result->owner.name), &result->key))
		return false;
	if (l->weight != JUDGED_NEUTRAL || l->class == RESULT_SUSPENDED)
		l->destination = feed_destination(memory, &result->owner, &result->key,
		    result->now_ns);
	if (l->destination != NULL) {
		l->destination->mta = result->judgement->mta;
		result->key.place = l->destination->place;
	}
	states_aim_at(memory->engine->segment, &result->key, &l->lock);
	return true;
}

/* The transaction.  False: nothing was learned. */
static bool change(struct feed_learning *l) {
	struct feed_result *result = l->result;
	struct level_verdict verdicts[VERDICTS_MAX];
	struct window_change change;
	unsigned count;
	bool create = l->weight != JUDGED_NEUTRAL || l->match != NULL || result->seen != NULL;

	if (windows_lock_aimed(&l->lock, &l->rules, result->now_ns, create ? STATES_CREATE :
	    STATES_KNOWN_ONLY, &change) != STATES_HELD)
		return false;
	if (result->seen != NULL)
		states_note(&l->lock, result->seen);
	result->repeated = states_was_applied(&l->lock, &result->origin);
	if (!result->repeated) {
		feed_note_change(&l->told, &change);
		count = due_levels(l->destination, result->now_ns, verdicts);
		learn(l, verdicts, count);
		states_store(&l->lock);
	}
	if (l->destination != NULL)
		l->destination->place = states_place(&l->lock);
	states_unlock(&l->lock);
	return !result->repeated;
}

bool feed_learn(struct feed_result *result) {
	struct feed_memory *memory = result->memory;
	struct feed_learning l = { .result = result };

	l.class = judge_heard(result->generation, result->judgement);
	l.weight = judged_weight(l.class);
	if (!aim(&l))
		return false;
	windows_rules(result->generation, result->judgement->mta, &result->owner, &l.rules);
	l.queue = feed_hash_of(memory, result->delivery->queue_id);
	feed_find_rule(&l);
	find_level(&l);
	find_reason(&l);
	if (!change(&l))
		return false;
	if (l.lock.is_new && result->seen == NULL)
		note_mta(result);
	add_attempt(&l);
	free_place(&l);
	tell(&l);
	return true;
}

static void tell_change(const struct feed_memory *memory, const struct generation *generation,
    const struct feed_destination *destination, const struct state_lock *lock,
    const struct window_rules *rules, const struct feed_told *told, int64_t now_ns) {
	struct window_report report = windows_report_of(generation, &destination->owner,
	    &lock->state, &rules->settings, WINDOW_CHANGED, now_ns);

	report.before = told->before;
	report.ceiling_before = told->ceiling_before;
	report.cause = destination->failure;
	report.silent = !rules->debug;
	windows_report(memory->engine, &report);
}

bool feed_learn_levels(struct feed_memory *memory, const struct generation *generation,
    struct feed_destination *destination, int64_t now_ns) {
	struct level_verdict verdicts[VERDICTS_MAX];
	struct window_change change;
	struct window_rules rules;
	struct state_lock lock;
	uint32_t running = feed_running(destination, now_ns);
	enum states_locked locked;
	unsigned count;

	if (level_due_ns(&destination->level) > now_ns && running == destination->told_running)
		return running > 0 || level_due_ns(&destination->level) != INT64_MAX;
	windows_rules(generation, destination->mta, &destination->owner, &rules);
	do {
		struct feed_told told = { .died = false };

		locked = windows_lock(&lock, memory->engine, &destination->owner, &rules,
		    now_ns, STATES_KNOWN_ONLY, &change);
		if (locked != STATES_HELD) {
			/* of one that had to make room nobody needs them */
			while (locked == STATES_UNKNOWN &&
			    due_levels(destination, now_ns, verdicts) > 0)
				;
			break;
		}
		count = due_levels(destination, now_ns, verdicts);
		told.before = lock.state.window.concurrency;
		told.ceiling_before = lock.state.window.ceiling;
		feed_hear_levels(&lock, &rules, verdicts, count, now_ns, &told);
		told.fell = lock.state.window.ceiling != 0 && (told.ceiling_before == 0 ||
		    lock.state.window.ceiling < told.ceiling_before);
		lock.state.running = (uint16_t)(running < UINT16_MAX ? running : UINT16_MAX);
		states_store(&lock);
		states_unlock(&lock);
		destination->told_running = running;
		windows_report_back(memory->engine, generation, &destination->owner,
		    &lock.state, &rules.settings, &change, now_ns);
		if ((told.changed && rules.debug) || told.fell)
			tell_change(memory, generation, destination, &lock, &rules, &told,
			    now_ns);
	} while (count == VERDICTS_MAX);
	return running > 0 || level_due_ns(&destination->level) != INT64_MAX;
}

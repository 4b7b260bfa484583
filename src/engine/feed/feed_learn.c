/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What a window learns from one result, and what the rule does that its reply
 *          matched.
 * MODEL    One transaction on the destination's slot: levels that are known by now,
 *          the result, the rule's action, counts and reason.  The rule's count rises inside,
 *          where it is known that the result is a new one.  All that needs memory is found
 *          before, all that tells somebody comes after (feed_report.c).  A delivery with several
 *          recipients has a line for each, and is one result: the worst of them.  The law
 *          is told the class, and what a log and the questions of mail servers say of the
 *          level, of the start, and of other deliveries.
 * ERRORS   What is not known is told to the law as such.  Without memory for a rule's count it
 *          does nothing.  A slot that cannot be had: nothing
 *          is learned, what was due comes again.
 * THREADS  One.
 */
#include <string.h>

#include "base/clock.h"
#include "engine/decision/decided.h"
#include "engine/feed/feed_internal.h"
#include "policy/limit/rate.h"
#include "segment/destination/flights.h"
#include "segment/destination/shared.h"

#define VERDICTS_MAX	16
#define TAG_CANARY	0x100	/* of a level's attempt, beside the class */

/* --- before ---------------------------------------------------------------------- */

/* The level, where the mail server told it at the start. */
static void find_level(struct feed_learning *l) {
	const struct feed_result *result = l->result;
	const struct delivery *d = result->delivery;
	const char *owner = result->judgement->owner.name;
	struct flight_attempt attempt;
	uint32_t running;

	if (d->queue_id.length == 0)
		return;
	if (d->source == DELIVERY_OF_SENDMAIL) {
		struct segment *segment = result->memory->engine->segment;
		uint64_t hash = flights_queue_hash(segment, d->queue_id.text,
		    d->queue_id.length);

		l->asked = flights_find_attempt(segment, owner, strlen(owner), hash,
		    result->now_ns, &attempt);
		if (l->asked) {
			l->canary = attempt.canary;
			l->connected = attempt.connected;
			l->level = attempt.level;
		}
	} else if (result->memory->starts != NULL && l->destination != NULL) {
		l->level = feed_starts_end(result->memory->starts, l->destination->hash,
		    l->queue, result->now_ns, &running);
		if (l->level != 0) {
			l->destination->level.running = running;
			l->destination->level.running_ns = result->now_ns;
		}
	}
}

/* The rule that the reply matched, and its count. */
static void find_rule(struct feed_learning *l) {
	const struct feed_result *result = l->result;
	const char *owner = result->judgement->owner.name;
	uint64_t key;

	l->has_rule = result->judgement->rule != JUDGE_NONE;
	if (!l->has_rule)
		return;
	judge_rule(result->generation, result->judgement->rule, &l->rule);
	l->rule_end_ns = result->now_ns + (l->rule.for_ns > 0 ? l->rule.for_ns :
	    l->rules.settings.suspend_ns);
	if (l->rule.action == REPLY_ACTION_NONE)
		return;
	key = l->rule.action == REPLY_ACTION_HOLD_RECIPIENT ?
	    feed_hash_of(result->memory, result->delivery->recipient) :
	    feed_hash(result->memory, owner, strlen(owner));
	l->match = feed_match(result->memory->matches, &l->rule, key, result->now_ns);
}

/* --- what the law is told ---------------------------------------------------------- */

static void note_change(struct feed_told *told, const struct window_change *change) {
	told->died |= change->died;
	told->back |= change->revived;
	told->changed |= change->window;
}

/* Of a ceiling that a cluster divides: places that are other nodes'.  How many of them are in
 * use is not known: a refusal counts as if all were, and what is accepted as if none was, so
 * that nothing is believed that was not seen. */
static uint32_t elsewhere(const struct state_lock *lock, int64_t now_ns) {
	struct shared_seen shared;

	return shared_find(lock->segment, lock->key.hash, &shared) ?
	    shared_others(&shared, lock->state.window.ceiling, now_ns) : 0;
}

/* Of those that are known by now, some at most; returns how many there were. */
static unsigned hear_levels(struct state_lock *lock, const struct window_rules *rules,
    struct feed_destination *destination, int64_t now_ns, struct feed_told *told) {
	struct window_change change;
	struct level_verdict verdict;
	unsigned count = 0;
	uint32_t level;

	for (; destination != NULL && count < VERDICTS_MAX &&
	     level_next(&destination->level, now_ns, &verdict); count++) {
		if ((verdict.tag & TAG_CANARY) != 0 || verdict.start_ns < lock->state.resumed_ns)
			continue;
		level = level_heard(&verdict, lock->state.window.ceiling);
		window_late_level(&lock->state.window, &rules->settings,
		    (enum result_class)(verdict.tag & 0xff),
		    level == 0 || verdict.accepted ? level : level + elsewhere(lock, now_ns),
		    now_ns, &change);
		note_change(told, &change);
		if ((verdict.tag & 0xff) != RESULT_OK)
			continue;
		window_took(&lock->state.window, &rules->settings, &verdict, now_ns, &change);
		note_change(told, &change);
	}
	return count;
}

/* A failure of what was begun before somebody resumed the destination is an echo. */
static void hear_echo(struct feed_learning *l) {
	if (l->weight != JUDGED_NEGATIVE ||
	    l->result->start_ns >= l->lock.state.resumed_ns)
		return;
	l->class = RESULT_LOCAL;
	l->weight = JUDGED_NEUTRAL;
	l->match = NULL;
	l->has_reason = false;
	engine_count(l->result->memory->engine, COUNTER_RESULTS_ECHOED, 1);
}

/* Whoever could not connect asked for one place more than there were connections, when it
 * asked or by now: several may have asked at once.  What went well without ever telling
 * of a connection was not asked about as it should be. */
static void find_asked_level(struct feed_learning *l) {
	uint32_t now = l->lock.state.connected + 1u;

	if (!l->asked || l->connected)
		return;
	if (l->weight != JUDGED_NEGATIVE)
		l->level = 0;
	else if (l->level < now)
		l->level = now;
}

/* Sendmail asks again until it starts. */
static int64_t given_ns(const struct feed_result *result) {
	if (!result->has_start || result->delivery->source == DELIVERY_OF_SENDMAIL)
		return 0;
	return level_given_ns(result->start_ns, result->slack_ns, result->delivery->delays_ms[1]);
}

static void hear(struct feed_learning *l) {
	struct destination_state *state = &l->lock.state;
	const struct judgement *judgement = l->result->judgement;
	uint32_t running = windows_running(state);
	struct window_result heard = { .class = l->class, .level = l->level,
		.start_ns = l->result->has_start ? l->result->start_ns : 0,
		.took_ns = l->result->has_start ? l->result->end_ns - l->result->start_ns : 0,
		.given_ns = given_ns(l->result),
		.answered = l->weight == JUDGED_NEGATIVE && judgement->reply.code != 0 };
	struct window_change change;
	uint32_t others;

	find_asked_level(l);
	others = elsewhere(&l->lock, l->result->now_ns);
	heard.level = l->level == 0 || l->weight != JUDGED_NEGATIVE ? l->level :
	    l->level + others;
	if (state->window.canary_out == 0)
		l->canary = false;
	else if (!l->asked)
		l->canary = windows_is_canary_lane(l->result->generation, judgement->mta,
		    judgement->lane, state);
	heard.canary = l->canary;
	/* whoever asked holds its place still */
	heard.in_flight = l->asked && running > 0 ? running - 1 : running;
	/* Connections that idle in a cache take places, too: a site that says no is full, not
	 * dead; one that says nothing is not there. */
	if (heard.answered && l->level == 0 && l->destination != NULL) {
		uint32_t places = feed_places(l->destination, l->result->now_ns);

		heard.in_flight = places > heard.in_flight ? places : heard.in_flight;
	}
	heard.in_flight += others;
	if (l->weight == JUDGED_POSITIVE && l->destination != NULL &&
	    judge_keeps(l->result->generation, judgement, l->result->delivery))
		l->destination->kept_ns = l->result->now_ns + LEVEL_KEPT_NS;
	window_result(&state->window, &l->rules.settings, &heard, l->result->now_ns, &change);
	note_change(&l->told, &change);
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

/* A Postfix takes tokens where nobody counts them; a Sendmail asked. */
static void count_token(struct feed_learning *l) {
	if (l->result->delivery->source == DELIVERY_OF_POSTFIX && l->class != RESULT_SUSPENDED &&
	    l->class != RESULT_LOCAL)
		windows_pace_count(&l->lock, &l->rules, &l->result->judgement->owner,
		    l->result->now_ns);
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

static void act(struct feed_learning *l) {
	/* a delivery to many recipients is one that was refused */
	l->fires = l->match != NULL &&
	    (l->counts || l->rule.action == REPLY_ACTION_HOLD_RECIPIENT) &&
	    feed_match_counts(l->match, &l->rule, l->result->now_ns);
	if (l->fires && l->rule.action == REPLY_ACTION_CEILING)
		set_ceiling(l);
	else if (l->fires && l->rule.action == REPLY_ACTION_SUSPEND)
		suspend_window(l);
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

static bool has_fallen(uint32_t before, uint32_t ceiling) {
	return ceiling != 0 && (before == 0 || ceiling < before);
}

static void set_running(struct feed_destination *destination, struct destination_state *state,
    int64_t now_ns) {
	uint32_t running = level_running(&destination->level, now_ns);

	destination->told_running = running;
	state->running = (uint16_t)(running < UINT16_MAX ? running : UINT16_MAX);
}

/* The ids of what is to be told: the slot remembers by what it is held. */
static void claim(struct feed_learning *l, const struct window *was) {
	struct engine *engine = l->result->memory->engine;
	struct feed_destination *destination = l->destination;
	bool was_stopped = was->state == WINDOW_DEAD || was->state == WINDOW_HELD;
	bool failed = l->counts && l->weight == JUDGED_NEGATIVE && !was_stopped;
	bool ruled = l->told.ruled && l->rule.action == REPLY_ACTION_SUSPEND;

	l->told.fell = has_fallen(was->ceiling, l->lock.state.window.ceiling);
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

/* The transaction.  False: nothing was learned. */
static bool learn(struct feed_learning *l) {
	struct destination_state *state = &l->lock.state;
	struct feed_result *result = l->result;
	bool create = l->weight != JUDGED_NEUTRAL || l->match != NULL || result->seen != NULL;
	struct window_change change;
	struct window was;

	if (windows_lock_aimed(&l->lock, &l->rules, result->now_ns, create ? STATES_CREATE :
	    STATES_KNOWN_ONLY, &change) != STATES_HELD)
		return false;
	if (l->destination != NULL)
		l->destination->place = states_place(&l->lock);
	if (result->seen != NULL)
		states_note(&l->lock, result->seen);
	result->repeated = states_was_applied(&l->lock, &result->origin);
	if (result->repeated) {
		states_unlock(&l->lock);
		return false;
	}
	was = state->window;
	l->told.before = was.concurrency;
	l->told.ceiling_before = was.ceiling;
	l->told.would_hold = !l->asked && l->weight != JUDGED_NEUTRAL &&
	    (was.state == WINDOW_DEAD || was.state == WINDOW_HELD) &&
	    windows_observed(result->generation, &result->judgement->owner);
	note_change(&l->told, &change);
	hear_echo(l);
	(void)hear_levels(&l->lock, &l->rules, l->destination, result->now_ns, &l->told);
	l->counts = l->destination == NULL || !level_was_told(&l->destination->lines,
	    l->queue, result->start_ns, 2 * result->slack_ns + NS_PER_MS, (uint8_t)l->weight);
	/* mail that was kept waits for a place */
	if (l->class == RESULT_SUSPENDED)
		shared_ask(l->lock.segment, l->lock.key.hash, result->now_ns);
	if (l->counts) {
		count_delivery(state, result->judgement->reply.class);
		hear(l);
		count_token(l);
	}
	act(l);
	feed_pace(l);
	claim(l, &was);
	write_reason(l);
	if (l->destination != NULL)
		set_running(l->destination, state, result->now_ns);
	l->lock.origin = result->origin;
	states_store(&l->lock);
	states_unlock(&l->lock);
	return true;
}

/* --- after ------------------------------------------------------------------------- */

/* Whoever asked, and could not connect, does not try again: it has no connection there,
 * and so no place. */
static void free_place(const struct feed_learning *l) {
	const struct feed_result *result = l->result;
	struct segment *segment = result->memory->engine->segment;
	const char *owner = result->judgement->owner.name;
	struct span id = result->delivery->queue_id;

	/* an echo, too */
	if (l->asked && !l->connected && judged_weight(judge_heard(result->generation,
		result->judgement)) == JUDGED_NEGATIVE)
		(void)flights_end_attempt(segment, owner, strlen(owner),
		    flights_queue_hash(segment, id.text, id.length), result->now_ns);
}

/* Attempts whose level nobody told get it when those that began before have ended. */
static void add_attempt(struct feed_learning *l) {
	const struct feed_result *result = l->result;
	const struct level_attempt attempt = {
		.start_ns = result->start_ns, .end_ns = result->end_ns,
		.slack_ns = result->slack_ns,
		.tag = (uint64_t)l->class | (l->canary ? TAG_CANARY : 0),
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
	const struct delivery_seen seen = { .name = result->judgement->owner.name,
		.name_length = strlen(result->judgement->owner.name),
		.mta = (uint8_t)result->judgement->mta, .cloned = result->judgement->cloned };

	(void)destinations_note(result->memory->engine->segment, &seen, result->now_ns);
}

/* --- all of it ------------------------------------------------------------------------ */

bool feed_learn(struct feed_result *result) {
	struct feed_memory *memory = result->memory;
	const struct judgement *judgement = result->judgement;
	const struct window_owner *owner = &judgement->owner;
	struct span words = judgement->reply.words;
	struct feed_learning l = { .result = result,
		.class = judge_heard(result->generation, judgement) };

	l.weight = judged_weight(l.class);
	if (result->expected != NULL)
		result->key = *result->expected;
	else if (!states_key(memory->engine->segment, owner->name, strlen(owner->name),
	    &result->key))
		return false;
	if (l.weight != JUDGED_NEUTRAL || l.class == RESULT_SUSPENDED)
		l.destination = feed_destination(memory, owner, &result->key, result->now_ns);
	if (l.destination != NULL) {
		l.destination->mta = judgement->mta;
		result->key.place = l.destination->place;
	}
	/* has it fetched meanwhile */
	states_aim_at(memory->engine->segment, &result->key, &l.lock);
	windows_rules(result->generation, judgement->mta, owner, &l.rules);
	l.queue = feed_hash_of(memory, result->delivery->queue_id);
	find_rule(&l);
	find_level(&l);
	l.has_reason = l.weight == JUDGED_NEGATIVE || l.has_rule;
	if (l.has_reason)
		(void)windows_reason(words.text, words.length, l.reason);
	if (!learn(&l))
		return false;
	if (l.lock.is_new && result->seen == NULL)
		note_mta(result);
	add_attempt(&l);
	free_place(&l);
	feed_report(&l);
	return true;
}

bool feed_learn_levels(struct feed_memory *memory, const struct generation *generation,
    struct feed_destination *destination, int64_t now_ns) {
	struct level_verdict ignored;
	struct window_change change;
	struct window_rules rules;
	struct state_lock lock;
	uint32_t running = level_running(&destination->level, now_ns);
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
			    level_next(&destination->level, now_ns, &ignored))
				;
			break;
		}
		told.before = lock.state.window.concurrency;
		told.ceiling_before = lock.state.window.ceiling;
		count = hear_levels(&lock, &rules, destination, now_ns, &told);
		told.fell = has_fallen(told.ceiling_before, lock.state.window.ceiling);
		set_running(destination, &lock.state, now_ns);
		states_store(&lock);
		states_unlock(&lock);
		windows_report_back(memory->engine, generation, &destination->owner,
		    &lock.state, &rules.settings, &change, now_ns);
		if ((told.changed && rules.debug) || told.fell)
			feed_report_change(memory, generation, destination, &lock, &rules, &told,
			    now_ns);
	} while (count == VERDICTS_MAX);
	return running > 0 || level_due_ns(&destination->level) != INT64_MAX;
}

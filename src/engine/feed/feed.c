/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The way of a delivery result into the segment: what its window learns, and what the
 *          rule does that its reply matched.
 * MODEL    A result is judged, its relay noted for the recipient's domain, its lane for
 *          whoever makes hints.  The window of the destination that was tried learns in one
 *          transaction on its slot: levels that are known by now, the result, the rule's action,
 *          counts and reason.  The rule's count rises inside, where it is known that the result
 *          is a new one.  All that needs memory is found before, all that tells somebody comes
 *          after (feed_report.c).  A delivery with several recipients has a line for each, and is
 *          one result: the worst of them.  The law is told the class, and what a log and the
 *          questions of mail servers say of the level, of the start, and of other deliveries.
 * ERRORS   What cannot be had in time is not learned, and counted.  What is not known is told
 *          to the law as such.  Without memory for a rule's count it does nothing.
 * THREADS  One.
 */
#include "engine/feed/feed.h"

#include <string.h>

#include "base/clock.h"
#include "config/mta/relayhost.h"
#include "engine/decision/decided.h"
#include "engine/feed/feed_internal.h"
#include "engine/hints/hints.h"
#include "segment/destination/destinations.h"
#include "segment/destination/shared.h"
#include "segment/file/delays.h"
#include "segment/file/feed_position.h"
#include "segment/hints/lane_uses.h"

#define LIVE_NS		(5 * NS_PER_SECOND)	/* a line that is older is read late */
#define READ_LAG_NS	(20 * NS_PER_MS)

/* --- by which relay, and by which lane ------------------------------------------------ */

/* Sendmail's log tells no port: it is the usual one. */
static bool has_port(const struct generation_mta *mta, uint16_t port) {
	return port == 0 ? mta->kind == MTA_SENDMAIL : mta_has_port(mta, port);
}

/* Is the window that of the recipient's domain? */
static bool is_own(const struct feed_result *result) {
	const struct judgement *judgement = result->judgement;

	return judgement->owner.kind == DESTINATION_DOMAIN &&
	    result->delivery->domain.text[0] != '[' &&
	    (judgement->mta >= result->generation->mta_count ||
	    result->generation->mtas[judgement->mta].transport == 0);
}

/* By which relay, and which transport, mail for the recipient's domain goes.  A relay
 * on a port that is none of the mail server's remote ports (a content filter) teaches
 * nothing.  `expected`: what was announced of it, or NULL; *seen lasts as long as the result. */
static bool note_relay(struct feed_result *result, const struct feed_expected *expected,
    struct delivery_seen *seen) {
	const struct generation *generation = result->generation;
	const struct judgement *judgement = result->judgement;
	struct feed_memory *memory = result->memory;
	const struct delivery *d = result->delivery;
	int64_t now_ns = result->clock_ns;

	*seen = (struct delivery_seen){
		.name = d->domain.text, .name_length = d->domain.length,
		.relay = d->relay_address,
		.relay_name = d->relay_name.length > 0 ? d->relay_name.text : NULL,
		.relay_name_length = d->relay_name.length,
		.mta = (uint8_t)judgement->mta, .cloned = judgement->cloned,
	};
	if (judgement->mta >= generation->mta_count || d->agent != AGENT_SMTP ||
	    d->domain.length == 0 || address_is_unknown(&d->relay_address) ||
	    !has_port(&generation->mtas[judgement->mta], d->relay_port))
		return false;
	if (expected != NULL && address_equal(&expected->relay, &seen->relay))
		seen->relay_key = expected->relay_key;
	if (!is_own(result))
		return feed_was_noted(memory, seen, true, now_ns) ||
		    destinations_note(memory->engine->segment, seen, now_ns);
	/* the rest is noted in one go with what its window learns */
	result->seen = seen;
	if (seen->relay_name == NULL || feed_was_noted(memory, seen, false, now_ns))
		return true;
	memory->notes_relays = true;
	return relays_note(memory->engine->segment, seen, now_ns);
}

static uint32_t time_ms(int64_t ms) {
	return ms <= 0 ? 0 : ms < LANE_USE_MS_MOST ? (uint32_t)ms : LANE_USE_MS_MOST;
}

static int64_t took_ms(const struct delivery *d) {
	int64_t connecting_ms = d->delays_ms[2], sending_ms = d->delays_ms[3];

	if (sending_ms == DELIVERY_MS_UNKNOWN)
		return DELIVERY_MS_UNKNOWN;
	return sending_ms + (connecting_ms == DELIVERY_MS_UNKNOWN ? 0 : connecting_ms);
}

/* Is the relay the one that mail for the domain goes to? */
static bool is_next_hop_of(const struct engine *engine, const struct generation *generation,
    const struct delivery *d, const struct judgement *judgement) {
	struct destination_seen seen;
	struct window_owner owner;
	char name[JUDGE_NAME_MAX + 1];

	if (!judge_domain(d->domain, name) ||
	    !destinations_find(engine->segment, name, strlen(name), &seen))
		return false;
	(void)windows_owner_of_mta(engine, generation, &seen, judgement->mta, &owner);
	if (strcmp(owner.name, judgement->owner.name) == 0)
		return true;
	/* a relayhost may have several addresses; a content filter's is never noted */
	for (unsigned i = 0; owner.kind == DESTINATION_RELAY && i < seen.relay_count &&
	    judgement->mta < generation->mta_count; i++)
		if (address_equal(&seen.relays[i], &judgement->tried.address) &&
		    has_port(&generation->mtas[judgement->mta], judgement->tried.port))
			return true;
	return false;
}

/* By the queue manager, of its own: it tried the site often enough. */
static bool is_suspended_by_mta(const struct delivery *d, const struct judgement *judgement) {
	struct span words = judgement->reply.words;
	size_t ours = strlen(ENGINE_HOLD_BEGINS);

	return d->agent == AGENT_ERROR && judgement->reply.class == RESULT_SUSPENDED &&
	    (words.length < ours || memcmp(words.text, ENGINE_HOLD_BEGINS, ours) != 0);
}

static void note_lane(struct engine *engine, const struct feed_result *result) {
	const struct generation *generation = result->generation;
	const struct judgement *judgement = result->judgement;
	const struct delivery *d = result->delivery;
	struct lane_use use = {
		.ended_ns = result->end_ns, .waited_ms = time_ms(d->delays_ms[1]),
		.took_ms = time_ms(took_ms(d)), .width = (uint16_t)judgement->lane,
		.mta = (uint8_t)judgement->mta,
		.tried = judgement->reply.phase != PHASE_NONE,
		.failed = d->status == DELIVERY_DEFERRED &&
		    judgement->reply.phase > PHASE_NONE && judgement->reply.phase < PHASE_MAIL,
	};

	/* a probe of an address is in no queue that mail is in, nor is mail of a source */
	if (d->status == DELIVERY_DELIVERABLE || d->status == DELIVERY_UNDELIVERABLE ||
	    judgement->source != 0)
		return;
	use.suspended = is_suspended_by_mta(d, judgement);
	/* what goes to a content filter is in no queue of the domain */
	if (use.suspended && d->domain.length > 0)
		use.width = 0;
	else if (!judgement->cloned || d->domain.length == 0 ||
	    (judgement->owner.kind == DESTINATION_RELAY &&
	    !is_next_hop_of(engine, generation, d, judgement)))
		return;
	use.domain = is_own(result) && result->key.hash != 0 ? result->key.hash :
	    lane_uses_hash(engine->segment, d->domain.text, d->domain.length);
	lane_uses_note(engine->segment, &use);
}

/* --- what its window learns ------------------------------------------------------------ */

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
	others = feed_elsewhere(&l->lock, l->result->now_ns);
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
	feed_note_change(&l->told, &change);
}

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
	enum result_class class = l->result->judgement->reply.class;

	if (l->result->delivery->source == DELIVERY_OF_POSTFIX && class != RESULT_SUSPENDED &&
	    class != RESULT_LOCAL)
		windows_pace_count(&l->lock, &l->rules, &l->result->judgement->owner,
		    l->result->clock_ns);
}

/* What the rule does, and the ids of what is to be told: the slot remembers by what it is held. */
static void act(struct feed_learning *l, const struct window *was) {
	struct engine *engine = l->result->memory->engine;
	struct feed_destination *destination = l->destination;
	bool failed = l->counts && l->weight == JUDGED_NEGATIVE && !window_is_shut(was);
	bool ruled;

	/* a delivery to many recipients is one that was refused */
	l->fires = l->match != NULL &&
	    (l->counts || l->rule.action == REPLY_ACTION_HOLD_RECIPIENT) &&
	    feed_match_counts(l->match, &l->rule, l->result->now_ns);
	if (l->fires)
		feed_rule_acts(l);
	feed_pace(l);
	ruled = l->told.ruled && l->rule.action == REPLY_ACTION_SUSPEND;
	l->told.fell = feed_has_fallen(was->ceiling, l->lock.state.window.ceiling);
	if (l->told.died || ruled || ((failed || l->fires) && feed_may_note_failure(l)))
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
	if (l->has_reason && !window_is_by_hand(&l->lock.state.window))
		l->lock.reason = l->reason;
}

/* The transaction.  False: nothing was learned. */
static bool learn(struct feed_learning *l) {
	struct destination_state *state = &l->lock.state;
	struct feed_result *result = l->result;
	bool create = l->weight != JUDGED_NEUTRAL || l->match != NULL || result->seen != NULL;
	struct window_change change;
	struct window was;

	if (windows_lock_at(&l->lock, result->memory->engine, &result->key, &l->rules,
	    result->now_ns, create ? STATES_CREATE : STATES_KNOWN_ONLY, &change) != STATES_HELD)
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
	    window_is_shut(&was) && windows_observed(result->generation, &result->judgement->owner);
	feed_note_change(&l->told, &change);
	hear_echo(l);
	(void)feed_hear_levels(&l->lock, &l->rules, l->destination, result->now_ns, &l->told);
	l->counts = l->destination == NULL || !level_was_told(&l->destination->lines,
	    l->queue, result->start_ns, 2 * result->slack_ns + NS_PER_MS, (uint8_t)l->weight);
	/* mail that was kept waits for a place */
	if (l->class == RESULT_SUSPENDED)
		shared_ask(l->lock.segment, l->lock.key.hash, result->now_ns);
	if (l->counts) {
		count_delivery(state, result->judgement->reply.class);
		hear(l);
	}
	act(l, &was);
	/* once the pace knows of the result: it may begin by it */
	if (l->counts)
		count_token(l);
	if (l->destination != NULL)
		feed_set_running(l->destination, state, result->now_ns);
	l->lock.origin = result->origin;
	states_store(&l->lock);
	states_unlock(&l->lock);
	return true;
}

struct feed_destination *feed_destination(struct feed_memory *memory,
    const struct window_owner *owner, const struct state_key *key, int64_t now_ns) {
	const struct map *table = &memory->table->by_hash;
	const struct map_cell *cell = map_find(table, key->hash);
	struct feed_destination *found = cell == NULL ? NULL : cell->item;

	while (cell != NULL && strcmp(found->owner.name, owner->name) != 0) {
		cell = map_next(table, cell);
		found = cell == NULL ? NULL : cell->item;
	}
	if (found == NULL)
		found = feed_destination_make(memory->table, key->hash, owner, now_ns);
	if (found != NULL) {
		found->owner.provider = owner->provider; /* it may change */
		found->used_ns = now_ns;
	}
	return found;
}

void feed_add_attempt(struct feed_memory *memory, struct feed_destination *destination,
    const struct level_attempt *attempt, int64_t now_ns) {
	struct level *level = &destination->level;

	if (level_count(level) == level->capacity)
		feed_level_grow(memory->table, level);
	if (!level_add(level, attempt, now_ns)) {
		engine_count(memory->engine, COUNTER_LEVELS_LOST, 1);
		return;
	}
	feed_await(memory, destination);
}

/* Lets the owner's window learn, and the rule act.  False: nothing was learned. */
static bool feed_learn(struct feed_result *result) {
	struct feed_memory *memory = result->memory;
	const struct judgement *judgement = result->judgement;
	const struct window_owner *owner = &judgement->owner;
	const struct delivery *d = result->delivery;
	struct segment *segment = memory->engine->segment;
	struct feed_learning l = { .result = result,
		.class = judge_heard(result->generation, judgement),
		.queue = feed_hash_of(memory, d->queue_id),
		.has_rule = judgement->rule != JUDGE_NONE };

	if (judgement->source != 0)
		l.class = feed_class_of_source(&l, l.class);
	l.weight = judged_weight(l.class);
	if (result->expected != NULL)
		result->key = *result->expected;
	else if (!states_key(segment, owner->name, strlen(owner->name), &result->key))
		return false;
	if (l.weight != JUDGED_NEUTRAL || l.class == RESULT_SUSPENDED)
		l.destination = feed_destination(memory, owner, &result->key, result->now_ns);
	if (l.destination != NULL) {
		l.destination->mta = judgement->mta;
		result->key.place = l.destination->place;
	}
	if (result->expected == NULL)
		states_expect(segment, &result->key, 1);
	windows_rules(result->generation, judgement->mta, owner, &l.rules);
	if (l.has_rule) {
		judge_rule(result->generation, judgement->rule, &l.rule);
		l.rule_end_ns = result->now_ns + (l.rule.for_ns > 0 ? l.rule.for_ns :
		    l.rules.settings.suspend_ns);
		if (l.rule.action != REPLY_ACTION_NONE)
			l.match = feed_match(memory->matches, &l.rule,
			    l.rule.action == REPLY_ACTION_HOLD_RECIPIENT ?
			    feed_hash_of(memory, d->recipient) :
			    feed_hash(memory, owner->name, strlen(owner->name)),
			    result->now_ns);
	}
	if (d->source == DELIVERY_OF_SENDMAIL || memory->starts != NULL)
		feed_find_level(&l);
	l.has_reason = l.weight == JUDGED_NEGATIVE || l.has_rule;
	if (l.has_reason)
		(void)windows_reason(judgement->reply.words.text, judgement->reply.words.length,
		    l.reason);
	if (!learn(&l))
		return false;
	/* what runs by a log is over some time, though no other result comes */
	if (l.destination != NULL && l.destination->told_running > 0)
		feed_await(memory, l.destination);
	/* those whose level nobody told get it when those that began before have ended */
	if (l.destination != NULL && l.counts && l.level == 0 && result->has_start &&
	    l.weight != JUDGED_NEUTRAL)
		feed_add_attempt(memory, l.destination, &(struct level_attempt){
		    .start_ns = result->start_ns, .end_ns = result->end_ns,
		    .slack_ns = result->slack_ns,
		    .tag = (uint64_t)l.class | (l.canary ? FEED_TAG_CANARY : 0),
		    .accepted = l.weight == JUDGED_POSITIVE,
		    .kept = judge_keeps(result->generation, judgement, d) }, result->now_ns);
	feed_report(&l);
	return true;
}

/* --- all of it ------------------------------------------------------------------------ */

static void count_class(struct engine *engine, enum result_class class) {
	static const enum counter counters[RESULT_CLASS_COUNT] = {
#define RESULT(symbol, word, text) [RESULT_##symbol] = COUNTER_RESULTS_##symbol,
#include "defs/results.def"
#undef RESULT
	};

	engine_count(engine, counters[class], 1);
}

/* What a remote took, for metrics; not a content filter. */
static void note_delay(struct engine *engine, const struct feed_result *result) {
	const struct generation *generation = result->generation;
	const struct judgement *judgement = result->judgement;
	const struct delivery *d = result->delivery;

	if (d->status != DELIVERY_SENT || d->delay_ms < 0 || d->agent != AGENT_SMTP ||
	    judgement->owner.kind == DESTINATION_NONE ||
	    (judgement->mta < generation->mta_count &&
	    !has_port(&generation->mtas[judgement->mta], d->relay_port)))
		return;
	delay_note(engine->segment, delay_row(generation, judgement->owner.provider), d->delay_ms);
}

/* Sendmail has taken it and put it into its queue: nothing was tried yet. */
static bool is_acceptance(const struct delivery *d) {
	static const char words[] = "queued";

	return d->source == DELIVERY_OF_SENDMAIL && d->dsn[0] == 0 && d->relay.length == 0 &&
	    d->text.length == sizeof(words) - 1 &&
	    memcmp(d->text.text, words, sizeof(words) - 1) == 0;
}

struct feed_outcome engine_feed_delivery(struct engine *engine,
    const struct generation *generation, unsigned mtas, const struct delivery *delivery,
    const struct feed_origin *origin, int64_t now_ns) {
	struct feed_memory *memory = feed_memory(engine, generation);
	struct feed_result result = { .memory = memory, .generation = generation,
		.delivery = delivery, .origin = { origin->log, origin->offset },
		.clock_ns = now_ns, .now_ns = now_ns };
	struct feed_outcome outcome = { .judgement = NULL };
	const struct feed_expected *expected;
	struct judgement *judgement;
	struct delivery_seen seen;

	if (memory == NULL || is_acceptance(delivery))
		return outcome;
	judgement = &memory->judged;
	judge_delivery(memory->judge, mtas, delivery, judgement);
	if (judgement->mta >= generation->mta_count && delivery->source != DELIVERY_OF_OTHER)
		return outcome;
	outcome.judgement = result.judgement = judgement;
	if (!feed_tells_relay(judgement))
		feed_roll_up(engine, generation, judgement);
	result.end_ns = result.start_ns = origin->ended_ns > 0 && origin->ended_ns < now_ns ?
	    origin->ended_ns : now_ns;
	result.has_start = level_began(delivery, result.end_ns, &result.start_ns, &result.slack_ns);
	if (result.has_start)
		result.slack_ns += origin->ended_ns == 0 ? READ_LAG_NS : origin->slack_ns;
	/* what is read at once is learned as of now, or clocks that differ by a little
	 * would make time go back */
	if (result.has_start && now_ns - result.end_ns > LIVE_NS)
		result.now_ns = result.end_ns;
	expected = feed_expected(memory, origin->expected);
	if (expected != NULL && is_own(&result) && strncmp((const char *)expected->key.name,
	    judgement->owner.name, sizeof(expected->key.name)) == 0)
		result.expected = &expected->key;
	outcome.learned = note_relay(&result, expected, &seen);
	if (judgement->owner.kind != DESTINATION_NONE && feed_learn(&result))
		outcome.learned = true;
	else
		outcome.repeated = result.repeated || !feed_position_counts(engine->segment,
		    origin->log, origin->offset);
	/* its state knows by itself what it has counted */
	if (judgement->source != 0)
		feed_source(&result);
	if (outcome.repeated) {
		engine_count(engine, COUNTER_RESULTS_REPEATED, 1);
	} else {
		count_class(engine, judgement->reply.class);
		note_lane(engine, &result);
		note_delay(engine, &result);
	}
	return outcome;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Delivery results on their way into the segment.
 * MODEL    A result is judged, its relay noted for the recipient's domain, its lane for
 *          whoever makes hints; then the window of the destination that was tried
 *          learns (feed_learn.c).
 * ERRORS   What cannot be had in time is not learned, and counted.
 * THREADS  One.
 */
#include "engine/feed/feed.h"

#include <string.h>

#include "base/clock.h"
#include "config/mta/relayhost.h"
#include "engine/feed/feed_internal.h"
#include "engine/hints/hints.h"
#include "segment/destination/destinations.h"
#include "segment/file/feed_position.h"
#include "segment/hints/lane_uses.h"

#define LIVE_NS		(5 * NS_PER_SECOND)	/* a line that is older is read late */
#define READ_LAG_NS	(20 * NS_PER_MS)
#define TURN_NS		(250 * NS_PER_MS)

/* Sendmail's log tells no port: it is the usual one. */
static bool has_port(const struct generation_mta *mta, uint16_t port) {
	return port == 0 ? mta->kind == MTA_SENDMAIL : mta_has_port(mta, port);
}

/* Was the very same noted less than a second ago, as it is for each delivery of many?  One
 * that is not certain was not.  `whole`: the domain's relay, else the relay's name. */
static bool was_noted(struct feed_memory *memory, const struct delivery_seen *seen,
    bool whole, int64_t now_ns) {
	const char marks[4] = { whole, (char)seen->mta, seen->cloned,
		whole ? (char)seen->name_length : 0 };
	char text[2 * SEGMENT_NAME_MAX + sizeof(seen->relay) + sizeof(marks)];
	struct feed_noted *noted;
	uint64_t key;
	size_t length = 0;

	if (seen->name_length > SEGMENT_NAME_MAX || seen->relay_name_length > SEGMENT_NAME_MAX)
		return false;
	memcpy(text, marks, sizeof(marks));
	length = sizeof(marks);
	memcpy(text + length, &seen->relay, sizeof(seen->relay));
	length += sizeof(seen->relay);
	if (whole) {
		memcpy(text + length, seen->name, seen->name_length);
		length += seen->name_length;
	}
	if (seen->relay_name != NULL)
		memcpy(text + length, seen->relay_name, seen->relay_name_length);
	length += seen->relay_name_length;
	key = feed_hash(memory, text, length);
	noted = whole ? &memory->noted[key % FEED_NOTED] : feed_noted_near(memory, &seen->relay);
	if (noted->key == key && now_ns - noted->at_ns < NS_PER_SECOND &&
	    now_ns >= noted->at_ns)
		return true;
	*noted = (struct feed_noted){ key, now_ns };
	return false;
}

/* By which relay, and which transport, mail for the recipient's domain goes.  A relay
 * on a port that is none of the mail server's remote ports (a content filter) teaches
 * nothing. */
static bool find_seen(const struct generation *generation, const struct delivery *d,
    const struct judgement *judgement, struct delivery_seen *out) {
	*out = (struct delivery_seen){
		.name = d->domain.text, .name_length = d->domain.length,
		.relay = d->relay_address,
		.relay_name = d->relay_name.length > 0 ? d->relay_name.text : NULL,
		.relay_name_length = d->relay_name.length,
		.mta = (uint8_t)judgement->mta, .cloned = judgement->cloned,
	};
	return judgement->mta < generation->mta_count && d->agent == AGENT_SMTP &&
	    d->domain.length > 0 && !address_is_unknown(&d->relay_address) &&
	    has_port(&generation->mtas[judgement->mta], d->relay_port);
}

/* `with_result`: the rest is noted in one go with what its window learns. */
static bool note_relay(struct feed_memory *memory, const struct delivery_seen *seen,
    bool with_result, int64_t now_ns) {
	struct segment *segment = memory->engine->segment;

	if (with_result) {
		if (seen->relay_name == NULL || was_noted(memory, seen, false, now_ns))
			return true;
		memory->notes_relays = true;
		return relays_note(segment, seen, now_ns);
	}
	return was_noted(memory, seen, true, now_ns) ||
	    destinations_note(segment, seen, now_ns);
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

/* Is the window that of the recipient's domain? */
static bool is_own(const struct feed_result *result) {
	const struct judgement *judgement = result->judgement;

	return judgement->owner.kind == DESTINATION_DOMAIN &&
	    result->delivery->domain.text[0] != '[' &&
	    (judgement->mta >= result->generation->mta_count ||
	    result->generation->mtas[judgement->mta].transport == 0);
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

	/* a probe of an address is in no queue that mail is in */
	if (d->status == DELIVERY_DELIVERABLE || d->status == DELIVERY_UNDELIVERABLE)
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

/* Where the result tells no relay, it is of whom the domain was reached by last. */
static void roll_up(const struct engine *engine, const struct generation *generation,
    struct judgement *judgement) {
	struct window_owner own = judgement->owner;
	struct destination_seen seen;
	const char *domain;

	if (own.kind != DESTINATION_DOMAIN || judgement->tried.name.length > 0 ||
	    !address_is_unknown(&judgement->tried.address))
		return;
	domain = own.name + generation_transport_prefix(own.name, strlen(own.name));
	if (!destinations_find(engine->segment, domain, strlen(domain), &seen))
		return;
	(void)windows_roll_up(engine, generation, &seen, judgement->mta < generation->mta_count ?
	    judgement->mta : generation_window_mta(generation, seen.name, strlen(seen.name),
	    seen.cloned_by | seen.other_by), &judgement->owner);
	if (!windows_owner_by_transport(generation, judgement->mta, &judgement->owner))
		judgement->owner = own;
}

static void place_in_time(struct feed_result *result, const struct feed_origin *origin,
    int64_t now_ns) {
	result->clock_ns = result->now_ns = now_ns;
	result->end_ns = origin->ended_ns > 0 && origin->ended_ns < now_ns ?
	    origin->ended_ns : now_ns;
	result->start_ns = result->end_ns;
	result->has_start = level_began(result->delivery, result->end_ns, &result->start_ns,
	    &result->slack_ns);
	if (!result->has_start)
		return;
	result->slack_ns += origin->ended_ns == 0 ? READ_LAG_NS : origin->slack_ns;
	/* what is read at once is learned as of now, or clocks that differ by a little
	 * would make time go back */
	if (now_ns - result->end_ns > LIVE_NS)
		result->now_ns = result->end_ns;
}

static void count_class(struct engine *engine, enum result_class class) {
	static const enum counter counters[RESULT_CLASS_COUNT] = {
#define RESULT(symbol, word, text) [RESULT_##symbol] = COUNTER_RESULTS_##symbol,
#include "defs/results.def"
#undef RESULT
	};

	engine_count(engine, counters[class], 1);
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
		.delivery = delivery, .origin = { origin->log, origin->offset } };
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
	place_in_time(&result, origin, now_ns);
	roll_up(engine, generation, judgement);
	expected = feed_expected(memory, origin->expected);
	if (expected != NULL && is_own(&result) && strncmp((const char *)expected->key.name,
	    judgement->owner.name, sizeof(expected->key.name)) == 0)
		result.expected = &expected->key;
	if (find_seen(generation, delivery, judgement, &seen)) {
		if (expected != NULL && address_equal(&expected->relay, &seen.relay))
			seen.relay_key = expected->relay_key;
		result.seen = is_own(&result) ? &seen : NULL;
		outcome.learned = note_relay(memory, &seen, result.seen != NULL, now_ns);
	}
	if (judgement->owner.kind != DESTINATION_NONE && feed_learn(&result))
		outcome.learned = true;
	else
		outcome.repeated = result.repeated || !feed_position_counts(engine->segment,
		    origin->log, origin->offset);
	if (outcome.repeated) {
		engine_count(engine, COUNTER_RESULTS_REPEATED, 1);
	} else {
		count_class(engine, judgement->reply.class);
		note_lane(engine, &result);
	}
	return outcome;
}

unsigned engine_feed_postfix(const struct generation *generation, unsigned mtas,
    struct span program) {
	size_t rest;

	return judge_postfix(generation, mtas, program, &rest);
}

void engine_feed_start(struct engine *engine, const struct generation *generation,
    unsigned mtas, const struct delivery *delivery, int64_t now_ns) {
	struct feed_memory *memory = feed_memory(engine, generation);
	struct judgement judgement;
	struct state_key key;

	if (memory == NULL || delivery->queue_id.length == 0)
		return;
	judge_delivery(memory->judge, mtas, delivery, &judgement);
	if (judgement.owner.kind == DESTINATION_NONE)
		return;
	if (memory->starts == NULL)
		memory->starts = feed_starts_open();
	if (memory->starts == NULL)
		return;
	roll_up(engine, generation, &judgement);
	if (states_key(engine->segment, judgement.owner.name, strlen(judgement.owner.name), &key))
		(void)feed_starts_begin(memory->starts, key.hash, feed_hash_of(memory,
		    delivery->queue_id), now_ns);
}

/* Patterns that met their limits on some reply, since we counted last. */
static void count_given_up(struct feed_memory *memory) {
	uint64_t given_up = judge_patterns_given_up(memory->judge);

	if (given_up > memory->given_up)
		engine_count(memory->engine, COUNTER_PATTERNS_GIVEN_UP,
		    given_up - memory->given_up);
	memory->given_up = given_up;
}

void engine_feed_turn(struct engine *engine, const struct generation *generation,
    int64_t now_ns) {
	/* made here if need be: what ran by our predecessor's log is forgotten then */
	struct feed_memory *memory = feed_memory(engine, generation);
	struct feed_destination *destination, *next;

	if (memory == NULL || (now_ns >= memory->turned_ns &&
	    now_ns - memory->turned_ns < TURN_NS))
		return;
	memory->turned_ns = now_ns;
	count_given_up(memory);
	for (destination = TAILQ_FIRST(&memory->waiting); destination != NULL;
	     destination = next) {
		bool waits = feed_learn_levels(memory, generation, destination, now_ns);

		next = TAILQ_NEXT(destination, entry);
		feed_shrink(memory, destination);
		if (waits)
			continue;
		TAILQ_REMOVE(&memory->waiting, destination, entry);
		destination->waiting = false;
	}
	feed_table_sweep(memory->table, now_ns);
}

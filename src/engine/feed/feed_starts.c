/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Deliveries whose start a mail server told: their levels are exact.  And whose a
 *          result is that tells less than others: no relay.
 * MODEL    A table of starts by destination and queue id, and of how many are under way
 *          at each destination, both of fixed size.  A start whose end is not told for an
 *          hour is over.
 * ERRORS   Without a place the level is not known.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/feed/feed_internal.h"
#include "segment/destination/flights.h"

#define PLACES		65536
#define WAYS		16
#define OVER_NS		(3600 * NS_PER_SECOND)

struct start {
	uint64_t hash;		/* of the destination; 0: free */
	uint64_t queue;
	int64_t began_ns;
	uint32_t level;
};

struct underway {
	uint64_t hash;
	uint32_t count;
};

struct feed_starts {
	struct start starts[PLACES];
	struct underway underway[PLACES];
};

struct feed_starts *feed_starts_open(void) {
	return calloc(1, sizeof(struct feed_starts));
}

void feed_starts_close(struct feed_starts **starts) {
	free(*starts);
	*starts = NULL;
}

/* How many are under way there, in a place that others must not need; NULL: none free. */
static struct underway *underway(struct feed_starts *starts, uint64_t hash) {
	struct underway *found = NULL;

	for (unsigned i = 0; i < WAYS; i++) {
		struct underway *one = &starts->underway[(hash + i) % PLACES];

		if (one->hash == hash)
			return one;
		if (found == NULL && one->count == 0)
			found = one;
	}
	if (found != NULL)
		*found = (struct underway){ .hash = hash };
	return found;
}

static void end(struct feed_starts *starts, struct start *start) {
	struct underway *there = underway(starts, start->hash);

	if (there != NULL && there->count > 0)
		there->count--;
	start->hash = 0;
}

static struct start *place(struct feed_starts *starts, uint64_t hash, uint64_t queue,
    unsigned way) {
	return &starts->starts[((hash ^ queue) + way) % PLACES];
}

uint32_t feed_starts_begin(struct feed_starts *starts, uint64_t hash, uint64_t queue,
    int64_t now_ns) {
	struct start *found = NULL;
	struct underway *there;

	for (unsigned i = 0; i < WAYS; i++) {
		struct start *one = place(starts, hash, queue, i);

		if (one->hash != 0 && (now_ns - one->began_ns > OVER_NS ||
		    (one->hash == hash && one->queue == queue)))
			end(starts, one);
		if (found == NULL && one->hash == 0)
			found = one;
	}
	there = underway(starts, hash);
	if (found == NULL || there == NULL)
		return 0;
	there->count++;
	*found = (struct start){ hash, queue, now_ns, there->count };
	return there->count;
}

uint32_t feed_starts_end(struct feed_starts *starts, uint64_t hash, uint64_t queue,
    int64_t now_ns, uint32_t *running) {
	struct underway *there;
	uint32_t level = 0;

	for (unsigned i = 0; i < WAYS; i++) {
		struct start *one = place(starts, hash, queue, i);

		if (one->hash != hash || one->queue != queue)
			continue;
		if (now_ns - one->began_ns <= OVER_NS)
			level = one->level;
		end(starts, one);
		break;
	}
	there = underway(starts, hash);
	*running = there == NULL ? 0 : there->count;
	return level;
}

/* --- as a result meets them ----------------------------------------------------------- */

void feed_find_level(struct feed_learning *l) {
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

void feed_roll_up(const struct engine *engine, const struct generation *generation,
    struct judgement *judgement) {
	struct window_owner own = judgement->owner;
	struct destination_seen seen;
	const char *domain;

	if (own.kind != DESTINATION_DOMAIN || feed_tells_relay(judgement))
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
	feed_roll_up(engine, generation, &judgement);
	if (states_key(engine->segment, judgement.owner.name, strlen(judgement.owner.name), &key))
		(void)feed_starts_begin(memory->starts, key.hash, feed_hash_of(memory,
		    delivery->queue_id), now_ns);
}

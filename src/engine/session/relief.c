/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Room in a class that looks full.
 * MODEL    While the keeper is away, or has just been stopped and nobody knows
 *          yet, ends go unseen, and sessions that are over would turn living ones
 *          away.  So the role that is about to refuse looks itself: one exact
 *          lookup for each session of the class, now and then, and for a twentieth
 *          of its time at most.  A question waits for one step of such a look at most:
 *          SLOTS_AT_ONCE slots of the table and LOOKUPS_AT_ONCE lookups.  The next step
 *          goes on where this one ended, for each class on its own: so each session of a
 *          full class is looked at in a round, however many there are.
 * ERRORS   What cannot be looked up stays in the count.
 * THREADS  Any: one looks, the others wait for it.
 */
#include "engine/session/relief.h"
#include "engine/session/witness_internal.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"

#define PAUSE_NS	(50 * NS_PER_MS)
#define PAUSE_TIMES	20	/* as long as the look took, at least */
#define REST_TIMES	4	/* before any look, or many full classes take all time */
#define SLOTS_AT_ONCE	16384
#define LOOKUPS_AT_ONCE	500

struct relief {
	struct witness *witness;
	pthread_mutex_t mutex;
	/* Changed under the mutex, and read before it is taken, too: */
	_Atomic uint32_t record;	/* the class of the last look */
	_Atomic int64_t next_ns;	/* no other look at it before */
	_Atomic int64_t rest_until_ns;	/* nor at any class */
	uint32_t *next;			/* for each class record: the slot to go on with */
};

struct look {
	struct witness *witness;
	const struct generation *generation;
	uint32_t record;
	unsigned slots_left, lookups_left;
	int64_t now_ns;
};

int engine_lend_witness(struct engine *engine, const struct witness_calls *calls,
    struct diag *diag) {
	struct relief *relief = calloc(1, sizeof(*relief));

	if (relief == NULL)
		return diag_set(diag, 0, "no memory for the witness");
	relief->next = calloc(engine->segment->header->record_count, sizeof(*relief->next));
	if (relief->next == NULL) {
		free(relief);
		return diag_set(diag, 0, "no memory for the witness");
	}
	if (witness_open(&relief->witness, engine, calls, 0, diag) != 0) {
		free(relief->next);
		free(relief);
		return -1;
	}
	pthread_mutex_init(&relief->mutex, NULL);
	engine->relief = relief;
	return 0;
}

void relief_close(struct relief **relief) {
	if (*relief == NULL)
		return;
	witness_close(&(*relief)->witness);
	pthread_mutex_destroy(&(*relief)->mutex);
	free((*relief)->next);
	free(*relief);
	*relief = NULL;
}

enum lookup_result relief_socket(struct relief *relief, uint32_t inode, uint32_t *peer) {
	const struct witness_calls *calls = &relief->witness->calls;
	enum lookup_result result;

	if (calls->socket == NULL)
		return LOOKUP_UNKNOWN;
	pthread_mutex_lock(&relief->mutex);
	result = calls->socket(calls->context, inode, peer);
	pthread_mutex_unlock(&relief->mutex);
	return result;
}

enum lookup_result relief_lookup(struct relief *relief, const struct connection *which,
    struct connection *found) {
	const struct witness_calls *calls = &relief->witness->calls;
	enum lookup_result result;

	pthread_mutex_lock(&relief->mutex);
	result = calls->lookup(calls->context, which, found);
	pthread_mutex_unlock(&relief->mutex);
	return result;
}

static void look_at(struct look *look, uint32_t shard, uint32_t slot) {
	const struct segment *segment = look->witness->segment;
	struct session_control control = session_load_control(segment, slot);
	struct session session;

	look->slots_left--;
	if (control.state != SESSION_OPEN || control.class_record != look->record ||
	    !session_read(segment, shard, slot, &session) ||
	    session.control.state != SESSION_OPEN ||
	    session.control.class_record != look->record)
		return;
	look->lookups_left--;
	proof_missing(look->witness, look->generation, slot, &session,
	    look->now_ns);
}

/* From *next on; true: to the end of the table. */
static bool look_on(struct look *look, uint32_t *next) {
	const struct segment *segment = look->witness->segment;
	uint32_t shard = *next / segment->header->slots_per_shard, slot = *next;

	for (; shard < segment->header->shard_count; shard++) {
		uint32_t first, count;

		sessions_range(segment, shard, &first, &count);
		slot = slot > first ? slot : first;
		for (; slot < first + count; slot++) {
			if (look->slots_left == 0 || look->lookups_left == 0) {
				*next = slot;
				return false;
			}
			look_at(look, shard, slot);
		}
	}
	*next = 0;
	return true;
}

/* A client's limit is asked for on suspicion only while nobody else looks. */
static bool is_short(const struct engine *engine, const struct generation *generation,
    const struct generation_class *class, enum session_direction direction,
    int64_t now_ns) {
	struct limits own;
	const struct limits *limits = class_limits(engine->segment, generation, class,
	    now_ns, &own);
	uint32_t limit = direction == SESSION_INBOUND ? limits->inbound : limits->sessions;
	uint32_t open = atomic_load_explicit(
	    &engine->segment->records[class->record].open, memory_order_relaxed);

	return open >= limit ||
	    (class->has_client_limit && keeper_is_away(engine->segment, now_ns));
}

static bool look_is_due(const struct relief *relief, uint32_t record, int64_t now_ns) {
	return now_ns >= atomic_load_explicit(&relief->rest_until_ns, memory_order_relaxed) &&
	    (record != atomic_load_explicit(&relief->record, memory_order_relaxed) ||
		now_ns >= atomic_load_explicit(&relief->next_ns, memory_order_relaxed));
}

void relief_seek(struct engine *engine, const struct generation *generation,
    const struct generation_class *class, enum session_direction direction,
    int64_t now_ns) {
	struct relief *relief = engine->relief;
	int64_t begun_ns, over_ns, next_ns;

	if (relief == NULL || !is_short(engine, generation, class, direction, now_ns) ||
	    !look_is_due(relief, class->record, now_ns))
		return;
	pthread_mutex_lock(&relief->mutex);
	begun_ns = clock_now_ns();
	if (look_is_due(relief, class->record, begun_ns)) {
		struct look look = { .witness = relief->witness,
			.generation = generation, .record = class->record,
			.slots_left = SLOTS_AT_ONCE, .lookups_left = LOOKUPS_AT_ONCE,
			.now_ns = now_ns };
		bool round;

		sessions_mend(engine->segment, begun_ns);
		round = look_on(&look, &relief->next[class->record]);
		over_ns = clock_now_ns();
		next_ns = over_ns + (over_ns - begun_ns) * PAUSE_TIMES;
		if (round && next_ns < over_ns + PAUSE_NS)
			next_ns = over_ns + PAUSE_NS;
		relief->record = class->record;
		relief->rest_until_ns =
		    over_ns + (over_ns - begun_ns) * REST_TIMES;
		relief->next_ns = next_ns;
	}
	pthread_mutex_unlock(&relief->mutex);
}

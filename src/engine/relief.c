/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Room in a class that looks full.
 * MODEL    While the keeper is away, or has just been stopped and nobody knows
 *          yet, ends go unseen, and sessions that are over would turn living ones
 *          away.  So the role that is about to refuse looks itself: one exact
 *          lookup for each session of the class, now and then, and for a twentieth
 *          of its time at most.
 * ERRORS   What cannot be looked up stays in the count.
 * THREADS  Any: one looks, the others wait for it.
 */
#include "engine/relief.h"
#include "engine/witness_internal.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"

#define PAUSE_NS	(50 * NS_PER_MS)
#define PAUSE_TIMES	20	/* as long as the look took, at least */
#define REST_TIMES	4	/* before any look, or many full classes take all time */
#define LOOKUPS_AT_MOST	2000

struct relief {
	struct witness *witness;
	pthread_mutex_t mutex;
	uint32_t record;		/* the class of the last look */
	int64_t next_ns;		/* no other look at it before */
	int64_t rest_until_ns;		/* nor at any class */
};

struct look {
	struct witness *witness;
	const struct generation *generation;
	uint32_t record;
	unsigned lookups_left;
	int64_t now_ns;
};

int engine_lend_witness(struct engine *engine, const struct witness_calls *calls,
    struct diag *diag) {
	struct relief *relief = calloc(1, sizeof(*relief));

	if (relief == NULL)
		return diag_set(diag, 0, "no memory for the witness");
	if (witness_open(&relief->witness, engine, calls, 0, diag) != 0) {
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

static void look_at(void *context, uint32_t slot, const struct session *session) {
	struct look *look = context;

	if (session->control.state != SESSION_OPEN ||
	    session->control.class_record != look->record ||
	    look->lookups_left == 0)
		return;
	look->lookups_left--;
	proof_missing(look->witness, look->generation, slot, session,
	    look->now_ns);
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

void relief_seek(struct engine *engine, const struct generation *generation,
    const struct generation_class *class, enum session_direction direction,
    int64_t now_ns) {
	struct relief *relief = engine->relief;
	int64_t begun_ns, over_ns;

	if (relief == NULL || !is_short(engine, generation, class, direction, now_ns))
		return;
	pthread_mutex_lock(&relief->mutex);
	begun_ns = clock_now_ns();
	if (begun_ns >= relief->rest_until_ns &&
	    (relief->record != class->record || begun_ns >= relief->next_ns)) {
		struct look look = { .witness = relief->witness,
			.generation = generation, .record = class->record,
			.lookups_left = LOOKUPS_AT_MOST, .now_ns = now_ns };

		witness_each_session(relief->witness, look_at, &look);
		over_ns = clock_now_ns();
		relief->record = class->record;
		relief->rest_until_ns =
		    over_ns + (over_ns - begun_ns) * REST_TIMES;
		relief->next_ns = over_ns + PAUSE_NS;
		if ((over_ns - begun_ns) * PAUSE_TIMES > PAUSE_NS)
			relief->next_ns = over_ns + (over_ns - begun_ns) * PAUSE_TIMES;
	}
	pthread_mutex_unlock(&relief->mutex);
}

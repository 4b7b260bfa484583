/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The engine's handle: configuration generations, heartbeats, counters.
 * MODEL    A generation stays mapped while anybody has it pinned, or until a newer
 *          one is taken up.  The list is guarded by a mutex of this process.
 * ERRORS   A generation that cannot be mapped leaves the old one in force: one log line,
 *          and another try with each heartbeat.
 */
#include "engine/internal.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lifeline.h"
#include "base/log.h"
#include "segment/decision/decisions.h"
#include "segment/file/stir.h"
#include "segment/file/timings.h"

#define CONFIRM_WAIT_MS		2000
#define CONFIRM_STEP_MS		1
#define FAULTS_APART_NS		(2 * NS_PER_SECOND)
#define LIFELINE_APART_NS	(NS_PER_SECOND / 8)
#define REFUSALS_APART_NS	(10 * NS_PER_SECOND)
#define KEEPER_BEAT_NS		(200 * NS_PER_MS)	/* while it does not rest */
#define KEEPER_LATE_NS		(400 * NS_PER_MS)

/* Unmaps what nobody uses any more.  Under mapping_mutex. */
static void drop_unused(struct engine *engine) {
	struct mapped_generation **at = &engine->newest->older;

	while (*at != NULL) {
		struct mapped_generation *old = *at;

		if (old->pins > 0) {
			at = &old->older;
			continue;
		}
		*at = old->older;
		segment_unmap_generation(old->generation);
		free(old);
	}
}

static int take_up(struct engine *engine, uint64_t number, struct diag *diag) {
	struct mapped_generation *mapped = calloc(1, sizeof(*mapped));

	if (mapped == NULL)
		return diag_set(diag, 0, "no memory for a configuration");
	if (segment_map_generation(engine->segment, number,
		&mapped->generation, diag) != 0) {
		free(mapped);
		return -1;
	}
	mapped->older = engine->newest;
	engine->newest = mapped;
	drop_unused(engine);
	atomic_store(&engine->role->generation, mapped->generation->number);
	return 0;
}

int engine_open(struct engine **result, struct segment *segment,
    unsigned role_slot, struct diag *diag) {
	struct engine *engine = calloc(1, sizeof(*engine));

	*result = NULL;
	if (engine == NULL)
		return diag_set(diag, 0, "no memory for the engine");
	engine->segment = segment;
	engine->lifeline_fd = engine->nudge_fd = -1;
	engine->role = segment_role(segment, role_slot);
	engine->timings = segment->header->timings[role_slot];
	engine->incarnation = (uint16_t)atomic_load(&engine->role->incarnation);
	pthread_mutex_init(&engine->mapping_mutex, NULL);
	pthread_mutex_init(&engine->late.mutex, NULL);
	if (take_up(engine, atomic_load(&segment->header->generation), diag) !=
	    0) {
		pthread_mutex_destroy(&engine->late.mutex);
		pthread_mutex_destroy(&engine->mapping_mutex);
		free(engine);
		return -1;
	}
	*result = engine;
	return 0;
}

void engine_close(struct engine **engine) {
	struct mapped_generation *mapped;

	if (*engine == NULL)
		return;
	relief_close(&(*engine)->relief);
	while ((mapped = (*engine)->newest) != NULL) {
		(*engine)->newest = mapped->older;
		segment_unmap_generation(mapped->generation);
		free(mapped);
	}
	free((*engine)->late.list);
	pthread_mutex_destroy(&(*engine)->late.mutex);
	pthread_mutex_destroy(&(*engine)->mapping_mutex);
	free(*engine);
	*engine = NULL;
}

/* Under mapping_mutex.  False: refused, and to be logged; *diag says why.  Anybody can write
 * another number each time: the log is not for that. */
static bool follow(struct engine *engine, uint64_t wanted, struct diag *diag) {
	int64_t now_ns;

	if (engine->newest->generation->number == wanted ||
	    engine->refused_number == wanted || take_up(engine, wanted, diag) == 0)
		return true;
	engine->refused_number = wanted;
	now_ns = clock_now_ns();
	if (engine->logged_number == wanted || (engine->logged_ns != 0 &&
	    now_ns - engine->logged_ns < REFUSALS_APART_NS))
		return true;
	engine->logged_number = wanted;
	engine->logged_ns = now_ns;
	return false;
}

const struct generation *engine_pin(struct engine *engine) {
	uint64_t wanted = atomic_load_explicit(
	    &engine->segment->header->generation, memory_order_acquire);
	const struct generation *generation;
	struct diag diag;
	char reason[sizeof(diag.text)];
	bool quiet;

	pthread_mutex_lock(&engine->mapping_mutex);
	quiet = follow(engine, wanted, &diag);
	engine->newest->pins++;
	generation = engine->newest->generation;
	pthread_mutex_unlock(&engine->mapping_mutex);
	if (!quiet)
		log_event(EVENT_CONFIG,
		    "text=\"cannot load the new configuration; this process keeps the old "
		    "one\" generation=%" PRIu64 " reason=\"%s\"", wanted,
		    log_sentence(reason, sizeof(reason), diag.text));
	return generation;
}

const struct generation *engine_pin_newer(struct engine *engine,
    const struct generation *held) {
	if (held != NULL && held->number == atomic_load_explicit(
		&engine->segment->header->generation, memory_order_acquire))
		return held;
	if (held != NULL)
		engine_unpin(engine, held);
	return engine_pin(engine);
}

void engine_pin_again(struct engine *engine, const struct generation *generation) {
	pthread_mutex_lock(&engine->mapping_mutex);
	for (struct mapped_generation *m = engine->newest; m != NULL; m = m->older)
		if (m->generation == generation)
			m->pins++;
	pthread_mutex_unlock(&engine->mapping_mutex);
}

void engine_unpin(struct engine *engine, const struct generation *generation) {
	pthread_mutex_lock(&engine->mapping_mutex);
	for (struct mapped_generation *m = engine->newest; m != NULL;
	     m = m->older) {
		if (m->generation != generation)
			continue;
		MUST(m->pins > 0);
		m->pins--;
		if (m->pins == 0 && m != engine->newest)
			drop_unused(engine);
		break;
	}
	pthread_mutex_unlock(&engine->mapping_mutex);
}

const char *engine_state_path(const struct engine *engine) {
	return segment_path(engine->segment);
}

void engine_count(struct engine *engine, enum counter counter, uint64_t amount) {
	segment_count(engine->segment, counter, amount);
}

int64_t engine_timed(struct engine *engine, enum timing_kind kind, unsigned count,
    int64_t began_ns) {
	int64_t now_ns = clock_now_ns();

	timing_note(&engine->timings[kind], now_ns - began_ns, count);
	return now_ns;
}

void engine_beat_on(struct engine *engine, int lifeline_fd, int nudge_fd) {
	engine->lifeline_fd = lifeline_fd;
	engine->nudge_fd = nudge_fd;
}

int engine_nudge_fd(const struct engine *engine) {
	return engine->nudge_fd;
}

void engine_heartbeat(struct engine *engine, int64_t now_ns) {
	const struct generation *generation;

	atomic_store(&engine->role->heartbeat_ns, now_ns);
	segment_beat(engine->segment, now_ns);
	if (engine->lifeline_fd >= 0 &&
	    now_ns - atomic_load(&engine->lifeline_ns) >= LIFELINE_APART_NS) {
		atomic_store(&engine->lifeline_ns, now_ns);
		lifeline_beat(engine->lifeline_fd);
	}
	/* a death before it may be noted late */
	if (atomic_load(&engine->role->gap_end_ns) == INT64_MAX) {
		atomic_store(&engine->role->gap_end_ns, now_ns);
		if (engine->segment->onlooker == NULL)
			segment_stir(engine->segment->header);
	}
	pthread_mutex_lock(&engine->mapping_mutex);
	engine->refused_number = 0; /* try again now and then */
	pthread_mutex_unlock(&engine->mapping_mutex);
	/* an idle role takes up a new generation, too */
	generation = engine_pin(engine);
	ends_retry(engine, generation, now_ns);
	engine_unpin(engine, generation);
}

void engine_keeper_heartbeat(struct engine *engine, int64_t now_ns, int64_t next_ns) {
	atomic_store(&engine->segment->header->keeper_rest_ns, next_ns);
	engine_heartbeat(engine, now_ns);
}

bool engine_is_at_rest(const struct engine *engine) {
	return segment_time_ns(&engine->segment->header->keeper_rest_ns) >= NS_PER_SECOND;
}

void engine_wait_confirmed(struct engine *engine) {
	_Atomic uint32_t *unconfirmed = &engine->segment->header->unconfirmed;

	for (int waited = 0; waited < CONFIRM_WAIT_MS &&
	     atomic_load(unconfirmed) != 0; waited += CONFIRM_STEP_MS)
		poll(NULL, 0, CONFIRM_STEP_MS);
}

void engine_decision_logged(struct engine *engine, uint64_t id) {
	decisions_mark_logged(engine->segment, id);
}

bool incarnation_lives(const struct segment *segment, uint16_t incarnation) {
	if (incarnation == 0)
		return false;
	for (unsigned i = 0; i < SEGMENT_ROLES_MAX; i++) {
		if (atomic_load_explicit(&segment->header->roles[i].incarnation,
			memory_order_relaxed) == incarnation)
			return true;
	}
	return false;
}

/* How old the keeper's last heartbeat may be. */
static int64_t keeper_silence_ns(const struct segment *segment) {
	int64_t rest_ns = segment_time_ns(&segment->header->keeper_rest_ns);

	if (rest_ns < KEEPER_BEAT_NS)
		rest_ns = KEEPER_BEAT_NS;
	return (rest_ns < ENGINE_REST_NS ? rest_ns : ENGINE_REST_NS) + KEEPER_LATE_NS;
}

bool keeper_is_away(const struct segment *segment, int64_t now_ns) {
	for (unsigned i = 0; i < SEGMENT_ROLES_MAX; i++) {
		const struct role_record *role = &segment->header->roles[i];

		if (atomic_load_explicit(&role->kind, memory_order_relaxed) ==
		    ROLE_KEEPER)
			return atomic_load_explicit(&role->incarnation,
				memory_order_relaxed) == 0 ||
			    now_ns - segment_time_ns(&role->heartbeat_ns) >
				keeper_silence_ns(segment);
	}
	return false;
}

void answer_unusable(struct engine *engine, const struct generation *generation,
    uint8_t listener, uint16_t port, int64_t now_ns, struct answer *answer) {
	struct listener_record *record =
	    segment_listener(engine->segment, listener, port);

	if (record != NULL) {
		/* one gap while they follow each other */
		if (now_ns - segment_time_ns(&record->fault_until_ns) >
		    FAULTS_APART_NS)
			atomic_store(&record->fault_begin_ns, now_ns);
		atomic_store(&record->fault_until_ns, now_ns + NS_PER_SECOND);
		segment_stir(engine->segment->header);
	}
	segment_count(engine->segment, COUNTER_FAULTS, 1);
	answer->decision = (struct decision){
		.verdict = generation->fail_mode == FAIL_CLOSED ? VERDICT_REFUSE
						   : VERDICT_ADMIT,
		.reason = REASON_UNUSABLE,
	};
	answer->newly_decided = true;
}

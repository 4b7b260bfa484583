/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Windows of a mail server that asks before each connect (Sendmail).
 * MODEL    A process takes a place in the destination's window and keeps it until it
 *          ends, as its connections may be cached.  Its next message there goes on by
 *          the same place: if it is within the window (fewer than `window` places with
 *          a lower or the same rank can ever be taken), or everybody's is.
 * ERRORS   State that cannot be had: it goes, without a place.
 * THREADS  One for each process's places.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/destination/windows_internal.h"
#include "segment/destination/flights.h"

struct place {
	char name[SEGMENT_NAME_MAX + 1];
	struct flight_ref ref;
	struct flight_attempt last;	/* what it holds it for; its rank is the place's */
};

struct windows_places {
	struct engine *engine;
	struct flight_process process;
	struct place *list;
	size_t count, size;
};

/* --- what the process has --------------------------------------------------------- */

static struct place *new_place(struct windows_places *places) {
	size_t size = places->size == 0 ? 4 : 2 * places->size;
	struct place *list;

	if (places->count == places->size) {
		list = reallocarray(places->list, size, sizeof(*list));
		if (list == NULL)
			return NULL;
		places->list = list;
		places->size = size;
	}
	return &places->list[places->count];
}

static void take_over(void *context, const struct flight_seen *seen) {
	struct windows_places *places = context;
	struct place *place;

	if (seen->process.pid != places->process.pid ||
	    seen->process.start_ticks != places->process.start_ticks)
		return;
	place = new_place(places);
	if (place == NULL)
		return;
	memcpy(place->name, seen->destination, sizeof(place->name));
	place->ref = seen->ref;
	place->last = seen->attempt;
	places->count++;
}

struct windows_places *windows_places_open(struct engine *engine,
    const struct process_identity *process) {
	struct windows_places *places = calloc(1, sizeof(*places));

	if (places == NULL)
		return NULL;
	places->engine = engine;
	places->process = (struct flight_process){ process->pid, process->start_ticks };
	flights_each_of(engine->segment, &places->process, take_over, places);
	return places;
}

void windows_places_close(struct windows_places **places, bool over, int64_t now_ns) {
	struct windows_places *old = *places;

	if (old == NULL)
		return;
	for (size_t i = 0; over && i < old->count; i++)
		(void)flights_end(old->engine->segment, &old->list[i].ref, now_ns);
	free(old->list);
	free(old);
	*places = NULL;
}

void windows_places_keep_one(struct windows_places *places, const char *name, int64_t now_ns) {
	for (size_t i = places->count; i-- > 0;) {
		if (strcmp(places->list[i].name, name) == 0)
			continue;
		(void)flights_end(places->engine->segment, &places->list[i].ref, now_ns);
		places->list[i] = places->list[--places->count];
	}
}

static struct place *find_place(struct windows_places *places, const char *name) {
	for (size_t i = 0; i < places->count; i++)
		if (strcmp(places->list[i].name, name) == 0)
			return &places->list[i];
	return NULL;
}

uint64_t windows_owner_hash(const struct engine *engine, const struct window_owner *owner) {
	return siphash13(&engine->segment->header->key, owner->name, strlen(owner->name)) | 1;
}

bool windows_places_owner(const struct windows_places *places,
    const struct generation *generation, uint64_t hash, struct window_owner *out) {
	struct window_owner owner;

	for (size_t i = 0; i < places->count; i++) {
		if (!windows_owner_named(generation, places->list[i].name,
			strlen(places->list[i].name), &owner) ||
		    windows_owner_hash(places->engine, &owner) != hash)
			continue;
		*out = owner;
		return true;
	}
	return false;
}

/* --- one question ------------------------------------------------------------------ */

struct window_asking {
	const struct generation *generation;
	const struct window_question *question;
	struct window_asked *out;
	struct window_rules rules;
	struct window_change change;
	struct state_lock lock;
	struct place *known;		/* that it was given, or NULL */
	struct place *place;		/* the same, while it has it */
	struct place *fresh;		/* room for one that it takes, or NULL */
	struct flight_attempt attempt;
	uint32_t most;			/* deliveries that may run here at once */
	int64_t now_ns;
};

/* Another recipient of a message that goes there already, by the same process. */
static bool is_same_message(const struct window_asking *asking) {
	return asking->place != NULL && asking->attempt.queue_hash != 0 &&
	    asking->place->last.queue_hash == asking->attempt.queue_hash;
}

/* Nothing is changed here. */
static enum window_answer decide(const struct window_asking *asking) {
	const struct destination_state *state = &asking->lock.state;
	const struct window *window = &state->window;
	uint32_t running = windows_running(state), most = asking->most;

	if (asking->out->window == 0)
		return WINDOW_SUSPENDED;
	if (is_same_message(asking))
		return WINDOW_GO;
	if (asking->place != NULL && (running <= most || asking->place->last.rank <= most))
		return WINDOW_GO;
	if (asking->place == NULL && running < most)
		return WINDOW_GO;
	/* who has no place at all would not be above the ceiling */
	return most > 0 && window_canary_due(window, &asking->rules.settings,
	    asking->now_ns) && windows_may_send_canary(&asking->lock, asking->now_ns) ?
	    WINDOW_GO_CANARY : WINDOW_FULL;
}

/* The level that the message asks for: those that only ask have no connection yet, and
 * may get none. */
static uint16_t level_of(const struct window_asking *asking) {
	static const struct flight_ref none;

	return (uint16_t)(1 + flights_others_connected(&asking->lock,
	    &asking->question->places->process,
	    asking->place == NULL ? &none : &asking->place->ref));
}

/* The process goes, so it is counted.  What cannot be counted goes all the same. */
static void take(struct window_asking *asking) {
	struct destination_state *state = &asking->lock.state;
	bool canary = asking->out->answer == WINDOW_GO_CANARY;
	bool has = asking->place != NULL;
	uint32_t level = windows_running(state) + (has ? 0 : 1);

	if (is_same_message(asking)) {
		asking->out->level = asking->place->last.rank;
		return;
	}
	asking->attempt.level = level_of(asking);
	asking->attempt.canary = canary;
	asking->attempt.rank = has ? asking->place->last.rank :
	    (uint16_t)(level < UINT16_MAX ? level : UINT16_MAX);
	if (canary)
		window_canary_issued(&state->window, &asking->rules.settings,
		    windows_canary_end_ns(asking->now_ns));
	if (has && flights_again(&asking->lock, &asking->question->places->process,
	    &asking->attempt, &asking->place->ref)) {
		asking->place->last = asking->attempt;
		asking->out->level = level;
		return;
	}
	if (asking->fresh == NULL || !flights_take(&asking->lock,
	    &asking->question->places->process, &asking->attempt, &asking->fresh->ref)) {
		asking->fresh = NULL;
		return;
	}
	asking->fresh->last = asking->attempt;
	asking->out->level = level;
}

/* By the window, and by this node's share of a ceiling that a cluster divides: who takes the
 * last place has more asked for, before the next one comes. */
static uint32_t most_here(const struct window_asking *asking) {
	const struct state_lock *lock = &asking->lock;
	uint32_t window = asking->out->window, most;
	struct shared_seen shared;
	int64_t now_ns;

	if (window == 0)
		return window;
	(void)shared_find(lock->segment, lock->key.hash, &shared);
	/* the question's time was read before the lock was had: that may be long ago */
	now_ns = shared.known ? clock_now_ns() : 0;
	most = windows_share(asking->generation, asking->question->owner,
	    &asking->rules.settings, &shared, now_ns > asking->now_ns ? now_ns : asking->now_ns);
	if (most < window && windows_running(&lock->state) + 1 >= most)
		shared_ask(lock->segment, lock->key.hash, asking->now_ns);
	return most < window ? most : window;
}

/* Each message takes one, whatever number of recipients. */
static void take_token(struct window_asking *asking) {
	struct window_asked *out = asking->out;
	struct pace_view view;

	if ((out->answer != WINDOW_GO && out->answer != WINDOW_GO_CANARY) ||
	    is_same_message(asking))
		return;
	if (windows_pace_take_held(&asking->lock, &asking->rules, asking->now_ns) == 0)
		return;
	pace_look(&asking->lock.state.pace, &asking->rules.pace, asking->now_ns, &view);
	out->answer = WINDOW_PACED;
	out->interval_ns = view.interval_ns;
}

/* Under the lock. */
static void answer(struct window_asking *asking, bool observe) {
	struct destination_state *state = &asking->lock.state;
	struct window_asked *out = asking->out;

	/* it ends with a connection that failed */
	if (asking->known != NULL && flights_holds(&asking->lock,
	    &asking->question->places->process, &asking->known->ref))
		asking->place = asking->known;
	out->window = window_now(&state->window, &asking->rules.settings, asking->now_ns);
	asking->most = most_here(asking);
	out->answer = decide(asking);
	take_token(asking);
	if (asking->most < out->window)
		out->window = asking->most;
	out->observed = observe && (out->answer == WINDOW_FULL ||
	    out->answer == WINDOW_PACED || out->answer == WINDOW_SUSPENDED);
	if (out->answer == WINDOW_SUSPENDED)
		out->until_ns = state->window.until_ns;
	if (out->answer == WINDOW_GO || out->answer == WINDOW_GO_CANARY || out->observed)
		take(asking);
	else
		asking->fresh = NULL;
	/* counted by the result where the mail server tells one, else here */
	out->in_flight = windows_running(state);
}

/* A place that is not the process's any more is forgotten. */
static void keep_place(struct window_asking *asking) {
	struct windows_places *places = asking->question->places;

	if (asking->fresh == NULL || asking->fresh->ref.number == 0)
		return;
	if (asking->known != NULL) {
		asking->known->ref = asking->fresh->ref;
		asking->known->last = asking->fresh->last;
		return;
	}
	memcpy(asking->fresh->name, asking->question->owner->name,
	    sizeof(asking->fresh->name));
	places->count++;
}

static void count(struct engine *engine, const struct window_asked *out) {
	if (out->answer == WINDOW_GO_CANARY)
		engine_count(engine, COUNTER_CANARIES, 1);
	if (out->observed)
		engine_count(engine, COUNTER_WINDOW_HOLDS_OBSERVED, 1);
	else if (out->answer == WINDOW_FULL || out->answer == WINDOW_PACED ||
	    out->answer == WINDOW_SUSPENDED)
		engine_count(engine, COUNTER_WINDOW_HOLDS, 1);
}

void windows_ask(struct engine *engine, const struct generation *generation,
    const struct window_question *question, int64_t now_ns, struct window_asked *out) {
	const struct window_owner *owner = question->owner;
	struct window_asking asking = { .generation = generation, .question = question,
		.out = out, .now_ns = now_ns };
	struct destination_window found;

	*out = (struct window_asked){ .answer = WINDOW_GO };
	if (owner->kind == DESTINATION_NONE)
		return;
	windows_rules(generation, question->mta, owner, &asking.rules);
	asking.fresh = new_place(question->places);
	asking.known = find_place(question->places, owner->name);
	if (asking.fresh != NULL)
		asking.fresh->ref = (struct flight_ref){ 0, 0 };
	if (question->queue_id_length > 0)
		asking.attempt.queue_hash = flights_queue_hash(engine->segment,
		    question->queue_id, question->queue_id_length);
	if (windows_lock(&asking.lock, engine, owner, &asking.rules, now_ns, STATES_CREATE,
	    &asking.change) != STATES_HELD) {
		out->answer = WINDOW_UNUSABLE;
		return;
	}
	answer(&asking, windows_observed(generation, owner));
	states_store(&asking.lock);
	states_unlock(&asking.lock);
	keep_place(&asking);
	windows_report_back(engine, generation, owner, &asking.lock.state, &asking.rules.settings,
	    &asking.change, now_ns);
	count(engine, out);
	if (out->answer == WINDOW_SUSPENDED && states_find(engine->segment, owner->name,
	    strlen(owner->name), &found)) {
		memcpy(out->reason, found.reason, sizeof(out->reason));
		out->event = found.event;
	}
}

void windows_connected(struct engine *engine, const struct generation *generation,
    const struct window_question *question, int64_t now_ns) {
	const struct window_owner *owner = question->owner;
	struct window_asking asking = { .generation = generation, .question = question,
		.now_ns = now_ns,
		.place = find_place(question->places, owner->name) };
	struct flight_attempt *attempt = &asking.attempt;

	if (asking.place == NULL)
		return;
	if (question->queue_id_length > 0)
		attempt->queue_hash = flights_queue_hash(engine->segment,
		    question->queue_id, question->queue_id_length);
	attempt->rank = asking.place->last.rank;
	attempt->canary = is_same_message(&asking) && asking.place->last.canary;
	if (!states_aim(engine->segment, owner->name, strlen(owner->name), &asking.lock) ||
	    states_lock(&asking.lock, now_ns, STATES_KNOWN_ONLY) != STATES_HELD)
		return;
	attempt->level = level_of(&asking);
	if (flights_connect(&asking.lock, &question->places->process, attempt,
	    &asking.place->ref))
		asking.place->last = *attempt;
	states_unlock(&asking.lock);
}

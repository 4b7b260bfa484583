/* SPDX-License-Identifier: ISC */
/* States, flights and recipients held against a plain model, and readers while
 * others write. */
#include "tests/unit/test.h"
#include <pthread.h>

#include "tests/unit/random.h"
#include "tests/unit/segment/destination/states_site.h"

/* --- the model ------------------------------------------------------------------ */

#define NAMES		24
#define PROCESSES	6
#define RECIPIENTS	10

struct model {
	struct {
		bool known;
		struct destination_state state;
		char reason[64];
		uint64_t offset;	/* of the event applied last */
		bool flies[PROCESSES];
		struct flight_ref refs[PROCESSES];
	} names[NAMES];
	struct {
		int64_t until_ns;	/* 0: not held */
		char reason[64];
	} recipients[RECIPIENTS];
};

static struct model model;
static struct random dice;

static void name_of(unsigned number, char name[32]) {
	snprintf(name, 32, "name%u.example", number);
}

static unsigned model_in_flight(unsigned name) {
	unsigned count = 0;

	for (unsigned i = 0; i < PROCESSES; i++)
		count += model.names[name].flies[i];
	return count;
}

static struct flight_process process_of(unsigned number) {
	return (struct flight_process){ (int32_t)(100 + number), number };
}

static void change(unsigned number) {
	struct destination_state *state = &model.names[number].state;
	struct state_lock lock;
	char name[32];

	name_of(number, name);
	assert_int_equal(lock_it(name, STATES_CREATE, &lock), STATES_HELD);
	assert_int_equal(lock.is_new, !model.names[number].known);
	assert_int_equal(lock.state.ok, state->ok);
	model.names[number].known = true;
	if (!lock.state.begun) {
		window_begin(&lock.state.window, &window_defaults);
		lock.state.begun = true;
	}
	lock.state.ok += random_below(&dice, 3);
	lock.state.failed = random_below(&dice, 1000);
	lock.state.running = (uint16_t)random_below(&dice, 65536);
	lock.state.window.ceiling = (uint16_t)(1 + random_below(&dice, 100));
	lock.state.window.state = WINDOW_LIMITED;
	lock.state.window.success = (float)random_below(&dice, 100) / 100;
	if (random_below(&dice, 8) == 0)
		lock.state.flags ^= DESTINATION_CEILING;
	if (random_below(&dice, 3) == 0) {
		snprintf(model.names[number].reason,
		    sizeof(model.names[number].reason), "%.*s",
		    (int)random_below(&dice, 40),
		    "421 4.7.0 too many connections from your address");
		lock.reason = model.names[number].reason;
	}
	if (random_below(&dice, 2) == 0) {
		model.names[number].offset += random_below(&dice, 50);
		lock.origin = (struct state_origin){ 9,
			model.names[number].offset };
	}
	*state = lock.state;
	if (random_below(&dice, 2) == 0)
		states_store(&lock);	/* twice is as good as once */
	store_it(&lock);
}

static void fly(unsigned number, unsigned process) {
	const struct flight_process who = process_of(process);
	const struct flight_attempt attempt = { .queue_hash = 1 + process, .level = 1 };
	struct flight_ref *ref = &model.names[number].refs[process];
	struct state_lock lock;
	char name[32];

	name_of(number, name);
	if (model.names[number].flies[process] && ref->number != 0) {
		assert_true(flights_end(site.segment, ref, clock_now_ns()));
		model.names[number].flies[process] = false;
		return;
	}
	if (model.names[number].flies[process]) {
		assert_true(end_process(who) > 0);
		for (unsigned i = 0; i < NAMES; i++)
			model.names[i].flies[process] = false;
		return;
	}
	assert_int_equal(lock_it(name, STATES_CREATE, &lock), STATES_HELD);
	assert_true(flights_take(&lock, &who, &attempt, ref));
	if (random_below(&dice, 2) == 0)
		states_store(&lock);
	states_unlock(&lock);
	model.names[number].known = true;
	model.names[number].flies[process] = true;
}

/* After a restart with other sizes its place is another one. */
static void forget_refs(void) {
	for (unsigned i = 0; i < NAMES; i++)
		memset(model.names[i].refs, 0, sizeof(model.names[i].refs));
}

static void forget(unsigned number) {
	char name[32];

	name_of(number, name);
	assert_int_equal(forget_destination(site.segment, name, strlen(name),
	    clock_now_ns()), model.names[number].known);
	memset(&model.names[number].state, 0, sizeof(struct destination_state));
	model.names[number].reason[0] = '\0';
	if (model_in_flight(number) == 0) {
		model.names[number].known = false;
		model.names[number].offset = 0;
	}
}

static void hold_one(unsigned number) {
	int64_t *until_ns = &model.recipients[number].until_ns;
	struct recipient_hold hold;
	char address[32];

	snprintf(address, sizeof(address), "r%u@example.com", number);
	if (*until_ns != 0 && random_below(&dice, 2) == 0) {
		*until_ns = 0;
		assert_true(recipients_release(site.segment, address,
		    strlen(address), clock_now_ns()));
		return;
	}
	*until_ns = clock_now_ns() + (1 + random_below(&dice, 9)) * 1000 *
	    NS_PER_SECOND;
	snprintf(model.recipients[number].reason, 64, "reason %u",
	    random_below(&dice, 3));
	hold = (struct recipient_hold){ .address = address,
		.length = strlen(address), .until_ns = *until_ns,
		.reason = model.recipients[number].reason };
	assert_true(recipients_hold(site.segment, &hold, clock_now_ns()));
}

static void assert_is_model(void) {
	struct destination_window found;
	struct recipient_held held;
	char name[32];

	for (unsigned i = 0; i < NAMES; i++) {
		const struct destination_state *state = &model.names[i].state;

		name_of(i, name);
		assert_int_equal(find(name, &found), model.names[i].known);
		if (!model.names[i].known)
			continue;
		assert_int_equal(found.state.in_flight, model_in_flight(i));
		assert_int_equal(found.state.ok, state->ok);
		assert_int_equal(found.state.failed, state->failed);
		assert_int_equal(found.state.flags, state->flags);
		assert_int_equal(found.state.begun, state->begun);
		assert_memory_equal(&found.state.window, &state->window,
		    sizeof(state->window));
		assert_string_equal(found.reason, model.names[i].reason);
	}
	for (unsigned i = 0; i < RECIPIENTS; i++) {
		snprintf(name, sizeof(name), "r%u@example.com", i);
		assert_int_equal(recipients_find(site.segment, name, strlen(name),
		    clock_now_ns(), &held),
		    model.recipients[i].until_ns != 0);
		if (model.recipients[i].until_ns != 0) {
			assert_true(held.until_ns == model.recipients[i].until_ns);
			assert_string_equal(held.reason,
			    model.recipients[i].reason);
		}
	}
}

static void assert_applied(void) {
	for (unsigned i = 0; i < NAMES; i++) {
		struct state_lock lock;
		char name[32];

		name_of(i, name);
		if (!model.names[i].known || model.names[i].offset == 0)
			continue;
		assert_int_equal(lock_it(name, STATES_KNOWN_ONLY, &lock),
		    STATES_HELD);
		assert_true(states_was_applied(&lock, &(struct state_origin){ 9,
		    model.names[i].offset }));
		assert_false(states_was_applied(&lock, &(struct state_origin){ 9,
		    model.names[i].offset + 1 }));
		states_unlock(&lock);
	}
}

TEST_IN(site_begin, site_end, it_does_as_the_model_does) {
	memset(&model, 0, sizeof(model));
	dice = random_seeded("it_does_as_the_model_does");
	for (unsigned step = 0; step < 4000; step++) {
		unsigned number = random_below(&dice, NAMES);

		switch (random_below(&dice, 8)) {
		case 0: case 1: case 2: change(number); break;
		case 3: case 4: fly(number, random_below(&dice, PROCESSES)); break;
		case 5:
			if (random_below(&dice, 4) == 0)
				forget(number);
			break;
		default: hold_one(random_below(&dice, RECIPIENTS)); break;
		}
		if (step % 10 == 0)
			assert_is_model();
		if (step % 1000 != 999)
			continue;
		site.destinations = 256 + step % 3000;
		site_restart(&site, step % 2000 == 999 ? 64 : 100 + step, CLASSES);
		forget_refs();
		assert_is_model();
		assert_applied();
	}
	assert_int_equal(counted(COUNTER_WINDOWS_BEGUN_ANEW), 0);
}

/* --- readers and writers at once -------------------------------------------------- */

#define MANY	600	/* for 256 places */

struct racing {
	_Atomic bool stop;
	_Atomic unsigned torn, looked;
};

/* All parts of a state tell the same number, and the reason the name. */
static void count_on(unsigned name, uint32_t number, const char *reason) {
	struct state_lock lock;
	char text[32];

	name_of(name, text);
	if (!states_aim(site.segment, text, strlen(text), &lock) ||
	    states_lock(&lock, clock_now_ns(), STATES_CREATE) != STATES_HELD)
		return;
	window_begin(&lock.state.window, &window_defaults);
	lock.state.begun = true;
	lock.state.ok = number;
	lock.state.failed = number;
	lock.state.held = number;
	lock.state.running = (uint16_t)number;
	lock.state.window.until_ns = number;
	lock.state.window.canary_ns = number;
	lock.reason = reason;
	store_it(&lock);
}

static void *write_all_the_time(void *context) {
	struct random random = { (uint64_t)(uintptr_t)context };
	const struct flight_process process = { (int32_t)(uintptr_t)context, 1 };
	const struct flight_attempt attempt = { .queue_hash = 77, .level = 1 };
	struct flight_ref ref = { 0, 0 };

	for (unsigned i = 0; i < 30000; i++) {
		unsigned name = random_below(&random, MANY);
		struct state_lock lock;
		char text[32];

		name_of(name, text);
		count_on(name, random_below(&random, 4096), text);
		if (i % 16 == 0)
			(void)forget_destination(site.segment, text, strlen(text),
			    clock_now_ns());
		if (ref.number != 0)
			while (!flights_end(site.segment, &ref, clock_now_ns()))
				;
		ref.number = 0;
		if (states_aim(site.segment, text, strlen(text), &lock) &&
		    states_lock(&lock, clock_now_ns(), STATES_CREATE) ==
			STATES_HELD) {
			(void)flights_take(&lock, &process, &attempt, &ref);
			states_unlock(&lock);
		}
	}
	while (ref.number != 0 &&
	    !flights_end(site.segment, &ref, clock_now_ns()))
		;
	return NULL;
}

static bool is_whole(const struct destination_window *w) {
	const struct destination_state *s = &w->state;

	if (s->in_flight > 3 ||
	    (w->reason[0] != '\0' && strcmp(w->reason, w->name) != 0))
		return false;
	return !s->begun || (s->ok == s->failed && s->ok == s->held &&
	    s->ok == s->running && s->window.until_ns == s->ok &&
	    s->window.canary_ns == s->ok);
}

static void check_one(void *context, const struct destination_window *window) {
	struct racing *racing = context;

	atomic_fetch_add(&racing->looked, 1);
	if (!is_whole(window))
		atomic_fetch_add(&racing->torn, 1);
}

static void *read_all_the_time(void *context) {
	struct racing *racing = context;
	struct random random = { 99 };
	struct flight_attempt attempt;

	while (!atomic_load(&racing->stop)) {
		struct learned_follower changed = { .word = 0 };
		struct destination_window window;
		unsigned name = random_below(&random, MANY);
		char text[32];

		name_of(name, text);
		if (find(text, &window)) {
			check_one(racing, &window);
			if (strcmp(window.name, text) != 0)
				atomic_fetch_add(&racing->torn, 1);
		}
		if (flights_find_attempt(site.segment, text, strlen(text), 77,
			clock_now_ns(), &attempt) && attempt.level != 1)
			atomic_fetch_add(&racing->torn, 1);
		if (name % 64 == 0)
			(void)states_each(site.segment, check_one, racing);
		if (name % 64 == 1)
			while (states_next(site.segment, STATES_CHANGED, &changed, &window))
				check_one(racing, &window);
	}
	return NULL;
}

static void count_flights(void *context, const struct destination_window *window) {
	*(unsigned *)context += window->state.in_flight;
}

TEST_IN(site_begin, site_end, readers_never_see_half_of_a_change) {
	struct racing racing = { false, 0, 0 };
	pthread_t reader, writers[3];
	unsigned in_flight = 0;
	uint32_t used, size;

	assert_int_equal(pthread_create(&reader, NULL, read_all_the_time,
	    &racing), 0);
	for (uintptr_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&writers[i], NULL,
		    write_all_the_time, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(writers[i], NULL);
	atomic_store(&racing.stop, true);
	pthread_join(reader, NULL);
	assert_int_equal(atomic_load(&racing.torn), 0);
	assert_true(atomic_load(&racing.looked) > 0);
	(void)states_each(site.segment, count_flights, &in_flight);
	assert_int_equal(in_flight, 0);
	flights_used(site.segment, &used, &size);
	assert_int_equal(used, 0);
}

/* A follower is told of the last change, whatever else it was told before. */
static _Atomic uint32_t seen_last[8];

static unsigned remember_changed(void) {
	struct learned_follower at = { .word = 0 };
	struct destination_window window;
	unsigned name, count = 0;

	for (; states_next(site.segment, STATES_CHANGED, &at, &window); count++)
		if (sscanf(window.name, "name%u.example", &name) == 1 && name < 8)
			atomic_store(&seen_last[name], window.state.ok);
	return count;
}

static void *change_eight(void *context) {
	struct random random = { (uint64_t)(uintptr_t)context };

	for (uint32_t i = 1; i <= 20000; i++)
		count_on((unsigned)((uintptr_t)context * 4 +
		    random_below(&random, 4)), i, NULL);
	return NULL;
}

TEST_IN(site_begin, site_end, no_change_is_missed) {
	struct destination_window found;
	pthread_t writers[2];
	char name[32];

	for (uintptr_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&writers[i], NULL, change_eight,
		    (void *)i), 0);
	for (unsigned i = 0; i < 20000; i++)
		(void)remember_changed();
	for (unsigned i = 0; i < 2; i++)
		pthread_join(writers[i], NULL);
	(void)remember_changed();
	for (unsigned i = 0; i < 8; i++) {
		name_of(i, name);
		assert_true(find(name, &found));
		assert_int_equal(atomic_load(&seen_last[i]), found.state.ok);
	}
	assert_int_equal(remember_changed(), 0);
}

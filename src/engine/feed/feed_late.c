/* SPDX-License-Identifier: ISC */
/* Levels of attempts that a log tells of when they have ended, and windows hear of when those
 * that began before have.  A slot that cannot be had: what was due comes again.  One thread. */
#include "base/clock.h"
#include "engine/feed/feed_internal.h"
#include "segment/destination/shared.h"

#define VERDICTS_MAX	16
#define TURN_NS		(250 * NS_PER_MS)

uint32_t feed_elsewhere(const struct state_lock *lock, int64_t now_ns) {
	struct shared_seen shared;

	return shared_find(lock->segment, lock->key.hash, &shared) ?
	    shared_others(&shared, lock->state.window.ceiling, now_ns) : 0;
}

unsigned feed_hear_levels(struct state_lock *lock, const struct window_rules *rules,
    struct feed_destination *destination, int64_t now_ns, struct feed_told *told) {
	struct window_change change;
	struct level_verdict verdict;
	unsigned count = 0;
	uint32_t level;

	for (; destination != NULL && count < VERDICTS_MAX &&
	     level_next(&destination->level, now_ns, &verdict); count++) {
		if ((verdict.tag & FEED_TAG_CANARY) != 0 || verdict.start_ns < lock->state.resumed_ns)
			continue;
		level = level_heard(&verdict, lock->state.window.ceiling);
		window_late_level(&lock->state.window, &rules->settings,
		    (enum result_class)(verdict.tag & 0xff),
		    level == 0 || verdict.accepted ? level : level + feed_elsewhere(lock, now_ns),
		    now_ns, &change);
		feed_note_change(told, &change);
		if ((verdict.tag & 0xff) != RESULT_OK)
			continue;
		window_took(&lock->state.window, &rules->settings, &verdict, now_ns, &change);
		feed_note_change(told, &change);
	}
	return count;
}

void feed_set_running(struct feed_destination *destination, struct destination_state *state,
    int64_t now_ns) {
	uint32_t running = level_running(&destination->level, now_ns);

	destination->told_running = running;
	state->running = (uint16_t)(running < UINT16_MAX ? running : UINT16_MAX);
}

/* Levels that are known by now.  True: there is more to come. */
static bool learn_levels(struct feed_memory *memory, const struct generation *generation,
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
			if (locked == STATES_UNKNOWN)
				destination->told_running = 0;
			break;
		}
		told.before = lock.state.window.concurrency;
		told.ceiling_before = lock.state.window.ceiling;
		count = feed_hear_levels(&lock, &rules, destination, now_ns, &told);
		told.fell = feed_has_fallen(told.ceiling_before, lock.state.window.ceiling);
		feed_set_running(destination, &lock.state, now_ns);
		states_store(&lock);
		states_unlock(&lock);
		windows_report_back(memory->engine, generation, &destination->owner,
		    &lock.state, &rules.settings, &change, now_ns);
		if ((told.changed && rules.debug) || told.fell)
			feed_report_change(memory, generation, destination, &lock, &rules, &told,
			    now_ns);
	} while (count == VERDICTS_MAX);
	/* a slot that could not be had shows what runs no more */
	return running > 0 || destination->told_running > 0 ||
	    level_due_ns(&destination->level) != INT64_MAX;
}

void feed_await(struct feed_memory *memory, struct feed_destination *destination) {
	if (!destination->waiting)
		TAILQ_INSERT_TAIL(&memory->waiting, destination, entry);
	destination->waiting = true;
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
	feed_forget_running(memory);
	for (destination = TAILQ_FIRST(&memory->waiting); destination != NULL;
	     destination = next) {
		bool waits = learn_levels(memory, generation, destination, now_ns);

		next = TAILQ_NEXT(destination, entry);
		feed_shrink(memory, destination);
		if (waits)
			continue;
		TAILQ_REMOVE(&memory->waiting, destination, entry);
		destination->waiting = false;
	}
	feed_table_sweep(memory->table, now_ns);
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What the law of a window is told of one result, and of levels that are known late.
 * MODEL    Inside the transaction of feed_learn.c: beside the class, what a log and the
 *          questions of mail servers say of the level, of the start, and of other deliveries.
 * ERRORS   What is not known is told as such.
 * THREADS  One.
 */
#include "base/clock.h"
#include "engine/feed/feed_internal.h"
#include "segment/destination/shared.h"

void feed_note_change(struct feed_told *told, const struct window_change *change) {
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

void feed_hear_levels(struct state_lock *lock, const struct window_rules *rules,
    const struct level_verdict *verdicts, unsigned count, int64_t now_ns,
    struct feed_told *told) {
	struct window_change change;
	uint32_t level;

	for (unsigned i = 0; i < count; i++) {
		if ((verdicts[i].tag & FEED_TAG_CANARY) != 0 ||
		    verdicts[i].start_ns < lock->state.resumed_ns)
			continue;
		level = level_heard(&verdicts[i], lock->state.window.ceiling);
		window_late_level(&lock->state.window, &rules->settings,
		    (enum result_class)(verdicts[i].tag & 0xff),
		    level == 0 || verdicts[i].accepted ? level : level + elsewhere(lock, now_ns),
		    now_ns, &change);
		feed_note_change(told, &change);
		window_took(&lock->state.window, &rules->settings, verdicts[i].beside,
		    verdicts[i].took_ns, now_ns, &change);
		feed_note_change(told, &change);
	}
}

/* A failure of what was begun before somebody resumed the destination is an echo. */
void feed_hear_echo(struct feed_learning *l) {
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

void feed_hear(struct feed_learning *l) {
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
	feed_note_change(&l->told, &change);
}

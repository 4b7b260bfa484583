/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Runs that get nothing done: a sendmail that cannot be run, does nothing, or cannot
 *          write its queue files.
 * MODEL    Files that are as they were after their run count against the mail server until
 *          one is not: one that somebody else has locked looks the same, so that it takes
 *          several.  Then its runs wait, longer each time.
 * THREADS  One.
 */
#include "engine/queue/queue_internal.h"

#define PAUSE_FIRST_NS	(500 * NS_PER_MS)
#define PAUSE_LAST_NS	(30 * NS_PER_SECOND)
#define FRUITLESS_MOST	6u
#define OF_A_FAILURE	3u	/* an exit code counts for so many */

static void tell_pause(struct queue *queue, unsigned mta, enum queue_pause why) {
	_Atomic uint32_t *paused = &queue->engine->segment->header->queue_paused;

	queue->mtas[mta].pause = (uint8_t)why;
	if (why == QUEUE_NOT_PAUSED)
		atomic_fetch_and(paused, ~(UINT32_C(1) << mta));
	else
		atomic_fetch_or(paused, UINT32_C(1) << mta);
}

enum queue_pause queue_paused(const struct queue *queue, unsigned mta) {
	return (enum queue_pause)queue->mtas[mta].pause;
}

void queue_pause(struct queue *queue, unsigned mta, enum queue_pause why) {
	struct queue_mta *m = &queue->mtas[mta];

	tell_pause(queue, mta, why);
	/* of runs that were started together one counts */
	if (queue->now_ns < m->hold_ns)
		return;
	m->hold_pause_ns = m->hold_pause_ns == 0 ? PAUSE_FIRST_NS : 2 * m->hold_pause_ns;
	if (m->hold_pause_ns > PAUSE_LAST_NS)
		m->hold_pause_ns = PAUSE_LAST_NS;
	m->hold_ns = queue->now_ns + m->hold_pause_ns;
}

void queue_note_works(struct queue *queue, unsigned mta) {
	struct queue_mta *m = &queue->mtas[mta];

	m->fruitless = 0;
	if (m->pause == QUEUE_NOT_PAUSED)
		return;
	tell_pause(queue, mta, QUEUE_NOT_PAUSED);
	m->hold_ns = m->hold_pause_ns = 0;
}

void queue_note_untouched(struct queue *queue, const struct message *m) {
	struct queue_mta *mta = &queue->mtas[m->mta];

	if (m->was_asked)
		return;
	mta->fruitless += m->ended == QUEUE_RUN_FAILED ? OF_A_FAILURE : 1;
	if (mta->fruitless >= FRUITLESS_MOST && mta->pause != QUEUE_PAUSE_NOT_WRITTEN)
		queue_pause(queue, m->mta, QUEUE_PAUSE_FRUITLESS);
}

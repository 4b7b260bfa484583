/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The grants of the driven queue's runs.
 * MODEL    The shorter of two lists: of what goes, or of what does not.  A turn is asked by
 *          the canonical name, grants and the question before the connect have the one that
 *          is written: a list of what goes does not know an alias (CNAME).  Where nobody
 *          came to ask for what was granted, the next grant is one of which that last
 *          question alone decides, at the price of a log line for each that does not go.
 * ERRORS   The table is bounded: where there is no place the message waits.
 * THREADS  One.
 */
#include <string.h>

#include "engine/queue/queue_internal.h"

/* Is one to go whose turn is asked by another name than that of its grant? */
static bool has_other_name(const struct message *m) {
	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (p->chosen && p->domain->has_other_name)
			return true;
	return false;
}

static enum grant_mode mode_of(const struct message *m, uint32_t others) {
	if (others <= GRANT_DOMAINS)
		return GRANT_EXCEPT;
	return m->at_last || has_other_name(m) ? GRANT_ONLY_AT_LAST : GRANT_ONLY;
}

_Static_assert((int)GRANT_ONCE_ENFORCE == (int)EXACTLY_ONCE_ENFORCE &&
    (int)GRANT_ONCE_OBSERVE == (int)EXACTLY_ONCE_OBSERVE, "as it is configured");

/* Neither list fits: as many as do, the others' turn comes. */
bool queue_put_grant(struct queue *queue, struct message *m, uint32_t chosen, uint32_t run) {
	uint32_t domains[GRANT_DOMAINS];
	struct grant grant = { .queue_id = m->id, .queue_id_length = strlen(m->id),
		.run = run, .domains = domains,
		.mode = mode_of(m, m->part_count - chosen),
		.once = (enum grant_once)queue->settings.mtas[m->mta].exactly_once,
		.made_s = (uint32_t)m->made_s };

	for (struct part *p = m->parts; p != NULL; p = p->next_of_message) {
		if (p->chosen != (grant.mode != GRANT_EXCEPT))
			continue;
		if (grant.count < GRANT_DOMAINS)
			domains[grant.count++] = p->domain->hash;
		else
			p->chosen = false;
	}
	if (!grants_put(queue->engine->segment, &grant, &m->grant))
		return false;
	m->by_turn = grant.mode == GRANT_ONLY;
	m->at_last = false;
	queue->granted++;
	return true;
}

void queue_end_grant(struct queue *queue, struct message *m, struct grant_seen *seen) {
	grants_remove(queue->engine->segment, &m->grant, seen);
	queue->granted -= m->grant.number != 0;
	m->grant = (struct grant_ref){ 0, 0 };
}

void queue_note_not_reached(struct message *m, const struct grant_seen *seen) {
	uint32_t count = 0;

	m->not_reached = false;
	if (!m->by_turn || seen->progress_ns == 0 || m->ended == QUEUE_RUN_KILLED ||
	    m->ended == QUEUE_RUN_NOT_STARTED)
		return;
	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message) {
		struct domain *d = p->domain;

		if (p->state != PART_RUNNING || p->put_off || d->name[0] == '\0')
			continue;
		count += p->recipients;
		if (seen->asked == 0)
			d->has_other_name = true;
	}
	m->not_reached = seen->asked == 0 && count > 0;
	m->at_last = seen->asked < count;
}

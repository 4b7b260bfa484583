/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Whose answer the queue manager of a Postfix remembers.
 * MODEL    It keeps the answer about one address, for 30 s from when it asked, and its key
 *          has the sender, too.  Each message that it takes up makes a line before it
 *          asks: that of the last line is what it remembers, if the answer held it.
 * ERRORS   Of what is not known, nothing is remembered: it is handed out at once.
 * THREADS  One.
 */
#include "engine/requeue/requeue_internal.h"

#include <string.h>

#include "base/siphash.h"
#include "engine/internal.h"

#define REMEMBERED_NS	(30 * NS_PER_SECOND)

static struct requeue_taken *taken_at(struct requeue_mta *mta, uint32_t back) {
	return &mta->taken[(mta->taken_count - 1 - back) % REQUEUE_TAKEN];
}

static struct requeue_taken *find(struct requeue_mta *mta, const char *id, uint32_t *back) {
	for (*back = 0; *back < mta->taken_count && *back < REQUEUE_TAKEN; ++*back)
		if (strcmp(taken_at(mta, *back)->id, id) == 0)
			return taken_at(mta, *back);
	return NULL;
}

bool requeue_active(struct requeue *requeue, const struct generation *generation, unsigned mta,
    struct span id, struct span sender) {
	struct requeue_taken *taken;
	struct requeue_mta *m;
	bool is_waited_for;

	if (!requeue_is_postfix(generation, mta) || id.length > REQUEUE_ID_MAX)
		return false;
	requeue_take_up(requeue, generation);
	m = &requeue->mtas[mta];
	is_waited_for = m->waits_for_another;
	m->taken_count++;
	taken = taken_at(m, 0);
	*taken = (struct requeue_taken){ .sender = siphash13(
		&requeue->engine->segment->header->key, sender.text, sender.length) };
	memcpy(taken->id, id.text, id.length);
	m->waits_for_another = false;
	return is_waited_for;
}

static uint16_t hash_address(const struct requeue *requeue, const struct requeue_taken *taken,
    struct span recipient) {
	const struct siphash_key key = { requeue->engine->segment->header->key.k0,
		taken->sender };
	uint64_t hash = siphash13(&key, recipient.text, recipient.length);

	return (uint16_t)(hash % UINT16_MAX + 1);
}

/* An answer that was remembered already is not renewed. */
static int64_t asked_ns(struct requeue_mta *mta, uint32_t back, uint16_t address,
    int64_t ended_ns) {
	const struct requeue_taken *before = taken_at(mta, back + 1);

	if (back + 1 < mta->taken_count && back + 1 < REQUEUE_TAKEN && !before->several &&
	    before->address == address && ended_ns < before->asked_ns + REMEMBERED_NS)
		return before->asked_ns;
	return ended_ns;
}

void requeue_resolved(struct requeue *requeue, struct requeue_entry *e,
    const struct requeue_result *result, int64_t now_ns) {
	struct requeue_mta *mta = &requeue->mtas[e->mta];
	uint32_t back;
	struct requeue_taken *taken = find(mta, e->id, &back);
	/* the log tells whole seconds */
	int64_t ended_ns = result->ended_ns + NS_PER_SECOND < now_ns ?
	    result->ended_ns + NS_PER_SECOND : now_ns;
	uint16_t address;

	if (taken == NULL || result->recipient.length == 0)
		return;
	address = hash_address(requeue, taken, result->recipient);
	e->address = address;
	if (result->class != RESULT_SUSPENDED || result->ended_ns == 0)
		return;
	if (taken->address != 0 && taken->address != address)
		taken->several = true;
	if (taken->address == 0)
		taken->asked_ns = asked_ns(mta, back, address, ended_ns);
	taken->address = address;
}

int64_t requeue_remembered_until_ns(struct requeue *requeue, const struct requeue_entry *e,
    int64_t now_ns) {
	struct requeue_mta *mta = &requeue->mtas[e->mta];
	const struct requeue_taken *last = taken_at(mta, 0);

	/* of several recipients the first one is asked about once more, and then the others */
	if (mta->taken_count == 0 || last->address == 0 || last->several ||
	    now_ns >= last->asked_ns + REMEMBERED_NS ||
	    (e->address != last->address && strcmp(e->id, last->id) != 0))
		return 0;
	mta->waits_for_another = true;
	return last->asked_ns + REMEMBERED_NS;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Hands out mail that waits for its destination's pace (DESIGN section 16).
 * MODEL    While any waits, only such mail goes: each message has a pass, which is in the hints
 *          file a moment before the token is there that it is called up with.  The bucket of
 *          postern-lookup was empty when the first one was held: so ours is then, too.
 * ERRORS   A pass that does not get into the file: the message is called up all the same, and
 *          held once more.
 * THREADS  One.
 */
#include <string.h>

#include "engine/internal.h"
#include "engine/requeue/requeue_internal.h"
#include "segment/hints/hints.h"
#include "segment/hints/lane_uses.h"

#define AHEAD_NS	(200 * NS_PER_MS)	/* the keeper writes each 50 to 100 ms */
#define STEP_NS		(5 * NS_PER_MS)
#define AGAIN_FIRST_NS	NS_PER_SECOND
#define AGAIN_LAST_NS	(600 * NS_PER_SECOND)
#define LATE_NS		(100 * NS_PER_MS)
#define UNWRITTEN_NS	(2 * NS_PER_SECOND)

void requeue_pace_address(const struct requeue *requeue, struct requeue_entry *e,
    const char *address) {
	size_t length = strlen(address);

	if (e->place == REQUEUE_OUT || length == 0)
		return;
	length -= address[length - 1] == '.';
	e->addresses = hints_pass_add(&requeue->pass_key, e->addresses, address, length);
}

/* Nothing is left of what the reader may have taken. */
static void empty_bucket(struct requeue *requeue, const struct generation *generation,
    const struct window_owner *owner, int64_t now_ns) {
	struct window_tokens tokens;

	windows_pace_take(requeue->engine, generation, owner, PACE_BURST_MOST, now_ns, &tokens);
}

/* What was refused is tried again behind all other mail: the pace is lower by then, and where all
 * is refused, tokens come more and more slowly. */
static void try_again(struct requeue *requeue, struct requeue_destination *d, int64_t now_ns) {
	const struct requeue_list *refused = &d->places[REQUEUE_WAITING];

	if (refused->count == 0 || d->down || now_ns < d->again_ns ||
	    d->places[REQUEUE_DUE].count + d->places[REQUEUE_OUT].count > 0)
		return;
	while (refused->count > 0 && requeue_move(&requeue->store,
	    refused->entries[refused->count - 1], REQUEUE_DUE))
		;
	d->again_pause_ns = d->again_pause_ns == 0 ? AGAIN_FIRST_NS : 2 * d->again_pause_ns;
	if (d->again_pause_ns > AGAIN_LAST_NS)
		d->again_pause_ns = AGAIN_LAST_NS;
	d->again_ns = now_ns + d->again_pause_ns;
}

void requeue_pace_went(struct requeue_destination *d) {
	d->again_ns = d->again_pause_ns = 0;
}

static void end(struct requeue_destination *d) {
	if (d->waits != NULL)
		paced_beat(d->waits, 0);
	d->waits = NULL;
	d->is_paced = d->was_paced = false;
	d->token_ns = 0;
}

void requeue_pace_look(struct requeue *requeue, const struct generation *generation,
    struct requeue_destination *d, const struct window_owner *owner,
    const struct window_view *view, int64_t now_ns) {
	struct segment *segment = requeue->engine->segment;

	if (view->pace.interval_ns != 0 && !view->observed)
		try_again(requeue, d, now_ns);
	if (view->pace.interval_ns == 0 || view->observed ||
	    d->places[REQUEUE_DUE].count + d->places[REQUEUE_OUT].count == 0) {
		end(d);
		return;
	}
	if (!d->is_paced && d->was_paced)
		empty_bucket(requeue, generation, owner, now_ns);
	d->is_paced = true;
	d->interval_ns = view->pace.interval_ns;
	if (d->waits == NULL)
		d->waits = paced_begin(segment, lane_uses_hash(segment, owner->name,
		    strlen(owner->name)), now_ns);
	else
		paced_beat(d->waits, now_ns);
}

void requeue_pace_end(struct requeue_destination *d) {
	end(d);
}

/* By the time at which it was said to come: what a turn is late must not make the pace lower. */
static bool take(struct requeue *requeue, const struct generation *generation,
    struct requeue_destination *d, const struct window_owner *owner, int64_t now_ns) {
	struct window_tokens tokens;
	bool on_time = d->token_ns != 0 && now_ns >= d->token_ns && now_ns - d->token_ns < LATE_NS;

	windows_pace_take(requeue->engine, generation, owner, 1, on_time ? d->token_ns : now_ns,
	    &tokens);
	d->token_ns = tokens.taken != 0 ? 0 : (on_time ? d->token_ns : now_ns) + tokens.wait_ns;
	return tokens.taken != 0;
}

/* When the last of those on their way has its token, about. */
static int64_t last_token_ns(const struct requeue *requeue, const struct requeue_destination *d) {
	int64_t at_ns = d->token_ns;

	for (uint32_t i = 0; i < requeue->going_count; i++)
		if (&requeue->store.destinations[requeue->going[i].destination] == d &&
		    !requeue->going[i].has_token)
			at_ns += d->interval_ns;
	return at_ns;
}

static bool has_others(const struct requeue *requeue, uint32_t destination) {
	for (uint32_t i = 0; i < requeue->going_count; i++)
		if (requeue->going[i].destination == destination && !requeue->going[i].has_token)
			return true;
	return false;
}

int64_t requeue_pace_send(struct requeue *requeue, const struct generation *generation,
    uint32_t entry, const struct window_owner *owner, int64_t now_ns) {
	struct requeue_entry *e = &requeue->store.entries[entry];
	struct requeue_destination *d = &requeue->store.destinations[e->destination];
	struct requeue_going *going = &requeue->going[requeue->going_count];
	bool has_token = false;

	if (requeue->going_count == REQUEUE_GOING)
		return now_ns + STEP_NS;
	if (now_ns >= d->token_ns && !has_others(requeue, e->destination))
		has_token = take(requeue, generation, d, owner, now_ns);
	if (!has_token && last_token_ns(requeue, d) > now_ns + AHEAD_NS)
		return last_token_ns(requeue, d) - AHEAD_NS;
	*going = (struct requeue_going){ .owner = *owner, .destination = e->destination,
		.has_token = has_token, .made_ns = now_ns, .mta = e->mta, .waits = d->waits };
	memcpy(going->id, e->id, sizeof(going->id));
	if (d->waits != NULL)
		going->pass = paced_pass(requeue->engine->segment, d->waits, e->addresses == 0 ?
		    HINTS_PASS_ANY : e->addresses, now_ns);
	requeue->going_count++;
	e->out_ns = now_ns;
	return 0;
}

uint32_t requeue_pace_passes(const struct requeue *requeue, uint32_t destination) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < requeue->going_count; i++)
		count += requeue->going[i].destination == destination;
	return count;
}

/* 0: it is on its way; or when to come again. */
static int64_t go(struct requeue *requeue, const struct generation *generation,
    struct requeue_going *going, int64_t now_ns) {
	struct requeue_destination *d = &requeue->store.destinations[going->destination];

	if (!going->has_token && d->is_paced) {
		if (now_ns >= d->token_ns)
			going->has_token = take(requeue, generation, d, &going->owner, now_ns);
		if (!going->has_token)
			return d->token_ns;
	}
	if (going->waits != NULL && !paced_is_written(going->waits, going->pass) &&
	    now_ns < going->made_ns + UNWRITTEN_NS)
		return now_ns + STEP_NS;
	return requeue->calls.flush(requeue->calls.context, going->mta, going->id) ? 0 :
	    now_ns + STEP_NS;
}

int64_t requeue_pace_turn(struct requeue *requeue, const struct generation *generation,
    int64_t now_ns) {
	int64_t next_ns = INT64_MAX;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < requeue->going_count; i++) {
		struct requeue_going *going = &requeue->going[i];
		int64_t at_ns = go(requeue, generation, going, now_ns);

		if (at_ns == 0)
			continue;
		if (at_ns < next_ns)
			next_ns = at_ns;
		if (kept != i)
			requeue->going[kept] = *going;
		kept++;
	}
	requeue->going_count = kept;
	return next_ns <= now_ns ? now_ns + STEP_NS : next_ns;
}

void requeue_pace_forget(struct requeue *requeue, unsigned mta) {
	uint32_t kept = 0;

	for (uint32_t i = 0; i < requeue->going_count; i++)
		if (requeue->going[i].mta != mta)
			requeue->going[kept++] = requeue->going[i];
	requeue->going_count = kept;
}

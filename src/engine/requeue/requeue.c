/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Hand out mail that waits for destinations, as they return.
 * MODEL    A turn looks at a part of the destinations that mail waits for: what was
 *          down and is not any more has returned.  Its mail becomes due a moment
 *          later, as the hints have to change first.  A message that was handed out
 *          takes a place until its result is read.
 * ERRORS   What cannot be remembered is read again from the queue's list, when there
 *          is room; a result that never comes is given up after a time.
 * THREADS  One.
 */
#include "engine/requeue/requeue_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"
#include "engine/destination/sources.h"
#include "engine/hints/hints.h"
#include "engine/internal.h"
#include "engine/outbound/outbound.h"

#define TURN_NS		(100 * NS_PER_MS)
#define QUIET_TURN_NS	NS_PER_SECOND
#define LOOKS_A_TURN	1024U
#define PAUSE_FIRST_NS	NS_PER_SECOND
#define DUE_LOOKS	64U
#define PAUSE_LAST_NS	(31 * NS_PER_SECOND)
#define RESULT_LIMIT_NS	(300 * NS_PER_SECOND)
/* What was handed out so long ago takes no place any more; where all that is out is of this
 * age, messages may have been deleted or put on hold, which Postfix does not log. */
#define OVERDUE_NS	(20 * NS_PER_SECOND)
#define ON_ITS_WAY_NS	(5 * NS_PER_SECOND)	/* between two queues */
#define DOUBT_FIRST_NS	(60 * NS_PER_SECOND)	/* between lists that are asked for then */
#define DOUBT_LAST_NS	(3600 * NS_PER_SECOND)
#define LIST_AGAIN_NS	(300 * NS_PER_SECOND)
#define LIST_TRIES	5
#define LIST_RETRY_NS	(6 * NS_PER_SECOND)	/* then twice as long each time */

int requeue_open(struct requeue **requeue, struct engine *engine,
    const struct requeue_calls *calls, struct diag *diag) {
	struct requeue *new = calloc(1, sizeof(*new));

	if (new == NULL ||
	    !requeue_store_open(&new->store, engine->segment->header->key.k0)) {
		free(new);
		return diag_set(diag, 0, "no memory for waiting mail");
	}
	new->engine = engine;
	new->pass_key = paced_key(engine->segment);
	new->calls = *calls;
	*requeue = new;
	return 0;
}

void requeue_close(struct requeue **requeue) {
	if (*requeue == NULL)
		return;
	requeue_store_close(&(*requeue)->store);
	free(*requeue);
	*requeue = NULL;
}

/* --- mail servers ------------------------------------------------------------------ */

static void forget(struct requeue *requeue, unsigned mta) {
	struct requeue_store *store = &requeue->store;

	for (uint32_t i = 0; i < store->entry_end; i++)
		if (store->entries[i].id[0] != '\0' && store->entries[i].mta == mta)
			requeue_remove(store, i);
	requeue_pace_forget(requeue, mta);
	requeue->mtas[mta] = (struct requeue_mta){ .identity = 0 };
}

static uint64_t identity_of(const struct requeue *requeue,
    const struct generation *generation, unsigned mta) {
	const struct generation_mta *m = &generation->mtas[mta];
	const char *name = generation_text(generation, m->name);
	const char *directory = generation_text(generation, m->config_directory);
	const struct siphash_key key = { siphash13(&requeue->engine->segment->header->key,
		name, strlen(name)), m->kind };

	return siphash13(&key, directory, strlen(directory)) | 1;
}

void requeue_take_up(struct requeue *requeue, const struct generation *generation) {
	if (requeue->generation == generation->number)
		return;
	for (unsigned i = 0; i < GENERATION_MTAS_MAX; i++) {
		uint64_t identity = i < generation->mta_count ?
		    identity_of(requeue, generation, i) : 0;

		if (identity == requeue->mtas[i].identity)
			continue;
		forget(requeue, i);
		requeue->mtas[i].identity = identity;
	}
	requeue->generation = generation->number;
}

bool requeue_is_postfix(const struct generation *generation, unsigned mta) {
	return mta < generation->mta_count && generation->mtas[mta].transport == 0 &&
	    generation->mtas[mta].kind == MTA_POSTFIX;
}

/* Once after a start, and when there is room for what was not remembered. */
static void ask_lists(struct requeue *requeue, const struct generation *generation,
    int64_t now_ns) {
	for (unsigned i = 0; i < generation->mta_count; i++) {
		struct requeue_mta *mta = &requeue->mtas[i];
		/* a doubt does not hurry the first list, whose tries are few */
		bool again = !mta->listed || (mta->overflowed &&
		    requeue->store.entry_count < REQUEUE_ENTRIES_MAX / 2);
		bool doubts = mta->listed && mta->doubtful && now_ns >= mta->doubt_ns;

		if (!requeue_is_postfix(generation, i) || mta->listing ||
		    generation->outbound_observe ||
		    !(doubts || (again && now_ns >= mta->list_ns)))
			continue;
		mta->listing = requeue->calls.list(requeue->calls.context, i);
		if (!mta->listing)
			continue;
		mta->round++;
		mta->listing_ns = now_ns;
		mta->overflowed = mta->doubtful = false;
		mta->list_ns = now_ns + LIST_AGAIN_NS;
	}
}

/* Messages that are in the queue no more.  One that is on its way from one queue to the
 * other may be in neither list. */
static uint32_t remove_unlisted(struct requeue *requeue, unsigned mta) {
	struct requeue_store *store = &requeue->store;
	const struct requeue_mta *m = &requeue->mtas[mta];
	uint32_t count = 0;

	for (uint32_t i = 0; i < store->entry_end; i++) {
		const struct requeue_entry *e = &store->entries[i];

		if (e->id[0] == '\0' || e->mta != mta || e->round == m->round ||
		    (e->place == REQUEUE_OUT && e->out_ns >= m->listing_ns - ON_ITS_WAY_NS))
			continue;
		requeue_remove(store, i);
		count++;
	}
	return count;
}

/* Was it right to doubt?  If not, the next doubt has to wait longer. */
static void end_doubt(struct requeue_mta *mta, bool was_right, int64_t now_ns) {
	int64_t pause_ns = 2 * mta->doubt_pause_ns;

	if (was_right || pause_ns < DOUBT_FIRST_NS)
		pause_ns = DOUBT_FIRST_NS;
	mta->doubt_pause_ns = pause_ns < DOUBT_LAST_NS ? pause_ns : DOUBT_LAST_NS;
	mta->doubt_ns = now_ns + mta->doubt_pause_ns;
}

void requeue_listed(struct requeue *requeue, unsigned mta, bool whole, int64_t now_ns) {
	struct requeue_mta *m;

	if (mta >= GENERATION_MTAS_MAX)
		return;
	m = &requeue->mtas[mta];
	m->listing = false;
	if (!whole && m->listed)
		m->overflowed = true;	/* once more, when it may be asked for */
	if (!whole && !m->listed && ++m->tries < LIST_TRIES)
		m->list_ns = now_ns + (LIST_RETRY_NS << m->tries) / 2;
	else
		m->listed = true;
	end_doubt(m, whole && remove_unlisted(requeue, mta) > 0, now_ns);
}

/* --- destinations ------------------------------------------------------------------ */

/* All that waits is due.  A pause after failures is over; not that for what is kept. */
static void call_up(struct requeue *requeue, uint32_t destination,
    const struct window_view *view, int64_t now_ns) {
	struct requeue_destination *d = &requeue->store.destinations[destination];
	const struct requeue_list *waiting = &d->places[REQUEUE_WAITING];

	while (waiting->count > 0 && requeue_move(&requeue->store,
	    waiting->entries[waiting->count - 1], REQUEUE_DUE))
		;
	d->window = view->window;
	if (d->pause_ns != 0 || d->until_ns < now_ns + REQUEUE_SETTLE_NS)
		d->until_ns = now_ns + REQUEUE_SETTLE_NS;
	d->pause_ns = 0;
	if (d->places[REQUEUE_DUE].count > 0)
		requeue->calls.returned(requeue->calls.context, d->name + (d->name[0] == '@'),
		    d->places[REQUEUE_DUE].count);
}

/* Whose mail waits there; other mail servers may reach a domain by another way. */
static unsigned whose(const struct requeue *requeue, const struct requeue_destination *d) {
	for (unsigned i = 0; i < REQUEUE_PLACES; i++)
		if (d->places[i].count > 0)
			return requeue->store.entries[d->places[i].entries[0]].mta;
	return GENERATION_MTAS_MAX;
}

/* Held besides its destination's window: the recipient, or the class of mail for "@domain". */
static bool is_held(const struct requeue *requeue, const struct generation *generation,
    const char *name, const char *at, int64_t now_ns) {
	struct outbound_class found;
	struct window_held held;

	if (at == NULL)
		return false;
	if (at != name)
		return windows_recipient_held(requeue->engine, generation, name, strlen(name),
		    now_ns, &held);
	outbound_class_find(requeue->engine, generation, at + 1, strlen(at + 1), &found);
	return windows_class_held(requeue->engine, generation, found.class_index, now_ns,
	    &held) && !held.observed;
}

void requeue_look(struct requeue *requeue, const struct generation *generation,
    uint32_t destination, int64_t now_ns, struct window_owner *owner,
    struct window_view *view) {
	struct requeue_destination *d = &requeue->store.destinations[destination];
	bool was_down = d->down;
	const char *at = strrchr(d->name, '@');

	if (at == NULL)
		windows_owner_by(requeue->engine, generation, d->name, strlen(d->name),
		    whose(requeue, d), owner);
	else
		windows_owner_of_host(requeue->engine, generation, at + 1, strlen(at + 1),
		    whose(requeue, d), owner);
	if (owner->kind == DESTINATION_NONE) {
		*view = (struct window_view){ .observed = true };
		d->observed = true;
		return;
	}
	(void)windows_view(requeue->engine, generation, owner, now_ns, view);
	view->observed = d->observed = windows_observed(generation, owner);
	d->ready = !d->by_sources ? UINT32_MAX :
	    engine_sources_ready(requeue->engine, generation, owner->provider);
	d->down = view->window == 0 || d->ready == 0 ||
	    is_held(requeue, generation, d->name, at, now_ns);
	if (d->down)
		return;
	if (was_down || view->window / 2 >= d->window)
		call_up(requeue, destination, view, now_ns);
	else if (view->window < d->window)
		d->window = view->window;
}

void requeue_pause(struct requeue_destination *d, int64_t now_ns) {
	if (now_ns < d->until_ns)
		return;
	d->pause_ns = d->pause_ns == 0 ? PAUSE_FIRST_NS : 2 * d->pause_ns;
	if (d->pause_ns > PAUSE_LAST_NS)
		d->pause_ns = PAUSE_LAST_NS;
	d->until_ns = now_ns + d->pause_ns;
}

/* --- turns ------------------------------------------------------------------------- */

/* How many messages that are out take a place.  Those of which nothing was heard for very
 * long wait for Postfix. */
static uint32_t count_out(struct requeue *requeue, uint32_t destination, int64_t now_ns) {
	struct requeue_store *store = &requeue->store;
	const struct requeue_list *out = &store->destinations[destination].places[REQUEUE_OUT];
	uint32_t count = 0;

	for (uint32_t i = out->count; i > 0; i--) {
		uint32_t entry = out->entries[i - 1];
		int64_t age_ns = now_ns - store->entries[entry].out_ns;

		if (age_ns >= RESULT_LIMIT_NS)
			requeue_remove(store, entry);
		else if (age_ns < OVERDUE_NS)
			count++;
	}
	for (uint32_t i = 0; count == 0 && i < out->count; i++)
		requeue->mtas[store->entries[out->entries[i]].mta].doubtful = true;
	return count;
}

/* The oldest that the queue manager asks about; or REQUEUE_NONE, and when it does. */
static uint32_t next_due(struct requeue *requeue, uint32_t destination, int64_t now_ns,
    int64_t *later_ns) {
	const struct requeue_store *store = &requeue->store;
	const struct requeue_list *due = &store->destinations[destination].places[REQUEUE_DUE];
	uint32_t best = REQUEUE_NONE;

	*later_ns = INT64_MAX;
	for (uint32_t i = 0; i < due->count && i < DUE_LOOKS; i++) {
		uint32_t entry = due->entries[i];
		int64_t until_ns = requeue_remembered_until_ns(requeue, &store->entries[entry],
		    now_ns);

		if (until_ns == 0 && i == 0)
			return entry;
		if (until_ns == 0 && (best == REQUEUE_NONE ||
		    requeue_is_older(store, entry, best)))
			best = entry;
		if (until_ns != 0 && until_ns < *later_ns)
			*later_ns = until_ns;
	}
	return best;
}

/* 0, or when to try again. */
static int64_t call_up_one(struct requeue *requeue, struct requeue_entry *e, int64_t now_ns) {
	if (!requeue->calls.flush(requeue->calls.context, e->mta, e->id))
		return now_ns + TURN_NS;
	e->out_ns = now_ns;
	return 0;
}

/* Returns when more may go. */
static int64_t hand_out(struct requeue *requeue, const struct generation *generation,
    uint32_t destination, const struct window_owner *owner, uint32_t places, int64_t now_ns) {
	const struct rate_limit *rate = &generation->requeue_rate;
	const struct requeue_destination *d = &requeue->store.destinations[destination];

	while (d->places[REQUEUE_DUE].count > 0) {
		int64_t later_ns;
		uint32_t entry = next_due(requeue, destination, now_ns, &later_ns);
		struct requeue_entry *e;
		struct requeue_mta *mta;

		if (entry == REQUEUE_NONE)
			return later_ns < now_ns + QUIET_TURN_NS ? later_ns : now_ns + QUIET_TURN_NS;
		if (places == 0)
			return now_ns + TURN_NS;
		e = &requeue->store.entries[entry];
		mta = &requeue->mtas[e->mta];
		if (!rate_allows(rate, mta->tat_ns, now_ns))
			return now_ns + rate_wait_ns(rate, mta->tat_ns, now_ns);
		later_ns = d->is_paced ? requeue_pace_send(requeue, generation, entry, owner, now_ns) :
		    call_up_one(requeue, e, now_ns);
		if (later_ns != 0)
			return later_ns;
		mta->tat_ns = rate_after(rate, mta->tat_ns, now_ns);
		engine_count(requeue->engine, COUNTER_REQUEUED, 1);
		places--;
		if (!requeue_move(&requeue->store, entry, REQUEUE_OUT))
			requeue_remove(&requeue->store, entry);
	}
	return now_ns + TURN_NS;
}

/* Returns when to look again. */
static int64_t turn_one(struct requeue *requeue, const struct generation *generation,
    uint32_t destination, int64_t now_ns) {
	struct requeue_destination *d = &requeue->store.destinations[destination];
	struct window_owner owner;
	struct window_view view;
	uint32_t out, passes, places;

	if (!d->used)
		return INT64_MAX;
	out = count_out(requeue, destination, now_ns);
	if (requeue_held(d) == 0) {
		requeue_pace_end(d);
		requeue_drop_destination(&requeue->store, destination);
		return INT64_MAX;
	}
	requeue_look(requeue, generation, destination, now_ns, &owner, &view);
	/* a share of what a cluster divides is not given back while mail waits for it */
	if (!d->down || view.window == 0)
		windows_want(requeue->engine, &owner, &view, d->down ? requeue_held(d) :
		    d->places[REQUEUE_DUE].count + out, now_ns);
	requeue_pace_look(requeue, generation, d, &owner, &view, now_ns);
	if (d->down)
		return now_ns + TURN_NS;
	if (view.observed || d->places[REQUEUE_DUE].count == 0)
		return now_ns + QUIET_TURN_NS;
	if (now_ns < d->until_ns)
		return d->until_ns;
	/* what has only its pass takes no place yet */
	passes = requeue_pace_passes(requeue, destination);
	out = out > passes ? out - passes : 0;
	places = view.window < d->ready ? view.window : d->ready;
	return hand_out(requeue, generation, destination, &owner,
	    places > out ? places - out : 0, now_ns);
}

int64_t requeue_turn(struct requeue *requeue, const struct generation *generation,
    int64_t now_ns) {
	int64_t next_ns = INT64_MAX, going_ns;
	uint32_t end, looks;

	requeue_take_up(requeue, generation);
	ask_lists(requeue, generation, now_ns);
	end = requeue->store.destination_end;
	looks = end < LOOKS_A_TURN ? end : LOOKS_A_TURN;
	for (uint32_t i = 0; i < looks; i++) {
		int64_t at_ns;

		requeue->cursor = requeue->cursor + 1 < end ? requeue->cursor + 1 : 0;
		at_ns = turn_one(requeue, generation, requeue->cursor, now_ns);
		if (at_ns < next_ns)
			next_ns = at_ns;
	}
	requeue_note_oldest(requeue, now_ns);
	going_ns = requeue_pace_turn(requeue, generation, now_ns);
	if (going_ns < next_ns)
		next_ns = going_ns;
	return looks < end && next_ns > now_ns + TURN_NS ? now_ns + TURN_NS : next_ns;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What logs and lists say of mail that waits for destinations.
 * MODEL    A message waits from a result that its destination is the reason of, and is out
 *          until the next one.
 * ERRORS   What cannot be remembered is read again from the queue's list, when there is room.
 * THREADS  One.
 */
#include "base/text.h"
#include "engine/requeue/requeue_internal.h"

#include <string.h>

#include "engine/hints/hints.h"
#include "engine/internal.h"
#include "policy/window/level.h"
#include "segment/hints/hints.h"

static bool waits(const struct requeue_result *result) {
	return result->status == DELIVERY_DEFERRED &&
	    (result->class == RESULT_SUSPENDED || result->class == RESULT_SITE_FAILURE ||
		result->class == RESULT_REMOTE_THROTTLE);
}

static bool begins_with(struct span span, const char *words) {
	size_t length = strlen(words);

	return span.length >= length && memcmp(span.text, words, length) == 0;
}

static bool is_of_recipient(const struct requeue_result *result) {
	return result->class == RESULT_SUSPENDED &&
	    begins_with(result->words, ENGINE_HOLD_BEGINS "recipient ");
}

/* The recipient as a name that mail waits for; false: it has none. */
static bool recipient_name(const struct requeue_result *result,
    char out[REQUEUE_NAME_MAX + 1]) {
	size_t length = result->recipient.length;

	if (length == 0 || length > REQUEUE_NAME_MAX ||
	    memchr(result->recipient.text, '@', length) == NULL ||
	    memchr(result->recipient.text, '\0', length) != NULL)
		return false;
	text_lower(out, result->recipient.text, length);
	out[length] = '\0';
	return true;
}

/* By its class, whether that is held or full. */
static bool is_by_class(const struct requeue_result *result) {
	return result->class == RESULT_SUSPENDED &&
	    begins_with(result->words, ENGINE_HOLD_BEGINS "class ");
}

/* "class NAME is held": a name is one word in a text. */
static bool is_of_held_class(const struct requeue_result *result) {
	const size_t before = strlen(ENGINE_HOLD_BEGINS "class ");
	const char *end = result->words.text + result->words.length, *behind;

	if (!is_by_class(result))
		return false;
	behind = memchr(result->words.text + before, ' ', result->words.length - before);
	return behind != NULL &&
	    begins_with((struct span){ behind, (size_t)(end - behind) }, " is held");
}

static bool is_by_pace(const struct requeue_result *result) {
	return result->class == RESULT_SUSPENDED &&
	    begins_with(result->words, ENGINE_PACE_BEGINS);
}

static bool is_by_sources(const struct requeue_result *result) {
	return result->class == RESULT_SUSPENDED && begins_with(result->words, HINTS_WARM_BEGINS);
}

/* Held by the hint of a destination, a recipient or a class, or by the queue manager, which
 * suspended the lane: hints name other ones by now.  Not by a class that is full. */
static bool is_passing_hold(const struct requeue_result *result) {
	return result->class == RESULT_SUSPENDED &&
	    (!is_by_class(result) || is_of_held_class(result));
}

static bool is_queue_id(struct span id) {
	if (id.length < REQUEUE_ID_LEAST || id.length > REQUEUE_ID_MAX)
		return false;
	for (size_t i = 0; i < id.length; i++)
		if (!((id.text[i] >= '0' && id.text[i] <= '9') ||
			(id.text[i] >= 'A' && id.text[i] <= 'Z') ||
			(id.text[i] >= 'a' && id.text[i] <= 'z')))
			return false;
	return true;
}

/* The destination and the entry in it; false: they could not be made. */
static bool make(struct requeue *requeue, const struct generation *generation,
    const struct requeue_result *result, const char *name, int64_t now_ns, uint32_t *entry) {
	struct requeue_store *store = &requeue->store;
	uint32_t known = requeue_find_destination(store, name, strlen(name));
	uint32_t destination = known != REQUEUE_NONE ? known :
	    requeue_make_destination(store, name, strlen(name));
	struct window_owner owner;
	struct window_view view;

	*entry = destination == REQUEUE_NONE ? REQUEUE_NONE :
	    requeue_add(store, result->mta, result->queue_id.text,
	    result->queue_id.length, destination, result->arrival_ns);
	if (*entry == REQUEUE_NONE) {
		requeue->mtas[result->mta].overflowed = true;
		return false;
	}
	if (known == REQUEUE_NONE)
		store->destinations[destination].window = REQUEUE_NOT_LOOKED_AT;
	requeue_look(requeue, generation, destination, now_ns, &owner, &view);
	return true;
}

/* It waits for a number, of which there may be some by now. */
static void note_sources(struct requeue *requeue, const struct generation *generation,
    uint32_t entry, int64_t now_ns) {
	uint32_t destination = requeue->store.entries[entry].destination;
	struct window_owner owner;
	struct window_view view;

	requeue->store.destinations[destination].by_sources = true;
	requeue_look(requeue, generation, destination, now_ns, &owner, &view);
}

/* It waits; if nothing holds its destination it was held by an answer of before, and is
 * to be tried again. */
static void put(struct requeue *requeue, uint32_t entry,
    const struct requeue_result *result, const char *recipient, int64_t now_ns) {
	struct requeue_entry *e = &requeue->store.entries[entry];
	struct requeue_destination *d = &requeue->store.destinations[e->destination];
	bool again = is_passing_hold(result) && !d->down, by_pace = is_by_pace(result);
	/* the only one that was out: another one would not fare better just now */
	bool in_vain = result->class != RESULT_SUSPENDED && e->place == REQUEUE_OUT &&
	    d->places[REQUEUE_OUT].count == 1;

	e->round = requeue->mtas[e->mta].round;
	requeue_resolved(requeue, e, result, now_ns);
	if (again && !begins_with(result->words, ENGINE_HOLD_BEGINS))
		d->left = true;
	if (in_vain || (again && e->place == REQUEUE_OUT))
		requeue_pause(d, now_ns);
	else if (again && !by_pace && d->until_ns <= now_ns)
		d->until_ns = now_ns + REQUEUE_SETTLE_NS;
	d->was_paced = d->was_paced || by_pace;
	if (!requeue_move(&requeue->store, entry, again ? REQUEUE_DUE : REQUEUE_WAITING))
		requeue_remove(&requeue->store, entry);
	else if (d->was_paced)
		requeue_pace_address(requeue, e, recipient);
}

/* The site took mail of a lane that the queue manager suspended as others of it were refused:
 * connections that are kept have the places for a moment. */
static void note_taken(struct requeue *requeue, const char *name, int64_t now_ns) {
	uint32_t destination = requeue_find_destination(&requeue->store, name, strlen(name));
	struct requeue_destination *d = &requeue->store.destinations[destination];
	int64_t until_ns = now_ns + LEVEL_KEPT_NS + REQUEUE_SETTLE_NS;

	if (destination == REQUEUE_NONE || !d->left)
		return;
	d->left = false;
	if (d->until_ns < until_ns)
		d->until_ns = until_ns;
}

static uint32_t find(const struct requeue *requeue, const struct requeue_result *result,
    const char *name) {
	uint32_t destination = requeue_find_destination(&requeue->store, name, strlen(name));

	return destination == REQUEUE_NONE ? REQUEUE_NONE : requeue_find(&requeue->store,
	    result->mta, result->queue_id.text, result->queue_id.length, destination);
}

/* It was handed out for one of these names, and waits for another, or got through. */
static bool end_other(struct requeue *requeue, const struct requeue_result *result,
    const char *name) {
	uint32_t entry = find(requeue, result, name);
	const char *at = strrchr(name, '@');
	bool was_out = entry != REQUEUE_NONE &&
	    requeue->store.entries[entry].place == REQUEUE_OUT;

	/* others of its recipients may wait for their destination or class */
	if (was_out || (entry != REQUEUE_NONE && at != NULL && at != name))
		requeue_remove(&requeue->store, entry);
	return was_out;
}

static bool note_mail(struct requeue *requeue, const struct generation *generation,
    const struct requeue_result *result, int64_t now_ns) {
	struct requeue_store *store = &requeue->store;
	char recipient[REQUEUE_NAME_MAX + 1];
	bool has_recipient = recipient_name(result, recipient);
	const char *names[] = { result->destination, recipient,
		has_recipient ? strrchr(recipient, '@') : NULL };
	const char *name = !has_recipient ? names[0] : is_of_recipient(result) ? names[1] :
	    is_of_held_class(result) ? names[2] : names[0];
	uint32_t entry;
	bool was_out = false;

	for (unsigned i = 0; has_recipient && i < 3; i++)
		if (names[i] != name && end_other(requeue, result, names[i]))
			was_out = true;
	entry = find(requeue, result, name);
	if (waits(result)) {
		if (entry == REQUEUE_NONE &&
		    !make(requeue, generation, result, name, now_ns, &entry))
			return true;
		if (is_by_sources(result))
			note_sources(requeue, generation, entry, now_ns);
		put(requeue, entry, result, has_recipient ? recipient : "", now_ns);
		return true;
	}
	if (result->class == RESULT_OK && (entry == REQUEUE_NONE ||
		store->entries[entry].place != REQUEUE_OUT))
		note_taken(requeue, result->destination, now_ns);
	if (entry == REQUEUE_NONE)
		return was_out;
	/* something got through: the site is there */
	if (store->entries[entry].place == REQUEUE_OUT) {
		store->destinations[store->entries[entry].destination].pause_ns = 0;
		requeue_pace_went(&store->destinations[store->entries[entry].destination]);
		store->destinations[store->entries[entry].destination].left = false;
		was_out = true;
	}
	/* a result of one recipient says nothing of the others that wait */
	if (was_out || result->status == DELIVERY_DEFERRED)
		requeue_remove(store, entry);
	return was_out;
}

bool requeue_note(struct requeue *requeue, const struct generation *generation,
    const struct requeue_result *result, int64_t now_ns) {
	struct requeue_store *store = &requeue->store;

	if (!requeue_is_postfix(generation, result->mta))
		return false;
	requeue_take_up(requeue, generation);
	/* most results are of mail that does not wait, where none does */
	if ((store->entry_count == 0 && !waits(result)) || !is_queue_id(result->queue_id))
		return false;
	return note_mail(requeue, generation, result, now_ns);
}

bool requeue_removed(struct requeue *requeue, unsigned mta, struct span id) {
	uint32_t entry;
	bool any = false;

	if (!is_queue_id(id))
		return false;
	while ((entry = requeue_find_any(&requeue->store, mta, id.text, id.length,
		REQUEUE_NONE)) != REQUEUE_NONE) {
		any |= requeue->store.entries[entry].place == REQUEUE_OUT;
		requeue_remove(&requeue->store, entry);
	}
	return any;
}

void requeue_list_recipient(struct requeue *requeue, const struct generation *generation,
    unsigned mta, struct span queue_id, struct span recipient, struct span reason,
    int64_t arrival_ns, int64_t now_ns) {
	/* the list does not tell who deferred it: our holds are the retry service's */
	const struct delivery delivery = { .source = DELIVERY_OF_POSTFIX,
		.agent = begins_with(reason, ENGINE_HOLD_BEGINS) ? AGENT_ERROR : AGENT_SMTP,
		.status = DELIVERY_DEFERRED, .text = reason, .recipient = recipient };
	const char *at = memrchr(recipient.text, '@', recipient.length);
	struct requeue_result result = { .mta = mta, .queue_id = queue_id, .recipient = recipient,
		.status = DELIVERY_DEFERRED, .arrival_ns = arrival_ns };
	struct window_owner owner;
	struct reply reply;
	uint32_t entry = REQUEUE_NONE;

	while ((entry = requeue_find_any(&requeue->store, mta, queue_id.text,
		queue_id.length, entry)) != REQUEUE_NONE)
		requeue->store.entries[entry].round = requeue->mtas[mta].round;
	if (at == NULL || reason.length == 0)
		return;
	reply_judge(&delivery, &reply);
	windows_owner_of_host(requeue->engine, generation, at + 1,
	    recipient.length - (size_t)(at + 1 - recipient.text), mta, &owner);
	if (owner.kind == DESTINATION_NONE)
		return;
	result.destination = owner.name;
	result.class = reply.class;
	result.words = reply.words;
	(void)requeue_note(requeue, generation, &result, now_ns);
}

void requeue_flush_failed(struct requeue *requeue, unsigned mta, const char *queue_id,
    int64_t now_ns) {
	struct requeue_store *store = &requeue->store;
	uint32_t entry = REQUEUE_NONE;

	while ((entry = requeue_find_any(store, mta, queue_id, strlen(queue_id), entry)) !=
	    REQUEUE_NONE) {
		struct requeue_entry *e = &store->entries[entry];

		if (e->place != REQUEUE_OUT)
			continue;
		requeue_pause(&store->destinations[e->destination], now_ns);
		(void)requeue_move(store, entry, REQUEUE_DUE);
	}
}

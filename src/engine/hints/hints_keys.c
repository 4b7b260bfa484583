/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The keys of the hints file: whose window each runs by, and what each is told, by that or
 *          by the queue that carries its mail.
 * MODEL    Domains that a site sends to one next hop share a queue of the queue manager,
 *          and have windows of their own.  A queue in use runs by the least of those
 *          that changed last, never by one that takes nothing while another one does;
 *          keys whose own window takes nothing are held for themselves.  A look at all
 *          destinations, now and then, brings new keys and takes hints from those in doubt;
 *          a window that changed brings its own keys at once.  Only where a key does not fit,
 *          or its next hop is another, the file is made anew.
 * ERRORS   A key that cannot be kept has no hints.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "engine/hints/hints_internal.h"
#include "engine/destination/windows_internal.h"

/* Deliveries before that have left the queue manager. */
#define RECENT_NS	(60 * NS_PER_SECOND)

static uint64_t key_hash(uint64_t domain, uint8_t mta) {
	return domain ^ (mta + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t queue_hash(const struct engine_hints *hints, uint8_t mta,
    uint64_t domain, const char *next_hop) {
	return key_hash(*next_hop == '\0' ? domain :
	    siphash13(&hints->engine->segment->header->key, next_hop, strlen(next_hop)),
	    mta);
}

uint32_t hint_key_class(const struct hint_key *key) {
	return key->live && key->queue == key_hash(key->domain, key->mta) ? key->group :
	    HINTS_NO_GROUP;
}

struct hint hint_of_candidate(const struct hint_candidate *candidate) {
	return (struct hint){ .domain = candidate->domain, .mta = candidate->mta,
		.group = candidate->barred ? HINTS_NO_GROUP : candidate->group };
}

/* --- the table of keys -------------------------------------------------------------- */

struct hint_key *hint_keys_find(const struct engine_hints *hints, uint8_t mta,
    uint64_t domain) {
	uint32_t at = map_index(&hints->by_domain, key_hash(domain, mta));

	return at == NO_INDEX ? NULL : &hints->keys[at];
}

static bool chain(struct map *map, uint64_t hash, uint32_t at, uint32_t *next) {
	*next = map_index(map, hash);
	return map_set_index(map, hash, at);
}

/* Another key; NULL: no memory. */
struct hint_key *hint_key_add(struct engine_hints *hints,
    const struct hint_candidate *candidate, uint64_t domain, uint64_t owner) {
	uint32_t at = hints->key_count;
	struct hint_key *key;

	if (at == hints->key_size) {
		uint32_t size = at == 0 ? 256 : 2 * at;
		struct hint_key *grown = reallocarray(hints->keys, size, sizeof(*grown));

		if (grown == NULL)
			return NULL;
		hints->keys = grown;
		hints->key_size = size;
	}
	key = &hints->keys[at];
	*key = (struct hint_key){ .domain = domain, .owner = owner,
		.queue = queue_hash(hints, candidate->mta, domain, candidate->next_hop),
		.place = HINTS_NO_PLACE, .group = candidate->group,
		.scan = hints->scan, .mta = candidate->mta, .live = !candidate->barred };
	if (!map_set_index(&hints->by_domain, key_hash(domain, candidate->mta), at) ||
	    !chain(&hints->by_owner, owner, at, &key->next_of_owner) ||
	    !chain(&hints->by_queue, key->queue, at, &key->next_of_queue))
		return NULL;
	hints->key_count++;
	return key;
}

static void move_to_owner(struct engine_hints *hints, struct hint_key *key,
    uint64_t owner) {
	uint32_t at = (uint32_t)(key - hints->keys);
	uint32_t first = map_index(&hints->by_owner, key->owner), *link = &first;

	while (*link != NO_INDEX && *link != at)
		link = &hints->keys[*link].next_of_owner;
	if (*link == at)
		*link = key->next_of_owner;
	(void)map_set_index(&hints->by_owner, key->owner, first);
	key->owner = owner;
	if (!chain(&hints->by_owner, owner, at, &key->next_of_owner))
		key->next_of_owner = NO_INDEX;
}

void hint_keys_free(struct engine_hints *hints) {
	free(hints->keys);
	hints->keys = NULL;
	hints->key_count = hints->key_size = 0;
	map_free(&hints->by_domain);
	map_free(&hints->by_owner);
	map_free(&hints->by_queue);
}

/* --- what keys are told -------------------------------------------------------------- */

bool hint_key_owner(const struct engine_hints *hints, const struct hint_key *key,
    struct window_owner *out) {
	char domain[HINTS_NAME_MAX + 1];
	struct destination_seen seen;

	if (!hints_writer_domain(hints->writer, key->place, domain))
		return false;
	if (destinations_find(hints->engine->segment, domain, strlen(domain), &seen))
		return windows_owner_of_mta(hints->engine, hints->generation, &seen, key->mta, out);
	return windows_owner_named(hints->generation, domain, strlen(domain), out) &&
	    windows_owner_by_transport(hints->generation, key->mta, out);
}

/* What a window says by itself, as if no queue were in use. */
static void say_own(const struct engine_hints *hints, uint8_t mta, uint32_t group,
    const struct window_owner *owner, struct hint_say *say) {
	struct window_view view;

	(void)windows_view(hints->engine, hints->generation, owner, hints->now_ns, &view);
	hint_queue_idle(hints, mta, owner, &view, group, say);
}

void hint_key_tell(struct engine_hints *hints, struct hint_key *key,
    const struct window_owner *owner) {
	struct hint_say own;

	say_own(hints, key->mta, hint_key_class(key), owner, &own);
	hint_pace_follow(hints, key, owner, own.paced);
	hint_key_say(hints, key, hint_queue_find(hints, key->queue), &own);
}

/* --- queues that several windows share ------------------------------------------------ */

static bool runs_by_owner(const struct engine_hints *hints, const struct hint_queue *queue,
    uint32_t at) {
	const struct hint_key *key = &hints->keys[at];

	return key->live && key->queue == queue->hash && key->owner == queue->owner_hash;
}

/* Does any mail of the queue run by its window? */
static bool has_owner(const struct engine_hints *hints, struct hint_queue *queue) {
	/* each of very many keys may ask */
	if (queue->owner_key < hints->key_count && runs_by_owner(hints, queue, queue->owner_key))
		return true;
	for (uint32_t at = map_index(&hints->by_queue, queue->hash); at != NO_INDEX;
	     at = hints->keys[at].next_of_queue)
		if (runs_by_owner(hints, queue, at)) {
			queue->owner_key = at;
			return true;
		}
	return false;
}

/* The queue runs by the key's window from now on; mail of the one before stays held, if that
 * takes nothing. */
static void change_owner(struct engine_hints *hints, struct hint_queue *queue,
    const struct hint_key *key, const struct window_owner *owner) {
	uint64_t before = queue->owner_hash;
	struct hint_say own;

	say_own(hints, queue->mta, queue->group, &queue->owner, &own);
	hint_queue_adopt(hints, key, owner);
	if (own.kind != HINTS_HELD)
		return;
	for (uint32_t at = map_index(&hints->by_queue, queue->hash); at != NO_INDEX;
	     at = hints->keys[at].next_of_queue)
		if (hints->keys[at].owner == before)
			hint_key_say(hints, &hints->keys[at], queue, &own);
}

void hint_queue_run_by_less(struct engine_hints *hints, struct hint_queue *queue,
    const struct hint_key *key, const struct window_owner *owner, const struct window_view *view) {
	struct window_view other;

	(void)windows_view(hints->engine, hints->generation, &queue->owner, hints->now_ns, &other);
	if (other.window == 0 || view->window < other.window)
		change_owner(hints, queue, key, owner);
}

bool hint_queue_elsewhere(struct engine_hints *hints, struct hint_queue *queue) {
	for (uint32_t at = map_index(&hints->by_queue, queue->hash); at != NO_INDEX;
	     at = hints->keys[at].next_of_queue) {
		const struct hint_key *key = &hints->keys[at];
		struct window_owner owner;
		struct hint_say own;

		if (!key->live || key->stopped || key->owner == queue->owner_hash ||
		    !hint_key_owner(hints, key, &owner))
			continue;
		say_own(hints, key->mta, hint_key_class(key), &owner, &own);
		if (own.kind == HINTS_HELD)
			continue;
		change_owner(hints, queue, key, &owner);
		return true;
	}
	return false;
}

void hint_key_follow(struct engine_hints *hints, const struct hint_key *key,
    const struct window_owner *owner) {
	struct hint_queue *queue = hint_queue_find(hints, key->queue);

	if (queue != NULL && (queue->owner_hash == key->owner || !has_owner(hints, queue)))
		hint_queue_adopt(hints, key, owner);
}

/* --- a look in place ----------------------------------------------------------------- */

static lane_set first_given(const struct engine_hints *hints,
    const struct hint_candidate *candidate) {
	lane_set given = hints->mtas[candidate->mta].unknown;

	return given == 0 || *candidate->next_hop != '\0' ? LANE_ORIGIN : given;
}

static void bring_key(const struct hint_look *look, const struct hint_candidate *candidate,
    const struct window_owner *owner, uint64_t domain, uint64_t owner_hash) {
	struct engine_hints *hints = look->hints;
	struct hint hint = hint_of_candidate(candidate);
	uint32_t place = hints_writer_add(hints->writer, &hint);
	struct hint_key *key = place == HINTS_NO_PLACE ? NULL :
	    hint_key_add(hints, candidate, domain, owner_hash);

	if (key == NULL) {
		hints->crowded = true;
		return;
	}
	key->place = place;
	/* it was delivered so far as mail for a domain that is no key */
	if (!candidate->barred && look->hints->now_ns - look->seen->seen_ns < RECENT_NS)
		hint_queue_begin(hints, key, owner, first_given(hints, candidate),
		    look->seen->seen_ns);
	hint_key_tell(hints, key, owner);
}

static void renew_key(struct hint_look *look, const struct hint_candidate *candidate,
    const struct window_owner *owner) {
	struct engine_hints *hints = look->hints;
	const struct segment *segment = hints->engine->segment;
	uint64_t domain = lane_uses_hash(segment, candidate->domain, candidate->length);
	uint64_t owner_hash = lane_uses_hash(segment, owner->name, strlen(owner->name));
	struct hint_key *key = hint_keys_find(hints, candidate->mta, domain);
	bool was_live;

	if (key == NULL) {
		bring_key(look, candidate, owner, domain, owner_hash);
		return;
	}
	if (candidate->barred)
		return;
	key->scan = hints->scan;
	if (key->queue != queue_hash(hints, candidate->mta, domain, candidate->next_hop))
		hints->crowded = true;
	was_live = key->live && key->group == candidate->group;
	if (key->group != candidate->group)
		hints_writer_regroup(hints->writer, key->place, candidate->group);
	key->group = candidate->group;
	key->live = true;
	if (was_live && key->owner == owner_hash)
		return;
	if (key->owner != owner_hash)
		move_to_owner(hints, key, owner_hash);
	hint_key_follow(hints, key, owner);
	hint_key_tell(hints, key, owner);
}

void hint_keys_scan(struct engine_hints *hints) {
	struct hint_look look = { .hints = hints, .each = renew_key };

	hints->scan++;
	hint_look_at_all(&look);
	for (uint32_t i = 0; i < hints->key_count; i++) {
		struct hint_key *key = &hints->keys[i];

		if (key->scan == hints->scan || !key->live)
			continue;
		key->live = false;
		key->group = HINTS_NO_GROUP;
		hints_writer_regroup(hints->writer, key->place, HINTS_NO_GROUP);
		hints_writer_set(hints->writer, key->place, &(struct hint_say){ .kind = HINTS_NOTHING });
		hints_writer_follow_pace(hints->writer, key->place, HINTS_NO_PACE);
	}
}

/* What somebody holds for the mail of all transports, keys of these do not run by yet: the next
 * look, which is due then, finds it. */
static void look_soon(struct engine_hints *hints, const char *name) {
	uint32_t last = hints->generation->mta_count - 1;
	struct window_owner owner;
	struct window_view view;

	if (hints->generation->mta_count == 0 || hints->generation->mtas[last].transport == 0 ||
	    generation_transport_prefix(name, strlen(name)) != 0 ||
	    !windows_owner_named(hints->generation, name, strlen(name), &owner) ||
	    owner.kind == DESTINATION_DOMAIN)
		return;
	(void)windows_view(hints->engine, hints->generation, &owner, hints->now_ns, &view);
	if (hint_is_stopped(&view))
		hints->looked_ns = 0;
}

void hint_keys_look_at(struct engine_hints *hints, const char *name) {
	struct hint_look look = { .hints = hints, .each = renew_key };
	struct destination_seen seen;

	if (destinations_find(hints->engine->segment, name, strlen(name), &seen))
		hint_look_at(&look, &seen);
	look_soon(hints, name);
}

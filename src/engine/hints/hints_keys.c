/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The keys of the hints file: which domains of which mail server may have
 *          hints, whose window each runs by, what each is told.
 * MODEL    A look at all destinations, now and then, brings new keys and takes hints
 *          from those in doubt; a window that changed brings its own keys at once.  Only
 *          where a key does not fit, or its next hop is another, the file is made anew.
 * ERRORS   A key that cannot be kept has no hints.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "engine/hints/hints_internal.h"
#include "engine/outbound/outbound.h"
#include "engine/destination/windows_internal.h"

/* The classes' states do not wait for a long look. */
#define LOOKED_AT	4096
#define RECIPIENTS_SPARE 1024
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

/* --- who may have hints ---------------------------------------------------------- */

struct candidate {
	const char *domain;
	size_t length;
	const char *next_hop;
	uint8_t mta;
	uint32_t group;
	bool barred;			/* it has none: but without a key it would be taken for
					 * unknown, and go by lanes */
};

/* A look at destinations: what is done with each candidate. */
struct look {
	struct engine_hints *hints;
	void (*each)(struct look *look, const struct candidate *candidate,
	    const struct window_owner *owner);
	void *context;
	const struct destination_seen *seen;
	unsigned looked_at;
};

/* One that has no owner for certain, and is not barred, has no hint: a key that is there is
 * taken from those that may have them by the next scan. */
static void look_at_candidate(struct look *look, const struct candidate *candidate) {
	struct window_owner owner;

	if (windows_owner_of_mta(look->hints->engine, look->hints->generation, look->seen,
		candidate->mta, &owner) || candidate->barred)
		look->each(look, candidate, &owner);
}

/* At every mail server whose mail for the destination may have hints, or must not though the
 * site's settings have nothing against it. */
static void look_at(struct look *look, const struct destination_seen *seen) {
	const struct generation *generation = look->hints->generation;
	struct candidate candidate = { .domain = seen->name,
		.length = strlen(seen->name), .group = HINTS_NO_GROUP };
	struct outbound_class found = { .class_index = CLASS_NO_RULE };
	bool is_found = false;
	const char *detail;

	look->seen = seen;
	for (uint8_t mta = 0; mta < generation->mta_count; mta++) {
		enum hint_doubt doubt = hint_destination_doubt(generation, mta, seen->name,
		    candidate.length, seen, &detail);

		candidate.barred = doubt == HINT_DOUBT_OTHER_TRANSPORT;
		if (doubt != HINT_DOUBT_NONE && !candidate.barred)
			continue;
		if (!is_found) {
			outbound_class_find(look->hints->engine, generation, seen->name,
			    candidate.length, &found);
			is_found = true;
			if (found.class_index != CLASS_NO_RULE && !generation_class(
			    generation, found.class_index)->outbound_observe)
				candidate.group = found.class_index;
		}
		if (candidate.group == HINTS_NO_GROUP && generation->outbound_observe)
			continue;
		candidate.mta = mta;
		candidate.next_hop = generation_site_next_hop(generation,
		    &generation->mtas[mta], seen->name, candidate.length);
		look_at_candidate(look, &candidate);
	}
}

static struct hint hint_of(const struct candidate *candidate) {
	return (struct hint){ .domain = candidate->domain, .mta = candidate->mta,
		.group = candidate->barred ? HINTS_NO_GROUP : candidate->group };
}

/* Was anything seen of it that says whether it may have hints? */
static bool is_seen(const struct destination_seen *seen) {
	return (seen->cloned_by | seen->other_by) != 0;
}

static void look_at_seen(void *context, const struct destination_seen *seen) {
	struct look *look = context;

	if (++look->looked_at % LOOKED_AT == 0)
		hint_classes_renew(look->hints, clock_now_ns());
	if (is_seen(seen))
		look_at(look, seen);
}

static void look_at_listed(void *context, uint8_t mta, const struct destination_seen *seen) {
	struct look *look = context;
	size_t length = strlen(seen->name);
	const struct candidate candidate = { .domain = seen->name, .length = length,
		.mta = mta, .group = HINTS_NO_GROUP,
		.next_hop = generation_site_next_hop(look->hints->generation,
		    &look->hints->generation->mtas[mta], seen->name, length) };

	look->seen = seen;
	look_at_candidate(look, &candidate);
}

static void look_at_all(struct look *look) {
	destinations_each(look->hints->engine->segment, look_at_seen, look);
	hint_each_listed(look->hints, look_at_listed, look);
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
static struct hint_key *add_key(struct engine_hints *hints,
    const struct candidate *candidate, uint64_t domain, uint64_t owner) {
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

/* --- a look in place ----------------------------------------------------------------- */

static lane_set first_given(const struct engine_hints *hints,
    const struct candidate *candidate) {
	lane_set given = hints->mtas[candidate->mta].unknown;

	return given == 0 || *candidate->next_hop != '\0' ? LANE_ORIGIN : given;
}

static void bring_key(const struct look *look, const struct candidate *candidate,
    const struct window_owner *owner, uint64_t domain, uint64_t owner_hash) {
	struct engine_hints *hints = look->hints;
	struct hint hint = hint_of(candidate);
	uint32_t place = hints_writer_add(hints->writer, &hint);
	struct hint_key *key = place == HINTS_NO_PLACE ? NULL :
	    add_key(hints, candidate, domain, owner_hash);

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

static void renew_key(struct look *look, const struct candidate *candidate,
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
	struct look look = { .hints = hints, .each = renew_key };

	static const struct hint_say nothing = { .kind = HINTS_NOTHING };

	hints->scan++;
	look_at_all(&look);
	for (uint32_t i = 0; i < hints->key_count; i++) {
		struct hint_key *key = &hints->keys[i];

		if (key->scan == hints->scan || !key->live)
			continue;
		key->live = false;
		key->group = HINTS_NO_GROUP;
		hints_writer_regroup(hints->writer, key->place, HINTS_NO_GROUP);
		hints_writer_set(hints->writer, key->place, &nothing);
	}
}

static bool is_stopped(const struct window_view *view) {
	return view->state == WINDOW_HELD || view->state == WINDOW_DEAD;
}

/* What somebody holds for the mail of all transports, keys of these do not run by yet: the next
 * look, which is due then, finds it. */
static void look_soon(struct engine_hints *hints, const char *name) {
	uint32_t last = hints->generation->mta_count - 1;
	struct window_owner owner;
	struct window_view view;

	if (hints->generation->mta_count == 0 || hints->generation->mtas[last].transport == 0 ||
	    generation_transport_prefix(name, strlen(name)) != 0 ||
	    !windows_owner_named(hints->generation, name, strlen(name), &owner) || owner.kind ==
	    DESTINATION_DOMAIN)
		return;
	(void)windows_view(hints->engine, hints->generation, &owner, hints->now_ns, &view);
	if (is_stopped(&view))
		hints->looked_ns = 0;
}

void hint_keys_renew(struct engine_hints *hints, const char *name) {
	const struct segment *segment = hints->engine->segment;
	struct look look = { .hints = hints, .each = renew_key };
	uint64_t hash = lane_uses_hash(segment, name, strlen(name));
	struct destination_seen seen;
	struct window_owner owner;
	struct window_view view;
	struct hint_say say;
	uint8_t said_to = UINT8_MAX;
	bool is_own = generation_transport_prefix(name, strlen(name)) != 0;
	uint32_t said_group = HINTS_NO_GROUP;

	if (destinations_find(segment, name, strlen(name), &seen) && is_seen(&seen))
		look_at(&look, &seen);
	hint_queues_touch(hints, hash);
	look_soon(hints, name);
	if (map_index(&hints->by_owner, hash) == NO_INDEX || !windows_owner_named(hints->generation,
	    name, strlen(name), &owner))
		return;
	(void)windows_view(hints->engine, hints->generation, &owner, hints->now_ns, &view);
	for (uint32_t at = map_index(&hints->by_owner, hash); at != NO_INDEX;
	     at = hints->keys[at].next_of_owner) {
		struct hint_key *key = &hints->keys[at];

		if (key->mta != said_to || hint_key_class(key) != said_group)
			hint_queue_idle(hints, key->mta, &owner, &view, hint_key_class(key), &say);
		said_to = key->mta;
		/* held for all transports, it was in the place of the key's own, and is no more */
		if (hints->generation->mtas[key->mta].transport != 0 && !is_own &&
		    !is_stopped(&view))
			hints->looked_ns = 0;
		said_group = hint_key_class(key);
		hint_key_changed(hints, key, &owner, &view, &say);
	}
}

/* --- the file made anew ------------------------------------------------------------- */

/* What the file will have: domains and next hops live in the texts, the generation. */
struct gathering {
	struct hint *list;
	size_t count, size;
	char *texts;			/* domains, each with its NUL */
	size_t used, room;
	bool failed;
};

static void gather_hint(struct look *look, const struct candidate *candidate,
    const struct window_owner *owner) {
	struct gathering *gathering = look->context;
	size_t bytes = candidate->length + 1;

	(void)owner;
	if (gathering->failed)
		return;
	if (gathering->count == gathering->size) {
		size_t size = gathering->size == 0 ? 64 : 2 * gathering->size;
		struct hint *grown = reallocarray(gathering->list, size, sizeof(*grown));

		gathering->failed = grown == NULL;
		if (grown == NULL)
			return;
		gathering->list = grown;
		gathering->size = size;
	}
	if (gathering->room - gathering->used < bytes) {
		size_t room = 2 * gathering->room + 4096;
		char *grown = realloc(gathering->texts, room);

		gathering->failed = grown == NULL;
		if (grown == NULL)
			return;
		gathering->texts = grown;
		gathering->room = room;
	}
	memcpy(gathering->texts + gathering->used, candidate->domain, bytes);
	gathering->used += bytes;
	gathering->list[gathering->count++] = hint_of(candidate);
}

/* The texts moved while they grew. */
static void point_at_texts(struct gathering *gathering) {
	const char *text = gathering->texts;

	for (size_t i = 0; i < gathering->count; i++) {
		gathering->list[i].domain = text;
		text += strlen(text) + 1;
	}
}

static int build_file(struct engine_hints *hints, const struct gathering *gathering,
    uint32_t *places, struct diag *diag) {
	struct hints_mta mtas[GENERATION_MTAS_MAX];
	struct hint_lanes unknown[GENERATION_MTAS_MAX];
	const char **texts = calloc(hints->generation->class_count + 1, sizeof(*texts));
	struct hints_table table = { .mtas = mtas, .unknown = unknown,
		.mta_count = hints->generation->mta_count, .hints = gathering->list,
		.count = gathering->count, .group_texts = texts,
		.group_count = hints->generation->class_count,
		.recipients = hints->recipient_count + RECIPIENTS_SPARE };
	int result = -1;

	memset(mtas, 0, sizeof(mtas));
	for (uint32_t i = 0; i < hints->generation->mta_count; i++) {
		mtas[i].name = generation_text(hints->generation, hints->generation->mtas[i].name);
		mtas[i].width_count = hints->mtas[i].widths.count;
		memcpy(mtas[i].widths, hints->mtas[i].widths.width, sizeof(mtas[i].widths));
		hints->mtas[i].unknown = hint_unknown_lanes(hints, (uint8_t)i, &unknown[i]);
	}
	if (texts == NULL || !hint_classes_begin(hints, texts))
		diag_set(diag, ENOMEM, "no memory for the hints");
	else
		result = hints_writer_build(hints->writer, &table, places, diag);
	free(texts);
	return result;
}

/* Whose window a key of the new file runs by.  *barred: as each_candidate says. */
static void owner_of(const struct engine_hints *hints, const struct hint *hint,
    struct window_owner *out, bool *barred) {
	struct destination_seen seen = { .other_by = 0 };
	bool is_found = destinations_find(hints->engine->segment, hint->domain,
	    strlen(hint->domain), &seen);

	*barred = (seen.other_by >> hint->mta & 1) != 0;
	if (is_found)
		(void)windows_owner_of_mta(hints->engine, hints->generation, &seen, hint->mta, out);
	else if (windows_owner_named(hints->generation, hint->domain, strlen(hint->domain), out))
		(void)windows_owner_by_transport(hints->generation, hint->mta, out);
}

static bool fill_file(struct engine_hints *hints, const struct gathering *gathering,
    const uint32_t *places) {
	const struct segment *segment = hints->engine->segment;

	for (size_t i = 0; i < gathering->count; i++) {
		const struct hint *hint = &gathering->list[i];
		struct candidate candidate = { .domain = hint->domain,
			.next_hop = generation_site_next_hop(hints->generation,
			    &hints->generation->mtas[hint->mta], hint->domain,
			    strlen(hint->domain)),
			.mta = hint->mta, .group = hint->group };
		struct window_owner owner;
		struct hint_key *key;

		if (i % LOOKED_AT == 0)
			hints_writer_beat(hints->writer, clock_now_ns());
		owner_of(hints, hint, &owner, &candidate.barred);
		key = add_key(hints, &candidate, lane_uses_hash(segment, hint->domain,
		    strlen(hint->domain)), lane_uses_hash(segment, owner.name,
		    strlen(owner.name)));
		if (key == NULL)
			return false;
		key->place = places[i];
	}
	return true;
}

/* All keys are there: what each is told. */
static void tell_file(struct engine_hints *hints, const struct gathering *gathering) {
	for (size_t i = 0; i < gathering->count; i++) {
		struct window_owner owner;
		bool barred;

		if (i % LOOKED_AT == 0)
			hints_writer_beat(hints->writer, clock_now_ns());
		owner_of(hints, &gathering->list[i], &owner, &barred);
		if (!barred)
			hint_key_follow(hints, &hints->keys[i], &owner);
		hint_key_tell(hints, &hints->keys[i], &owner);
	}
}

int hint_keys_build(struct engine_hints *hints, struct diag *diag) {
	struct gathering gathering = { .list = NULL };
	struct look look = { .hints = hints, .each = gather_hint,
		.context = &gathering };
	uint32_t *places = NULL;
	int result = -1;

	look_at_all(&look);
	point_at_texts(&gathering);
	places = calloc(gathering.count + 1, sizeof(*places));
	if (places == NULL || gathering.failed) {
		diag_set(diag, ENOMEM, "no memory for the hints");
	} else if (build_file(hints, &gathering, places, diag) == 0) {
		hint_keys_free(hints);
		hints->scan++;
		if (fill_file(hints, &gathering, places)) {
			tell_file(hints, &gathering);
			result = 0;
		} else {
			hint_keys_free(hints);
			diag_set(diag, ENOMEM, "no memory for the hints");
		}
	}
	free(places);
	free(gathering.list);
	free(gathering.texts);
	return result;
}

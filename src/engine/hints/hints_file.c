/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Which domains of which mail server may have hints; the file made anew: for another
 *          configuration, where keys do not fit, and where somebody removed it.
 * MODEL    Those that mail was delivered to; and those that the site lists for a transport with a
 *          next hop, before mail for them was seen: mail with one next hop shares its lanes, so
 *          that a domain has to be a key to have any, and with keys of their own even their first
 *          mail keeps to the window of the transport.  They are never held.
 * ERRORS   Of very many that a site lists, some have no lanes before their first delivery.
 *          A file that cannot be written leaves the one before; where that is of another
 *          configuration it goes stale, and then there are no hints.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/hints/hints_internal.h"
#include "segment/hints/paced.h"
#include "engine/outbound/outbound.h"
#include "engine/destination/windows_internal.h"

#define SHARE		20
#define LOOK_LEAST_NS	(250 * NS_PER_MS)
/* A destination's relays may change their order unseen. */
#define LOOK_MOST_NS	(5 * NS_PER_SECOND)
#define QUIET_SHARE	400
#define SOON_NS		(50 * NS_PER_MS)
#define UNWANTED_NS	(30 * NS_PER_SECOND)
#define CHECK_NS	NS_PER_SECOND
#define WATCH_NS	(200 * NS_PER_MS)	/* of classes whose lanes are in use */
#define LISTED_MAX	8192		/* of one transport */
#define LOOKED_AT	4096		/* the classes' states do not wait for a long look */
#define RECIPIENTS_SPARE 1024

/* --- who may have hints ---------------------------------------------------------- */

/* One that has no owner for certain, and is not barred, has no hint: a key that is there is
 * taken from those that may have them by the next scan. */
static void look_at_candidate(struct hint_look *look, const struct hint_candidate *candidate) {
	struct window_owner owner;

	if (windows_owner_of_mta(look->hints->engine, look->hints->generation, look->seen,
		candidate->mta, &owner) || candidate->barred)
		look->each(look, candidate, &owner);
}

/* At every mail server whose mail for the destination may have hints, or must not though the
 * site's settings have nothing against it. */
void hint_look_at(struct hint_look *look, const struct destination_seen *seen) {
	const struct generation *generation = look->hints->generation;
	struct hint_candidate candidate = { .domain = seen->name,
		.length = strlen(seen->name), .group = HINTS_NO_GROUP };
	struct outbound_class found = { .class_index = CLASS_NO_RULE };
	bool is_found = false;
	const char *detail;

	/* nothing says whether it may have any */
	if ((seen->cloned_by | seen->other_by) == 0)
		return;
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

static void look_at_seen(void *context, const struct destination_seen *seen) {
	struct hint_look *look = context;

	if (++look->looked_at % LOOKED_AT == 0)
		hint_classes_renew(look->hints, clock_now_ns());
	hint_look_at(look, seen);
}

static void each_listed(const struct engine_hints *hints, void (*each)(void *context, uint8_t mta,
    const struct destination_seen *), void *context) {
	for (unsigned mta = 0; mta < hints->generation->mta_count; mta++) {
		const struct generation_mta *row = &hints->generation->mtas[mta];
		uint32_t count = row->transport == 0 || hints->generation->outbound_observe ? 0 :
		    row->site_route_count;

		for (uint32_t i = 0; i < count && i < LISTED_MAX; i++) {
			const char *name = generation_site_listed(hints->generation, mta, i);
			const char *detail;
			struct destination_seen seen;
			size_t length = strlen(name);

			if (length == 0 || length > SEGMENT_NAME_MAX ||
			    hint_destination_doubt(hints->generation, (uint8_t)mta, name, length,
				NULL, &detail) != HINT_DOUBT_NEVER_SEEN ||
			    (destinations_find(hints->engine->segment, name, length, &seen) &&
				(seen.cloned_by | seen.other_by) != 0))
				continue;
			seen = (struct destination_seen){ .relay_count = 0 };
			memcpy(seen.name, name, length + 1);
			each(context, (uint8_t)mta, &seen);
		}
	}
}

static void look_at_listed(void *context, uint8_t mta, const struct destination_seen *seen) {
	struct hint_look *look = context;
	size_t length = strlen(seen->name);
	const struct hint_candidate candidate = { .domain = seen->name, .length = length,
		.mta = mta, .group = HINTS_NO_GROUP,
		.next_hop = generation_site_next_hop(look->hints->generation,
		    &look->hints->generation->mtas[mta], seen->name, length) };

	look->seen = seen;
	look_at_candidate(look, &candidate);
}

void hint_look_at_all(struct hint_look *look) {
	destinations_each(look->hints->engine->segment, look_at_seen, look);
	each_listed(look->hints, look_at_listed, look);
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

static void gather_hint(struct hint_look *look, const struct hint_candidate *candidate,
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
	gathering->list[gathering->count++] = hint_of_candidate(candidate);
}

/* The texts moved while they grew. */
static void point_at_texts(struct gathering *gathering) {
	const char *text = gathering->texts;

	for (size_t i = 0; i < gathering->count; i++) {
		gathering->list[i].domain = text;
		text += strlen(text) + 1;
	}
}

/* What mail of a mail server for a domain that is no key is told: *lanes, with count 0 if nothing. */
static lane_set unknown_lanes(const struct engine_hints *hints, uint8_t mta,
    struct hint_lanes *lanes) {
	uint32_t origin = hints->mtas[mta].widths.origin;
	static const struct window_owner anybody = { .kind = DESTINATION_DOMAIN };
	struct window_view view;
	struct hint_say say;
	lane_set set = 0;
	const char *detail;

	*lanes = (struct hint_lanes){ .count = 0 };
	if (hint_site_doubt(hints->generation, mta, &detail) != HINT_DOUBT_NONE)
		return 0;
	windows_view_new(hints->generation, mta, hints->now_ns, &view);
	/* what the site allows its transport is not exceeded unseen */
	if (origin != 0 && view.window > origin)
		view.window = origin;
	hint_queue_idle(hints, mta, &anybody, &view, HINTS_NO_GROUP, &say);
	if (view.observed || say.kind != HINTS_LANE)
		return 0;
	*lanes = say.lanes;
	for (uint32_t i = 0; i < lanes->count; i++)
		set |= UINT32_C(1) << lanes->lane[i];
	return set;
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
		.recipients = hints->recipient_count + RECIPIENTS_SPARE,
		.paces = hint_paces_wanted(hints),
		.pass_key = paced_key(hints->engine->segment) };
	struct hints_source sources[HINTS_SOURCES_MAX];
	int result = -1;

	memset(mtas, 0, sizeof(mtas));
	hint_sources_begin(hints, sources, &table, diag);
	for (uint32_t i = 0; i < hints->generation->mta_count; i++) {
		mtas[i].name = generation_text(hints->generation, hints->generation->mtas[i].name);
		mtas[i].width_count = hints->mtas[i].widths.count;
		memcpy(mtas[i].widths, hints->mtas[i].widths.width, sizeof(mtas[i].widths));
		hints->mtas[i].unknown = unknown_lanes(hints, (uint8_t)i, &unknown[i]);
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
		struct hint_candidate candidate = { .domain = hint->domain,
			.next_hop = generation_site_next_hop(hints->generation,
			    &hints->generation->mtas[hint->mta], hint->domain,
			    strlen(hint->domain)),
			.mta = hint->mta, .group = hint->group };
		struct window_owner owner;
		struct hint_key *key;

		if (i % LOOKED_AT == 0)
			hints_writer_beat(hints->writer, clock_now_ns());
		owner_of(hints, hint, &owner, &candidate.barred);
		key = hint_key_add(hints, &candidate, lane_uses_hash(segment, hint->domain,
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

/* Makes the file anew.  -1 with *diag: the one before stays. */
static int build_keys(struct engine_hints *hints, struct diag *diag) {
	struct gathering gathering = { .list = NULL };
	struct hint_look look = { .hints = hints, .each = gather_hint,
		.context = &gathering };
	uint32_t *places = NULL;
	int result = -1;

	hint_look_at_all(&look);
	point_at_texts(&gathering);
	places = calloc(gathering.count + 1, sizeof(*places));
	if (places == NULL || gathering.failed) {
		diag_set(diag, ENOMEM, "no memory for the hints");
	} else if (build_file(hints, &gathering, places, diag) == 0) {
		hint_keys_free(hints);
		hint_paces_begin(hints);
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

/* --- when ---------------------------------------------------------------------------- */

bool hint_file_is_current(const struct engine_hints *hints) {
	return hints->published && hints->made_of == hints->generation->number;
}

/* Everything is said anew.  -1 with *diag: the file before stays. */
static int build(struct engine_hints *hints, struct diag *diag) {
	struct learned_follower before = { .word = 0 };
	bool was_current = hint_file_is_current(hints);
	struct destination_window window;
	int result;

	if (hints->made_of != hints->generation->number)
		hint_queues_configure(hints);
	while (states_next(hints->engine->segment, STATES_CHANGED, &before, &window))
		;
	result = build_keys(hints, diag);
	if (result == 0) {
		hint_recipients_renew(hints, true, true);
		result = hints_writer_publish(hints->writer, clock_now_ns(), diag);
		if (result != 0)
			hint_keys_free(hints);
	}
	if (result == 0) {
		hints->made_of = hints->generation->number;
		hints->published = true;
		hints->crowded = hints->paces_lack || hint_sources_lack_file(hints);
		return 0;
	}
	/* its keys are not those of the file in place, if they were begun */
	hints->published = was_current && hints->key_count > 0 &&
	    hints_writer_is_in_place(hints->writer);
	hint_classes_forget(hints);
	return -1;
}

/* Of a million destinations that do not change there are few looks. */
static bool may_differ(const struct engine_hints *hints, int64_t now_ns) {
	int64_t ago_ns = now_ns - hints->looked_ns;

	return ago_ns >= LOOK_MOST_NS && (ago_ns >= QUIET_SHARE * hints->look_spent_ns ||
	    hints->mark != segment_destinations_mark(hints->engine->segment));
}

static bool look_is_due(const struct engine_hints *hints, int64_t now_ns) {
	return now_ns >= hints->next_ns && (!hint_file_is_current(hints) || hints->crowded ||
	    hints->version != destinations_version(hints->engine->segment) ||
	    may_differ(hints, now_ns));
}

/* At all destinations.  -1 with *diag: no file could be made, unless that was told before. */
static int look(struct engine_hints *hints, struct diag *diag) {
	uint64_t version = destinations_version(hints->engine->segment);
	uint64_t mark = segment_destinations_mark(hints->engine->segment);
	int64_t began_ns = clock_now_ns(), spent_ns;
	bool had_failed = hints->failed, had_lacked = hints->lacked;

	if (hint_file_is_current(hints) && !hints->crowded)
		hint_keys_scan(hints);
	hints->failed = (!hint_file_is_current(hints) || hints->crowded) && build(hints, diag) != 0;
	spent_ns = clock_now_ns() - began_ns;
	hints->looked_ns = hints->now_ns;
	hints->look_spent_ns = spent_ns;
	hints->mark = mark;
	hints->next_ns = hints->now_ns + (SHARE * spent_ns > LOOK_LEAST_NS ? SHARE * spent_ns :
	    LOOK_LEAST_NS);
	if (hints->failed)
		return had_failed ? 0 : -1;
	hints->version = version;
	hints->lacked = hint_sources_lack_file(hints);
	return hints->lacked && !had_lacked ? -1 : 0;
}

/* Is there any Postfix to give hints to? */
static bool is_wanted(const struct generation *generation) {
	for (uint32_t i = 0; i < generation->mta_count; i++)
		if (generation->mtas[i].kind == MTA_POSTFIX)
			return true;
	return false;
}

int hint_file_keep(struct engine_hints *hints, bool *looked, struct diag *diag) {
	if (!hints->published && !is_wanted(hints->generation))
		return 0;
	if (hints_writer_was_cut(hints->writer)) {
		hints->published = false;
		hint_classes_forget(hints);
	}
	*looked = look_is_due(hints, hints->now_ns);
	if (hints->now_ns - hints->checked_ns >= CHECK_NS) {
		hints->checked_ns = hints->now_ns;
		if (hints->published && !hints_writer_is_in_place(hints->writer))
			hints->crowded = true;
	}
	return look_is_due(hints, hints->now_ns) ? look(hints, diag) : 0;
}

static bool awaits_mta(const struct engine_hints *hints) {
	for (unsigned i = 0; i < GENERATION_MTAS_MAX; i++)
		if (hints->mtas[i].reloading || hints->mtas[i].wants_reload)
			return true;
	return false;
}

/* The first thing that time alone brings, as of the last turn. */
static int64_t next_ns(const struct engine_hints *hints) {
	/* a beat of the file, and a look whether it is there */
	int64_t next_ns = hints->checked_ns + CHECK_NS;

	if (look_is_due(hints, hints->next_ns) && hints->next_ns < next_ns)
		next_ns = hints->next_ns;
	for (uint32_t i = 0; i < hints->queue_count; i++)
		if (hints->queues[i].hash != 0 && hints->queues[i].due_ns < next_ns)
			next_ns = hints->queues[i].due_ns;
	if (hint_classes_watch(hints) && hints->turned_ns + WATCH_NS < next_ns)
		next_ns = hints->turned_ns + WATCH_NS;
	return next_ns;
}

int64_t engine_hints_rest_ns(struct engine_hints *hints, int64_t now_ns) {
	int64_t rest_ns = UNWANTED_NS;

	hints->generation = engine_pin(hints->engine);
	if (hints->published || is_wanted(hints->generation))
		rest_ns = next_ns(hints) - now_ns;
	/* nobody stirs for what the cluster has shared, or for an answer of the supervisor */
	if (rest_ns < SOON_NS || generation_has_cluster(hints->generation) || awaits_mta(hints))
		rest_ns = SOON_NS;
	engine_unpin(hints->engine, hints->generation);
	return rest_ns;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Keeps the hints file: each turn what changed since the last one.
 * MODEL    Groups of the file are the classes of the configuration; its keys and their
 *          words are in hints_keys.c and hints_queue.c.  The file is made anew for
 *          another configuration, where keys do not fit, and where somebody removed it.
 * ERRORS   A file that cannot be written leaves the one before; where that is of another
 *          configuration it goes stale, and then there are no hints.
 * THREADS  One.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/hints/hints_internal.h"
#include "segment/destination/recipients.h"
#include "segment/destination/states.h"

#define SHARE		20
#define LOOK_LEAST_NS	(250 * NS_PER_MS)
/* A destination's relays may change their order unseen. */
#define LOOK_MOST_NS	(5 * NS_PER_SECOND)
#define QUIET_SHARE	400
#define SOON_NS		(50 * NS_PER_MS)
#define UNWANTED_NS	(30 * NS_PER_SECOND)
#define CHECK_NS	NS_PER_SECOND
#define WATCH_NS	(200 * NS_PER_MS)	/* of classes whose lanes are in use */
#define UNKNOWN_TEXT	"\1"	/* no class has it */

struct recipient_said {
	char address[RECIPIENT_MAX + 1];
	uint8_t mta;
};

int engine_hints_open(struct engine_hints **hints, struct engine *engine, gid_t group,
    const struct hints_calls *calls, struct diag *diag) {
	struct engine_hints *new = calloc(1, sizeof(*new));
	char path[PATH_MAX + 8];

	if (new == NULL)
		return diag_set(diag, errno, "no memory for the hints");
	new->engine = engine;
	new->queue_free = new->share_free = NO_INDEX;
	if (calls != NULL)
		new->calls = *calls;
	snprintf(path, sizeof(path), "%s.hints", segment_path(engine->segment));
	if (hints_writer_open(&new->writer, path, group, diag) != 0) {
		free(new);
		return -1;
	}
	*hints = new;
	return 0;
}

void engine_hints_close(struct engine_hints **hints) {
	if (*hints == NULL)
		return;
	hints_writer_close(&(*hints)->writer);
	hint_keys_free(*hints);
	hint_queues_free(*hints);
	hint_paces_free(*hints);
	free((*hints)->class_texts);
	free((*hints)->class_full);
	free((*hints)->bounds);
	free((*hints)->recipients);
	free(*hints);
	*hints = NULL;
}

/* --- classes ------------------------------------------------------------------------- */

static bool is_current(const struct engine_hints *hints) {
	return hints->published && hints->made_of == hints->generation->number;
}

void hint_classes_renew(struct engine_hints *hints, int64_t now_ns) {
	char text[HINT_TEXT_MAX + 1];

	if (!is_current(hints))
		return;
	for (uint32_t i = 0; i < hints->class_count; i++) {
		bool held = hint_class_holds(hints->engine, hints->generation, i, now_ns,
		    &hints->class_full[i], text);

		hint_class_tell_room(hints, i);
		if (strcmp(text, hints->class_texts[i]) == 0)
			continue;
		hints_writer_hold_group(hints->writer, i, held ? text : NULL);
		memcpy(hints->class_texts[i], text, sizeof(text));
	}
	hints_writer_beat(hints->writer, now_ns);
}

bool hint_classes_begin(struct engine_hints *hints, const char **texts) {
	uint32_t count = hints->generation->class_count;
	char (*grown)[HINT_TEXT_MAX + 1] = calloc(count + 1, sizeof(*grown));
	struct hint_full *full = calloc(count + 1, sizeof(*full));

	if (grown == NULL || full == NULL || !hint_classes_begin_bounds(hints, count)) {
		free(grown);
		free(full);
		return false;
	}
	/* tried again as no file could be made: what is full has its id */
	if (hints->class_generation == hints->generation->number && hints->class_count == count &&
	    count > 0)
		memcpy(full, hints->class_full, count * sizeof(*full));
	hints->class_generation = hints->generation->number;
	free(hints->class_texts);
	free(hints->class_full);
	hints->class_texts = grown;
	hints->class_full = full;
	hints->class_count = count;
	for (uint32_t i = 0; i < count; i++)
		texts[i] = hint_class_holds(hints->engine, hints->generation, i, clock_now_ns(),
		    &full[i], grown[i]) ? grown[i] : NULL;
	return true;
}

/* The file in place may say anything by now. */
static void forget_classes(struct engine_hints *hints) {
	for (uint32_t i = 0; i < hints->class_count; i++)
		memcpy(hints->class_texts[i], UNKNOWN_TEXT, sizeof(UNKNOWN_TEXT));
}

/* --- recipients ------------------------------------------------------------------------ */

struct holding {
	struct engine_hints *hints;
	struct recipient_said *list;
	size_t count, size;
};

static void hold_for(struct holding *holding, const struct recipient_held *held,
    uint8_t mta) {
	char text[HINTS_TEXT_MAX + 1], until[HINT_TIME_MAX], id[HINT_ID_MAX];
	struct recipient_said *grown;

	if (holding->count == holding->size) {
		holding->size = holding->size == 0 ? 16 : 2 * holding->size;
		grown = reallocarray(holding->list, holding->size, sizeof(*grown));
		if (grown == NULL) {
			holding->size = holding->count;
			return;
		}
		holding->list = grown;
	}
	grown = &holding->list[holding->count++];
	memcpy(grown->address, held->address, sizeof(grown->address));
	grown->mta = mta;
	(void)text_append(text, sizeof(text), 0, "Postern: recipient is held%s%s%s%s%s",
	    held->until_ns == INT64_MAX ? "" : " until ",
	    hint_time(held->until_ns, holding->hints->now_ns, until), hint_id(held->event, id),
	    held->reason[0] == '\0' ? "" : ": ", held->reason);
	if (!hints_writer_hold_recipient(holding->hints->writer, mta, held->address,
		held->until_ns, text))
		holding->hints->crowded = true;
}

static void hold(void *context, const struct recipient_held *held) {
	struct holding *holding = context;
	const struct generation *generation = holding->hints->generation;
	const char *at = strrchr(held->address, '@'), *detail;
	struct destination_seen seen;

	if (at == NULL || !destinations_find(holding->hints->engine->segment, at + 1,
	    strlen(at + 1), &seen))
		return;
	for (uint8_t mta = 0; mta < generation->mta_count; mta++)
		if (hint_destination_doubt(generation, mta, at + 1, strlen(at + 1), &seen,
			&detail) == HINT_DOUBT_NONE)
			hold_for(holding, held, mta);
}

static int compare_said(const void *a, const void *b) {
	const struct recipient_said *x = a, *y = b;

	return x->mta != y->mta ? x->mta - y->mta : strcmp(x->address, y->address);
}

/* The list is sorted. */
static bool is_listed(const struct holding *holding, const struct recipient_said *said) {
	return holding->count > 0 && bsearch(said, holding->list, holding->count,
	    sizeof(*said), compare_said) != NULL;
}

/* `anew`: the file says nothing of any of them yet; `looked`: whose domain is in doubt may
 * be another one. */
static void renew_recipients(struct engine_hints *hints, bool anew, bool looked) {
	struct holding holding = { .hints = hints };
	uint64_t version = recipients_version(hints->engine->segment);

	if (!anew && !looked && version == hints->recipients_version)
		return;
	hints->recipients_version = version;
	if (!hints->generation->outbound_observe)
		recipients_each(hints->engine->segment, hints->now_ns, hold, &holding);
	if (holding.count > 0)
		qsort(holding.list, holding.count, sizeof(*holding.list), compare_said);
	for (size_t i = 0; !anew && i < hints->recipient_count; i++)
		if (!is_listed(&holding, &hints->recipients[i]))
			(void)hints_writer_hold_recipient(hints->writer,
			    hints->recipients[i].mta, hints->recipients[i].address, 0, NULL);
	free(hints->recipients);
	hints->recipients = holding.list;
	hints->recipient_count = holding.count;
}

/* --- a turn ------------------------------------------------------------------------------ */

/* Everything is said anew.  -1 with *diag: the file before stays. */
static int build(struct engine_hints *hints, struct diag *diag) {
	struct learned_follower before = { .word = 0 };
	bool was_current = is_current(hints);
	struct destination_window window;
	int result;

	if (hints->made_of != hints->generation->number)
		hint_queues_configure(hints);
	while (states_next(hints->engine->segment, STATES_CHANGED, &before, &window))
		;
	result = hint_keys_build(hints, diag);
	if (result == 0) {
		renew_recipients(hints, true, true);
		result = hints_writer_publish(hints->writer, clock_now_ns(), diag);
		if (result != 0)
			hint_keys_free(hints);
	}
	if (result == 0) {
		hints->made_of = hints->generation->number;
		hints->published = true;
		hints->crowded = hints->paces_lack;
		return 0;
	}
	/* its keys are not those of the file in place, if they were begun */
	hints->published = was_current && hints->key_count > 0 &&
	    hints_writer_is_in_place(hints->writer);
	forget_classes(hints);
	return -1;
}

/* Of a million destinations that do not change there are few looks. */
static bool may_differ(const struct engine_hints *hints, int64_t now_ns) {
	int64_t ago_ns = now_ns - hints->looked_ns;

	return ago_ns >= LOOK_MOST_NS && (ago_ns >= QUIET_SHARE * hints->look_spent_ns ||
	    hints->mark != segment_destinations_mark(hints->engine->segment));
}

static bool look_is_due(const struct engine_hints *hints, int64_t now_ns) {
	return now_ns >= hints->next_ns && (!is_current(hints) || hints->crowded ||
	    hints->version != destinations_version(hints->engine->segment) ||
	    may_differ(hints, now_ns));
}

/* At all destinations.  -1 with *diag: no file could be made, unless that was told before. */
static int look(struct engine_hints *hints, struct diag *diag) {
	uint64_t version = destinations_version(hints->engine->segment);
	uint64_t mark = segment_destinations_mark(hints->engine->segment);
	int64_t began_ns = clock_now_ns(), spent_ns;
	bool had_failed = hints->failed;

	if (is_current(hints) && !hints->crowded)
		hint_keys_scan(hints);
	hints->failed = (!is_current(hints) || hints->crowded) && build(hints, diag) != 0;
	spent_ns = clock_now_ns() - began_ns;
	hints->looked_ns = hints->now_ns;
	hints->look_spent_ns = spent_ns;
	hints->mark = mark;
	hints->next_ns = hints->now_ns + (SHARE * spent_ns > LOOK_LEAST_NS ? SHARE * spent_ns :
	    LOOK_LEAST_NS);
	if (!hints->failed)
		hints->version = version;
	return hints->failed && !had_failed ? -1 : 0;
}

/* Is there any Postfix to give hints to? */
static bool is_wanted(const struct generation *generation) {
	for (uint32_t i = 0; i < generation->mta_count; i++)
		if (generation->mtas[i].kind == MTA_POSTFIX)
			return true;
	return false;
}

int engine_hints_turn(struct engine_hints *hints, int64_t now_ns, struct diag *diag) {
	struct learned_follower changed = { .word = 0 };
	struct destination_window window;
	bool looked;
	int result = 0;

	hints->generation = engine_pin(hints->engine);
	hints->now_ns = now_ns;
	if (!hints->published && !is_wanted(hints->generation))
		goto out;
	if (hints_writer_was_cut(hints->writer)) {
		hints->published = false;
		forget_classes(hints);
	}
	looked = look_is_due(hints, now_ns);
	if (now_ns - hints->checked_ns >= CHECK_NS) {
		hints->checked_ns = now_ns;
		if (hints->published && !hints_writer_is_in_place(hints->writer))
			hints->crowded = true;
	}
	if (look_is_due(hints, now_ns))
		result = look(hints, diag);
	if (!is_current(hints))
		goto out;
	while (states_next(hints->engine->segment, STATES_CHANGED, &changed, &window))
		hint_keys_renew(hints, window.name);
	hints->turned_ns = now_ns;
	hint_queues_read(hints);
	hint_classes_count(hints);
	for (uint32_t i = 0; i < hints->queue_count; i++) {
		struct hint_queue *queue = &hints->queues[i];

		if (queue->hash != 0 && (queue->dirty || queue->due_ns <= now_ns))
			hint_queue_look(hints, queue);
	}
	hint_queues_reload(hints);
	hint_shares_turn(hints);
	renew_recipients(hints, false, looked);
	hint_paces_turn(hints);
	hint_classes_renew(hints, now_ns);
out:
	engine_unpin(hints->engine, hints->generation);
	return result;
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

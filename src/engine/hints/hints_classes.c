/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Bounds of classes on lanes: what all destinations of a class may have together; and
 *          classes and recipients whose mail is held.
 * MODEL    For all queues of the queue manager whose mail is of one class.  A queue in which
 *          mail waits for a place *is full*: all its lanes count, until they have drained or the
 *          kernel's table shows no connection of the class; and what is left of the class's
 *          places is dealt to such queues as a window is to those that share it.  In any
 *          other one mail *begins*: postern-lookup lets as many messages begin as the class
 *          has room for, by what is open, and what began lately.  Incoming sessions, first
 *          mail to new destinations and other mail servers take places, too.  A queue that
 *          several domains share, by a next hop that the site names, may be of several
 *          classes: it is not bounded.
 * ERRORS   None.
 * THREADS  One.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/hints/hints_internal.h"
#include "segment/destination/recipients.h"

#define QUIET_NS	(600 * NS_PER_MS)
#define UNKNOWN_TEXT	"\1"	/* no class has it */

struct recipient_said {
	char address[RECIPIENT_MAX + 1];
	uint8_t mta;
};

uint32_t hint_class_limit(const struct engine_hints *hints, uint32_t class_index) {
	const struct generation_class *class;
	struct limits own;

	if (class_index == HINTS_NO_GROUP || class_index >= hints->generation->class_count ||
	    hint_class_doubt(hints->generation, class_index) != HINT_DOUBT_NONE)
		return HINTS_ANY_ROOM;
	class = generation_class(hints->generation, class_index);
	return class_limits(hints->engine->segment, hints->generation, class, hints->now_ns,
	    &own)->sessions;
}

/* What is open; false: it is not known. */
static bool read_open(const struct segment *segment, const struct generation_class *class,
    uint32_t *inbound, uint32_t *outbound) {
	const struct class_record *record;
	uint32_t open;

	if (class->record >= segment->header->record_count)
		return false;
	record = &segment->records[class->record];
	if (atomic_load_explicit(&record->uses, memory_order_relaxed) != class->record_use)
		return false;
	open = atomic_load_explicit(&record->open, memory_order_relaxed);
	*inbound = atomic_load_explicit(&record->open_inbound, memory_order_relaxed);
	/* two reads of what changes */
	*outbound = open > *inbound ? open - *inbound : 0;
	return true;
}

/* The class that bounds the queue; NULL: none does. */
static struct hint_class *class_of(const struct engine_hints *hints,
    const struct hint_queue *queue) {
	return queue->group >= hints->class_count || hints->bounds == NULL ||
		hints->bounds[queue->group].limit == HINTS_ANY_ROOM ? NULL :
	    &hints->bounds[queue->group];
}

bool hint_queue_is_full(const struct engine_hints *hints, const struct hint_queue *queue) {
	const struct hint_class *class = class_of(hints, queue);

	if (queue->waiting == 0 || queue->last_ns == 0 || (class != NULL && class->quiet &&
		hints->now_ns - queue->last_ns >= QUIET_NS))
		return false;
	return hints->now_ns < lane_drained_ns(queue->last_ns, 0,
	    hint_queue_longest_ns(queue, hints->now_ns));
}

uint32_t hint_class_use(const struct engine_hints *hints, const struct hint_queue *queue) {
	const struct lane_widths *widths = &hints->mtas[queue->mta].widths;
	lane_set lanes = (queue->used | queue->given) & ~LANE_ORIGIN;

	if (!hint_queue_is_full(hints, queue))
		return 0;
	/* of the transport itself only what runs is known */
	return lane_sum(widths, lanes) + queue->singles +
	    (queue->canary != LANE_WIDTHS_MAX ? 1 : 0) +
	    ((queue->used & LANE_ORIGIN) != 0 ? hint_queue_busy(queue, hints->now_ns) : 0);
}

static void add_queue(struct engine_hints *hints, const struct hint_queue *queue) {
	struct hint_class *class = class_of(hints, queue);

	if (class == NULL || !hint_queue_is_full(hints, queue))
		return;
	class->used += hint_class_use(hints, queue);
	class->waiting++;
}

/* False: no class is bounded. */
static bool begin_counts(struct engine_hints *hints) {
	bool any = false;

	for (uint32_t i = 0; i < hints->class_count && hints->bounds != NULL; i++) {
		struct hint_class *class = &hints->bounds[i];

		class->limit = hint_class_limit(hints, i);
		class->used = class->waiting = 0;
		any = any || class->limit != HINTS_ANY_ROOM;
	}
	return any;
}

/* A table that was read whole since then shows no connection.  (One that was begun when
 * another was may have been read before.) */
static void find_quiet(const struct segment *segment, struct hint_class *class,
    uint32_t outbound, int64_t now_ns) {
	uint32_t dump = atomic_load_explicit(&segment->header->dump_sequence,
	    memory_order_relaxed);

	if (outbound > 0) {
		class->quiet_ns = 0;
	} else if (class->quiet_ns == 0) {
		class->quiet_ns = now_ns;
		class->quiet_dump = dump;
	}
	class->quiet = class->quiet_ns != 0 && now_ns - class->quiet_ns >= QUIET_NS &&
	    dump - class->quiet_dump >= 2;
}

static void find_room(struct hint_class *class) {
	uint32_t taken = class->used + class->other;

	class->room = class->places > taken ? class->places - taken : 0;
}

/* What is left for lanes of queues that are full, and for mail that begins. */
static void find_places(struct engine_hints *hints, struct hint_class *class, uint32_t index) {
	uint32_t inbound, outbound;

	class->places = class->room = HINTS_ANY_ROOM;
	if (class->limit == HINTS_ANY_ROOM || !read_open(hints->engine->segment,
		generation_class(hints->generation, index), &inbound, &outbound))
		return;
	find_quiet(hints->engine->segment, class, outbound, hints->now_ns);
	class->other = outbound > class->used ? outbound - class->used : 0;
	class->places = class->limit > inbound ? class->limit - inbound : 0;
	find_room(class);
	/* nobody asks as long as mail is held: what more would serve is asked for here */
	if (class->room == 0 && generation_class(hints->generation, index)->shared)
		shares_wanted(hints->engine->segment, generation_class(hints->generation, index),
		    false);
}

void hint_classes_count(struct engine_hints *hints) {
	bool changed = false;

	if (!begin_counts(hints))
		return;
	for (uint32_t i = 0; i < hints->queue_count; i++)
		if (hints->queues[i].hash != 0)
			add_queue(hints, &hints->queues[i]);
	for (uint32_t i = 0; i < hints->class_count; i++) {
		struct hint_class *class = &hints->bounds[i];

		find_places(hints, class, i);
		class->changed = class->places != class->before[0] ||
		    class->used != class->before[1] || class->waiting != class->before[2];
		class->before[0] = class->places;
		class->before[1] = class->used;
		class->before[2] = class->waiting;
		changed = changed || class->changed;
	}
	for (uint32_t i = 0; changed && i < hints->queue_count; i++) {
		struct hint_queue *queue = &hints->queues[i];
		const struct hint_class *class = queue->hash == 0 ? NULL : class_of(hints, queue);

		if (class != NULL && class->changed)
			queue->dirty = true;
	}
}

bool hint_classes_watch(const struct engine_hints *hints) {
	for (uint32_t i = 0; i < hints->class_count && hints->bounds != NULL; i++)
		if (hints->bounds[i].limit != HINTS_ANY_ROOM && hints->bounds[i].used > 0)
			return true;
	return false;
}

void hint_class_used(struct engine_hints *hints, uint32_t group, uint32_t before,
    uint32_t now) {
	struct hint_class *class;

	if (group >= hints->class_count || hints->bounds == NULL)
		return;
	class = &hints->bounds[group];
	class->used += now - before;
	if (class->room != HINTS_ANY_ROOM)
		find_room(class);
}

bool hint_class_bounds(const struct engine_hints *hints, const struct hint_queue *queue) {
	return class_of(hints, queue) != NULL;
}

uint32_t hint_class_part(const struct engine_hints *hints, const struct hint_queue *queue) {
	const struct hint_class *class = class_of(hints, queue);
	uint32_t own = hint_class_use(hints, queue), others, part, left;

	if (class == NULL || class->places == HINTS_ANY_ROOM)
		return HINTS_ANY_ROOM;
	if (own == 0)
		return class->limit;
	others = class->used > own ? class->used - own : 0;
	part = lane_share(class->places, class->other, class->waiting);
	left = class->places > others ? class->places - others : 0;
	return part < left ? part : left;
}

void hint_class_tell_room(struct engine_hints *hints, uint32_t index) {
	struct hint_class *class = hints->bounds == NULL ? NULL : &hints->bounds[index];
	char text[HINT_TEXT_MAX + 1] = "", quoted[GENERATION_CLASS_NAME_MAX + 1];
	const char *name;

	if (class == NULL || class->room == class->told)
		return;
	if (class->told == HINTS_ANY_ROOM) {
		name = generation_text(hints->generation, generation_class(hints->generation,
		    index)->name);
		(void)log_quote(quoted, sizeof(quoted), name, strlen(name));
		(void)text_append(text, sizeof(text), 0, "Postern: class %s has %u sessions, and "
		    "other destinations use them", quoted, class->limit);
	}
	class->told = class->room;
	hints_writer_set_room(hints->writer, index, class->room, text[0] == '\0' ? NULL : text);
}

bool hint_classes_begin_bounds(struct engine_hints *hints, uint32_t count) {
	struct hint_class *bounds = calloc(count + 1, sizeof(*bounds));

	if (bounds == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++)
		bounds[i] = (struct hint_class){ .limit = HINTS_ANY_ROOM,
			.places = HINTS_ANY_ROOM, .room = HINTS_ANY_ROOM,
			.told = HINTS_ANY_ROOM };
	free(hints->bounds);
	hints->bounds = bounds;
	return true;
}

/* --- what is held --------------------------------------------------------------------- */

void hint_classes_renew(struct engine_hints *hints, int64_t now_ns) {
	char text[HINT_TEXT_MAX + 1];

	if (!hint_file_is_current(hints))
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

void hint_classes_forget(struct engine_hints *hints) {
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

void hint_recipients_renew(struct engine_hints *hints, bool anew, bool looked) {
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

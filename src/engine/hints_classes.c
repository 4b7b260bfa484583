/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Bounds of classes on lanes: what all destinations of a class may have together.
 * MODEL    As a share of a divided ceiling, for all queues of the queue manager whose mail is
 *          of one class.  A queue of which results come is *in use*: all its lanes count,
 *          and the class's places are dealt to such queues as a window is to those that
 *          share it.  Any other one *begins*: its lanes are told in advance, and
 *          postern-lookup lets as many of them begin as the class has room for.  What is
 *          open beside those lanes (incoming sessions, first mail to new destinations, other
 *          mail servers) takes places, too.  A queue that several domains share, by a next
 *          hop that the site names, may be of several classes: it is not bounded.
 * ERRORS   None.
 * THREADS  One.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/hints_internal.h"

uint32_t hint_class_limit(const struct engine_hints *hints,
    const struct generation *generation, uint32_t class_index, int64_t now_ns) {
	const struct generation_class *class;
	struct limits own;

	if (class_index == HINTS_NO_GROUP || class_index >= generation->class_count ||
	    hint_class_doubt(generation, class_index) != HINT_DOUBT_NONE)
		return HINTS_ANY_ROOM;
	class = generation_class(generation, class_index);
	return class_limits(hints->engine->segment, generation, class, now_ns, &own)->sessions;
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

bool hint_queue_in_use(const struct hint_queue *queue, int64_t now_ns) {
	return queue->singles > 0 || queue->canary != LANE_WIDTHS_MAX || (queue->last_ns != 0 &&
	    lane_drained_ns(queue->last_ns, 0, hint_queue_longest_ns(queue, now_ns)) > now_ns);
}

uint32_t hint_class_use(const struct engine_hints *hints, const struct hint_queue *queue,
    int64_t now_ns) {
	const struct lane_widths *widths = &hints->mtas[queue->mta].widths;
	lane_set lanes = (queue->used | queue->given) & ~LANE_ORIGIN;

	if (!hint_queue_in_use(queue, now_ns))
		return 0;
	/* of the transport itself only what runs is known */
	return lane_sum(widths, lanes) + queue->singles +
	    ((queue->used & LANE_ORIGIN) != 0 ? hint_queue_busy(queue, now_ns) : 0);
}

/* The class that bounds the queue; NULL: none does. */
static struct hint_class *class_of(const struct engine_hints *hints,
    const struct hint_queue *queue) {
	return queue->group >= hints->class_count || hints->bounds == NULL ||
		hints->bounds[queue->group].limit == HINTS_ANY_ROOM ? NULL :
	    &hints->bounds[queue->group];
}

static void add_queue(struct engine_hints *hints, const struct hint_queue *queue,
    int64_t now_ns) {
	struct hint_class *class = class_of(hints, queue);

	if (class == NULL || !hint_queue_in_use(queue, now_ns))
		return;
	class->used += hint_class_use(hints, queue, now_ns);
	if (queue->waiting != 0)
		class->waiting++;
	else
		class->rest += hint_queue_busy(queue, now_ns);
}

/* False: no class is bounded. */
static bool begin_counts(struct engine_hints *hints, const struct generation *generation,
    int64_t now_ns) {
	bool any = false;

	for (uint32_t i = 0; i < hints->class_count && hints->bounds != NULL; i++) {
		struct hint_class *class = &hints->bounds[i];

		class->limit = hint_class_limit(hints, generation, i, now_ns);
		class->used = class->waiting = class->rest = 0;
		any = any || class->limit != HINTS_ANY_ROOM;
	}
	return any;
}

/* What is left for lanes of queues that are in use, and for those that begin. */
static void find_places(struct engine_hints *hints, const struct generation *generation,
    struct hint_class *class, uint32_t index) {
	uint32_t inbound, outbound, other, taken;

	class->places = class->room = HINTS_ANY_ROOM;
	if (class->limit == HINTS_ANY_ROOM || !read_open(hints->engine->segment,
		generation_class(generation, index), &inbound, &outbound))
		return;
	other = outbound > class->used ? outbound - class->used : 0;
	taken = inbound + other;
	class->places = class->limit > taken ? class->limit - taken : 0;
	class->room = class->places > class->used ? class->places - class->used : 0;
}

void hint_classes_count(struct engine_hints *hints, const struct generation *generation,
    int64_t now_ns) {
	bool changed = false;

	if (!begin_counts(hints, generation, now_ns))
		return;
	for (uint32_t i = 0; i < hints->queue_count; i++)
		if (hints->queues[i].hash != 0)
			add_queue(hints, &hints->queues[i], now_ns);
	for (uint32_t i = 0; i < hints->class_count; i++) {
		struct hint_class *class = &hints->bounds[i];

		find_places(hints, generation, class, i);
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

void hint_class_used(struct engine_hints *hints, uint32_t group, uint32_t before,
    uint32_t now) {
	struct hint_class *class;

	if (group >= hints->class_count || hints->bounds == NULL)
		return;
	class = &hints->bounds[group];
	class->used += now - before;
	if (class->room != HINTS_ANY_ROOM)
		class->room = class->places > class->used ? class->places - class->used : 0;
}

bool hint_class_bounds(const struct engine_hints *hints, const struct hint_queue *queue) {
	return class_of(hints, queue) != NULL;
}

uint32_t hint_class_part(const struct engine_hints *hints, const struct hint_queue *queue,
    int64_t now_ns) {
	const struct hint_class *class = class_of(hints, queue);
	uint32_t own = hint_class_use(hints, queue, now_ns), others, rest, waiting, part;

	if (class == NULL || class->places == HINTS_ANY_ROOM)
		return HINTS_ANY_ROOM;
	if (!hint_queue_in_use(queue, now_ns))
		return class->limit;
	rest = class->rest;
	waiting = class->waiting;
	if (queue->waiting == 0) {
		uint32_t busy = hint_queue_busy(queue, now_ns);

		rest -= busy < rest ? busy : rest;
		waiting++;
	}
	others = class->used > own ? class->used - own : 0;
	part = lane_share(class->places, rest, waiting);
	others = class->places > others ? class->places - others : 0;
	return part < others ? part : others;
}

void hint_class_tell_room(struct engine_hints *hints, const struct generation *generation,
    uint32_t index) {
	struct hint_class *class = hints->bounds == NULL ? NULL : &hints->bounds[index];
	char text[HINT_TEXT_MAX + 1] = "", quoted[GENERATION_CLASS_NAME_MAX + 1];
	const char *name;

	if (class == NULL || class->room == class->told)
		return;
	if (class->told == HINTS_ANY_ROOM) {
		name = generation_text(generation, generation_class(generation, index)->name);
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

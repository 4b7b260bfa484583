/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Is there room anywhere, and since when not?
 * MODEL    A look at all classes without a lock.  Where one has room it is looked
 *          at first the next time, so that looks are cheap unless the gate is
 *          shut.  State and time of the last change are in the segment: a new
 *          keeper goes on from there.
 * THREADS  gate_is_shut: any.  gate_watch_look: the keeper's.
 */
#include "engine/session/gate.h"

#include "base/clock.h"
#include "engine/internal.h"

/* Of a shared class what this node may use counts. */
static bool has_room(const struct segment *segment, const struct generation *generation,
    const struct generation_class *class) {
	uint32_t open = atomic_load_explicit(&segment->records[class->record].open,
	    memory_order_relaxed);
	struct limits own;

	return limit_has_room(class_limits(segment, generation, class,
	    class->shared ? clock_now_ns() : 0, &own), open);
}

bool gate_is_shut(const struct segment *segment,
    const struct generation *generation) {
	uint32_t hint = atomic_load_explicit(&segment->header->room_hint,
	    memory_order_relaxed);
	/* any role can write another number */
	uint32_t at = hint < generation->class_count ? hint : 0;

	for (uint32_t i = 0; i < generation->class_count; i++) {
		const struct generation_class *class =
		    generation_class(generation, at);

		if (class->observe || has_room(segment, generation, class)) {
			if (i != 0)
				atomic_store_explicit(
				    &segment->header->room_hint, at,
				    memory_order_relaxed);
			return false;
		}
		at = at + 1 < generation->class_count ? at + 1 : 0;
	}
	return generation->class_count > 0;
}

void gate_wants_shares(const struct segment *segment, const struct generation *generation) {
	if (!generation_has_cluster(generation))
		return;
	for (uint32_t i = 0; i < generation->class_count; i++) {
		const struct generation_class *class = generation_class(generation, i);

		if (class->shared && limit_has_room(&class->limits, atomic_load_explicit(
			&segment->records[class->record].open, memory_order_relaxed)))
			shares_wanted(segment, class, true);
	}
}

enum gate_news gate_watch_look(struct gate_watch *watch, struct engine *engine,
    const struct generation *generation, int64_t now_ns) {
	struct segment_header *header = engine->segment->header;
	bool full = gate_is_shut(engine->segment, generation);
	bool shut = atomic_load(&header->gate_shut) != 0;
	int64_t since_ns = segment_time_ns(&header->gate_since_ns);
	/* a time to come is nobody's: the state may be an adopted one */
	bool settled = since_ns > now_ns || now_ns - since_ns >= GATE_CHANGE_NS;

	/* who is refused by the kernel is counted by nobody */
	if (full && generation->gate_word_count > 0)
		gate_wants_shares(engine->segment, generation);
	if (full != shut && settled) {
		atomic_store(&header->gate_since_ns, now_ns);
		atomic_store(&header->gate_shut, full);
		*watch = (struct gate_watch){ .told = true, .told_ns = now_ns };
		return full ? GATE_SHUTS : GATE_OPENS;
	}
	if (!shut || (watch->told && now_ns - watch->told_ns < GATE_RENEW_NS))
		return GATE_NO_NEWS;
	*watch = (struct gate_watch){ .told = true, .told_ns = now_ns };
	return GATE_STILL_SHUT;
}

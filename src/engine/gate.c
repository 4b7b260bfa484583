/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Is there room anywhere, and since when not?
 * MODEL    A look at all classes without a lock.  Where one has room it is looked
 *          at first the next time, so that looks are cheap unless the gate is
 *          shut.  State and time of the last change are in the segment: a new
 *          keeper goes on from there.
 * THREADS  gate_is_shut: any.  gate_watch_look: the keeper's.
 */
#include "engine/gate.h"

#include "engine/internal.h"

bool gate_is_shut(const struct segment *segment,
    const struct generation *generation) {
	uint32_t hint = atomic_load_explicit(&segment->header->room_hint,
	    memory_order_relaxed);

	for (uint32_t i = 0; i < generation->class_count; i++) {
		uint32_t at = (hint + i) % generation->class_count;
		const struct generation_class *class =
		    generation_class(generation, at);

		if (class->observe ||
		    limit_has_room(&class->limits, atomic_load_explicit(
			&segment->records[class->record].open,
			memory_order_relaxed))) {
			if (i != 0)
				atomic_store_explicit(
				    &segment->header->room_hint, at,
				    memory_order_relaxed);
			return false;
		}
	}
	return generation->class_count > 0;
}

enum gate_news gate_watch_look(struct gate_watch *watch, struct engine *engine,
    const struct generation *generation, int64_t now_ns) {
	struct segment_header *header = engine->segment->header;
	bool full = gate_is_shut(engine->segment, generation);
	bool shut = atomic_load(&header->gate_shut) != 0;
	int64_t since_ns = atomic_load(&header->gate_since_ns);
	/* a time to come is nobody's: the state may be an adopted one */
	bool settled = since_ns > now_ns || now_ns - since_ns >= GATE_CHANGE_NS;

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

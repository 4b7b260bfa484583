/* SPDX-License-Identifier: ISC */
/*
 * Back-pressure (DESIGN section 11): bulk mail for a destination that is suspended is
 * deferred where it comes in, instead of filling the queue.  Whatever is in doubt is
 * let in.  Any thread.
 */
#include <string.h>

#include "engine/destination/windows_internal.h"

bool windows_press_back(struct engine *engine, const struct generation *generation,
    const struct question *question, uint32_t class_index, const char *recipient,
    size_t length, int64_t now_ns, struct window_pressure *out) {
	const char *at = length == 0 ? NULL : memrchr(recipient, '@', length);
	struct window_view view;

	if (!generation->back_pressure || class_index == CLASS_NO_RULE || at == NULL ||
	    !generation_class(generation, class_index)->bulk)
		return false;
	windows_owner_of_host(engine, generation, at + 1,
	    length - (size_t)(at + 1 - recipient), GENERATION_MTAS_MAX, &out->owner);
	if (out->owner.kind == DESTINATION_NONE ||
	    !windows_view(engine, generation, &out->owner, now_ns, &view) ||
	    (view.state != WINDOW_DEAD && view.state != WINDOW_HELD))
		return false;
	out->observed = view.observed;
	out->for_ns = view.until_ns == INT64_MAX ? 0 : view.until_ns - now_ns;
	engine_count(engine, out->observed ? COUNTER_BACK_PRESSURE_OBSERVED :
	    COUNTER_BACK_PRESSURE, 1);
	out->id = windows_note_pressure(engine, generation, question, class_index, recipient,
	    length, now_ns, out, view.event);
	return true;
}

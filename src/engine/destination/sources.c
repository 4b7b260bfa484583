/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Where sources that are warmed up stand.
 * MODEL    policy/window/warm.h over segment/hints/sources.h.  Numbers that were taken ahead are left
 *          yet: they are released to postern-lookup, and counted when it has used them
 *          (engine/hints/hints_sources.c).
 * ERRORS   A state whose lock cannot be had learns nothing of a result.
 * THREADS  Any.
 */
#include "engine/destination/sources.h"

#include <string.h>

#include "engine/internal.h"
#include "segment/hints/sources.h"

void engine_source_look(const struct engine *engine, const struct generation *generation,
    uint32_t number, uint32_t provider, int64_t now_ns, struct source_view *out) {
	const struct generation_source *source = generation_source(generation, number);
	struct source_state state;

	(void)source_look(engine->segment, source_key_of(generation, number, provider), &state);
	warm_look(&state.warm, &source->warm, now_ns, &out->warm);
	out->left = warm_left(&state.warm, &source->warm, now_ns);
	out->next_ns = out->left > 0 ? 0 : out->warm.ends_ns;
}

uint32_t engine_source_choose(const struct engine *engine, const struct generation *generation,
    uint32_t provider, int64_t now_ns) {
	struct source_view view;
	uint32_t number = 0;

	for (; number < generation->source_count; number++) {
		engine_source_look(engine, generation, number, provider, now_ns, &view);
		if (view.left > 0)
			break;
	}
	return number;
}

bool engine_sources_make_wait(const struct generation *generation) {
	uint32_t count = generation->source_count;

	return count > 0 && generation_text(generation,
	    generation_source(generation, count - 1)->over)[0] == '\0';
}

uint32_t engine_sources_ready(const struct engine *engine, const struct generation *generation,
    uint32_t provider) {
	uint32_t ready = 0;

	if (!engine_sources_make_wait(generation) || generation->outbound_observe)
		return UINT32_MAX;
	for (uint32_t number = 0; number < generation->source_count; number++) {
		struct source_state state;

		(void)source_look(engine->segment, source_key_of(generation, number, provider),
		    &state);
		ready = state.given < UINT32_MAX - ready ? ready + state.given : UINT32_MAX;
	}
	return ready;
}

void engine_source_result(struct engine *engine, const struct generation *generation,
    uint32_t number, uint32_t provider, const struct source_result *result, int64_t now_ns) {
	struct source_held held;

	if (!source_lock(engine->segment, source_key_of(generation, number, provider), now_ns,
		&held))
		return;
	if (result->log == 0 || held.state.log != result->log ||
	    result->offset > held.state.offset) {
		held.state.log = result->log;
		held.state.offset = result->offset;
		held.state.lines++;
		if (result->counts)
			warm_result(&held.state.warm, &generation_source(generation, number)->warm,
			    result->throttled, result->sent_ns, now_ns);
		source_put(&held);
	}
	source_unlock(&held);
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A source's day has ended, and another began: for the log and posternctl why.
 * ERRORS   None.
 * THREADS  Any.
 */
#include <string.h>

#include "base/text.h"
#include "engine/destination/sources.h"
#include "engine/destination/sources_internal.h"
#include "engine/destination/windows_internal.h"

static uint32_t number_of(const struct warm_settings *settings, const struct warm *warm) {
	return warm->step < settings->steps ? settings->plan[warm->step] : 0;
}

void engine_source_note_day(struct engine *engine, const struct generation *g, uint32_t number,
    uint32_t provider, const struct source_day *day, int64_t now_ns) {
	const struct generation_source *source = generation_source(g, number);
	const char *name = generation_text(g, source->name);
	const char *to = !source->is_per_provider ? "all destinations" :
	    source_row(g, provider) == 0 ? "other destinations" :
	    generation_text(g, generation_provider(g, provider)->name);
	char reason[WINDOW_TEXT_MAX + 1] = "";
	struct window_report report = { .what = WINDOW_SOURCE_DAY, .generation = g, .name = name,
		.name_length = strlen(name), .state = WINDOW_OPEN,
		.before = number_of(&source->warm, &day->before),
		.window = number_of(&source->warm, &day->now), .reason = reason, .at_ns = now_ns };

	if (day->before.sent == 0 || day->before.day_ns == day->now.day_ns ||
	    day->now.verdict >= WARM_VERDICT_COUNT)
		return;
	(void)text_append(reason, sizeof(reason), 0, "%s: %u sent to %s, %u of %u throttled",
	    warm_verdict_word((enum warm_verdict)day->now.verdict), day->before.sent, to,
	    day->before.throttled, day->before.answered);
	windows_report(engine, &report);
}

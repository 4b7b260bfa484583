/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Source addresses that are warmed up, for people and programs.
 * MODEL    The generation has the plans, the state file where each stands; the law says what that
 *          means now (policy/window/warm.h).
 * ERRORS   One that was never used is at the start of its plan.
 * THREADS  One.
 */
#include "view/sources.h"

#include <string.h>

#include "segment/hints/sources.h"

/* --- each of them -------------------------------------------------------------------------- */

static const char *provider_of(const struct generation *g, const struct generation_source *source,
    uint32_t row) {
	if (!source->is_per_provider)
		return "all";
	return row == 0 ? "others" :
	    generation_text(g, generation_provider(g, source_provider(row))->name);
}

static bool has_sent(const struct view_source *source) {
	return source->warm.sent > 0 || source->warm.verdict != WARM_NEW;
}

static struct view_source source_at(const struct view *view, uint32_t number, uint32_t row) {
	const struct generation *g = view->generation;
	const struct generation_source *source = generation_source(g, number);
	int64_t now_ns = view->status.now_ns;
	struct source_state state;
	struct view_source out = { .source = generation_text(g, source->name),
		.transport = generation_text(g, source->transport),
		.over = generation_text(g, source->over),
		.provider = provider_of(g, source, row), .steps = source->warm.steps };

	(void)source_look(view->reader, source_key_of(g, number, source_provider(row)), &state);
	warm_look(&state.warm, &source->warm, now_ns, &out.warm);
	out.left = warm_left(&state.warm, &source->warm, now_ns);
	out.is_over = out.warm.ends_ns != 0 && out.warm.ends_ns <= now_ns;
	out.released = state.given;
	out.answered = state.warm.answered;
	out.throttled = state.warm.throttled;
	return out;
}

void view_sources_each(const struct view *view, const char *only,
    void (*each)(void *context, const struct view_source *), void *context) {
	const struct generation *g = view->generation;

	for (uint32_t number = 0; g != NULL && number < g->source_count; number++) {
		if (only != NULL && strcmp(only,
			generation_text(g, generation_source(g, number)->name)) != 0)
			continue;
		for (uint32_t row = 0; row < source_rows(g, number); row++) {
			struct view_source source = source_at(view, number, row);

			if (row == 0 || has_sent(&source))
				each(context, &source);
		}
	}
}

bool view_source_is_known(const struct view *view, const char *name) {
	const struct generation *g = view->generation;

	for (uint32_t i = 0; g != NULL && i < g->source_count; i++)
		if (strcmp(generation_text(g, generation_source(g, i)->name), name) == 0)
			return true;
	return false;
}

const char *view_source_state(const struct view_source *source) {
	if (source->left == UINT32_MAX)
		return "warm";
	if (source->is_over)
		return "ready";
	if (source->warm.is_cut)
		return "early";
	return source->left == 0 ? "used" : "sending";
}

/* --- the table ------------------------------------------------------------------------------ */

struct listing {
	const struct view *view;
	const char *only;
	struct writer *writer;
};

static void put_cells(void *context, struct writer *writer, const void *item) {
	const struct listing *listing = context;
	const struct view_source *source = item;
	const struct warm_view *warm = &source->warm;
	bool binds = source->left != UINT32_MAX && source->steps != 0;

	writer_text(writer, "source", source->source);
	writer_text(writer, "transport", source->transport);
	writer_text(writer, "provider", source->provider);
	writer_number_if(writer, "step", binds, warm->step);
	writer_number(writer, "steps", source->steps);
	writer_number_if(writer, "number", binds, warm->number);
	writer_number(writer, "sent", warm->sent);
	writer_number_if(writer, "left", binds, source->left);
	writer_number_if(writer, "released", binds, source->released);
	writer_number(writer, "answered", source->answered);
	writer_member(writer, "throttled", COLUMN_NUMBER, value_counted(source->throttled));
	writer_member(writer, "state", COLUMN_TEXT, value_toned_if(
	    value_text(view_source_state(source)), warm->is_cut && !source->is_over, TONE_WARN));
	writer_text(writer, "verdict", warm_verdict_word(warm->verdict));
	writer_seconds(writer, "next_day", value_until(listing->view->status.now_ns, warm->ends_ns));
	writer_text(writer, "over", source->over == NULL || source->over[0] == '\0' ? "wait" :
	    source->over);
}

static void put_row(void *context, const struct view_source *source) {
	writer_row(((const struct listing *)context)->writer, source);
}

static void all_rows(void *context, struct writer *writer) {
	struct listing *listing = context;

	listing->writer = writer;
	view_sources_each(listing->view, listing->only, put_row, listing);
}

void view_sources_write(const struct view *view, const char *only, struct writer *writer,
    const char *name) {
	struct listing listing = { .view = view, .only = only };

	writer_table(writer, &(const struct table){ .name = name, .row = put_cells,
	    .context = &listing, .rows = all_rows });
}

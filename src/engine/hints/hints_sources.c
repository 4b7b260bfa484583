/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Numbers of sources that are warmed up, on their way to postern-lookup (DESIGN section 17).
 * MODEL    Some of what is left of a day are taken ahead; what the journal has of these is released
 *          to the file, and what is missing there later was used.  So whoever dies between two steps
 *          leaves too many counted, never too few: the state is stored before a number is released,
 *          and after one was taken back.
 * ERRORS   Without the file mail goes as without sources.  Where the disk of the journal fails,
 *          numbers are released all the same.
 * THREADS  One.
 */
#include <stdio.h>
#include <string.h>

#include "base/failpoint.h"
#include "engine/destination/sources.h"
#include "engine/destination/sources_internal.h"
#include "engine/hints/hints_internal.h"

#define SOON_NS		(10 * NS_PER_SECOND)
#define AHEAD_LEAST	16U
#define AHEAD_PART	2U	/* of what is left */
#define AHEAD_MOST	4096U
#define AHEAD_UNBOUND	16384U	/* where no number binds: enough for some seconds */

static uint32_t smaller(uint32_t a, uint32_t b) {
	return a < b ? a : b;
}

/* So many ought to be taken ahead. */
static uint32_t ahead(uint32_t left) {
	uint32_t part = left / AHEAD_PART;

	if (left == UINT32_MAX)
		return AHEAD_UNBOUND;
	part = part < AHEAD_LEAST ? AHEAD_LEAST : smaller(part, AHEAD_MOST);
	return smaller(part, left);
}

/* By now and by the next turn.  Before a day begins, a result that is still to come may make it one
 * of the step before. */
static uint32_t left_surely(const struct warm *warm, const struct warm_settings *settings,
    int64_t now_ns) {
	uint32_t left = smaller(warm_left(warm, settings, now_ns),
	    warm_left(warm, settings, now_ns + SOON_NS));
	bool is_over = warm->sent > 0 && now_ns - warm->day_ns >= WARM_DAY_NS;

	return is_over && warm->step <= settings->steps ?
	    smaller(left, settings->plan[warm->step > 0 ? warm->step - 1 : 0]) : left;
}

/* What has gone since: `rest` of what was released is left in the file. */
static void settle(struct source_state *state, const struct warm_settings *settings, uint32_t rest,
    int64_t now_ns) {
	uint32_t used = state->given - smaller(rest, state->given);
	int32_t unasked;

	state->given -= used;
	state->reserved -= used;
	state->asked += used;
	/* what logs tell, and nobody asked for */
	unasked = (int32_t)(state->lines - state->asked);
	if (unasked > 0) {
		state->asked += (uint32_t)unasked;
		used += (uint32_t)unasked;
	}
	warm_count(&state->warm, settings, used, now_ns);
}

/* So many may be released by what the journal has: it would count them after a reboot. */
static uint32_t releasable(const struct engine_hints *hints, uint64_t key,
    const struct source_state *state) {
	const struct segment *segment = hints->engine->segment;
	uint32_t kept;

	/* what is not said yet, at a start, may be well */
	if (generation_text(hints->generation, hints->generation->journal.path)[0] == '\0' ||
	    atomic_load(&segment->header->journals[JOURNAL_ROOM_KEEPER].fares) == JOURNAL_FARES_ILL)
		return state->reserved;
	kept = source_kept(segment, key, state);
	return kept <= state->warm.sent ? 0 : smaller(kept - state->warm.sent, state->reserved);
}

struct cell {
	uint32_t row, number;
	uint64_t key;
	const struct warm_settings *settings;
};

/* Is anything to be done that needs the lock? */
static bool is_settled(const struct engine_hints *hints, const struct cell *cell) {
	struct source_state state;
	uint32_t left;

	(void)source_look(hints->engine->segment, cell->key, &state);
	left = left_surely(&state.warm, cell->settings, hints->now_ns);
	return given_left(hints->given, cell->row, cell->number) == state.given &&
	    (int32_t)(state.lines - state.asked) <= 0 && state.reserved <= ahead(left) &&
	    (left == 0 || state.reserved > ahead(left) / 2) &&
	    releasable(hints, cell->key, &state) <= state.given;
}

/* More was taken ahead than is left: the day is bad, or another one began. */
static void take_back(const struct engine_hints *hints, const struct cell *cell,
    struct source_state *state, uint32_t most) {
	uint32_t released_most = smaller(state->given, most);

	state->given -= given_take_back(hints->given, cell->row, cell->number,
	    state->given - released_most);
	state->reserved = state->given > most ? state->given : most;
}

static void turn_cell(const struct engine_hints *hints, const struct cell *cell) {
	uint32_t left, given, rest, released = 0;
	struct source_state *state;
	struct source_held held;
	struct source_day day;

	if (is_settled(hints, cell) ||
	    !source_lock(hints->engine->segment, cell->key, hints->now_ns, &held))
		return;
	state = &held.state;
	day.before = state->warm;
	rest = given_left(hints->given, cell->row, cell->number);
	/* of what nobody released nothing may be used */
	if (rest > state->given)
		rest -= given_take_back(hints->given, cell->row, cell->number, rest - state->given);
	settle(state, cell->settings, rest, hints->now_ns);
	left = left_surely(&state->warm, cell->settings, hints->now_ns);
	if (state->reserved > ahead(left))
		take_back(hints, cell, state, ahead(left));
	else if (state->reserved <= ahead(left) / 2)
		state->reserved = ahead(left);
	given = releasable(hints, cell->key, state);
	if (given > state->given) {
		released = given - state->given;
		state->given = given;
	}
	day.now = state->warm;
	FAILPOINT();
	source_put(&held);
	FAILPOINT();
	if (released > 0)
		given_add(hints->given, cell->row, cell->number, released);
	source_unlock(&held);
	FAILPOINT();
	engine_source_note_day(hints->engine, hints->generation, cell->number,
	    source_provider(cell->row), &day, hints->now_ns);
}

static void each_cell(struct engine_hints *hints,
    void (*each)(const struct engine_hints *hints, const struct cell *cell)) {
	const struct generation *g = hints->generation;

	for (uint32_t number = 0; number < g->source_count; number++)
		for (uint32_t row = 0; row < source_rows(g, number); row++)
			each(hints, &(struct cell){ .row = row, .number = number,
			    .key = source_key_of(g, number, source_provider(row)),
			    .settings = &generation_source(g, number)->warm });
}

void hint_sources_turn(struct engine_hints *hints) {
	if (hints->given == NULL)
		return;
	if (given_was_cut(hints->given) || given_is_gone(hints->given))
		hints->crowded = true;	/* another one */
	else
		each_cell(hints, turn_cell);
}

/* --- another file --------------------------------------------------------------------------- */

/* Nothing is left out there: what is not found was used. */
static void close_cell(const struct engine_hints *hints, const struct cell *cell) {
	uint32_t rest = hints->given == NULL ? 0 : given_close_key(hints->given, cell->key);
	struct source_held held;
	struct source_day day;

	if (!source_lock(hints->engine->segment, cell->key, hints->now_ns, &held))
		return;
	day.before = held.state.warm;
	settle(&held.state, cell->settings, rest, hints->now_ns);
	held.state.reserved = held.state.given = 0;
	day.now = held.state.warm;
	FAILPOINT();
	source_put(&held);
	source_unlock(&held);
	FAILPOINT();
	engine_source_note_day(hints->engine, hints->generation, cell->number,
	    source_provider(cell->row), &day, hints->now_ns);
}

static void name_cell(const struct engine_hints *hints, const struct cell *cell) {
	given_set_key(hints->given, cell->row, cell->number, cell->key);
}

static uint64_t over_of(const struct generation *g, const struct generation_source *source) {
	const char *over = generation_text(g, source->over);

	if (over[0] == '\0')
		return HINTS_OVER_WAITS;
	for (uint32_t i = 0; i < g->mta_count; i++)
		if (g->mtas[i].kind == MTA_POSTFIX && g->mtas[i].transport == 0 &&
		    strcmp(over, generation_text(g, g->mtas[i].clone)) == 0)
			return HINTS_OVER_GOES_ON;
	return hints_transport(over);
}

bool hint_sources_lack_file(const struct engine_hints *hints) {
	return hints->given == NULL && hints->generation->source_count > 0 &&
	    !hints->generation->outbound_observe;
}

void hint_sources_begin(struct engine_hints *hints, struct hints_source sources[HINTS_SOURCES_MAX],
    struct hints_table *table, struct diag *diag) {
	const struct generation *g = hints->generation;
	char path[PATH_MAX + 8];

	if (g->source_count == 0 && hints->given == NULL)
		return;
	snprintf(path, sizeof(path), "%s.hints", segment_path(hints->engine->segment));
	if (hints->given == NULL)
		hints->given = given_open(path);
	if (hints->given != NULL && given_was_cut(hints->given))
		given_free(&hints->given);
	each_cell(hints, close_cell);
	given_free(&hints->given);
	FAILPOINT();
	if (g->source_count == 0 || g->outbound_observe)
		return;
	hints->given = given_make(path, hints->group, diag);
	if (hints->given == NULL)
		return;
	FAILPOINT();
	each_cell(hints, name_cell);
	FAILPOINT();
	for (uint32_t i = 0; i < g->source_count; i++) {
		const struct generation_source *source = generation_source(g, i);

		sources[i] = (struct hints_source){ .name = generation_text(g, source->name),
			.transport = hints_transport(generation_text(g, source->transport)),
			.over = over_of(g, source), .is_per_provider = source->is_per_provider != 0 };
	}
	table->sources = sources;
	table->source_count = g->source_count;
	table->given_id = given_id(hints->given);
}

uint32_t hint_source_row(const struct engine_hints *hints, const struct window_owner *owner) {
	const struct generation *g = hints->generation;

	if (hints->given == NULL || owner->kind != DESTINATION_PROVIDER)
		return 0;
	for (uint32_t i = 0; i < g->source_count; i++)
		if (generation_source(g, i)->is_per_provider)
			return source_row(g, owner->provider);
	return 0;
}

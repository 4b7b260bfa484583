/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  States of sources in keeper/.
 * MODEL    What was written last of each is remembered, until a sync covers it.  The last record of a
 *          state counts.
 * ERRORS   Without a disk nothing is written; all is when there is one.
 * THREADS  One.
 */
#include "engine/journal/journal_sources.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "engine/internal.h"
#include "segment/hints/sources.h"

struct note {
	uint64_t key;
	uint64_t serial;		/* of the state that was written last */
	uint64_t sequence;		/* its record's; 0: it is synced */
	struct source_state state;
};

struct journal_sources {
	struct note notes[GENERATION_SOURCES_MAX][GIVEN_ROWS];
};

static uint64_t boot_of(const struct engine *engine) {
	static const struct siphash_key anybody = { 0, 0 };
	const struct segment_header *header = engine->segment->header;

	return siphash13(&anybody, header->boot_id, strnlen(header->boot_id,
	    sizeof(header->boot_id)));
}

static void append(struct journal_keep *keep, const struct generation *g, uint32_t number,
    uint32_t row, const struct source_state *state) {
	const struct warm *warm = &state->warm;
	struct journal_source record = { .when_ns = keep->wall_ns, .boot = boot_of(keep->engine),
		.clock_ns = keep->now_ns, .day_ns = keep->wall_ns - (keep->now_ns - warm->day_ns),
		.name = journal_text_of(generation_text(g, generation_source(g, number)->name)),
		.provider = row == 0 ? (struct journal_text){ "", 0 } : journal_text_of(
		    generation_text(g, generation_provider(g, source_provider(row))->name)),
		.sent = warm->sent, .answered = warm->answered, .throttled = warm->throttled,
		.step = warm->step, .verdict = warm->verdict,
		.ahead = state->reserved };

	journal_keep_append(keep, JOURNAL_SOURCE, &record);
}

static bool write_one(struct note *note, struct journal_keep *keep, const struct generation *g,
    uint32_t number, uint32_t row, bool all) {
	uint64_t key = source_key_of(g, number, source_provider(row));
	struct source_state state;
	uint64_t serial = source_look(keep->engine->segment, key, &state);

	if (note->key != key)
		*note = (struct note){ .key = key };
	if (note->sequence != 0 && journal_log_synced(keep->log) >= note->sequence) {
		source_note_kept(keep->engine->segment, key, &note->state);
		note->sequence = 0;
	}
	if (serial == 0 || (!all && (serial == note->serial || note->sequence != 0)))
		return false;
	append(keep, g, number, row, &state);
	*note = (struct note){ .key = key, .serial = serial, .state = state,
		.sequence = journal_log_last(keep->log) };
	return true;
}

bool journal_sources_write(struct journal_sources **sources, struct journal_keep *keep, bool all) {
	const struct generation *g = engine_pin(keep->engine);
	bool wrote = false;

	if (*sources == NULL && g->source_count > 0)
		*sources = calloc(1, sizeof(**sources));
	for (uint32_t number = 0; *sources != NULL && number < g->source_count; number++)
		for (uint32_t row = 0; row < source_rows(g, number); row++)
			wrote |= write_one(&(*sources)->notes[number][row], keep, g, number, row, all);
	if (wrote)
		journal_log_sync_by(keep->log, keep->now_ns);
	engine_unpin(keep->engine, g);
	return wrote;
}

bool journal_sources_wait(struct engine *engine) {
	const struct generation *g = engine_pin(engine);
	struct source_state state = { .given = 0 };

	for (uint32_t number = 0; number < g->source_count && state.reserved == state.given; number++)
		for (uint32_t row = 0; row < source_rows(g, number) &&
		     state.reserved == state.given; row++)
			(void)source_look(engine->segment, source_key_of(g, number,
			    source_provider(row)), &state);
	engine_unpin(engine, g);
	return state.reserved != state.given;
}

/* --- restoring ---------------------------------------------------------------------------- */

struct sources_restore {
	struct engine *engine;
	const struct generation *generation;
	uint64_t boot;
	int64_t now_ns, wall_ns;
	struct journal_bad *bad;
};

/* How long ago its day began.  A wall clock that went back shows nothing of what passed since. */
static int64_t age_of(const struct sources_restore *r, const struct journal_source *record) {
	int64_t since_ns = r->boot == record->boot ? r->now_ns - record->clock_ns :
	    r->wall_ns - record->when_ns;
	int64_t age_ns = record->when_ns - record->day_ns;

	if (since_ns < 0)
		since_ns = 0;
	if (age_ns < 0)
		age_ns = 0;
	return since_ns < INT64_MAX / 4 && age_ns < INT64_MAX / 4 ? since_ns + age_ns : INT64_MAX / 2;
}

static const struct generation_source *find(const struct generation *g,
    const struct journal_text *name) {
	for (uint32_t i = 0; i < g->source_count; i++) {
		const char *text = generation_text(g, generation_source(g, i)->name);

		if (strlen(text) == name->length && memcmp(text, name->text, name->length) == 0)
			return generation_source(g, i);
	}
	return NULL;
}

static bool take_record(const struct sources_restore *r, const struct journal_frame *frame) {
	char name[GENERATION_SOURCE_NAME_MAX + 1], provider[GENERATION_DESTINATION_MAX + 1];
	const struct generation_source *source;
	struct journal_source record;
	struct source_held held;

	if (!journal_source_read(frame->payload, frame->length, &record) || record.when_ns < 0 ||
	    record.clock_ns < 0 || record.name.length >= sizeof(name) ||
	    record.provider.length >= sizeof(provider))
		return false;
	source = find(r->generation, &record.name);
	if (source == NULL)
		return true;
	memcpy(name, record.name.text, record.name.length);
	name[record.name.length] = '\0';
	memcpy(provider, record.provider.text, record.provider.length);
	provider[record.provider.length] = '\0';
	if (!source_lock(r->engine->segment, source_key(name, provider), r->now_ns, &held))
		return true;
	held.state = (struct source_state){ .warm = { .sent = record.sent,
		.answered = record.answered, .throttled = record.throttled,
		.step = (uint16_t)record.step, .verdict = (uint8_t)record.verdict } };
	warm_restore(&held.state.warm, &source->warm, age_of(r, &record), r->now_ns);
	/* as though all of it had been released, to a file that is gone */
	held.state.reserved = held.state.given = record.ahead;
	source_put(&held);
	source_unlock(&held);
	return true;
}

static bool take_found(void *context, const struct journal_found *found) {
	const struct sources_restore *r = context;

	if (found->kind == JOURNAL_FOUND_RECORD && found->frame.type == JOURNAL_SOURCE)
		r->bad->places += !take_record(r, &found->frame);
	return true;
}

void journal_sources_restore(struct engine *engine, const struct generation *generation,
    struct journal_files *files, struct journal_place begin, int64_t now_ns, int64_t wall_ns,
    struct journal_bad *bad) {
	struct sources_restore r = { .engine = engine, .generation = generation,
		.boot = boot_of(engine), .now_ns = now_ns, .wall_ns = wall_ns, .bad = bad };

	if (!journal_each(files, begin, take_found, &r))
		journal_bad_no_memory(bad);
}

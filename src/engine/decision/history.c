/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Counters that only rise, to rates and minutes.
 * MODEL    Counts of a minute are differences to the minute before, which this process
 *          remembers: the first minute of a keeper has no counts.  A class or a destination
 *          that is busier in a minute than a series has been all day (a sum that fades) takes
 *          its place, a few in a minute.
 * ERRORS   What cannot be written is a gap.
 * THREADS  The keeper's.
 */
#include "engine/decision/history.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "config/generation/enforcement.h"
#include "engine/internal.h"
#include "segment/destination/flights.h"
#include "segment/decision/history.h"
#include "segment/destination/states.h"

#define RATE_TIME_S	5.0		/* a rate follows within some of that */
#define RATE_LEAST	0.05		/* a second: less is none */
#define SCORED_MINUTES	60u
#define NEWCOMERS	16		/* series that change hands in a minute */
#define MAP_SIZE	32768u		/* a power of two, more than twice the series */
#define CHANGES_A_TURN	256
#define CLASS_PREFIX	"class:"

_Static_assert(HISTORY_BYTES_MOST / (HISTORY_MINUTES * sizeof(struct history_values)) <
    MAP_SIZE / 2, "it is never full");

struct series {
	double score;			/* what happened in it, fading within a day */
	uint64_t before[HISTORY_VALUES];	/* counters at the last minute */
	uint32_t before_minute;		/* 0: none */
	uint32_t put_minute;		/* it has values of this one */
};

struct newcomer {
	enum history_kind kind;
	double activity;
	char name[SEGMENT_NAME_MAX + 1];
};

struct class_past {
	uint64_t refusals, all;		/* what was refused; and that, with what was admitted */
	uint32_t uses;
};

struct engine_history {
	struct segment *segment;
	struct class_past *classes;	/* of each record: a second ago */
	struct class_past *minutes;	/* and a minute */
	uint64_t *destinations;		/* deliveries of each slot, a minute ago */
	uint32_t destination_slots;
	int64_t looked_ns;

	struct history *file;
	bool is_tried;
	struct series *series;
	uint16_t map[MAP_SIZE];		/* hash of kind and name: 1 + series */
	struct newcomer newcomers[NEWCOMERS];
	unsigned newcomer_count;
	uint32_t minute;		/* that runs; 0: none was seen */
	struct decisions_cursor changes;
	int64_t started_ns;		/* of the daemon, as was seen last */
	uint64_t restarts;
	uint64_t stopped, would_stop;	/* destinations, in the look of a minute */
};

struct engine_history *engine_history_new(struct segment *segment) {
	struct engine_history *history = calloc(1, sizeof(*history));
	uint32_t records = segment->header->record_count;
	const struct table_place *place = &segment->header->destinations;

	if (history == NULL)
		return NULL;
	history->segment = segment;
	history->destination_slots = place->shards * place->per_shard;
	history->classes = calloc(records, sizeof(*history->classes));
	history->minutes = calloc(records, sizeof(*history->minutes));
	history->destinations = calloc(history->destination_slots,
	    sizeof(*history->destinations));
	if (history->classes == NULL || history->minutes == NULL ||
	    history->destinations == NULL)
		engine_history_free(&history);
	return history;
}

void engine_history_free(struct engine_history **history) {
	if (*history == NULL)
		return;
	history_close(&(*history)->file);
	free((*history)->classes);
	free((*history)->minutes);
	free((*history)->destinations);
	free((*history)->series);
	free(*history);
	*history = NULL;
}

/* --- each second: how fast each class refuses ------------------------------------------- */

static struct class_past past_of(const struct class_record *record) {
	struct class_past out = { .uses = RELAXED(record->uses) };

	out.refusals = RELAXED(record->refused) + RELAXED(record->deferred) +
	    RELAXED(record->observed);
	out.all = out.refusals + RELAXED(record->admitted);
	return out;
}

static void renew_rate(struct class_record *record, struct class_past *before,
    double seconds) {
	double rate = RELAXED(record->refusing) / 1000.0, weight;
	struct class_past now = past_of(record);

	if (before->uses == now.uses && now.refusals >= before->refusals && before->uses != 0) {
		weight = seconds / (seconds + RATE_TIME_S);
		rate += ((double)(now.refusals - before->refusals) / seconds - rate) * weight;
	} else {
		rate = 0;
	}
	*before = now;
	if (rate < RATE_LEAST)
		rate = 0;
	rate = rate > 4e6 ? 4e6 : rate;
	atomic_store_explicit(&record->refusing, (uint32_t)(rate * 1000), memory_order_relaxed);
}

static void renew_rates(struct engine_history *history, int64_t now_ns) {
	const struct segment *segment = history->segment;
	double seconds = (double)(now_ns - history->looked_ns) / (double)NS_PER_SECOND;

	if (history->looked_ns != 0 && seconds < 0.5)
		return;
	for (uint32_t i = 0; i < segment->header->record_count; i++)
		if (RELAXED(segment->records[i].in_use) != CLASS_FREE)
			renew_rate(&segment->records[i], &history->classes[i],
			    history->looked_ns == 0 ? 1 : seconds);
	history->looked_ns = now_ns;
}

/* --- series ------------------------------------------------------------------------------- */

static uint32_t hash_of(enum history_kind kind, const char *name) {
	return (uint32_t)(text_hash((unsigned)kind, name, strlen(name)) >> 20) & (MAP_SIZE - 1);
}

static void index_series(struct engine_history *history) {
	memset(history->map, 0, sizeof(history->map));
	for (unsigned i = 0; i < history_size(history->file); i++) {
		const struct history_name *name = history_at(history->file, i);
		uint32_t at = hash_of(name->kind, name->name);

		if (name->kind == HISTORY_NONE)
			continue;
		while (history->map[at] != 0)
			at = (at + 1) & (MAP_SIZE - 1);
		history->map[at] = (uint16_t)(i + 1);
	}
}

static int find_series(const struct engine_history *history, enum history_kind kind,
    const char *name) {
	for (uint32_t at = hash_of(kind, name); history->map[at] != 0;
	     at = (at + 1) & (MAP_SIZE - 1)) {
		const struct history_name *one = history_at(history->file, history->map[at] - 1u);

		if (one->kind == kind && strcmp(one->name, name) == 0)
			return history->map[at] - 1;
	}
	return -1;
}

/* The busiest of a minute that have none, the least busy first. */
static void note_newcomer(struct engine_history *history, enum history_kind kind,
    const char *name, double activity) {
	struct newcomer *least = &history->newcomers[0], new = { .kind = kind,
		.activity = activity };
	unsigned at = 0;

	if (activity <= 0)
		return;
	memcpy(new.name, name, strnlen(name, SEGMENT_NAME_MAX));
	if (history->newcomer_count < NEWCOMERS)
		memmove(least + 1, least, history->newcomer_count++ * sizeof(*least));
	else if (activity <= least->activity)
		return;
	/* the place of the least one is free now */
	while (at + 1 < history->newcomer_count && least[at + 1].activity < activity) {
		least[at] = least[at + 1];
		at++;
	}
	least[at] = new;
}

/* A series that nothing is of, else the least busy one; of the totals never. */
static int idlest(const struct engine_history *history) {
	double least = INFINITY;
	int found = -1;

	for (unsigned i = 0; i < history_size(history->file); i++) {
		enum history_kind kind = history_at(history->file, i)->kind;

		if (kind == HISTORY_NONE)
			return (int)i;
		if (kind >= HISTORY_CLASS && history->series[i].score < least) {
			least = history->series[i].score;
			found = (int)i;
		}
	}
	return found;
}

/* From the minute that runs now on. */
static void assign(struct engine_history *history, int series, enum history_kind kind,
    const char *name, uint32_t minute) {
	history->series[series] = (struct series){ .score = 0 };
	history_assign(history->file, (unsigned)series, kind, name, minute);
}

static void take_newcomers(struct engine_history *history, uint32_t minute) {
	for (unsigned i = history->newcomer_count; i-- > 0;) {
		const struct newcomer *new = &history->newcomers[i];
		int series = idlest(history);

		if (series < 0 || (history_at(history->file, (unsigned)series)->kind !=
			HISTORY_NONE && history->series[series].score >= new->activity))
			break;
		assign(history, series, new->kind, new->name, minute);
		history->series[series].score = new->activity;
	}
	if (history->newcomer_count > 0)
		index_series(history);
	history->newcomer_count = 0;
}

/* --- each minute ---------------------------------------------------------------------------- */

static uint32_t narrow(uint64_t value) {
	return value >= HISTORY_UNKNOWN ? HISTORY_UNKNOWN - 1 : (uint32_t)value;
}

/* `now`: gauges as they are, counters (bits of `counts`) as they stand. */
static void put(struct engine_history *history, int series, unsigned counts,
    const uint64_t now[HISTORY_VALUES], double activity) {
	struct series *of = &history->series[series];
	bool known = of->before_minute + 1 == history->minute;
	struct history_values values;

	for (unsigned i = 0; i < HISTORY_VALUES; i++) {
		bool is_count = (counts >> i & 1) != 0;

		values.value[i] = !is_count ? narrow(now[i]) :
		    !known || now[i] < of->before[i] ? HISTORY_UNKNOWN :
		    narrow(now[i] - of->before[i]);
		of->before[i] = now[i];
	}
	of->before_minute = of->put_minute = history->minute;
	of->score += activity;
	history_put(history->file, (unsigned)series, history->minute, &values);
}

static void put_class(struct engine_history *history, uint32_t number) {
	const struct class_record *record = &history->segment->records[number];
	struct class_past *before = &history->minutes[number], now = past_of(record);
	const uint64_t values[HISTORY_VALUES] = { RELAXED(record->open),
		RELAXED(record->admitted), RELAXED(record->refused), RELAXED(record->deferred),
		RELAXED(record->observed) };
	double activity = (double)RELAXED(record->open);
	char name[SEGMENT_NAME_MAX + 1] = "";
	int series;

	if (before->uses == now.uses && now.all >= before->all)
		activity += (double)(now.all - before->all);
	*before = now;
	memcpy(name, record->name, SEGMENT_NAME_MAX);
	series = find_series(history, HISTORY_CLASS, name);
	if (series < 0)
		note_newcomer(history, HISTORY_CLASS, name, activity);
	else
		put(history, series, 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4, values, activity);
}

static enum history_stop stop_of(const struct engine_history *history,
    const struct generation *generation, const struct destination_window *one,
    int64_t now_ns) {
	const struct window *window = &one->state.window;
	bool asked = RELAXED(history->segment->header->counters[COUNTER_OUTBOUND_QUESTIONS]) > 0;

	if ((window->state != WINDOW_DEAD && window->state != WINDOW_HELD) ||
	    window->until_ns <= now_ns)
		return HISTORY_GOES;
	return enforcement_of(generation, one->mta_bits, asked).kind == ENFORCEMENT_APPLIED ?
	    HISTORY_STOPPED : HISTORY_WOULD_STOP;
}

struct minute_look {
	struct engine_history *history;
	const struct generation *generation;
	int64_t now_ns;
};

static void put_destination(void *context, const struct destination_window *one) {
	const struct minute_look *look = context;
	struct engine_history *history = look->history;
	const struct destination_state *state = &one->state;
	uint64_t *before = &history->destinations[one->number % history->destination_slots];
	uint64_t done = (uint64_t)state->ok + state->failed;
	double activity = state->in_flight;
	enum history_stop stop;
	int series;

	if (!state->begun || strncmp(one->name, CLASS_PREFIX, sizeof(CLASS_PREFIX) - 1) == 0)
		return;
	stop = stop_of(history, look->generation, one, look->now_ns);
	history->stopped += stop == HISTORY_STOPPED;
	history->would_stop += stop == HISTORY_WOULD_STOP;
	if (*before != 0 && done >= *before - 1)
		activity += (double)(done - (*before - 1));
	activity += stop != HISTORY_GOES;
	*before = done + 1;
	series = find_series(history, HISTORY_DESTINATION, one->name);
	if (series < 0)
		note_newcomer(history, HISTORY_DESTINATION, one->name, activity);
	else
		put(history, series, 1 << 2 | 1 << 3, (const uint64_t[HISTORY_VALUES]){
		    state->in_flight, state->window.concurrency, state->ok, state->failed,
		    (uint64_t)stop }, activity);
}

static uint64_t open_sessions(const struct segment *segment) {
	uint64_t open = 0;

	for (uint32_t i = 0; i < segment->header->record_count; i++)
		if (RELAXED(segment->records[i].in_use) != CLASS_FREE)
			open += RELAXED(segment->records[i].open);
	return open;
}

static void put_totals(struct engine_history *history) {
	const struct segment *segment = history->segment;
	const _Atomic uint64_t *counters = segment->header->counters;
	uint64_t failed = RELAXED(counters[COUNTER_RESULTS_SITE_FAILURE]) +
	    RELAXED(counters[COUNTER_RESULTS_REMOTE_THROTTLE]);
	uint32_t flights, places;

	put(history, 0, 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4, (const uint64_t[HISTORY_VALUES]){
	    open_sessions(segment), RELAXED(counters[COUNTER_ADMITTED]) +
	    RELAXED(counters[COUNTER_UNCOUNTED]), RELAXED(counters[COUNTER_REFUSED]),
	    RELAXED(counters[COUNTER_DEFERRED]), RELAXED(counters[COUNTER_OBSERVED]) }, 0);
	flights_used(segment, &flights, &places);
	put(history, 1, 1 << 1 | 1 << 2, (const uint64_t[HISTORY_VALUES]){
	    flights, RELAXED(counters[COUNTER_RESULTS_OK]), failed,
	    history->stopped, history->would_stop }, 0);
}

static void fade(struct engine_history *history) {
	for (unsigned i = 0; i < history_size(history->file); i++) {
		struct series *series = &history->series[i];

		series->score *= 1 - 1.0 / HISTORY_MINUTES;
		/* gone: nothing is known of it this minute */
		if (history_at(history->file, i)->kind >= HISTORY_CLASS &&
		    series->put_minute != history->minute) {
			struct history_values none;

			memset(&none, 0xff, sizeof(none));
			history_put(history->file, i, history->minute, &none);
		}
	}
}

static unsigned flags_now(struct engine_history *history) {
	const struct segment_header *header = history->segment->header;
	int64_t started_ns = RELAXED(header->started_ns);
	uint64_t restarts = RELAXED(header->counters[COUNTER_ROLE_RESTARTS]);
	unsigned flags = 0;

	if (started_ns != history->started_ns)
		flags |= HISTORY_STARTED;
	else if (restarts != history->restarts)
		flags |= HISTORY_ROLE_RESTARTED;
	history->started_ns = started_ns;
	history->restarts = restarts;
	return flags;
}

static void end_minute(struct engine_history *history, const struct generation *generation,
    int64_t now_ns) {
	struct minute_look look = { history, generation, now_ns };
	const struct segment *segment = history->segment;

	history->stopped = history->would_stop = 0;
	for (uint32_t i = 0; i < segment->header->record_count; i++)
		if (RELAXED(segment->records[i].in_use) == CLASS_IN_FORCE)
			put_class(history, i);
	(void)states_each(segment, put_destination, &look);
	put_totals(history);
	fade(history);
	history_stamp(history->file, history->minute, flags_now(history));
	take_newcomers(history, history->minute + 1);
}

/* --- changes ------------------------------------------------------------------------------ */

static void note_changes(struct engine_history *history, int64_t now_ns, int64_t wall_ns) {
	struct decided next;
	uint64_t lost = 0;

	for (unsigned i = 0; i < CHANGES_A_TURN && decisions_next(history->segment,
	     DECIDED_OF_DESTINATIONS, &history->changes, now_ns, &next, NULL, &lost); i++)
		if (decided_is_change(&next) && (next.flags & DECIDED_IS_RECIPIENT) == 0)
			history_add_change(history->file, wall_ns - (now_ns - next.at_ns), &next);
}

/* --- turns ---------------------------------------------------------------------------------- */

/* How busy a series was within the last hour, for a keeper that is new. */
static void score_again(struct engine_history *history, uint32_t minute) {
	struct history_values values[SCORED_MINUTES];
	uint8_t known[HISTORY_MINUTES];

	if (!history_minutes(history->file, minute, known))
		return;
	for (unsigned i = 2; i < history_size(history->file); i++) {
		enum history_kind kind = history_at(history->file, i)->kind;

		if (kind == HISTORY_NONE || !history_read(history->file, i, minute, known,
			SCORED_MINUTES, values))
			continue;
		for (unsigned j = 0; j < SCORED_MINUTES; j++)
			for (unsigned k = 0; k < 4; k++)
				if (values[j].value[k] != HISTORY_UNKNOWN &&
				    (kind == HISTORY_CLASS || k != 1))
					history->series[i].score += values[j].value[k];
	}
}

static int open_file(struct engine_history *history, const struct generation *generation,
    uint32_t minute) {
	struct diag diag;

	history->is_tried = true;
	if (generation->history_bytes == 0)
		return 0;
	if (history_open(&history->file,
	    segment_path(history->segment), generation->history_bytes,
	    history->segment->readers, &diag) != 0)
		return diag.error != 0 ? diag.error : EIO;
	history->series = calloc(history_size(history->file) + 1, sizeof(*history->series));
	if (history->series == NULL || history_size(history->file) < 2) {
		history_close(&history->file);
		return 0;
	}
	if (history_at(history->file, 0)->kind != HISTORY_SESSIONS)
		history_assign(history->file, 0, HISTORY_SESSIONS, "", minute);
	if (history_at(history->file, 1)->kind != HISTORY_OUTBOUND)
		history_assign(history->file, 1, HISTORY_OUTBOUND, "", minute);
	index_series(history);
	score_again(history, minute);
	history->restarts = RELAXED(history->segment->header->counters[COUNTER_ROLE_RESTARTS]);
	history->changes = (struct decisions_cursor){ .begun = history_last_change(
	    history->file) != 0, .next = history_last_change(history->file) / DECIDED_RINGS,
	    .old = RELAXED(history->segment->header->decided_next[
	    DECIDED_OF_DESTINATIONS].number) };
	return 0;
}

int engine_history_turn(struct engine_history *history, const struct generation *generation,
    int64_t now_ns, int64_t wall_ns, const char **what) {
	uint32_t minute = (uint32_t)(wall_ns / (60 * NS_PER_SECOND));
	int error = 0;

	*what = "write the history";
	renew_rates(history, now_ns);
	if (!history->is_tried)
		error = open_file(history, generation, minute);
	if (history->file == NULL)
		return error;
	note_changes(history, now_ns, wall_ns);
	if (history->minute == 0)
		history->minute = minute;
	if (minute == history->minute)
		return 0;
	/* a clock that was set, or a machine that slept: the minutes between are a gap */
	end_minute(history, generation, now_ns);
	history->minute = minute;
	return history_error(history->file);
}

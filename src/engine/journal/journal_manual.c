/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The actions of keeper/.
 * MODEL    Those that may matter yet are in memory too (manual_table.h), so that a
 *          checkpoint can be written at the start, after a fault, and now and then.  What
 *          is in force in the segment and stands in no journal, as there was none when it
 *          was done, is added, older than any window in feed/.
 *          What could not be read at the start is put in force when it can be.
 * ERRORS   Without a disk they are in memory, and are written when there is one.
 * THREADS  One.
 */
#include "engine/journal/journal_manual.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"
#include "engine/journal/journal_keep.h"
#include "engine/journal/journal_restore.h"
#include "engine/journal/journal_sources.h"
#include "engine/destination/windows.h"
#include "segment/destination/recipients.h"
#include "segment/destination/states.h"

#define KEPT_NS			(86400 * NS_PER_SECOND)
#define CHECKPOINT_BYTES	(UINT64_C(1) << 20)
#define LONG_AGO_NS		1
#define READ_TRIES		30	/* seconds: a bad spot of the disk may stay */

struct journal_manual_log {
	struct journal_keep keep;
	struct manual_table *table;
	struct journal_sources *sources;
	bool was_read;
	bool is_late;		/* what was read is to be put in force */
	unsigned tries;
	uint64_t pushed_out;	/* told */
};

int journal_manual_open(struct journal_manual_log **manual, struct engine *engine,
    const struct generation *generation, const struct journal_listener *listener,
    int64_t now_ns, struct diag *diag) {
	if (journal_keep_open(manual, sizeof(**manual), engine, generation,
	    JOURNAL_ROOM_KEEPER, listener, now_ns, diag) != 0)
		return -1;
	engine->manual = *manual;
	if (*manual == NULL || ((*manual)->table = manual_table_open()) != NULL)
		return 0;
	journal_manual_close(manual);
	return diag_set(diag, 0, "no memory for the journal");
}

void journal_manual_close(struct journal_manual_log **manual) {
	if (*manual == NULL)
		return;
	(*manual)->keep.engine->manual = NULL;
	manual_table_close(&(*manual)->table);
	free((*manual)->sources);
	journal_keep_close(manual);
}

/* --- what stands there ---------------------------------------------------------------- */

struct reading {
	struct manual_table *table;
	struct journal_bad *bad;
};

static bool read_action(void *context, const struct journal_found *found) {
	const struct reading *reading = context;
	struct journal_manual action;

	journal_bad_note(reading->bad, found);
	if (found->kind != JOURNAL_FOUND_RECORD || found->frame.type != JOURNAL_MANUAL)
		return true;
	if (journal_manual_read(found->frame.payload, found->frame.length, &action) &&
	    action.when_ns >= 0 && action.until_ns >= 0)
		(void)manual_table_add(reading->table, &action);
	else
		reading->bad->places++;
	return true;
}

void journal_manual_read_all(struct journal_files *files, struct journal_place begin,
    struct manual_table *table, struct journal_bad *bad) {
	struct reading reading = { table, bad };

	if (!journal_each(files, begin, read_action, &reading))
		journal_bad_no_memory(bad);
}

static void add(struct journal_manual_log *manual, struct journal_manual *action,
    const char *name, const char *reason, int64_t until_ns) {
	if (manual_table_has(manual->table, action->what, name))
		return;
	action->when_ns = LONG_AGO_NS;
	action->who = UINT32_MAX;
	action->until_ns = journal_keep_wall_ns(&manual->keep, until_ns);
	action->name = journal_text_of(name);
	action->reason = journal_text_of(reason);
	(void)manual_table_add(manual->table, action);
}

static void add_destination(void *context, const struct destination_window *window) {
	static const char classes[] = "class:";
	const struct destination_state *state = &window->state;
	struct journal_manual action = { .what = JOURNAL_ON_DESTINATION,
		.window = UINT32_MAX, .ceiling = UINT32_MAX };

	/* a class's name is not told by that of its window */
	if (strncmp(window->name, classes, strlen(classes)) == 0)
		return;
	if (window_is_by_hand(&state->window)) {
		action.verb = state->window.state == WINDOW_HELD ? MANUAL_HOLD :
		    MANUAL_SUSPEND;
		add(context, &action, window->name, window->reason,
		    state->window.until_ns);
	} else if ((state->flags & DESTINATION_CEILING) != 0) {
		action.verb = MANUAL_LIMIT;
		action.ceiling = state->window.ceiling;
		add(context, &action, window->name, window->reason, 0);
	}
}

static void add_recipient(void *context, const struct recipient_held *held) {
	struct journal_manual action = { .what = JOURNAL_ON_RECIPIENT,
		.verb = MANUAL_HOLD, .window = UINT32_MAX, .ceiling = UINT32_MAX };

	if (held->rule == RECIPIENT_NO_RULE)
		add(context, &action, held->address, held->reason, held->until_ns);
}

/* What was resumed while nothing could be written, and the table was lost with its process,
 * is in force no more: the state knows it better than the files. */
static bool is_in_force(const struct journal_manual_log *manual,
    const struct journal_manual *action) {
	const struct segment *segment = manual->keep.engine->segment;
	struct destination_window window;
	struct recipient_held held;

	if (action->verb != MANUAL_HOLD && action->verb != MANUAL_SUSPEND)
		return true;
	if (action->what == JOURNAL_ON_DESTINATION)
		return states_find(segment, action->name.text, action->name.length, &window) &&
		    window_is_by_hand(&window.state.window);
	return action->what != JOURNAL_ON_RECIPIENT || recipients_find(segment,
	    action->name.text, action->name.length, manual->keep.now_ns, &held);
}

static bool check(void *context, const struct journal_manual *action) {
	return is_in_force(context, action);
}

static bool add_again(void *context, const struct journal_manual *action) {
	(void)manual_table_add(context, action);
	return true;
}

/* The end was taken without what could not be read: that counts no more, and nobody has read
 * it, though it may be read by now. */
static bool has_cut_off(struct journal_manual_log *manual) {
	const struct journal_files *files = journal_log_files(manual->keep.log);
	uint32_t begin = journal_log_begin(manual->keep.log).file;

	for (uint32_t i = 0; i < files->count && files->files[i].number < begin; i++)
		if (files->files[i].superseded)
			return true;
	return false;
}

/* What was done since we began is later than all that stands there, whatever the clock
 * said.  False: the disk fails. */
static bool read_below(struct journal_manual_log *manual, struct journal_place begin) {
	const struct segment_header *header = manual->keep.engine->segment->header;
	struct manual_table *table = manual_table_open();
	struct journal_bad bad = { .places = 0 };

	if (table == NULL)
		return false;
	journal_manual_read_all(journal_log_files(manual->keep.log), begin, table, &bad);
	if (bad.faults > 0 && manual->tries++ < READ_TRIES) {
		manual_table_close(&table);
		return false;
	}
	if (bad.faults > 0 || (manual->keep.was_unread && has_cut_off(manual)))
		journal_log_keep(manual->keep.log);
	if (atomic_load(&header->unlearned) == 0)
		manual_table_each(table, check, manual);
	manual_table_each(manual->table, add_again, table);
	manual_table_close(&manual->table);
	manual->table = table;
	return true;
}

static void read_once(struct journal_manual_log *manual) {
	const struct segment *segment = manual->keep.engine->segment;
	const struct journal_positions *found;
	struct journal_place begin = { 0, 0 };

	/* whose it is is known when there is a file of ours */
	if (manual->was_read || !journal_log_is_read(manual->keep.log) ||
	    journal_log_begin(manual->keep.log).file == 0)
		return;
	found = journal_log_found(manual->keep.log);
	if (found != NULL)
		begin.file = found->first_file;
	if (!journal_keep_is_foreign(&manual->keep)) {
		if (!read_below(manual, begin))
			return;
		manual->is_late = manual->keep.was_unread;
	}
	manual->was_read = true;
	(void)states_each(segment, add_destination, manual);
	recipients_each(segment, manual->keep.now_ns, add_recipient, manual);
}

static bool is_missed(void *context, const struct journal_manual *action) {
	return !is_in_force(context, action);
}

/* Nobody could read it at the start.  What was set, resumed or forgotten then may be older than
 * what was learned since; what holds is not. */
static void put_in_force(struct journal_manual_log *manual) {
	struct engine *engine = manual->keep.engine;
	const struct generation *generation = engine_pin(engine);

	manual->is_late = false;
	engine->manual = NULL;		/* it stands there */
	engine_journal_do_again(engine, generation, manual->table, is_missed, manual,
	    &manual->keep.listener, manual->keep.now_ns, manual->keep.wall_ns);
	engine->manual = manual;
	engine_unpin(engine, generation);
}

/* --- writing -------------------------------------------------------------------------- */

/* Where nobody feeds nothing but this says what was set. */
static bool is_set(const struct journal_manual_log *manual,
    const struct journal_manual *action) {
	const struct segment *segment = manual->keep.engine->segment;
	bool feeds = atomic_load(&segment->header->journals[JOURNAL_ROOM_FEED].fares) !=
	    JOURNAL_FARES_NONE;
	struct destination_window window;

	return action->verb == MANUAL_LIMIT &&
	    states_find(segment, action->name.text, action->name.length, &window) &&
	    (!feeds || (window.state.flags & DESTINATION_CEILING) != 0);
}

/* What was resumed or forgotten, and windows that were set, are in feed/ long since. */
static bool may_matter(const struct journal_manual_log *manual,
    const struct journal_manual *action) {
	if (action->verb == MANUAL_HOLD || action->verb == MANUAL_SUSPEND)
		return action->until_ns > manual->keep.wall_ns;
	return manual->keep.wall_ns - action->when_ns < KEPT_NS ||
	    action->until_ns > manual->keep.wall_ns || is_set(manual, action);
}

static bool write_again(void *context, const struct journal_manual *action) {
	struct journal_manual_log *manual = context;

	if (!may_matter(manual, action))
		return false;
	journal_keep_append(&manual->keep, JOURNAL_MANUAL, action);
	return true;
}

static void write_checkpoint(struct journal_manual_log *manual) {
	struct journal_keep *keep = &manual->keep;

	journal_keep_checkpoint(keep);
	manual_table_each(manual->table, write_again, manual);
	(void)journal_sources_write(&manual->sources, keep, true);
	journal_keep_checkpoint_end(keep);
	journal_log_sync_by(keep->log, keep->now_ns);
}

static void count_pushed_out(struct journal_manual_log *manual) {
	struct journal_keep *keep = &manual->keep;
	uint64_t pushed_out = manual_table_pushed_out(manual->table);
	struct journal_news news = { .kind = JOURNAL_NEWS_TOO_MANY, .room = keep->room,
		.lost = pushed_out, .what = "", .path = "" };

	if (pushed_out <= manual->pushed_out)
		return;
	engine_count(keep->engine, COUNTER_JOURNAL_LOST, pushed_out - manual->pushed_out);
	if (manual->pushed_out == 0)
		keep->listener.tell(keep->listener.context, &news);
	manual->pushed_out = pushed_out;
}

static void turn(struct journal_manual_log *manual) {
	struct journal_keep *keep = &manual->keep;

	count_pushed_out(manual);

	read_once(manual);
	if (manual->is_late)
		put_in_force(manual);
	if (manual->was_read && journal_log_state(keep->log) == JOURNAL_GOOD &&
	    (keep->renew || keep->failed || journal_keep_has_grown(keep, CHECKPOINT_BYTES)))
		write_checkpoint(manual);
	(void)journal_keep_turn(keep);
	/* what is synced by now is noted, and what changed goes to the disk at once */
	if (manual->was_read && journal_log_state(keep->log) == JOURNAL_GOOD &&
	    journal_sources_write(&manual->sources, keep, false))
		(void)journal_keep_turn(keep);
}

void journal_manual_turn(struct journal_manual_log *manual, int64_t now_ns,
    int64_t wall_ns) {
	if (manual == NULL)
		return;
	(void)journal_keep_begin(&manual->keep, now_ns, wall_ns);
	turn(manual);
	/* it has just become possible */
	if (journal_keep_can_renew(&manual->keep))
		turn(manual);
}

void journal_manual_hurry(struct journal_manual_log *manual, int64_t now_ns, int64_t wall_ns) {
	if (manual != NULL && manual->was_read && journal_sources_wait(manual->keep.engine))
		journal_manual_turn(manual, now_ns, wall_ns);
}

void journal_manual_write_down(struct journal_manual_log *manual,
    struct journal_manual *action, int64_t now_ns) {
	if (manual == NULL)
		return;
	manual->keep.now_ns = now_ns;
	manual->keep.wall_ns = action->when_ns = clock_wall_ns();
	action->until_ns = journal_keep_wall_ns(&manual->keep, action->until_ns);
	/* what stands there is older */
	read_once(manual);
	if (!manual_table_add(manual->table, action))
		manual->keep.failed = true;
	journal_keep_append(&manual->keep, JOURNAL_MANUAL, action);
	journal_log_sync_by(manual->keep.log, now_ns);
	(void)journal_keep_turn(&manual->keep);
}

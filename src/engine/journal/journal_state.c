/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The groups of feed/.
 * MODEL    A pass over the segment's marks of what is not kept yet is a group; with all
 *          destinations marked it is a checkpoint.  One that lasts for several turns is
 *          followed by another pass over what changed meanwhile, with the places of then,
 *          until one is over in a turn.  What a fault of the disk has cost is not known:
 *          then comes a checkpoint, and so when the wall clock was set.
 * ERRORS   Without a disk nothing is looked at: all of it is written when there is one.
 * THREADS  One.
 */
#include "engine/journal/journal_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/internal.h"
#include "engine/journal/journal_keep.h"
#include "segment/file/feed_position.h"
#include "segment/destination/recipients.h"
#include "segment/destination/state_text.h"
#include "segment/destination/states.h"

/* A little less than the second in which its turn comes. */
#define GROUP_NS		(800 * NS_PER_MS)
#define RECORD_BYTES		320	/* of a destination, about */
#define CHECKPOINT_BYTES	(UINT64_C(16) << 20)
#define PASSES_MOST		16	/* of one group */
#define GIVEN_UP_PART		2	/* of the table */
#define RECIPIENTS_RATE		(JOURNAL_STATE_RATE / 64)	/* of bytes of their lists */
#define BEGIN_TURNS		50	/* 0.25 s at most */
#define BEGIN_TURN_US		5000
#define POSITION_TIME_US	(UINT64_C(600) * 1000000)

struct journal_states {
	struct journal_keep keep;
	struct learned_follower at;
	bool in_group, in_checkpoint;
	bool wants_checkpoint;
	unsigned passes;	/* of the group, that are over */
	uint64_t turn, pass_turn;	/* now; in which the pass began */
	uint64_t group;		/* its number */
	uint64_t group_began;	/* keep.bytes then */
	int64_t began_ns, next_ns;
	/* at its begin, and at that of the last one */
	struct feed_position positions[SEGMENT_LOG_FILES];
	struct feed_position written[SEGMENT_LOG_FILES];
	unsigned position_count, written_count;
	uint64_t recipients;	/* version of those that were written */
	int64_t recipients_ns;	/* before it no list of them but in a checkpoint */
	uint64_t given_up;	/* destinations, when the last checkpoint began */
};


int journal_states_open(struct journal_states **state, struct engine *engine,
    const struct generation *generation, const struct journal_listener *listener,
    int64_t now_ns, struct diag *diag) {
	int result = journal_keep_open(state, sizeof(**state), engine, generation,
	    JOURNAL_ROOM_FEED, listener, now_ns, diag);

	if (*state != NULL)
		(*state)->next_ns = now_ns;
	return result;
}

void journal_states_close(struct journal_states **state) {
	journal_keep_close(state);
}

/* --- records ---------------------------------------------------------------------- */

static void write_destination(struct journal_states *state,
    const struct destination_window *window) {
	const struct segment *segment = state->keep.engine->segment;
	char text[STATE_TEXT_MAX];
	size_t length = state_text_write(segment, window, state->keep.now_ns, text);
	struct journal_destination destination = { .when_ns = state->keep.wall_ns,
		.origin = window->origin, .name = journal_text_of(window->name),
		.state = { text, (uint16_t)length },
		.reason = journal_text_of(window->reason) };

	/* at the begin of a checkpoint there is no need to say that nothing is known */
	if (destination.state.length == 0 && state->in_checkpoint && state->passes == 0)
		return;
	journal_keep_append(&state->keep, JOURNAL_DESTINATION, &destination);
}

static void write_recipient(void *context, const struct recipient_held *held) {
	struct journal_states *state = context;
	struct journal_keep *keep = &state->keep;
	struct journal_held_recipient recipient = { .when_ns = keep->wall_ns,
		.since_ns = journal_keep_wall_ns(keep, held->since_ns),
		.until_ns = journal_keep_wall_ns(keep, held->until_ns), .event = held->event,
		.address = journal_text_of(held->address),
		.reason = journal_text_of(held->reason),
		.by_rule = held->rule != RECIPIENT_NO_RULE };

	journal_keep_append(keep, JOURNAL_HELD_RECIPIENT, &recipient);
}

/* All that are held, behind a record without an address: what is not among them is not.
 * One change writes all of them: so the next list may have to wait. */
static void write_recipients(struct journal_states *state) {
	struct segment *segment = state->keep.engine->segment;
	uint64_t version = recipients_version(segment);
	struct journal_held_recipient none = { .when_ns = state->keep.wall_ns };
	uint64_t before = state->keep.bytes;

	if (!state->in_checkpoint &&
	    (version == state->recipients || state->keep.now_ns < state->recipients_ns))
		return;
	journal_keep_append(&state->keep, JOURNAL_HELD_RECIPIENT, &none);
	recipients_each(segment, state->keep.now_ns, write_recipient, state);
	state->recipients = version;
	state->recipients_ns = state->keep.now_ns + (int64_t)((state->keep.bytes - before) *
	    NS_PER_SECOND / RECIPIENTS_RATE);
}

static void write_position(struct journal_states *state, const struct feed_position *p) {
	const struct journal_log_position position = { state->keep.wall_ns, *p };

	journal_keep_append(&state->keep, JOURNAL_LOG_POSITION, &position);
}

/* --- groups ----------------------------------------------------------------------- */

/* That nothing came is worth a record now and then. */
static bool same_time(uint64_t a, uint64_t b) {
	return (a > b ? a - b : b - a) < POSITION_TIME_US;
}

static bool same_position(const struct feed_position *a, const struct feed_position *b) {
	return same_time(a->spot.time_us, b->spot.time_us) &&
	     a->log == b->log && a->device == b->device && a->inode == b->inode &&
	    a->epoch == b->epoch && a->rank == b->rank &&
	    a->spot.offset == b->spot.offset && a->spot.skipping == b->spot.skipping;
}

static bool positions_changed(const struct journal_states *state) {
	if (state->position_count != state->written_count)
		return true;
	for (unsigned i = 0; i < state->position_count; i++)
		if (!same_position(&state->positions[i], &state->written[i]))
			return true;
	return false;
}

/* Those that made room for others are written as gone by no group: a checkpoint leaves them
 * out. */
static uint64_t given_up(const struct segment *segment) {
	return atomic_load(&segment->header->counters[COUNTER_DESTINATIONS_EVICTED]);
}

static bool are_many_given_up(const struct journal_states *state) {
	const struct segment *segment = state->keep.engine->segment;

	return given_up(segment) - state->given_up >
	    (uint64_t)segment->header->destinations.shards *
	    segment->header->destinations.per_shard / GIVEN_UP_PART;
}

static void begin_pass(struct journal_states *state) {
	state->position_count = feed_positions_all(state->keep.engine->segment,
	    state->positions);
	state->at = (struct learned_follower){ .word = 0 };
	state->pass_turn = state->turn;
}

static void begin_group(struct journal_states *state) {
	struct segment *segment = state->keep.engine->segment;

	begin_pass(state);
	state->passes = 0;
	state->in_group = true;
	state->in_checkpoint = state->wants_checkpoint;
	state->wants_checkpoint = false;
	state->keep.failed = false;
	state->keep.records = 0;
	state->group_began = state->keep.bytes;
	state->began_ns = state->keep.now_ns;
	if (!state->in_checkpoint)
		return;
	state->given_up = given_up(segment);
	journal_keep_checkpoint(&state->keep);
	states_mark_all(segment, STATES_UNKEPT);
}

static void end_group(struct journal_states *state) {
	struct journal_keep *keep = &state->keep;
	struct journal_checkpoint group = { .number = ++state->group,
		.when_ns = keep->wall_ns };
	uint64_t bytes;

	write_recipients(state);
	state->in_group = false;
	if (keep->records > 0 || state->in_checkpoint || positions_changed(state)) {
		for (unsigned i = 0; i < state->position_count; i++)
			write_position(state, &state->positions[i]);
		group.records = keep->records;
		journal_keep_append(keep, JOURNAL_GROUP, &group);
		memcpy(state->written, state->positions,
		    state->position_count * sizeof(state->written[0]));
		state->written_count = state->position_count;
		if (state->in_checkpoint)
			journal_keep_checkpoint_end(keep);
		journal_log_sync_by(keep->log, state->keep.now_ns);
	}
	bytes = keep->bytes - state->group_began;
	state->next_ns = state->began_ns + GROUP_NS +
	    (int64_t)(bytes * NS_PER_SECOND / JOURNAL_STATE_RATE);
	state->wants_checkpoint = are_many_given_up(state) ||
	    journal_keep_has_grown(keep, CHECKPOINT_BYTES);
}

/* What was stored since the last pass, or as much as a turn may write.  True: that was all. */
static bool write_changed(struct journal_states *state) {
	struct destination_window window;

	for (unsigned i = 0; i < JOURNAL_STATE_RATE / RECORD_BYTES; i++) {
		if (!states_next(state->keep.engine->segment, STATES_UNKEPT, &state->at, &window)) {
			/* until those that somebody was changing are there too */
			bool all = state->at.torn == 0;

			state->at.torn = 0;
			return all;
		}
		write_destination(state, &window);
	}
	return false;
}

static void write_group(struct journal_states *state) {
	if (!state->in_group && state->keep.now_ns >= state->next_ns)
		begin_group(state);
	while (state->in_group && write_changed(state)) {
		/* only what is of one moment fits together: once more, what changed since */
		if (state->pass_turn == state->turn || ++state->passes >= PASSES_MOST)
			end_group(state);
		else
			begin_pass(state);
	}
}

static void renew(struct journal_states *state) {
	state->keep.renew = state->keep.failed = false;
	state->wants_checkpoint = true;
	state->in_group = false;
	state->next_ns = state->keep.now_ns;
}

static void turn(struct journal_states *state) {
	if (state->keep.renew || state->keep.failed)
		renew(state);
	if (journal_log_state(state->keep.log) == JOURNAL_GOOD)
		write_group(state);
	(void)journal_keep_turn(&state->keep);
}

void journal_states_turn(struct journal_states *state, int64_t now_ns, int64_t wall_ns) {
	if (state == NULL)
		return;
	state->turn++;
	/* what was dated by a clock that was wrong is dated anew */
	if (journal_keep_begin(&state->keep, now_ns, wall_ns))
		renew(state);
	turn(state);
	/* it has just become possible */
	if (journal_keep_can_renew(&state->keep))
		turn(state);
}

void journal_states_begin(struct journal_states *state) {
	for (unsigned i = 0; state != NULL && i < BEGIN_TURNS; i++) {
		enum journal_state log = journal_log_state(state->keep.log);

		if (log == JOURNAL_FAILED || (log == JOURNAL_GOOD && !state->keep.renew &&
		    !state->wants_checkpoint && !state->in_group))
			return;
		usleep(BEGIN_TURN_US);	/* its thread looks at the directory */
		journal_states_turn(state, clock_now_ns(), clock_wall_ns());
	}
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The decisions of decisions/.
 * MODEL    Two cursors follow the rings.  Up to where they are on the disk stands in the
 *          segment, so that the next keeper goes on there, and what a fault of the disk has
 *          cost is appended again: somebody may find one twice, which says the same.
 *          At the start the highest id that stands there is looked for, and none up to it is
 *          given again, whatever the clock says.
 * ERRORS   What the ring has lost before it was read is lost.
 * THREADS  One.
 */
#include "engine/journal/journal_decisions.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"
#include "engine/journal/journal_keep.h"
#include "policy/limit/rate.h"
#include "segment/decision/decisions.h"

#define MOST_A_TURN	4096
#define LOOKED_BACK	2	/* files, for the highest id */
/* Whoever decides logs it a moment later. */
#define LOGGED_NS	(50 * NS_PER_MS)

struct journal_decisions {
	struct journal_keep keep;
	uint64_t most_bytes;
	bool was_read;
	struct decisions_cursor cursors[DECIDED_RINGS];
	int64_t tat_ns;			/* of those that were not logged */
	/* A pass that is to be on the disk: everything up to `next` of each ring. */
	uint64_t pass_sequence;		/* 0: none */
	uint64_t pass_next[DECIDED_RINGS];
};

int journal_decisions_open(struct journal_decisions **decisions, struct engine *engine,
    const struct generation *generation, const struct journal_listener *listener,
    int64_t now_ns, struct diag *diag) {
	int result = journal_keep_open(decisions, sizeof(**decisions), engine, generation,
	    JOURNAL_ROOM_DECISIONS, listener, now_ns, diag);

	if (*decisions != NULL)
		(*decisions)->most_bytes = generation->journal.decisions_size;
	return result;
}

static struct decided_next *next_of(const struct journal_decisions *decisions,
    unsigned ring) {
	return &decisions->keep.engine->segment->header->decided_next[ring];
}

/* --- the start --------------------------------------------------------------------- */

static bool note_highest(void *context, const struct journal_found *found) {
	uint64_t *highest = context;
	struct journal_decision decision;

	if (found->kind == JOURNAL_FOUND_RECORD && found->frame.type == JOURNAL_DECISION &&
	    journal_decision_read(found->frame.payload, found->frame.length, &decision) &&
	    decision.d.id > *highest)
		*highest = decision.d.id;
	return true;
}

static void read_once(struct journal_decisions *decisions) {
	struct journal_files *files = journal_log_files(decisions->keep.log);
	struct journal_place begin = { 0, 0 };
	uint64_t highest = 0;

	if (decisions->was_read || !journal_log_is_read(decisions->keep.log))
		return;
	decisions->was_read = true;
	if (files->count > LOOKED_BACK)
		begin.file = files->files[files->count - LOOKED_BACK - 1].number;
	(void)journal_each(files, begin, note_highest, &highest);
	decisions_begin_after(decisions->keep.engine->segment, highest);
}

/* From where the disk has them. */
static void begin_again(struct journal_decisions *decisions) {
	for (unsigned ring = 0; ring < DECIDED_RINGS; ring++) {
		uint64_t kept = atomic_load(&next_of(decisions, ring)->kept);

		decisions->cursors[ring] = (struct decisions_cursor){ .next = kept,
			.begun = kept != 0 };
	}
	decisions->pass_sequence = 0;
	decisions->keep.renew = decisions->keep.failed = false;
}

/* --- writing ----------------------------------------------------------------------- */

static void append(struct journal_decisions *decisions, const struct decided *d) {
	struct journal_decision decision = journal_decision_of(d);

	decision.d.at_ns = journal_keep_wall_ns(&decisions->keep, d->at_ns);
	decision.d.until_ns = journal_keep_wall_ns(&decisions->keep, d->until_ns);
	journal_keep_append(&decisions->keep, JOURNAL_DECISION, &decision);
}

/* All that people may ask for by what they have read, and a part of the rest. */
static bool is_kept(struct journal_decisions *decisions, const struct decided *d,
    bool logged) {
	static const struct rate_limit limit = { .period_ns = NS_PER_SECOND,
		.count = DECISIONS_RATE, .burst = DECISIONS_BURST };

	if (logged || (decided_ring_of((enum decided_kind)d->kind) ==
		DECIDED_OF_DESTINATIONS && d->kind != DECIDED_FAILURE))
		return true;
	if (!rate_allows(&limit, decisions->tat_ns, decisions->keep.now_ns))
		return false;
	decisions->tat_ns = rate_after(&limit, decisions->tat_ns, decisions->keep.now_ns);
	return true;
}

static void follow(struct journal_decisions *decisions) {
	const struct segment *segment = decisions->keep.engine->segment;
	struct decided decided;
	uint64_t lost = 0;
	bool logged;

	for (unsigned ring = 0; ring < DECIDED_RINGS; ring++) {
		struct decisions_cursor *cursor = &decisions->cursors[ring];

		for (unsigned i = 0; i < MOST_A_TURN; i++) {
			if (!decisions_next(segment, (enum decided_ring)ring, cursor,
			    decisions->keep.now_ns, &decided, &logged, &lost))
				break;
			if (!logged && decided.at_ns > decisions->keep.now_ns - LOGGED_NS &&
			    decided.at_ns <= decisions->keep.now_ns) {
				cursor->next--;
				break;
			}
			if (is_kept(decisions, &decided, logged))
				append(decisions, &decided);
		}
	}
	if (lost > 0)
		engine_count(decisions->keep.engine, COUNTER_DECISIONS_LOST, lost);
}

/* What was written by then is on the disk now. */
static void note_kept(struct journal_decisions *decisions) {
	struct journal_log *log = decisions->keep.log;

	if (decisions->pass_sequence != 0 &&
	    journal_log_synced(log) >= decisions->pass_sequence) {
		for (unsigned ring = 0; ring < DECIDED_RINGS; ring++)
			atomic_store(&next_of(decisions, ring)->kept,
			    decisions->pass_next[ring]);
		decisions->pass_sequence = 0;
	}
	if (decisions->pass_sequence != 0 || journal_log_last(log) == 0)
		return;
	decisions->pass_sequence = journal_log_last(log);
	for (unsigned ring = 0; ring < DECIDED_RINGS; ring++)
		decisions->pass_next[ring] = decisions->cursors[ring].next;
	if (journal_log_synced(log) < decisions->pass_sequence)
		journal_log_sync_by(log, decisions->keep.now_ns + NS_PER_SECOND);
}

static void delete_oldest(struct journal_decisions *decisions) {
	struct journal_log *log = decisions->keep.log;
	const struct journal_files *files = journal_log_files(log);
	struct journal_positions positions = { .when_ns = decisions->keep.wall_ns };
	struct journal_log_counts counts;

	journal_log_count(log, &counts);
	if (counts.disk_bytes <= decisions->most_bytes || files->count < 2 ||
	    journal_log_positions_pending(log))
		return;
	positions.first_file = files->files[1].number;
	(void)journal_log_positions(log, &positions);
}

static void turn(struct journal_decisions *decisions) {
	struct journal_keep *keep = &decisions->keep;

	read_once(decisions);
	if (keep->renew || keep->failed)
		begin_again(decisions);
	if (decisions->was_read && journal_log_state(keep->log) == JOURNAL_GOOD) {
		follow(decisions);
		note_kept(decisions);
		delete_oldest(decisions);
	}
	/* whatever the ring has is all that there is to be told */
	keep->whole = 1;
	(void)journal_keep_turn(keep);
}

void journal_decisions_turn(struct journal_decisions *decisions, int64_t now_ns,
    int64_t wall_ns) {
	if (decisions == NULL)
		return;
	(void)journal_keep_begin(&decisions->keep, now_ns, wall_ns);
	turn(decisions);
}

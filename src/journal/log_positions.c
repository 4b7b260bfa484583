/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Records where a restart may begin to read, and deletes what nobody needs then.
 * MODEL    Positions say: before here all is done, and the disk says so.  So, in this order:
 *          what was appended is synced; marks are written; all files with unsynced marks are
 *          synced (the current file's frequent syncs do not cover them); a slot is written and
 *          synced; files are deleted.  Two slots in turn: a torn one leaves the other.
 *          Each step waits for a job of log_sync.c; journal_positions_go_on is said each turn.
 * ERRORS   A fault drops what was asked for.
 * THREADS  The owner's.
 */
#include <errno.h>
#include <string.h>

#include "journal/log_internal.h"

#define MARKED_AT_ONCE	16	/* descriptors */

uint64_t journal_log_positions(struct journal_log *log,
    const struct journal_positions *positions) {
	struct log_positions *state = &log->positions;

	if (log->state != JOURNAL_GOOD)
		return 0;
	state->next = (struct log_request){ .positions = *positions, .number = ++state->asked,
		.last = log->last, .marks = log->marks.asked };
	return state->asked;
}

uint64_t journal_log_positions_recorded(const struct journal_log *log) {
	return log->positions.recorded;
}

bool journal_log_positions_pending(const struct journal_log *log) {
	return log->positions.stage != POSITIONS_NONE || log->positions.next.number != 0;
}

const struct journal_positions *journal_log_found(const struct journal_log *log) {
	return log->positions.was_found ? &log->positions.found : NULL;
}

bool journal_positions_want_sync(const struct journal_log *log) {
	const struct log_positions *state = &log->positions;

	return (state->stage == POSITIONS_SYNC && state->now.last > log->synced) ||
	    (state->stage == POSITIONS_NONE && state->next.number != 0 &&
	    state->next.last > log->synced);
}

void journal_positions_drop(struct journal_log *log) {
	log->positions.stage = POSITIONS_NONE;
	log->positions.next.number = 0;
}

/* --- marks -------------------------------------------------------------------------- */

/* Fills the job with files that have unsynced marks, so many of them; false: a fault. */
static bool add_marked(struct journal_log *log) {
	for (uint32_t i = 0; i < log->files.count && log->job.count < MARKED_AT_ONCE; i++) {
		int error = 0;

		if (log->files.files[i].marks)
			error = journal_job_add_file(log, i);
		log->files.files[i].marks = false;
		if (error != 0 && error != -ENOENT) {
			log->job.count = 0;
			return journal_log_fail(log, -error, "open");
		}
	}
	return true;
}

/* --- the slot ----------------------------------------------------------------------- */

static int slot_handle(struct journal_log *log) {
	const struct journal_storage *storage = &log->storage;
	struct log_positions *state = &log->positions;

	if (state->handle >= 0 && storage->calls->check(storage->context, state->handle,
	    JOURNAL_POSITIONS_NAME) != 0) {
		storage->calls->close(storage->context, state->handle);
		state->handle = -1;
	}
	if (state->handle < 0)
		state->handle = storage->calls->open(storage->context, JOURNAL_POSITIONS_NAME,
		    JOURNAL_WRITE);
	if (state->handle == -ENOENT) {
		state->handle = storage->calls->open(storage->context, JOURNAL_POSITIONS_NAME,
		    JOURNAL_CREATE);
		log->job.directory = true;
	}
	return state->handle;
}

static void write_slot(struct journal_log *log) {
	struct log_positions *state = &log->positions;
	struct journal_positions *positions = &state->now.positions;
	uint8_t payload[JOURNAL_SLOT - JOURNAL_HEADER];
	uint8_t slot[JOURNAL_SLOT] = { 0 };
	struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = JOURNAL_POSITIONS,
		.version = JOURNAL_VERSION, .payload = payload };
	int handle = slot_handle(log);
	int error = handle < 0 ? handle : 0;

	positions->when_ns = journal_log_wall_ns(log);
	positions->journal = log->journal;
	positions->synced = log->synced;
	positions->synced_place = log->synced_place;
	positions->kept = log->kept;
	positions->syncs = state->syncs_before + log->counts.syncs;
	frame.sequence = state->serial + 1;
	frame.length = (uint32_t)journal_positions_write(payload, sizeof(payload), positions);
	journal_frame_write(slot, &frame, 0);
	if (error == 0)
		error = log->storage.calls->write(log->storage.context, handle, slot,
		    sizeof(slot), frame.sequence % JOURNAL_SLOTS * JOURNAL_SLOT);
	if (error != 0 || !journal_job_add(log, handle)) {
		log->job.count = 0;
		log->job.directory = false;
		journal_log_fail(log, error != 0 ? -error : ENOMEM, "positions");
		return;
	}
	state->stage = POSITIONS_SLOT;
	journal_job_begin(log, JOB_SLOT);
}

/* So many files at a time, and the slot when there are none left. */
static void sync_marks(struct journal_log *log) {
	if (!add_marked(log))
		return;
	if (log->job.count == 0) {
		write_slot(log);
		return;
	}
	log->positions.stage = POSITIONS_MARKS;
	journal_job_begin(log, JOB_MARKS);
}

/* --- steps -------------------------------------------------------------------------- */

void journal_positions_go_on(struct journal_log *log) {
	struct log_positions *state = &log->positions;

	if (state->stage == POSITIONS_NONE && state->next.number != 0) {
		state->now = state->next;
		state->next.number = 0;
		state->stage = POSITIONS_SYNC;
	}
	if (state->stage != POSITIONS_SYNC || state->now.last > log->synced ||
	    state->now.marks > log->marks.done)
		return;
	sync_marks(log);
}

void journal_positions_ended(struct journal_log *log, const struct log_job *job) {
	struct log_positions *state = &log->positions;

	if (job->void_now || state->stage == POSITIONS_NONE)
		return;
	if (job->error != 0) {
		journal_log_fail(log, -job->error, "sync");
		return;
	}
	journal_log_close_idle(log);
	if (job->kind == JOB_MARKS) {
		sync_marks(log);
		return;
	}
	state->serial++;
	state->stage = POSITIONS_NONE;
	state->recorded = state->now.number;
	journal_log_delete_below(log, state->now.positions.first_file);
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What of a journal's files is deleted, and what is not.
 * MODEL    Files below the first that counts go, in their order.  Those that were there when
 *          the log was opened may hold what only a later version can read: they are looked
 *          through before, some of them each turn.  What nobody has read stays.
 * ERRORS   What cannot be looked through, or deleted, is tried again with the next positions.
 * THREADS  The owner's.
 */
#include <errno.h>
#include <string.h>

#include "journal/log_internal.h"
#include "journal/walk.h"

/* Goes through file i for what a later version wrote; false: not to its end, for now. */
static bool look_through(struct journal_log *log, uint32_t i) {
	struct journal_file *file = &log->files.files[i];
	struct walker walker;
	enum walk_step step = WALK_FRAME;

	if (!journal_walk_begin(&walker, &log->files))
		return false;
	journal_walk_enter(&walker, file->number, file->looked);
	while (!file->later && log->look_left > 0) {
		uint32_t passed;

		step = journal_walk_step(&walker, file);
		if (step == WALK_FAULT || step == WALK_FILE_END)
			break;
		file->later = step == WALK_FRAME && journal_walk_is_later(&walker);
		passed = walker.offset - file->looked;
		file->looked = walker.offset;
		log->look_left -= passed < log->look_left ? passed : log->look_left;
	}
	journal_walk_finish(&walker);
	return file->later || step == WALK_FILE_END;
}

/* -1: that is not known yet. */
static int is_to_stay(struct journal_log *log, uint32_t i) {
	const struct journal_file *file = &log->files.files[i];

	if (journal_files_need(&log->files, file->number) != 0)
		return -1;
	if (file->number == log->current || file->number < log->kept ||
	    file->head_state == JOURNAL_HEAD_LATER || file->later)
		return 1;
	/* what we wrote is of this version */
	if (log->begin.file != 0 && file->number >= log->begin.file)
		return 0;
	return look_through(log, i) ? file->later : -1;
}

void journal_log_delete_below(struct journal_log *log, uint32_t first) {
	uint32_t i = 0;

	log->delete_below = 0;
	while (i < log->files.count && log->files.files[i].number < first) {
		int stays = is_to_stay(log, i);
		char name[JOURNAL_NAME_MAX + 1];
		int error;

		if (stays < 0 && log->look_left == 0) {
			log->delete_below = first;
			return;
		}
		if (stays != 0) {
			i++;
			continue;
		}
		journal_file_name(log->files.files[i].number, name);
		error = log->storage.calls->unlink(log->storage.context, name);
		if (error != 0 && error != -ENOENT)
			return;		/* asked for again with the next positions */
		journal_log_forget(log, i);
		log->directory = true;
		log->counts.files_deleted++;
	}
}

void journal_log_keep(struct journal_log *log) {
	log->kept = log->begin.file != 0 ? log->begin.file : log->highest + 1;
}

void journal_log_found_there(const struct journal_log *log, uint64_t *journal,
    uint32_t *last_file) {
	*journal = log->found_journal;
	*last_file = log->found_last;
}

/* --- another directory --------------------------------------------------------------- */

struct strangers {
	const struct journal_log *log;
	bool others;
};

static void note_name(void *context, const char *name) {
	struct strangers *strangers = context;
	uint32_t number = journal_file_number(name);

	if (number != 0 && journal_files_find(&strangers->log->files, number) == NULL)
		strangers->others = true;
}

/* Is the file of that name the one that we know?  1, 0 (it is another), or -1: there is
 * none, or it does not tell. */
static int is_ours(const struct journal_log *log, const struct journal_file *file) {
	const struct journal_storage *storage = &log->storage;
	uint8_t data[JOURNAL_HEAD_SIZE];
	char name[JOURNAL_NAME_MAX + 1];
	struct journal_frame frame;
	struct journal_head head;
	ssize_t got;
	int handle;

	/* one that was not read so far would be read there now */
	if (file->head_state == JOURNAL_HEAD_UNREAD)
		return -1;
	journal_file_name(file->number, name);
	handle = storage->calls->open(storage->context, name, JOURNAL_READ);
	if (handle < 0)
		return -1;
	got = storage->calls->read(storage->context, handle, data, sizeof(data), 0);
	storage->calls->close(storage->context, handle);
	if (got < 0 || journal_head_read(data, (size_t)got, &head, &frame) != JOURNAL_HEAD_GOOD)
		return -1;
	return head.journal == file->head.journal && head.salt == file->head.salt;
}

void journal_log_forget_all(struct journal_log *log) {
	while (log->files.count > 0)
		journal_log_forget(log, log->files.count - 1);
	if (log->positions.handle >= 0)
		log->storage.calls->close(log->storage.context, log->positions.handle);
	log->positions.handle = -1;
	log->begin = log->ended = log->read_end = (struct journal_place){ 0, 0 };
	log->journal = 0;
	log->unsynced = log->is_read = log->reads_again = false;
	log->tries = 0;
	log->delete_below = 0;
}

int journal_log_is_elsewhere(struct journal_log *log) {
	struct strangers strangers = { log, false };
	int error = log->storage.calls->list(log->storage.context, note_name, &strangers);

	if (error != 0)
		return error;
	for (uint32_t i = log->files.count; i-- > 0;) {
		int ours = is_ours(log, &log->files.files[i]);

		if (ours == 1)
			return 0;
		strangers.others = strangers.others || ours == 0;
	}
	if (!strangers.others)
		return 0;
	journal_log_forget_all(log);
	log->kept = 0;
	return 1;
}

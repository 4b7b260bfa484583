/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The files of a log: made, found missing, deleted; where it ended at the start.
 * MODEL    A restart takes for granted what was synced by `positions` or a later file's
 *          head, and reads from there on; the files that it reads are synced with its first
 *          group, as a process that was killed leaves records that are in the page cache
 *          alone, which must not be lost after somebody has relied on them.  For marks the
 *          same is said of all files: the first positions sync them.
 * ERRORS   -errno.
 * THREADS  The owner's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "journal/log_internal.h"
#include "journal/walk.h"

#define HANDLES_MOST	32	/* open at a time, but for those with unsynced data */
#define CREATE_TRIES	64
#define READ_TRIES	5
#define HEADS_AT_ONCE	256

uint32_t journal_log_index(const struct journal_log *log, uint32_t number) {
	const struct journal_file *file = journal_files_find(&log->files, number);

	return file != NULL ? (uint32_t)(file - log->files.files) : log->files.count;
}

int journal_log_handle(struct journal_log *log, uint32_t i) {
	struct journal_file *file = &log->files.files[i];
	char name[JOURNAL_NAME_MAX + 1];

	if (file->handle < 0) {
		journal_file_name(file->number, name);
		file->handle = log->storage.calls->open(log->storage.context, name,
		    JOURNAL_WRITE);
	}
	return file->handle;
}

static void close_handle(struct journal_log *log, uint32_t i) {
	if (log->files.files[i].handle >= 0)
		log->storage.calls->close(log->storage.context, log->files.files[i].handle);
	log->files.files[i].handle = -1;
}

void journal_log_close_idle(struct journal_log *log) {
	uint32_t open = 0;

	for (uint32_t i = 0; i < log->files.count; i++)
		open += log->files.files[i].handle >= 0;
	for (uint32_t i = 0; i < log->files.count && open > HANDLES_MOST; i++) {
		if (log->files.files[i].handle < 0 || log->files.files[i].data ||
		    log->files.files[i].number == log->current)
			continue;
		close_handle(log, i);
		open--;
	}
}

void journal_log_forget(struct journal_log *log, uint32_t i) {
	struct journal_files *files = &log->files;
	uint32_t behind = files->count - i - 1;

	close_handle(log, i);
	memmove(&files->files[i], &files->files[i + 1], behind * sizeof(files->files[0]));
	files->count--;
	files->unread -= i < files->unread;
}

int journal_log_create(struct journal_log *log, uint8_t head[JOURNAL_HEAD_SIZE]) {
	struct journal_file file = { .head_state = JOURNAL_HEAD_GOOD,
		.version = JOURNAL_VERSION };
	uint32_t previous = log->ended.file;
	uint32_t previous_end = log->ended.offset;
	char name[JOURNAL_NAME_MAX + 1];
	uint64_t behind = log->last + 1 - log->synced;
	int handle = -EEXIST;

	if (!array_grow(&log->files.files, &log->files.room, log->files.count, sizeof(file)))
		return -ENOMEM;
	if (log->current != 0) {	/* it goes on: all of that file counts */
		previous = log->current;
		previous_end = log->offset + log->buffered;
	}
	for (unsigned try = 0; try < CREATE_TRIES && handle == -EEXIST; try++) {
		if (log->highest >= JOURNAL_NUMBER_MAX)
			return -EFBIG;	/* nobody would read it */
		file.number = ++log->highest;
		journal_file_name(file.number, name);
		handle = log->storage.calls->open(log->storage.context, name, JOURNAL_CREATE);
	}
	if (handle < 0)
		return handle;
	file.first = ++log->last;
	file.synced = log->synced;
	file.head = (struct journal_head){ .salt = journal_log_random(log),
		.kind = (uint8_t)log->options.kind, .journal = log->journal,
		.created_ns = journal_log_wall_ns(log), .number = file.number, .previous = previous,
		.previous_end = previous_end };
	journal_head_write(head, &file.head, file.first,
	    behind < JOURNAL_BEHIND_MAX ? (uint32_t)behind : JOURNAL_BEHIND_MAX);
	file.handle = handle;
	log->files.files[log->files.count++] = file;
	log->directory = true;
	log->counts.files_begun++;
	return 0;
}

/* --- missing ones -------------------------------------------------------------------- */

struct presence {
	struct journal_log *log;
	bool *there;
};

static void note_presence(void *context, const char *name) {
	struct presence *presence = context;
	uint32_t number = journal_file_number(name);
	uint32_t i = number == 0 ? presence->log->files.count : journal_log_index(presence->log, number);

	if (i < presence->log->files.count)
		presence->there[i] = true;
}

int journal_log_drop_missing(struct journal_log *log) {
	struct presence presence = { log, calloc(log->files.count + 1, sizeof(bool)) };
	int missing = 0;
	int error;

	if (presence.there == NULL)
		return -ENOMEM;
	error = log->storage.calls->list(log->storage.context, note_presence, &presence);
	for (uint32_t i = log->files.count; error == 0 && i-- > 0;)
		if (!presence.there[i]) {
			journal_log_forget(log, i);
			log->counts.files_lost++;
			missing++;
		}
	free(presence.there);
	return error != 0 ? error : missing;
}

/* --- the start ------------------------------------------------------------------------ */

/* The last file of which a later record, or the positions, say that its begin was synced. */
static const struct journal_file *last_synced(const struct journal_files *files) {
	for (uint32_t i = files->count; i-- > 0;) {
		const struct journal_file *file = &files->files[i];

		if (!file->superseded && file->first != 0 && file->first <= files->synced)
			return file;
	}
	return NULL;
}

/* Where to begin to read: what stands before it was synced. */
static void begin_at(struct journal_log *log, struct journal_cursor *cursor) {
	const struct journal_positions *found = &log->positions.found;
	const struct journal_file *file = log->positions.was_found ?
	    journal_files_find(&log->files, found->synced_place.file) : NULL;
	const struct journal_file *later = last_synced(&log->files);

	log->last = log->positions.was_found ? found->synced : 0;
	log->synced_place = (struct journal_place){ 0, 0 };
	if (file != NULL && !file->superseded && (later == NULL || later->number <= file->number)) {
		log->synced_place = found->synced_place;
		journal_cursor_seek(cursor, log->synced_place);
		journal_cursor_expect(cursor, found->synced + 1);
	} else if (later != NULL) {
		log->synced_place.file = later->number;
		journal_cursor_seek(cursor, log->synced_place);
		if (later->first - 1 > log->last)
			log->last = later->first - 1;
	}
	log->synced = log->last;
}

void journal_log_cut(struct journal_log *log, struct journal_place end) {
	for (uint32_t i = 0; i < log->files.count; i++) {
		struct journal_file *file = &log->files.files[i];

		if (file->number == end.file) {
			file->end = end.offset;
			file->end_known = true;
		} else if (file->number > end.file) {
			file->superseded = true;
		}
	}
}

/* What cannot be read now may be read later: an end that is taken too early would cut off what
 * stands behind it for ever.  But for a spot that stays bad, after a while.  0 or -errno. */
static int find_end(struct journal_log *log, struct journal_cursor *cursor,
    struct journal_place *end) {
	struct journal_found found;

	begin_at(log, cursor);
	*end = log->synced_place;
	while (journal_cursor_next(cursor, &found) != JOURNAL_FOUND_END) {
		switch (found.kind) {
		case JOURNAL_FOUND_RECORD:
		case JOURNAL_FOUND_LATER:
			if (found.frame.sequence > log->last)
				log->last = found.frame.sequence;
			*end = found.place;
			end->offset += found.length;
			break;
		case JOURNAL_FOUND_TORN:
			log->counts.torn_bytes += found.length;
			break;
		case JOURNAL_FOUND_DAMAGE:
			log->counts.damages++;
			log->counts.damage_bytes += found.length;
			/* what was synced stood there: it is within what counts */
			if (found.length > 0) {
				*end = found.place;
				end->offset += found.length;
			}
			break;
		case JOURNAL_FOUND_FAULT:
			if (!log->files.tolerant)
				return found.error > 0 ? -found.error : -EIO;
			break;
		case JOURNAL_FOUND_END:
		default:
			break;
		}
	}
	return 0;
}

static void take_journal(struct journal_log *log) {
	struct journal_files *files = &log->files;

	log->found_journal = 0;
	log->found_last = 0;
	for (uint32_t i = files->count; i-- > 0 && log->journal == 0;)
		if (files->files[i].head_state == JOURNAL_HEAD_GOOD)
			log->found_journal = log->journal = files->files[i].head.journal;
	for (uint32_t i = files->count; i-- > 0 && log->found_last == 0;)
		if (journal_files_need(files, files->files[i].number) == 0 &&
		    files->files[i].size > JOURNAL_HEAD_SIZE)
			log->found_last = files->files[i].number;
	if (log->journal == 0)
		log->journal = (uint64_t)journal_log_random(log) << 32 | journal_log_random(log) | 1;
	if (files->count > 0 && files->files[files->count - 1].number > log->highest)
		log->highest = files->files[files->count - 1].number;
	if (log->positions.was_found && log->positions.found.synced_place.file > log->highest)
		log->highest = log->positions.found.synced_place.file;
}

/* Its head cannot be read, though the positions say that it was written whole. */
static bool is_spoiled(const struct journal_log *log, const struct journal_file *file) {
	const struct journal_positions *found = &log->positions.found;

	return log->positions.was_found && !file->superseded &&
	    file->number >= found->first_file && file->number <= found->synced_place.file &&
	    (file->head_state == JOURNAL_HEAD_NONE || file->head_state == JOURNAL_HEAD_DAMAGED);
}

static void count_heads(struct journal_log *log) {
	for (uint32_t i = 0; i < log->files.count; i++) {
		const struct journal_file *file = &log->files.files[i];

		if (is_spoiled(log, file)) {
			log->counts.damages++;
			log->counts.damage_bytes += file->size;
		}
	}
	log->heads_counted = true;
}

void journal_log_read_more(struct journal_log *log) {
	struct journal_files *files = &log->files;

	if (log->heads_counted)
		return;
	if (files->unread > 0 && log->tries > 0 &&
	    journal_files_need(files, files->unread <= HEADS_AT_ONCE ? 0 :
		files->files[files->unread - HEADS_AT_ONCE].number) != 0)
		files->tolerant = log->tries >= READ_TRIES;
	log->tries++;
	if (files->unread == 0)
		count_heads(log);
}

/* Those that the log began with are gone: the head of the next one tells of them, and the
 * positions that they were needed.  One that goes on from nowhere was begun with all anew. */
static bool lacks_first(struct journal_log *log) {
	uint32_t first = log->positions.found.first_file;
	const struct journal_file *file;

	if (first == 0 || journal_files_find(&log->files, first) != NULL)
		return false;
	file = journal_walk_file(&log->files, first);
	return file != NULL && file->head.previous >= first;
}

/* The one that was written last is gone, or its end: no head tells of it, but the positions
 * say how far it was synced. */
static bool lacks_last(const struct journal_log *log) {
	const struct journal_place *synced = &log->positions.found.synced_place;
	const struct journal_file *file;

	for (uint32_t i = log->files.count; i-- > 0;) {
		file = &log->files.files[i];
		if (file->number == synced->file)
			return file->head_state == JOURNAL_HEAD_GOOD && file->size < synced->offset;
		if (file->number < synced->file)
			return true;
		if (file->size >= JOURNAL_HEAD_SIZE)
			return false;	/* what was before it, its head tells */
	}
	return synced->file != 0;
}

/* Nobody comes to a place where they stood: a cursor goes on behind it, and says nothing. */
static void count_missing(struct journal_log *log) {
	if (log->positions.was_found)
		log->counts.damages += (uint64_t)lacks_first(log) + lacks_last(log);
}

int journal_log_read_directory(struct journal_log *log) {
	struct journal_slot slots[JOURNAL_SLOTS];
	struct journal_cursor *cursor;
	struct journal_place end;
	uint64_t before;
	int slot, error;

	/* a bad spot of the disk may stay: after half a minute it is no reason to wait any more */
	log->files.tolerant = log->tries++ >= READ_TRIES;
	log->files.lazy = true;
	error = journal_files_load(&log->files, &log->storage, slots, &slot);
	if (error != 0)
		return error;
	log->files.storage = &log->storage;
	cursor = journal_cursor_open(&log->files);
	if (cursor == NULL) {
		log->files.count = log->files.unread = 0;
		return -ENOMEM;
	}
	log->positions.was_found = slot >= 0;
	if (slot >= 0)
		log->positions.found = slots[slot].positions;
	if (slot >= 0 && slots[slot].positions.kept > log->kept)
		log->kept = slots[slot].positions.kept;
	for (int i = 0; i < JOURNAL_SLOTS; i++)
		if (slots[i].serial > log->positions.serial)
			log->positions.serial = slots[i].serial;
	log->positions.syncs_before = slot >= 0 ? slots[slot].positions.syncs : 0;
	take_journal(log);
	/* what was to stay, nobody knows any more */
	if (log->files.slots_unread && (log->options.kind == JOURNAL_FEED ||
	    log->options.kind == JOURNAL_KEEPER))
		journal_log_keep(log);
	before = log->last;
	error = find_end(log, cursor, &end);
	journal_cursor_close(&cursor);
	/* where another directory was read before it: none twice */
	if (log->last < before)
		log->last = before;
	if (error != 0) {
		log->files.count = log->files.unread = 0;
		return error;
	}
	count_missing(log);
	journal_log_cut(log, end);
	log->ended = log->read_end = end;
	for (uint32_t i = 0; i < log->files.count; i++) {
		struct journal_file *file = &log->files.files[i];

		file->marks = true;
		file->data = file->number >= log->synced_place.file && !file->superseded;
		log->unsynced = log->unsynced || file->data;
	}
	log->is_read = true;
	log->tries = 0;
	log->heads_counted = false;
	journal_log_read_more(log);
	return 0;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Walks over the records of a journal.
 * MODEL    A cursor is a walker (walk.h) that tells what a bad spot means; to learn whether
 *          it had been synced it sends a second walker ahead, which never goes back: so all
 *          is read twice at most.
 * ERRORS   Told as what was found.  Every step goes forward by a byte at least, or to the
 *          next file, or is the end.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "journal/reader.h"
#include "journal/walk.h"

struct journal_cursor {
	struct walker walker;
	struct walker scout;	/* buffer NULL: not sent so far */
	bool ended;		/* a torn spot was told that ends the log */
	bool end_told;		/* of this file: what stands behind its end */
};

/* --- was it synced? --------------------------------------------------------------- */

/* One step of the scout; false: there is nothing further. */
static bool scout_on(struct walker *scout) {
	struct journal_files *files = scout->files;
	struct journal_file *file = journal_walk_file(files, scout->number);

	if (file == NULL)
		return false;
	if (file->number != scout->number)
		journal_walk_enter(scout, file->number, 0);
	switch (journal_walk_step(scout, file)) {
	case WALK_FRAME:
		scout->expected = scout->frame.sequence + 1;
		if (journal_frame_synced(&scout->frame) > files->synced)
			files->synced = journal_frame_synced(&scout->frame);
		return true;
	case WALK_BAD:
		return true;
	default:
		file = journal_walk_file(files, file->number + 1);
		if (file == NULL)
			return false;
		journal_walk_enter(scout, file->number, 0);
		return true;
	}
}

/* Does anything in the journal tell that `sequence` had been synced? */
static bool was_synced(struct journal_cursor *cursor, uint64_t sequence) {
	struct walker *walker = &cursor->walker;
	struct walker *scout = &cursor->scout;

	if (walker->files->synced >= sequence)
		return true;
	if (scout->buffer == NULL && !journal_walk_begin(scout, walker->files))
		return true;	/* what is not known counts as the worse */
	if (scout->number < walker->number ||
	    (scout->number == walker->number && scout->offset < walker->offset)) {
		journal_walk_enter(scout, walker->number, walker->offset);
		scout->expected = walker->expected;	/* behind the bad spot */
	}
	while (walker->files->synced < sequence && scout_on(scout))
		;
	return walker->files->synced >= sequence;
}

/* --- the cursor ------------------------------------------------------------------- */

struct journal_cursor *journal_cursor_open(struct journal_files *files) {
	struct journal_cursor *cursor = calloc(1, sizeof(*cursor));

	if (cursor != NULL && !journal_walk_begin(&cursor->walker, files)) {
		free(cursor);
		cursor = NULL;
	}
	return cursor;
}

void journal_cursor_close(struct journal_cursor **cursor) {
	if (*cursor == NULL)
		return;
	journal_walk_finish(&(*cursor)->walker);
	journal_walk_finish(&(*cursor)->scout);
	free(*cursor);
	*cursor = NULL;
}

void journal_cursor_seek(struct journal_cursor *cursor, struct journal_place place) {
	journal_walk_enter(&cursor->walker, place.file, place.offset);
	cursor->ended = cursor->end_told = false;
}

struct journal_place journal_cursor_place(const struct journal_cursor *cursor) {
	return (struct journal_place){ cursor->walker.number, cursor->walker.offset };
}

static enum journal_found_kind tell_frame(const struct walker *walker,
    struct journal_found *found) {
	struct journal_file *file;

	if (journal_walk_is_later(walker) &&
	    (file = journal_files_find(walker->files, walker->number)) != NULL)
		file->later = true;
	found->kind = walker->frame.version > JOURNAL_VERSION ? JOURNAL_FOUND_LATER :
	    JOURNAL_FOUND_RECORD;
	found->place = (struct journal_place){ walker->number, walker->at };
	found->length = JOURNAL_HEADER + walker->frame.length;
	found->frame = walker->frame;
	return found->kind;
}

static enum journal_found_kind tell_torn(struct journal_cursor *cursor,
    struct journal_found *found) {
	found->kind = JOURNAL_FOUND_TORN;
	found->why = "the end of the last write, which was not synced";
	found->ends = cursor->ended = true;
	return found->kind;
}

static enum journal_found_kind tell_bad(struct journal_cursor *cursor,
    const struct journal_file *file, uint64_t expected, struct journal_found *found) {
	struct walker *walker = &cursor->walker;

	found->place = (struct journal_place){ walker->number, walker->at };
	found->length = walker->bad_length;
	found->expected = expected;
	found->missing = walker->missing;
	/* that the next head names an end behind it proves nothing: a switch does not sync */
	if (expected != 0 && was_synced(cursor, expected)) {
		found->kind = JOURNAL_FOUND_DAMAGE;
		found->why = walker->at == 0 ? "the file's head cannot be read" :
		    "data written here cannot be read";
		return found->kind;
	}
	/* at a place where nothing tells what was to come, what follows does */
	if (expected == 0 && was_synced(cursor, 1) && (walker->offset < journal_walk_limit(file) ||
	    journal_walk_file(walker->files, file->number + 1) != NULL)) {
		found->kind = JOURNAL_FOUND_DAMAGE;
		found->why = "no readable record";
		return found->kind;
	}
	found->length = file->size - walker->at;
	return tell_torn(cursor, found);
}

/* What there is to tell at the end of a file that another one follows; END: nothing. */
static enum journal_found_kind tell_file_end(struct journal_cursor *cursor,
    const struct journal_file *file, struct journal_found *found) {
	uint32_t limit = journal_walk_limit(file);

	if (cursor->end_told || file->end == file->size || !file->end_known)
		return JOURNAL_FOUND_END;
	cursor->end_told = true;
	found->place = (struct journal_place){ file->number, limit };
	found->expected = cursor->walker.expected;
	if (file->end > file->size && was_synced(cursor, found->expected)) {
		found->kind = JOURNAL_FOUND_DAMAGE;
		found->why = "the file is shorter than it was";
	} else if (file->end > file->size) {
		tell_torn(cursor, found);
	} else {
		found->kind = JOURNAL_FOUND_TORN;
		found->length = file->size - limit;
		found->why = "never synced: the log continued in a later file";
	}
	return found->kind;
}

/* Goes to the next file; END: there is none. */
static enum journal_found_kind go_on(struct journal_cursor *cursor,
    const struct journal_file *file, struct journal_found *found) {
	struct walker *walker = &cursor->walker;
	const struct journal_file *next = journal_walk_file(walker->files, file->number + 1);
	uint64_t expected = walker->expected;
	uint32_t left = file->number;
	bool knows = next != NULL && (next->head_state == JOURNAL_HEAD_GOOD ||
	    next->head_state == JOURNAL_HEAD_LATER);

	if (next == NULL)
		return JOURNAL_FOUND_END;
	journal_walk_enter(walker, next->number, 0);
	walker->expected = knows ? 0 : expected;
	cursor->end_told = false;
	if (!knows || next->head.previous <= left)
		return JOURNAL_FOUND_RECORD;
	found->place = (struct journal_place){ next->number, 0 };
	found->expected = expected;
	if (!was_synced(cursor, expected))
		return tell_torn(cursor, found);
	found->kind = JOURNAL_FOUND_DAMAGE;
	found->missing = next->first > expected ? next->first - expected : 0;
	found->why = "the file before it is missing";
	return found->kind;
}

static enum journal_found_kind tell_fault(struct journal_cursor *cursor,
    const struct journal_file *file, struct journal_found *found) {
	struct walker *walker = &cursor->walker;

	found->kind = JOURNAL_FOUND_FAULT;
	found->place = (struct journal_place){ file->number, walker->offset };
	found->error = walker->error;
	found->why = "the file cannot be read";
	journal_walk_leave(walker);
	journal_walk_enter(walker, file->number + 1, 0);
	return found->kind;
}

static enum journal_found_kind tell_step(struct journal_cursor *cursor,
    const struct journal_file *file, struct journal_found *found) {
	struct walker *walker = &cursor->walker;
	uint64_t expected = walker->expected;

	switch (journal_walk_step(walker, file)) {
	case WALK_FRAME:
		walker->expected = walker->frame.sequence + 1;
		if (journal_frame_synced(&walker->frame) > walker->files->synced)
			walker->files->synced = journal_frame_synced(&walker->frame);
		if (expected != 0 && walker->frame.sequence > expected)
			found->missing = walker->frame.sequence - expected;
		return tell_frame(walker, found);
	case WALK_BAD:
		return tell_bad(cursor, file, expected, found);
	case WALK_FAULT:
		return tell_fault(cursor, file, found);
	case WALK_FILE_END:
	default:
		return JOURNAL_FOUND_END;
	}
}

enum journal_found_kind journal_cursor_next(struct journal_cursor *cursor,
    struct journal_found *found) {
	struct walker *walker = &cursor->walker;
	struct journal_file *file;
	enum journal_found_kind kind;

	for (;;) {
		memset(found, 0, sizeof(*found));
		found->kind = JOURNAL_FOUND_END;
		file = journal_walk_file(walker->files, walker->number);
		if (file == NULL || cursor->ended)
			return JOURNAL_FOUND_END;
		if (file->number != walker->number) {
			journal_walk_enter(walker, file->number, 0);
			cursor->end_told = false;
		}
		kind = tell_step(cursor, file, found);
		if (kind != JOURNAL_FOUND_END)
			return kind;
		kind = tell_file_end(cursor, file, found);
		if (kind != JOURNAL_FOUND_END)
			return kind;
		kind = go_on(cursor, file, found);
		if (kind != JOURNAL_FOUND_RECORD)
			return kind;
	}
}

void journal_cursor_expect(struct journal_cursor *cursor, uint64_t sequence) {
	cursor->walker.expected = sequence;
}

bool journal_each(struct journal_files *files, struct journal_place begin,
    bool (*visit)(void *context, const struct journal_found *found), void *context) {
	struct journal_cursor *cursor = journal_cursor_open(files);
	struct journal_found found;

	if (cursor == NULL)
		return false;
	journal_cursor_seek(cursor, begin);
	while (journal_cursor_next(cursor, &found) != JOURNAL_FOUND_END &&
	    visit(context, &found))
		;
	journal_cursor_close(&cursor);
	return true;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Walks over the records of a journal.
 * MODEL    A *walker* goes over bytes: the frame at an offset, or else the next one in the
 *          file that can be believed (its checksum is begun with the file's salt, its
 *          sequence is one that can stand there).  A cursor is a walker that tells what a
 *          bad spot means; to learn whether it had been synced it sends a second walker
 *          ahead, which never goes back: so all is read twice at most.
 *          What counts of a file ends at `end` (reader.h).
 * ERRORS   Told as what was found.  Every step goes forward by a byte at least, or to the
 *          next file, or is the end.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "journal/bytes.h"
#include "journal/reader.h"

#define CHUNK_LEAST	4096
#define CHUNK_MOST	(UINT32_C(64) * 1024)
#define BUFFER		(JOURNAL_FRAME_MAX + CHUNK_MOST)
/* In search of the next record checksums are made of so many times a file's bytes at most:
 * who could write lengths into it could else have each byte summed up again and again. */
#define SEARCH_TIMES	8
#define NO_BUDGET	UINT64_MAX

enum step { STEP_FRAME, STEP_BAD, STEP_FILE_END, STEP_FAULT };

struct walker {
	struct journal_files *files;
	uint32_t number;	/* of the file; 0: before the first */
	uint32_t offset;	/* of the next frame */
	uint64_t expected;	/* its sequence; 0: not known */
	int handle;		/* of `number`; -1: not open */
	uint32_t chunk;		/* to read at once */
	uint64_t budget;	/* bytes to sum up in searches of this file; NO_BUDGET: not set */
	uint32_t from, length;	/* what of the file is in the buffer */
	/* of the last step */
	struct journal_frame frame;
	uint32_t at, bad_length;
	uint64_t missing;	/* sequences that a bad spot held */
	int error;
	uint8_t *buffer;
};

struct journal_cursor {
	struct walker walker;
	struct walker scout;	/* buffer NULL: not sent so far */
	bool ended;		/* a torn spot was told that ends the log */
	bool end_told;		/* of this file: what stands behind its end */
};

/* --- bytes ------------------------------------------------------------------------ */

static void leave_file(struct walker *walker)
{
	const struct journal_storage *storage = walker->files->storage;

	if (walker->handle >= 0)
		storage->calls->close(storage->context, walker->handle);
	walker->handle = -1;
	walker->length = 0;
}

static void enter(struct walker *walker, uint32_t number, uint32_t offset)
{
	if (walker->number != number)
		leave_file(walker);
	walker->number = number;
	walker->offset = offset;
	walker->expected = 0;
	walker->chunk = CHUNK_LEAST;
	walker->budget = NO_BUDGET;
}

/* How many bytes of the file from `offset` on are in the buffer, `need` of them if it has
 * so many below `limit`; or -errno. */
static int64_t fill(struct walker *walker, uint32_t offset, uint32_t need, uint32_t limit)
{
	const struct journal_storage *storage = walker->files->storage;
	char name[JOURNAL_NAME_MAX + 1];
	uint32_t there = limit > offset ? limit - offset : 0;
	uint32_t want;
	ssize_t got;

	if (need > there)
		need = there;
	if (offset >= walker->from && offset - walker->from <= walker->length &&
	    walker->length - (offset - walker->from) >= need) {
		uint32_t have = walker->length - (offset - walker->from);

		return have < there ? have : there;
	}
	if (walker->handle < 0) {
		journal_file_name(walker->number, name);
		walker->handle = storage->calls->open(storage->context, name, JOURNAL_READ);
		if (walker->handle < 0)
			return walker->handle == -1 ? -EPERM : walker->handle;
	}
	want = need > walker->chunk ? need : walker->chunk;
	if (walker->chunk < CHUNK_MOST)
		walker->chunk *= 4;
	if (want > there)
		want = there;
	if (want > BUFFER)
		want = BUFFER;
	walker->length = 0;
	got = storage->calls->read(storage->context, walker->handle, walker->buffer, want, offset);
	if (got < 0)
		return got;
	walker->from = offset;
	walker->length = (uint32_t)got;
	walker->files->bytes_read += (uint64_t)got;
	return got;
}

static const uint8_t *bytes_at(const struct walker *walker, uint32_t offset)
{
	return walker->buffer + (offset - walker->from);
}

/* --- frames ----------------------------------------------------------------------- */

static uint32_t limit_of(const struct journal_file *file)
{
	return file->end < file->size ? file->end : file->size;
}

/* Reads the frame at `offset`, whatever its sequence; or -errno. */
static int frame_at(struct walker *walker, const struct journal_file *file, uint32_t offset,
    enum journal_frame_state *state)
{
	uint32_t limit = limit_of(file);
	int64_t have = fill(walker, offset, JOURNAL_HEADER, limit);
	const uint8_t *data;

	if (have >= JOURNAL_HEADER) {
		uint32_t length = get_u32(bytes_at(walker, offset) + 4);

		if (length <= JOURNAL_PAYLOAD_MAX)
			have = fill(walker, offset, JOURNAL_HEADER + length, limit);
	}
	if (have < 0)
		return (int)have;
	data = bytes_at(walker, offset);
	*state = journal_frame_read(data, (size_t)have, offset == 0 ? 0 : file->head.salt,
	    &walker->frame);
	return 0;
}

/* Can a record of that sequence stand at `at`, where `expected` was to come at `bad`?  A
 * file may begin with any sequence. */
static bool fits(const struct walker *walker, uint64_t sequence, uint32_t bad, uint32_t at)
{
	return walker->expected == 0 || bad == 0 || (sequence >= walker->expected &&
	    sequence - walker->expected <= (at - bad) / JOURNAL_HEADER + 1);
}

/* The next frame behind a bad spot, or the limit; -1 with walker->error: a fault. */
static int64_t search(struct walker *walker, const struct journal_file *file, uint32_t bad)
{
	uint32_t limit = limit_of(file);

	/* without a head there is no salt to believe anything by */
	if (file->head_state == JOURNAL_HEAD_NONE)
		return limit;
	for (uint32_t at = bad + 1; at + JOURNAL_HEADER <= limit; at++) {
		enum journal_frame_state state = JOURNAL_FRAME_NONE;
		int64_t have = fill(walker, at, JOURNAL_HEADER, limit);
		const uint8_t *data = bytes_at(walker, at);
		uint32_t length;

		if (have < JOURNAL_HEADER) {
			walker->error = have < 0 ? (int)-have : EIO;
			return -1;
		}
		length = get_u32(data + 4);
		if (data[0] != JOURNAL_MAGIC || data[3] == 0 || length > JOURNAL_PAYLOAD_MAX ||
		    length > limit - at - JOURNAL_HEADER ||
		    !fits(walker, get_u64(data + 8), bad, at))
			continue;
		if (walker->budget < JOURNAL_HEADER + length)
			return limit;
		walker->budget -= JOURNAL_HEADER + length;
		if (frame_at(walker, file, at, &state) != 0)
			return limit;
		if (state == JOURNAL_FRAME_GOOD)
			return at;
	}
	return limit;
}

/* Not what was copied here from another file, nor a record of the past. */
static bool can_stand(const struct walker *walker, const struct journal_file *file)
{
	if (walker->offset == 0)
		return file->head_state == JOURNAL_HEAD_GOOD ||
		    file->head_state == JOURNAL_HEAD_LATER;
	return walker->expected == 0 || walker->frame.sequence >= walker->expected;
}

/* One step within the file that the walker stands in. */
static enum step step(struct walker *walker, const struct journal_file *file)
{
	enum journal_frame_state state = JOURNAL_FRAME_NONE;
	uint32_t limit = limit_of(file);
	int64_t next;
	int error;

	if (walker->budget == NO_BUDGET)
		walker->budget = (uint64_t)SEARCH_TIMES * limit + JOURNAL_FRAME_MAX;
	if (walker->offset >= limit)
		return STEP_FILE_END;
	walker->at = walker->offset;
	error = frame_at(walker, file, walker->offset, &state);
	if (error != 0) {
		walker->error = -error;
		return STEP_FAULT;
	}
	if (state == JOURNAL_FRAME_GOOD && can_stand(walker, file)) {
		walker->offset += JOURNAL_HEADER + walker->frame.length;
		return STEP_FRAME;
	}
	next = search(walker, file, walker->offset);
	if (next < 0)
		return STEP_FAULT;
	walker->bad_length = (uint32_t)next - walker->offset;
	walker->offset = (uint32_t)next;
	walker->missing = 0;
	if (walker->offset < limit) {
		if (walker->expected != 0 && walker->frame.sequence > walker->expected)
			walker->missing = walker->frame.sequence - walker->expected;
		walker->expected = walker->frame.sequence;
	}
	return STEP_BAD;
}

/* The first file that counts with that number or a higher one; NULL: there is none. */
static struct journal_file *file_from(const struct journal_files *files, uint32_t number)
{
	struct journal_file *file = journal_files_find(files, number);
	uint32_t i = 0;

	if (file == NULL)
		while (i < files->count && files->files[i].number < number)
			i++;
	else
		i = (uint32_t)(file - files->files);
	while (i < files->count && files->files[i].superseded)
		i++;
	return i < files->count ? &files->files[i] : NULL;
}

static bool begin(struct walker *walker, struct journal_files *files)
{
	*walker = (struct walker){ .files = files, .handle = -1, .chunk = CHUNK_LEAST,
		.budget = NO_BUDGET };
	walker->buffer = malloc(BUFFER);
	return walker->buffer != NULL;
}

static void finish(struct walker *walker)
{
	if (walker->buffer == NULL)
		return;
	leave_file(walker);
	free(walker->buffer);
	walker->buffer = NULL;
}

/* --- was it synced? --------------------------------------------------------------- */

/* One step of the scout; false: there is nothing further. */
static bool scout_on(struct walker *scout)
{
	struct journal_files *files = scout->files;
	struct journal_file *file = file_from(files, scout->number);

	if (file == NULL)
		return false;
	if (file->number != scout->number)
		enter(scout, file->number, 0);
	switch (step(scout, file)) {
	case STEP_FRAME:
		scout->expected = scout->frame.sequence + 1;
		if (journal_frame_synced(&scout->frame) > files->synced)
			files->synced = journal_frame_synced(&scout->frame);
		return true;
	case STEP_BAD:
		return true;
	default:
		file = file_from(files, file->number + 1);
		if (file == NULL)
			return false;
		enter(scout, file->number, 0);
		return true;
	}
}

/* Does anything in the journal tell that `sequence` had been synced? */
static bool was_synced(struct journal_cursor *cursor, uint64_t sequence)
{
	struct walker *walker = &cursor->walker;
	struct walker *scout = &cursor->scout;

	if (walker->files->synced >= sequence)
		return true;
	if (scout->buffer == NULL && !begin(scout, walker->files))
		return true;	/* what is not known counts as the worse */
	if (scout->number < walker->number ||
	    (scout->number == walker->number && scout->offset < walker->offset)) {
		enter(scout, walker->number, walker->offset);
		scout->expected = sequence;
	}
	while (walker->files->synced < sequence && scout_on(scout))
		;
	return walker->files->synced >= sequence;
}

/* --- the cursor ------------------------------------------------------------------- */

struct journal_cursor *journal_cursor_open(struct journal_files *files)
{
	struct journal_cursor *cursor = calloc(1, sizeof(*cursor));

	if (cursor != NULL && !begin(&cursor->walker, files)) {
		free(cursor);
		cursor = NULL;
	}
	return cursor;
}

void journal_cursor_close(struct journal_cursor **cursor)
{
	if (*cursor == NULL)
		return;
	finish(&(*cursor)->walker);
	finish(&(*cursor)->scout);
	free(*cursor);
	*cursor = NULL;
}

void journal_cursor_seek(struct journal_cursor *cursor, struct journal_place place)
{
	enter(&cursor->walker, place.file, place.offset);
	cursor->ended = cursor->end_told = false;
}

struct journal_place journal_cursor_place(const struct journal_cursor *cursor)
{
	return (struct journal_place){ cursor->walker.number, cursor->walker.offset };
}

static enum journal_found_kind tell_frame(const struct walker *walker,
    struct journal_found *found)
{
	found->kind = walker->frame.version > JOURNAL_VERSION ? JOURNAL_FOUND_LATER :
	    JOURNAL_FOUND_RECORD;
	found->place = (struct journal_place){ walker->number, walker->at };
	found->length = JOURNAL_HEADER + walker->frame.length;
	found->frame = walker->frame;
	return found->kind;
}

static enum journal_found_kind tell_torn(struct journal_cursor *cursor,
    struct journal_found *found)
{
	found->kind = JOURNAL_FOUND_TORN;
	found->why = "the end of what was written last, which had not been synced";
	found->ends = cursor->ended = true;
	return found->kind;
}

static enum journal_found_kind tell_bad(struct journal_cursor *cursor,
    const struct journal_file *file, uint64_t expected, struct journal_found *found)
{
	struct walker *walker = &cursor->walker;

	found->place = (struct journal_place){ walker->number, walker->at };
	found->length = walker->bad_length;
	found->expected = expected;
	found->missing = walker->missing;
	/* that the next head names an end behind it proves nothing: a switch does not sync */
	if (expected != 0 && was_synced(cursor, expected)) {
		found->kind = JOURNAL_FOUND_DAMAGE;
		found->why = walker->at == 0 ? "the file's head cannot be read" :
		    "what was written here cannot be read";
		return found->kind;
	}
	/* at a place where nothing tells what was to come, what follows does */
	if (expected == 0 && was_synced(cursor, 1) && (walker->offset < limit_of(file) ||
	    file_from(walker->files, file->number + 1) != NULL)) {
		found->kind = JOURNAL_FOUND_DAMAGE;
		found->why = "there is no record that can be read";
		return found->kind;
	}
	found->length = file->size - walker->at;
	return tell_torn(cursor, found);
}

/* What there is to tell at the end of a file that another one follows; END: nothing. */
static enum journal_found_kind tell_file_end(struct journal_cursor *cursor,
    const struct journal_file *file, struct journal_found *found)
{
	uint32_t limit = limit_of(file);

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
		found->why = "never synced: the log went on in a later file";
	}
	return found->kind;
}

/* Goes to the next file; END: there is none. */
static enum journal_found_kind go_on(struct journal_cursor *cursor,
    const struct journal_file *file, struct journal_found *found)
{
	struct walker *walker = &cursor->walker;
	const struct journal_file *next = file_from(walker->files, file->number + 1);
	uint64_t expected = walker->expected;
	uint32_t left = file->number;
	bool knows = next != NULL && (next->head_state == JOURNAL_HEAD_GOOD ||
	    next->head_state == JOURNAL_HEAD_LATER);

	if (next == NULL)
		return JOURNAL_FOUND_END;
	enter(walker, next->number, 0);
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
    const struct journal_file *file, struct journal_found *found)
{
	struct walker *walker = &cursor->walker;

	found->kind = JOURNAL_FOUND_FAULT;
	found->place = (struct journal_place){ file->number, walker->offset };
	found->error = walker->error;
	found->why = "the file cannot be read";
	leave_file(walker);
	enter(walker, file->number + 1, 0);
	return found->kind;
}

static enum journal_found_kind tell_step(struct journal_cursor *cursor,
    const struct journal_file *file, struct journal_found *found)
{
	struct walker *walker = &cursor->walker;
	uint64_t expected = walker->expected;

	switch (step(walker, file)) {
	case STEP_FRAME:
		walker->expected = walker->frame.sequence + 1;
		if (journal_frame_synced(&walker->frame) > walker->files->synced)
			walker->files->synced = journal_frame_synced(&walker->frame);
		if (expected != 0 && walker->frame.sequence > expected)
			found->missing = walker->frame.sequence - expected;
		return tell_frame(walker, found);
	case STEP_BAD:
		return tell_bad(cursor, file, expected, found);
	case STEP_FAULT:
		return tell_fault(cursor, file, found);
	case STEP_FILE_END:
	default:
		return JOURNAL_FOUND_END;
	}
}

enum journal_found_kind journal_cursor_next(struct journal_cursor *cursor,
    struct journal_found *found)
{
	struct walker *walker = &cursor->walker;
	struct journal_file *file;
	enum journal_found_kind kind;

	for (;;) {
		memset(found, 0, sizeof(*found));
		found->kind = JOURNAL_FOUND_END;
		file = file_from(walker->files, walker->number);
		if (file == NULL || cursor->ended)
			return JOURNAL_FOUND_END;
		if (file->number != walker->number) {
			enter(walker, file->number, 0);
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

void journal_cursor_expect(struct journal_cursor *cursor, uint64_t sequence)
{
	cursor->walker.expected = sequence;
}

bool journal_cursor_read(struct journal_cursor *cursor, struct journal_place place,
    struct journal_found *found)
{
	struct walker *walker = &cursor->walker;
	const struct journal_file *file = journal_files_find(walker->files, place.file);
	enum journal_frame_state state = JOURNAL_FRAME_NONE;

	memset(found, 0, sizeof(*found));
	journal_cursor_seek(cursor, place);
	if (file == NULL || file->superseded || place.offset >= limit_of(file))
		return false;
	walker->at = place.offset;
	if (frame_at(walker, file, place.offset, &state) != 0 || state != JOURNAL_FRAME_GOOD)
		return false;
	walker->offset = place.offset + JOURNAL_HEADER + walker->frame.length;
	walker->expected = walker->frame.sequence + 1;
	tell_frame(walker, found);
	return true;
}

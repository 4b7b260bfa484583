/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Walks over the bytes of a journal's files.
 * MODEL    The frame at an offset, or else the next one in the file that can be believed:
 *          its checksum is begun with the file's salt, and its sequence is one that can
 *          stand there.  What counts of a file ends at `end` (reader.h).
 * ERRORS   A fault of the disk is told.  Every step goes forward by a byte at least, or is
 *          the file's end.
 * THREADS  One.
 */
#include "journal/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "journal/bytes.h"

#define CHUNK_LEAST	4096
#define CHUNK_MOST	(UINT32_C(64) * 1024)
#define BUFFER		(JOURNAL_FRAME_MAX + CHUNK_MOST)
/* In search of the next record checksums are made of so many times a file's bytes at most:
 * who could write lengths into it could else have each byte summed up again and again. */
#define SEARCH_TIMES	8
#define NO_BUDGET	UINT64_MAX

/* --- bytes ------------------------------------------------------------------------ */

void journal_walk_leave(struct walker *walker) {
	const struct journal_storage *storage = walker->files->storage;

	if (walker->handle >= 0)
		storage->calls->close(storage->context, walker->handle);
	walker->handle = -1;
	walker->length = 0;
}

void journal_walk_enter(struct walker *walker, uint32_t number, uint32_t offset) {
	if (walker->number != number)
		journal_walk_leave(walker);
	walker->number = number;
	walker->offset = offset;
	walker->expected = 0;
	walker->chunk = CHUNK_LEAST;
	walker->budget = NO_BUDGET;
}

/* How many bytes of the file from `offset` on are in the buffer, `need` of them if it has
 * so many below `limit`; or -errno. */
static int64_t walk_fill(struct walker *walker, uint32_t offset, uint32_t need, uint32_t limit) {
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

static const uint8_t *bytes_at(const struct walker *walker, uint32_t offset) {
	return walker->buffer + (offset - walker->from);
}

/* --- frames ----------------------------------------------------------------------- */

uint32_t journal_walk_limit(const struct journal_file *file) {
	return file->end < file->size ? file->end : file->size;
}

/* Reads the frame at `offset`, whatever its sequence; or -errno. */
static int read_frame(struct walker *walker, const struct journal_file *file, uint32_t offset,
    enum journal_frame_state *state) {
	uint32_t limit = journal_walk_limit(file);
	int64_t have = walk_fill(walker, offset, JOURNAL_HEADER, limit);
	const uint8_t *data;

	if (have >= JOURNAL_HEADER) {
		uint32_t length = get_u32(bytes_at(walker, offset) + 4);

		if (length <= JOURNAL_PAYLOAD_MAX)
			have = walk_fill(walker, offset, JOURNAL_HEADER + length, limit);
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
static bool walk_fits(const struct walker *walker, uint64_t sequence, uint32_t bad, uint32_t at) {
	return walker->expected == 0 || bad == 0 || (sequence >= walker->expected &&
	    sequence - walker->expected <= (at - bad) / JOURNAL_HEADER + 1);
}

/* The next frame behind a bad spot, or the limit; -1 with walker->error: a fault. */
static int64_t walk_search(struct walker *walker, const struct journal_file *file, uint32_t bad) {
	uint32_t limit = journal_walk_limit(file);

	/* without a head there is no salt to believe anything by */
	if (file->head_state == JOURNAL_HEAD_NONE)
		return limit;
	for (uint32_t at = bad + 1; at + JOURNAL_HEADER <= limit; at++) {
		enum journal_frame_state state = JOURNAL_FRAME_NONE;
		int64_t have = walk_fill(walker, at, JOURNAL_HEADER, limit);
		const uint8_t *data = bytes_at(walker, at);
		const uint8_t *magic;
		uint32_t length;

		if (have < JOURNAL_HEADER) {
			walker->error = have < 0 ? (int)-have : EIO;
			return -1;
		}
		magic = memchr(data, JOURNAL_MAGIC, (size_t)have);
		if (magic != data) {	/* most often: to where one may begin */
			at += (uint32_t)(magic == NULL ? have : magic - data) - 1;
			continue;
		}
		length = get_u32(data + 4);
		if (data[3] == 0 || length > JOURNAL_PAYLOAD_MAX ||
		    length > limit - at - JOURNAL_HEADER ||
		    !walk_fits(walker, get_u64(data + 8), bad, at))
			continue;
		if (walker->budget < JOURNAL_HEADER + length)
			return limit;
		walker->budget -= JOURNAL_HEADER + length;
		if (read_frame(walker, file, at, &state) != 0)
			return limit;
		if (state == JOURNAL_FRAME_GOOD)
			return at;
	}
	return limit;
}

/* Not what was copied here from another file, nor a record of the past or of the future:
 * within a file sequences have no gaps. */
static bool can_stand(const struct walker *walker, const struct journal_file *file) {
	if (walker->frame.sequence > JOURNAL_SEQUENCE_MOST)
		return false;
	if (walker->offset == 0)
		return file->head_state == JOURNAL_HEAD_GOOD ||
		    file->head_state == JOURNAL_HEAD_LATER;
	return walker->expected == 0 || walker->frame.sequence == walker->expected;
}

/* One step within the file that the walker stands in. */
enum walk_step journal_walk_step(struct walker *walker, const struct journal_file *file) {
	enum journal_frame_state state = JOURNAL_FRAME_NONE;
	uint32_t limit = journal_walk_limit(file);
	int64_t next;
	int error;

	if (file->error != 0 || file->head_state == JOURNAL_HEAD_UNREAD) {
		walker->error = file->error != 0 ? file->error : -walker->files->error;
		return WALK_FAULT;
	}
	if (walker->budget == NO_BUDGET)
		walker->budget = (uint64_t)SEARCH_TIMES * limit + JOURNAL_FRAME_MAX;
	if (walker->offset >= limit)
		return WALK_FILE_END;
	walker->at = walker->offset;
	error = read_frame(walker, file, walker->offset, &state);
	if (error != 0) {
		walker->error = -error;
		return WALK_FAULT;
	}
	if (state == JOURNAL_FRAME_GOOD && can_stand(walker, file)) {
		walker->offset += JOURNAL_HEADER + walker->frame.length;
		return WALK_FRAME;
	}
	next = walk_search(walker, file, walker->offset);
	if (next < 0)
		return WALK_FAULT;
	walker->bad_length = (uint32_t)next - walker->offset;
	walker->offset = (uint32_t)next;
	walker->missing = 0;
	if (walker->offset < limit) {
		if (walker->expected != 0 && walker->frame.sequence > walker->expected)
			walker->missing = walker->frame.sequence - walker->expected;
		walker->expected = walker->frame.sequence;
	}
	return WALK_BAD;
}

/* The first file that counts with that number or a higher one; NULL: there is none. */
struct journal_file *journal_walk_file(struct journal_files *files, uint32_t number) {
	struct journal_file *file;
	uint32_t i = 0;

	/* where it fails, the step that is made there does */
	(void)journal_files_need(files, number);
	file = journal_files_find(files, number);

	if (file != NULL)
		i = (uint32_t)(file - files->files);
	else
		while (i < files->count && files->files[i].number < number)
			i++;
	while (i < files->count && files->files[i].superseded)
		i++;
	return i < files->count ? &files->files[i] : NULL;
}

bool journal_walk_begin(struct walker *walker, struct journal_files *files) {
	*walker = (struct walker){ .files = files, .handle = -1, .chunk = CHUNK_LEAST,
		.budget = NO_BUDGET };
	walker->buffer = malloc(BUFFER);
	return walker->buffer != NULL;
}

void journal_walk_finish(struct walker *walker) {
	if (walker->buffer == NULL)
		return;
	journal_walk_leave(walker);
	free(walker->buffer);
	walker->buffer = NULL;
}

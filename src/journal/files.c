/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Which files a journal has, and how far each of them counts.
 * MODEL    Heads tell it: from the last file on backwards, each names the file before it
 *          and where that one ended; what lies between the two was written behind a torn
 *          spot, and does not count.  Where positions tell what was synced, the heads
 *          before that are left for whoever comes to need one: a start takes as long with
 *          many files as with few.
 * ERRORS   -errno: a directory that cannot be listed, and what cannot be read now.  Where that
 *          is tolerated it is a file without a head, or no positions.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/diag.h"
#include "journal/reader.h"

struct listing {
	struct journal_files *files;
	int error;
};

static void listing_add(void *context, const char *name) {
	struct listing *listing = context;
	struct journal_files *files = listing->files;
	uint32_t number = journal_file_number(name);

	if (strcmp(name, JOURNAL_POSITIONS_NAME) == 0 || strcmp(name, JOURNAL_LOCK_NAME) == 0)
		return;
	if (number == 0 || files->count == JOURNAL_FILES_MAX) {
		files->foreign++;
		return;
	}
	if (!array_grow(&files->files, &files->room, files->count, sizeof(files->files[0]))) {
		listing->error = -ENOMEM;
		return;
	}
	files->files[files->count++] = (struct journal_file){ .number = number, .handle = -1,
		.head_state = JOURNAL_HEAD_UNREAD };
}

static int by_number(const void *a, const void *b) {
	uint32_t first = ((const struct journal_file *)a)->number;
	uint32_t second = ((const struct journal_file *)b)->number;

	return (first > second) - (first < second);
}

/* What a process before this one could not sync is still in memory: it was told, this one will
 * not be.  So what stands behind the synced place is read from the disk. */
static void file_doubt(const struct journal_files *files, int handle, uint64_t offset) {
	if (files->lazy && files->loads && files->storage->calls->doubt != NULL)
		files->storage->calls->doubt(files->storage->context, handle, offset);
}

/* 0; -errno: it may be read later.  What is no plain file has no head. */
static int read_head(struct journal_files *files, struct journal_file *file) {
	const struct journal_storage *storage = files->storage;
	uint8_t data[JOURNAL_HEAD_SIZE];
	char name[JOURNAL_NAME_MAX + 1];
	struct journal_frame frame;
	uint64_t size = 0;
	ssize_t got = 0;
	int handle, error;

	file->head_state = JOURNAL_HEAD_NONE;
	journal_file_name(file->number, name);
	handle = storage->calls->open(storage->context, name, JOURNAL_READ);
	if (handle < 0)
		return handle == -EINVAL || handle == -ELOOP ? 0 : handle;
	file_doubt(files, handle, file->number == files->sure.file ? files->sure.offset : 0);
	error = storage->calls->size(storage->context, handle, &size);
	if (error == 0)
		got = storage->calls->read(storage->context, handle, data, sizeof(data), 0);
	storage->calls->close(storage->context, handle);
	if (error != 0 || got < 0)
		return error != 0 ? error : (int)got;
	file->size = size > JOURNAL_SIZE_MAX ? JOURNAL_SIZE_MAX : (uint32_t)size;
	file->end = file->size;
	files->bytes_read += (uint64_t)got;
	file->head_state = journal_head_read(data, (size_t)got, &file->head, &frame);
	file->version = frame.version;
	/* one that was copied or renamed, or a deleted file's bytes: the past does not count */
	if ((file->head_state == JOURNAL_HEAD_GOOD || file->head_state == JOURNAL_HEAD_LATER) &&
	    (file->head.number != file->number || frame.sequence > JOURNAL_SEQUENCE_MOST)) {
		file->head_state = JOURNAL_HEAD_NONE;
		file->head = (struct journal_head){ 0 };
	}
	if (file->head_state == JOURNAL_HEAD_GOOD || file->head_state == JOURNAL_HEAD_LATER) {
		file->first = frame.sequence;
		file->synced = journal_frame_synced(&frame);
	}
	return 0;
}

/* Heads are far from each other on a disk: they are read side by side. */
static void expect_heads(const struct journal_files *files, uint32_t number) {
	const struct journal_storage *storage = files->storage;
	char name[JOURNAL_NAME_MAX + 1];

	/* of one alone there is nothing to gain */
	if (storage->calls->expect == NULL || files->unread < 2 ||
	    files->files[files->unread - 2].number < number)
		return;
	for (uint32_t i = files->unread; i-- > 0 && files->files[i].number >= number;) {
		int handle;

		journal_file_name(files->files[i].number, name);
		handle = storage->calls->open(storage->context, name, JOURNAL_READ);
		if (handle < 0)
			continue;
		storage->calls->expect(storage->context, handle, 0, JOURNAL_HEAD_SIZE);
		storage->calls->close(storage->context, handle);
	}
}

static bool head_tells(const struct journal_file *file) {
	return file->head_state == JOURNAL_HEAD_GOOD || file->head_state == JOURNAL_HEAD_LATER;
}

/* Sets end, end_known and superseded by what the files behind it have told. */
static void link_file(struct journal_files *files, struct journal_file *file) {
	if (files->before.known && file->number > files->before.number) {
		file->superseded = true;
		return;
	}
	if (files->before.known && file->number == files->before.number) {
		file->end = files->before.end;
		file->end_known = true;
	}
	if (head_tells(file) && file->synced > files->synced)
		files->synced = file->synced;
	if (!head_tells(file) && file->size < JOURNAL_HEAD_SIZE && !file->end_known && file->error == 0)
		return;		/* it was begun, and no more */
	files->before.known = head_tells(file);
	files->before.number = file->head.previous;
	files->before.end = file->head.previous_end;
}

/* A head that cannot be read now is no reason to take its file for empty.  One whose file was
 * deleted a moment ago stays unread (journal_files_load), or is none. */
int journal_files_need(struct journal_files *files, uint32_t number) {
	if (files->unread == 0 || files->files[files->unread - 1].number < number)
		return 0;
	expect_heads(files, number);
	while (files->unread > 0 && files->files[files->unread - 1].number >= number) {
		struct journal_file *file = &files->files[files->unread - 1];
		int error = read_head(files, file);

		file->error = error == -ENOENT ? 0 : -error;
		if (error != 0 && error != -ENOENT && !files->tolerant) {
			file->head_state = JOURNAL_HEAD_UNREAD;
			files->error = error;
			return error;
		}
		if (error == -ENOENT && files->loads)
			file->head_state = JOURNAL_HEAD_UNREAD;
		else
			link_file(files, file);
		files->unread--;
	}
	return 0;
}

static void drop_deleted(struct journal_files *files) {
	uint32_t count = files->unread;

	for (uint32_t i = files->unread; i < files->count; i++)
		if (files->files[i].head_state != JOURNAL_HEAD_UNREAD)
			files->files[count++] = files->files[i];
	files->count = count;
}

/* --- positions -------------------------------------------------------------------- */

static void read_slot(const uint8_t *data, size_t size, struct journal_slot *slot) {
	struct journal_frame frame;
	bool empty = true;

	for (size_t i = 0; i < size && empty; i++)
		empty = data[i] == 0;
	slot->state = empty ? JOURNAL_SLOT_EMPTY : JOURNAL_SLOT_DAMAGED;
	if (empty || journal_frame_read(data, size, 0, &frame) != JOURNAL_FRAME_GOOD ||
	    frame.type != JOURNAL_POSITIONS)
		return;
	slot->serial = frame.sequence;
	if (frame.version > JOURNAL_VERSION)
		slot->state = JOURNAL_SLOT_LATER;
	else if (journal_positions_read(frame.payload, frame.length, &slot->positions) &&
	    slot->positions.synced <= JOURNAL_SEQUENCE_MOST)
		slot->state = JOURNAL_SLOT_GOOD;
}

/* Positions of another journal (a directory put together by hand) say nothing. */
static bool is_of(const struct journal_files *files, const struct journal_positions *positions) {
	for (uint32_t i = files->count; i-- > files->unread;)
		if (head_tells(&files->files[i]))
			return files->files[i].head.journal == positions->journal;
	return true;
}

/* One that cannot be read now may be the one that counts: without it files that were deleted,
 * and are there again after a crash, would be read.  0; -errno: it may be read later. */
static int load_slots(struct journal_files *files, struct journal_slot slots[JOURNAL_SLOTS]) {
	const struct journal_storage *storage = files->storage;
	uint8_t data[JOURNAL_SLOT];
	int handle = storage->calls->open(storage->context, JOURNAL_POSITIONS_NAME,
	    JOURNAL_READ);
	bool is_none = handle == -ENOENT || handle == -EINVAL || handle == -ELOOP;
	int error = handle < 0 && !is_none ? handle : 0;

	memset(slots, 0, JOURNAL_SLOTS * sizeof(slots[0]));
	if (handle >= 0)
		file_doubt(files, handle, 0);
	for (int i = 0; i < JOURNAL_SLOTS; i++) {
		ssize_t got = handle < 0 ? 0 : storage->calls->read(storage->context, handle, data,
		    sizeof(data), (uint64_t)i * JOURNAL_SLOT);

		slots[i].state = JOURNAL_SLOT_EMPTY;
		if (got < 0)
			error = (int)got;
		if (got <= 0)
			continue;
		files->bytes_read += (uint64_t)got;
		read_slot(data, (size_t)got, &slots[i]);
	}
	if (handle >= 0)
		storage->calls->close(storage->context, handle);
	files->slots_unread = error != 0;
	return files->tolerant ? 0 : error;
}

/* The one that counts; -1: none. */
static int choose_slot(const struct journal_files *files,
    const struct journal_slot slots[JOURNAL_SLOTS]) {
	int chosen = -1;

	for (int i = 0; i < JOURNAL_SLOTS; i++)
		if (slots[i].state == JOURNAL_SLOT_GOOD && is_of(files, &slots[i].positions) &&
		    (chosen < 0 || slots[i].serial > slots[chosen].serial))
			chosen = i;
	return chosen;
}

/* Heads of all files, or of those that are enough: from the file on that the positions say
 * was synced, if it is there and counts. */
static int read_heads(struct journal_files *files, const struct journal_slot slots[JOURNAL_SLOTS],
    int *slot) {
	const struct journal_file *file;
	int error = 0;

	files->unread = files->count;
	*slot = files->lazy ? choose_slot(files, slots) : -1;
	if (*slot >= 0) {
		uint32_t number = slots[*slot].positions.synced_place.file;

		files->sure = slots[*slot].positions.synced_place;
		error = journal_files_need(files, number);
		file = journal_files_find(files, number);
		if (error == 0 && *slot == choose_slot(files, slots) && file != NULL &&
		    file->head_state == JOURNAL_HEAD_GOOD && !file->superseded)
			return 0;
	}
	if (error == 0)
		error = journal_files_need(files, 0);
	*slot = choose_slot(files, slots);
	return error;
}

int journal_files_load(struct journal_files *files, const struct journal_storage *storage,
    struct journal_slot slots[JOURNAL_SLOTS], int *slot) {
	struct listing listing = { .files = files };
	int error, slots_error;

	*slot = -1;
	files->storage = storage;
	files->count = files->foreign = files->unread = 0;
	files->sure = (struct journal_place){ 0, 0 };
	files->before.known = false;
	files->loads = true;
	files->synced = 0;
	error = storage->calls->list(storage->context, listing_add, &listing);
	if (error == 0)
		error = listing.error;
	if (error == 0 && files->count > 0)
		qsort(files->files, files->count, sizeof(files->files[0]), by_number);
	slots_error = load_slots(files, slots);
	if (error == 0)
		error = slots_error;
	if (error == 0)
		error = read_heads(files, slots, slot);
	files->loads = false;
	drop_deleted(files);
	if (error != 0) {
		files->count = files->unread = 0;	/* half of it is nothing */
		*slot = -1;
		return error;
	}
	if (*slot >= 0 && slots[*slot].positions.synced > files->synced)
		files->synced = slots[*slot].positions.synced;
	return 0;
}

void journal_files_free(struct journal_files *files) {
	free(files->files);
	files->files = NULL;
	files->count = 0;
	files->room = 0;
}

struct journal_file *journal_files_find(const struct journal_files *files, uint32_t number) {
	uint32_t low = 0;
	uint32_t high = files->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (files->files[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < files->count && files->files[low].number == number ?
	    &files->files[low] : NULL;
}

/* --- from outside ----------------------------------------------------------------- */

int journal_reader_open(struct journal_reader **out, const struct journal_storage *storage,
    struct diag *diag) {
	struct journal_reader *reader = calloc(1, sizeof(*reader));
	int error;

	*out = NULL;
	if (reader == NULL) {
		diag_set(diag, ENOMEM, "a journal");
		return -ENOMEM;
	}
	reader->files.tolerant = true;
	error = journal_files_load(&reader->files, storage, reader->slots, &reader->slot);
	if (error != 0) {
		diag_set(diag, -error, "the journal's directory");
		journal_reader_close(&reader);
		return error;
	}
	*out = reader;
	return 0;
}

int journal_reader_open_path(struct journal_reader **reader, const char *path,
    struct diag *diag) {
	struct journal_storage *storage = journal_storage_posix(path, true, diag);
	int error;

	*reader = NULL;
	if (storage == NULL)
		return -diag->error;
	error = journal_reader_open(reader, storage, diag);
	if (error != 0)
		journal_storage_close(&storage);
	else
		(*reader)->storage = storage;
	return error;
}

void journal_reader_close(struct journal_reader **reader) {
	if (*reader == NULL)
		return;
	journal_files_free(&(*reader)->files);
	journal_storage_close(&(*reader)->storage);
	free(*reader);
	*reader = NULL;
}

struct journal_place journal_reader_begin(const struct journal_reader *reader) {
	const struct journal_files *files = &reader->files;
	uint32_t first = reader->slot < 0 ? 0 : reader->slots[reader->slot].positions.first_file;

	for (uint32_t i = 0; i < files->count; i++)
		if (files->files[i].number >= first)
			return (struct journal_place){ files->files[i].number, 0 };
	return (struct journal_place){ 0, 0 };
}

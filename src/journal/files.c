/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Which files a journal has, and how far each of them counts.
 * MODEL    Heads tell it: from the last file on backwards, each names the file before it
 *          and where that one ended; what lies between the two was written behind a torn
 *          spot, and does not count.
 * ERRORS   What cannot be read is a file without a head; a directory that cannot be listed
 *          is -errno.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "journal/reader.h"

struct listing {
	struct journal_files *files;
	int error;
};

static void add(void *context, const char *name)
{
	struct listing *listing = context;
	struct journal_files *files = listing->files;
	uint32_t number = journal_file_number(name);

	if (strcmp(name, JOURNAL_POSITIONS_NAME) == 0 || strcmp(name, JOURNAL_LOCK_NAME) == 0)
		return;
	if (number == 0 || files->count == JOURNAL_FILES_MAX) {
		files->foreign++;
		return;
	}
	if (files->count == files->room) {
		uint32_t room = files->room == 0 ? 16 : 2 * files->room;
		struct journal_file *more = realloc(files->files, room * sizeof(*more));

		if (more == NULL) {
			listing->error = -ENOMEM;
			return;
		}
		files->files = more;
		files->room = room;
	}
	files->files[files->count++] = (struct journal_file){ .number = number };
}

static int by_number(const void *a, const void *b)
{
	uint32_t first = ((const struct journal_file *)a)->number;
	uint32_t second = ((const struct journal_file *)b)->number;

	return (first > second) - (first < second);
}

/* 0; -errno: it may be read later.  What is no plain file has no head. */
static int read_head(struct journal_files *files, struct journal_file *file)
{
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
static void expect_heads(const struct journal_files *files)
{
	const struct journal_storage *storage = files->storage;
	char name[JOURNAL_NAME_MAX + 1];

	for (uint32_t i = 0; storage->calls->expect != NULL && i < files->count; i++) {
		int handle;

		journal_file_name(files->files[i].number, name);
		handle = storage->calls->open(storage->context, name, JOURNAL_READ);
		if (handle < 0)
			continue;
		storage->calls->expect(storage->context, handle, 0, JOURNAL_HEAD_SIZE);
		storage->calls->close(storage->context, handle);
	}
}

/* A head that cannot be read now is no reason to take its file for empty. */
static int read_heads(struct journal_files *files)
{
	uint32_t count = 0;

	expect_heads(files);
	for (uint32_t i = 0; i < files->count; i++) {
		int error = read_head(files, &files->files[i]);

		if (error != 0 && error != -ENOENT && !files->tolerant)
			return error;
		if (error != -ENOENT)		/* else it was deleted a moment ago */
			files->files[count++] = files->files[i];
	}
	files->count = count;
	return 0;
}

static bool tells(const struct journal_file *file)
{
	return file->head_state == JOURNAL_HEAD_GOOD || file->head_state == JOURNAL_HEAD_LATER;
}

/* Fills end, end_known and superseded. */
static void link_files(struct journal_files *files)
{
	uint32_t wanted = 0;
	uint32_t end = 0;
	bool known = false;

	for (uint32_t i = files->count; i-- > 0;) {
		struct journal_file *file = &files->files[i];

		if (known && file->number > wanted) {
			file->superseded = true;
			continue;
		}
		if (known && file->number == wanted) {
			file->end = end;
			file->end_known = true;
		}
		if (tells(file) && file->synced > files->synced)
			files->synced = file->synced;
		if (!tells(file) && file->size < JOURNAL_HEAD_SIZE && !file->end_known)
			continue;	/* it was begun, and no more */
		known = tells(file);
		wanted = file->head.previous;
		end = file->head.previous_end;
	}
}

/* --- positions -------------------------------------------------------------------- */

static void read_slot(const uint8_t *data, size_t size, struct journal_slot *slot)
{
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
static bool is_of(const struct journal_files *files, const struct journal_positions *positions)
{
	for (uint32_t i = files->count; i-- > 0;)
		if (tells(&files->files[i]))
			return files->files[i].head.journal == positions->journal;
	return true;
}

static int load_slots(struct journal_files *files, struct journal_slot slots[JOURNAL_SLOTS])
{
	const struct journal_storage *storage = files->storage;
	uint8_t data[JOURNAL_SLOT];
	int handle = storage->calls->open(storage->context, JOURNAL_POSITIONS_NAME,
	    JOURNAL_READ);
	int chosen = -1;

	memset(slots, 0, JOURNAL_SLOTS * sizeof(slots[0]));
	for (int i = 0; i < JOURNAL_SLOTS; i++) {
		ssize_t got = handle < 0 ? 0 : storage->calls->read(storage->context, handle, data,
		    sizeof(data), (uint64_t)i * JOURNAL_SLOT);

		slots[i].state = JOURNAL_SLOT_EMPTY;
		if (got <= 0)
			continue;
		files->bytes_read += (uint64_t)got;
		read_slot(data, (size_t)got, &slots[i]);
		if (slots[i].state == JOURNAL_SLOT_GOOD && is_of(files, &slots[i].positions) &&
		    (chosen < 0 || slots[i].serial > slots[chosen].serial))
			chosen = i;
	}
	if (handle >= 0)
		storage->calls->close(storage->context, handle);
	return chosen;
}

int journal_files_load(struct journal_files *files, const struct journal_storage *storage,
    struct journal_slot slots[JOURNAL_SLOTS], int *slot)
{
	struct listing listing = { .files = files };
	int error;

	*slot = -1;
	files->storage = storage;
	files->count = files->foreign = 0;
	files->synced = 0;
	error = storage->calls->list(storage->context, add, &listing);
	if (error == 0)
		error = listing.error;
	if (error == 0 && files->count > 0) {
		qsort(files->files, files->count, sizeof(files->files[0]), by_number);
		error = read_heads(files);
	}
	if (error != 0) {
		files->count = 0;	/* half of it is nothing */
		return error;
	}
	link_files(files);
	*slot = load_slots(files, slots);
	if (*slot >= 0 && slots[*slot].positions.synced > files->synced)
		files->synced = slots[*slot].positions.synced;
	return 0;
}

void journal_files_free(struct journal_files *files)
{
	free(files->files);
	files->files = NULL;
	files->count = files->room = 0;
}

struct journal_file *journal_files_find(const struct journal_files *files, uint32_t number)
{
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
    struct diag *diag)
{
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

void journal_reader_close(struct journal_reader **reader)
{
	if (*reader == NULL)
		return;
	journal_files_free(&(*reader)->files);
	free(*reader);
	*reader = NULL;
}

struct journal_place journal_reader_begin(const struct journal_reader *reader)
{
	const struct journal_files *files = &reader->files;
	uint32_t first = reader->slot < 0 ? 0 : reader->slots[reader->slot].positions.first_file;

	for (uint32_t i = 0; i < files->count; i++)
		if (files->files[i].number >= first)
			return (struct journal_place){ files->files[i].number, 0 };
	return (struct journal_place){ 0, 0 };
}

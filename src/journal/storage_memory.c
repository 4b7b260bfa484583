/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A journal's directory in memory.
 * MODEL    A table of files; a file that is unlinked is gone when it is closed by all.
 * ERRORS   -errno, as a file system gives them.
 * THREADS  One.
 */
#include "journal/storage_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct memory_file {
	char name[JOURNAL_NAME_MAX + 1];	/* "": it was unlinked */
	uint8_t *bytes;
	uint64_t size, room;
	unsigned users;
};

struct memory {
	struct journal_storage storage;
	struct memory_file *files;
	size_t count;
	struct storage_counts counts;
};

static struct memory_file *memory_find(struct memory *memory, const char *name) {
	for (size_t i = 0; i < memory->count; i++)
		if (strcmp(memory->files[i].name, name) == 0)
			return &memory->files[i];
	return NULL;
}

static void memory_file_clear(struct memory_file *file) {
	free(file->bytes);
	memset(file, 0, sizeof(*file));
}

static int memory_list(void *context, void (*each)(void *each_context, const char *name),
    void *each_context) {
	const struct memory *memory = context;

	for (size_t i = 0; i < memory->count; i++)
		if (memory->files[i].name[0] != '\0')
			each(each_context, memory->files[i].name);
	return 0;
}

/* A place that nobody uses, or a new one. */
static struct memory_file *memory_file_new(struct memory *memory) {
	struct memory_file *files;

	for (size_t i = 0; i < memory->count; i++)
		if (memory->files[i].name[0] == '\0' && memory->files[i].users == 0)
			return &memory->files[i];
	files = reallocarray(memory->files, memory->count + 1, sizeof(*files));
	if (files == NULL)
		return NULL;
	memory->files = files;
	memset(&files[memory->count], 0, sizeof(*files));
	return &files[memory->count++];
}

static int memory_open(void *context, const char *name, enum journal_access access) {
	struct memory *memory = context;
	struct memory_file *file = memory_find(memory, name);

	if (access == JOURNAL_CREATE) {
		if (file != NULL)
			return -EEXIST;
		if (name[0] == '\0' || strlen(name) > JOURNAL_NAME_MAX)
			return -EINVAL;
		file = memory_file_new(memory);
		if (file == NULL)
			return -ENOMEM;
		memcpy(file->name, name, strlen(name) + 1);
	}
	if (file == NULL)
		return -ENOENT;
	file->users++;
	return (int)(file - memory->files);
}

static void memory_close(void *context, int number) {
	struct memory_file *file = &((struct memory *)context)->files[number];

	if (--file->users == 0 && file->name[0] == '\0')
		memory_file_clear(file);
}

static ssize_t memory_read(void *context, int number, void *data, size_t length, uint64_t offset) {
	struct memory *memory = context;
	const struct memory_file *file = &memory->files[number];
	uint64_t left = offset < file->size ? file->size - offset : 0;
	size_t got = left < length ? (size_t)left : length;

	if (got > 0)
		memcpy(data, file->bytes + offset, got);
	memory->counts.reads++;
	memory->counts.read_bytes += got;
	return (ssize_t)got;
}

static bool memory_file_reserve(struct memory_file *file, uint64_t size) {
	uint64_t room = file->room > 0 ? file->room : 4096;
	uint8_t *bytes;

	if (size <= file->room)
		return true;
	while (room < size)
		room *= 2;
	bytes = realloc(file->bytes, room);
	if (bytes == NULL)
		return false;
	memset(bytes + file->room, 0, room - file->room);
	file->bytes = bytes;
	file->room = room;
	return true;
}

static int memory_write(void *context, int number, const void *data, size_t length,
    uint64_t offset) {
	struct memory *memory = context;
	struct memory_file *file = &memory->files[number];

	if (!memory_file_reserve(file, offset + length))
		return -ENOMEM;
	memcpy(file->bytes + offset, data, length);
	if (offset + length > file->size)
		file->size = offset + length;
	memory->counts.writes++;
	memory->counts.written_bytes += length;
	return 0;
}

static int memory_sync(void *context, int number) {
	(void)number;
	((struct memory *)context)->counts.syncs++;
	return 0;
}

static int memory_sync_directory(void *context) {
	((struct memory *)context)->counts.syncs++;
	return 0;
}

static int memory_unlink(void *context, const char *name) {
	struct memory_file *file = memory_find(context, name);

	if (file == NULL)
		return -ENOENT;
	file->name[0] = '\0';
	if (file->users == 0)
		memory_file_clear(file);
	return 0;
}

static int memory_size(void *context, int number, uint64_t *size) {
	*size = ((struct memory *)context)->files[number].size;
	return 0;
}

static int memory_check(void *context, int number, const char *name) {
	return strcmp(((struct memory *)context)->files[number].name, name) == 0 ? 0 : -ENOENT;
}

static int memory_lock(void *context) {
	(void)context;
	return 0;
}

static const struct journal_storage_calls memory_calls = {
	.list = memory_list,
	.open = memory_open,
	.close = memory_close,
	.read = memory_read,
	.write = memory_write,
	.sync = memory_sync,
	.sync_directory = memory_sync_directory,
	.unlink = memory_unlink,
	.size = memory_size,
	.check = memory_check,
	.lock = memory_lock,
};

struct journal_storage *journal_storage_memory(void) {
	struct memory *memory = calloc(1, sizeof(*memory));

	if (memory == NULL)
		return NULL;
	memory->storage = (struct journal_storage){ &memory_calls, memory };
	return &memory->storage;
}

void journal_storage_memory_count(const struct journal_storage *storage,
    struct storage_counts *out) {
	*out = ((const struct memory *)storage->context)->counts;
}

struct journal_storage *journal_storage_memory_copy(const struct journal_storage *storage) {
	const struct memory *from = storage->context;
	struct journal_storage *copy = journal_storage_memory();
	struct memory *to = copy == NULL ? NULL : copy->context;

	for (size_t i = 0; to != NULL && i < from->count; i++) {
		struct memory_file *file;

		if (from->files[i].name[0] == '\0')
			continue;
		file = memory_file_new(to);
		if (file == NULL || !memory_file_reserve(file, from->files[i].size)) {
			journal_storage_memory_close(&copy);
			return NULL;
		}
		memcpy(file->name, from->files[i].name, sizeof(file->name));
		file->size = from->files[i].size;
		if (file->size > 0)
			memcpy(file->bytes, from->files[i].bytes, file->size);
	}
	return copy;
}

void journal_storage_memory_close(struct journal_storage **storage) {
	struct memory *memory = *storage == NULL ? NULL : (*storage)->context;

	if (memory == NULL)
		return;
	for (size_t i = 0; i < memory->count; i++)
		free(memory->files[i].bytes);
	free(memory->files);
	free(memory);
	*storage = NULL;
}

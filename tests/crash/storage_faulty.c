/* SPDX-License-Identifier: ISC */
#include "tests/crash/storage_faulty.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct faulty_list {
	void (*each)(void *context, const char *name);
	void *context;
};

static bool list_one(void *context, const char *name) {
	const struct faulty_list *list = context;

	list->each(list->context, name);
	return true;
}

static int faulty_list(void *context, void (*each)(void *each_context, const char *name),
    void *each_context) {
	struct faulty_list list = { .each = each, .context = each_context };

	return disk_list(context, list_one, &list);
}

static int faulty_open(void *context, const char *name, enum journal_access access) {
	return disk_open(context, name, access == JOURNAL_CREATE, access != JOURNAL_READ);
}

static void faulty_close(void *context, int file) {
	disk_close(context, file);
}

static ssize_t faulty_read(void *context, int file, void *data, size_t length,
    uint64_t offset) {
	return (ssize_t)disk_read(context, file, data, length, offset);
}

static int faulty_write(void *context, int file, const void *data, size_t length,
    uint64_t offset) {
	const struct disk *disk = context;
	int64_t written = disk_write(context, file, data, length, offset);

	if (written < 0)
		return (int)written;
	if ((size_t)written == length)
		return 0;
	return disk->capacity == DISK_UNLIMITED ? -EIO : -ENOSPC;
}

static int faulty_sync(void *context, int file) {
	return disk_sync(context, file);
}

static int faulty_sync_directory(void *context) {
	return disk_sync_names(context);
}

static int faulty_unlink(void *context, const char *name) {
	return disk_unlink(context, name);
}

static int faulty_size(void *context, int file, uint64_t *size) {
	*size = (uint64_t)disk_size(context, file);
	return 0;
}

static int faulty_check(void *context, int file, const char *name) {
	return disk_is_named(context, file, name) ? 0 : -ENOENT;
}

static int faulty_lock(void *context) {
	return disk_lock(context);
}

static void faulty_doubt(void *context, int file, uint64_t offset) {
	disk_doubt(context, file, offset);
}

static const struct journal_storage_calls calls = {
	.list = faulty_list,
	.open = faulty_open,
	.close = faulty_close,
	.read = faulty_read,
	.write = faulty_write,
	.sync = faulty_sync,
	.sync_directory = faulty_sync_directory,
	.unlink = faulty_unlink,
	.size = faulty_size,
	.check = faulty_check,
	.lock = faulty_lock,
	.doubt = faulty_doubt,
};

struct journal_storage *storage_faulty(struct disk *disk) {
	struct journal_storage *storage = malloc(sizeof(*storage));

	if (storage == NULL)
		abort();
	*storage = (struct journal_storage){ .calls = &calls, .context = disk };
	return storage;
}

void storage_faulty_close(struct journal_storage **storage) {
	free(*storage);
	*storage = NULL;
}

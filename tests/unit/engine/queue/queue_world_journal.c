/* SPDX-License-Identifier: ISC */
#include "tests/unit/engine/queue/queue_world_journal.h"

#include <dirent.h>
#include "tests/unit/check.h"

#include "base/clock.h"
#include "engine/queue/queue_journal_internal.h"
#include "journal/storage.h"
#include "tests/unit/engine/queue/queue_world.h"

#ifndef WORLD_JOURNAL
#define WORLD_JOURNAL 0
#endif
#define EPOCH_NS	(INT64_C(1800000000) * NS_PER_SECOND)

bool world_has_journal = WORLD_JOURNAL;
int64_t world_wall_ns;
int world_disk_error;
bool world_disk_is_gone;
static char path[64];
static struct journal_storage *disk, faulty;

/* --- a disk that fails ---------------------------------------------------------------- */

static int fault(bool reads) {
	return reads && !world_disk_is_gone ? 0 : -world_disk_error;
}

static int list(void *context, void (*each)(void *, const char *), void *each_context) {
	return fault(true) != 0 ? fault(true) :
	    disk->calls->list(disk->context, each, each_context);
}

static int open_file(void *context, const char *name, enum journal_access access) {
	bool reads = access == JOURNAL_READ;

	return fault(reads) != 0 ? fault(reads) :
	    disk->calls->open(disk->context, name, access);
}

static void close_file(void *context, int file) {
	disk->calls->close(disk->context, file);
}

static ssize_t read_file(void *context, int file, void *data, size_t length, uint64_t offset) {
	return fault(true) != 0 ? fault(true) :
	    disk->calls->read(disk->context, file, data, length, offset);
}

static int write_file(void *context, int file, const void *data, size_t length,
    uint64_t offset) {
	return fault(false) != 0 ? fault(false) :
	    disk->calls->write(disk->context, file, data, length, offset);
}

static int sync_file(void *context, int file) {
	return fault(false) != 0 ? fault(false) : disk->calls->sync(disk->context, file);
}

static int sync_directory(void *context) {
	return fault(false) != 0 ? fault(false) : disk->calls->sync_directory(disk->context);
}

static int unlink_file(void *context, const char *name) {
	return fault(false) != 0 ? fault(false) : disk->calls->unlink(disk->context, name);
}

static int size_of(void *context, int file, uint64_t *size) {
	return disk->calls->size(disk->context, file, size);
}

static int check_file(void *context, int file, const char *name) {
	return disk->calls->check(disk->context, file, name);
}

static int lock_directory(void *context) {
	return fault(true) != 0 ? fault(true) : disk->calls->lock(disk->context);
}

static const struct journal_storage_calls calls = { list, open_file, close_file, read_file,
	write_file, sync_file, sync_directory, unlink_file, size_of, check_file,
	lock_directory, NULL, NULL };

/* --- the journal ------------------------------------------------------------------------ */

const char *world_journal_path(void) {
	return path;
}

void world_journal_open(struct queue *queue, int64_t now_ns) {
	const struct queue_journal_setup setup = { .storage = &faulty, .file_size = 1 << 16,
		.sync_delay_ns = 100 * NS_PER_MS, .envelope_delay_ns = NS_PER_SECOND };
	struct diag diag;

	if (!world_has_journal)
		return;
	if (path[0] == '\0') {
		(void)snprintf(path, sizeof(path), "/dev/shm/postern-queue-XXXXXX");
		assert_non_null(mkdtemp(path));
	}
	journal_storage_close(&disk);
	disk = journal_storage_posix(path, false, &diag);
	assert_non_null(disk);
	faulty = (struct journal_storage){ &calls, disk };
	if (queue_journal_open(queue, &setup, now_ns, now_ns + EPOCH_NS + world_wall_ns,
	    &diag) != 0)
		fail_msg("%s", diag.text);
}

void world_journal_empty(void) {
	DIR *directory = path[0] == '\0' ? NULL : opendir(path);
	const struct dirent *entry;

	while (directory != NULL && (entry = readdir(directory)) != NULL)
		(void)unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory != NULL)
		closedir(directory);
}

void world_journal_remove(void) {
	world_journal_empty();
	if (path[0] != '\0')
		(void)rmdir(path);
	journal_storage_close(&disk);
	path[0] = '\0';
	world_wall_ns = 0;
	world_disk_error = 0;
	world_disk_is_gone = false;
}

struct queue_journal_view world_journal(void) {
	const struct queue_journal *j = world.queue->journal;
	struct messages_totals totals;

	if (j == NULL)
		return (struct queue_journal_view){ .is_there = false };
	messages_count(j->messages, &totals);
	return (struct queue_journal_view){ .is_there = true,
		.is_degraded = messages_is_degraded(j->messages),
		.is_known = messages_is_indexed(j->messages), .messages = totals.messages,
		.more = totals.waiting };
}

void world_each_in_journal(bool (*each)(void *context, const struct queue_row *row),
    void *context) {
	struct queue_journal_list *list = queue_journal_list_open(world.queue, false);

	while (list != NULL && queue_journal_list_step(list, world.now_ns, each, context))
		;
	queue_journal_list_close(&list);
}

void world_each_destination(bool (*each)(void *context,
    const struct queue_destination_row *row), void *context) {
	struct queue_journal_list *list = queue_journal_list_open(world.queue, true);

	while (list != NULL && queue_journal_list_step(list, world.now_ns, NULL, NULL))
		;
	queue_each_destination(world.queue, list, world.now_ns, each, context);
	queue_journal_list_close(&list);
}

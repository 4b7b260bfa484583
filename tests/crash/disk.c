/* SPDX-License-Identifier: ISC */
#include "tests/crash/disk_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *disk_allocated(void *memory) {
	if (memory == NULL) {
		perror("disk");
		abort();
	}
	return memory;
}

static void make_room(struct bytes *bytes, size_t size) {
	if (size <= bytes->room)
		return;
	bytes->room = size < 128 ? 256 : size + size / 2;
	bytes->data = disk_allocated(realloc(bytes->data, bytes->room));
}

void disk_bytes_cut(struct bytes *bytes, const struct bytes *stale, uint64_t end) {
	size_t size = (size_t)end;

	make_room(bytes, size);
	if (size > bytes->size) {
		memset(bytes->data + bytes->size, 0, size - bytes->size);
		if (stale != NULL && stale->size > bytes->size)
			memcpy(bytes->data + bytes->size, stale->data + bytes->size,
			    (stale->size < size ? stale->size : size) - bytes->size);
	}
	bytes->size = size;
}

void disk_bytes_put(struct bytes *bytes, const struct bytes *stale, uint64_t place,
    const uint8_t *from, size_t length) {
	size_t offset = (size_t)place;

	if (offset + length > bytes->size) {
		make_room(bytes, offset + length);
		if (offset > bytes->size)
			disk_bytes_cut(bytes, stale, offset);
		bytes->size = offset + length;
	}
	if (length > 0)
		memcpy(bytes->data + offset, from, length);
}

struct inode *disk_inode_new(void) {
	return disk_allocated(calloc(1, sizeof(struct inode)));
}

static void release(struct disk_directory *directory, struct inode *inode) {
	if (inode == NULL || --inode->uses > 0)
		return;
	free(directory->stale.data);
	directory->stale = inode->now;
	free(inode->stable.data);
	free(inode->written.data);
	free(inode->unsynced);
	free(inode);
}

struct entry *disk_entry(struct disk_directory *directory, const char *name, bool make) {
	struct entry *entry;

	for (size_t i = 0; i < directory->entry_count; i++)
		if (strcmp(directory->entries[i]->name, name) == 0)
			return directory->entries[i];
	if (!make)
		return NULL;
	if (directory->entry_count == directory->entry_room) {
		directory->entry_room = 2 * directory->entry_room + 16;
		directory->entries = disk_allocated(realloc(directory->entries,
		    directory->entry_room * sizeof(*directory->entries)));
	}
	entry = disk_allocated(calloc(1, sizeof(*entry)));
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	return directory->entries[directory->entry_count++] = entry;
}

static void change(struct disk_directory *directory, struct entry *entry, struct inode *inode) {
	if (entry->change_count == entry->change_room) {
		entry->change_room = 2 * entry->change_room + 2;
		entry->changes = disk_allocated(realloc(entry->changes,
		    entry->change_room * sizeof(*entry->changes)));
	}
	entry->changes[entry->change_count++] = inode;
	if (inode != NULL) {
		inode->names++;
		inode->uses += 2;
	}
	if (entry->now != NULL) {
		entry->now->names--;
		release(directory, entry->now);
	}
	entry->now = inode;
}

static void settle_name(struct disk_directory *directory, struct entry *entry) {
	struct inode *stable;

	if (entry->change_count == 0)
		return;
	stable = entry->changes[entry->change_count - 1];
	if (stable != NULL)
		stable->uses++;
	release(directory, entry->stable);
	entry->stable = stable;
	for (size_t i = 0; i < entry->change_count; i++)
		release(directory, entry->changes[i]);
	entry->change_count = 0;
}

static void settle_names(struct disk_directory *directory) {
	size_t kept = 0;

	for (size_t i = 0; i < directory->entry_count; i++) {
		struct entry *entry = directory->entries[i];

		settle_name(directory, entry);
		if (entry->now != NULL) {
			directory->entries[kept++] = entry;
			continue;
		}
		free(entry->changes);
		free(entry);
	}
	directory->entry_count = kept;
}

/* --- a disk ------------------------------------------------------------------------- */

struct disk *disk_new(void) {
	struct disk *disk = disk_allocated(calloc(1, sizeof(*disk)));

	disk->capacity = DISK_UNLIMITED;
	disk->directory = disk_allocated(calloc(1, sizeof(*disk->directory)));
	return disk;
}

void disk_free(struct disk *disk) {
	struct disk_directory *directory;

	if (disk == NULL)
		return;
	directory = disk->directory;
	for (size_t i = 0; i < directory->handle_count; i++)
		release(directory, directory->handles[i].inode);
	for (size_t i = 0; i < directory->entry_count; i++) {
		struct entry *entry = directory->entries[i];

		if (entry->now != NULL || entry->change_count > 0)
			change(directory, entry, NULL);
		settle_name(directory, entry);
		free(entry->changes);
		free(entry);
	}
	free(directory->entries);
	free(directory->handles);
	free(directory->stale.data);
	free(directory);
	free(disk);
}

static int fault(struct disk *disk, enum disk_act act, const char *name, uint64_t offset,
    size_t length) {
	struct disk_step step = { .act = act, .name = name, .offset = offset,
		.length = length };

	disk->counts.acts[act]++;
	return disk->fault != NULL ? disk->fault(disk->context, &step) : 0;
}

static void boundary(struct disk *disk, enum disk_act act, const char *name,
    uint64_t offset, size_t length) {
	struct disk_step step = { .act = act, .name = name, .offset = offset,
		.length = length };

	if (disk->boundary != NULL)
		disk->boundary(disk->context, &step);
}

static struct inode *inode_of(struct disk *disk, int handle, const char **name) {
	struct disk_directory *directory = disk->directory;

	if (handle < 0 || (size_t)handle >= directory->handle_count ||
	    directory->handles[handle].inode == NULL)
		abort();	/* EBADF: a fault of the caller's */
	*name = "";
	for (size_t i = 0; i < directory->entry_count; i++)
		if (directory->entries[i]->now == directory->handles[handle].inode)
			*name = directory->entries[i]->name;
	return directory->handles[handle].inode;
}

static int new_handle(struct disk_directory *directory, struct inode *inode, bool write) {
	size_t at = 0;

	while (at < directory->handle_count && directory->handles[at].inode != NULL)
		at++;
	if (at == directory->handle_count) {
		directory->handle_count++;
		directory->handles = disk_allocated(realloc(directory->handles,
		    directory->handle_count * sizeof(*directory->handles)));
	}
	inode->uses++;
	directory->handles[at].inode = inode;
	directory->handles[at].write = write;
	return (int)at;
}

int disk_open(struct disk *disk, const char *name, bool create, bool write) {
	struct entry *entry;
	int handle, error = fault(disk, create ? DISK_CREATE : DISK_OPEN, name, 0, write);

	if (error != 0)
		return -error;
	if (strlen(name) >= DISK_NAME_MAX || strchr(name, '/') != NULL)
		return -EINVAL;
	entry = disk_entry(disk->directory, name, create);
	if (entry == NULL || (!create && entry->now == NULL))
		return -ENOENT;
	if (create && entry->now != NULL)
		return -EEXIST;
	if (create)
		change(disk->directory, entry, disk_inode_new());
	handle = new_handle(disk->directory, entry->now, write);
	if (create)
		boundary(disk, DISK_CREATE, name, 0, 0);
	return handle;
}

void disk_close(struct disk *disk, int handle) {
	const char *name;
	struct inode *inode = inode_of(disk, handle, &name);

	disk->directory->handles[handle].inode = NULL;
	release(disk->directory, inode);
}

int64_t disk_read(struct disk *disk, int handle, void *to, size_t length, uint64_t offset) {
	const char *name;
	struct inode *inode = inode_of(disk, handle, &name);
	int error = fault(disk, DISK_READ, name, offset, length);

	if (error != 0)
		return -error;
	if (offset >= inode->now.size)
		return 0;
	if (length > inode->now.size - offset)
		length = inode->now.size - (size_t)offset;
	if (length > 0)
		memcpy(to, inode->now.data + offset, length);
	disk->counts.bytes_read += length;
	return (int64_t)length;
}

static void note_unsynced(struct disk *disk, struct inode *inode, uint64_t offset,
    const void *from, size_t length, bool truncation) {
	struct unsynced *one;

	if (inode->unsynced_count == inode->unsynced_room) {
		inode->unsynced_room = 2 * inode->unsynced_room + 16;
		inode->unsynced = disk_allocated(realloc(inode->unsynced,
		    inode->unsynced_room * sizeof(*inode->unsynced)));
	}
	one = &inode->unsynced[inode->unsynced_count++];
	*one = (struct unsynced){ .offset = offset, .length = length,
		.at = inode->written.size, .order = disk->directory->order++,
		.truncation = truncation };
	if (!truncation)
		disk_bytes_put(&inode->written, NULL, inode->written.size, from, length);
}

uint64_t disk_used(const struct disk *disk) {
	const struct disk_directory *directory = disk->directory;
	uint64_t used = 0;

	for (size_t i = 0; i < directory->entry_count; i++)
		if (directory->entries[i]->now != NULL)
			used += directory->entries[i]->now->now.size;
	return used;
}

/* How much of a write there is room for. */
static size_t fits(const struct disk *disk, const struct inode *inode, size_t length,
    uint64_t offset) {
	uint64_t used, room, end = offset + length;

	if (disk->capacity == DISK_UNLIMITED || end <= inode->now.size)
		return length;
	used = disk_used(disk);
	room = inode->now.size + (used < disk->capacity ? disk->capacity - used : 0);
	if (end <= room)
		return length;
	return room > offset ? (size_t)(room - offset) : 0;
}

int64_t disk_write(struct disk *disk, int handle, const void *from, size_t length,
    uint64_t offset) {
	const char *name;
	struct inode *inode = inode_of(disk, handle, &name);
	int error = fault(disk, DISK_WRITE, name, offset, length);
	size_t taken = length;

	if (!disk->directory->handles[handle].write)
		return -EBADF;
	if (error == EINTR && length > 1)	/* half of it, as a signal would have it */
		taken = length / 2;
	else if (error != 0)
		return -error;
	taken = fits(disk, inode, taken, offset);
	if (taken == 0 && length > 0)
		return -ENOSPC;
	disk_bytes_put(&inode->now, NULL, offset, from, taken);
	note_unsynced(disk, inode, offset, from, taken, false);
	disk->counts.bytes_written += taken;
	boundary(disk, DISK_WRITE, name, offset, taken);
	return (int64_t)taken;
}

int disk_truncate(struct disk *disk, int handle, uint64_t size) {
	const char *name;
	struct inode *inode = inode_of(disk, handle, &name);
	int error = fault(disk, DISK_TRUNCATE, name, size, 0);

	if (error != 0)
		return -error;
	disk_bytes_cut(&inode->now, NULL, size);
	note_unsynced(disk, inode, size, NULL, 0, true);
	boundary(disk, DISK_TRUNCATE, name, size, 0);
	return 0;
}

/* Some of what was dirty is written, the rest lost; nobody will try again. */
static void lose_dirty(struct inode *inode) {
	inode->lost = inode->lost || inode->unsynced_count > 0;
	for (size_t i = 0; i < inode->unsynced_count; i += 2) {
		const struct unsynced *one = &inode->unsynced[i];

		if (!one->truncation)
			disk_bytes_put(&inode->stable, NULL, one->offset,
			    inode->written.data + one->at, one->length / 2);
	}
}

int disk_sync(struct disk *disk, int handle) {
	const char *name;
	struct inode *inode = inode_of(disk, handle, &name);
	int error = fault(disk, DISK_SYNC, name, 0, 0);

	if (error != 0)
		lose_dirty(inode);
	else
		for (size_t i = 0; i < inode->unsynced_count; i++) {
			const struct unsynced *one = &inode->unsynced[i];

			if (one->truncation)
				disk_bytes_cut(&inode->stable, NULL, one->offset);
			else
				disk_bytes_put(&inode->stable, NULL, one->offset,
				    inode->written.data + one->at, one->length);
		}
	inode->unsynced_count = 0;
	inode->written.size = 0;
	if (error == 0 && disk->sync_names_too && name[0] != '\0')
		settle_name(disk->directory, disk_entry(disk->directory, name, false));
	boundary(disk, DISK_SYNC, name, 0, 0);
	return -error;
}

/* It may have been read until now, by other processes, too, and no sync tells of it. */
void disk_doubt(struct disk *disk, int handle, uint64_t offset) {
	const char *name;
	struct inode *inode = inode_of(disk, handle, &name);
	size_t stable = inode->stable.size;

	if (!inode->lost || offset >= inode->now.size)
		return;
	inode->lost = offset > 0;	/* marks before it */
	disk_bytes_cut(&inode->now, NULL, offset);
	if (offset < stable)
		disk_bytes_put(&inode->now, NULL, offset, inode->stable.data + offset,
		    stable - (size_t)offset);
	for (size_t i = 0; i < inode->unsynced_count; i++) {
		const struct unsynced *one = &inode->unsynced[i];

		if (one->truncation)
			disk_bytes_cut(&inode->now, NULL, one->offset);
		else
			disk_bytes_put(&inode->now, NULL, one->offset,
			    inode->written.data + one->at, one->length);
	}
}

int64_t disk_size(struct disk *disk, int handle) {
	const char *name;

	return (int64_t)inode_of(disk, handle, &name)->now.size;
}

unsigned disk_links(struct disk *disk, int handle) {
	const char *name;

	return inode_of(disk, handle, &name)->names;
}

bool disk_is_named(struct disk *disk, int handle, const char *name) {
	const char *any;
	struct entry *entry = disk_entry(disk->directory, name, false);

	return entry != NULL && entry->now == inode_of(disk, handle, &any);
}

int disk_unlink(struct disk *disk, const char *name) {
	struct entry *entry = disk_entry(disk->directory, name, false);
	int error = fault(disk, DISK_UNLINK, name, 0, 0);

	if (error != 0)
		return -error;
	if (entry == NULL || entry->now == NULL)
		return -ENOENT;
	change(disk->directory, entry, NULL);
	boundary(disk, DISK_UNLINK, name, 0, 0);
	return 0;
}

int disk_sync_names(struct disk *disk) {
	int error = fault(disk, DISK_SYNC_NAMES, "", 0, 0);

	if (error != 0)
		return -error;
	settle_names(disk->directory);
	boundary(disk, DISK_SYNC_NAMES, "", 0, 0);
	return 0;
}

int disk_lock(struct disk *disk) {
	return -fault(disk, DISK_LOCK, "", 0, 0);
}

int disk_list(struct disk *disk, bool (*each)(void *context, const char *name), void *context) {
	struct disk_directory *directory = disk->directory;
	int error = fault(disk, DISK_LIST, "", 0, 0);
	size_t end = error == EINTR ? directory->entry_count / 2 : 0;

	if (error != 0 && error != EINTR)
		return -error;
	for (size_t i = directory->entry_count; i-- > end;)
		if (directory->entries[i]->now != NULL &&
		    !each(context, directory->entries[i]->name))
			break;
	return error == EINTR ? -EIO : 0;
}

/* --- other hands ---------------------------------------------------------------------- */

uint8_t *disk_bytes(struct disk *disk, const char *name, size_t *size) {
	struct entry *entry = disk_entry(disk->directory, name, false);

	if (entry == NULL || entry->now == NULL)
		return NULL;
	*size = entry->now->now.size;
	make_room(&entry->now->now, 1);
	return entry->now->now.data;
}

void disk_put(struct disk *disk, const char *name, const void *bytes, size_t size) {
	struct entry *entry = disk_entry(disk->directory, name, true);

	if (entry->now == NULL)
		change(disk->directory, entry, disk_inode_new());
	entry->now->unsynced_count = 0;
	disk_bytes_cut(&entry->now->now, NULL, 0);
	disk_bytes_put(&entry->now->now, NULL, 0, bytes, size);
	disk_bytes_cut(&entry->now->stable, NULL, 0);
	disk_bytes_put(&entry->now->stable, NULL, 0, bytes, size);
	settle_name(disk->directory, entry);
}

void disk_remove(struct disk *disk, const char *name) {
	struct entry *entry = disk_entry(disk->directory, name, false);

	if (entry == NULL || entry->now == NULL)
		return;
	change(disk->directory, entry, NULL);
	settle_name(disk->directory, entry);
}

unsigned disk_handles(const struct disk *disk) {
	unsigned count = 0;

	for (size_t i = 0; i < disk->directory->handle_count; i++)
		count += disk->directory->handles[i].inode != NULL;
	return count;
}

unsigned disk_names(const struct disk *disk) {
	unsigned count = 0;

	for (size_t i = 0; i < disk->directory->entry_count; i++)
		count += disk->directory->entries[i]->now != NULL;
	return count;
}

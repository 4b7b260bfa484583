/* SPDX-License-Identifier: ISC */
/* What a crash leaves of a disk. */
#include "tests/crash/disk_private.h"

#include <stdlib.h>
#include <string.h>

#define SECTOR 512

struct taking {
	struct random *random;
	enum disk_crash crash;
	uint64_t last;		/* the write that is torn, TORN */
	uint32_t keep;		/* of 256, ANY */
	const struct bytes *stale;	/* NULL: zeros */
};

static struct bytes copy(const struct bytes *bytes) {
	struct bytes made = { .data = NULL };

	disk_bytes_put(&made, NULL, 0, bytes->data, bytes->size);
	return made;
}

/* Each sector of a write for itself. */
static void put_sectors(struct taking *taking, struct bytes *to, uint64_t offset,
    const uint8_t *from, size_t length) {
	for (size_t at = 0, next; at < length; at = next) {
		next = at + SECTOR - (offset + at) % SECTOR;
		if (next > length)
			next = length;
		if (random_below(taking->random, 2) == 0)
			disk_bytes_put(to, taking->stale, offset + at, from + at,
			    next - at);
	}
}

static void put_some(struct taking *taking, struct bytes *to, const struct unsynced *one,
    const uint8_t *from) {
	uint32_t drawn = random_below(taking->random, 256);
	size_t cut = random_below(taking->random, (uint32_t)one->length + 1);

	if (drawn < taking->keep) {
		disk_bytes_put(to, taking->stale, one->offset, from, one->length);
		return;
	}
	switch (random_below(taking->random, 8)) {
	case 0: case 1:
		disk_bytes_put(to, taking->stale, one->offset, from, cut);
		break;
	case 2:
		disk_bytes_put(to, taking->stale, one->offset + cut, from + cut,
		    one->length - cut);
		break;
	case 3:
		put_sectors(taking, to, one->offset, from, one->length);
		break;
	case 4:		/* the file has grown, but got nothing */
		if (one->offset + one->length > to->size)
			disk_bytes_cut(to, taking->stale, one->offset + one->length);
		break;
	default:
		break;
	}
}

static void take_write(struct taking *taking, struct bytes *to, const struct unsynced *one,
    const uint8_t *from) {
	size_t length = one->length;

	switch (taking->crash) {
	case DISK_CRASH_TORN:
		if (one->order == taking->last && length > 0)
			length = random_below(taking->random, (uint32_t)length);
		else if (one->order > taking->last)
			break;
		disk_bytes_put(to, taking->stale, one->offset, from, length);
		break;
	case DISK_CRASH_ANY:
		put_some(taking, to, one, from);
		break;
	default:
		break;
	}
}

static bool takes_truncation(struct taking *taking, const struct unsynced *one) {
	return taking->crash == DISK_CRASH_TORN ? one->order < taking->last :
	    taking->crash == DISK_CRASH_ANY && random_below(taking->random, 2) == 0;
}

static struct inode *take_inode(struct taking *taking, const struct inode *inode) {
	struct inode *made = disk_inode_new();

	made->stable = copy(&inode->stable);
	for (size_t i = 0; i < inode->unsynced_count; i++) {
		const struct unsynced *one = &inode->unsynced[i];

		if (!one->truncation)
			take_write(taking, &made->stable, one,
			    inode->written.data + one->at);
		else if (takes_truncation(taking, one))
			disk_bytes_cut(&made->stable, taking->stale, one->offset);
	}
	made->now = copy(&made->stable);
	return made;
}

/* The file that a name has, after none, some or all of its changes. */
static const struct inode *take_name(struct taking *taking, const struct entry *entry) {
	size_t changes = entry->change_count;

	if (taking->crash == DISK_CRASH_DROP)
		changes = 0;
	else if (taking->crash == DISK_CRASH_ANY &&
	    random_below(taking->random, 256) >= taking->keep)
		changes = random_below(taking->random, (uint32_t)changes + 1);
	return changes == 0 ? entry->stable : entry->changes[changes - 1];
}

static uint64_t last_write(const struct disk_directory *directory) {
	uint64_t last = 0;

	for (size_t i = 0; i < directory->entry_count; i++) {
		const struct inode *inode = directory->entries[i]->now;

		if (inode != NULL && inode->unsynced_count > 0 &&
		    inode->unsynced[inode->unsynced_count - 1].order > last)
			last = inode->unsynced[inode->unsynced_count - 1].order;
	}
	return last;
}

/* --- a process died, the kernel lives --------------------------------------------------- */

struct copies {
	const struct inode **of;
	struct inode **made;
	size_t count;
};

static struct inode *copy_inode(struct copies *copies, const struct inode *inode) {
	struct inode *made;

	if (inode == NULL)
		return NULL;
	for (size_t i = 0; i < copies->count; i++)
		if (copies->of[i] == inode)
			return copies->made[i];
	made = disk_inode_new();
	made->now = copy(&inode->now);
	made->stable = copy(&inode->stable);
	made->written = copy(&inode->written);
	made->unsynced_count = made->unsynced_room = inode->unsynced_count;
	if (inode->unsynced_count > 0) {
		made->unsynced = disk_allocated(calloc(inode->unsynced_count,
		    sizeof(*made->unsynced)));
		memcpy(made->unsynced, inode->unsynced,
		    inode->unsynced_count * sizeof(*made->unsynced));
	}
	made->names = inode->names;
	made->lost = inode->lost;
	copies->of = disk_allocated(realloc(copies->of,
	    (copies->count + 1) * sizeof(struct inode *)));
	copies->made = disk_allocated(realloc(copies->made,
	    (copies->count + 1) * sizeof(struct inode *)));
	copies->of[copies->count] = inode;
	copies->made[copies->count++] = made;
	return made;
}

static struct inode *used(struct inode *inode) {
	if (inode != NULL)
		inode->uses++;
	return inode;
}

/* Nothing is lost, and nothing is safer than before. */
static void keep_all(struct disk *left, const struct disk_directory *directory) {
	struct copies copies = { .count = 0 };

	left->directory->order = directory->order;
	for (size_t i = 0; i < directory->entry_count; i++) {
		const struct entry *entry = directory->entries[i];
		struct entry *made = disk_entry(left->directory, entry->name, true);

		made->now = used(copy_inode(&copies, entry->now));
		made->stable = used(copy_inode(&copies, entry->stable));
		made->change_count = made->change_room = entry->change_count;
		if (entry->change_count == 0)
			continue;
		made->changes = disk_allocated(calloc(entry->change_count,
		    sizeof(struct inode *)));
		for (size_t k = 0; k < entry->change_count; k++)
			made->changes[k] = used(copy_inode(&copies, entry->changes[k]));
	}
	free(copies.of);
	free(copies.made);
}

struct disk *disk_crash(const struct disk *disk, enum disk_crash crash, struct random *random) {
	static const uint32_t keeps[] = { 0, 24, 128, 232, 250 };
	const struct disk_directory *directory = disk->directory;
	struct taking taking = { .random = random, .crash = crash,
		.keep = keeps[random_below(random, 5)],
		.last = last_write(directory) };
	struct disk *left = disk_new();

	if (random_below(random, 8) == 0)
		taking.stale = &directory->stale;
	left->capacity = disk->capacity;
	left->sync_names_too = disk->sync_names_too;
	if (crash == DISK_CRASH_KEEP)
		keep_all(left, directory);
	for (size_t i = 0; i < directory->entry_count && crash != DISK_CRASH_KEEP; i++) {
		const struct entry *entry = directory->entries[i];
		const struct inode *inode = take_name(&taking, entry);
		struct entry *made;

		if (inode == NULL)
			continue;
		made = disk_entry(left->directory, entry->name, true);
		made->now = made->stable = take_inode(&taking, inode);
		made->now->names = 1;
		made->now->uses = 2;
	}
	return left;
}

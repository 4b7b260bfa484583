/* SPDX-License-Identifier: ISC */
/* What disk.c and disk_crash.c share. */
#ifndef TESTS_CRASH_DISK_PRIVATE_H
#define TESTS_CRASH_DISK_PRIVATE_H

#include "tests/crash/disk.h"

struct bytes {
	uint8_t *data;
	size_t size, room;
};

/* A write or a truncation that no sync has covered. */
struct unsynced {
	uint64_t offset;	/* of a truncation: the new size */
	size_t length, at;	/* bytes, and where they stand in `written' */
	uint64_t order;		/* of all writes of the disk */
	bool truncation;
};

struct inode {
	struct bytes now;	/* as processes see it */
	struct bytes stable;	/* as it is on the platter */
	struct bytes written;	/* what the writes of `unsynced' wrote */
	struct unsynced *unsynced;
	size_t unsynced_count, unsynced_room;
	bool lost;		/* a sync failed: `now' is not what will be */
	unsigned names, uses;	/* names now; names, stable names, changes, handles */
};

struct entry {
	char name[DISK_NAME_MAX];
	struct inode *now, *stable;	/* NULL: not there */
	struct inode **changes;		/* since the directory was synced; NULL: removed */
	size_t change_count, change_room;
};

struct disk_directory {
	struct entry **entries;
	size_t entry_count, entry_room;
	struct {
		struct inode *inode;
		size_t entry;
		bool write;
	} *handles;
	size_t handle_count;
	uint64_t order;
	struct bytes stale;	/* of the file that went last */
};

void *disk_allocated(void *memory);
/* Writes into `bytes'; a gap becomes zeros, or what `stale' has there. */
void disk_bytes_put(struct bytes *bytes, const struct bytes *stale, uint64_t place,
    const uint8_t *from, size_t length);
void disk_bytes_cut(struct bytes *bytes, const struct bytes *stale, uint64_t end);
struct entry *disk_entry(struct disk_directory *directory, const char *name, bool make);
struct inode *disk_inode_new(void);
#endif

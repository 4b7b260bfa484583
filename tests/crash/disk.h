/* SPDX-License-Identifier: ISC */
/*
 * One directory of a disk, in memory, that promises no more than POSIX does: what was
 * written to a file since its last sync may be kept, lost or torn at any byte, each
 * write for itself and in any order; a name that was made or removed since the last sync
 * of the directory may be there or not, whatever was synced of its file.  What appeared
 * in a file without having been written is zeros, or what an older file had there.
 *
 * Operations return 0 or more, or -errno.  Before each one `fault' is asked for an errno,
 * after each one that changed something `boundary' is called: there a crash can be taken,
 * disk_crash, a new disk that has what the crash left.  Single thread.
 */
#ifndef TESTS_CRASH_DISK_H
#define TESTS_CRASH_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/random.h"

#define DISK_NAME_MAX 64
#define DISK_UNLIMITED UINT64_MAX

enum disk_act {
	DISK_OPEN,
	DISK_CREATE,
	DISK_READ,
	DISK_WRITE,
	DISK_TRUNCATE,
	DISK_SYNC,
	DISK_SYNC_NAMES,	/* of the directory */
	DISK_UNLINK,
	DISK_LIST,
	DISK_LOCK,
	DISK_ACTS
};

struct disk_step {
	enum disk_act act;
	const char *name;	/* "" for the directory */
	uint64_t offset;
	size_t length;
};

enum disk_crash {
	DISK_CRASH_KEEP,	/* only the process died: what was not synced still may go */
	DISK_CRASH_DROP,	/* all that was not synced is gone */
	DISK_CRASH_TORN,	/* in order up to a byte of what was written last */
	DISK_CRASH_ANY,		/* each for itself */
	DISK_CRASHES
};

struct disk_counts {
	uint64_t acts[DISK_ACTS];
	uint64_t bytes_read, bytes_written;
};

struct disk {
	int (*fault)(void *context, const struct disk_step *step);
	void (*boundary)(void *context, const struct disk_step *step);
	void *context;
	uint64_t capacity;	/* bytes; writes beyond it are short, then ENOSPC */
	struct disk_counts counts;
	bool sync_names_too;	/* a sync of a file syncs its name, as ext4's does */
	struct disk_directory *directory;
};

/* Ends the program where there is no memory. */
struct disk *disk_new(void);
void disk_free(struct disk *disk);

/* A handle, 0 or more.  `create': the name must not be there (EEXIST). */
int disk_open(struct disk *disk, const char *name, bool create, bool write);
void disk_close(struct disk *disk, int handle);
int64_t disk_read(struct disk *disk, int handle, void *to, size_t length, uint64_t offset);
int64_t disk_write(struct disk *disk, int handle, const void *from, size_t length,
    uint64_t offset);
int disk_truncate(struct disk *disk, int handle, uint64_t size);
int disk_sync(struct disk *disk, int handle);
int64_t disk_size(struct disk *disk, int handle);
unsigned disk_links(struct disk *disk, int handle);
/* Has the open file that name? */
bool disk_is_named(struct disk *disk, int handle, const char *name);
int disk_unlink(struct disk *disk, const char *name);
int disk_sync_names(struct disk *disk);
/* What a sync that failed has lost from there on is read no more. */
void disk_doubt(struct disk *disk, int handle, uint64_t offset);
int disk_lock(struct disk *disk);	/* 0, or the fault's error */
/* Calls `each' for every name, in no order that means anything, until it returns false.  A
 * fault EINTR: of half of them, then -EIO. */
int disk_list(struct disk *disk, bool (*each)(void *context, const char *name), void *context);

/* What is there after a crash now.  The disk itself goes on. */
struct disk *disk_crash(const struct disk *disk, enum disk_crash crash, struct random *random);

/* By other hands, without a fault and without a boundary. */
uint8_t *disk_bytes(struct disk *disk, const char *name, size_t *size);	/* NULL: no such name */
void disk_put(struct disk *disk, const char *name, const void *bytes, size_t size);
void disk_remove(struct disk *disk, const char *name);
uint64_t disk_used(const struct disk *disk);
unsigned disk_handles(const struct disk *disk);	/* that are open */
unsigned disk_names(const struct disk *disk);
#endif

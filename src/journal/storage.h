/* SPDX-License-Identifier: ISC */
/*
 * All that the journal wants of a file system: one flat directory of files.  Every byte
 * that it reads or writes passes one of these calls, so that tests can put another file
 * system below it which cuts, tears, drops, reorders and fails.
 *
 * What is believed of it, and no more (a crash is one of the machine, not of the process):
 *  - bytes of a file, and its new size, are safe when `sync` of that file came back with 0
 *    after they were written.  Until then each 512-byte piece may be old or new, in any
 *    order, and the size may be anything between; new bytes may read as zeros;
 *  - that a file is there, or is gone, is safe after sync_directory.  Until then each
 *    creation and each unlink may have happened or not, in any order;
 *  - after a `sync` that failed nothing is known of what was not safe before it.
 *
 * All calls give 0 (or what is said) or -errno.  A `file` is a number of the
 * implementation, 0 and above.  One thread, except for `sync` and sync_directory: the log
 * may say them in another thread, of a file that it does not close meanwhile, while its own
 * thread reads and writes that file and others.
 */
#ifndef JOURNAL_STORAGE_H
#define JOURNAL_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"

/* Of the file by which one process has the directory. */
#define JOURNAL_LOCK_NAME	"lock"

#define JOURNAL_NAME_MAX	31	/* bytes of a file's name */

enum journal_access {
	JOURNAL_READ,		/* an existing file */
	JOURNAL_WRITE,		/* an existing file, to read and to write */
	JOURNAL_CREATE,		/* a new one, to read and to write; -EEXIST where there is one */
};

struct journal_storage_calls {
	/* Says `each` with the name of every file, in any order; names longer than
	 * JOURNAL_NAME_MAX may be left out. */
	int (*list)(void *context, void (*each)(void *each_context, const char *name),
	    void *each_context);
	/* The file, 0 and above.  Never follows a link; what is no plain file: -EINVAL. */
	int (*open)(void *context, const char *name, enum journal_access access);
	void (*close)(void *context, int file);
	/* Bytes read, less than `length` at the end of the file alone. */
	ssize_t (*read)(void *context, int file, void *data, size_t length, uint64_t offset);
	/* All of them, or -errno: then any part of them may have been written. */
	int (*write)(void *context, int file, const void *data, size_t length,
	    uint64_t offset);
	/* Bytes and size of the file (fdatasync). */
	int (*sync)(void *context, int file);
	int (*sync_directory)(void *context);
	int (*unlink)(void *context, const char *name);
	int (*size)(void *context, int file, uint64_t *size);
	/* Is the open file still the one of that name in the directory?  0, -ENOENT, or what
	 * is wrong with the directory. */
	int (*check)(void *context, int file, const char *name);
	/* Nobody else may write from here on, until the context is closed; -EAGAIN: somebody
	 * does.  May be said again after an error.  Where the directory was removed, or
	 * replaced by another, it is opened anew. */
	int (*lock)(void *context);
	/* A sync of this file may have failed while another process had it open, which was told
	 * that: what memory has of it from `offset` on (or from somewhat before) and nobody will
	 * write to the disk any more is not to be read again.  May be NULL. */
	void (*doubt)(void *context, int file, uint64_t offset);
	/* These bytes will be read, or one of them written, soon: a hint.  May be NULL. */
	void (*expect)(void *context, int file, uint64_t offset, size_t length);
};

struct journal_storage {
	const struct journal_storage_calls *calls;
	void *context;
};

/* A directory of the real file system.  Its files are made with mode 0600; `lock` makes a
 * file `lock` there and locks it (base/file_lock.h).  `read_only`: nothing is ever created,
 * written or locked (those calls give -EROFS).  A directory that is not there or cannot be
 * opened is told by each call, until it is there: journal_storage_posix fails only without
 * memory (NULL), or with `read_only` and no such directory (NULL, *diag). */
struct journal_storage *journal_storage_posix(const char *path, bool read_only,
    struct diag *diag);
void journal_storage_close(struct journal_storage **storage);

#endif

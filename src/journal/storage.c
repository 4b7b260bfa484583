/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A journal's directory in the real file system.
 * MODEL    All by openat on one descriptor of the directory, so that a renamed parent
 *          changes nothing.  Where the directory itself was removed or replaced, `lock`
 *          opens what is there by its path now.
 * ERRORS   -errno; what was interrupted by a signal goes on.
 * THREADS  The owner's; sync and sync_directory any.
 */
#include "journal/storage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_bytes.h"
#include "base/file_lock.h"

#define PAGE_MOST	(UINT64_C(64) * 1024)	/* of any machine */

struct posix {
	struct journal_storage storage;
	int directory;		/* -1: it could not be opened so far */
	int lock;
	bool locked_to_read;	/* the disk was read-only, or full */
	bool read_only;
	char path[];
};

static int open_directory(struct posix *posix) {
	if (posix->directory < 0)
		posix->directory = open(posix->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return posix->directory < 0 ? -errno : 0;
}

static int list_directory(void *context, void (*each)(void *each_context, const char *name),
    void *each_context) {
	struct posix *posix = context;
	int error = open_directory(posix);
	struct dirent *entry;
	DIR *stream;
	int fd;

	if (error != 0)
		return error;
	/* a descriptor of its own, as the place within the directory belongs to it */
	fd = openat(posix->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	stream = fdopendir(fd);
	if (stream == NULL) {
		error = errno;
		close(fd);
		return -error;
	}
	while (errno = 0, (entry = readdir(stream)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			each(each_context, entry->d_name);
	error = errno;
	closedir(stream);
	return -error;
}

static int open_file(void *context, const char *name, enum journal_access access) {
	static const int flags[] = { [JOURNAL_READ] = O_RDONLY, [JOURNAL_WRITE] = O_RDWR,
		[JOURNAL_CREATE] = O_RDWR | O_CREAT | O_EXCL };
	struct posix *posix = context;
	int error = open_directory(posix);
	struct stat status;
	int file;

	if (error != 0)
		return error;
	if (posix->read_only && access != JOURNAL_READ)
		return -EROFS;
	file = openat(posix->directory, name,
	    flags[access] | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
	if (file < 0)
		return -errno;
	if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
		close(file);
		return -EINVAL;
	}
	return file;
}

static void close_file(void *context, int file) {
	(void)context;
	close(file);
}

static ssize_t read_file(void *context, int file, void *data, size_t length, uint64_t offset) {
	(void)context;
	return file_read_at(file, data, length, offset);
}

static int write_file(void *context, int file, const void *data, size_t length,
    uint64_t offset) {
	(void)context;
	return file_write_at(file, data, length, offset);
}

static int sync_file(void *context, int file) {
	(void)context;
	return fdatasync(file) != 0 ? -errno : 0;
}

static int sync_directory(void *context) {
	struct posix *posix = context;

	if (posix->directory < 0)
		return -ENOENT;
	return fsync(posix->directory) != 0 ? -errno : 0;
}

static int unlink_file(void *context, const char *name) {
	struct posix *posix = context;
	int error = open_directory(posix);

	if (error != 0)
		return error;
	if (posix->read_only)
		return -EROFS;
	return unlinkat(posix->directory, name, 0) != 0 ? -errno : 0;
}

static int size_of(void *context, int file, uint64_t *size) {
	struct stat status;

	(void)context;
	if (fstat(file, &status) != 0)
		return -errno;
	*size = (uint64_t)status.st_size;
	return 0;
}

static bool is_same(const struct stat *a, const struct stat *b) {
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Is what the path names the directory that is open? */
static int check_directory(const struct posix *posix) {
	struct stat open_one, named;

	if (posix->directory < 0 || fstat(posix->directory, &open_one) != 0 ||
	    stat(posix->path, &named) != 0)
		return -ENOENT;
	return is_same(&open_one, &named) ? 0 : -ENOENT;
}

static int check_file(void *context, int file, const char *name) {
	struct posix *posix = context;
	struct stat open_one, named;
	int error = check_directory(posix);

	if (error != 0)
		return error;
	if (fstatat(posix->directory, name, &named, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	if (fstat(file, &open_one) != 0)
		return -errno;
	return is_same(&open_one, &named) ? 0 : -ENOENT;
}

static void let_go(int *fd) {
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int lock_directory(void *context) {
	struct posix *posix = context;
	int error;

	if (posix->read_only)
		return -EROFS;
	if (check_directory(posix) != 0) {
		let_go(&posix->lock);
		let_go(&posix->directory);
	}
	error = open_directory(posix);
	if (error != 0)
		return error;
	if (posix->lock >= 0 && !posix->locked_to_read &&
	    check_file(posix, posix->lock, JOURNAL_LOCK_NAME) == 0)
		return 0;
	let_go(&posix->lock);
	posix->lock = openat(posix->directory, JOURNAL_LOCK_NAME,
	    O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
	error = errno;
	posix->locked_to_read = false;
	if (posix->lock < 0 && (error == EROFS || error == ENOSPC || error == EDQUOT)) {
		posix->locked_to_read = true;	/* nothing can be written yet */
		posix->lock = openat(posix->directory, JOURNAL_LOCK_NAME,
		    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	}
	if (posix->lock < 0)
		return -error;
	if (file_lock(posix->lock, !posix->locked_to_read) != 0) {
		error = errno;
		let_go(&posix->lock);
		return -error;
	}
	return 0;
}

static void expect_bytes(void *context, int file, uint64_t offset, size_t length) {
	(void)context;
	(void)posix_fadvise(file, (off_t)offset, (off_t)length, POSIX_FADV_WILLNEED);
}

/* Pages that are dirty yet stay; one that could not be written is no longer dirty.  A page of
 * which a part is meant would stay, too. */
static void doubt_bytes(void *context, int file, uint64_t offset) {
	(void)context;
	(void)posix_fadvise(file, (off_t)(offset - offset % PAGE_MOST), 0, POSIX_FADV_DONTNEED);
}

static const struct journal_storage_calls posix_calls = {
	.list = list_directory,
	.open = open_file,
	.close = close_file,
	.read = read_file,
	.write = write_file,
	.sync = sync_file,
	.sync_directory = sync_directory,
	.unlink = unlink_file,
	.size = size_of,
	.check = check_file,
	.lock = lock_directory,
	.doubt = doubt_bytes,
	.expect = expect_bytes,
};

struct journal_storage *journal_storage_posix(const char *path, bool read_only,
    struct diag *diag) {
	size_t length = strlen(path);
	struct posix *posix = malloc(sizeof(*posix) + length + 1);
	int error;

	if (posix == NULL) {
		diag_set(diag, ENOMEM, "%s", path);
		return NULL;
	}
	*posix = (struct posix){ .directory = -1, .lock = -1, .read_only = read_only };
	posix->storage = (struct journal_storage){ &posix_calls, posix };
	memcpy(posix->path, path, length + 1);
	error = open_directory(posix);
	if (error != 0 && read_only) {
		diag_set(diag, -error, "%s", path);
		free(posix);
		return NULL;
	}
	return &posix->storage;
}

void journal_storage_close(struct journal_storage **storage) {
	struct posix *posix;

	if (*storage == NULL)
		return;
	posix = (*storage)->context;
	let_go(&posix->lock);
	let_go(&posix->directory);
	free(posix);
	*storage = NULL;
}

/* SPDX-License-Identifier: ISC */
/*
 * The buffer is the caller's and empty between calls: what is no whole line yet is
 * read again, so that the place is always where a line begins.
 */
#include "front/followed_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

/* A writer that was told to reopen its log does so within this time. */
#define BEFORE_NS	(30 * NS_PER_SECOND)

static const struct followed_file none = { .fd = -1 };

static void close_file(struct followed_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	*file = none;
}

/* Takes the descriptor over; false: it is no regular file. */
static bool take_file(struct followed_file *file, int fd, off_t *size)
{
	struct stat status;

	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
		errno = EINVAL;
		close(fd);
		return false;
	}
	*file = (struct followed_file){ .fd = fd, .device = status.st_dev,
		.inode = status.st_ino };
	*size = status.st_size;
	return true;
}

/* At its end; where that is within a line, the rest of it is not wanted. */
static void start_at_end(struct followed_file *file, off_t size)
{
	char last;

	file->offset = (uint64_t)size;
	file->skipping = size > 0 &&
	    pread(file->fd, &last, 1, size - 1) == 1 && last != '\n';
}

static int open_path(const char *path)
{
	return open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void followed_log_open(struct followed_log *log, const char *path, int fd,
    const struct followed_place *from)
{
	off_t size;

	memset(log, 0, sizeof(*log));
	log->file = none;
	log->before = none;
	(void)text_copy(log->path, sizeof(log->path), path, strlen(path));
	if (fd < 0)
		fd = open_path(path);
	if (fd < 0 || !take_file(&log->file, fd, &size)) {
		log->error = errno;
		log->appeared = errno == ENOENT || from != NULL;
		return;
	}
	if (from == NULL) {
		start_at_end(&log->file, size);
	} else if (from->device == log->file.device && from->inode == log->file.inode) {
		log->file.offset = from->offset;	/* beyond its end: cut, found later */
	} else {
		log->replaced++;	/* while nobody looked: all of it is new */
	}
}

void followed_log_before(struct followed_log *log, int fd, const struct followed_place *from,
    int64_t now_ns)
{
	struct followed_file before;
	off_t size;

	if (!take_file(&before, fd, &size))
		return;
	if (before.device != from->device || before.inode != from->inode ||
	    (log->file.fd >= 0 && before.inode == log->file.inode)) {
		close_file(&before);
		return;
	}
	before.offset = from->offset;
	close_file(&log->before);
	log->before = before;
	log->before_waits = true;
	log->before_until_ns = now_ns + BEFORE_NS;
}

void followed_log_close(struct followed_log *log)
{
	close_file(&log->file);
	close_file(&log->before);
}

/* Gives the whole lines of the buffer away; returns how many bytes they are. */
static size_t give_lines(struct followed_log *log, struct followed_file *file,
    const char *buffer, size_t length, followed_line each, void *context)
{
	const char *line = buffer, *end = buffer + length, *newline;

	while ((newline = memchr(line, '\n', (size_t)(end - line))) != NULL) {
		size_t bytes = (size_t)(newline - line);

		if (file->skipping)
			file->skipping = false;
		else if (bytes > FOLLOWED_LINE_MAX)
			log->long_lines++;
		else
			each(context, line, bytes);
		line = newline + 1;
	}
	if (file->skipping || end - line > FOLLOWED_LINE_MAX) {
		log->long_lines += !file->skipping;
		file->skipping = true;
		line = end;
	}
	return (size_t)(line - buffer);
}

/* True: the buffer was full. */
static bool read_file(struct followed_log *log, struct followed_file *file, char *buffer,
    size_t size, followed_line each, void *context)
{
	struct stat status;
	ssize_t n;

	if (file->fd < 0)
		return false;
	if (fstat(file->fd, &status) == 0 && (uint64_t)status.st_size < file->offset) {
		log->truncated++;
		file->offset = 0;
		file->skipping = false;
	}
	n = pread(file->fd, buffer, size, (off_t)file->offset);
	if (n <= 0)
		return false;
	file->offset += give_lines(log, file, buffer, (size_t)n, each, context);
	return (size_t)n == size;
}

bool followed_log_read(struct followed_log *log, char *buffer, size_t buffer_size,
    followed_line each, void *context)
{
	/* in the order in which they were written */
	log->before_waits = read_file(log, &log->before, buffer, buffer_size, each, context);
	if (log->before_waits)
		return true;
	return read_file(log, &log->file, buffer, buffer_size, each, context);
}

static bool is_same(const struct followed_file *file, const struct stat *status)
{
	return file->fd >= 0 && file->device == status->st_dev && file->inode == status->st_ino;
}

/* Another file is at the path. */
static bool change(struct followed_log *log, int64_t now_ns)
{
	struct followed_file next;
	off_t size;
	int fd = open_path(log->path);

	if (fd < 0 || !take_file(&next, fd, &size)) {
		log->error = errno;
		return errno == EACCES || errno == EPERM;
	}
	log->error = 0;
	if (log->file.fd < 0) {
		log->file = next;
		if (!log->appeared)
			start_at_end(&log->file, size);
		return false;
	}
	close_file(&log->before);
	log->before = log->file;
	log->before_until_ns = now_ns + BEFORE_NS;
	log->file = next;
	log->replaced++;
	return false;
}

bool followed_log_look(struct followed_log *log, int64_t now_ns)
{
	struct stat status;

	if (log->before.fd >= 0 && now_ns > log->before_until_ns)
		close_file(&log->before);
	if (stat(log->path, &status) != 0) {
		/* removed: what we have is read on until there is another one */
		log->error = errno;
		log->appeared = log->appeared || errno == ENOENT;
		return false;
	}
	if (is_same(&log->file, &status)) {
		log->error = 0;
		return false;
	}
	/* an empty one has nothing to tell, and its writer may be with the old one */
	if (log->file.fd >= 0 && S_ISREG(status.st_mode) && status.st_size == 0)
		return false;
	return change(log, now_ns);
}

bool followed_log_place(const struct followed_log *log, struct followed_place *out)
{
	const struct followed_file *file = log->before_waits ? &log->before : &log->file;

	if (file->fd < 0)
		return false;
	*out = (struct followed_place){ file->device, file->inode, file->offset };
	return true;
}

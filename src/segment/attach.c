/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The segment's file as a process maps it.
 * MODEL    What any role can write there may change at any moment.  Sizes and places are
 *          therefore the process's own copy, which is checked; the rest is checked where it is
 *          read.
 * ERRORS   Of the environment, and what is no segment of ours: diag.
 * THREADS  One, before any other uses the handle.
 */
#include "segment/file/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "base/trusted_path.h"
#include "segment/geometry.h"
#include "segment/onlooker.h"

void segment_bind(struct segment *segment, void *mapping) {
	char *base = mapping;
	struct segment_header *header = mapping;

	segment->header = header;
	segment->counters = header->counters;
	segment->records = (void *)(base + header->records_offset);
	segment->session_shards = (void *)(base + header->shards_offset);
	segment->session_lines = (void *)(base + header->lines_offset);
	segment->session_slots = (void *)(base + header->slots_offset);
}

int segment_own_fixed(void *mapping, int fd) {
	_Static_assert(offsetof(struct segment_header, generation) == SEGMENT_FIXED_BYTES,
	    "what lives begins on another page");
	ssize_t got;

	if (mmap(mapping, SEGMENT_FIXED_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0) == MAP_FAILED)
		return errno;
	got = pread(fd, mapping, SEGMENT_FIXED_BYTES, 0);
	if (got != SEGMENT_FIXED_BYTES)
		return got < 0 ? errno : EIO;
	return mprotect(mapping, SEGMENT_FIXED_BYTES, PROT_READ) == 0 ? 0 : errno;
}

struct segment_header *segment_header(const struct segment *segment) {
	return segment->header;
}

const char *segment_path(const struct segment *segment) {
	return segment->path;
}

const char *segment_check_layout(const struct segment_header *header, uint64_t bytes) {
	if (atomic_load(&header->magic) != SEGMENT_MAGIC)
		return "not a complete state file";
	if (header->version != SEGMENT_VERSION ||
	    header->layout != segment_layout_hash() ||
	    header->header_bytes != sizeof(*header))
		return "its layout is different";
	if (!segment_geometry_valid(header, bytes))
		return "its sizes are inconsistent";
	return NULL;
}

const char *segment_check_file(int fd, uid_t uid, struct stat *status) {
	if (fstat(fd, status) != 0 || !S_ISREG(status->st_mode))
		return "not a regular file";
	if (status->st_uid != uid && status->st_uid != geteuid())
		return "it belongs to another user";
	if ((uint64_t)status->st_size < sizeof(struct segment_header))
		return "it is too small";
	if ((uint64_t)status->st_size >= SIZE_MAX - SEGMENT_LARGE_PAGE)
		return "it is too large";
	return NULL;
}

int segment_open_file(const char *path, uid_t uid, struct diag *diag) {
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat status;

	if (fd < 0)
		return diag_set(diag, errno, "cannot open %s", path);
	/* root opens it for others, in a directory of theirs: it may be any file by now */
	if (trusted_path_is_only_name(fd, AT_FDCWD, path, &status) &&
	    S_ISREG(status.st_mode) && status.st_uid == uid)
		return fd;
	close(fd);
	return diag_set(diag, 0, "%s was replaced", path);
}

int segment_open_to_look(int fd, struct diag *diag) {
	char name[32];
	int look_fd;

	/* the same file, whatever its name leads to by now */
	text_append(name, sizeof(name), 0, "/proc/self/fd/%d", fd);
	look_fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return look_fd >= 0 ? look_fd : diag_set(diag, errno, "cannot open the state for "
	    "reading");
}

void *segment_map(int fd, size_t bytes, int access) {
	size_t room = bytes + SEGMENT_LARGE_PAGE, before, behind;
	char *reserved, *at;

	reserved = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (reserved == MAP_FAILED)
		return MAP_FAILED;
	before = -(uintptr_t)reserved % SEGMENT_LARGE_PAGE;
	at = mmap(reserved + before, bytes, access, MAP_SHARED | MAP_FIXED, fd, 0);
	if (at == MAP_FAILED) {
		munmap(reserved, room);
		return MAP_FAILED;
	}
	/* the file has whole pages */
	behind = room - before - bytes;
	if (before > 0)
		munmap(reserved, before);
	if (behind > 0)
		munmap(at + bytes, behind);
	return at;
}

static int file_attach(struct segment **result, int fd, int access, const char *path,
    struct diag *diag) {
	struct segment *segment = calloc(1, sizeof(*segment));
	const char *why = "no memory";
	void *mapping = MAP_FAILED, *fixed = NULL;
	struct stat status;

	*result = NULL;
	if (segment != NULL && (why = segment_check_file(fd, geteuid(), &status)) == NULL &&
	    (mapping = segment_map(fd, (size_t)status.st_size, access)) == MAP_FAILED)
		why = "it cannot be mapped";
	if (why == NULL && (access & PROT_WRITE) != 0 && (fixed = mmap(NULL, SEGMENT_FIXED_BYTES,
		access, MAP_SHARED, fd, 0)) == MAP_FAILED)
		why = "it cannot be mapped";
	if (why == NULL && segment_own_fixed(mapping, fd) != 0)
		why = "its sizes cannot be copied";
	close(fd);
	if (why == NULL && (why = segment_check_layout(mapping, (uint64_t)status.st_size)) == NULL) {
		segment_bind(segment, mapping);
		segment->fixed_in_file = fixed;
		segment->readers = status.st_gid;
		segment->device = status.st_dev;
		segment->inode = status.st_ino;
		text_copy(segment->path, sizeof(segment->path), path, strlen(path));
		*result = segment;
		return 0;
	}
	if (mapping != MAP_FAILED)
		munmap(mapping, (size_t)status.st_size);
	if (fixed != NULL && fixed != MAP_FAILED)
		munmap(fixed, SEGMENT_FIXED_BYTES);
	free(segment);
	return diag_set(diag, 0, "%s: %s", path, why);
}

int segment_attach(struct segment **segment, int fd, const char *path, struct diag *diag) {
	return file_attach(segment, fd, PROT_READ | PROT_WRITE, path, diag);
}

int segment_attach_to_look(struct segment **segment, int fd, const char *path,
    struct onlooker *onlooker, struct diag *diag) {
	if (file_attach(segment, fd, PROT_READ, path, diag) != 0)
		return -1;
	(*segment)->onlooker = onlooker;
	(*segment)->counters = onlooker->counters;
	return 0;
}

/* Is the file that is mapped the one at its path? */
static bool segment_is_in_place(const struct segment *segment) {
	struct stat status;

	return lstat(segment->path, &status) == 0 && status.st_dev == segment->device &&
	    status.st_ino == segment->inode;
}

bool segment_restore(struct segment *segment, pid_t supervisor_pid) {
	struct segment_header *header = segment->header;
	bool is_fixed = memcmp(segment->fixed_in_file, header, SEGMENT_FIXED_BYTES) != 0;
	bool is_replaced = atomic_load(&header->replaced) != 0 && segment_is_in_place(segment);
	bool is_other = atomic_load(&header->supervisor_pid) != supervisor_pid;

	if (is_fixed)
		memcpy(segment->fixed_in_file, header, SEGMENT_FIXED_BYTES);
	if (is_replaced)
		atomic_store(&header->replaced, 0);
	if (is_other)
		atomic_store(&header->supervisor_pid, supervisor_pid);
	if (!is_fixed && !is_replaced && !is_other)
		return false;
	segment_count(segment, COUNTER_REPAIRS, 1);
	return true;
}

void segment_unmap(struct segment **segment) {
	if (*segment == NULL)
		return;
	if ((*segment)->fixed_in_file != NULL)
		munmap((*segment)->fixed_in_file, SEGMENT_FIXED_BYTES);
	munmap((*segment)->header, (size_t)(*segment)->header->bytes);
	free(*segment);
	*segment = NULL;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Take up a published configuration.
 * MODEL    Roles own its file, and any of them may have been taken over: it may change, grow or
 *          be cut at any moment.  So its bytes are copied once; the copy is checked, cannot be
 *          written to from then on, and is all that is used.
 * ERRORS   A file that is none, or is cut while it is read: diag, and nothing is mapped.
 * THREADS  Any.
 */
#include "segment/file/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_bytes.h"
#include "segment/reader.h"

void segment_config_path(const struct segment *segment, uint64_t number,
    const char *suffix, char out[PATH_MAX + 32]) {
	snprintf(out, PATH_MAX + 32, "%s.config.%llu%s", segment->path,
	    (unsigned long long)number, suffix);
}

/* Whoever decides goes by the numbers of the classes' records unasked. */
static int check_records(const struct segment *segment, const struct generation *generation,
    struct diag *diag) {
	for (uint32_t c = 0; c < generation->class_count; c++)
		if (generation_class(generation, c)->record >= segment->header->record_count)
			return diag_set(diag, 0, "its class %u has no record", c);
	return 0;
}

/* Into memory that cannot be written to afterwards. */
static int read_bytes(int fd, char *to, size_t bytes, const char *path, struct diag *diag) {
	ssize_t got = file_read_at(fd, to, bytes, 0);

	if (got != (ssize_t)bytes)
		return diag_set(diag, got < 0 ? (int)-got : 0, "cannot read %s", path);
	return mprotect(to, bytes, PROT_READ) == 0 ? 0 :
	    diag_set(diag, errno, "cannot protect the copy of %s", path);
}

/* NULL with *diag. */
static void *copy_file(int fd, const char *path, size_t *bytes, struct diag *diag) {
	struct stat status;
	void *copy;

	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	    (uint64_t)status.st_size < sizeof(struct generation) ||
	    (uint64_t)status.st_size > GENERATION_BYTES_MAX) {
		diag_set(diag, 0, "%s has an invalid size for a configuration", path);
		return NULL;
	}
	*bytes = (size_t)status.st_size;
	copy = mmap(NULL, *bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (copy == MAP_FAILED) {
		diag_set(diag, errno, "no memory for %s", path);
		return NULL;
	}
	if (read_bytes(fd, copy, *bytes, path, diag) == 0)
		return copy;
	munmap(copy, *bytes);
	return NULL;
}

int reader_generation_open(int fd, const char *path, const struct generation **generation,
    struct diag *diag) {
	size_t bytes;
	void *copy = copy_file(fd, path, &bytes, diag);

	if (copy == NULL)
		return -1;
	if (generation_verify(copy, bytes, diag) != 0) {
		munmap(copy, bytes);
		return -1;
	}
	*generation = copy;
	return 0;
}

void segment_unmap_generation(const struct generation *generation) {
	munmap((void *)(uintptr_t)generation, (size_t)generation->bytes);
}

int segment_map_generation(const struct segment *segment, uint64_t number,
    const struct generation **generation, struct diag *diag) {
	char path[PATH_MAX + 32];
	int fd, result;

	segment_config_path(segment, number, "", path);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return diag_set(diag, errno, "cannot open %s", path);
	result = reader_generation_open(fd, path, generation, diag);
	close(fd);
	if (result != 0)
		return -1;
	if (check_records(segment, *generation, diag) == 0)
		return 0;
	segment_unmap_generation(*generation);
	return -1;
}

bool segment_generation_is_there(const struct segment *segment, uint64_t number) {
	char path[PATH_MAX + 32];
	struct stat status;

	segment_config_path(segment, number, "", path);
	return !segment->unnamed && lstat(path, &status) == 0 && S_ISREG(status.st_mode) &&
	    (uint64_t)status.st_size >= sizeof(struct generation);
}

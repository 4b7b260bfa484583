/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Hand a generation from the process that compiled it to the one that publishes it.
 * MODEL    memfd_create(2) with all seals: the reader copies what cannot change under it, and
 *          verifies the copy.
 * ERRORS   Of the environment, and of a file that is no sealed generation: diag.
 * THREADS  Any.
 */
#include "role/generation_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS	(F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

int generation_memory_write(int fd, const void *bytes, size_t length) {
	const char *from = bytes;
	size_t left = length;

	while (left > 0) {
		ssize_t written = write(fd, from, left);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return -1;
		from += written;
		left -= (size_t)written;
	}
	return 0;
}

int generation_memory_open(struct diag *diag) {
	int fd = memfd_create("postern-generation", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	return fd >= 0 ? fd :
	    diag_set(diag, errno, "cannot keep the configuration in memory");
}

int generation_memory_fill(int fd, const struct generation *generation, struct diag *diag) {
	return generation_memory_write(fd, generation, generation->bytes) == 0 &&
	    fcntl(fd, F_ADD_SEALS, SEALS) == 0 ? 0 :
	    diag_set(diag, errno, "cannot keep the configuration in memory");
}

int generation_memory_make(const struct generation *generation, struct diag *diag) {
	int fd = generation_memory_open(diag);

	if (fd >= 0 && generation_memory_fill(fd, generation, diag) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static int read_all(int fd, char *to, size_t size) {
	for (size_t at = 0; at < size; ) {
		ssize_t length = pread(fd, to + at, size - at, (off_t)at);

		if (length < 0 && errno == EINTR)
			continue;
		if (length <= 0)
			return -1;
		at += (size_t)length;
	}
	return 0;
}

struct generation *generation_memory_read(int fd, struct diag *diag) {
	struct generation *copy;
	struct stat status;
	size_t bytes;

	if (fstat(fd, &status) != 0 || fcntl(fd, F_GET_SEALS) != SEALS) {
		diag_set(diag, 0, "the configuration is not in sealed memory");
		return NULL;
	}
	bytes = (size_t)status.st_size;
	if (bytes < sizeof(*copy) || (copy = malloc(bytes)) == NULL) {
		diag_set(diag, 0, "no memory for the configuration");
		return NULL;
	}
	if (read_all(fd, (char *)copy, bytes) != 0)
		diag_set(diag, errno, "cannot read the configuration");
	else if (generation_verify(copy, bytes, diag) == 0)
		return copy;
	free(copy);
	return NULL;
}

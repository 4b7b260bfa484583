/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Hand a generation from the process that compiled it to the one that publishes it.
 * MODEL    memfd_create(2) with all seals: what the reader has mapped and verified cannot
 *          change or be cut under it; pages that it writes are its own.
 * ERRORS   Of the environment, and of a file that is no sealed generation: diag.
 * THREADS  Any.
 */
#include "role/link/generation_memory.h"

#include <errno.h>
#include <fcntl.h>
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
	return generation_memory_write(fd, generation, (size_t)generation->bytes) == 0 &&
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

struct generation *generation_memory_map(int fd, struct diag *diag) {
	struct generation *generation;
	struct stat status;
	size_t bytes;

	if (fstat(fd, &status) != 0 || fcntl(fd, F_GET_SEALS) != SEALS) {
		diag_set(diag, 0, "the configuration is not in sealed memory");
		return NULL;
	}
	bytes = (size_t)status.st_size;
	if (bytes < sizeof(*generation)) {
		diag_set(diag, 0, "the configuration is cut");
		return NULL;
	}
	generation = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (generation == MAP_FAILED) {
		diag_set(diag, errno, "no memory for the configuration");
		return NULL;
	}
	if (generation_verify(generation, bytes, diag) == 0)
		return generation;
	(void)munmap(generation, bytes);
	return NULL;
}

void generation_memory_unmap(struct generation *generation) {
	if (generation != NULL)
		(void)munmap(generation, (size_t)generation->bytes);
}

/* SPDX-License-Identifier: ISC */
/*
 * A disk that fails, for LD_PRELOAD: pread, pwrite, fdatasync and fsync of files of one device
 * end with EIO while they are told to.  Who tells maps the file BAD_DISK names (lib/bad_disk.py):
 * the device, which calls fail, and how many have.  It is mapped once, so that processes that
 * may do nothing any more but their work are told, too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READS = 1, WRITES = 2, SYNCS = 4 };

struct told {
	_Atomic uint64_t device;
	_Atomic uint64_t fail;
	_Atomic uint64_t failed;
};

static struct told *told;

__attribute__((constructor)) static void begin(void) {
	const char *path = getenv("BAD_DISK");
	int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (told == MAP_FAILED)
		told = NULL;
	close(fd);
}

static int fails(int fd, uint64_t what) {
	struct stat status;

	if (told == NULL || (atomic_load(&told->fail) & what) == 0 ||
	    fstat(fd, &status) != 0 || status.st_dev != atomic_load(&told->device))
		return 0;
	atomic_fetch_add(&told->failed, 1);
	errno = EIO;
	return 1;
}

#define NEXT(type, name, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

ssize_t pread(int fd, void *to, size_t length, off_t offset) {
	return fails(fd, READS) ? -1 :
	    NEXT(ssize_t, pread, int, void *, size_t, off_t)(fd, to, length, offset);
}

ssize_t pread64(int fd, void *to, size_t length, off64_t offset) {
	return fails(fd, READS) ? -1 :
	    NEXT(ssize_t, pread64, int, void *, size_t, off64_t)(fd, to, length, offset);
}

ssize_t pwrite(int fd, const void *from, size_t length, off_t offset) {
	return fails(fd, WRITES) ? -1 :
	    NEXT(ssize_t, pwrite, int, const void *, size_t, off_t)(fd, from, length, offset);
}

ssize_t pwrite64(int fd, const void *from, size_t length, off64_t offset) {
	return fails(fd, WRITES) ? -1 :
	    NEXT(ssize_t, pwrite64, int, const void *, size_t, off64_t)(fd, from, length, offset);
}

int fdatasync(int fd) {
	return fails(fd, SYNCS) ? -1 : NEXT(int, fdatasync, int)(fd);
}

int fsync(int fd) {
	return fails(fd, SYNCS) ? -1 : NEXT(int, fsync, int)(fd);
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  One number that tells whether a file is another one by now.
 * ERRORS   What cannot be seen is not there.
 * THREADS  Any.
 */
#include "base/file_stamp.h"

#include <sys/stat.h>

#include "base/text.h"

/* Nobody gains by two stamps that are equal. */
static uint64_t stamp_of(const uint64_t *words, size_t count) {
	uint64_t hash = text_hash(0, words, count * sizeof(*words));

	return hash == 0 ? 1 : hash;
}

uint64_t file_stamp_of(const struct stat *status) {
	/* two changes may be of one tick */
	return stamp_of((const uint64_t[]){ (uint64_t)status->st_dev, (uint64_t)status->st_ino,
		(uint64_t)status->st_size, (uint64_t)status->st_mtim.tv_sec,
		(uint64_t)status->st_mtim.tv_nsec, (uint64_t)status->st_ctim.tv_sec,
		(uint64_t)status->st_ctim.tv_nsec }, 7);
}

uint64_t file_stamp(const char *path) {
	struct stat status;

	if (stat(path, &status) != 0)
		return 0;
	return stamp_of((const uint64_t[]){ (uint64_t)status.st_ino, (uint64_t)status.st_size,
		(uint64_t)status.st_mtim.tv_sec, (uint64_t)status.st_mtim.tv_nsec }, 4);
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  One number that tells whether a file is another one by now.
 * ERRORS   What cannot be seen is not there.
 * THREADS  Any.
 */
#include "base/file_stamp.h"

#include <sys/stat.h>

/* FNV-1a: nobody gains by two stamps that are equal. */
static uint64_t mix(uint64_t hash, uint64_t value) {
	for (unsigned i = 0; i < 8; i++, value >>= 8)
		hash = (hash ^ (value & 0xff)) * UINT64_C(0x100000001b3);
	return hash;
}

uint64_t file_stamp_of(const struct stat *status) {
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	hash = mix(hash, (uint64_t)status->st_ino);
	hash = mix(hash, (uint64_t)status->st_ctim.tv_sec);
	hash = mix(hash, (uint64_t)status->st_ctim.tv_nsec);
	return hash == 0 ? 1 : hash;
}

uint64_t file_stamp(const char *path) {
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	struct stat status;

	if (stat(path, &status) != 0)
		return 0;
	hash = mix(hash, (uint64_t)status.st_ino);
	hash = mix(hash, (uint64_t)status.st_size);
	hash = mix(hash, (uint64_t)status.st_mtim.tv_sec);
	hash = mix(hash, (uint64_t)status.st_mtim.tv_nsec);
	return hash == 0 ? 1 : hash;
}

/* SPDX-License-Identifier: ISC */
/* A directory of the test's own, and the files of the sources. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <ftw.h>
#include <sys/stat.h>

#include "tests/unit/check.h"

static char scratch[] = "/tmp/postern-test-XXXXXX";

/* Fixtures: made, and removed with all that is in it. */
static inline int scratch_open(void **state) {
	memcpy(scratch + sizeof(scratch) - 7, "XXXXXX", 6);
	return mkdtemp(scratch) == NULL ? -1 : 0;
}

static inline int scratch_remove_one(const char *path, const struct stat *status, int type,
    struct FTW *where) {
	return remove(path);
}

static inline int scratch_close(void **state) {
	return nftw(scratch, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Where a file of that name is; good for the next three calls. */
static inline const char *scratch_path(const char *name) {
	static char paths[4][256];
	static unsigned turn;

	turn = (turn + 1) % 4;
	snprintf(paths[turn], sizeof(paths[turn]), "%s/%s", scratch, name);
	return paths[turn];
}

static inline void scratch_write_bytes(const char *name, const void *bytes, size_t length) {
	FILE *file = fopen(scratch_path(name), "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

static inline void scratch_write(const char *name, const char *text) {
	scratch_write_bytes(name, text, strlen(text));
}

/* A shell script that can be run. */
static inline void scratch_write_program(const char *name, const char *script) {
	FILE *file = fopen(scratch_path(name), "w");

	assert_non_null(file);
	fprintf(file, "#!/bin/sh\n%s\n", script);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(scratch_path(name), 0755), 0);
}

/* What a file says, which is removed; "": there is none. */
static inline const char *scratch_take(const char *name) {
	static char content[8192];
	FILE *file = fopen(scratch_path(name), "r");
	size_t length = 0;

	if (file != NULL) {
		length = fread(content, 1, sizeof(content) - 1, file);
		fclose(file);
		unlink(scratch_path(name));
	}
	content[length] = '\0';
	return content;
}

#endif

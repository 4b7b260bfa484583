/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Numbers that postern-lookup may use.
 * MODEL    A word for each source and provider, changed in one piece by whoever may write.  Beside it
 *          stands whose it is, for a keeper that comes after the one that made the file.
 * ERRORS   A file that was cut is not touched; where it is cut at that moment, hints_guard.c.
 * THREADS  One in each process.
 */
#include "segment/hints/given.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/relaxed.h"
#include "segment/hints/hints_guard.h"

#define GIVEN_MAGIC	UINT64_C(0x31564e4549475350)	/* "PSGIENV1" */

struct given_cell {
	_Atomic uint64_t key;		/* segment/hints/sources.h; 0: nobody's */
	_Atomic uint32_t left;
	uint32_t reserved;
};

struct given_file {
	uint64_t magic;
	uint64_t id;
	char boot_id[CLOCK_BOOT_ID];
	struct given_cell cells[GIVEN_ROWS][GIVEN_COLUMNS];
};

struct given_out {
	struct given_file *file;
	int fd;
	uint64_t id;			/* as it was when it was opened */
};

static bool path_of(const char *hints_path, const char *suffix, char out[PATH_MAX]) {
	int length = snprintf(out, PATH_MAX, "%s.given%s", hints_path, suffix);

	return length > 0 && length < PATH_MAX;
}

static struct given_out *map(int fd) {
	struct given_out *given = calloc(1, sizeof(*given));
	void *file = mmap(NULL, sizeof(struct given_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (given == NULL || file == MAP_FAILED) {
		if (file != MAP_FAILED)
			munmap(file, sizeof(struct given_file));
		free(given);
		close(fd);
		return NULL;
	}
	given->file = file;
	given->fd = fd;
	given_guard(file, sizeof(struct given_file));
	return given;
}

bool given_was_cut(const struct given_out *given) {
	struct stat status;

	return given_guard_was_cut(given->file) || fstat(given->fd, &status) != 0 ||
	    (uint64_t)status.st_size < sizeof(struct given_file);
}

bool given_is_gone(const struct given_out *given) {
	struct stat status;

	return fstat(given->fd, &status) != 0 || status.st_nlink == 0;
}

void given_free(struct given_out **given) {
	if (*given != NULL) {
		given_guard(NULL, 0);
		munmap((*given)->file, sizeof(struct given_file));
		close((*given)->fd);
	}
	free(*given);
	*given = NULL;
}

struct given_out *given_open(const char *hints_path) {
	struct given_out *given = NULL;
	char path[PATH_MAX], boot_id[CLOCK_BOOT_ID];
	struct stat status;
	int fd;

	if (!path_of(hints_path, "", path) || !clock_boot_id(boot_id))
		return NULL;
	fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	    (uint64_t)status.st_size < sizeof(struct given_file)) {
		close(fd);
		return NULL;
	}
	given = map(fd);
	if (given == NULL)
		return NULL;
	given->id = given->file->id;
	if (given->file->magic != GIVEN_MAGIC ||
	    memcmp(given->file->boot_id, boot_id, sizeof(boot_id)) != 0)
		given_free(&given);
	return given;
}

uint32_t given_close_key(struct given_out *given, uint64_t key) {
	for (unsigned i = 0; i < GIVEN_ROWS * GIVEN_COLUMNS; i++) {
		struct given_cell *cell = &given->file->cells[i / GIVEN_COLUMNS][i % GIVEN_COLUMNS];

		if (RELAXED(cell->key) == key)
			return atomic_exchange(&cell->left, 0);
	}
	return 0;
}

/* Its pages are there: a full disk does not end us later. */
static int make_file(const char *path, gid_t group, struct diag *diag) {
	bool is_open = group == (gid_t)-1;
	int fd, error;

	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return diag_set(diag, errno, "cannot create %s", path);
	error = posix_fallocate(fd, 0, sizeof(struct given_file));
	if (error == 0 && !is_open && (fchown(fd, (uid_t)-1, group) != 0 || fchmod(fd, 0660) != 0))
		error = errno;
	if (error == 0)
		return fd;
	close(fd);
	unlink(path);
	return diag_set(diag, error, "cannot create %s", path);
}

struct given_out *given_make(const char *hints_path, gid_t group, struct diag *diag) {
	char path[PATH_MAX], temporary[PATH_MAX];
	struct given_out *given;
	int fd;

	if (!path_of(hints_path, "", path) || !path_of(hints_path, ".new", temporary)) {
		diag_set(diag, 0, "%s: the path is too long", hints_path);
		return NULL;
	}
	fd = make_file(temporary, group, diag);
	if (fd < 0)
		return NULL;
	given = map(fd);
	if (given == NULL || !clock_boot_id(given->file->boot_id) ||
	    getrandom(&given->id, sizeof(given->id), 0) != sizeof(given->id)) {
		diag_set(diag, ENOMEM, "no memory for %s", path);
		given_free(&given);
		unlink(temporary);
		return NULL;
	}
	given->file->id = given->id;
	given->file->magic = GIVEN_MAGIC;
	if (rename(temporary, path) == 0)
		return given;
	diag_set(diag, errno, "cannot rename %s", temporary);
	given_free(&given);
	unlink(temporary);
	return NULL;
}

uint64_t given_id(const struct given_out *given) {
	return given->id;
}

static struct given_cell *cell_at(const struct given_out *given, uint32_t row, uint32_t column) {
	return &given->file->cells[row % GIVEN_ROWS][column % GIVEN_COLUMNS];
}

void given_set_key(struct given_out *given, uint32_t row, uint32_t column, uint64_t key) {
	STORE(cell_at(given, row, column)->key, key);
}

uint32_t given_left(const struct given_out *given, uint32_t row, uint32_t column) {
	return atomic_load(&cell_at(given, row, column)->left);
}

void given_add(struct given_out *given, uint32_t row, uint32_t column, uint32_t count) {
	atomic_fetch_add(&cell_at(given, row, column)->left, count);
}

uint32_t given_take_back(struct given_out *given, uint32_t row, uint32_t column, uint32_t count) {
	struct given_cell *cell = cell_at(given, row, column);
	uint32_t left = atomic_load(&cell->left), taken;

	FAILPOINT();
	do
		taken = count < left ? count : left;
	while (!atomic_compare_exchange_weak(&cell->left, &left, left - taken));
	FAILPOINT();
	return taken;
}

struct given_out *given_open_for_taking(const char *hints_path, uint64_t id) {
	struct given_out *given = given_open(hints_path);

	if (given != NULL && given->id != id)
		given_free(&given);
	return given;
}

bool given_take(struct given_out *given, uint32_t row, uint32_t column) {
	return !given_was_cut(given) && given_take_back(given, row, column, 1) == 1;
}

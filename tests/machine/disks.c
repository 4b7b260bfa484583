/* SPDX-License-Identifier: ISC */
/* The journal's directories: disks of tests/crash/disk.h, in place of journal/storage.c.  They outlive
 * processes; a crash of the machine leaves what it left. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "journal/log.h"
#include "tests/crash/storage_faulty.h"
#include "tests/machine/world.h"

#define DISKS_MAX 8

struct journal_storage *__wrap_journal_storage_posix(const char *path, bool read_only,
    struct diag *diag);
void __wrap_journal_storage_close(struct journal_storage **storage);
int __wrap_journal_log_open(struct journal_log **log, const struct journal_storage *storage,
    const struct journal_log_options *options, int64_t now_ns, struct diag *diag);
int __real_journal_log_open(struct journal_log **log, const struct journal_storage *storage,
    const struct journal_log_options *options, int64_t now_ns, struct diag *diag);

static struct {
	char path[128];
	struct disk *disk;
} disks[DISKS_MAX];

struct journal_storage *__wrap_journal_storage_posix(const char *path, bool read_only,
    struct diag *diag) {
	unsigned i = 0;

	(void)read_only, (void)diag;
	while (i < DISKS_MAX - 1 && disks[i].disk != NULL && strcmp(disks[i].path, path) != 0)
		i++;
	if (disks[i].disk == NULL) {
		MUST(strlen(path) < sizeof(disks[i].path));
		memcpy(disks[i].path, path, strlen(path) + 1);
		disks[i].disk = disk_new();
	}
	MUST(strcmp(disks[i].path, path) == 0);
	return storage_faulty(disks[i].disk);
}

void __wrap_journal_storage_close(struct journal_storage **storage) {
	storage_faulty_close(storage);
}

/* Its syncs take no time. */
int __wrap_journal_log_open(struct journal_log **log, const struct journal_storage *storage,
    const struct journal_log_options *options, int64_t now_ns, struct diag *diag) {
	struct journal_log_options ours = *options;

	ours.threaded = false;
	return __real_journal_log_open(log, storage, &ours, now_ns, diag);
}

void disks_crash(struct draws *draws) {
	struct random random = { draw(draws) };

	for (unsigned i = 0; i < DISKS_MAX && disks[i].disk != NULL; i++)
		disks[i].disk = disk_crash(disks[i].disk,
		    (enum disk_crash)draw_below(draws, DISK_CRASHES), &random);
}

/* SPDX-License-Identifier: ISC */
/* The disk of tests/crash/disk.h below a journal. */
#ifndef TESTS_CRASH_STORAGE_FAULTY_H
#define TESTS_CRASH_STORAGE_FAULTY_H

#include "journal/storage.h"
#include "tests/crash/disk.h"

/* The disk stays the caller's. */
struct journal_storage *storage_faulty(struct disk *disk);
void storage_faulty_close(struct journal_storage **storage);
#endif

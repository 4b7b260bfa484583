/* SPDX-License-Identifier: ISC */
/*
 * A directory in memory that counts what is asked of it: for simulations.  Nothing in it fails
 * but for want of memory (-ENOMEM), and all is safe at once.  One thread.
 */
#ifndef JOURNAL_STORAGE_MEMORY_H
#define JOURNAL_STORAGE_MEMORY_H

#include "journal/storage.h"

struct storage_counts {
	uint64_t reads, read_bytes;
	uint64_t writes, written_bytes;
	uint64_t syncs;			/* of files and of the directory */
};

/* NULL: no memory. */
struct journal_storage *journal_storage_memory(void);
/* What was asked of it since it was made. */
void journal_storage_memory_count(const struct journal_storage *storage,
    struct storage_counts *out);
/* Another one with the same files, as a restart finds them; its counts begin at 0.  NULL: no
 * memory. */
struct journal_storage *journal_storage_memory_copy(const struct journal_storage *storage);
void journal_storage_memory_close(struct journal_storage **storage);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * libsystemd's reader of the journal.  It is loaded by the process that reads one and by no
 * other: the supervisor is root, and needs neither it nor the libraries behind it.
 */
#ifndef FRONT_SD_LIBRARY_H
#define FRONT_SD_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"

struct sd_journal;

#define SD_LOCAL_ONLY	1	/* SD_JOURNAL_LOCAL_ONLY */
#define SD_SYSTEM	4	/* SD_JOURNAL_SYSTEM: not what users' sessions wrote */

/* sd-journal(3); all return a negative errno for an error. */
struct sd_calls {
	int (*open)(struct sd_journal **out, int flags);
	int (*open_directory)(struct sd_journal **out, const char *path, int flags);
	void (*close)(struct sd_journal *journal);
	int (*add_match)(struct sd_journal *journal, const void *data, size_t size);
	int (*add_disjunction)(struct sd_journal *journal);
	int (*seek_head)(struct sd_journal *journal);
	int (*seek_realtime_usec)(struct sd_journal *journal, uint64_t time_us);
	int (*seek_cursor)(struct sd_journal *journal, const char *cursor);
	int (*next)(struct sd_journal *journal);
	int (*get_realtime_usec)(struct sd_journal *journal, uint64_t *out);
	int (*get_cursor)(struct sd_journal *journal, char **out);	/* malloc */
	int (*get_data)(struct sd_journal *journal, const char *field, const void **data,
	    size_t *size);
	int (*set_data_threshold)(struct sd_journal *journal, size_t size);
	int (*get_fd)(struct sd_journal *journal);
	int (*process)(struct sd_journal *journal);
	int (*has_runtime_files)(struct sd_journal *journal);
	int (*has_persistent_files)(struct sd_journal *journal);
};

/* NULL with *diag: this build has none, or the machine.  Loads it the first time, with what
 * unpacks entries; after that nothing is opened.  One thread. */
const struct sd_calls *sd_library(struct diag *diag);

#endif

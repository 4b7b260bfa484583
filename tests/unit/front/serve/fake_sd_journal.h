/* SPDX-License-Identifier: ISC */
/* A journal of systemd in memory, for tests without one: entries in the order in which
 * libsystemd would give them, under IDs as their files have. */
#ifndef TESTS_UNIT_FAKE_SD_JOURNAL_H
#define TESTS_UNIT_FAKE_SD_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "front/serve/sd_library.h"

#define FAKE_ENTRIES	64

struct fake_entry {
	uint64_t id, number, time_us;
	const char *fields;	/* "NAME=VALUE|NAME=VALUE"; the mail log's has SYSLOG_FACILITY=2 */
	bool was_read;		/* moved to another file: an open journal has given it already */
};

struct fake_journals {
	struct fake_entry list[FAKE_ENTRIES];
	unsigned count;
	bool without_files;	/* or, with an error, that there are none to open */
	int next_fails;		/* errno of the next call of next */
	unsigned open;		/* handles that were not closed */
};
extern struct fake_journals fake_journals;

extern const struct sd_calls fake_sd_calls;

void fake_reset(void);
void fake_add(uint64_t id, uint64_t number, uint64_t time_us, const char *fields);
/* The first `count` are deleted. */
void fake_vacuum(unsigned count);

#endif

/* SPDX-License-Identifier: ISC */
/* Putting a new configuration in force while the daemon runs. */
#ifndef ROLE_RELOAD_H
#define ROLE_RELOAD_H

#include <stddef.h>
#include <stdint.h>

#include "config/compile.h"

struct supervisor;

#define RELOAD_NEEDS_MAX 64

struct reload_outcome {
	int exit_code;		/* 0, or why not: EX_CONFIG, EX_TEMPFAIL */
	uint64_t generation;	/* in force now */
	struct config_messages messages;
	size_t needs_count;	/* settings that wait for a restart */
	char needs_restart[RELOAD_NEEDS_MAX][48];
	char error[600];	/* when exit_code is not 0 */
};

/* Compiles the file and publishes it; the old configuration stays where that
 * fails.  Logs and counts.  Free the outcome with reload_outcome_free. */
void reload_run(struct supervisor *supervisor, struct reload_outcome *outcome);
void reload_outcome_free(struct reload_outcome *outcome);

#endif

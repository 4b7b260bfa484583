/* SPDX-License-Identifier: ISC */
/* The scripts that a Redis server runs for us (front/cluster/NAME.lua), as they were when
 * this was built. */
#ifndef FRONT_CLUSTER_SCRIPT_H
#define FRONT_CLUSTER_SCRIPT_H

#include <stddef.h>

enum cluster_script {
	CLUSTER_SCRIPT_LEASE,		/* wire/cluster/cluster_call.h */
	CLUSTER_SCRIPT_PUT,		/* front/cluster/knowledge.h: one record, and it is told */
	CLUSTER_SCRIPT_CHANGED,		/* names that changed since a number */
	CLUSTER_SCRIPT_GET,		/* records of some names */
	CLUSTER_SCRIPT_COUNT
};

/* Its text, `length` bytes (no NUL behind them). */
const char *cluster_script_text(enum cluster_script script, size_t *length);

#endif

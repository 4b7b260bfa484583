/* SPDX-License-Identifier: ISC */
/*
 * The cluster role's loop: asks for shares of the limits that hold for all machines
 * (engine/cluster/shares.h) and shares what is known of destinations, by way of Redis.  No decision
 * waits for it: it turns every 100 ms and writes what it got into the segment.
 */
#ifndef FRONT_CLUSTER_CLUSTER_H
#define FRONT_CLUSTER_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "engine/engine.h"

struct cluster_setup {
	const char *password;		/* any bytes; stays */
	size_t password_length;		/* 0: none */
	const char *password_error;	/* why it could not be read; NULL: it was */
	uint64_t password_stamp;	/* of its file (base/file_stamp.h), from before it was read */
};

/* Runs until something has to be read by root once more: 0; or until it cannot go on: -1
 * with *diag. */
int cluster_run(struct engine *engine, const struct cluster_setup *setup, struct diag *diag);

#endif

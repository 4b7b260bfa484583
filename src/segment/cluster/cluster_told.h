/* SPDX-License-Identifier: ISC */
/*
 * What the cluster role tells (layout_cluster.h), written whole and read whole: a seqlock
 * with one writer, that may die in the middle.
 */
#ifndef SEGMENT_CLUSTER_TOLD_H
#define SEGMENT_CLUSTER_TOLD_H

#include <stdbool.h>
#include <string.h>

#include "segment/file/layout_cluster.h"

#ifdef WITH_CLUSTER
/* The cluster role's thread alone. */
void cluster_told_write(struct cluster_record *record, const struct cluster_told *told);

/* A consistent copy, its numbers and texts within their bounds whoever wrote them.  May wait
 * some ms for a writer.  False: there is none, as one died in the middle; *told is zero then. */
bool cluster_told_read(const struct cluster_record *record, struct cluster_told *told);

/* "off", "connecting" ...; and "password" ... */
const char *cluster_state_word(enum cluster_state state);
const char *cluster_error_word(enum cluster_error error);
/* Have people to mend it? */
bool cluster_error_refuses(enum cluster_error error);
#else
/* Nobody tells anything. */
static inline bool cluster_told_read(const struct cluster_record *record,
    struct cluster_told *told) {
	(void)record;
	memset(told, 0, sizeof(*told));
	return false;
}

static inline const char *cluster_error_word(enum cluster_error error) {
	(void)error;
	return "";
}
#endif

#endif

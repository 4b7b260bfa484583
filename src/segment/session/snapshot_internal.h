/* SPDX-License-Identifier: ISC */
/* What snapshot.c and snapshot_read.c share: the file's name, and its first line. */
#ifndef SEGMENT_SESSION_SNAPSHOT_INTERNAL_H
#define SEGMENT_SESSION_SNAPSHOT_INTERNAL_H

#include <stdio.h>

#include "segment/file/internal.h"

#define SNAPSHOT_FORM	"postern-sessions 6\n"

static inline int snapshot_path(const struct segment *segment, const char *suffix,
    char out[PATH_MAX + 16]) {
	return snprintf(out, PATH_MAX + 16, "%s.sessions%s", segment->path,
	    suffix);
}

#endif

/* SPDX-License-Identifier: ISC */
/*
 * A role that only looks at the segment (metrics) maps it read-only.  What it has to say of
 * itself stands in a page beside it, which only it and the keeper share; the keeper carries
 * that over into the segment.  Who it is and since when, the supervisor tells the keeper.
 */
#ifndef SEGMENT_ONLOOKER_H
#define SEGMENT_ONLOOKER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"
#include "segment/file/layout.h"

struct segment;

struct onlooker {
	struct role_record role;	/* heartbeat_ns, generation, sandbox */
	_Atomic uint64_t counters[COUNTER_COUNT];	/* since the keeper last looked */
};

/* Its page, as a file in memory of a fixed size, close-on-exec; or -1 with *diag. */
int onlooker_make(struct diag *diag);
/* Maps it for the life of the process; NULL with *diag. */
struct onlooker *onlooker_map(int fd, struct diag *diag);

/* In the role: as segment_attach, but `fd` is of segment_open_to_look and the mapping
 * read-only.  What the role would write of itself goes to *onlooker. */
int segment_attach_to_look(struct segment **segment, int fd, const char *path,
    struct onlooker *onlooker, struct diag *diag);

/* In the keeper: it runs as `pid` since `started_ns`.  Said again, it does nothing. */
void onlooker_started(struct segment *segment, pid_t pid, int64_t started_ns);
/* Carries over what the page says of it, as far as it makes sense. */
void onlooker_carry(struct segment *segment, struct onlooker *onlooker, int64_t now_ns);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * Reading the segment from outside: mapped PROT_READ, no lock, no trust.  Every
 * size in the header is checked against the file before it is used.  A copy
 * is consistent (seqlock, at most 100 tries) or reported as torn.
 */
#ifndef SEGMENT_READER_H
#define SEGMENT_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "config/generation/generation.h"
#include "segment/decision/decisions.h"
#include "segment/destination/destinations.h"
#include "segment/file/feed_position.h"
#include "segment/destination/recipients.h"
#include "segment/file/layout.h"
#include "segment/file/segment.h"
#include "segment/hints/lane_uses.h"

/* A copy, which cannot be written to, of a configuration that was published, made from its file
 * and checked: roles may write to the file at any moment.  0, or -1 with *diag; `path` is for
 * that.  segment_unmap_generation it. */
int reader_generation_open(int fd, const char *path, const struct generation **generation,
    struct diag *diag);

enum segment_holder {
	SEGMENT_HELD,
	SEGMENT_FREE,		/* no supervisor runs with this state */
	SEGMENT_HOLDER_UNKNOWN,	/* PATH.lock is not there, or not ours to read */
};

/* Does a supervisor hold PATH.lock?  Takes no lock.  For root and the owner of the file; any
 * thread. */
enum segment_holder segment_lock_look(const char *path);

enum reader_health {
	READER_LIVE,
	READER_STALE,		/* no heartbeat of any role for 10 s */
	READER_REPLACED,	/* another file has taken its place: open again */
};

struct reader_journal {
	enum journal_fares fares;	/* NONE too where nobody has told for 10 s */
	int error;			/* an errno, while ILL */
	int64_t since_ns;
	uint64_t bytes, files;
	uint64_t records, syncs, lost;	/* of its writer's life */
	uint64_t messages, waiting;	/* JOURNAL_ROOM_QUEUE: in it, and of those in no memory */
};

struct reader_status {
	enum reader_health health;
	int64_t now_ns, started_ns, created_ns, heartbeat_ns, created_wall_s;
	int32_t supervisor_pid;
	uint64_t generation;
	int64_t published_ns;		/* when that generation was */
	uint64_t file_bytes;
	bool gate_shut;
	uint32_t unproven;		/* inbound sessions that only their lease ends */
	int64_t gate_since_ns;		/* 0: it was never shut */
	int64_t queue_away_ns;		/* last sign of a queue role that is away; 0 */
	uint32_t queue_paused;		/* a bit for each mail server of which nothing is run */
	uint64_t sessions_size, sessions_used;	/* slots */
	uint64_t clients_size, clients_used;
	uint64_t destinations_size, destinations_used;
	uint64_t relays_size, relays_used;
	uint64_t recipients_size, recipients_used;	/* that are held */
	int64_t accounts_full_ns;	/* when a login last found no room; 0: never */
	uint64_t accounts_size, accounts_used;	/* logins; size 0: there is no table */
	uint32_t flights_size, flights_used;		/* deliveries in flight, of who asks */
	uint32_t records_size, records_used;
	uint64_t counters[COUNTER_COUNT];
	struct reader_journal journals[SEGMENT_JOURNALS];	/* enum journal_room */
};

struct reader_role {
	enum role_kind kind;
	uint32_t number;
	int32_t pid;
	int64_t heartbeat_ns, started_ns;
	uint64_t generation;
	uint32_t restarts;
	uint32_t sandbox;		/* bits of enum role_sandbox */
};

/* How long questions of one kind took all roles (timings.h). */
struct reader_timing {
	uint64_t buckets[TIMING_BUCKETS];
	uint64_t count;			/* of all of them */
	uint64_t sum_ns;
};

struct reader_class {
	char name[SEGMENT_NAME_MAX + 1];
	uint16_t record;
	bool removed;			/* no longer configured; sessions live on */
	bool observe;
	uint32_t open, open_inbound, peak, sessions, inbound;
	uint64_t admitted, refused, deferred, observed, adopted;
	uint32_t refusing;		/* refused, deferred or observed in 1000 s, now */
	bool shared;			/* sessions and inbound hold for all nodes of a cluster */
	bool share_alone;		/* the whole limit counts without a share */
	int64_t share_until_ns, share_since_ns;
	uint32_t share_fixed[2];	/* base, extra: always this node's */
	uint32_t share_leased[2];	/* until share_until_ns */
	uint32_t share_whole[2];	/* inbound, sessions that count for all nodes, until then */
	uint64_t share_refused[2];	/* for want of a share: inbound, outbound */
};

/* 0, or -1 with *diag (missing, not ours, other layout).  segment_unmap it.  One
 * thread. */
int reader_open(struct segment **segment, const char *state_path, struct diag *diag);

void reader_status(const struct segment *segment, struct reader_status *out);

/* Role `index` (0 ...); false: no more roles. */
bool reader_role(const struct segment *segment, uint32_t index, struct reader_role *out);

void reader_timing(const struct segment *segment, enum timing_kind kind,
    struct reader_timing *out);

/* What the cluster role tells.  False: nothing that is whole; *out is zero then. */
bool reader_cluster(const struct segment *segment, struct cluster_told *out);

/* Calls `each` for every class that is configured or has open sessions, in order
 * of the records; returns how many could not be read consistently. */
unsigned reader_classes(const struct segment *segment,
    void (*each)(void *context, const struct reader_class *), void *context);

/* The name of a record, or "-". */
const char *reader_class_name(const struct segment *segment, uint16_t record,
    char out[SEGMENT_NAME_MAX + 1]);

/* Calls `each` for every slot that is not free; returns how many were torn. */
unsigned reader_sessions(const struct segment *segment,
    void (*each)(void *context, const struct session *), void *context);

/* How far the files of a log (a path or a pattern, as mta[].log has it) were read, the
 * newest last; returns how many there are. */
unsigned reader_log(const struct segment *segment, const char *log,
    struct feed_position out[FEED_FILES_MAX]);

/* Calls `each` for the last deliveries (SEGMENT_LANE_USES at most) by lanes and by the
 * transports that they clone, in the order in which they were read. */
void reader_lane_uses(const struct segment *segment,
    void (*each)(void *context, const struct lane_use *), void *context);

/* Calls `each` for those of a ring, the oldest first. */
void reader_decisions(const struct segment *segment, enum decided_ring ring,
    void (*each)(void *context, const struct decided *), void *context);

/* Calls `each` for what the cursor has not passed, twice what the ring holds at most, and
 * however its writers change it meanwhile; as decisions_next. */
void reader_decisions_follow(const struct segment *segment, enum decided_ring ring,
    struct decisions_cursor *cursor, int64_t now_ns,
    void (*each)(void *context, const struct decided *), void *context, uint64_t *lost);

#endif

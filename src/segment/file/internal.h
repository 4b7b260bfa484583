/* SPDX-License-Identifier: ISC */
/* The process-local handle of a mapped segment, for the rooms segment/ and
 * engine/ only. */
#ifndef SEGMENT_INTERNAL_H
#define SEGMENT_INTERNAL_H

#include <limits.h>

#include "base/clock.h"
#include "base/relaxed.h"
#include "segment/file/layout.h"
#include "segment/file/segment.h"

struct onlooker;
struct stat;

#define SEGMENT_LARGE_PAGE	(2u << 20)	/* where there are others, none is used */

/* As mmap of the whole file, shared: at an address from which the kernel can map large pages. */
void *segment_map(int fd, size_t bytes, int access);

/* What a role's record says as long as it lives; kind 0: this process did not begin it. */
struct role_begun {
	uint32_t kind, number;
	int32_t pid;
	uint32_t incarnation;
};

struct segment {
	struct segment_header *header;
	void *fixed_in_file;	/* SEGMENT_FIXED_BYTES that others may write to; NULL: an onlooker's */
	struct class_record *records;
	struct shard *session_shards;
	struct index_line *session_lines;
	struct session_slot *session_slots;
	_Atomic uint64_t *counters;	/* in the header, or an onlooker's own */
	struct onlooker *onlooker;	/* NULL: the mapping can be written to */
	gid_t readers;		/* group of the file */
	dev_t device;
	ino_t inode;
	struct role_begun begun[SEGMENT_ROLES_MAX];
	bool unnamed;		/* a class of what was published here last has no record */
	char path[PATH_MAX];
};

/* Points the handle into a mapping whose header is valid. */
void segment_bind(struct segment *segment, void *mapping);

/* Why an open file is none that a segment can be in, or NULL; *status is its own then. */
const char *segment_check_file(int fd, uid_t uid, struct stat *status);

/* Of what any role can write, no size and no place is read twice: the pages that have them
 * become this process's own, at the address that they have.  They are no private pages of the
 * file, which go when it is cut.  An errno, or 0. */
int segment_own_fixed(void *mapping, int fd);

/* PATH.config.NUMBER, and behind it the suffix. */
void segment_config_path(const struct segment *segment, uint64_t number,
    const char *suffix, char out[PATH_MAX + 32]);

/* Why a mapped file of these bytes is no segment of this layout, or NULL. */
const char *segment_check_layout(const struct segment_header *header, uint64_t bytes);

/* What the witness learned of a listener on a service port; makes the record.
 * NULL: 256 are known already. */
struct listener_record *segment_listener(const struct segment *segment,
    uint8_t listener, uint16_t port);

/* Makes room for sessions that stand in PATH.sessions; returns how many were
 * taken over, or -1 with *diag (no such file, torn, another boot: then nothing
 * was).  Class records are made as named there.  Supervisor only, before anybody
 * else has the segment. */
int64_t segment_restore_sessions(struct segment *segment, int64_t now_ns,
    struct diag *diag);

/* Another number where a line of PATH.sessions would be another, but for those of sessions. */
uint64_t segment_sessions_head_mark(const struct segment *segment);

/* Tells PATH.sessions that all is as it says up to now; false: it cannot be told. */
bool segment_sessions_heard(const struct segment *segment, int64_t now_ns);

/* The record named so, or a free one that it gives the name; SEGMENT_NO_CLASS:
 * all are taken.  Supervisor only. */
uint16_t segment_record(struct segment *segment, const char *name, int64_t now_ns);

/* A time in the segment that is to be reckoned with: any role can have written any number. */
static inline int64_t segment_time_ns(const _Atomic int64_t *time_ns) {
	return clock_bounded_ns(atomic_load(time_ns));
}

/* Since when logins are known, of a header: before the boot, too.  0: never. */
static inline int64_t segment_accounts_since_ns(const struct segment_header *header) {
	int64_t since_ns = atomic_load(&header->accounts_since_ns);

	return since_ns < INT64_MIN / 4 ? INT64_MIN / 4 : since_ns > INT64_MAX / 4 ?
	    INT64_MAX / 4 : since_ns;
}

#define DS_NS	INT64_C(100000000)

/* Tenths of seconds since the segment was made. */
static inline uint32_t segment_ds(const struct segment *segment, int64_t now_ns) {
	int64_t age_ns = now_ns - segment->header->created_ns;

	return age_ns <= 0 ? 0 : (uint32_t)(age_ns / DS_NS);
}

/* What only the holder of a mutex changes, and others look at: no need for an atomic addition. */
static inline void guarded_add(_Atomic uint32_t *value, uint32_t change) {
	STORE(*value, RELAXED(*value) + change);
}

/* Seqlock, writer's side, under the mutex: odd from begin to end, also where it was odd before:
 * its writer died, or any role wrote that. */
static inline void seq_begin(_Atomic uint32_t *seq) {
	STORE(*seq, (1 + RELAXED(*seq)) | 1);
	atomic_thread_fence(memory_order_release);
}

static inline void seq_end(_Atomic uint32_t *seq) {
	atomic_store_explicit(seq, 1 + (RELAXED(*seq) | 1), memory_order_release);
}

static inline void segment_count(const struct segment *segment,
    enum counter counter, uint64_t amount) {
	atomic_fetch_add_explicit(&segment->counters[counter], amount, memory_order_relaxed);
}

#endif

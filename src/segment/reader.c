/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The segment as seen from outside, by whoever may read the file.
 * MODEL    As a role has it (attach.c), but read-only: sizes and places are a copy, which is
 *          checked against itself and the file.  What lives (counters, slots, names) is read from the mapping with
 *          relaxed atomic loads, under the writer's sequence where it has one.
 * ERRORS   reader_open tells them; later, what cannot be read consistently is
 *          counted.  A file that is cut while it is mapped raises SIGBUS, which the
 *          program takes: the daemon cuts none, a role that was taken over can.
 * THREADS  One thread a reader.
 */
#include "segment/account/accounts.h"
#include "segment/reader.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "segment/cluster/cluster_told.h"
#include "segment/destination/flights.h"
#include "segment/file/internal.h"
#include "segment/geometry.h"
#include "segment/session/sessions.h"

#define READER_STALE_NS	(10 * NS_PER_SECOND)

static int check_sizes(const struct segment_header *header, uint64_t file_bytes,
    const char *path, struct diag *diag) {
	if (header->magic != SEGMENT_MAGIC)
		return diag_set(diag, 0, "%s: %s", path, header->magic == 0 ?
		    "not ready: posternd is creating it, or stopped while creating it" :
		    "not a state file of Postern");
	if (header->version != SEGMENT_VERSION ||
	    header->header_bytes != sizeof(*header) ||
	    header->layout != segment_layout_hash())
		return diag_set(diag, 0, "%s: written by another build of posternd; use the "
		    "posternctl of that build", path);
	if (header->bytes != file_bytes)
		return diag_set(diag, 0, "%s: truncated: %llu bytes instead of %llu", path,
		    (unsigned long long)file_bytes, (unsigned long long)header->bytes);
	if (!segment_geometry_valid(header, file_bytes))
		return diag_set(diag, 0, "%s: damaged: its sizes are inconsistent", path);
	return 0;
}

/* Whose it is, by name where it has one. */
static int file_refused(const char *path, struct diag *diag) {
	int error = errno;
	struct stat status;
	const struct group *group;

	if (stat(path, &status) != 0)
		return diag_set(diag, error,
		    "%s: only root and the daemon's user and group may read it", path);
	group = getgrgid(status.st_gid);
	if (group == NULL)
		return diag_set(diag, error, "%s: only root, the daemon's user and group %u may "
		    "read it", path, (unsigned)status.st_gid);
	return diag_set(diag, error, "%s: only root, the daemon's user and group %s may read it",
	    path, group->gr_name);
}

static int open_file(const char *path, struct diag *diag) {
	int fd = plain_file_open(path);

	if (fd >= 0)
		return fd;
	if (errno == ENOENT || errno == ENOTDIR)
		return diag_set(diag, errno, "%s: no state file (is posternd running?)", path);
	if (errno == EACCES || errno == EPERM)
		return file_refused(path, diag);
	if (errno == ELOOP || errno == EINVAL)
		return diag_set(diag, 0, "%s: not a regular file", path);
	return diag_set(diag, errno, "%s", path);
}

static int map_file(int fd, struct segment *segment, const char *path, struct diag *diag) {
	struct stat status;
	void *mapping;
	int error;

	if (fstat(fd, &status) != 0)
		return diag_set(diag, errno, "%s", path);
	if (!S_ISREG(status.st_mode))
		return diag_set(diag, 0, "%s: not a regular file", path);
	if ((uint64_t)status.st_size < sizeof(struct segment_header))
		return diag_set(diag, 0, "%s: truncated, or not a state file of Postern: "
		    "only %llu bytes", path, (unsigned long long)status.st_size);
	mapping = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (mapping == MAP_FAILED)
		return diag_set(diag, errno, "%s: cannot be mapped", path);
	error = segment_own_fixed(mapping, fd);
	if (error != 0)
		diag_set(diag, error, "%s: cannot be read", path);
	if (error != 0 || check_sizes(mapping, (uint64_t)status.st_size, path, diag) != 0) {
		munmap(mapping, (size_t)status.st_size);
		return -1;
	}
	segment_bind(segment, mapping);
	segment->device = status.st_dev;
	segment->inode = status.st_ino;
	return 0;
}

int reader_open(struct segment **out, const char *state_path, struct diag *diag) {
	struct segment *segment;
	int fd, result;

	*out = NULL;
	fd = open_file(state_path, diag);
	if (fd < 0)
		return -1;
	segment = calloc(1, sizeof(*segment));
	if (segment == NULL)
		result = diag_set(diag, errno, "%s", state_path);
	else if (!text_copy(segment->path, sizeof(segment->path), state_path, strlen(state_path)))
		result = diag_set(diag, ENAMETOOLONG, "%s", state_path);
	else
		result = map_file(fd, segment, state_path, diag);
	close(fd);
	if (result != 0)
		free(segment);
	else
		*out = segment;
	return result;
}

/* An orderly stop leaves no role. */
static bool was_stopped(const struct segment_header *live) {
	unsigned known = 0;

	for (unsigned i = 0; i < SEGMENT_ROLES_MAX; i++) {
		if (RELAXED(live->roles[i].kind) == ROLE_NONE)
			continue;
		if (RELAXED(live->roles[i].pid) != 0)
			return false;
		known++;
	}
	return known > 0;
}

static enum reader_health reader_health_of(const struct segment *segment, int64_t now_ns,
    int64_t heartbeat_ns) {
	struct stat st;

	if (RELAXED(segment->header->replaced) != 0)
		return READER_REPLACED;
	if (stat(segment->path, &st) == 0 &&
	    (st.st_ino != segment->inode || st.st_dev != segment->device))
		return READER_REPLACED;
	/* a heartbeat of the future was beaten before the last boot */
	if (heartbeat_ns <= 0 || heartbeat_ns - now_ns > NS_PER_SECOND ||
	    now_ns - heartbeat_ns > READER_STALE_NS || was_stopped(segment->header))
		return READER_STALE;
	return READER_LIVE;
}

static void count_use(const struct segment *segment, struct reader_status *out) {
	const struct segment_header *sizes = segment->header;
	struct learned clients = clients_table(segment);

	out->sessions_size = (uint64_t)sizes->shard_count * sizes->slots_per_shard;
	for (uint32_t i = 0; i < sizes->shard_count; i++)
		out->sessions_used += RELAXED(segment->session_shards[i].used);
	out->clients_size = (uint64_t)sizes->clients.shards * sizes->clients.per_shard;
	out->clients_used = learned_used(&clients);
	out->destinations_size = (uint64_t)sizes->destinations.shards *
	    sizes->destinations.per_shard;
	out->relays_size = out->destinations_size;
	destinations_used(segment, &out->destinations_used, &out->relays_used);
	out->recipients_size = (uint64_t)sizes->recipients.shards *
	    sizes->recipients.per_shard;
	out->recipients_used = recipients_used(segment);
	out->accounts_size = (uint64_t)sizes->accounts.shards * sizes->accounts.per_shard;
#ifdef WITH_ACCOUNTS
	out->accounts_full_ns = atomic_load(&sizes->accounts_full_ns);
	out->accounts_used = accounts_used(segment);
#endif
	flights_used(segment, &out->flights_used, &out->flights_size);
	out->records_size = sizes->record_count;
	for (uint32_t i = 0; i < sizes->record_count; i++)
		if (RELAXED(segment->records[i].in_use) != CLASS_FREE)
			out->records_used++;
}

static void read_journals(const struct segment *segment, struct reader_status *out) {
	for (unsigned i = 0; i < SEGMENT_JOURNALS; i++) {
		const struct journal_record *record = &segment->header->journals[i];
		int64_t told_ns = segment_time_ns(&record->told_ns);

		if (told_ns <= 0 || out->now_ns - told_ns > READER_STALE_NS ||
		    RELAXED(record->fares) > JOURNAL_FARES_ILL)
			continue;
		out->journals[i] = (struct reader_journal){
			.fares = (enum journal_fares)RELAXED(record->fares),
			.error = (int)RELAXED(record->error),
			.since_ns = segment_time_ns(&record->since_ns),
			.bytes = RELAXED(record->bytes),
			.files = RELAXED(record->files),
			.records = RELAXED(record->records),
			.syncs = RELAXED(record->syncs),
			.lost = RELAXED(record->lost),
			.messages = RELAXED(record->messages),
			.waiting = RELAXED(record->waiting),
		};
	}
}

void reader_status(const struct segment *segment, struct reader_status *out) {
	const struct segment_header *live = segment->header;

	memset(out, 0, sizeof(*out));
	out->now_ns = clock_now_ns();
	out->created_ns = clock_bounded_ns(live->created_ns);
	out->created_wall_s = live->created_wall_s;
	out->file_bytes = live->bytes;
	out->started_ns = segment_time_ns(&live->started_ns);
	out->heartbeat_ns = segment_time_ns(&live->heartbeat_ns);
	out->supervisor_pid = RELAXED(live->supervisor_pid);
	out->generation = RELAXED(live->generation);
	out->published_ns = segment_time_ns(&live->published_ns);
	out->gate_shut = RELAXED(live->gate_shut) != 0;
	out->unproven = RELAXED(live->unproven);
	out->gate_since_ns = segment_time_ns(&live->gate_since_ns);
	out->queue_away_ns = segment_time_ns(&live->queue_away_ns);
	out->queue_paused = RELAXED(live->queue_paused);
	for (unsigned i = 0; i < COUNTER_COUNT; i++)
		out->counters[i] = RELAXED(live->counters[i]);
	count_use(segment, out);
	read_journals(segment, out);
	out->health = reader_health_of(segment, out->now_ns, out->heartbeat_ns);
}

bool reader_role(const struct segment *segment, uint32_t index, struct reader_role *out) {
	uint32_t seen = 0;

	for (uint32_t i = 0; i < SEGMENT_ROLES_MAX; i++) {
		const struct role_record *role = &segment->header->roles[i];
		uint32_t kind = RELAXED(role->kind);

		if (kind == ROLE_NONE || kind >= ROLE_KINDS || seen++ != index)
			continue;
		out->kind = (enum role_kind)kind;
		out->number = RELAXED(role->number);
		out->pid = RELAXED(role->pid);
		out->heartbeat_ns = segment_time_ns(&role->heartbeat_ns);
		out->started_ns = segment_time_ns(&role->started_ns);
		out->generation = RELAXED(role->generation);
		out->restarts = RELAXED(role->restarts);
		out->sandbox = RELAXED(role->sandbox);
		return true;
	}
	return false;
}

void reader_timing(const struct segment *segment, enum timing_kind kind,
    struct reader_timing *out) {
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < SEGMENT_ROLES_MAX; i++) {
		const struct timing_record *record = &segment->header->timings[i][kind];

		for (unsigned b = 0; b < TIMING_BUCKETS; b++)
			out->buckets[b] += RELAXED(record->buckets[b]);
		out->sum_ns += RELAXED(record->sum_ns);
	}
	for (unsigned b = 0; b < TIMING_BUCKETS; b++)
		out->count += out->buckets[b];
}

bool reader_cluster(const struct segment *segment, struct cluster_told *out) {
	return cluster_told_read(&segment->header->cluster, out);
}

unsigned reader_log(const struct segment *segment, const char *log,
    struct feed_position out[FEED_FILES_MAX]) {
	uint32_t records[FEED_FILES_MAX];

	return feed_positions(segment, feed_log_id(log), out, records);
}

void reader_lane_uses(const struct segment *segment,
    void (*each)(void *context, const struct lane_use *), void *context) {
	struct lane_uses_cursor cursor = { .begun = false };
	struct lane_use use;
	bool lost = false;

	/* a busy writer must not keep us for ever */
	for (uint32_t i = 0; i < 2 * SEGMENT_LANE_USES &&
	     lane_uses_next(segment, &cursor, &use, &lost); i++)
		each(context, &use);
}

void reader_decisions_follow(const struct segment *segment, enum decided_ring ring,
    struct decisions_cursor *cursor, int64_t now_ns,
    void (*each)(void *context, const struct decided *), void *context, uint64_t *lost) {
	uint32_t most = 2 * decisions_size(segment, ring);
	struct decided decided;

	/* a writer that is busy, or means harm, must not keep us for ever */
	for (uint32_t i = 0; i < most && decisions_next(segment, ring, cursor, now_ns, &decided,
	    NULL, lost); i++)
		each(context, &decided);
}

void reader_decisions(const struct segment *segment, enum decided_ring ring,
    void (*each)(void *context, const struct decided *), void *context) {
	struct decisions_cursor cursor = { .begun = false };
	uint64_t lost = 0;

	reader_decisions_follow(segment, ring, &cursor, 0, each, context, &lost);
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The segment as seen from outside, by whoever may read the file.
 * MODEL    The sizes are read once, checked against each other and the file,
 *          and kept in a private copy: only that is ever used to find a place.
 *          What lives (counters, slots, names) is read from the mapping with
 *          relaxed atomic loads, under the writer's sequence where it has one.
 * ERRORS   reader_open tells them; later, what cannot be read consistently is
 *          counted.  A file that is cut while it is mapped raises SIGBUS, which the
 *          program takes: the daemon cuts none, a role that was taken over can.
 * THREADS  One thread a reader.
 */
#include "segment/account/account_health.h"
#include "segment/account/accounts.h"
#include "segment/reader_internal.h"

#include "segment/cluster/cluster_told.h"

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
#include "segment/destination/flights.h"
#include "segment/geometry.h"

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

static int read_sizes(int fd, struct reader *reader, struct diag *diag) {
	struct stat st;
	char *to = (char *)&reader->sizes;
	size_t got = 0;

	if (fstat(fd, &st) != 0)
		return diag_set(diag, errno, "%s", reader->path);
	if (!S_ISREG(st.st_mode))
		return diag_set(diag, 0, "%s: not a regular file", reader->path);
	if ((uint64_t)st.st_size < sizeof(reader->sizes))
		return diag_set(diag, 0, "%s: truncated, or not a state file of Postern: "
		    "only %llu bytes", reader->path, (unsigned long long)st.st_size);
	while (got < sizeof(reader->sizes)) {
		ssize_t n = pread(fd, to + got, sizeof(reader->sizes) - got, (off_t)got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return diag_set(diag, n < 0 ? errno : 0, "%s: cannot be read",
			    reader->path);
		got += (size_t)n;
	}
	reader->device = st.st_dev;
	reader->inode = st.st_ino;
	reader->map_bytes = (size_t)st.st_size;
	return check_sizes(&reader->sizes, (uint64_t)st.st_size, reader->path, diag);
}

/* Whose it is, by name where it has one. */
static int refused(const char *path, struct diag *diag) {
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
		return refused(path, diag);
	if (errno == ELOOP || errno == EINVAL)
		return diag_set(diag, 0, "%s: not a regular file", path);
	return diag_set(diag, errno, "%s", path);
}

int reader_open(struct reader **out, const char *state_path, struct diag *diag) {
	struct reader *reader;
	void *map;
	int fd, result;

	*out = NULL;
	fd = open_file(state_path, diag);
	if (fd < 0)
		return -1;
	reader = calloc(1, sizeof(*reader));
	if (reader == NULL) {
		close(fd);
		return diag_set(diag, errno, "%s", state_path);
	}
	if (!text_copy(reader->path, sizeof(reader->path), state_path, strlen(state_path)))
		result = diag_set(diag, ENAMETOOLONG, "%s", state_path);
	else
		result = read_sizes(fd, reader, diag);
	if (result == 0) {
		map = mmap(NULL, reader->map_bytes, PROT_READ, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED) {
			result = diag_set(diag, errno, "%s: cannot be mapped", state_path);
		} else {
			reader->map = map;
			reader->live = map;
		}
	}
	close(fd);
	if (result != 0) {
		free(reader);
		return -1;
	}
	*out = reader;
	return 0;
}

void reader_close(struct reader **reader) {
	if (*reader == NULL)
		return;
	munmap((void *)(uintptr_t)(*reader)->map, (*reader)->map_bytes);
	free(*reader);
	*reader = NULL;
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

static enum reader_health health(const struct reader *reader, int64_t now_ns,
    int64_t heartbeat_ns) {
	struct stat st;

	if (RELAXED(reader->live->replaced) != 0)
		return READER_REPLACED;
	if (stat(reader->path, &st) == 0 &&
	    (st.st_ino != reader->inode || st.st_dev != reader->device))
		return READER_REPLACED;
	/* a heartbeat of the future was beaten before the last boot */
	if (heartbeat_ns <= 0 || heartbeat_ns - now_ns > NS_PER_SECOND ||
	    now_ns - heartbeat_ns > READER_STALE_NS || was_stopped(reader->live))
		return READER_STALE;
	return READER_LIVE;
}

static void count_use(const struct reader *reader, struct reader_status *out) {
	const struct segment_header *sizes = &reader->sizes;

	out->sessions_size = (uint64_t)sizes->shard_count * sizes->slots_per_shard;
	out->clients_size = (uint64_t)sizes->shard_count * sizes->clients_per_shard;
	for (uint32_t i = 0; i < sizes->shard_count; i++) {
		out->sessions_used += RELAXED(reader_shard(reader, i)->used);
		out->clients_used +=
		    RELAXED(reader_shard(reader, sizes->shard_count + i)->used);
	}
	out->destinations_size = (uint64_t)sizes->destinations.shards *
	    sizes->destinations.per_shard;
	out->relays_size = out->destinations_size;
	destinations_used_in(sizes, reader->map, &out->destinations_used,
	    &out->relays_used);
	out->recipients_size = (uint64_t)sizes->recipients.shards *
	    sizes->recipients.per_shard;
	out->recipients_used = recipients_used_in(sizes, reader->map);
	out->accounts_size = (uint64_t)sizes->accounts.shards * sizes->accounts.per_shard;
#ifdef WITH_ACCOUNTS
	out->accounts_full_ns = atomic_load(&reader->live->accounts_full_ns);
	out->accounts_used = accounts_used_in(sizes, reader->map);
#endif
	flights_used_in(sizes, reader->map, &out->flights_used,
	    &out->flights_size);
	out->records_size = sizes->record_count;
	for (uint32_t i = 0; i < sizes->record_count; i++)
		if (RELAXED(reader_record(reader, i)->in_use) != 0)
			out->records_used++;
}

static void read_journals(const struct reader *reader, struct reader_status *out) {
	for (unsigned i = 0; i < SEGMENT_JOURNALS; i++) {
		const struct journal_record *record = &reader->live->journals[i];
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

void reader_status(const struct reader *reader, struct reader_status *out) {
	const struct segment_header *live = reader->live;

	memset(out, 0, sizeof(*out));
	out->now_ns = clock_now_ns();
	out->created_ns = clock_bounded_ns(reader->sizes.created_ns);
	out->created_wall_s = reader->sizes.created_wall_s;
	out->file_bytes = reader->map_bytes;
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
	count_use(reader, out);
	read_journals(reader, out);
	out->health = health(reader, out->now_ns, out->heartbeat_ns);
}

bool reader_role(const struct reader *reader, uint32_t index, struct reader_role *out) {
	uint32_t seen = 0;

	for (uint32_t i = 0; i < SEGMENT_ROLES_MAX; i++) {
		const struct role_record *role = &reader->live->roles[i];
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

void reader_timing(const struct reader *reader, enum timing_kind kind,
    struct reader_timing *out) {
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < SEGMENT_ROLES_MAX; i++) {
		const struct timing_record *record = &reader->live->timings[i][kind];

		for (unsigned b = 0; b < TIMING_BUCKETS; b++)
			out->buckets[b] += RELAXED(record->buckets[b]);
		out->sum_ns += RELAXED(record->sum_ns);
	}
	for (unsigned b = 0; b < TIMING_BUCKETS; b++)
		out->count += out->buckets[b];
}

bool reader_cluster(const struct reader *reader, struct cluster_told *out) {
	return cluster_told_read(&reader->live->cluster, out);
}

unsigned reader_destinations(const struct reader *reader,
    void (*each)(void *context, const struct destination_seen *), void *context) {
	return destinations_each_in(&reader->sizes, reader->map, each, context);
}

unsigned reader_windows(const struct reader *reader,
    void (*each)(void *context, const struct destination_window *), void *context) {
	return states_each_in(&reader->sizes, reader->map, each, context);
}

bool reader_window(const struct reader *reader, uint32_t number,
    struct destination_window *out) {
	return states_at_in(&reader->sizes, reader->map, number, out);
}

const char *reader_node_name(const struct reader *reader, unsigned node,
    char out[SHARED_NODE_NAME_MAX + 1]) {
	return shared_node_name_in(&reader->sizes, reader->map, node, out);
}

unsigned reader_recipients(const struct reader *reader,
    void (*each)(void *context, const struct recipient_held *), void *context) {
	return recipients_each_in(&reader->sizes, reader->map, clock_now_ns(), each,
	    context);
}

unsigned reader_log(const struct reader *reader, const char *log,
    struct feed_position out[FEED_FILES_MAX]) {
	uint32_t records[FEED_FILES_MAX];

	return feed_positions_in(reader->live, feed_log_id(log), out, records);
}

void reader_lane_uses(const struct reader *reader,
    void (*each)(void *context, const struct lane_use *), void *context) {
	const struct lane_use_slot *slots = (const void *)(reader->map +
	    reader->sizes.lane_uses_offset);
	struct lane_uses_cursor cursor = { .begun = false };
	struct lane_use use;
	bool lost = false;

	/* a busy writer must not keep us for ever */
	for (uint32_t i = 0; i < 2 * SEGMENT_LANE_USES && lane_uses_next_in(reader->live,
	    slots, &cursor, &use, &lost); i++)
		each(context, &use);
}

bool reader_decision(const struct reader *reader, uint64_t id, struct decided *out) {
	return decisions_find_in(&reader->sizes, reader->map, id, out);
}

bool reader_decisions_next(const struct reader *reader, enum decided_ring ring,
    struct decisions_cursor *cursor, int64_t now_ns, struct decided *out, uint64_t *lost) {
	return decisions_next_in(&reader->sizes, reader->map, ring, cursor, now_ns, out, NULL,
	    lost);
}

void reader_decisions_follow(const struct reader *reader, enum decided_ring ring,
    struct decisions_cursor *cursor, int64_t now_ns,
    void (*each)(void *context, const struct decided *), void *context, uint64_t *lost) {
	uint32_t most = 2 * decisions_size(&reader->sizes, ring);
	struct decided decided;

	/* a writer that is busy, or means harm, must not keep us for ever */
	for (uint32_t i = 0; i < most && reader_decisions_next(reader, ring, cursor, now_ns,
	    &decided, lost); i++)
		each(context, &decided);
}

void reader_decisions(const struct reader *reader, enum decided_ring ring,
    void (*each)(void *context, const struct decided *), void *context) {
	struct decisions_cursor cursor = { .begun = false };
	uint64_t lost = 0;

	reader_decisions_follow(reader, ring, &cursor, 0, each, context, &lost);
}

#ifdef WITH_ACCOUNTS
unsigned reader_accounts(const struct reader *reader,
    void (*each)(void *context, const struct account *account), void *context) {
	return accounts_each_in(&reader->sizes, reader->map, each, context);
}

bool reader_account(const struct reader *reader, const struct login_key *login,
    struct account *out) {
	return accounts_find_in(&reader->sizes, reader->map, login, out);
}

bool reader_account_pool(const struct reader *reader, const char *name,
    struct quota_counter counters[GENERATION_QUOTA_COUNTERS]) {
	return accounts_pool_in(&reader->sizes, reader->map, accounts_pool_name(name), counters);
}

bool reader_account_health(const struct reader *reader, const struct login_key *login,
    struct account_health *out) {
	return account_health_in(&reader->sizes, reader->map, login, out);
}

unsigned reader_account_queued(const struct reader *reader,
    void (*each)(void *context, const struct account_queued *queued), void *context) {
	return account_queued_each_in(&reader->sizes, reader->map, each, context);
}

int64_t reader_accounts_since_s(const struct reader *reader) {
	return segment_accounts_since_ns(reader->live) / NS_PER_SECOND;
}
#endif

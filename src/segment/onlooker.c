/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The page of a role that cannot write to the segment.
 * MODEL    One writer, the role; the keeper reads, and takes the counters away.
 * ERRORS   The role may write anything there: times are bounded, counts are those of its kind,
 *          the rest is only shown.
 * THREADS  One on each side.
 */
#include "segment/onlooker.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "segment/file/internal.h"

#define SEALS	(F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

int onlooker_make(struct diag *diag) {
	int fd = memfd_create("postern-onlooker", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && ftruncate(fd, sizeof(struct onlooker)) == 0 &&
	    fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	diag_set(diag, errno, "cannot create the page of the metrics worker");
	if (fd >= 0)
		close(fd);
	return -1;
}

struct onlooker *onlooker_map(int fd, struct diag *diag) {
	void *mapping = mmap(NULL, sizeof(struct onlooker), PROT_READ | PROT_WRITE, MAP_SHARED,
	    fd, 0);

	if (mapping != MAP_FAILED)
		return mapping;
	diag_set(diag, errno, "cannot map the page of the metrics worker");
	return NULL;
}

static struct role_record *record_of(const struct segment *segment) {
	return &segment->header->roles[segment_role_place(ROLE_METRICS, 0)];
}

void onlooker_started(struct segment *segment, pid_t pid, int64_t started_ns) {
	if (atomic_load(&record_of(segment)->pid) != pid)
		segment_metrics_started(segment, pid, started_ns);
}

void onlooker_carry(struct segment *segment, struct onlooker *onlooker, int64_t now_ns) {
	struct role_record *role = record_of(segment);
	int64_t beat_ns = atomic_load(&onlooker->role.heartbeat_ns);

	segment_count(segment, COUNTER_BAD_HTTP_REQUESTS,
	    atomic_exchange(&onlooker->counters[COUNTER_BAD_HTTP_REQUESTS], 0));
	/* what its predecessor left there is not its own */
	if (atomic_load(&role->pid) == 0 || beat_ns <= atomic_load(&role->started_ns) ||
	    beat_ns > now_ns)
		return;
	atomic_store(&role->generation, atomic_load(&onlooker->role.generation));
	atomic_store(&role->sandbox, atomic_load(&onlooker->role.sandbox));
	atomic_store(&role->heartbeat_ns, beat_ns);
	if (atomic_load(&role->gap_end_ns) == INT64_MAX)
		atomic_store(&role->gap_end_ns, beat_ns);
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Tells when the queue role has been away for too long, and when it is back.
 * MODEL    A role is there once it has given a sign some seconds after its start: one that
 *          dies again and again is away.
 * THREADS  The keeper's.
 */
#include "engine/queue/queue_watch.h"

#include "engine/internal.h"

/* The last sign of life of a role that drives queues; 0: there is none now. */
static int64_t last_sign_ns(const struct segment_header *header) {
	int64_t last_ns = 0;

	for (unsigned i = 0; i < SEGMENT_ROLES_MAX; i++) {
		const struct role_record *role = &header->roles[i];
		int64_t beat_ns = segment_time_ns(&role->heartbeat_ns);

		if (atomic_load(&role->kind) == ROLE_QUEUE && atomic_load(&role->pid) > 0 &&
		    beat_ns - segment_time_ns(&role->started_ns) >= QUEUE_SETTLED_NS &&
		    beat_ns > last_ns)
			last_ns = beat_ns;
	}
	return last_ns;
}

int64_t queue_watch_look(int64_t *last_ns, struct engine *engine, const struct generation *generation,
    int64_t now_ns) {
	struct segment_header *header = engine->segment->header;
	int64_t sign_ns = last_sign_ns(header), told_ns = segment_time_ns(&header->queue_away_ns);

	/* no keeper said so */
	if (told_ns > now_ns)
		told_ns = 0;
	if (*last_ns == 0)
		*last_ns = told_ns != 0 ? told_ns : now_ns;
	if (!generation_drives(generation)) {
		*last_ns = now_ns;
		atomic_store(&header->queue_away_ns, 0);
		return 0;
	}
	if (sign_ns > *last_ns)
		*last_ns = sign_ns < now_ns ? sign_ns : now_ns;
	if (told_ns != 0 && *last_ns > told_ns) {
		atomic_store(&header->queue_away_ns, 0);
		return told_ns - now_ns;
	}
	if (told_ns != 0 || now_ns - *last_ns < QUEUE_AWAY_NS)
		return 0;
	atomic_store(&header->queue_away_ns, *last_ns);
	return now_ns - *last_ns;
}

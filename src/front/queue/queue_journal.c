/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The journal of the queue that is driven: which directory, which clock, what is
 *          told of it.
 * MODEL    The engine does the work in its turns; when a sync is over its turn is due.
 * ERRORS   A journal that cannot be opened is logged, and one that fails is told of once: all
 *          works without.
 * THREADS  The loop's.
 */
#include <limits.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/queue/queue_journal.h"
#include "front/queue/queue_drive_internal.h"

static int open_at(struct queue_drive *drive, const struct generation *generation,
    const char *path, struct diag *diag) {
	const struct queue_journal_setup setup = { .path = path,
		.file_size = generation->journal.file_size,
		.sync_delay_ns = generation->journal.sync_delay_ns,
		.envelope_delay_ns = generation->journal.envelope_delay_ns, .threaded = true };

	return queue_journal_open(drive->queue, &setup, drive->now_ns, clock_wall_ns(), diag);
}

void queue_keep_open(struct queue_drive *drive) {
	const struct generation *generation = engine_pin(drive->engine);
	char path[PATH_MAX], text[256];
	struct diag why;

	if (generation_journal_directory(generation, JOURNAL_ROOM_QUEUE, path) &&
	    open_at(drive, generation, path, &why) != 0)
		log_event(EVENT_JOURNAL_FAILED, "room=queue text=\"%s\"",
		    log_sentence(text, sizeof(text), why.text));
	engine_unpin(drive->engine, generation);
}

/* SPDX-License-Identifier: ISC */
/* Places in logs out of a journal.  What is too much is left out; one thread. */
#include "engine/journal/journal_restore_logs.h"

#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sd_log.h"
#include "base/text.h"
#include "engine/internal.h"
#include "segment/file/feed_position.h"

void restored_logs_add(struct restored_logs *logs,
    const struct journal_log_position *position) {
	if (logs->next_count < SEGMENT_LOG_FILES)
		logs->next[logs->next_count++] = *position;
}

void restored_logs_begin(struct restored_logs *logs) {
	logs->next_count = 0;
}

void restored_logs_end(struct restored_logs *logs) {
	memcpy(logs->last, logs->next, logs->next_count * sizeof(logs->next[0]));
	logs->last_count = logs->next_count;
	logs->next_count = 0;
	logs->known = true;
}

/* The log that a place is of, or "". */
static const char *log_of(const struct generation *generation, uint64_t log) {
	for (uint32_t i = 0; i < generation->mta_count; i++) {
		const char *text = generation_text(generation, generation->mtas[i].log);

		if (*text != '\0' && feed_log_id(text) == log)
			return text;
	}
	return "";
}

/* All files of a log lie in one file system, that of its directory. */
static uint64_t device_now(const struct generation *generation,
    const struct feed_position *position) {
	const char *log = log_of(generation, position->log);
	char path[PATH_MAX];
	struct stat status;

	if (*log == '\0' || sd_log_is(log) || !text_copy(path, sizeof(path), log, strlen(log)))
		return position->device;
	/* the file itself may be behind a link */
	if (stat(log, &status) == 0 && status.st_ino == position->inode)
		return status.st_dev;
	return stat(dirname(path), &status) == 0 ? status.st_dev : position->device;
}

unsigned restored_logs_put(const struct restored_logs *logs, struct engine *engine,
    const struct generation *generation, int64_t boot_ns) {
	unsigned count = 0;

	if (!logs->known)
		return 0;
	feed_positions_keep(engine->segment, NULL, 0);
	for (unsigned i = 0; i < logs->last_count; i++) {
		struct feed_position position = logs->last[i].position;

		if (logs->last[i].when_ns < boot_ns &&
		    (position.device != 0 || position.inode != 0))
			position.device = device_now(generation, &position);
		count += feed_position_add(engine->segment, &position);
	}
	return count;
}

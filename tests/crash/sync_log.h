/* SPDX-License-Identifier: ISC */
/* For tests: all that was appended to a log is written and synced, now. */
#ifndef TESTS_CRASH_SYNC_LOG_H
#define TESTS_CRASH_SYNC_LOG_H

#include <poll.h>
#include <stdint.h>

#include "journal/log.h"

/* 0; -1: it has FAILED. */
static inline int sync_log(struct journal_log *log, int64_t at_ns) {
	struct pollfd event = { .fd = journal_log_event_fd(log), .events = POLLIN };
	uint64_t wanted = journal_log_last(log);

	while (journal_log_state(log) == JOURNAL_GOOD && journal_log_synced(log) < wanted) {
		journal_log_sync_by(log, at_ns);
		(void)journal_log_turn(log, at_ns);
		/* of a log with a thread */
		if (event.fd >= 0 && journal_log_synced(log) < wanted)
			(void)poll(&event, 1, 1000);
	}
	return journal_log_state(log) == JOURNAL_GOOD ? 0 : -1;
}

#endif

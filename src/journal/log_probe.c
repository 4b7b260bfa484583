/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A failed log tries again; a good one looks whether its files are still there.
 * MODEL    A probe is a new file with its head on the disk: then there is room, and the
 *          directory can be written.  The log goes on in it.  What was not synced before the
 *          fault is given up: the head says where the log had ended, so that no reader takes
 *          half of it for the truth; the owner writes anew what it knows.
 * ERRORS   Waits 1 s, then twice as long each time, up to 30 s; files that were removed are
 *          replaced at once.
 * THREADS  The owner's.
 */
#include <errno.h>

#include "base/clock.h"
#include "journal/log_internal.h"

#define BACKOFF_LEAST	NS_PER_SECOND
#define BACKOFF_MOST	(30 * NS_PER_SECOND)
#define GOOD_FOR	(60 * NS_PER_SECOND)	/* then a fault is no longer the same one */
#define CHECK_EVERY	NS_PER_SECOND
#define LIST_EVERY	(10 * NS_PER_SECOND)

static void try_again(struct journal_log *log, int error, const char *what, int64_t now_ns) {
	if (error != 0) {
		log->error = error;
		log->what = what;
	}
	log->backoff = log->backoff < BACKOFF_LEAST ? BACKOFF_LEAST : 2 * log->backoff;
	if (log->backoff > BACKOFF_MOST)
		log->backoff = BACKOFF_MOST;
	log->retry_at = now_ns + log->backoff;
}

/* The file that was tried is of no use. */
static void give_up(struct journal_log *log) {
	char name[JOURNAL_NAME_MAX + 1];
	uint32_t i = journal_log_index(log, log->probe);

	journal_file_name(log->probe, name);
	if (i < log->files.count)
		journal_log_forget(log, i);
	/* where it cannot be removed: it is empty, or its head says no more than any other */
	(void)log->storage.calls->unlink(log->storage.context, name);
	log->probe = 0;
}

/* Files that were begun since and never synced: nothing in them counts any more, and the
 * disk may be full of them. */
static void delete_given_up(struct journal_log *log) {
	for (uint32_t i = log->files.count; i-- > 0;) {
		char name[JOURNAL_NAME_MAX + 1];

		if (!log->files.files[i].superseded || log->begin.file == 0 ||
		    log->files.files[i].number < log->begin.file)
			continue;
		journal_file_name(log->files.files[i].number, name);
		if (log->storage.calls->unlink(log->storage.context, name) != 0)
			continue;
		journal_log_forget(log, i);
		log->counts.files_deleted++;
	}
}

/* What was read at the start, and is not known to be on the disk, comes first. */
static int add_unsynced(struct journal_log *log) {
	for (uint32_t i = 0; i < log->files.count; i++) {
		int error = log->files.files[i].data ? journal_job_add_file(log, i) : 0;

		if (error != 0 && error != -ENOENT)
			return error;
	}
	return 0;
}

/* What was read is on the disk, and what was not synced before the fault counts no more. */
static void leave_unsynced(struct journal_log *log) {
	log->unsynced = false;
	for (uint32_t i = 0; i < log->files.count; i++)
		log->files.files[i].data = false;
}

static void begin_probe(struct journal_log *log, int64_t now_ns) {
	uint8_t head[JOURNAL_HEAD_SIZE];
	uint32_t i;
	int error;

	delete_given_up(log);
	error = journal_log_create(log, head);
	i = log->files.count - 1;

	if (error != 0) {
		try_again(log, -error, "create", now_ns);
		return;
	}
	log->probe = log->files.files[i].number;
	log->files.files[i].size = log->files.files[i].end = sizeof(head);
	log->counts.writes++;
	error = log->storage.calls->write(log->storage.context, log->files.files[i].handle, head,
	    sizeof(head), 0);
	if (error == 0)
		error = add_unsynced(log);
	if (error == 0 && !journal_job_add(log, log->files.files[i].handle))
		error = -ENOMEM;
	if (error != 0) {
		log->job.count = 0;
		give_up(log);
		try_again(log, -error, "write", now_ns);
		return;
	}
	log->job.directory = true;
	journal_job_begin(log, JOB_PROBE);
}

void journal_probe_turn(struct journal_log *log, int64_t now_ns) {
	int error;

	if (log->retry_at == 0) {
		if (log->good_since != 0 && now_ns - log->good_since > GOOD_FOR)
			log->backoff = 0;
		try_again(log, 0, NULL, now_ns);
	}
	if (now_ns < log->retry_at)
		return;
	error = log->storage.calls->lock(log->storage.context);
	if (error != 0) {
		try_again(log, -error, "lock", now_ns);
		return;
	}
	if (log->reads_again) {
		delete_given_up(log);
		journal_log_forget_all(log);
	}
	/* a queue's messages are those of the mail server, whatever stands there */
	if (log->is_read && log->options.kind != JOURNAL_QUEUE)
		error = journal_log_is_elsewhere(log);
	if (error >= 0)
		error = log->is_read ? journal_log_drop_missing(log) :
		    journal_log_read_directory(log);
	if (error < 0) {
		try_again(log, -error, "list", now_ns);
		return;
	}
	begin_probe(log, now_ns);
}

void journal_probe_ended(struct journal_log *log, const struct log_job *job, int64_t now_ns) {
	const struct journal_file *file = journal_files_find(&log->files, log->probe);

	if (job->error != 0 || file == NULL) {
		give_up(log);
		log->reads_again = log->unsynced;
		try_again(log, -job->error, "sync", now_ns);
		return;
	}
	leave_unsynced(log);
	log->state = JOURNAL_GOOD;
	log->error = 0;
	log->what = NULL;
	log->current = log->probe;
	log->probe = 0;
	log->directory = false;
	log->offset = JOURNAL_HEAD_SIZE;
	log->buffered = 0;
	log->synced = log->files.synced = file->first;
	log->synced_place = (struct journal_place){ log->current, log->offset };
	if (log->begin.file == 0)
		log->begin.file = log->current;
	log->good_since = now_ns;
	log->check_at = now_ns + CHECK_EVERY;
	log->list_at = now_ns + LIST_EVERY;
	if (log->options.calls.changed != NULL)
		log->options.calls.changed(log->options.calls.context, JOURNAL_GOOD, 0, "");
	journal_log_renew(log);
}

void journal_probe_check(struct journal_log *log, int64_t now_ns) {
	char name[JOURNAL_NAME_MAX + 1];
	uint32_t i = journal_log_index(log, log->current);
	int lost = 0;
	int error;

	if (now_ns < log->check_at)
		return;
	log->check_at = now_ns + CHECK_EVERY;
	if (log->good_since == 0)
		log->good_since = now_ns;
	journal_log_read_more(log);
	journal_file_name(log->current, name);
	/* the lock, too: without it there would be two writers */
	error = log->storage.calls->lock(log->storage.context);
	if (error == 0)
		error = i < log->files.count ? journal_log_handle(log, i) : -ENOENT;
	if (error >= 0)
		error = log->storage.calls->check(log->storage.context, error, name);
	if (error == 0 && now_ns >= log->list_at) {
		log->list_at = now_ns + LIST_EVERY;
		lost = journal_log_drop_missing(log);
		if (journal_files_find(&log->files, log->current) == NULL)
			error = -ENOENT;
	}
	if (error != 0) {
		journal_log_fail(log, -error, "check");
		log->retry_at = now_ns;
	} else if (lost > 0) {
		journal_log_renew(log);
	}
}

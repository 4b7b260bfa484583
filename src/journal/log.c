/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The log: records are appended and synced in groups.
 * MODEL    One buffer, written at the end of the owner's turn.  A group sync covers all that
 *          was written when it begins: the files with unsynced records in their order, then
 *          the directory where names were made; when it has ended, all of that is synced.
 *          So "synced" is always a prefix, though the kernel writes as it likes.
 *          The other parts: log_files.c, log_sync.c (the thread), log_marks.c,
 *          log_positions.c, log_probe.c (faults).
 * ERRORS   A fault makes the log FAILED, and is told once.
 * THREADS  The owner's.
 */
#include "journal/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "journal/log_internal.h"

#define FILE_SIZE_LEAST	(UINT32_C(4) << 10)
#define FILE_SIZE_MOST	(UINT32_C(1) << 30)
#define GROUP_FILES	16	/* descriptors of a group */
#define LOCK_PAUSE_NS	(20 * NS_PER_MS)
#define LOCK_TRIES	75	/* 1.5 s: a role must give a sign of life within 4 */
#define MARKS_A_TURN	512	/* each may have to read a page of an old file first */
#define LOOK_A_TURN	(UINT32_C(32) << 20)	/* bytes of files that are to be deleted */
#define STEPS_MOST	16	/* of a turn: each begins a job, or is the last */

/* --- small things ------------------------------------------------------------------- */

/* splitmix64 */
static uint64_t next_random(struct journal_log *log) {
	uint64_t z = log->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint32_t journal_log_random(struct journal_log *log) {
	return (uint32_t)next_random(log);
}

int64_t journal_log_wall_ns(const struct journal_log *log) {
	struct timespec now;

	if (log->options.wall_ns != NULL)
		return log->options.wall_ns();
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

void journal_log_renew(struct journal_log *log) {
	log->counts.renewals++;
	if (log->options.calls.renew != NULL)
		log->options.calls.renew(log->options.calls.context);
}

/* What was appended and not synced counts no more.  What was read at the start does: it is
 * synced with the next file.  But where a sync has failed the next one says nothing good: by
 * then the kernel has forgotten what it could not write.  So it is read again, from the disk. */
static void give_up_unsynced(struct journal_log *log, bool sync_failed) {
	log->ended = log->unsynced ? log->read_end : log->synced_place;
	log->reads_again = log->reads_again || (log->unsynced && sync_failed);
	journal_log_cut(log, log->ended);
	for (uint32_t i = 0; i < log->files.count; i++)
		log->files.files[i].data = log->files.files[i].data && log->unsynced &&
		    !log->files.files[i].superseded;
}

bool journal_log_fail(struct journal_log *log, int error, const char *what) {
	if (log->state == JOURNAL_FAILED)
		return false;
	log->state = JOURNAL_FAILED;
	log->error = error != 0 ? error : EIO;
	log->what = what;
	log->counts.faults++;
	log->retry_at = 0;
	log->job.void_now = true;
	log->buffered = 0;
	log->current = 0;
	log->switches = false;
	log->sync_due = INT64_MAX;
	give_up_unsynced(log, strcmp(what, "sync") == 0);
	journal_marks_drop(log);
	journal_positions_drop(log);
	if (log->options.calls.changed != NULL)
		log->options.calls.changed(log->options.calls.context, JOURNAL_FAILED,
		    log->error, what);
	return false;
}

/* --- life --------------------------------------------------------------------------- */

/* Begins the first file of its own. */
static void begin_file(struct journal_log *log) {
	int error = journal_log_create(log, log->buffer);

	if (error != 0) {
		journal_log_fail(log, -error, "create");
		return;
	}
	log->current = log->files.files[log->files.count - 1].number;
	log->offset = 0;
	log->buffered = JOURNAL_HEAD_SIZE;
	if (log->begin.file == 0)
		log->begin.file = log->current;
}

/* One that was killed a moment ago keeps its lock until its last sync has ended. */
static int lock_patiently(struct journal_log *log) {
	int error = log->storage.calls->lock(log->storage.context);

	for (unsigned i = 0; i < LOCK_TRIES && error == -EAGAIN && log->options.threaded; i++) {
		clock_pause(LOCK_PAUSE_NS);
		error = log->storage.calls->lock(log->storage.context);
	}
	return error;
}

static void file_begin(struct journal_log *log) {
	int error = lock_patiently(log);
	int listed;

	/* on a read-only disk it can be read all the same */
	if (error == -EAGAIN) {
		journal_log_fail(log, EAGAIN, "lock");
		return;
	}
	listed = journal_log_read_directory(log);
	if (listed != 0 || error != 0) {
		journal_log_fail(log, error != 0 ? -error : -listed, error != 0 ? "lock" : "list");
		return;
	}
	begin_file(log);
}

int journal_log_open(struct journal_log **out, const struct journal_storage *storage,
    const struct journal_log_options *options, int64_t now_ns, struct diag *diag) {
	struct journal_log *log = calloc(1, sizeof(*log));
	uint32_t size = options->file_size;

	*out = NULL;
	if (log == NULL || (log->buffer = malloc(LOG_BUFFER)) == NULL) {
		free(log);
		return diag_set(diag, ENOMEM, "the journal");
	}
	log->storage = *storage;
	log->options = *options;
	log->options.file_size = size < FILE_SIZE_LEAST ? FILE_SIZE_LEAST :
	    size > FILE_SIZE_MOST ? FILE_SIZE_MOST : size;
	log->random = options->random;
	if (log->random == 0 && getrandom(&log->random, sizeof(log->random), 0) < 0)
		log->random = (uint64_t)journal_log_wall_ns(log) ^ (uint64_t)getpid() << 32;
	log->state = JOURNAL_GOOD;
	log->sync_due = INT64_MAX;
	log->positions.handle = -1;
	log->files.storage = &log->storage;
	log->thread.event = options->threaded ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
	pthread_mutex_init(&log->thread.mutex, NULL);
	pthread_cond_init(&log->thread.changed, NULL);
	log->check_at = now_ns + NS_PER_SECOND;
	log->list_at = now_ns + 10 * NS_PER_SECOND;
	file_begin(log);
	if (log->unsynced && log->state == JOURNAL_GOOD)
		log->sync_due = now_ns;
	*out = log;
	return 0;
}

void journal_log_close(struct journal_log **out) {
	struct journal_log *log = *out;

	if (log == NULL)
		return;
	journal_job_close(log);
	journal_log_forget_all(log);
	journal_files_free(&log->files);
	free(log->marks.marks);
	free(log->buffer);
	free(log);
	*out = NULL;
}

enum journal_state journal_log_state(const struct journal_log *log) {
	return log->state;
}

int journal_log_error(const struct journal_log *log, const char **what) {
	if (what != NULL)
		*what = log->what;
	return log->error;
}

bool journal_log_is_read(const struct journal_log *log) {
	return log->is_read;
}

/* --- appending ------------------------------------------------------------------------ */

void journal_log_flush(struct journal_log *log) {
	uint32_t i = journal_log_index(log, log->current);
	int error;

	if (log->state != JOURNAL_GOOD || log->buffered == 0)
		return;
	log->counts.writes++;
	error = i < log->files.count ? journal_log_handle(log, i) : -ENOENT;
	if (error >= 0)
		error = log->storage.calls->write(log->storage.context, error, log->buffer,
		    log->buffered, log->offset);
	if (error != 0) {
		journal_log_fail(log, -error, "write");
		return;
	}
	log->offset += log->buffered;
	log->buffered = 0;
	log->files.files[i].data = true;
	log->files.files[i].size = log->files.files[i].end = log->offset;
}

/* Room for a record of so many bytes; false: a fault. */
static bool make_room(struct journal_log *log, size_t bytes) {
	uint32_t there = log->offset + log->buffered;

	if (there > JOURNAL_HEAD_SIZE &&
	    (log->switches || there + bytes > log->options.file_size)) {
		journal_log_flush(log);
		if (log->state != JOURNAL_GOOD)
			return false;
		begin_file(log);
	} else if (log->buffered + bytes > LOG_BUFFER) {
		journal_log_flush(log);
	}
	log->switches = false;
	return log->state == JOURNAL_GOOD && log->buffered + bytes <= LOG_BUFFER;
}

uint64_t journal_log_append(struct journal_log *log, uint8_t type, const void *payload,
    size_t length, struct journal_place *place) {
	struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = type,
		.version = JOURNAL_VERSION, .length = (uint32_t)length, .payload = payload };
	uint64_t behind;

	if (log->state != JOURNAL_GOOD || length > JOURNAL_PAYLOAD_MAX ||
	    !make_room(log, JOURNAL_HEADER + length)) {
		log->counts.dropped++;
		return 0;
	}
	frame.sequence = ++log->last;
	behind = frame.sequence - log->synced;
	frame.behind = behind < JOURNAL_BEHIND_MAX ? (uint32_t)behind : JOURNAL_BEHIND_MAX;
	if (place != NULL)
		*place = (struct journal_place){ log->current, log->offset + log->buffered };
	log->buffered += (uint32_t)journal_frame_write(log->buffer + log->buffered, &frame,
	    log->files.files[log->files.count - 1].head.salt);
	log->counts.appended++;
	log->counts.appended_bytes += JOURNAL_HEADER + length;
	return frame.sequence;
}

void journal_log_switch(struct journal_log *log) {
	log->switches = true;
}

void journal_log_sync_by(struct journal_log *log, int64_t when_ns) {
	if (when_ns < log->sync_due && log->last > log->synced && log->state == JOURNAL_GOOD)
		log->sync_due = when_ns;
}

/* --- turns ---------------------------------------------------------------------------- */

/* Where a group has enough files with i, the sequence that the next file begins with, which
 * is another group's; else 0. */
static uint64_t end_of_group(const struct journal_log *log, uint32_t i) {
	if (log->job.count < GROUP_FILES)
		return 0;
	do
		i++;
	while (i < log->files.count && log->files.files[i].superseded);
	return i < log->files.count ? log->files.files[i].first : 0;
}

/* What was written is synced: all of it, or the oldest files of many. */
static void begin_group(struct journal_log *log) {
	MUST(log->buffered == 0);
	log->sync_due = INT64_MAX;
	log->job.sequence = log->last;
	log->job.place = (struct journal_place){ log->current, log->offset };
	for (uint32_t i = 0; i < log->files.count; i++) {
		uint64_t next;
		int error;

		if (!log->files.files[i].data)
			continue;
		error = journal_job_add_file(log, i);
		if (error != 0) {
			log->job.count = 0;
			journal_log_fail(log, -error, "open");
			return;
		}
		log->files.files[i].data = log->files.files[i].marks = false;
		next = end_of_group(log, i);
		if (next > log->synced + 1) {
			log->job.sequence = next - 1;
			log->job.place = (struct journal_place){ log->files.files[i].number,
				log->files.files[i].end };
			log->sync_due = 0;
			break;
		}
	}
	log->job.directory = log->directory;
	log->directory = false;
	journal_job_begin(log, JOB_GROUP);
}

/* False: none has ended. */
static bool take_ended(struct journal_log *log, int64_t now_ns) {
	struct log_job job;

	if (!journal_job_take(log, &job))
		return false;
	switch (job.kind) {
	case JOB_GROUP:
		if (job.void_now)
			break;
		if (job.error != 0) {
			journal_log_fail(log, -job.error, "sync");
			break;
		}
		log->synced = log->files.synced = job.sequence;
		log->synced_place = job.place;
		log->unsynced = log->unsynced && job.place.file < log->begin.file;
		journal_log_close_idle(log);
		break;
	case JOB_MARKS:
	case JOB_SLOT:
		journal_positions_ended(log, &job);
		break;
	case JOB_PROBE:
		journal_probe_ended(log, &job, now_ns);
		break;
	case JOB_NONE:
	default:
		break;
	}
	return true;
}

/* One step; false: there is nothing more to do now. */
static bool go_on(struct journal_log *log, int64_t now_ns) {
	journal_log_flush(log);
	while (take_ended(log, now_ns))
		;
	if (log->job.kind != JOB_NONE) {
		if (log->state == JOURNAL_GOOD)
			(void)journal_marks_apply(log);
		return false;
	}
	if (log->state == JOURNAL_FAILED) {
		journal_probe_turn(log, now_ns);
		return log->job.kind != JOB_NONE;
	}
	journal_probe_check(log, now_ns);
	if (log->state == JOURNAL_FAILED)
		return true;
	if (log->delete_below != 0)
		journal_log_delete_below(log, log->delete_below);
	journal_log_flush(log);
	if (log->state == JOURNAL_FAILED || !journal_marks_apply(log))
		return true;
	if (log->last > log->synced && (log->sync_due <= now_ns || journal_positions_want_sync(log)))
		begin_group(log);
	else
		journal_positions_go_on(log);
	return log->job.kind != JOB_NONE;
}

int64_t journal_log_turn(struct journal_log *log, int64_t now_ns) {
	int64_t next;

	log->marks.left = MARKS_A_TURN;
	log->look_left = LOOK_A_TURN;
	for (unsigned i = 0; i < STEPS_MOST && go_on(log, now_ns); i++)
		;
	if (log->state == JOURNAL_FAILED)
		return log->job.kind != JOB_NONE ? INT64_MAX :
		    log->retry_at != 0 ? log->retry_at : now_ns;
	if (journal_marks_wait(log) && log->marks.left == 0)
		return now_ns;
	if (log->job.kind != JOB_NONE)	/* its end is told; nothing can be done before */
		return now_ns + NS_PER_SECOND;
	next = log->check_at;
	return log->sync_due < next ? log->sync_due : next;
}

int journal_log_event_fd(const struct journal_log *log) {
	return log->thread.event;
}

/* --- asking --------------------------------------------------------------------------- */

uint64_t journal_log_synced(const struct journal_log *log) {
	return log->synced;
}

uint64_t journal_log_last(const struct journal_log *log) {
	return log->last;
}

bool journal_log_holds(const struct journal_log *log, struct journal_place place) {
	const struct journal_file *file = journal_files_find(&log->files, place.file);

	if (file == NULL || file->superseded)
		return false;
	if (file->head_state == JOURNAL_HEAD_UNREAD)
		return true;	/* as far as is known */
	return place.offset < (place.file == log->current ? log->offset + log->buffered :
	    file->end);
}

struct journal_files *journal_log_files(struct journal_log *log) {
	return &log->files;
}

struct journal_place journal_log_begin(const struct journal_log *log) {
	return log->begin;
}

void journal_log_count(const struct journal_log *log, struct journal_log_counts *out) {
	*out = log->counts;
	out->disk_bytes = out->later_files = 0;
	for (uint32_t i = 0; i < log->files.count; i++) {
		const struct journal_file *file = &log->files.files[i];

		out->disk_bytes += file->size;
		out->later_files += file->later || file->head_state == JOURNAL_HEAD_LATER;
	}
}

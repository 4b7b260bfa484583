/* SPDX-License-Identifier: ISC */
/* The log's state.  For journal/ only. */
#ifndef JOURNAL_LOG_INTERNAL_H
#define JOURNAL_LOG_INTERNAL_H

#include <pthread.h>

#include "journal/log.h"

#define LOG_BUFFER	(JOURNAL_FRAME_MAX + (UINT32_C(256) << 10))

enum job_kind {
	JOB_NONE,
	JOB_GROUP,		/* all records up to job.sequence */
	JOB_MARKS,		/* all files with unsynced marks, for positions */
	JOB_SLOT,		/* `positions` */
	JOB_PROBE,		/* the head of the file that a failed log is tried with */
};

/* What is to be synced: by the thread, or at once. */
struct log_job {
	enum job_kind kind;
	int *handles;
	uint32_t count;
	size_t room;
	bool directory;
	int error;		/* set by whoever did it */
	/* for its end */
	bool void_now;		/* a fault came between: its result says nothing */
	uint64_t sequence;
	struct journal_place place;
};

struct log_thread {
	pthread_t thread;
	bool runs, quits;
	bool has_work;		/* the job is to be done */
	bool has_ended;
	int event;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
};

struct log_mark {
	struct journal_place place;
	uint64_t allowed_by;
};
/* A ring, in the order in which they were asked for. */
struct log_marks {
	struct log_mark *marks;
	uint32_t room, first, count;
	uint64_t asked, done;	/* since the start; done: written, or not needed any more */
	uint32_t left;		/* so many more in this turn */
};

enum positions_stage {
	POSITIONS_NONE,
	POSITIONS_SYNC,		/* records up to `last` and marks are to be written and synced */
	POSITIONS_MARKS,	/* a JOB_MARKS runs */
	POSITIONS_SLOT,		/* a JOB_SLOT runs */
};
struct log_request {
	struct journal_positions positions;
	uint64_t number;
	uint64_t last;		/* sequence that must be synced before */
	uint64_t marks;		/* as many must be done before */
};
struct log_positions {
	bool was_found;
	struct journal_positions found;
	uint64_t asked, recorded;	/* numbers */
	uint64_t serial;	/* of the slot written last */
	uint64_t syncs_before;	/* of the journal's life before this log */
	int handle;
	enum positions_stage stage;
	struct log_request now, next;	/* `next` waits where its number is not 0 */
};

struct journal_log {
	struct journal_storage storage;
	struct journal_log_options options;
	uint64_t random;
	uint64_t journal;
	enum journal_state state;
	bool is_read;
	int error;
	const char *what;

	struct journal_files files;
	uint32_t current;	/* number of the file that is written; 0: none */
	uint32_t highest;	/* number of any file so far */
	bool directory;		/* names were made or removed that no sync covers */
	bool switches;		/* the next append begins a file */
	struct journal_place begin;
	uint64_t found_journal;	/* what stood there when it was read; 0: nothing */
	uint32_t found_last;	/* the last file with records then */
	uint32_t kept;		/* files below it are never deleted */
	uint32_t delete_below;	/* goes on in the next turn; 0: done */
	uint32_t look_left;	/* bytes that this turn may look through yet */

	/* What was read at the start is synced with the first group; until then: */
	bool unsynced;
	bool reads_again;	/* its sync has failed: all is read again before the next try */
	unsigned tries;		/* to read the directory; then, heads that are unread */
	bool heads_counted;
	struct journal_place read_end;

	uint64_t last, synced;
	struct journal_place synced_place;	/* behind the record `synced` */
	struct journal_place ended;	/* where the log ended before the file that is begun next,
					 * where `current` is 0 */
	int64_t sync_due;	/* INT64_MAX: none is asked for */
	uint32_t offset;	/* of the buffer in the current file */
	uint32_t buffered;
	uint8_t *buffer;

	struct log_job job;
	struct log_thread thread;
	struct log_marks marks;
	struct log_positions positions;

	uint32_t probe;		/* number of the file that is tried; 0: none */
	int64_t retry_at;	/* FAILED; 0: not set */
	int64_t backoff;
	int64_t good_since, check_at, list_at;
	struct journal_log_counts counts;
};

/* --- log.c ---------------------------------------------------------------------- */

void journal_log_renew(struct journal_log *log);
/* A fault: nothing is written until a probe goes well.  Always false. */
bool journal_log_fail(struct journal_log *log, int error, const char *what);
uint32_t journal_log_random(struct journal_log *log);
int64_t journal_log_wall_ns(const struct journal_log *log);

/* --- log_files.c ------------------------------------------------------------------ */

/* The handle of file i, opened where it is not; or -errno. */
int journal_log_handle(struct journal_log *log, uint32_t i);
/* Index of that file; files.count: it is not known. */
uint32_t journal_log_index(const struct journal_log *log, uint32_t number);
/* Makes another file, the last of files; its head into `head`.  Not written yet.  Or -errno. */
int journal_log_create(struct journal_log *log, uint8_t head[JOURNAL_HEAD_SIZE]);
void journal_log_forget(struct journal_log *log, uint32_t i);
/* Forgets files that are not in the directory any more; how many, or -errno. */
int journal_log_drop_missing(struct journal_log *log);
void journal_log_close_idle(struct journal_log *log);
/* Nothing behind `end` counts. */
void journal_log_cut(struct journal_log *log, struct journal_place end);
/* Reads the directory, and finds where the log ended; or -errno. */
int journal_log_read_directory(struct journal_log *log);
/* Once a second: reads heads that nobody has needed so far, and counts what is wrong with
 * files when all are read. */
void journal_log_read_more(struct journal_log *log);

/* --- log_delete.c ------------------------------------------------------------------- */

/* Is this another directory than the one that was read: files, and none of ours?  Then
 * nothing is known any more but sequences.  1, 0, or -errno. */
int journal_log_is_elsewhere(struct journal_log *log);
/* Nothing is known of the directory, but numbers and sequences that were taken. */
void journal_log_forget_all(struct journal_log *log);
/* Deletes what is below `first`, in order: as much as a turn may look through, the rest in
 * later ones (delete_below). */
void journal_log_delete_below(struct journal_log *log, uint32_t first);

/* --- log_sync.c -------------------------------------------------------------------- */

bool journal_job_add(struct journal_log *log, int handle);
/* The same of file i, opened; 0 or -errno. */
int journal_job_add_file(struct journal_log *log, uint32_t i);
/* Has the job done; without a thread it has ended then. */
void journal_job_begin(struct journal_log *log, enum job_kind kind);
/* Has it ended?  Then it is taken: kind is NONE again, *ended what it was. */
bool journal_job_take(struct journal_log *log, struct log_job *ended);
void journal_job_close(struct journal_log *log);

/* --- log_probe.c ------------------------------------------------------------------- */

/* FAILED: tries again where it is time. */
void journal_probe_turn(struct journal_log *log, int64_t now_ns);
void journal_probe_ended(struct journal_log *log, const struct log_job *job, int64_t now_ns);
/* GOOD: are the files still there?  Each second. */
void journal_probe_check(struct journal_log *log, int64_t now_ns);

/* --- log_marks.c ------------------------------------------------------------------- */

/* Writes those that are allowed by now, as many as a turn may.  False: a fault. */
bool journal_marks_apply(struct journal_log *log);
/* Another turn is to go on with them. */
bool journal_marks_wait(const struct journal_log *log);
/* A fault: those that are not allowed yet never will be. */
void journal_marks_drop(struct journal_log *log);

/* --- log_positions.c ----------------------------------------------------------------- */

/* Goes on with what was asked for, as far as it goes without a sync. */
void journal_positions_go_on(struct journal_log *log);
/* Does it wait for records to be synced? */
bool journal_positions_want_sync(const struct journal_log *log);
void journal_positions_ended(struct journal_log *log, const struct log_job *job);
void journal_positions_drop(struct journal_log *log);

#endif

/* SPDX-License-Identifier: ISC */
/* What the parts of the queue's loop share. */
#ifndef FRONT_QUEUE_DRIVE_INTERNAL_H
#define FRONT_QUEUE_DRIVE_INTERNAL_H

#include <dirent.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/map.h"
#include "engine/queue/queue.h"
#include "front/queue/queue_drive.h"
#include "front/queue/queue_link.h"
#include "wire/queue/sendmail_queue_file.h"

struct queue_control;

/* Which queue files there are (queue_directory.c). */
#define QUEUE_WATCHES_MAX 4096
struct queue_scan {
	DIR *stream;		/* of the directory that is looked through */
	unsigned directory;
	bool runs;		/* else all was looked through */
	bool anew, next_anew;	/* what is known is read, too */
	bool wanted;		/* to be begun again at the end */
	bool first;		/* nothing was known before it */
	bool any_unwatched;
	bool fails;		/* a directory of this pass cannot be read */
	bool failed;		/* one of the last could not: logged */
	unsigned names;
	int64_t began_ns, ended_ns;
	int64_t next_ns;	/* the next one begins */
	int64_t room_ns;	/* the next one for what was refused; 0: there is none */
	int16_t by_watch[QUEUE_WATCHES_MAX];	/* number of the directory + 1 */
};

/* Files that are to be read (queue_reads.c). */
TAILQ_HEAD(queue_read_list, queue_read);
struct queue_read {
	TAILQ_ENTRY(queue_read) in_list;
	struct queue_read_list *list;	/* that it is in; NULL: it is served */
	unsigned directory;
	char id[SENDMAIL_QUEUE_ID_MAX + 1];
	bool again;		/* it changed after it was asked for */
	bool must;		/* it is to be told of even if it has not changed */
	bool is_more;
	uint64_t place;		/* is_more */
	unsigned cut_tries;
	uint32_t ticket;
};

struct queue_reads {
	struct map by_file;
	struct queue_read_list waiting, asked, resting;
	unsigned asked_count;
	uint32_t next_ticket;
	struct map bad;		/* hashes of files that were found bad */
	struct sendmail_queue_reader reader;
	char piece[65536];
};

struct queue_drive {
	struct engine *engine;
	struct queue *queue;
	const struct queue_drive_setup *setup;
	struct event_base *base;
	struct event *beat, *second, *turn, *link_event, *notify_event, *sync_event;
	struct queue_scan scan;
	struct queue_reads reads;
	struct queue_control *control;
	uint64_t generation;	/* number of the settings in use */
	uint64_t shape;		/* of what a reload may not change while we live */
	int64_t now_ns;
	int64_t wall_s;		/* at now_ns */
	int64_t beat_ns;
	uint8_t told_pause[GENERATION_MTAS_MAX];	/* enum queue_pause, as logged */
	bool is_over;		/* the loop ends: with success */
	const char *broken;	/* or with this reason */
};

/* --- queue_drive.c ----------------------------------------------------------------- */

/* Around all work: the time; then what can be run is. */
void queue_drive_begin(struct queue_drive *drive);
void queue_drive_end(struct queue_drive *drive);
/* In long work: a sign of life now and then. */
void queue_drive_beat(struct queue_drive *drive);

/* --- queue_reads.c: queue files that are to be read --------------------------------- */

void queue_reads_open(struct queue_drive *drive);
void queue_reads_close(struct queue_drive *drive);

/* To be read from its beginning, unless it is to be already.  `must`: before the others,
 * and even if the file that the engine knows is there still. */
void queue_reads_add(struct queue_drive *drive, unsigned directory, const char *id,
    bool must);
/* queue_calls.read: the same, at once; or more recipients of it, from `place` on. */
void queue_reads_want(void *drive, unsigned directory, const char *id, uint64_t place);

/* Asks for as many as may be asked for at a time. */
void queue_reads_ask(struct queue_drive *drive);
/* One was opened, or not.  `fd` is taken over. */
void queue_reads_opened(struct queue_drive *drive, uint32_t ticket, int fd, uint32_t error);

/* Files that were found cut: looks at them again. */
void queue_reads_second(struct queue_drive *drive);

/* Is it known to be bad as it is (directory, id and inode)? */
bool queue_reads_is_bad(const struct queue_drive *drive, unsigned directory,
    const char *id, uint64_t inode);

/* --- queue_directory.c: which files there are --------------------------------------- */

void queue_directory_open(struct queue_drive *drive);
void queue_directory_close(struct queue_drive *drive);

/* A part of it.  False: it is done. */
bool queue_directory_step(struct queue_drive *drive);
/* Each second: is it time for the next one? */
void queue_directory_second(struct queue_drive *drive);
/* When the next part is to be done: 0 at once, INT64_MAX: when something happens. */
int64_t queue_directory_next_ns(const struct queue_drive *drive);

/* What inotify tells. */
void queue_directory_notified(struct queue_drive *drive);

/* The engine has room again for what it refused (queue_calls.room). */
void queue_directory_room(void *drive);

#endif

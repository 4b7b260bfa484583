/* SPDX-License-Identifier: ISC */
/* What the parts of the queue's loop share. */
#ifndef FRONT_QUEUE_DRIVE_INTERNAL_H
#define FRONT_QUEUE_DRIVE_INTERNAL_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/queue/queue.h"
#include "front/queue/queue_drive.h"
#include "front/queue/queue_link.h"

struct queue_control;
struct queue_drive;
struct queue_scan;
struct queue_reads;

struct queue_drive {
	struct engine *engine;
	struct queue *queue;
	const struct queue_drive_setup *setup;
	struct event_base *base;
	struct event *beat, *second, *turn, *link_event, *notify_event, *sync_event;
	struct queue_link_end link;
	struct queue_scan *scan;
	struct queue_reads *reads;
	struct queue_control *control;
	uint64_t generation;	/* number of the settings in use */
	uint64_t shape;		/* of what a reload may not change while we live */
	int64_t now_ns;
	int64_t wall_s;		/* at now_ns */
	int64_t beat_ns;
	bool is_read;		/* all that was there at the start */
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

/* --- queue_settings.c ---------------------------------------------------------------- */

/* What our directories were opened for, and what sizes the engine's memory: with another one a
 * new role is to come. */
uint64_t queue_settings_shape(const struct generation *g);
void queue_settings_of(const struct generation *g, struct queue_settings *out);

/* --- queue_reads.c: queue files that are to be read --------------------------------- */

int queue_reads_open(struct queue_drive *drive, struct diag *diag);
void queue_reads_close(struct queue_drive *drive);

/* To be read from its beginning, unless it is to be already.  `must`: before the others,
 * and even if the file that the engine knows is there still. */
void queue_reads_add(struct queue_drive *drive, unsigned directory, const char *id,
    bool must);
/* More recipients of it, from `place` on. */
void queue_reads_add_more(struct queue_drive *drive, unsigned directory, const char *id,
    uint64_t place);

/* Asks for as many as may be asked for at a time. */
void queue_reads_ask(struct queue_drive *drive);
/* One was opened, or not.  `fd` is taken over. */
void queue_reads_opened(struct queue_drive *drive, uint32_t ticket, int fd, uint32_t error);

/* Files that were found cut: looks at them again. */
void queue_reads_second(struct queue_drive *drive);

/* How many are to be read. */
unsigned queue_reads_count(const struct queue_drive *drive);
/* Is it known to be bad as it is (directory, id and inode)? */
bool queue_reads_is_bad(const struct queue_drive *drive, unsigned directory,
    const char *id, uint64_t inode);

/* --- queue_journal.c: what survives us (engine/queue/queue_journal.h) ---------------------- */

/* Before anything is read.  -1 with *diag: no memory for the loop; all else is logged. */
int queue_keep_open(struct queue_drive *drive, struct diag *diag);
void queue_keep_close(struct queue_drive *drive);
void queue_keep_second(struct queue_drive *drive);

/* --- queue_directory.c: which files there are --------------------------------------- */

int queue_directory_open(struct queue_drive *drive, struct diag *diag);
void queue_directory_close(struct queue_drive *drive);

/* A part of it.  False: it is done. */
bool queue_directory_step(struct queue_drive *drive);
/* Each second: is it time for the next one? */
void queue_directory_second(struct queue_drive *drive);
/* When the next part is to be done: 0 at once, INT64_MAX: when something happens. */
int64_t queue_directory_next_ns(const struct queue_drive *drive);

/* Was all looked through once? */
bool queue_directory_is_known(const struct queue_drive *drive);

/* What inotify tells. */
void queue_directory_notified(struct queue_drive *drive);

/* The engine has room again for what it refused. */
void queue_directory_room(struct queue_drive *drive);

#endif

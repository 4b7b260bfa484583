/* SPDX-License-Identifier: ISC */
/*
 * The segment's life: made, adopted after a crash, rebuilt for another layout,
 * mapped by the roles (who inherit the mapping by fork).  All functions that
 * return int return 0, or -1 with *diag.
 */
#ifndef SEGMENT_SEGMENT_H
#define SEGMENT_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"
#include "config/generation.h"
#include "segment/layout.h"

struct segment;

/* Takes PATH.lock for the life of this process, waiting 2 s for it; else the
 * text names the holder's pid.  *lock_fd is close-on-exec; roles close it first
 * thing after fork.  Then waits (5 s) until no role of an earlier supervisor
 * lives (they hold PATH.roles shared).  Supervisor only. */
int segment_lock(const char *path, int *lock_fd, struct diag *diag);

/* First thing in a role after fork: a shared hold on PATH.roles until it dies. */
int segment_lock_role(const char *path, struct diag *diag);

enum segment_origin { SEGMENT_MADE, SEGMENT_ADOPTED, SEGMENT_REBUILT };

struct segment_report {
	enum segment_origin origin;
	const char *reason;	/* why not adopted, static text; "" for MADE without a file */
	uint64_t sessions;	/* open sessions taken over */
	bool not_tmpfs;		/* warn once */
};

/* Makes, adopts or rebuilds the segment at generation's state_path, with its
 * sizes. `uid`/`gid` own the file (mode 0640).  The caller holds the lock.  An
 * adopted segment is checked and repaired word by word: nothing in it is
 * trusted.  Supervisor only. */
int segment_prepare(struct segment **segment, const struct generation *generation,
    uid_t uid, gid_t gid, struct segment_report *report, struct diag *diag);
void segment_unmap(struct segment **segment);

struct segment_header *segment_header(const struct segment *segment);
const char *segment_path(const struct segment *segment);

/* Finds or makes the class records of `generation` (fills `record` and `number`
 * in it), marks those of removed classes, writes the block to
 * PATH.config.NUMBER and publishes the number.  When it fails, the generation in
 * force stays in force.
 * Supervisor only. */
int segment_publish(struct segment *segment, struct generation *generation,
    struct diag *diag);

/* Maps a published generation read-only; segment_unmap_generation gives it back. */
int segment_map_generation(const struct segment *segment, uint64_t number,
    const struct generation **generation, struct diag *diag);
void segment_unmap_generation(const struct generation *generation);

/* Was it newly built, without what was learned and done by hand up to a moment ago?  Then
 * that is to come from the journal, before the first role is started; whoever has seen to
 * it says so.  It stands in the segment, as the supervisor may die in between. */
bool segment_is_unlearned(const struct segment *segment);
void segment_has_learned(struct segment *segment, bool all);

/* Roles' places, kept by the supervisor: a place for (kind, number), found
 * again at each restart. */
unsigned segment_role_place(struct segment *segment, enum role_kind kind,
    unsigned number);
/* A place of an earlier supervisor that no role has any more: its outage would
 * never end. */
void segment_role_forget(struct segment *segment, unsigned place);
/* Before fork: gives the place its next incarnation. */
void segment_role_starting(struct segment *segment, unsigned place, int64_t now_ns);
void segment_role_started(struct segment *segment, unsigned place, pid_t pid);
/* It died or was killed: its gap goes from its last heartbeat until its
 * successor's first. */
void segment_role_died(struct segment *segment, unsigned place, int64_t now_ns);

/* The supervisor's own heartbeat, each second. */
void segment_beat(struct segment *segment, int64_t now_ns);

/* The layout-independent text file PATH.sessions: the keeper renews it each
 * second (it spends at most a twentieth of its time on it); segment_prepare
 * reads it when the layout changed. */
int segment_save_sessions(const struct segment *segment, int64_t now_ns,
    struct diag *diag);

/* The same for windows, what was done by hand and recipients that are held, in
 * PATH.destinations.  It is to be called after segment_save_sessions: then no event of a
 * log is applied twice. */
int segment_save_destinations(const struct segment *segment, int64_t now_ns,
    struct diag *diag);

#endif

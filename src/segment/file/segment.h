/* SPDX-License-Identifier: ISC */
/*
 * The segment's life: made, adopted after a crash, rebuilt for another layout,
 * mapped by each role for itself (segment_attach).  All functions that
 * return int return 0, or -1 with *diag.
 */
#ifndef SEGMENT_SEGMENT_H
#define SEGMENT_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"
#include "config/generation/generation.h"
#include "segment/file/layout.h"

struct segment;

/* Locks PATH.lock for the life of this process, waiting 2 s for it; else the
 * text names the holder's pid.  *lock_fd is close-on-exec.  Then waits (5 s) until no role
 * of an earlier supervisor lives (they share a lock in it).  What stands at that name and is
 * no file of ours is renamed, and logged.  Supervisor only. */
int segment_lock(const char *path, int *lock_fd, struct diag *diag);

/* First thing in a role after fork: its share in the lock, as long as the descriptor that it
 * returns is open, which is for reading.  Needs /proc. */
int segment_lock_role(int lock_fd, struct diag *diag);

enum segment_origin { SEGMENT_MADE, SEGMENT_ADOPTED, SEGMENT_REBUILT };

struct segment_report {
	enum segment_origin origin;
	const char *reason;	/* why not adopted, static text; "" for MADE without a file */
	uint64_t sessions;	/* open sessions taken over */
	bool not_tmpfs;		/* warn once */
	char unread[sizeof(((struct diag *)NULL)->text)];	/* a text file that was not read to
				 * its end, and why; "": none */
};

/* Makes, adopts or rebuilds the segment at generation's state_path, with its
 * sizes. `uid`/`gid` own the file (mode 0640).  The supervisor holds the lock.  An
 * adopted segment is checked and repaired word by word: nothing in it is
 * trusted.  `supervisor_pid`: readers learn it.  `damaged`: what
 * is there is not adopted, as roles died of it.  In a process of its own, before any role. */
int segment_prepare(struct segment **segment, const struct generation *generation,
    uid_t uid, gid_t gid, pid_t supervisor_pid, bool damaged,
    struct segment_report *report, struct diag *diag);
void segment_unmap(struct segment **segment);

/* Sizes, places and the supervisor's process are the same from a segment's beginning to its
 * end.  Writes them into the file again if another process changed them there, or says there
 * that it was replaced: who comes later could not attach it.  True: it did, and counted a
 * repair.  The keeper; a file that was cut short ends the process (SIGBUS). */
bool segment_restore(struct segment *segment, pid_t supervisor_pid);

/* The file of the segment that was prepared at `path`, unmapped; or -1 with *diag: it is not
 * `uid`'s alone.  Who keeps it can attach others though its name is gone. */
int segment_open_file(const char *path, uid_t uid, struct diag *diag);
/* The same file once more, from which nothing can be written; -1 with *diag. */
int segment_open_to_look(int fd, struct diag *diag);
/* In a role: maps that file, if it is of this layout, and closes it.  Its sizes and places
 * are a copy from then on, which no other role can change. */
int segment_attach(struct segment **segment, int fd, const char *path, struct diag *diag);

struct segment_header *segment_header(const struct segment *segment);
/* What a role writes of itself: its place, or an onlooker's own (onlooker.h). */
struct role_record *segment_role(const struct segment *segment, unsigned place);
const char *segment_path(const struct segment *segment);

/* Finds or makes the class records of `generation` (fills `record` and `number`
 * in it), marks those of removed classes, writes the block to
 * PATH.config.NUMBER and publishes the number: that of `generation`; 0: the next.  When it
 * fails, the generation in force stays in force.
 * The keeper, and who prepares the segment before there is one. */
#define SEGMENT_GENERATION_MAX	(UINT64_MAX / 2)	/* where a state may begin with */
int segment_publish(struct segment *segment, struct generation *generation,
    struct diag *diag);

/* A checked copy of a published generation, read-only and this process's own: whatever becomes
 * of the file does not change it.  segment_unmap_generation gives it back. */
int segment_map_generation(const struct segment *segment, uint64_t number,
    const struct generation **generation, struct diag *diag);
void segment_unmap_generation(const struct generation *generation);
/* Is its file still there, whole, and has each of its classes a record?  A look at its name and
 * size alone. */
bool segment_generation_is_there(const struct segment *segment, uint64_t number);

/* Was it newly built, without what was learned and done by hand up to a moment ago?  Then
 * that is to come from the journal, before the first role is started; whoever has seen to
 * it says so.  It stands in the segment, as the supervisor may die in between. */
bool segment_is_unlearned(const struct segment *segment);
void segment_has_learned(struct segment *segment, bool all);

/* A role's place in the header: the same one always. */
unsigned segment_role_place(enum role_kind kind, unsigned number);
/* A place that no role has any more: its outage would never end. */
void segment_role_forget(struct segment *segment, unsigned place);
/* In the role, before anything else: gives its place the next incarnation. */
void segment_role_starting(struct segment *segment, enum role_kind kind, unsigned number,
    int64_t now_ns);
/* The same of the metrics role, which cannot: in the keeper. */
void segment_metrics_started(struct segment *segment, pid_t pid, int64_t started_ns);
/* The process `pid` of this place died: its gap goes from its last heartbeat until its
 * successor's first.  False: that was noted before. */
bool segment_role_died(struct segment *segment, unsigned place, pid_t pid);
/* In a segment that takes the place of another: roles that come were away since it was made. */
void segment_roles_missed(struct segment *segment);

/* Counts. */
void segment_count_some(struct segment *segment, enum counter counter, uint64_t amount);

/* The daemon's heartbeat, each second; any role's.  What the records of roles that this process
 * began say of them is restored where it was overwritten. */
void segment_beat(struct segment *segment, int64_t now_ns);

/* Has the next 2 MiB of the file kept in one page, which saves most of the processor's walks
 * through page tables; no byte of them changes.  *done (bytes; 0 at first) is moved on.  False:
 * all was tried, or the kernel or the file system cannot.  It takes about a millisecond, or as
 * long as the kernel looks for memory, and other roles that touch these bytes wait meanwhile.
 * Any thread. */
bool segment_enlarge_pages(const struct segment *segment, uint64_t *done);

/* The layout-independent text file PATH.sessions: the keeper renews it each
 * second (it spends at most a twentieth of its time on it); segment_prepare
 * reads it when the layout changed. */
int segment_save_sessions(const struct segment *segment, int64_t now_ns,
    struct diag *diag);

/* What a file says, and which file it is; zeros: none was written. */
struct segment_saved {
	bool written;
	uint64_t mark;
	uint64_t device, inode;
};

/* The same where something changed since *saved, or another file is there.  Where nothing
 * did, it costs no look at a slot: PATH.sessions is only told, in place, that all is as
 * it says. */
int segment_renew_sessions(const struct segment *segment, struct segment_saved *saved,
    int64_t now_ns, struct diag *diag);

/* Another number where anybody had a destination or a relay in hand meanwhile. */
uint64_t segment_destinations_mark(const struct segment *segment);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * The queue of a Sendmail that is driven by Postern (DESIGN section 9): which of its
 * messages are to be run next, and what may go out in each run.
 *
 * A message is one job, whatever number of queue files Sendmail made of it (its *envelope*):
 * its files are delivered side by side, each of its destinations up to its window.  What
 * Sendmail delivers by itself (local mail) and what goes to other hosts are transports of
 * their own, each with its processes.
 *
 * A *run* is one process of sendmail for some files of one directory; it delivers them
 * one after the other.  A file is in one run at most, as Sendmail locks it.  In a run
 * only the destinations go out that were *granted* (segment/queue/grants.h): the others of the
 * file stay queued.  Which job is next is policy/job's choice (preemptive) or
 * the first come within policy/worker's share; each recipient counts as an entry.  Built
 * round the file that has the chosen entry:
 *  - all else of the message that may go now goes along: due, its destination neither dead
 *    nor held nor doubtful, with room in window and class;
 *  - a *doubtful* destination (its last result was a failure, or a run stalls there) is
 *    tried alone, by one run at a time, after all else of its messages that is due; half
 *    of the processes at most try such ones.  One that was too slow for a run with several
 *    goes alone for an hour; one of which nothing is known yet is tried by one run, too;
 *  - where many messages wait, further ones follow in the same run: for the same
 *    destination first, and so over one connection.
 * The windows have the last word at each connect, as for any other delivery.
 *
 * What is left in the queue file when a run has ended was put off by us (it stays due), or
 * failed: tried again after clamp(age, retry, retry_most).  Mail of a destination that
 * comes back is due at once.  A run that stalls takes no place of `processes`.
 *
 * What is due soon is in the queue role's own memory, bounded; the rest waits in the journal
 * (queue_journal.h).  The queue files are the truth about mail, and are read again after each
 * run.  No I/O: the role reads files and starts processes as it
 * is told, and tells what became of them.  One thread.  Times are of base/clock.h.
 */
#ifndef ENGINE_QUEUE_H
#define ENGINE_QUEUE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"
#include "config/generation/generation.h"
#include "policy/schedule/job.h"

struct engine;
struct queue;

#define QUEUE_ID_MAX		31	/* bytes of a queue id; letters and digits alone */
#define QUEUE_RUN_IDS_MAX	64	/* messages of one run */

/* --- settings ------------------------------------------------------------------- */

/* The transports of a mail server. */
enum { QUEUE_REMOTE, QUEUE_LOCAL, QUEUE_MAILERS };

/* As a generation has them. */
struct queue_settings {
	struct generation_schedule schedule;
	struct generation_mta mtas[GENERATION_MTAS_MAX];
};
/* How many runs at a time that do not stall; as many again may. */
uint32_t queue_processes(const struct queue_settings *settings, unsigned mta, unsigned mailer);
/* Of one transport: its own, or those of all. */
struct job_settings queue_job_settings(const struct queue_settings *settings, unsigned mta,
    unsigned mailer);

/* --- life ------------------------------------------------------------------------ */

/* What the queue wants of the role.  May be called out of any function below; none of
 * those may be called from inside. */
struct queue_calls {
	/* The file is to be read from its beginning (place 0; queue_read_begin), or found gone; or
	 * more recipients of it, unchanged, from `place` on (queue_read_more). */
	void (*read)(void *context, unsigned directory, const char *id, uint64_t place);
	/* There was no room for some (queue_wants, queue_read_begin); there is now: what is not
	 * known is to be offered again, until one is refused anew. */
	void (*room)(void *context);
	void *context;
};

/* A queue directory; its number is its place in the list. */
struct queue_directory {
	unsigned mta;		/* of the generation that it was opened for */
	char mta_name[80 + 1];	/* its name there; the journal knows it by this and the path */
	char path[PATH_MAX];	/* the directory that Sendmail knows */
	int fd;			/* where its qf files are: it, or its subdirectory qf */
	int watch;		/* descriptor of inotify; -1: none, it is scanned now and then */
	bool is_local;		/* for local mail alone */
	bool has_namesake;	/* the name of another one beside it begins as its own */
	bool no_room;		/* as it was last looked at: logged once */
	dev_t device;
	ino_t inode;
};

/* `directories` outlive it.  0, or -1 with *diag: no memory.  The role's heartbeat
 * (engine_heartbeat) keeps the grants in force: when it dies, they end with it. */
int queue_open(struct queue **queue, struct engine *engine,
    const struct queue_settings *settings, const struct queue_directory *directories,
    unsigned directory_count, const struct queue_calls *calls, struct diag *diag);
void queue_close(struct queue **queue);

/* A reload.  Messages of an mta that is driven no more are forgotten.  The pool of the schedule is
 * as it was at queue_open. */
void queue_configure(struct queue *queue, const struct queue_settings *settings);

/* --- messages -------------------------------------------------------------------- */

/* Is the file of that id to be read now that it is new or has changed?  Not while it is
 * in a run: it is read after that; nor where there is no room. */
bool queue_wants(struct queue *queue, unsigned directory, const char *id);

/* Is it known, and of this stamp (see below)?  Then it need not be read. */
bool queue_knows(const struct queue *queue, unsigned directory, const char *id, uint64_t stamp);
/* The same for a scan that found it, and has not opened it: of this inode, which may have been
 * used anew. */
bool queue_scan_found(struct queue *queue, unsigned directory, const char *id,
    uint64_t inode);

/* What stands in a queue file besides its recipients. */
struct queue_file {
	uint64_t stamp;		/* another one when the file has changed */
	uint64_t inode;		/* as its directory tells */
	int64_t arrival_ns;	/* may be before the clock's start: negative */
	int64_t tried_ns;	/* the last run, by anybody; 0: never */
	uint32_t tries;
	uint32_t recipients;	/* all of the file */
	int64_t made_s;		/* wall clock; 0: by arrival_ns */
	const char *origin;	/* queue id of the message that Sendmail cut it out of; "" or NULL:
				 * not known */
	const char *sender;	/* printable or not; empty or NULL: none */
	size_t sender_length;
};

/* It is being read until queue_read_end or _abandon, which replace what was known of it; nothing
 * else is called meanwhile.  False: it is in a run, or there is no room or memory (then
 * queue_calls.room tells when). */
bool queue_read_begin(struct queue *queue, unsigned directory, const char *id,
    const struct queue_file *file);
/* The same for queue_calls.read from a place on.  False: not any more. */
bool queue_read_more(struct queue *queue, unsigned directory, const char *id);
/* A recipient in the order of the file; `domain` behind its last @ as written, empty: a
 * local one, as all of a directory that is_local.  False: enough for now, this one was not taken. */
bool queue_read_recipient(struct queue *queue, const char *domain, size_t length);
/* `whole`: there are no further recipients; else `place` is where the next one stands. */
void queue_read_end(struct queue *queue, bool whole, uint64_t place, int64_t now_ns);
/* It cannot be used: a file that is bad or quarantined is known no more, until it is read
 * again. */
void queue_read_abandon(struct queue *queue, int64_t now_ns);

/* `gone`: there is no such file (any more); where its run had a connection, somebody answered.
 * Else it cannot be used, from which nothing follows: known no more, until it is read again. */
void queue_forget_file(struct queue *queue, unsigned directory, const char *id, bool gone,
    int64_t now_ns);

/* --- runs ------------------------------------------------------------------------ */

struct queue_run {
	uint32_t run;		/* its number, never 0; of this queue's life */
	unsigned directory;
	unsigned count;
	const char *ids[QUEUE_RUN_IDS_MAX];	/* until the next call */
	bool brief;		/* more than one destination, or one of which nothing is known:
				 * time limits for connect, greeting and EHLO are to be short,
				 * what fails so is tried again alone, with those of the site */
	uint32_t recipients;	/* of its biggest file, all of it */
	bool is_told;		/* the log tells at once who has got it, and that holds after a
				 * crash: the file need not be written as often */
};

/* What is to be started now; its grants are in force.  False: nothing.  Call until it
 * says so: after anything of the above or below, and at queue_turn's time. */
bool queue_next_run(struct queue *queue, int64_t now_ns, struct queue_run *out);

/* The process has started.  `pid`: for views. */
void queue_run_started(struct queue *queue, uint32_t run, pid_t pid, int64_t now_ns);

enum queue_run_end {
	QUEUE_RUN_OVER,		/* its exit code was 0 */
	QUEUE_RUN_FAILED,	/* another one */
	QUEUE_RUN_NOT_WRITTEN,	/* one that says that files could not be (re)written */
	QUEUE_RUN_KILLED,	/* by a signal: what it did not come to is due at once */
	QUEUE_RUN_NOT_STARTED,	/* no process: all is put off a little */
};
/* The run of that process; 0: there is none. */
uint32_t queue_run_of(const struct queue *queue, pid_t pid);
/* Its grants end; the files that are left are asked for by queue_calls.read.  Of a run that
 * there is not: nothing. */
void queue_run_ended(struct queue *queue, uint32_t run, enum queue_run_end how,
    int64_t now_ns);

/* --- when nothing comes of it ----------------------------------------------------- */

enum queue_pause {
	QUEUE_NOT_PAUSED,
	QUEUE_PAUSE_NOT_STARTED, /* no process can be started, or its program not run */
	QUEUE_PAUSE_FRUITLESS,	/* runs end, and all of their files are as they were */
	QUEUE_PAUSE_NOT_WRITTEN, /* they could not write them: mail would go twice */
};
/* Then further runs of the mail server are tried later and later, up to 30 s, until one
 * gets something done.  Segment and views tell, too. */
enum queue_pause queue_paused(const struct queue *queue, unsigned mta);

/* A process that an earlier role started lives still: what it has in hand waits for its
 * end, whether it was read yet or not.  Returns its number; 0: no memory. */
uint32_t queue_run_adopt(struct queue *queue, unsigned directory,
    const char *const ids[], unsigned count, pid_t pid, int64_t now_ns);

/* Time passes: retry times, windows that have changed, runs that stall.  Returns when to
 * come again; INT64_MAX: when something happens. */
int64_t queue_turn(struct queue *queue, int64_t now_ns);

/* --- to look at ------------------------------------------------------------------ */

enum queue_wait {
	QUEUE_WAITS_FOR_TURN,	/* it can run: processes are busy, or others come first */
	QUEUE_WAITS_RUNNING,	/* it is in a run, granted */
	QUEUE_WAITS_MESSAGE,	/* its message is in a run for other destinations */
	QUEUE_WAITS_RETRY,	/* it failed: until due_ns */
	QUEUE_WAITS_SUSPENDED,	/* its destination is dead or held: until due_ns */
	QUEUE_WAITS_WINDOW,	/* its destination has as many deliveries as it may */
	QUEUE_WAITS_PACE,	/* for the next token of its destination's pace */
	QUEUE_WAITS_CLASS,	/* its class has as many sessions as it may, or is held */
	QUEUE_WAITS_STALLED,	/* its destination: a run stalls there, or one tries it */
	QUEUE_WAITS_LOCKED,	/* somebody else had the message: until due_ns */
	QUEUE_WAITS_READ,	/* its file is being read */
	QUEUE_WAITS_PAUSED,	/* nothing of its mail server is run: until due_ns */
	QUEUE_WAIT_COUNT
};
/* "turn", "running", "message", "retry", "suspended", "window", "pace", "class", "stalled",
 * "locked", "read", "paused" */
const char *queue_wait_word(enum queue_wait wait);

/* Why it is run next. */
enum queue_why {
	QUEUE_WHY_CURRENT,	/* the message that was served last goes on, or is first */
	QUEUE_WHY_PREEMPTS,	/* it is small, and slips past a bigger one */
	QUEUE_WHY_FIRST,	/* first come */
	QUEUE_WHY_SAME_RUN,	/* follows in the same run: many wait */
	QUEUE_WHY_COUNT
};
/* "current", "preempts", "first", "same-run" */
const char *queue_why_word(enum queue_why why);

/* One message's part for one destination. */
struct queue_row {
	unsigned mta, directory;
	const char *id;
	const char *sender;	/* as in the file, cut; "" */
	const char *destination; /* whose window; "local": asked about by nobody */
	uint32_t domains;	/* of recipients, that go there */
	uint32_t recipients;	/* read ones */
	uint32_t unread;	/* of the message, whatever their destination */
	int64_t arrival_ns;
	int64_t tried_ns;	/* 0: never */
	uint32_t tries;
	enum queue_wait wait;
	int64_t due_ns;		/* see above; INT64_MAX: until somebody resumes it; else 0 */
	uint32_t run;		/* RUNNING, MESSAGE: its number; else 0 */
	enum queue_why why;	/* queue_each_next */
};
/* Every one, by destination, oldest first.
 * Pointers are valid inside `each`, which returns false to have no more. */
void queue_each(struct queue *queue,
    bool (*each)(void *context, const struct queue_row *row), void *context);

/* What would be run next, in its order, and why; nothing is changed.  `each` as above,
 * at most `most` rows. */
void queue_each_next(struct queue *queue, int64_t now_ns, uint32_t most,
    bool (*each)(void *context, const struct queue_row *row), void *context);

struct queue_run_row {
	uint32_t run;
	pid_t pid;		/* 0: being started */
	unsigned mta, directory;
	uint32_t messages, recipients;	/* granted, when it began */
	const char *destination;	/* where it is now, or was last; "": not known */
	int64_t started_ns;
	int64_t progress_ns;	/* its last sign; 0: none yet, or it is not seen (adopted) */
	bool stalls, adopted;
};
void queue_each_run(struct queue *queue,
    bool (*each)(void *context, const struct queue_run_row *row), void *context);

struct queue_destination_row {
	const char *destination;
	uint32_t messages, recipients;	/* that wait, or run */
	uint32_t running;	/* runs that may have a delivery there now */
	uint32_t window;	/* 0: dead or held */
	enum queue_wait wait;	/* SUSPENDED, WINDOW, CLASS, STALLED; else what the first of
				 * its mail waits for: TURN, RUNNING, RETRY ... */
	bool doubtful, proven;
	int64_t oldest_ns;	/* arrival of its oldest message */
	int64_t due_ns;		/* the first try */
};
/* `list`: what the journal has besides (queue_journal.h), or NULL. */
struct queue_journal_list;
void queue_each_destination(struct queue *queue, const struct queue_journal_list *list,
    int64_t now_ns,
    bool (*each)(void *context, const struct queue_destination_row *row), void *context);

#endif

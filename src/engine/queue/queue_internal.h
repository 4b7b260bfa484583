/* SPDX-License-Identifier: ISC */
/*
 * What the files of the driven queue share.
 *
 * A *message* is a queue file.  The files that Sendmail made of one message are an *envelope*,
 * which is one job.  A file's recipients are counted by *domain*: a part each.  What has one
 * window (a domain, a provider, a relay) is a *dest*, of one mail server, and of one *mailer*:
 * what goes to other hosts, or what is local.  What may go stands on the *board* (policy/job:
 * one transport for each mailer, one queue for each dest, one message for each envelope); what
 * runs, or waits for a time or for its dest's return, does not.
 */
#ifndef ENGINE_QUEUE_INTERNAL_H
#define ENGINE_QUEUE_INTERNAL_H

#include <sys/queue.h>

#include "base/clock.h"
#include "base/map.h"
#include "engine/internal.h"
#include "engine/outbound/outbound.h"
#include "engine/queue/queue.h"
#include "engine/destination/windows.h"
#include "policy/schedule/job.h"
#include "policy/schedule/pool.h"
#include "segment/queue/grants.h"
#include "segment/queue/told.h"

#define NONE		UINT32_MAX
#define SENDER_SHOWN	63
/* Of recipients in directories that are for local mail; no domain is called so. */
#define QUEUE_LOCAL_DOMAIN "<local>"
#define RUN_DESTS_MAX	256	/* of one run that are remembered */

enum part_state {
	PART_DUE,		/* it may go as far as time tells; on the board, if there is room */
	PART_RUNNING,		/* granted in the run of its message */
	PART_RETRY,		/* until due_ns */
	PART_LOCKED,		/* the same: somebody else had the message */
	PART_SUSPENDED,		/* until its dest is back */
};

struct part {
	struct message *message;
	struct domain *domain;
	struct dest *dest;
	struct part *next_of_message;
	LIST_ENTRY(part) of_dest;
	uint32_t recipients;
	uint32_t told;			/* of these that the log has told of, in its run */
	uint32_t primed;		/* of these that were taken for its run to come */
	uint8_t state;			/* enum part_state */
	bool on_board;
	bool chosen;			/* for the run that is being built */
	bool ran;			/* in the run that is over, until the file is read */
	bool put_off;			/* and then a window or a class put it off */
	bool held;			/* and that for long */
	bool timed_out;			/* or nobody answered for long */
	bool was_last;			/* or its dest was the last one that was asked about */
	bool unanswered;		/* or nobody did before the run's end */
	uint32_t left;			/* recipients that the file has still, read after it */
	int64_t due_ns;			/* RETRY, LOCKED */
};

enum message_state {
	MESSAGE_FREE,
	MESSAGE_WAITS,
	MESSAGE_RUNS,
	MESSAGE_AWAITED,		/* its run is over; the file is to be read */
};

struct message {
	char id[QUEUE_ID_MAX + 1];
	char sender[SENDER_SHOWN + 1];
	uint8_t state;			/* enum message_state */
	uint8_t mta;
	uint16_t directory;
	bool more_asked;		/* queue_calls.read was called for more */
	bool was_brief, touched;	/* the run that is over: and its file was written anew */
	bool was_asked;			/* and there was a question about it */
	bool was_connected;		/* and a connection */
	bool by_turn;			/* its grant is one that the turn of other names fails */
	bool not_reached;		/* and so nobody came to ask for what was granted */
	bool at_last;			/* its next one is to be none of these */
	bool left_running;		/* an earlier role may have left it to a run that lives */
	bool was_locked;		/* and a run of ours found it taken */
	bool was_theirs;		/* what changed in its file is that run's work */
	uint8_t ended;			/* enum queue_run_end of it */
	SLIST_ENTRY(message) free;
	struct envelope *envelope;	/* NULL: not known yet */
	TAILQ_ENTRY(message) of_envelope;
	uint32_t placed[QUEUE_MAILERS];	/* parts on the board */
	uint32_t unread_placed;		/* unread recipients that the board counts for it */
	bool queued;			/* it counts in its envelope's queued */
	struct run *run;		/* RUNS */
	struct part *parts;
	uint32_t part_count;
	uint32_t in_core, unread;	/* recipients */
	uint32_t recipients;		/* of the file */
	uint32_t tries, lock_tries;
	uint32_t timer;			/* place in the heap + 1; 0: not in it */
	int64_t due_ns;			/* first of its times: in the heap */
	int64_t more_ns;		/* no more is read until then; 0: no such time */
	uint64_t place, stamp, inode;	/* stamp 0: of the journal, not known */
	int64_t made_s;			/* wall clock: with it its envelope is found */
	int64_t arrival_ns, tried_ns;
	struct grant_ref grant;
};

/* What Sendmail took as one message, whatever number of files it made of it. */
struct envelope {
	uint64_t key, origin, process;	/* of queue_envelope.c; 0: not known */
	TAILQ_HEAD(, message) messages;
	uint32_t job;			/* of the board, or JOB_NONE */
	uint32_t placed;		/* parts on the board */
	uint32_t unread;		/* recipients of those that have some there */
	uint32_t queued;		/* messages that are due, or run, since ... */
	int64_t queued_ns;		/* ... then: its place in the order; 0: none */
};

struct domain {
	LIST_ENTRY(domain) of_all;
	uint32_t hash;			/* grants_domain */
	struct dest *dest;
	uint32_t uses;
	struct part *part, *read;	/* of the message that is read: as it was; as it is */
	uint8_t mta;
	bool has_other_name;		/* by which Sendmail asks whose turn it is (CNAME) */
	char name[];			/* lower case, no dot behind */
};

struct dest {
	struct window_owner owner;
	TAILQ_ENTRY(dest) of_all;
	uint8_t mta, mailer;
	uint8_t wait;			/* enum queue_wait: TURN, WINDOW ...; as last looked at */
	bool seen, suspended;
	uint32_t queue;			/* of the board */
	LIST_HEAD(, part) parts;
	uint32_t part_count, recipients;
	uint32_t placed;		/* parts on the board */
	uint32_t domains;		/* that name it */
	bool watched, changed;
	LIST_ENTRY(dest) of_watched;
	SLIST_ENTRY(dest) of_changed;
	uint32_t class_index;
	uint32_t window, in_flight;
	uint32_t tokens;		/* of its pace; UINT32_MAX: there is none */
	uint32_t claims;		/* of live runs, 64ths of a place */
	uint32_t runs, stalls;		/* live ones that may go there; and that stall there */
	uint32_t tries;			/* runs, but for those that stall elsewhere */
	uint32_t put_offs;		/* in a row */
	bool canary;			/* one may go above the window */
	bool open;			/* on the board */
	bool in_journal;		/* mail that waits for its return may be there alone */
	uint64_t ok, failed;		/* as last looked at */
	int64_t good_ns, bad_ns;	/* when these rose; 0: never */
	int64_t looked_ns, until_ns, blocked_ns, resumed_ns;
	int64_t pace_ns;		/* its next token comes then, as last looked at; 0: none is awaited */
	int64_t back_ns;		/* when it came back; 0: never */
	int64_t slow_ns;		/* until then it goes alone, with the site's time limits */
};

struct run {
	TAILQ_ENTRY(run) of_all;
	uint32_t number;
	uint8_t mta, mailer;
	uint16_t directory;
	bool started, stalls, adopted, brief;
	bool doubtful;			/* tries a doubtful dest */
	pid_t pid;
	unsigned count;
	struct message *messages[QUEUE_RUN_IDS_MAX];	/* NULL: gone, or not known yet */
	char ids[QUEUE_RUN_IDS_MAX][QUEUE_ID_MAX + 1];	/* adopted: all of them */
	struct dest *dests[RUN_DESTS_MAX];
	unsigned dest_count;
	uint32_t weight;		/* of its claim on each of them */
	uint32_t recipients;
	struct dest *current;		/* that it stalls at, or NULL */
	int64_t started_ns, progress_ns;
};

/* A big message whose turn it is, with all of its entries but one taken for it already: so
 * the slots that these save up can be used before its run, which takes all at once. */
#define PRIMED_MOST	64
struct primed {
	struct message *message;	/* or NULL */
	struct dest *dest;		/* where the last entry waits */
	struct part *parts[PRIMED_MOST];	/* that these are of */
	struct job_taken taken[PRIMED_MOST];
	unsigned count;
};

/* A transport of the scheduler documents: none waits for the processes of another. */
struct queue_mailer {
	uint32_t transport;		/* of the board, or JOB_NONE */
	struct primed primed;
	uint32_t messages;		/* on the board */
	uint32_t running, stalled;	/* runs */
	uint32_t doubtful;		/* those among them that try a doubtful dest */
};

struct queue_mta {
	struct queue_mailer mailers[QUEUE_MAILERS];
	int64_t hold_ns, hold_pause_ns;	/* no run until then: nothing came of the last ones */
	uint8_t pause;			/* enum queue_pause: why */
	uint32_t fruitless;		/* files that were left as they were, in a row */
};

/* What is known of deliveries of a message that is in a run, or was in one. */
enum told_state {
	TOLD_RUNS,	/* in a run of the process */
	TOLD_DIED,	/* that is over, and did not end as it should, as far as is known */
	TOLD_OVER,	/* the file is right: lines that are read late are written down, no more */
};

struct told_message {
	LIST_ENTRY(told_message) of_all;
	char id[QUEUE_ID_MAX + 1];
	uint8_t state;			/* enum told_state */
	uint16_t directory;
	uint32_t pid;
	int64_t made_s;
	int64_t until_ns;		/* OVER, or DIED and nothing is known: it is forgotten then */
	char *to;			/* delivered, and not written down by Sendmail: "A,B" */
	size_t length;
	char *pieces;			/* of a list that goes on */
	size_t pieces_length;
	bool pieces_spoiled;
};

/* The file that is being read. */
struct queue_reading {
	struct message *message;
	bool more;			/* not from the beginning */
	bool was_known;
	struct queue_file file;
	uint32_t taken, most;
	struct part *parts;		/* not linked yet, the last one first */
};

struct queue {
	struct engine *engine;
	struct queue_settings settings;
	struct queue_calls calls;
	const struct queue_directory *directories;
	unsigned directory_count;
	const struct generation *generation;	/* pinned; NULL: before the first call */
	int64_t now_ns;			/* of the last call that told it */
	struct job_board *board;
	struct queue_mta mtas[GENERATION_MTAS_MAX];
	unsigned turn;			/* mailer of all that is first asked next */

	/* All there may be, those behind message_end never used; nothing is moved. */
	struct message *messages;
	uint32_t message_end, message_count, message_most;
	SLIST_HEAD(, message) free_messages;
	struct map message_map, envelope_map, domain_map, dest_map;
	uint32_t placed;		/* messages on the board */
	uint32_t part_count;
	LIST_HEAD(, domain) domains;
	TAILQ_HEAD(, dest) dests;
	struct message **timers;	/* heap by due_ns */
	uint32_t timer_count;
	LIST_HEAD(, dest) watched;	/* those are looked at each second */
	SLIST_HEAD(, dest) changed;	/* their messages are to be settled */
	TAILQ_HEAD(, run) runs;
	uint32_t next_run;
	const struct run *building;	/* or NULL */
	struct queue_reading reading;
	/* since the role was told of room: */
	uint32_t refused;		/* files, as the board was full */
	uint32_t forgotten;		/* messages, as memory was */
	uint32_t hand;			/* where those are looked for */
	uint32_t granted;		/* grants in force */
	int64_t watch_ns, stalls_ns;	/* when those are looked at next */
	int64_t sweep_ns;		/* when dests that were slow are forgotten next */
	uint64_t states_version;	/* of the segment, when they were looked at last */
	uint64_t in_core;
	struct queue_journal *journal;	/* NULL: none */

	/* who has got the mail, by Sendmail's log */
	struct map told_map;		/* by id */
	LIST_HEAD(, told_message) told;
	int64_t opened_ns, told_sweep_ns;
	/* No run is started before the feed has read what was in the logs at `wait_from_ns`; 0: it
	 * need not be waited for, nor any longer than that. */
	int64_t wait_from_ns, wait_until_ns;
};

/* --- queue_store.c -------------------------------------------------------------- */

bool queue_store_open(struct queue *queue, struct diag *diag);
void queue_store_close(struct queue *queue);

uint64_t queue_hash_text(const struct queue *queue, const char *text, size_t length,
    unsigned salt);

struct message *queue_find_message(const struct queue *queue, unsigned directory, const char *id);
/* NULL: no room. */
struct message *queue_make_message(struct queue *queue, unsigned directory, const char *id);
/* There is room for one more, or was made: what waits longest for its time is forgotten. */
bool queue_make_room(struct queue *queue);
/* Off the board, out of its run, its parts gone, and forgotten. */
void queue_forget_message(struct queue *queue, struct message *message);

/* --- queue_envelope.c ------------------------------------------------------------ */

/* Which envelope the message belongs to: of its sender and second, and `origin`, the queue id
 * that Sendmail gave it first ("": not known).  False: no memory. */
bool queue_join_envelope(struct queue *queue, struct message *message, const char *origin);
void queue_leave_envelope(struct queue *queue, struct message *message);
/* It has something to do (or no longer): the envelope's place in the order is kept. */
void queue_set_queued(struct message *message, bool queued, int64_t now_ns);

/* The part is on the board from now on, or no longer: counted for its message, envelope, dest and
 * mailer. */
void queue_set_on_board(struct queue *queue, struct part *part, bool on_board);
/* A part of the envelope on the board for the dest: the first of its first file; or NULL. */
struct part *queue_first_part(const struct envelope *envelope, const struct dest *dest);

static inline struct queue_mailer *queue_mailer_of(struct queue *queue, unsigned mta,
    unsigned mailer) {
	return &queue->mtas[mta].mailers[mailer];
}
static inline const struct queue_directory *queue_directory_of(const struct queue *queue,
    const struct message *m) {
	return &queue->directories[m->directory];
}
static inline bool queue_drives(const struct queue *queue, unsigned directory) {
	return directory < queue->directory_count &&
	    queue->settings.mtas[queue->directories[directory].mta].drive != 0;
}
static inline bool queue_is_placed(const struct message *m) {
	return m->placed[QUEUE_REMOTE] + m->placed[QUEUE_LOCAL] > 0;
}
/* Whose job, or queue, it is on the board. */
static inline struct envelope *queue_job_envelope(const struct queue *queue, uint32_t job) {
	return (struct envelope *)(uintptr_t)job_message_word(queue->board, job);
}
static inline struct dest *queue_job_dest(const struct queue *queue, uint32_t board_queue) {
	return (struct dest *)(uintptr_t)job_queue_word(queue->board, board_queue);
}
static inline bool queue_board_has_room(const struct queue *queue) {
	return queue->placed < queue->settings.schedule.pool.message_active_limit;
}

/* --- queue_dests.c --------------------------------------------------------------- */

/* One use more of the domain (made, with its dest, if need be).  NULL: no memory. */
struct domain *queue_use_domain(struct queue *queue, unsigned mta, const char *name,
    size_t length);
void queue_unuse_domain(struct queue *queue, struct domain *domain);
/* Its mail may run by another window by now: its parts move. */
void queue_remap_domain(struct queue *queue, struct domain *domain);
void queue_remap_all(struct queue *queue);

/* Another dest's from now on, or one that is new. */
void queue_link_part(struct part *part, struct dest *dest);
void queue_unlink_part(struct part *part);

/* A part for so many recipients, linked; takes over the use of the domain.  NULL: no
 * memory. */
struct part *queue_make_part(struct queue *queue, struct message *message, struct domain *domain,
    uint32_t recipients);
/* The same of a part that has its domain and its recipients. */
void queue_add_part(struct queue *queue, struct message *message, struct part *part);
/* All of the message's, which are not placed. */
void queue_drop_parts(struct queue *queue, struct message *message);

/* --- queue_timers.c -------------------------------------------------------------- */

/* The message's time is the first of its parts' and of more_ns, or none. */
void queue_set_timer(struct queue *queue, struct message *message);
void queue_clear_timer(struct queue *queue, struct message *message);

/* Forgotten, unless domains name it, live runs may go there, or it was slow of late. */
void queue_leave_dest(struct queue *queue, struct dest *dest);
void queue_sweep_dests(struct queue *queue);

void queue_watch(struct queue *queue, struct dest *dest);
void queue_unwatch(struct dest *dest);

/* Its messages are to be settled. */
void queue_note_changed(struct queue *queue, struct dest *dest);

/* --- queue_place.c: on the board and off ------------------------------------------ */

/* Places what is due, or sets it aside; asks for more where nothing else is left. */
void queue_settle(struct queue *queue, struct message *message);
/* All of the message leaves the board. */
void queue_unplace(struct queue *queue, struct message *message);
/* One part of it does; taken for a run (then it is served), or not. */
void queue_unplace_part(struct queue *queue, struct part *part, bool taken);
/* Takes the entries of the message, in the mailer of `dest`, but one of `dest`'s; and gives
 * them back. */
void queue_prime(struct queue *queue, struct message *message, struct dest *dest);
void queue_unprime(struct queue *queue, unsigned mta, unsigned mailer);

/* --- queue_look.c: what a dest says ------------------------------------------------ */

/* Looks at window and class, and draws the conclusions: what is due there is placed or
 * set aside.  Returns what mail for it waits for (TURN: nothing). */
enum queue_wait queue_look(struct queue *queue, struct dest *dest);
/* The same, by what is known since a moment ago. */
enum queue_wait queue_look_again(struct queue *queue, struct dest *dest);
/* Settles the messages of those that died or came back: at the end of each call. */
void queue_settle_changed(struct queue *queue);
bool queue_is_doubtful(const struct dest *dest);
bool queue_is_unknown(const struct dest *dest);
/* How many further runs may go there, by its window. */
uint32_t queue_room(const struct dest *dest);
void queue_look_at_watched(struct queue *queue);

/* --- queue_first_come.c ------------------------------------------------------------- */

/* May the envelope have one more run of the mailer? */
bool queue_may_start(const struct queue *queue, const struct envelope *envelope, unsigned mta,
    unsigned mailer);
/* What is next of the oldest envelope that may go.  False: nothing. */
bool queue_first_come(struct queue *queue, unsigned mta, unsigned mailer,
    struct message **message, struct dest **dest);

/* --- queue_pause.c ------------------------------------------------------------------ */

/* Nothing comes of its runs: none for a while, longer each time. */
void queue_pause(struct queue *queue, unsigned mta, enum queue_pause why);
/* A run has got something done. */
void queue_note_works(struct queue *queue, unsigned mta);
/* What became of the message that ran: its file is as it was. */
void queue_note_untouched(struct queue *queue, const struct message *m);

/* --- queue_grant.c ------------------------------------------------------------------- */

#define GRANTS_MOST	(GRANT_PLACES / 16 * 15)	/* then no run is started */

/* What is chosen of the message is granted, or as much of it as a grant has room for: the
 * rest is chosen no more.  False: there is no place for it. */
bool queue_put_grant(struct queue *queue, struct message *message, uint32_t chosen, uint32_t run);
/* *seen, or NULL: what became of it. */
void queue_end_grant(struct queue *queue, struct message *message, struct grant_seen *seen);
/* Did anybody come to ask for what was granted?  `ended` of the message tells how its run
 * did. */
void queue_note_not_reached(struct message *message, const struct grant_seen *seen);

/* --- queue_runs.c -------------------------------------------------------------------- */

/* NULL: no memory. */
struct run *queue_make_run(struct queue *queue);
void queue_free_run(struct queue *queue, struct run *run);
void queue_look_at_stalls(struct queue *queue);
/* The adopted run that has the message in hand, or NULL. */
struct run *queue_adopted_with(struct queue *queue, unsigned directory, const char *id);
/* Was it there before this role, so that a run that nobody is told of may have it? */
bool queue_is_of_before(const struct queue *queue, int64_t arrival_ns);

/* --- queue_told.c: who has got the mail, by Sendmail's log -------------------------------- */

struct messages_envelope;
void queue_told_close(struct queue *queue);
/* A run of that process has begun with it. */
void queue_told_started(struct queue *queue, const struct message *message, pid_t pid);
/* A run was killed: none is started until the log was read. */
void queue_told_killed(struct queue *queue);
/* Its file was read after its run, which has ended as it should and written it anew, or not. */
void queue_told_read(struct queue *queue, const struct message *message, bool is_orderly);
void queue_told_gone(struct queue *queue, unsigned directory, const char *id);
/* An envelope that an earlier life wrote. */
void queue_told_restore(struct queue *queue, unsigned directory,
    const struct messages_envelope *envelope);
/* What the message's envelope is to say of it. */
void queue_told_envelope(const struct queue *queue, const struct message *message,
    struct messages_envelope *out);
/* Does the log of that mail server tell of deliveries, and is it enforced? */
bool queue_told_works(const struct queue *queue, unsigned mta);
/* No run is to be started yet. */
bool queue_told_waits(const struct queue *queue);
/* Judges lines; returns when to come again. */
int64_t queue_told_turn(struct queue *queue);

/* NULL: nothing is known of it. */
struct told_message *queue_told_find(const struct queue *queue, const char *id);
/* The next recipient of a list (base/plain_recipient.h). */
bool queue_told_next(struct span *list, struct span *one);
/* Is this recipient among them?  As in a list, without < >. */
bool queue_told_has(const struct told_message *message, struct span recipient);
/* Nothing of it is known as delivered any more. */
void queue_told_clear(struct queue *queue, struct told_message *message);
void queue_told_publish(const struct queue *queue, const struct told_message *message,
    struct span recipient);
/* queue_told_lines.c: what the line says of it. */
void queue_told_judge(struct queue *queue, const struct told_line *line);

/* --- queue_views.c -------------------------------------------------------------------- */

/* Rows on their way: of one message and destination those that follow one another, and wait for
 * the same, are one. */
struct queue_rows {
	bool (*each)(void *context, const struct queue_row *row);
	void *context;
	struct queue_row row;	/* the last; of no domains: none */
};
/* False: no more are wanted. */
bool queue_rows_add(struct queue_rows *rows, const struct queue_row *next);
bool queue_rows_end(struct queue_rows *rows);

/* --- queue_journal.c: what is written; without a journal none of it does anything ------ */

struct queue_journal;
void queue_journal_close(struct queue *queue);

/* A scan found it.  Does it wait there, of that inode? */
bool queue_journal_found(struct queue *queue, unsigned directory, const char *id,
    uint64_t inode);
/* Domains may have other dests by now: what waits for one is looked at. */
void queue_journal_remapped(struct queue *queue);
/* Is there one, and not read yet as far as what was in a run? */
bool queue_journal_is_unread(const struct queue *queue);
/* May what has no room in memory be read for it? */
bool queue_journal_takes(const struct queue *queue);

/* The second in which a message came, where its file does not say so. */
int64_t queue_journal_made_s(const struct queue *queue, int64_t arrival_ns);
/* It is not in memory: if it waits there, it is from now on.  Else NULL. */
struct message *queue_journal_fetch(struct queue *queue, unsigned directory, const char *id);
/* The message as its file told it.  True: it may be forgotten here, as nothing of it is due
 * soon, or as there is no room. */
bool queue_journal_note(struct queue *queue, const struct message *message, bool has_room);
/* It is to be forgotten for want of room.  False: then a scan has to find it again. */
bool queue_journal_evict(struct queue *queue, const struct message *message);
/* A run has begun with it. */
void queue_journal_start(struct queue *queue, const struct message *message);
/* What was delivered by its run, by part.left. */
void queue_journal_results(struct queue *queue, const struct message *message);
/* There is no such file, or none that can be used. */
void queue_journal_finish(struct queue *queue, unsigned directory, const char *id);
/* The dest is dead or held from now on: somebody has to see when it is back.  It is back: its
 * mail is due. */
void queue_journal_suspended(struct queue *queue, struct dest *dest);
void queue_journal_recall(struct queue *queue, struct dest *dest);
/* What a list that sums up has for that dest. */
struct queue_journal_list;
bool queue_journal_list_has(const struct queue_journal_list *list, const struct dest *dest);
void queue_journal_list_add(const struct queue_journal_list *list, const struct dest *dest,
    struct queue_destination_row *row);
/* Fills memory.  Returns when to come again. */
int64_t queue_journal_turn(struct queue *queue);

/* --- queue.c -------------------------------------------------------------------------- */

/* What each call of the role begins with: the time, and the generation in force. */
void queue_begin(struct queue *queue, int64_t now_ns);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * The messages of a queue in a log (contrib/documents.md; DESIGN section 10).
 *
 * A *message* is a queue file: mail server, directory, queue id.  What the log says of it:
 *  - an *envelope* when it is new, when its file has changed, and when work on it is over for
 *    now (then it is called the replacement);
 *  - a *start* when a run of it begins: its envelope is garbage then, and is marked so once
 *    a sync has covered the start;
 *  - *deliveries*, which are *acknowledged* once a sync has covered them;
 *  - a *finish* when it is gone.
 * Runners scan the log, one for each *interval*: an envelope that is to wait w belongs to
 * the longest interval <= w, and its runner comes to it when it is that old.  The longest
 * runner writes anew, at the end of the log, what still waits behind it; so all behind it
 * becomes garbage, and its files are removed, oldest first.
 *
 * A message is *held* while its owner has it in memory, and *working* from its start to its
 * replacement or finish; else it *waits* in the log alone, 28 to 32 bytes of memory each.
 *
 * No crash, whenever it comes, brings back a message whose finish was synced, or makes one
 * up; nor does it lose an envelope or a delivery that was synced (journal_log_synced).
 * What was not synced may be lost.  A message that was working comes back as due at once,
 * without what was delivered.  The mail server's queue stays the truth: an envelope may be
 * older than its file, and a run of a file that is gone or has changed is harmless.
 *
 * Where the disk fails, nothing is remembered (messages_is_degraded): what is told is
 * dropped and counted, until a new file can be begun.  Then what is on the disk is recovered
 * as at a start, and `renewed` asks the owner to put all that it has in memory, which is
 * newer.
 *
 * One thread.  `wall_ns` is CLOCK_REALTIME, as all times in records, which outlive a boot;
 * an envelope that says that it was written later than now counts as old enough, and its
 * dues are told as if it had been written now.  Work per call is bounded (MESSAGES_STEP_BYTES).
 */
#ifndef JOURNAL_MESSAGES_H
#define JOURNAL_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "journal/log.h"
#include "journal/record.h"
#include "journal/storage.h"

struct messages;

#define MESSAGES_INTERVALS_MAX	8
#define MESSAGES_GROUPS_MAX	2048	/* of one envelope */
#define MESSAGES_DOMAIN_MAX	255	/* bytes of a domain; mta, id alike */
#define MESSAGES_DIRECTORY_MAX	1023
#define MESSAGES_SENDER_MAX	511	/* longer ones are cut */
#define MESSAGES_DELIVERED_MAX	32767	/* bytes of the recipients that an envelope names */
#define MESSAGES_STEP_BYTES	(1u << 20) /* of the log, read by one call */

/* --- life ---------------------------------------------------------------------------- */

struct messages_settings {
	int64_t intervals_ns[MESSAGES_INTERVALS_MAX]; /* rising; the first one is 0 */
	unsigned intervals;		/* 2 at least */
	int64_t sync_delay_ns;		/* a delivery is synced within */
	int64_t envelope_delay_ns;	/* a new envelope, where no delivery comes before */
	int64_t positions_ns;		/* restart positions are recorded so often, if anything
					 * happens */
	struct journal_log_options log;	/* its kind and calls are ours */
};
/* 0, 5, 10, 20 and 30 minutes; 100 ms, 1 s; 5 s; files of JOURNAL_FILE_SIZE, a thread. */
extern const struct messages_settings messages_defaults;

struct messages_envelope;

/* All come out of messages_turn, or of what tells something; `changed` may call nothing. */
struct messages_calls {
	/* The disk failed, or is good again (journal_log_calls.changed); may be NULL. */
	void (*changed)(void *context, enum journal_state state, int error, const char *what);
	/* After a time without a journal (or with files lost): what is in memory is held no
	 * more, and is to be put again; messages_is_recovered and messages_is_indexed are false
	 * for a while.  Out of messages_turn alone. */
	void (*renewed)(void *context);
	/* It was working when the last life ended, and this is its replacement; out of
	 * messages_turn; may call nothing; may be NULL. */
	void (*recovered)(void *context, const struct messages_envelope *envelope);
	void *context;
};

/* `storage` is copied; its context stays the caller's and must outlive this.  Reads what
 * journal_log_open reads: messages_turn does the rest.  0; -1 with *diag: no memory, or
 * intervals that do not rise.  A disk that fails is told by messages_is_degraded.
 * Other intervals than those of the last life are fine: the log is scanned anew. */
int messages_open(struct messages **messages, const struct journal_storage *storage,
    const struct messages_settings *settings, const struct messages_calls *calls,
    int64_t wall_ns, int64_t now_ns, struct diag *diag);
/* As a crash would: nothing is written. */
void messages_close(struct messages **messages);
/* For views, journal_log_event_fd and tests; append nothing to it. */
struct journal_log *messages_log(struct messages *messages);

/* At the end of each turn of the owner's loop, and when journal_log_event_fd is readable:
 * some of whatever is next of recovery, index, writing anew and positions; then
 * journal_log_turn.  Takes a few ms (besides syncs, where the log is not threaded).
 * `now_ns`: the clock of base/clock.h.  Returns when, by that clock, to say it again at the
 * latest; now_ns: at once. */
int64_t messages_turn(struct messages *messages, int64_t wall_ns, int64_t now_ns);

/* The working suffix was read: until then no start, delivery or next.  What was working is
 * replaced in the turns that follow, and can be started after that. */
bool messages_is_recovered(const struct messages *messages);
/* And all of what was working is replaced: `recovered` was told of each. */
bool messages_is_replaced(const struct messages *messages);
/* All of the log was seen: until then messages_knows may say no of what it will know. */
bool messages_is_indexed(const struct messages *messages);
/* Nothing is written or remembered (journal_log_error says why). */
bool messages_is_degraded(const struct messages *messages);

/* What is told, and asked, of a message below is by its key.  The same at all times. */
uint64_t messages_key(const char *mta, const char *directory, const char *id);

/* --- what is told ----------------------------------------------------------------------
 *
 * Each returns the sequence of its record, or 0: nothing was written (see there). */

struct messages_group {			/* recipients that share a domain */
	const char *domain;		/* any bytes; empty: local */
	size_t length;
	uint32_t recipients;
	int64_t due_ns;			/* not before; 0: at once; INT64_MAX: suspended or held */
};

struct messages_envelope {
	const char *mta, *directory, *id;
	uint64_t stamp;			/* of the file: another one when it has changed */
	const char *sender;		/* any bytes but NUL; NULL: none */
	int64_t arrival_ns;
	int64_t tried_ns;		/* 0: never */
	int64_t due_ns;			/* first of its groups'; chooses the interval */
	uint32_t tries;
	uint32_t recipients;		/* all of the file */
	uint64_t rest;			/* place in the file of those in no group; 0: all are in
					 * groups, or with no group at all: none was read */
	const struct messages_group *groups;
	unsigned group_count;
	const char *delivered;		/* recipients that were, and stand in the file: "A,B"; not
					 * NUL-terminated; cut at MESSAGES_DELIVERED_MAX */
	size_t delivered_length;
	uint32_t pid;			/* of the last run, where it was not seen to end as it
					 * should; 0: none */
	int64_t written_ns;		/* out only: when it was put */
};

/* It is new, has changed, or work on it is over for now; `held`: its owner has it, else its
 * runner will bring it.  To forget a held one: put it, not held.  0: degraded, too large or
 * no memory; the old one is gone, too. */
uint64_t messages_put(struct messages *messages, const struct messages_envelope *envelope,
    bool held, int64_t wall_ns);

/* A run of it begins, by the process `pid` (0: not told).  0: not known (or working already, or
 * before recovery). */
uint64_t messages_start(struct messages *messages, uint64_t key, uint32_t pid, int64_t wall_ns);

/* Of that domain so many recipients are done with in this run, delivered or returned, and
 * so many are left.  0: it is not working.
 *
 * With `id`: what a line of the mail server's log said of it, known or not: recipients of one
 * domain (`to`: "A,B"; `recipients` 0: they are counted already) were delivered by the process
 * `pid`; or (`result`) what such lines told of this run is not so.  They stand in its file until
 * that is written anew: so they come back by the envelope's `delivered`, and its groups have them
 * still.  The key, times and start are filled in here. */
uint64_t messages_delivered(struct messages *messages, uint64_t key,
    const struct journal_delivery *delivery, int64_t wall_ns);

/* Its file is gone.  0: not known. */
uint64_t messages_finish(struct messages *messages, uint64_t key, int64_t wall_ns);

/* --- what comes of it ------------------------------------------------------------------ */

enum messages_answer {
	MESSAGES_NONE,		/* nothing now: come again at *next_ns, or when more was put; and
				 * not before messages_turn */
	MESSAGES_ONE,
	MESSAGES_MORE,		/* not found yet: ask again soon */
};
/* The next one that waits and whose runner has come to it, new and old ones by turns; it is
 * held from now on.  *envelope is valid until the next call of anything.  *next_ns:
 * INT64_MAX: unknown. */
enum messages_answer messages_next(struct messages *messages, int64_t wall_ns,
    struct messages_envelope *envelope, int64_t *next_ns);

/* For whoever looks for others that wait, or lists them: all of them, one by one (one that is
 * written anew meanwhile may come twice).  NULL: degraded, before recovery, or no memory.  *envelope
 * is valid until the next call of anything.  NONE: that was all; or the journal was renewed
 * meanwhile. */
struct messages_walk;
struct messages_walk *messages_walk_open(struct messages *messages);
enum messages_answer messages_walk_next(struct messages *messages, struct messages_walk *walk,
    struct messages_envelope *envelope);
void messages_walk_close(struct messages_walk **walk);

/* As messages_next, of that message.  False: it does not wait here, or cannot be read. */
bool messages_take(struct messages *messages, uint64_t key,
    struct messages_envelope *envelope);

/* Is it known, with this stamp?  It is seen then. */
bool messages_knows(struct messages *messages, uint64_t key, uint64_t stamp);
/* The same, and it waits here: its owner neither holds it nor works on it. */
bool messages_waits(struct messages *messages, uint64_t key, uint64_t stamp);
/* It was found in its directory, whatever is known of it. */
void messages_seen(struct messages *messages, uint64_t key);

/* The whole of the queue is looked through from now on: what is known, put or started is
 * seen.  Only when all is indexed. */
void messages_seen_begin(struct messages *messages);
/* It was: `each` is told in the background of those that wait, or are held, and were not seen.  It may
 * call nothing of the above. */
void messages_seen_end(struct messages *messages,
    void (*each)(void *context, const char *mta, const char *directory, const char *id),
    void *context);

/* --- to look at ------------------------------------------------------------------------ */

struct messages_totals {
	uint64_t messages;		/* known; until all is indexed: at least */
	uint64_t waiting, held, working;
	uint64_t written_anew;		/* envelopes, by the longest runner */
	uint64_t dropped;		/* told while degraded, or without memory */
	uint64_t recovered;		/* messages that had been working */
	uint64_t unreadable;		/* damaged records, and envelopes that were not there */
	uint64_t deliveries;		/* recipients of messages_delivered, over the log's life */
	uint64_t renewals;
	uint64_t index_bytes;		/* memory */
};
void messages_count(const struct messages *messages, struct messages_totals *out);

#endif

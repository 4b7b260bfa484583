/* SPDX-License-Identifier: ISC */
/*
 * What the files of the messages' log share.
 *
 * Each known message has one *entry* in the index, which says where its envelope stands.
 * *Unmarked*: an envelope that is no garbage yet, as far as is known.  Counted in its file's
 * *use*, until its mark was asked for (journal_log_mark).  That is early enough: positions are
 * recorded, and files deleted, only when all marks asked for by then are on the disk.
 *
 * The law of the suffix: of every record before the recorded begin of the suffix, all marks
 * are on the disk that it is the reason for (a start: its envelope's; an envelope or a
 * finish: that of the one before).  What stands behind is read at each recovery, which asks
 * for these marks again, whether they can be read or not: a failed sync leaves them in memory
 * alone.  So what looks live before the suffix is live, unless the index knows better; and it
 * does, as the suffix begins no later than it did at recovery until all before it is indexed.
 */
#ifndef JOURNAL_MESSAGES_INTERNAL_H
#define JOURNAL_MESSAGES_INTERNAL_H

#include "journal/log.h"
#include "journal/queue/messages.h"
#include "journal/reader.h"
#include "journal/record.h"

#define NONE		UINT32_MAX
#define NOWHERE		((struct journal_place){ 0, 0 })
#define SHARDS		256u

enum entry_state {
	ENTRY_NEW,		/* made a moment ago: no envelope */
	ENTRY_WAITS,		/* in the log alone */
	ENTRY_HELD,		/* its owner has it */
	ENTRY_WORKING,		/* started; `offset` is its place in messages.working */
	ENTRY_GONE,		/* finished there, while older envelopes may come yet */
};

struct entry {
	uint64_t key;		/* 0: free */
	uint32_t file, offset;	/* of its envelope (GONE: its finish) */
	uint32_t stamp;		/* folded */
	uint8_t state;		/* enum entry_state */
	uint8_t interval;	/* which runner's */
	uint8_t seen;		/* epoch in which it was last */
	bool unlinked;		/* recovery: a record of the suffix names no envelope before it */
};

struct shard {
	struct entry *entries;
	uint32_t size, count;
};

/* Started, in the order of the starts: the head begins the suffix. */
struct working {
	uint64_t key;		/* 0: free */
	uint32_t prev, next;	/* `next` of the free ones, too */
	struct journal_place start, envelope;
	bool unmarked;		/* recovery: its mark is yet to be asked for */
	uint64_t start_sequence;
	/* recovery alone: what was delivered, and what lines told of that */
	struct done *done;
	uint32_t done_count;
	uint32_t pid;
	char *told;		/* "A,B" */
	size_t told_length;
	bool is_void;		/* no line is believed */
};

struct done {
	uint64_t domain;	/* hashed */
	uint32_t recipients;
};

/* What a file is needed for. */
struct use {
	uint32_t file;
	uint32_t unmarked;	/* envelopes that wait or are held */
	uint32_t working;	/* envelopes of what is working */
	uint32_t held[MESSAGES_INTERVALS_MAX];	/* of the unmarked, by interval, */
	uint32_t low[MESSAGES_INTERVALS_MAX];	/* none of which stands before that */
};

struct runner {
	struct journal_cursor *cursor;
	bool stands;		/* at `found`, an envelope of its own */
	struct journal_found found;
	struct journal_envelope envelope;	/* of it; points into the cursor */
	struct journal_place end;	/* nothing more was there while the log ended here */
};

/* An envelope that was taken apart. */
struct parts {
	struct messages_group groups[MESSAGES_GROUPS_MAX];
	char mta[MESSAGES_DOMAIN_MAX + 1], directory[MESSAGES_DIRECTORY_MAX + 1];
	char id[MESSAGES_DOMAIN_MAX + 1], sender[MESSAGES_SENDER_MAX + 1];
};

enum phase { PHASE_SUFFIX, PHASE_REPLACE, PHASE_INDEX, PHASE_TOMBS, PHASE_DONE };

struct messages {
	struct journal_log *log;
	struct messages_settings settings;
	struct messages_calls calls;
	struct messages_totals totals;
	enum phase phase;
	bool failed;			/* degraded: nothing is known */
	bool renew, tell_renewed;	/* to recover anew; its owner is to be told that */
	struct journal_place renew_at;	/* and what stands from there on is newer */
	bool no_memory;			/* a mark or a use was lost: nothing is deleted any more, */
	int64_t no_memory_ns;		/* until then: all is recovered anew */
	bool moved;			/* since positions were asked for: they are others now */
	int64_t sync_within_ns;		/* what was told since the last turn; INT64_MAX: no */
	int64_t wall_ns, now_ns;	/* of the last call, and of the last turn */
	uint32_t fault_file;		/* could not be read of late; */
	int64_t fault_until_ns;		/* tried again until then */
	struct journal_place last;	/* of the record that was appended last, or `own` */

	struct shard shards[SHARDS];
	uint64_t by_state[ENTRY_GONE + 1];
	struct working *working;
	uint32_t working_size, working_free, working_first, working_last;
	struct use *uses;		/* by file */
	uint32_t use_count, use_size;

	struct journal_place begin;	/* nothing before it is needed */
	struct journal_place found_suffix; /* the suffix began there at recovery */
	struct journal_place own;	/* what stands from there on is of this life */
	struct journal_cursor *cursor;	/* recovery, then the index */
	struct journal_cursor *spare;	/* single records */
	uint32_t tomb_shard;
	struct runner runners[MESSAGES_INTERVALS_MAX];
	bool new_is_next;
	unsigned old_turn;
	uint8_t epoch, told_epoch;
	bool telling;
	uint32_t tell_shard, tell_slot;
	void (*unseen)(void *context, const char *mta, const char *directory, const char *id);
	void *unseen_context;
	bool has_positions;
	struct journal_positions positions, asked_positions;	/* recorded last; asked for */
	uint64_t positions_asked;	/* number of the last; 0: none */
	int64_t positions_ns;		/* when they may be next */
	uint64_t positions_last;	/* sequence that was the last then */
	struct parts parts;
	struct journal_group groups[MESSAGES_GROUPS_MAX];
	uint8_t payload[JOURNAL_PAYLOAD_MAX];
};

/* --- messages_index.c ------------------------------------------------------------------ */

/* Pointers are valid until the next make or remove.  NULL: none, or no memory. */
struct entry *messages_index_find(struct messages *m, uint64_t key);
struct entry *messages_index_make(struct messages *m, uint64_t key);
void messages_index_remove(struct messages *m, struct entry *entry);
/* Those of a shard that are GONE are removed. */
void messages_index_sweep(struct messages *m, uint32_t shard);
void messages_index_clear(struct messages *m);
void messages_set_state(struct messages *m, struct entry *entry, enum entry_state state);

/* --- messages_use.c: what is needed of which file -------------------------------------- */

/* The entry, which has no envelope, gets this one; and loses it: it is garbage once
 * `allowed_by` is synced. */
void messages_gain(struct messages *m, struct entry *entry, enum entry_state state,
    struct journal_place place, unsigned interval);
void messages_lose(struct messages *m, struct entry *entry, uint64_t allowed_by);
void messages_hold(struct messages *m, struct entry *entry);
/* A start of `envelope`, which is the entry's, or it has none (recovery: the mark is left to
 * its end).  There is room after messages_reserve_work (false: no memory). */
bool messages_reserve_work(struct messages *m);
void messages_begin_work(struct messages *m, struct entry *entry,
    struct journal_place envelope, struct journal_place start, uint64_t start_sequence);
/* Its replacement or finish was appended.  The entry is NEW then. */
void messages_end_work(struct messages *m, struct entry *entry);
void messages_mark(struct messages *m, struct journal_place place, uint64_t allowed_by);
/* The first file that is needed, `limit` at most; and a place before which no held one of that
 * interval stands. */
uint32_t messages_first_use(const struct messages *m, uint32_t limit);
struct journal_place messages_first_held(const struct messages *m, unsigned interval,
    struct journal_place limit);
void messages_forget_uses(struct messages *m, uint32_t below);
/* Index, work and uses as if nothing had ever been. */
void messages_forget_all(struct messages *m);

struct working *messages_work(const struct messages *m, const struct entry *entry);
/* Where what is known of it stands: the envelope, the start, the finish. */
struct journal_place messages_place(const struct messages *m, const struct entry *entry);
bool messages_before(struct journal_place a, struct journal_place b);
bool messages_same(struct journal_place a, struct journal_place b);

/* --- messages.c --------------------------------------------------------------------------- */

/* Of mta, directory and id as a record has them. */
uint64_t messages_key_of(const struct journal_text texts[3]);
uint64_t messages_domain_key(const char *domain, size_t length);
unsigned messages_interval_of(const struct messages *m, int64_t due_ns, int64_t written_ns);
/* A record of that type, which always fits.  0: failed; or renewed meanwhile: what was appended
 * is garbage then. */
uint64_t messages_record(struct messages *m, enum journal_type type, const void *record,
    struct journal_place *place);
/* What stands at the begin of each function of the interface: a renewal comes into force.
 * False: degraded. */
bool messages_enter(struct messages *m);
/* Into the log, as the key's last word; as in messages_put. */
uint64_t messages_put_entry(struct messages *m, const struct messages_envelope *envelope,
    uint64_t key, bool held);
uint64_t messages_finish_entry(struct messages *m, struct entry *entry);
uint32_t messages_fold(uint64_t stamp);

/* What was told is to be synced within that time. */
void messages_sync_within(struct messages *m, int64_t delay_ns);

/* --- messages_envelope.c ------------------------------------------------------------------ */

/* Into m->payload.  What does not fit goes without its groups: they are to be read. */
size_t messages_write_envelope(struct messages *m, const struct messages_envelope *envelope,
    uint64_t key, uint64_t replaces, struct journal_place old);
/* False: it is no envelope, or spoiled (counted). */
bool messages_is_envelope(struct messages *m, const struct journal_found *found,
    struct journal_envelope *out);
/* If the clock was set back since it was written, it waits as long as it was to wait. */
int64_t messages_due(const struct messages *m, int64_t due_ns, int64_t written_ns);
/* What it says; strings and groups lie in m->parts and in the record. */
void messages_read_envelope(struct messages *m, const struct journal_envelope *e,
    struct messages_envelope *out);

/* --- messages_lost.c ------------------------------------------------------------------------- */

/* A file could not be read: is it to be tried again?  If not, what stands there is lost. */
bool messages_try_again(struct messages *m, uint32_t file);
/* What stands there cannot be read (or cannot any more): it is known no longer. */
void messages_lost(struct messages *m, const struct journal_found *found);
/* The envelope of that key that stands there (RECORD), or what is there instead (DAMAGE,
 * FAULT). */
enum journal_found_kind messages_read_at(struct messages *m, struct journal_place place,
    uint64_t key, struct messages_envelope *out);

/* --- messages_recover.c ------------------------------------------------------------------- */

/* What stands from `own` on is newer than what is recovered. */
void messages_recover_begin(struct messages *m, struct journal_place own);
/* A step of recovery or index; true: there is more to do. */
bool messages_recover_step(struct messages *m);
/* A live envelope that stands there, of which the index may know nothing yet.  Its entry if
 * it is the one that counts, else NULL. */
struct entry *messages_learn(struct messages *m, const struct journal_found *found,
    const struct journal_envelope *envelope);

/* --- messages_run.c ------------------------------------------------------------------------ */

bool messages_runners_open(struct messages *m);
void messages_runners_begin(struct messages *m);
void messages_runners_leave(struct messages *m);
void messages_runners_close(struct messages *m);
/* The longest one goes on and writes anew; true: there is more to do.  *wait_ns: when it has
 * more (from now), or INT64_MAX. */
bool messages_run_longest(struct messages *m, int64_t *wait_ns);
/* An envelope was found that it has passed already. */
void messages_longest_back(struct messages *m, struct journal_place place);
struct journal_place messages_runner_place(const struct messages *m, unsigned interval);

/* --- messages_look.c ------------------------------------------------------------------------ */

bool messages_unseen_step(struct messages *m);

/* --- messages_positions.c -------------------------------------------------------------------- */

#define POSITION_SUFFIX	"suffix"
void messages_position_name(int64_t interval_ns, char out[JOURNAL_POSITION_NAME + 1]);
/* Of those recorded last.  False: none of that name. */
bool messages_position_found(const struct messages *m, const char *name,
    struct journal_place *place);
/* As after a fault: recovers again what is on the disk. */
void messages_renew(void *messages);

#endif

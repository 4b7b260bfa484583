/* SPDX-License-Identifier: ISC */
/*
 * What stands in a record's payload, by type (defs/records.def; version 1 of all of them).
 *
 * On disk a payload is its struct's fields in the order in which they stand below, without
 * gaps: numbers little-endian of their size, a boolean as u8, a text as u16 length and its
 * bytes (any bytes), a list as u32 count and its elements.  Whoever reads ignores what
 * follows the fields that it knows; what ends early at a field's begin has zeros for the
 * rest.  A text or list that ends early spoils the record.
 *
 * All times are wall clock, ns since 1970 (0: none, never, at once; INT64_MAX: for ever),
 * as another boot counts its own clock anew.
 *
 * Pure, no allocation; any thread.  Texts of what was read point into the payload.
 */
#ifndef JOURNAL_RECORD_H
#define JOURNAL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/manual.h"
#include "journal/frame.h"

enum journal_type {
#define RECORD(symbol, number, word, what) JOURNAL_##symbol = number,
#include "defs/records.def"
#undef RECORD
};
/* NULL: not known. */
const char *journal_type_word(unsigned type);

struct journal_text {
	const char *text;	/* without a NUL behind it */
	uint16_t length;
};

/* --- messages (queue/) ------------------------------------------------------------ */

/* ENVELOPE and REPLACEMENT. */
struct journal_envelope {
	uint64_t key;		/* of mta, directory and id (messages.h); for joining records */
	uint64_t replaces;	/* sequence of the start that it ends; 0: of none */
	struct journal_place old;	/* the envelope that it takes the place of; or {0, 0} */
	int64_t written_ns;
	int64_t due_ns;		/* not to be run before; 0: at once */
	uint8_t interval;	/* class of its runner, 0 the shortest */
	uint8_t flags;		/* JOURNAL_ENVELOPE_* */
	uint64_t stamp;		/* of the queue file: another when it has changed */
	int64_t arrival_ns;
	int64_t tried_ns;	/* the last run by anybody */
	uint32_t tries;
	uint32_t recipients;	/* of all the file */
	uint64_t rest;		/* place in the queue file where recipients go on that are not
				 * in the groups; 0: all are there */
	struct journal_text mta;	/* name in the configuration */
	struct journal_text directory;	/* path of its queue directory */
	struct journal_text id;
	struct journal_text sender;
	uint32_t group_count;	/* the list of groups (journal_group_*) follows here, then: */
	uint32_t pid;		/* of a run that did not end in an orderly way; 0: none */
	struct journal_text delivered;	/* recipients that were, and stand in the file: "A,B" */
};
#define JOURNAL_ENVELOPE_SUSPENDED	0x01	/* waits for no time: its destinations are held */
#define JOURNAL_ENVELOPE_UNREAD		0x02	/* its recipients are not here: read the file */

/* Recipients of one domain. */
struct journal_group {
	uint32_t count;
	int64_t due_ns;		/* 0: at once */
	struct journal_text domain;	/* empty: local */
};

struct journal_start {
	uint64_t key;
	struct journal_place envelope;
	uint64_t sequence;	/* of that envelope; 0: not told, as always in version 1 */
	int64_t when_ns;
	uint32_t run;		/* pid of the run's process; 0: not told */
};

struct journal_delivery {
	uint64_t key;
	uint64_t start;		/* sequence of its start */
	int64_t when_ns;
	uint8_t result;		/* JOURNAL_RESULT_* */
	uint32_t recipients;	/* the set: so many of that domain */
	uint32_t left;		/* of that domain, that are still queued */
	struct journal_text domain;
	/* Of what a line of Sendmail's log told; else empty, and 0.  `left` is not known then, and
	 * recipients are 0 where another record has counted them. */
	struct journal_text id;
	struct journal_text to;	/* "A,B" */
	uint32_t pid;
	uint64_t log;		/* which one, and the place behind the line there */
	uint64_t offset;
};
#define JOURNAL_RESULT_GONE	0	/* delivered, or bounced: no more in the queue file */
#define JOURNAL_RESULT_WAITS	1	/* what lines told of this run is void: they disagree */

struct journal_finish {
	uint64_t key;
	uint64_t start;		/* sequence of the start that it ends; 0: it had none */
	struct journal_place old;	/* its last envelope; or {0, 0} */
	int64_t when_ns;
	uint8_t why;		/* JOURNAL_FINISH_* */
};
#define JOURNAL_FINISH_DONE	0	/* no recipients are left */
#define JOURNAL_FINISH_GONE	1	/* the mail server has it no more */

/* --- what was learned (feed/) ------------------------------------------------------- */

struct journal_destination {
	int64_t when_ns;	/* of the snapshot */
	uint64_t origin;	/* of the event that was applied last: what of its log is at or
				 * below is not applied again */
	uint8_t flags;
	struct journal_text name;
	struct journal_text state;	/* "KEY=VALUE ...", as in the state's text file; empty: it
					 * was forgotten */
	struct journal_text reason;	/* why it is suspended or held */
};

struct journal_log_position {
	int64_t when_ns;
	uint64_t log;		/* which one (segment/file/feed_position.h); the rest as there */
	uint64_t device, inode;
	uint32_t epoch, rank;
	uint64_t offset;
	uint32_t tail;
	bool skipping;
	bool forgotten;		/* there is no such file any more */
	/* of a position in the systemd journal, where device and inode are the ID of its sequence
	 * numbers and offset is such a number: up to when all was read, since 1970; else 0 */
	uint64_t time_us;
};

struct journal_held_recipient {
	int64_t when_ns;
	int64_t since_ns, until_ns;
	struct journal_text address;
	struct journal_text reason;
	uint8_t flags;		/* JOURNAL_HELD_* */
	uint64_t event;		/* id of the decision that it is held by; 0: not known */
};
#define JOURNAL_HELD_BY_RULE	0x01	/* a provider's rule holds it; else somebody by hand */

/* --- what people did (keeper/) ------------------------------------------------------ */

struct journal_manual {
	int64_t when_ns;
	int64_t until_ns;	/* HOLD, SUSPEND; SET: no canary before */
	uint8_t verb;		/* JOURNAL_VERB_* */
	uint8_t what;		/* JOURNAL_ON_* */
	uint32_t who;		/* uid */
	uint32_t window, ceiling;	/* UINT32_MAX: not set */
	struct journal_text name;
	struct journal_text reason;
};
enum { JOURNAL_ON_DESTINATION = 1, JOURNAL_ON_RECIPIENT, JOURNAL_ON_CLASS };
/* "suspend" ...; "destination" ...; others "unknown". */
const char *manual_word(unsigned verb);
const char *journal_on_word(unsigned what);

/* --- what was decided (decisions/) --------------------------------------------------- */

/* segment/decision/decisions.h tells the meaning of each.  Kinds, reasons and the like are words, as
 * their numbers are of one build. */
struct journal_decision {
	int64_t when_ns;
	int64_t until_ns;
	uint64_t id;
	uint64_t cause;
	uint8_t client[16];
	uint32_t client_port, server_port;
	uint8_t verdict, by, action, flags;
	uint32_t line, limit_line;
	uint32_t count, limit;
	uint32_t before, window;
	uint32_t ceiling_before, ceiling;
	uint32_t uid, pid, code;
	uint32_t success, failure, fail_cohorts;	/* the bits of floats */
	uint32_t observe_line;
	struct journal_text kind, reason, stage, result;
	uint32_t text_count;	/* the list of texts (journal_note_*) is the last field */
};
struct journal_note {
	uint8_t which;		/* enum decided_text */
	struct journal_text text;
};

/* --- accounts (accounts/) -------------------------------------------------------------- */

#define JOURNAL_COUNTERS_MAX	8
#define JOURNAL_BUCKETS		13
struct journal_counter {
	uint32_t key;		/* policy/limit/quota.h */
	int64_t end_ns;		/* of the newest twelfth: wall clock */
	uint32_t buckets[JOURNAL_BUCKETS];	/* the newest first */
};
struct journal_account {
	int64_t when_ns;
	uint64_t boot;		/* a hash of the boot that it was written in */
	int64_t clock_ns;	/* that boot's clock then: within it no step of the wall clock counts */
	uint8_t what;		/* JOURNAL_ACCOUNT_* */
	uint64_t key[2];	/* of the login; POOL: of the entry, and 0 */
	struct journal_text name;
	int64_t first_ns;	/* first seen; TABLE: since when logins are known */
	int64_t guard_ns;	/* not to be evicted before */
	uint64_t accepted;
	uint32_t refused;
	uint64_t held_by;	/* id of the decision; 0: it is not held */
	uint32_t counter_count;	/* on disk a list */
	struct journal_counter counters[JOURNAL_COUNTERS_MAX];
};
enum { JOURNAL_ACCOUNT_LOGIN = 1, JOURNAL_ACCOUNT_POOL, JOURNAL_ACCOUNT_TABLE,
	JOURNAL_ACCOUNT_FORGOTTEN };

/* CHECKPOINT_BEGIN, CHECKPOINT_END, GROUP. */
struct journal_checkpoint {
	uint64_t number;	/* the same in BEGIN and END */
	int64_t when_ns;
	uint32_t records;	/* END, GROUP: how many belong to it */
};

/* --- positions ---------------------------------------------------------------------- */

#define JOURNAL_POSITIONS_MAX	16
#define JOURNAL_POSITION_NAME	15
struct journal_position {
	struct journal_place place;
	char name[JOURNAL_POSITION_NAME + 1];	/* on disk a text: "suffix", "runner-5m", ... */
};
struct journal_positions {
	int64_t when_ns;
	uint64_t journal;	/* as in the heads */
	uint64_t synced;	/* sequence that was synced, with all before it */
	struct journal_place synced_place;	/* behind that record */
	uint32_t first_file;	/* nothing below it counts; 0: not said */
	uint64_t syncs;		/* of log files, over the journal's life */
	uint64_t results;	/* recipients whose delivery record was synced, over its life */
	uint32_t count;
	struct journal_position positions[JOURNAL_POSITIONS_MAX];
	uint32_t kept;		/* files below it are never deleted: nobody has read them; 0: none */
};

/* --- writing and reading -------------------------------------------------------------- */

/* Each gives the payload's bytes, written to `out`; 0: more than `size`, nothing usable is
 * there.  Those of read: false, where the payload is spoiled (what follows is ignored). */
size_t journal_envelope_write(uint8_t *out, size_t size, const struct journal_envelope *in,
    const struct journal_group *groups);
size_t journal_start_write(uint8_t *out, size_t size, const struct journal_start *in);
size_t journal_delivery_write(uint8_t *out, size_t size, const struct journal_delivery *in);
size_t journal_finish_write(uint8_t *out, size_t size, const struct journal_finish *in);
size_t journal_destination_write(uint8_t *out, size_t size,
    const struct journal_destination *in);
size_t journal_log_position_write(uint8_t *out, size_t size,
    const struct journal_log_position *in);
size_t journal_held_recipient_write(uint8_t *out, size_t size,
    const struct journal_held_recipient *in);
size_t journal_manual_write(uint8_t *out, size_t size, const struct journal_manual *in);
size_t journal_decision_write(uint8_t *out, size_t size, const struct journal_decision *in,
    const struct journal_note *notes);
size_t journal_account_write(uint8_t *out, size_t size, const struct journal_account *in);
size_t journal_checkpoint_write(uint8_t *out, size_t size,
    const struct journal_checkpoint *in);
size_t journal_positions_write(uint8_t *out, size_t size, const struct journal_positions *in);

/* Where a list stands that is read one by one. */
struct journal_groups {
	const uint8_t *at, *end;
	uint32_t left;
};
bool journal_envelope_read(const uint8_t *payload, size_t length,
    struct journal_envelope *out, struct journal_groups *groups);
/* The next one; false: there is none, or (left is not 0) the list is spoiled:
 * journal_envelope_read has looked through it, so that this cannot be after it said true. */
bool journal_group_next(struct journal_groups *groups, struct journal_group *out);
bool journal_decision_read(const uint8_t *payload, size_t length,
    struct journal_decision *out, struct journal_groups *notes);
/* As journal_group_next. */
bool journal_note_next(struct journal_groups *notes, struct journal_note *out);
bool journal_start_read(const uint8_t *payload, size_t length, struct journal_start *out);
bool journal_delivery_read(const uint8_t *payload, size_t length,
    struct journal_delivery *out);
bool journal_finish_read(const uint8_t *payload, size_t length, struct journal_finish *out);
bool journal_destination_read(const uint8_t *payload, size_t length,
    struct journal_destination *out);
bool journal_log_position_read(const uint8_t *payload, size_t length,
    struct journal_log_position *out);
bool journal_held_recipient_read(const uint8_t *payload, size_t length,
    struct journal_held_recipient *out);
bool journal_manual_read(const uint8_t *payload, size_t length, struct journal_manual *out);
/* More counters than there may be spoil it. */
bool journal_account_read(const uint8_t *payload, size_t length, struct journal_account *out);
bool journal_checkpoint_read(const uint8_t *payload, size_t length,
    struct journal_checkpoint *out);
bool journal_positions_read(const uint8_t *payload, size_t length,
    struct journal_positions *out);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * What the process that feeds keeps in its own memory, bounded: the judge, the levels
 * of each destination's attempts (policy/window/level.h), how often a rule matched.  Its loss
 * costs what waits for a verdict, and the counts of thresholds; nothing that a window
 * has learned.  One thread.
 */
#ifndef ENGINE_FEED_INTERNAL_H
#define ENGINE_FEED_INTERNAL_H

#include <sys/queue.h>

#include "base/map.h"
#include "engine/feed/feed.h"
#include "engine/destination/windows_internal.h"
#include "policy/window/level.h"

/* --- levels ------------------------------------------------------------------------ */

struct feed_destination {
	uint64_t hash;			/* of its state_key */
	uint32_t place;			/* the same's */
	unsigned mta;
	struct window_owner owner;
	struct level level;
	struct level_told lines;
	bool waiting;			/* is in the list of those with levels to come */
	TAILQ_ENTRY(feed_destination) entry;
	uint32_t told_running;		/* as it stands in the slot */
	int64_t used_ns;
	int64_t kept_ns;		/* until then the connection of the last one that was accepted
					 * may be kept */
	uint64_t failure;		/* id of the last one that was noted */
	int64_t failure_tat_ns;		/* of how many are noted (policy/limit/rate.h) */
};
TAILQ_HEAD(feed_waiting, feed_destination);

/* --- rules -------------------------------------------------------------------------- */

/* How often a rule matched for one destination or recipient. */
struct feed_match;

/* --- all ------------------------------------------------------------------------------ */

struct feed_starts;
struct feed_matches;

struct feed_table {
	struct map by_hash;		/* of constant size */
	uint32_t entries;
	uint32_t hand;
	int64_t in_vain_ns;		/* when nobody was found idle */
};

/* That a delivery to a domain went by a relay, or the relay's name, and when that was
 * noted. */
#define FEED_NOTED	16384
struct feed_noted {
	uint64_t key;
	int64_t at_ns;
};

/* A domain that somebody announced. */
struct feed_expected {
	bool is_known;			/* else it was none, and the rest is unset */
	struct state_key key;
	struct address relay;
	struct relay_key relay_key;	/* zeros: its relay is not expected */
};

struct feed_memory {
	struct engine *engine;
	struct judge *judge;
	const struct generation *generation;	/* that the judge is of: pinned */
	struct judgement judged;
	uint64_t given_up;		/* patterns, as the judge counted when we looked last */
	bool must_forget;		/* what a predecessor's log said to run was not to be had */
	int64_t turned_ns;		/* the last engine_feed_turn that did something */
	struct feed_table *table;
	struct feed_waiting waiting;
	struct feed_matches *matches;
	struct feed_starts *starts;
	struct feed_noted noted[FEED_NOTED];
	struct feed_expected expected[ENGINE_FEED_EXPECTED];
	unsigned expected_count;
	bool notes_relays;		/* some of those that were expected last were not noted yet */
};

/* The engine's, with a judge for this generation; NULL: no memory. */
struct feed_memory *feed_memory(struct engine *engine, const struct generation *generation);

/* What ran when our predecessor looked last is not known to run: done once, and again where a slot
 * was not to be had. */
void feed_forget_running(struct feed_memory *memory);

/* The same in all this process, not 0. */
uint64_t feed_hash(const struct feed_memory *memory, const void *data, size_t length);

/* Was the very same noted less than a second ago, as it is for each delivery of many?  One
 * that is not certain was not.  `whole`: the domain's relay, else the relay's name. */
bool feed_was_noted(struct feed_memory *memory, const struct delivery_seen *seen,
    bool whole, int64_t now_ns);

/* Where it stands that a relay's name was noted: known of a result that is to come, too. */
struct feed_noted *feed_noted_near(struct feed_memory *memory, const struct address *relay);

/* What was announced under this number (feed_origin); or NULL. */
const struct feed_expected *feed_expected(const struct feed_memory *memory, unsigned number);

/* Hash of a text, 0: it is empty. */
uint64_t feed_hash_of(const struct feed_memory *memory, struct span span);

/* A result that is somebody's, on its way. */
struct feed_result {
	struct feed_memory *memory;
	const struct generation *generation;
	const struct delivery *delivery;
	const struct judgement *judgement;
	const struct delivery_seen *seen;	/* to be noted with it, or NULL */
	const struct state_key *expected;	/* the owner's, or NULL */
	struct state_key key;	/* of the owner, once it was learned */
	struct state_origin origin;
	int64_t clock_ns;	/* when it was read */
	int64_t now_ns;		/* the same, or end_ns of what was read late */
	int64_t end_ns;		/* of the delivery: what is long past does what it did then */
	int64_t start_ns;
	int64_t slack_ns;	/* of start_ns */
	bool has_start;		/* else start_ns is end_ns */
	bool repeated;		/* it was learned before: nothing was done */
};

/* What happened in a transaction, to be told after it. */
struct feed_told {
	bool died, back, changed;
	bool ruled;			/* the rule's action changed something */
	bool would_hold;		/* it would have been held, but for observe mode */
	bool fell;			/* the ceiling, or one was found */
	bool slowed;			/* a rule lowered the pace: */
	int64_t pace_before_ns, pace_ns;	/* the interval between messages; 0: none was in force */
	bool quiet;			/* people were told lately that the recipient is held */
	uint32_t before;		/* the window */
	uint32_t ceiling_before;
	uint64_t failure;		/* ids, claimed inside; 0: it is not noted */
	uint64_t died_by;
	uint64_t held_by;		/* by a rule */
	uint64_t cause;			/* of the failure: the one before */
};

struct feed_learning {
	struct feed_result *result;
	struct feed_destination *destination;	/* or NULL */
	struct window_rules rules;
	struct judge_rule rule;		/* where has_rule */
	int64_t rule_end_ns;		/* of its action */
	struct feed_match *match;	/* of the rule, or NULL: it does nothing */
	bool has_rule, fires;
	enum result_class class;	/* as the window hears of it */
	enum judged_weight weight;
	bool counts;			/* no other line told of the delivery before */
	bool canary;
	bool asked;			/* a mail server that asks: its level is exact */
	bool connected;			/* and told that it was, for this message */
	uint32_t level;			/* 0: not known yet */
	uint64_t queue;
	bool has_reason;
	char reason[WINDOW_REASON_MAX + 1];
	struct state_lock lock;
	struct feed_told told;
};

/* feed_pace.c */

/* Lets the pace learn: inside the transaction, once it is known whether the rule fires. */
#ifdef WITH_PACE
void feed_pace(struct feed_learning *learning);
#else
static inline void feed_pace(struct feed_learning *learning) {
	(void)learning;
}
#endif

/* feed_source.c */

/* Counts a result for the source that it went by. */
void feed_source(const struct feed_result *result);
/* The class as its destination hears it: that a new address is put off is not the site's state. */
enum result_class feed_class_of_source(struct feed_learning *learning, enum result_class class);

/* feed_late.c */

#define FEED_TAG_CANARY	0x100	/* of a level's attempt, beside the class */

/* Of a ceiling that a cluster divides: places that are other nodes'.  How many of them are in
 * use is not known: a refusal counts as if all were, and what is accepted as if none was, so
 * that nothing is believed that was not seen. */
uint32_t feed_elsewhere(const struct state_lock *lock, int64_t now_ns);

/* The window hears of levels that are known by now, some at most; returns how many there were. */
unsigned feed_hear_levels(struct state_lock *lock, const struct window_rules *rules,
    struct feed_destination *destination, int64_t now_ns, struct feed_told *told);

void feed_set_running(struct feed_destination *destination, struct destination_state *state,
    int64_t now_ns);

static inline void feed_note_change(struct feed_told *told, const struct window_change *change) {
	told->died |= change->died;
	told->back |= change->revived;
	told->changed |= change->window;
}

static inline bool feed_has_fallen(uint32_t before, uint32_t ceiling) {
	return ceiling != 0 && (before == 0 || ceiling < before);
}

/* feed_report.c */

/* A destination that fails all the time does not wash out what others did. */
bool feed_may_note_failure(struct feed_learning *learning);

/* After the transaction: frees the place of a failure that was asked about, reports what it made of
 * the window, and does what else the rule says. */
void feed_report(struct feed_learning *learning);
/* The same of levels that are known late. */
void feed_report_change(const struct feed_memory *memory, const struct generation *generation,
    const struct feed_destination *destination, const struct state_lock *lock,
    const struct window_rules *rules, const struct feed_told *told, int64_t now_ns);

/* feed.c */

/* The owner's entry, made if need be.  NULL: there is no room, or no memory. */
struct feed_destination *feed_destination(struct feed_memory *memory,
    const struct window_owner *owner, const struct state_key *key, int64_t now_ns);

/* It is looked at each turn, until nothing of it runs and all its levels are told. */
void feed_await(struct feed_memory *memory, struct feed_destination *destination);

/* Adds an attempt, with more room for levels where that is needed (counted where there is
 * none). */
void feed_add_attempt(struct feed_memory *memory, struct feed_destination *destination,
    const struct level_attempt *attempt, int64_t now_ns);

/* feed_levels.c */

/* Another entry.  NULL: there is no room, or no memory. */
struct feed_destination *feed_destination_make(struct feed_table *table, uint64_t hash,
    const struct window_owner *owner, int64_t now_ns);

struct feed_table *feed_table_open(void);
void feed_table_close(struct feed_table **table);

/* The owner's entry if it is there; it is being fetched.  Has the bucket of the key fetched before,
 * and its levels after. */
void feed_destination_near(const struct feed_table *table, uint64_t hash);
const struct feed_destination *feed_destination_likely(const struct feed_table *table,
    uint64_t hash);

/* More room for levels, if there is any. */
void feed_level_grow(struct feed_table *table, struct level *level);

/* Places that the remote may have counted by then: in flight, and connections kept. */
uint32_t feed_places(const struct feed_destination *destination, int64_t now_ns);

/* Gives back what it does not need any more: each turn, for those that wait. */
void feed_shrink(struct feed_memory *memory, struct feed_destination *destination);

/* Gives up some that are idle: each turn. */
void feed_table_sweep(struct feed_table *table, int64_t now_ns);

/* How many entries all have room for. */
uint32_t feed_table_entries(const struct feed_table *table);

/* feed_rules.c */

struct feed_matches *feed_matches_open(void);
void feed_matches_close(struct feed_matches **matches);

/* The count of a rule for `key` (feed_hash of what it is counted for), made if need be;
 * NULL: no memory. */
struct feed_match *feed_match(struct feed_matches *matches, const struct judge_rule *rule,
    uint64_t key, int64_t now_ns);

/* It matched once more: true when the action is to be taken. */
bool feed_match_counts(struct feed_match *match, const struct judge_rule *rule,
    int64_t now_ns);

/* Was the action told lately?  Notes that it is told now, and that it is quiet until
 * then. */
bool feed_match_is_quiet(struct feed_match *match, int64_t now_ns, int64_t until_ns);

/* What a rule that fires does to the window, inside the transaction. */
void feed_rule_acts(struct feed_learning *learning);

/* feed_starts.c */

/* The level of a result, where the mail server told it at the start. */
void feed_find_level(struct feed_learning *learning);

static inline bool feed_tells_relay(const struct judgement *judgement) {
	return judgement->tried.name.length > 0 || !address_is_unknown(&judgement->tried.address);
}

/* A result that tells no relay is of whom the domain was reached by last. */
void feed_roll_up(const struct engine *engine, const struct generation *generation,
    struct judgement *judgement);

struct feed_starts *feed_starts_open(void);
void feed_starts_close(struct feed_starts **starts);

/* A delivery of `queue` to the destination of `hash` began.  Returns its level. */
uint32_t feed_starts_begin(struct feed_starts *starts, uint64_t hash, uint64_t queue,
    int64_t now_ns);

/* It ended: its level, or 0 where no start was told.  *running: those that are still
 * under way there. */
uint32_t feed_starts_end(struct feed_starts *starts, uint64_t hash, uint64_t queue,
    int64_t now_ns, uint32_t *running);

#endif

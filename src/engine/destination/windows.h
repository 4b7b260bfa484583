/* SPDX-License-Identifier: ISC */
/*
 * The windows of destinations (DESIGN sections 7, 8, 11): who owns the window that
 * mail for a name runs by, what it says now, and what people do to it by hand.
 * Results come in by engine_feed_delivery (feed.h).
 *
 * One window for the whole host, kept in the destination's slot of the segment; its
 * law is of policy/window/window.h and its settings are those of the generation.  Where the
 * shared state cannot be had within 50 ms nothing is held (fail open, counted).  No
 * function here logs: what happened is reported after all locks are given back.
 */
#ifndef ENGINE_WINDOWS_H
#define ENGINE_WINDOWS_H

#include <sys/types.h>

#include "base/manual.h"
#include "config/generation/enforcement.h"
#include "engine/engine.h"
#include "engine/judge/judge.h"
#include "policy/window/window.h"
#include "segment/destination/destinations.h"

#define WINDOW_REASON_MAX	160

/* --- whose -------------------------------------------------------------------- */

/* Whose window mail for `destination` runs by: a recipient domain (in any spelling), a
 * host as Sendmail names it, or a name as above.  A domain belongs to a provider when
 * one of the relays that it was reached by last does, and to the relay that all mail
 * goes to, if any; but what is held by hand stands alone.  Any thread, no lock. */
void windows_owner(const struct engine *engine, const struct generation *generation,
    const char *destination, size_t length, struct window_owner *out);

/* The same for mail of one mail server, which may reach it by another way than the first
 * one does (nobody's where that is in doubt); GENERATION_MTAS_MAX: of the first. */
void windows_owner_by(const struct engine *engine, const struct generation *generation,
    const char *destination, size_t length, unsigned mta, struct window_owner *out);

/* The same for a name that a stranger may have chosen (a recipient's domain, the host that a
 * Sendmail asks about): no provider, class or relay on a port, nobody's if it looks so. */
void windows_owner_of_host(const struct engine *engine, const struct generation *generation,
    const char *host, size_t length, unsigned mta, struct window_owner *out);

/* Is the owner that windows_owner_of_host found one for all mail by that host: a provider, the
 * relay of all mail, a host on this machine, or one that somebody holds by its name?  Else what
 * is learned there is learned for the recipients' domains. */
bool windows_owner_is_for_host(const struct engine *engine, const struct window_owner *owner);

/* And for mail of one mail server alone.  False: others reach the domain, too, and which
 * of its relays is the relayhost is not known. */
bool windows_owner_of_mta(const struct engine *engine, const struct generation *generation,
    const struct destination_seen *seen, unsigned mta, struct window_owner *out);

/* --- what it says -------------------------------------------------------------- */

struct window_view {
	bool known;		/* there is a window; else settings' first one is shown */
	unsigned mta;		/* whose settings count, or GENERATION_MTAS_MAX */
	enum window_law law;
	enum window_state state;	/* DEAD and HELD only until their end, by `now_ns` */
	uint8_t by;		/* enum decided_by: what made it so; DECIDED_BY_NOBODY: open */
	bool observed;		/* as it stands, it is not applied (observe mode) */
	uint32_t window;	/* deliveries that may run at once now; 0: none */
	bool divided;		/* its ceiling is shared by the nodes of a cluster: */
	uint32_t share;		/* so many are this node's now (the window is no more) */
	uint32_t share_serial;	/* rises with each change of the share */
	uint8_t hold_node, ceiling_node;	/* whose they are (segment/destination/shared.h), or SHARED_OURS */
	uint32_t stored;	/* the window's number, whatever the state */
	uint32_t ceiling;	/* 0: not known */
	uint32_t proven;	/* probe, no ceiling is known: so many ran at once, or are what any
				 * site is tried with; 0: `window` needs no proof */
	uint32_t in_flight;
	double success, failure, fail_cohorts;
	int64_t until_ns;	/* DEAD, HELD: the end; INT64_MAX: until it is resumed */
	int64_t resumed_ns;	/* the last time by hand; 0: never */
	bool canary_due;	/* one may go above the window now (probe) */
	bool canary_waits;	/* one could, if it were this node's turn */
	bool canary_out;	/* one was issued, its result is awaited */
	uint64_t ok, failed, held;	/* deliveries since it was begun */
	char reason[WINDOW_REASON_MAX + 1]; /* the last one, printable; or "" */
	uint64_t event;		/* DEAD, HELD: the id of what says so; 0: not known */
	uint64_t hold_id;	/* of hold_node: the id of what says so there; 0: not known */
	uint8_t hold_by;	/* and enum decided_by of it */
	struct pace_view pace;	/* interval_ns 0: none is in force */
	int64_t pace_limit_ns;	/* the same, as it is configured; 0: none is */
	bool pace_by_hand;
	int64_t pace_wait_ns;	/* until the next message may go; 0: now */
};

/* A copy, at `now_ns`.  False: there is no window of that name yet; *out is what a new
 * one would be.  Any thread, no lock. */
bool windows_view(const struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, int64_t now_ns, struct window_view *out);

/* What the window of a domain that nothing is known of is to mail of this mail server. */
void windows_view_new(const struct generation *generation, unsigned mta, int64_t now_ns,
    struct window_view *out);

/* "cohorts", "rule", "hand", "node", of an enum decided_by; of none "-". */
const char *windows_by_word(unsigned by);

/* So many deliveries run, or would: asks for what other nodes may have of it, where that is
 * what they wait for.  Any thread, no lock. */
#ifdef WITH_CLUSTER
void windows_want(const struct engine *engine, const struct window_owner *owner,
    const struct window_view *view, uint32_t places, int64_t now_ns);
/* A canary would go: asks for this node's turn, where that is what it waits for. */
void windows_want_canary(const struct engine *engine, const struct window_owner *owner,
    const struct window_view *view, int64_t now_ns);
#else
static inline void windows_want(const struct engine *engine, const struct window_owner *owner,
    const struct window_view *view, uint32_t places, int64_t now_ns) {
	(void)engine, (void)owner, (void)view, (void)places, (void)now_ns;
}

static inline void windows_want_canary(const struct engine *engine,
    const struct window_owner *owner, const struct window_view *view, int64_t now_ns) {
	(void)engine, (void)owner, (void)view, (void)now_ns;
}
#endif

/* The name of a node of the cluster, by its number in a view; "": none. */
const char *windows_node_name(const struct engine *engine, unsigned node,
    char out[SHARED_NODE_NAME_MAX + 1]);

/* Are its holds applied, or only decided and counted? */
bool windows_observed(const struct generation *generation, const struct window_owner *owner);

/* One sentence for whoever is held: "Postern: example.com is suspended for 240 s: 421
 * 4.7.0 ...".  Printable ASCII. */
#define WINDOW_TEXT_MAX	160
const char *windows_text(const struct window_owner *owner, const struct window_view *view,
    int64_t now_ns, char out[WINDOW_TEXT_MAX + 1]);

/* Is mail to this one recipient ("user@domain") held now, by a provider rule or by
 * hand?  Then until when and why; `observed`: it may go all the same.  Any thread. */
struct window_held {
	int64_t until_ns;	/* INT64_MAX: until it is resumed */
	bool observed;
	uint64_t event;			/* id of what says so; 0: not known */
	char reason[WINDOW_REASON_MAX + 1];
};
bool windows_recipient_held(const struct engine *engine, const struct generation *generation,
    const char *recipient, size_t length, int64_t now_ns, struct window_held *out);

/* Is outbound mail of the class held now, by hand? */
bool windows_class_held(const struct engine *engine, const struct generation *generation,
    uint32_t class_index, int64_t now_ns, struct window_held *out);

/* --- paces (windows_pace.c) ------------------------------------------------------ */

struct window_tokens {
	bool is_paced;		/* false: no pace is in force, any number may go */
	uint32_t taken;		/* messages that may go now */
	int64_t wait_ns;	/* fewer than were asked for: so long until the next one */
};
/* Takes tokens for `most` messages to the owner, or as many as there are.  To ask means that so
 * many wait: a learned pace may rise.  What observe mode lets go is the caller's affair. */
void windows_pace_take(struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, uint32_t most, int64_t now_ns, struct window_tokens *out);

/* The same, and takes none. */
void windows_pace_see(const struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, uint32_t most, int64_t now_ns, struct window_tokens *out);

/* A pace of that name as a journal kept it, age_ns after its last change (0: not known): by
 * the clock of now. */
void windows_pace_restore(const struct engine *engine, const struct generation *generation,
    const char *name, int64_t age_ns, int64_t now_ns, struct pace *pace);

/* Marks a canary as issued, if its turn has come: its result is awaited, from this lane of
 * the mail server.  True: the caller is to let one delivery go above the window.  For
 * whoever makes hints. */
bool windows_issue_canary(struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, unsigned mta, uint32_t lane, int64_t now_ns);

/* --- asked before a connect (Sendmail) ----------------------------------------- */

enum window_answer {
	WINDOW_GO,		/* a place was taken, or the process has it already */
	WINDOW_GO_CANARY,	/* the same, above the window */
	WINDOW_FULL,		/* as many as may are in flight */
	WINDOW_PACED,		/* no token of its pace is left */
	WINDOW_SUSPENDED,	/* dead or held */
	WINDOW_UNUSABLE,	/* shared state: let it go; no place was taken */
};
/* The places that one delivering process has, in its asker's memory; one thread.  A
 * process that comes again on another connection goes on with those that it has.
 * NULL: no memory. */
struct windows_places;
struct windows_places *windows_places_open(struct engine *engine,
    const struct process_identity *process);
/* `over`: the process ended, its places are free; else they stay, and the keeper frees
 * them when it finds that it did.  Nulls *places. */
void windows_places_close(struct windows_places **places, bool over, int64_t now_ns);

/* Names an owner that the process has a place with by a hash of the name (windows_owner_hash).
 * False: there is none, *out is as it was. */
uint64_t windows_owner_hash(const struct engine *engine, const struct window_owner *owner);
bool windows_places_owner(const struct windows_places *places,
    const struct generation *generation, uint64_t hash, struct window_owner *out);

/* Its connections but one to the site of this name are closed ("" : all of them): the
 * other places are free. */
void windows_places_keep_one(struct windows_places *places, const char *name, int64_t now_ns);

struct window_question {
	const struct window_owner *owner;
	struct windows_places *places;
	const char *queue_id;	/* the result is found again by it and the owner */
	size_t queue_id_length;
	uint8_t mta;		/* of the generation */
};
struct window_asked {
	enum window_answer answer;
	bool observed;		/* FULL, PACED, SUSPENDED: decided so, but it may go (and holds a
				 * place, so that the counts are right) */
	uint32_t window, in_flight;	/* its own place counted */
	uint32_t level;		/* the place that it got; 0: none */
	int64_t until_ns;	/* SUSPENDED */
	int64_t interval_ns;	/* PACED: of the pace */
	uint64_t event;		/* SUSPENDED: id of what says so; 0: not known */
	char reason[WINDOW_REASON_MAX + 1];
};
/* Takes a place for the process in the owner's window, if there is one.  It keeps it
 * until the process ends, as its connection may be cached. */
void windows_ask(struct engine *engine, const struct generation *generation,
    const struct window_question *question, int64_t now_ns, struct window_asked *out);

/* --- back-pressure ---------------------------------------------------------------- */

struct window_pressure {
	bool observed;		/* it is to be let in all the same */
	struct window_owner owner;
	int64_t for_ns;		/* so long yet; 0: not known */
	uint64_t id;		/* of this decision */
};
/* Is a recipient ("user@domain") to be deferred at the door, as mail for its domain is
 * suspended and the client's class (of the generation, or CLASS_NO_RULE) is bulk?
 * Counted.  Whom it never concerns (postmaster, bounces ...) is not asked about.  Any
 * thread, no lock. */
bool windows_press_back(struct engine *engine, const struct generation *generation,
    const struct question *question, uint32_t class_index, const char *recipient,
    size_t length, int64_t now_ns, struct window_pressure *out);

/* The process has a connection to the owner's site, for this message: so high was its
 * level.  Where it has no place, nothing. */
void windows_connected(struct engine *engine, const struct generation *generation,
    const struct window_question *question, int64_t now_ns);

/* --- by hand ------------------------------------------------------------------- */

#define BY_HAND_UNSET	UINT32_MAX
struct by_hand {
	enum manual_verb verb;
	const char *name;	/* a destination, or a recipient's address, or of a class */
	size_t name_length;
	bool class;		/* SUSPEND, HOLD, RESUME, FORGET: the name is a class's */
	int64_t for_ns;		/* 0: not told.  SET: no canary tries more for so long */
	const char *reason;	/* or NULL */
	uint32_t window, ceiling;	/* SET: or BY_HAND_UNSET; RESUME: window alone */
	int64_t pace_ns;	/* SET: between two messages; negative: none any more; 0: not told */
	uid_t uid;		/* who asked, for the log */
	bool again;		/* it was done before, and is restored */
};
enum by_hand_error {
	BY_HAND_DONE,
	BY_HAND_BAD_NAME,	/* no name that a destination can have, or of no class */
	BY_HAND_SENSELESS,	/* the verb does not go with what the name is */
	BY_HAND_SHARED,		/* it runs by the window of *owner: that is to be named */
	BY_HAND_NOTHING,	/* RESUME, FORGET: nothing is known, or held; a RESUME of what a
				 * cluster may hold is done all the same */
	BY_HAND_NO_ROOM,	/* in the table of destinations, or of recipients held */
	BY_HAND_BUSY,		/* the shared state could not be had in time */
};
/* Does it to what bears the name, and to nothing that shares its window.  `owner`: whose
 * window it was; kind NONE: a recipient or a class. */
enum by_hand_error windows_by_hand(struct engine *engine, const struct generation *generation,
    const struct by_hand *request, int64_t now_ns, struct window_owner *owner);

/* --- time ---------------------------------------------------------------------- */

/* Brings back those whose time has come, gives up lost canaries and places of dead
 * processes.  The keeper, each half second while anything changes, and at the time that is
 * returned; a part of a large table at a time. */
int64_t windows_turn(struct engine *engine, const struct generation *generation, int64_t now_ns);

/* --- what happened --------------------------------------------------------------- */

enum window_happened {
	WINDOW_DIED,		/* suspended by failed cohorts */
	WINDOW_RULE_SUSPENDED,	/* by a provider rule */
	WINDOW_RULE_CEILING,
	WINDOW_RULE_HELD,	/* one recipient is held, by a provider rule */
	WINDOW_RULE_ALERT,	/* a provider rule tells people, and does nothing */
	WINDOW_RULE_SLOWED,	/* a provider rule lowered the pace */
	WINDOW_SOURCE_DAY,	/* of a source that is warmed up: `name`; numbers `before` and `window` */
	WINDOW_BACK,		/* its time came, or a delivery got through */
	WINDOW_CHANGED,		/* window or ceiling; only where ..._feedback_debug is set */
	WINDOW_BY_HAND,
	WINDOW_FAILED,		/* a delivery failed, and that counts; not told to who listens */
	WINDOW_TOLD_STOP,	/* another node of the cluster said so: suspended or held, */
	WINDOW_TOLD_BACK,	/* resumed, */
	WINDOW_TOLD_CEILING,	/* its ceiling */
};
struct window_report {
	enum window_happened what;
	const struct generation *generation;
	const char *name;		/* of the destination; RULE_HELD: the recipient's */
	size_t name_length;
	const struct judge_rule *rule;	/* that the reply matched, or NULL */
	enum window_state state;
	uint32_t before, window, ceiling;
	double success, failure, fail_cohorts;
	int64_t for_ns;			/* DIED, SUSPENDED, HELD: how long; 0: not told */
	bool observed;			/* decided, not applied */
	struct enforcement enforcement;	/* why not; by windows_report */
	const char *reason;		/* printable; never NULL */
	enum manual_verb verb;		/* BY_HAND */
	uid_t uid;			/* BY_HAND: who asked */
	int64_t was_held_until_ns;	/* and it ends a hold; INT64_MAX: of no end; 0: it does not */
	const struct judgement *judgement;	/* or NULL: by time, by hand */
	const struct delivery *delivery;	/* that led to it, or NULL */
	const char *class_name;		/* BY_HAND: of a class, else NULL */
	int64_t at_ns;			/* when it happened (base/clock.h) */
	uint32_t ceiling_before;
	double limit;			/* DIED: of failed cohorts */
	int64_t pace_before_ns, pace_ns;	/* SLOWED: between two messages; 0: no pace */
	bool silent;			/* it is noted, and not told to who listens */
	uint64_t id, cause;		/* segment/decision/decisions.h; id 0: it is given one */
	const char *node;		/* TOLD_...: which one said so; "": not known any more */
	uint64_t origin;		/* TOLD_STOP: the decision's id there; 0: not known */
	uint8_t by;			/* and enum decided_by */
};
/* Does mail for a destination wait while its window is shut?  `name` as its owner has it. */
struct enforcement windows_enforcement(const struct engine *engine,
    const struct generation *generation, const char *name, size_t length);

/* Who hears of it, once for this engine; front/window_log.h has one that logs.  It says
 * whether its line stands in the log. */
void windows_listen(struct engine *engine,
    bool (*report)(void *context, const struct window_report *), void *context);

#endif

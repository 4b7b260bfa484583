/* SPDX-License-Identifier: ISC */
/* What the files of the engine share. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/login.h"
#include "engine/engine.h"
#include "policy/limit/limit.h"
#include "segment/session/sessions.h"

/* A mapped generation of this process. */
struct mapped_generation {
	const struct generation *generation;
	unsigned pins;
	struct mapped_generation *older;
};

struct relief;
struct feed_memory;
#define ACCOUNT_SUSPECTS_MAX	128

struct window_report;
struct account_trip;
struct journal_manual_log;

/* An end that is still to be carried out. */
struct late_end {
	struct session_ref ref;
	bool outright;			/* engine_session_close */
	enum session_owner owner;
	uint16_t serial;		/* of the slot when it was said */
};

struct late_ends {
	pthread_mutex_t mutex;		/* of this process */
	struct late_end *list;
	size_t count, size;
};

/* When windows_turn does what it does now and then. */
struct windows_time {
	int64_t expired_ns;
	uint32_t next_flight;	/* that is looked at */
};

struct engine {
	struct segment *segment;
	struct relief *relief;		/* NULL: no look of its own */
	struct role_record *role;
	struct timing_record *timings;	/* of its place; no onlooker asks how long it took */
	uint16_t incarnation;
	pthread_mutex_t mapping_mutex;	/* of this process: guards the list */
	struct mapped_generation *newest;
	uint64_t refused_number;	/* a generation that could not be mapped */
	uint64_t logged_number;		/* the last such generation in the log, */
	int64_t logged_ns;		/* and when; 0: none was */
	int lifeline_fd;		/* -1: nobody waits for it */
	int nudge_fd;			/* -1: nobody has any to give */
	_Atomic int64_t lifeline_ns;	/* when it was last written to */
	struct late_ends late;
	struct windows_time windows_time;
	struct feed_memory *feed;	/* NULL: no result was fed yet */
	struct journal_manual_log *manual;	/* NULL: what is done by hand is not written down */
	struct accounts_time {
		uint64_t generation;	/* whose limits all logins were held against; */
		struct learned_cursor at;	/* while they are: accounts_walk */
		bool walks;
		int64_t walk_ns;	/* when that began; 0: never */
		bool knows_evicted;
		uint64_t evicted;	/* that were told, */
		int64_t told_ns;	/* and when; 0: never */
	} accounts_time;		/* the keeper's */
	struct account_suspects {
		bool knows_earlier;	/* those of a process before this one, too */
		unsigned count;
		struct login_key logins[ACCOUNT_SUSPECTS_MAX];
		int64_t due_ns[ACCOUNT_SUSPECTS_MAX];	/* when it is judged again */
	} account_suspects;		/* the feed's */
	void (*account_listener)(const struct generation *, const struct account_trip *);
	bool (*window_listener)(void *context, const struct window_report *);
	void *window_context;
};

/* What of a session's serial tells one connection of such an owner from the next. */
static inline uint16_t asked_part(enum session_owner owner) {
	return owner == OWNER_MILTER ? SESSION_SERIAL_MILTER : SESSION_SERIAL_POLICY;
}

static inline struct session_ref ref_of(const struct session *session,
    uint32_t slot) {
	return (struct session_ref){ .client = session->client,
		.client_port = session->client_port,
		.serial = session->serial, .slot = slot + 1,
		.direction = session->control.direction };
}

enum ref_state {
	REF_HELD,
	REF_OVER,		/* another session has the slot by now, or none */
	REF_BUSY,		/* the shard's lock was not to be had */
};

/* Locks the shard of a ref and loads its session; nothing is held but with
 * REF_HELD. */
enum ref_state session_lock_ref(struct engine *engine,
    const struct session_ref *ref, int64_t now_ns, struct session_lock *lock,
    struct session *session);

/* Locks a class's record.  False: not to be had in time, or the record names
 * another class by now, as this generation is long out of force. */
bool class_lock_for(struct segment *segment, const struct generation_class *class,
    int64_t now_ns);

/* What is one client of this class, in bits of 128. */
unsigned client_bits(const struct generation_class *class,
    const struct address *client);

/* Uncounts and frees a slot under the shard's mutex.  False: a further lock
 * could not be had in time, nothing changed. */
bool slot_close(struct session_lock *lock, uint32_t slot,
    const struct session *session);

/* Takes an open session that counts for no client out of its class; it stays in
 * its slot as one of no class.  Under the shard's mutex; false: the class's was
 * not to be had. */
bool slot_uncount(struct session_lock *lock, uint32_t slot,
    struct session *session);

/* Ends a session that was looked at without locks, unless it changed meanwhile:
 * then the look says nothing about it. */
void session_close_unchanged(struct engine *engine, uint32_t slot,
    const struct session *seen, int64_t now_ns);

/* Ends that could not be carried out for want of a lock, again.  Each second. */
void ends_retry(struct engine *engine, const struct generation *generation,
    int64_t now_ns);

/* May the end of this session be proven by the kernel's table? */
bool session_is_visible(const struct segment *segment,
    const struct generation *generation, const struct session *session);

/* Or is nothing known yet of its listener? */
bool session_may_be_visible(const struct segment *segment,
    const struct generation *generation, const struct session *session);

/* Does a role of this incarnation live? (0: no) */
bool incarnation_lives(const struct segment *segment, uint16_t incarnation);

/* Is there nobody who could ask the kernel? */
bool keeper_is_away(const struct segment *segment, int64_t now_ns);

/* Before a question of that direction to a class that may be full: while the keeper is
 * away, ended ones are taken out of its count.  No lock may be held. */
void relief_seek(struct engine *engine, const struct generation *generation,
    const struct generation_class *class, enum session_direction direction,
    int64_t now_ns);
void relief_close(struct relief **relief);

/* Has no class room for an inbound session?  A class that only observes always
 * has.  Takes no lock. */
bool gate_is_shut(const struct segment *segment,
    const struct generation *generation);

/* Somebody was refused by the gate who is of none of the shared classes: with more of a share
 * it were open. */
void gate_wants_shares(const struct segment *segment, const struct generation *generation);

/* One more pin of a generation that somebody has pinned. */
void engine_pin_again(struct engine *engine, const struct generation *generation);

/* Marks an answer as one that the shared state could not give. */
void answer_unusable(struct engine *engine, const struct generation *generation,
    uint8_t listener, uint16_t port, int64_t now_ns, struct answer *answer);

/* The pieces of a class that the laws ask for, read under its mutex. */
void limit_state_read(const struct segment *segment, uint16_t record,
    struct limit_state *state);

/* The laws for a class whose limits hold for all nodes: by what this node may use of them
 * now, the clock read anew.  Under the class's mutex; a refusal for want of a share is
 * counted.  (shares.c) */
#ifdef WITH_CLUSTER
struct decision shares_inbound(const struct segment *segment,
    const struct generation *generation, const struct generation_class *class,
    const struct limit_state *state, int64_t now_ns);
struct decision shares_outbound(const struct segment *segment,
    const struct generation *generation, const struct generation_class *class,
    const struct limit_state *state, bool held, bool same_host, int64_t now_ns);

/* The same without the mutex, and counting nothing: the answer of a moment ago. */
struct decision shares_look_inbound(const struct segment *segment,
    const struct generation *generation, const struct generation_class *class,
    const struct limit_state *state, int64_t now_ns);
struct decision shares_look_outbound(const struct segment *segment,
    const struct generation *generation, const struct generation_class *class,
    const struct limit_state *state, bool held, bool same_host, int64_t now_ns);

/* What this node may use of a shared class: its limits, cut; returns what it goes by.  No lock. */
enum lease shares_limits(const struct segment *segment, const struct generation *generation,
    const struct generation_class *class, int64_t now_ns, struct limits *out);

/* Somebody would need more of a share than the node has, of whom no decision tells. */
void shares_wanted(const struct segment *segment, const struct generation_class *class,
    bool inbound);
#else
/* No class is shared in a build without clusters (config/compile/cluster_none.c). */
static inline struct decision shares_look_inbound(const struct segment *segment,
    const struct generation *generation, const struct generation_class *class,
    const struct limit_state *state, int64_t now_ns) {
	(void)segment, (void)generation;
	return limit_inbound(&class->limits, state, now_ns);
}

static inline struct decision shares_look_outbound(const struct segment *segment,
    const struct generation *generation, const struct generation_class *class,
    const struct limit_state *state, bool held, bool same_host, int64_t now_ns) {
	(void)segment, (void)generation, (void)now_ns;
	return limit_outbound(&class->limits, state, held, same_host);
}
#define shares_inbound	shares_look_inbound
#define shares_outbound	shares_look_outbound

static inline enum lease shares_limits(const struct segment *segment,
    const struct generation *generation, const struct generation_class *class, int64_t now_ns,
    struct limits *out) {
	(void)segment, (void)generation, (void)now_ns;
	*out = class->limits;
	return LEASE_NONE;
}

static inline void shares_wanted(const struct segment *segment,
    const struct generation_class *class, bool inbound) {
	(void)segment, (void)class, (void)inbound;
}
#endif

/* The limits that count on this node now, `own` being a place for them. */
static inline const struct limits *class_limits(const struct segment *segment,
    const struct generation *generation, const struct generation_class *class,
    int64_t now_ns, struct limits *own) {
	if (__builtin_expect(!class->shared, 1))
		return &class->limits;
	(void)shares_limits(segment, generation, class, now_ns, own);
	return own;
}

/* Adds to a class's statistics (under its mutex, so that no add is lost). */
static inline void class_count(_Atomic uint64_t *counter) {
	atomic_store_explicit(counter, 1 + atomic_load_explicit(counter,
	    memory_order_relaxed), memory_order_relaxed);
}

/* All changes that count one session: control word, class, client.  Under the
 * class's mutex and, where `client` is not NULL, the client's. */
void slot_commit(struct session_lock *lock, uint32_t slot,
    const struct session *session, struct client_lock *client,
    int64_t client_tat_ns);

#endif

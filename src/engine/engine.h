/* SPDX-License-Identifier: ISC */
/*
 * The engine: the only caller of policy/'s laws.  A front end turns bytes into
 * a question, asks once, and turns the answer into bytes.  Every function may
 * be called from any number of threads of a process and from any number of
 * processes; none blocks longer than 50 ms, calls the log, or fails: where the
 * shared state is unusable the answer says so and admits (or refuses, with
 * fail_mode = "closed").
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decision_id.h"
#include "base/diag.h"
#include "config/generation/generation.h"
#include "policy/limit/address.h"
#include "policy/limit/decision.h"
#include "segment/file/layout.h"

struct engine;
struct segment;

/* Who asks; it holds the session until it says that it ended. */
enum session_owner {
	OWNER_POLICY,
	OWNER_MILTER,
	/* engine_session_ended only: the policy connection itself ended, the MTA
	 * may go on with the session on another one */
	OWNER_POLICY_GONE,
};

/* A session as its owner remembers it.  Plain data: copy it freely. All zero
 * is "none". */
struct session_ref {
	struct address client;
	uint16_t client_port;
	uint16_t serial;
	uint32_t slot;		/* number over all shards, + 1; 0: none */
	uint8_t direction;	/* enum session_direction */
};

/* A process: pid and when it started (base/process.h), so that another one with the same pid is
 * another one. */
struct process_identity {
	int32_t pid;
	uint64_t start_ticks;
};

struct question {
	struct address client;
	uint16_t client_port;	/* 0: not known; then the session cannot be tracked */
	struct address server;	/* all zero: not known */
	uint16_t server_port;	/* 0: not known */
	const char *name;	/* verified host name, or NULL */
	size_t name_length;
	uint8_t listener;	/* our socket, by its number in the generation */
	enum session_owner owner;
	uint32_t process;	/* of the mail server, that serves the client; 0: not known */
	uint32_t owner_socket;	/* engine_peer_socket of its connection; 0: not known */
	bool shown;		/* the kernel's table has just shown that it is the owner's */
	/* XCLIENT: the tuple of the CONNECT before it is what the kernel shows. */
	bool carried;
	struct address carrier_client;
	uint16_t carrier_port;
	/* This owner will not be told the difference between 421 and a later
	 * defer: action "defer" means 421 (milter). */
	bool connect_only;
	/* engine_session_open: the session that this one follows, as its owner says; it is ended
	 * first.  NULL: none. */
	const struct session_ref *over;
};

struct answer {
	struct decision decision;
	bool observed;		/* would have been decided so, but admits */
	bool newly_decided;	/* false: the session was known already: do not log again */
	uint64_t id;		/* of the decision (base/decision_id.h); 0: none */
	uint32_t class_index;	/* of the generation, or CLASS_NO_RULE */
	uint32_t rule;		/* of the generation, or CLASS_NO_RULE */
	struct session_ref session;
};

/* `role_slot`: index of this process's role_record.  The generation that the
 * segment names is mapped at once.  -1 with *diag. */
int engine_open(struct engine **engine, struct segment *segment,
    unsigned role_slot, struct diag *diag);
void engine_close(struct engine **engine);

/* The generation in force, pinned until engine_unpin.  Takes up a newly
 * published one. */
const struct generation *engine_pin(struct engine *engine);
void engine_unpin(struct engine *engine, const struct generation *generation);
/* The same in place of `held`, a pinned one or NULL, which is unpinned if it is another: for
 * who always has one.  A load when nothing changed. */
const struct generation *engine_pin_newer(struct engine *engine,
    const struct generation *held);

/* The class's limits as they count for all nodes of a cluster together, as far as this one was
 * told: not below what the lowest configuration says.  Any thread. */
#ifdef WITH_CLUSTER
void shares_whole(const struct engine *engine, const struct generation *generation,
    uint32_t class_index, int64_t now_ns, struct limits *out);
#else
static inline void shares_whole(const struct engine *engine, const struct generation *generation,
    uint32_t class_index, int64_t now_ns, struct limits *out) {
	(void)engine, (void)now_ns;
	*out = generation_class(generation, class_index)->limits;
}
#endif

/* An inbound session began (policy CONNECT and XCLIENT, milter connect).
 * VERDICT_DEFER: the session is let in, each recipient is to be asked about. */
void engine_session_open(struct engine *engine, const struct generation *generation,
    const struct question *question, int64_t now_ns, struct answer *answer);

/* A recipient of an inbound session (policy RCPT): decided anew for a deferred
 * session, VERDICT_ADMIT for every other. */
void engine_session_recipient(struct engine *engine,
    const struct generation *generation, const struct question *question,
    int64_t now_ns, struct answer *answer);

/* The MTA's end of a unix connection that this role holds as `fd`: the inode, by which the
 * keeper sees that a session is over though the role that it was told to is gone.  Costs
 * some 10 us.  0: not known (TCP, another namespace, no netlink). */
uint32_t engine_peer_socket(struct engine *engine, int fd);

/* By what the session of a milter or map connection that is held as `fd` will be proved, for
 * engine_session_open: sets question->shown where the kernel's table shows the session as
 * one of the process at the other end, else question->owner_socket to that end's inode.
 * Neither where nothing can be known.  Any thread. */
void engine_owner_proof(struct engine *engine, const struct generation *generation,
    struct question *question, int fd);

/* A policy connection goes on with a session that another one opened.  Where that one is
 * gone, and the role with it, *session becomes this one's to end; else it stays none. */
void engine_session_kept(struct engine *engine, const struct question *question,
    int64_t now_ns, struct session_ref *session);

/* The owner says that the session ended.  A milter's word is final (it asks about
 * the connect alone); a policy connection's where the witness cannot see the
 * session or is away, else it is a hint.  A ref that no longer names its session does nothing.  What
 * cannot be done now, as a lock is not to be had, is done later: see
 * engine_heartbeat. */
void engine_session_ended(struct engine *engine, const struct generation *generation,
    const struct session_ref *session, enum session_owner owner, int64_t now_ns);

/* Ends a session outright, whatever the witness would say: it was replaced
 * (XCLIENT), or proven to be over. */
void engine_session_close(struct engine *engine, const struct session_ref *session,
    int64_t now_ns);

/* What would be answered now, without doing it. */
void engine_explain(struct engine *engine, const struct generation *generation,
    const struct question *question, int64_t now_ns, struct answer *answer,
    uint32_t *open, uint32_t *client_open);

/* The decision's line stands in the log: it is kept in the journal for certain. */
void engine_decision_logged(struct engine *engine, uint64_t id);

/* Adds to a counter of counters.def. */
void engine_count(struct engine *engine, enum counter counter, uint64_t amount);

/* `count` questions of this kind (at least one) were answered, one after the other, since
 * `began_ns`, when the first was there to be read: returns the time.  For the histograms of the
 * metrics; some 35 ns, most of them for the clock. */
int64_t engine_timed(struct engine *engine, enum timing_kind kind, unsigned count,
    int64_t began_ns);

/* The state file in use, which a changed configuration may name no more. */
const char *engine_state_path(const struct engine *engine);

/* Roles that answer questions wait here, before the first, until sessions that
 * were taken over from an earlier daemon have been looked up in the kernel's
 * table once; 2 s at most. */
void engine_wait_confirmed(struct engine *engine);

/* From now on each heartbeat is also written to this pipe (base/lifeline.h), at most eight a
 * second; and the other one says when to make one at once (base/nudge.h), -1: none does.
 * Before the first heartbeat. */
void engine_beat_on(struct engine *engine, int lifeline_fd, int nudge_fd);
int engine_nudge_fd(const struct engine *engine);

/* A heartbeat of this role, each second, or each ENGINE_REST_NS while it has nothing to do; its
 * first after a start ends the gap.
 * Also takes up a new generation, and carries out ends that had to wait. */
#define ENGINE_REST_NS	(3 * NS_PER_SECOND)
void engine_heartbeat(struct engine *engine, int64_t now_ns);
/* The same for the keeper, whose next one comes within next_ns: others take note soon when
 * nobody can ask the kernel. */
void engine_keeper_heartbeat(struct engine *engine, int64_t now_ns, int64_t next_ns);

/* Does the keeper rest, as there are neither sessions nor connections? */
bool engine_is_at_rest(const struct engine *engine);

#endif

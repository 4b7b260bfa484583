/* SPDX-License-Identifier: ISC */
/*
 * What the kernel's table of connections proves (DESIGN section 6).  The front
 * end reads netlink; what follows from it is decided here.  One thread (the
 * keeper's).
 */
#ifndef ENGINE_WITNESS_H
#define ENGINE_WITNESS_H

#include "engine/engine.h"
#include "engine/outbound/outbound.h"

/* One TCP connection as the kernel tells it; v4-mapped folded.  Inbound: the
 * server half is ours.  Outbound (to one of the remote ports): the client half. */
struct connection {
	struct address client;
	struct address server;
	uint16_t client_port;
	uint16_t server_port;
	bool alive;		/* inode != 0 and a state that DESIGN section 6 names */
	bool outbound;
	uint32_t uid;		/* of our socket's owner */
};

enum lookup_result { LOOKUP_ALIVE, LOOKUP_GONE, LOOKUP_UNKNOWN };

/* Counts a connection that nobody announced (DESIGN section 6): classed by its
 * address alone, above the limit if need be, and shown apart.  False: there is a
 * session of this tuple already, or no place. */
bool engine_session_adopt(struct engine *engine,
    const struct generation *generation, const struct connection *connection,
    uint8_t listener, int64_t now_ns);

/* The kernel's table shows the session: from now on that is its proof.  Fills
 * the server half where it was not known. */
void engine_session_seen(struct engine *engine, const struct session_ref *session,
    const struct connection *connection, int64_t now_ns);

struct witness_calls {
	void *context;
	/* One exact lookup in the kernel: which->outbound tells whose half is ours.
	 * The server half may be unknown (all zero, port 0; inbound only): then any
	 * connection of the client half counts, and *found (may be NULL) tells
	 * which.  UNKNOWN: it could not be asked. */
	enum lookup_result (*lookup)(void *context, const struct connection *which,
	    struct connection *found);
	/* The unix socket of this inode: does any process hold it, and which is at its other
	 * end (*peer, 0: none).  NULL: nobody can tell. */
	enum lookup_result (*socket)(void *context, uint32_t inode, uint32_t *peer);
	/* All connected unix sockets, their inodes in order; the list is theirs until the
	 * next call.  False: they could not be read.  NULL: the same. */
	bool (*sockets)(void *context, const uint32_t **list, size_t *count);
	/* Does this very process live, or can it not be told?  NULL: nobody can
	 * tell of any. */
	bool (*process_lives)(void *context,
	    const struct process_identity *process);
};

struct witness;

/* `capacity`: how many unannounced connections are remembered at most. */
int witness_open(struct witness **witness, struct engine *engine,
    const struct witness_calls *calls, size_t capacity, struct diag *diag);
void witness_close(struct witness **witness);

/* Before the first dump: how many namespaces of witness.netns are read besides our
 * own.  What was learned of listeners while others were read is forgotten: their
 * sessions may be out of sight now. */
void witness_scope(struct witness *witness, const struct generation *generation,
    unsigned namespaces);

/* To be called just before a dump is requested from the kernel; the sequence
 * goes into witness_dump_end: only older sessions may be closed by it. */
uint32_t witness_dump_begin(struct witness *witness);

/* A complete dump: every connection, alive or not, on the watched service ports
 * and, marked so, outbound ones to the generation's remote ports (both families,
 * all namespaces).  A connection to ourselves is listed from both ends, or from the
 * service's alone.  Sorts `list` in place. */
void witness_dump_end(struct witness *witness, const struct generation *generation,
    uint32_t dump_sequence, struct connection *list, size_t count, int64_t now_ns);

/* The kernel's table could not be read.  After 10 s of this, owners and leases
 * decide alone until a dump succeeds. */
void witness_dump_failed(struct witness *witness, int64_t now_ns);

/* The kernel announced the end of a connection; halves may be unknown. */
void witness_destroyed(struct witness *witness, const struct generation *generation,
    const struct connection *which, int64_t now_ns);

/* Leases and owners; about once a second. */
void witness_expire(struct witness *witness, const struct generation *generation,
    int64_t now_ns);

/* Service ports to watch: those of the generation, and those seen in sessions.
 * Returns how many were written. */
size_t witness_ports(struct witness *witness, const struct generation *generation,
    uint16_t *ports, size_t size);

/* Must there be a dump at the next turn?  Sessions are open, or might have to be
 * adopted. `at_once`: without waiting for the turn, as a gap has just ended, an
 * announcement was not clear, or sessions wait to be confirmed. */
bool witness_wants_dump(struct witness *witness, const struct generation *generation,
    int64_t now_ns, bool *at_once);

/* Are there any sessions? */
bool witness_has_sessions(const struct witness *witness);

/* Another number where a session may have changed meanwhile. */
uint32_t witness_version(const struct witness *witness);

/* What changed since the last call, for the log: adopted sessions and repairs. */
struct witness_news {
	uint64_t adopted;
	uint64_t expired;
	uint64_t repairs;
};
void witness_news(struct witness *witness, struct witness_news *news);

/* Gives a role's engine a look of its own at single connections, for questions
 * that it would refuse while the keeper is away.  Before any question; `calls`
 * outlive the engine.  0, or -1 with *diag. */
int engine_lend_witness(struct engine *engine, const struct witness_calls *calls,
    struct diag *diag);

#endif

/* SPDX-License-Identifier: ISC */
/* What the files of the witness share. */
#ifndef ENGINE_WITNESS_INTERNAL_H
#define ENGINE_WITNESS_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"
#include "engine/internal.h"
#include "engine/session/witness.h"

#define WITNESS_CARRIED_MAX	4096
#define WITNESS_PORT_BYTES	(65536 / 8)

/* A session that lives by a tuple which is not its key (XCLIENT). */
struct carried {
	struct address client;
	uint16_t client_port;
	struct session_ref ref;
};

/* A session that its owner holds and the kernel does not show, noticed once. */
struct unseen {
	uint16_t serial;
	uint32_t slot;
	int64_t since_ns;		/* 0: none */
};

struct witness {
	int64_t hidden_ns;	/* when a session was last seen that the kernel does not show */
	struct engine *engine;
	struct segment *segment;
	struct witness_calls calls;
	struct unannounced *unannounced;
	struct carried *carried;
	size_t carried_count;
	uint8_t *announced;		/* of each connection of a dump: has it a session? (dump_list) */
	size_t announced_size;
	struct unseen unseen;		/* that may become a lesson (proof.c) */
	unsigned searches_left;		/* in this dump, by client half alone */
	uint8_t asked[WITNESS_PORT_BYTES];	/* ports of the last dump */
	uint8_t found[WITNESS_PORT_BYTES];	/* ports of sessions */
	int64_t gap_ends_ns[SEGMENT_ROLES_MAX];	/* that were noticed */
	int64_t dumped_ns;		/* the last good dump; 0: of a keeper before this one */
	int64_t failing_since_ns;	/* no dump succeeds any more; 0: they do */
	bool ports_full;		/* not every port could be asked for */
	int64_t policy_looked_ns;	/* the last look at policy connections (owners.c) */
	int64_t sockets_read_ns;	/* unix sockets were read last; 0: never */
	bool any_has_left;		/* SESSION_FLAG_LEFT: to be looked at again soon */
	bool early;			/* something calls for a dump at once */
	uint64_t told[3];		/* counters as of the last witness_news */
};

static inline bool port_is_in(const uint8_t *set, uint16_t port) {
	return (set[port / 8] >> (port % 8) & 1) != 0;
}

static inline void port_put(uint8_t *set, uint16_t port) {
	set[port / 8] |= (uint8_t)(1u << (port % 8));
}

/* No good dump for so long that the kernel's table proves nothing any more. */
bool witness_is_blind(const struct witness *witness, int64_t now_ns);

/* One direction of a dump, sorted by client half, then server half. */
struct dump_list {
	const struct connection *list;
	size_t count;
	uint8_t *announced;	/* has it a session? */
};

/* A dump that is being looked at. */
struct dump {
	struct witness *witness;
	const struct generation *generation;
	struct dump_list inbound, outbound;
	uint32_t sequence;
	int64_t now_ns;
	const uint32_t *sockets;	/* connected unix sockets, in order (owners.c) */
	size_t socket_count;
	bool sockets_asked, sockets_read;
	bool looks_at_policy;
	bool unasked;		/* a session on a port that was not asked for */
};

/* The tuple's live connection, or NULL.  All that are its are marked as
 * announced. */
const struct connection *dump_search(struct dump_list *list,
    const struct connection *tuple, bool any_server);

/* Is the very tuple listed, alive or not? */
bool dump_shows(const struct dump_list *list, const struct connection *tuple);

/* A session of an outbound connection: moved to the class that it belongs to by
 * now, or ended. */
void outbound_look_at(struct dump *dump, uint32_t slot,
    const struct session *session);

/* Counts the live outbound connections that have no session yet. */
void outbound_look_at_new(struct dump *dump);

/* Ends the session unless one exact lookup shows that it lives. */
void outbound_missing(struct witness *witness, uint32_t slot,
    const struct session *session, int64_t now_ns);

/* Calls `each` for every session, read without locks but whole. */
void witness_each_session(struct witness *witness,
    void (*each)(void *context, uint32_t slot, const struct session *session),
    void *context);

/* `proof` of the session's listener; outbound ones have none: PROOF_AUTO. */
uint8_t proof_setting(const struct generation *generation,
    const struct session *session);

/* Is the kernel's table asked about this session at all? */
bool proof_applies(const struct generation *generation,
    const struct session *session);

/* The tuple by which the kernel knows the session; the server half as far as it
 * is known. */
void proof_tuple(const struct session *session, struct connection *tuple);

/* A dump shows the session's connection alive. */
void proof_shown(struct witness *witness, const struct generation *generation,
    uint32_t slot, const struct session *session,
    const struct connection *connection, int64_t now_ns);

/* A dump that began after the session was opened does not show it alive. */
void proof_missing(struct witness *witness, const struct generation *generation,
    uint32_t slot, const struct session *session, int64_t now_ns);

/* The kernel announced the end of the session's connection. */
void proof_destroyed(struct witness *witness, const struct generation *generation,
    const struct session_ref *ref, const struct session *session,
    const struct connection *connection, int64_t now_ns);

/* Since when to take a connection as known that this dump shows first: it began since the dump
 * before, which may be long ago, in an outage that is over by now. */
int64_t adoption_first_seen_ns(const struct witness *witness, int64_t now_ns);

/* An unannounced connection that is known since first_seen_ns: adopts it where
 * that is due. */
void adoption_consider(struct witness *witness,
    const struct generation *generation, const struct connection *connection,
    int64_t first_seen_ns, int64_t now_ns);

/*
 * Proxies, as their connections show them.  HAProxy's protocol gives a session the client's
 * address, and the kernel's table shows the proxy's: a connection that nobody announces,
 * however long it lasts.  Such ones are not adopted: their sessions are counted already.
 * Up to SEGMENT_CARRIERS pairs of address and service port; the one seen longest ago makes
 * room.  The keeper's one thread.
 */

/* A live connection without a session, known since first_seen_ns. */
void carriers_note(struct witness *witness, const struct generation *generation,
    const struct connection *connection, int64_t first_seen_ns, int64_t now_ns);

/* An inbound session that a dump did not show. */
void carriers_look(struct witness *witness, const struct session *session, int64_t now_ns);

/* Connections of this address to this port are announced after all. */
void carriers_forget(struct witness *witness, const struct address *address,
    uint16_t port);

bool carriers_have(const struct witness *witness, const struct address *address,
    uint16_t port);

/*
 * The mail server's own end of a policy or milter connection, by which the end of a
 * session is seen though the role that it was told to is gone.  The server's process keeps
 * that end for as long as the session lasts; a milter's is closed with the session, a
 * policy check's as soon as the process is idle and finds our end closed, or when it asks
 * again.
 */

/* Closer together, two looks at a policy connection count as one: a process that asks again
 * closes the one just before it opens the other. */
#define OWNERS_APART_NS	(200 * NS_PER_MS)

/* Once in each dump, before its sessions. */
void owners_begin(struct dump *dump);

/* A session that a role held which is gone: ended, where the server's end of its connection
 * is gone too.  `is_shown`: the dump has its connection, and so the kernel tells its end.
 * True: it was ended. */
bool owners_look(struct dump *dump, uint32_t slot, const struct session *session,
    bool is_shown);

/* Does the server's end of a connection speak for the session, and can it be seen? */
bool owners_see(const struct witness *witness, const struct session *session,
    int64_t now_ns);

/* Is it time for the second look at a policy connection that was gone at the first? */
bool owners_want_look(const struct witness *witness, int64_t now_ns);

/*
 * Live connections that no front end has asked about, and since when each is
 * known: what adoption is decided from.  Bounded; of one keeper's life.
 */

struct unannounced;

/* Room for `capacity` connections; NULL: no memory. */
struct unannounced *unannounced_open(size_t capacity,
    const struct siphash_key *key);
void unannounced_close(struct unannounced **unannounced);

/* A dump begins to be looked at: what it does not show will be forgotten. */
void unannounced_begin(struct unannounced *unannounced);

/* The dump shows this one.  Returns when a dump first did, or INT64_MAX when
 * there is no room to remember it. */
int64_t unannounced_note(struct unannounced *unannounced,
    const struct connection *connection, int64_t now_ns);

/* It has ended: the next one from its port is another. */
void unannounced_forget(struct unannounced *unannounced, const struct connection *connection);

#endif

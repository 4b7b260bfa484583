/* SPDX-License-Identifier: ISC */
/*
 * NETLINK_SOCK_DIAG, sans I/O: questions to the kernel's table of TCP connections
 * and to that of unix sockets, and what it answers (sock_diag(7)).  v4-mapped addresses are
 * folded (policy/limit/address.h keeps IPv4 so).
 */
#ifndef WIRE_INET_DIAG_H
#define WIRE_INET_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/limit/address.h"

/* In one dump. */
#define INET_DIAG_PORTS_AT_MOST		320	/* local */
#define INET_DIAG_REMOTE_AT_MOST	64
/* Large enough for every request, and for the largest datagram that the kernel
 * sends in answer. */
#define INET_DIAG_REQUEST_BYTES	8192
#define INET_DIAG_REPLY_BYTES	65536

/* One end each: `local` is this host's. */
struct inet_diag_ends {
	struct address local;
	struct address remote;
	uint16_t local_port;
	uint16_t remote_port;
	uint32_t interface;	/* that the socket is bound to; 0: none */
};

/* Requests: written to `out`, aligned for netlink, of INET_DIAG_REQUEST_BYTES;
 * the length is returned.  Dumps list connections of both families in the
 * states that a live session can have, whoever holds them. */

/* Ports to choose by; those beyond the bounds above are left out. */
struct inet_diag_ports {
	const uint16_t *local;
	size_t local_count;
	const uint16_t *remote;
	size_t remote_count;
};

/* Those with one of the local or one of the remote ports (no ports at all: an
 * empty list).  The kernel chooses: what is told is in proportion to those
 * connections, the choosing to all sockets and to the size of its hash table. */
size_t inet_diag_dump(void *out, uint32_t sequence,
    const struct inet_diag_ports *ports);

/* Those whose remote port is this. */
size_t inet_diag_dump_remote(void *out, uint32_t sequence, uint16_t port);

/* The one with these ends.  For ends that it does not know, the kernel may
 * answer with the socket that listens there: inet_diag_same tells. */
size_t inet_diag_lookup(void *out, uint32_t sequence,
    const struct inet_diag_ends *ends);

/* Of the unix sockets that are connected, or were until the other end was closed: their
 * inodes. */
size_t inet_diag_dump_unix(void *out, uint32_t sequence);

/* The unix socket of this inode, and that at its other end. */
size_t inet_diag_lookup_unix(void *out, uint32_t sequence, uint32_t inode);

enum inet_diag_kind {
	INET_DIAG_REPLY_SOCKET,		/* part of a dump, or the answer to a lookup */
	INET_DIAG_REPLY_UNIX,		/* the same, of unix sockets */
	INET_DIAG_REPLY_DONE,		/* end of a dump */
	INET_DIAG_REPLY_ERROR,		/* `error` is an errno; 0: acknowledged */
	INET_DIAG_REPLY_OVERRUN,	/* messages were lost */
	INET_DIAG_REPLY_OTHER,		/* none of ours */
};

struct inet_diag_reply {
	enum inet_diag_kind kind;
	uint32_t sequence;		/* of the request; 0: an announced end */
	int error;
	bool interrupted;		/* the dump is not of one piece: ask again */
	struct inet_diag_ends ends;	/* SOCKET: what the kernel told; unknown
					 * parts are zero */
	uint32_t uid;	/* SOCKET: of its owner, as our user namespace knows him */
	uint32_t inode, peer_inode;	/* UNIX; peer 0: not asked for, or closed */
	bool alive;	/* SOCKET: some process holds it, and it is neither
			 * listening, half open nor closed */
};

/* The message at *offset of a datagram; moves *offset on.  1: *reply is filled;
 * 0: there are no more; -1: malformed. */
int inet_diag_next(const void *data, size_t length, size_t *offset,
    struct inet_diag_reply *reply);

/* Are these the same two ends?  (the interface does not matter) */
bool inet_diag_same(const struct inet_diag_ends *a, const struct inet_diag_ends *b);

#endif

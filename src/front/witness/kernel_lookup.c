/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Does one connection, or one unix socket, live?
 * MODEL    One exact question to each namespace; where halves are unknown, a walk
 *          of the kernel's whole table, of which a share of the time bounds how
 *          many there are.
 * ERRORS   A lookup that fails is "unknown".
 * THREADS  One.
 * BUGS     A lookup finds a socket bound to an interface (VRF, link-local IPv6)
 *          only when told which: those that dumps have shown are tried.
 */
#include "front/witness/kernel_table_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

#define LOOKUP_LIMIT_NS	(200 * NS_PER_MS)
/* Walks of the kernel's whole table for one connection: their share of the time,
 * and what may be spent on a burst of them. */
#define WALK_SHARE	20

/* A kernel that does not answer costs one wait a second, not one a lookup. */
static bool ask_lookup(struct kernel_table *table, int fd, size_t length,
    enum request request, struct inet_diag_reply *answer) {
	int64_t now_ns = clock_now_ns();

	if (now_ns < table->silent_until_ns) {
		errno = ETIMEDOUT;
		return false;
	}
	if (kernel_table_ask(table, fd, length, request,
		now_ns + LOOKUP_LIMIT_NS, answer))
		return true;
	if (errno == ETIMEDOUT)
		table->silent_until_ns = now_ns + NS_PER_SECOND;
	return false;
}

static enum lookup_result lookup_exact(struct kernel_table *table, int fd,
    const struct connection *which, uint32_t interface, struct connection *found) {
	struct inet_diag_ends ends = {
		.local = which->outbound ? which->client : which->server,
		.local_port = which->outbound ? which->client_port
					      : which->server_port,
		.remote = which->outbound ? which->server : which->client,
		.remote_port = which->outbound ? which->server_port
					       : which->client_port,
		.interface = interface };
	struct inet_diag_reply answer;
	size_t length = inet_diag_lookup(table->request, kernel_table_sequence(table),
	    &ends);

	if (!ask_lookup(table, fd, length, ASK_ONE, &answer))
		return errno == ENOENT ? LOOKUP_GONE : LOOKUP_UNKNOWN;
	if (answer.kind != INET_DIAG_REPLY_SOCKET)
		return LOOKUP_UNKNOWN;
	/* for a tuple that is gone the kernel shows who listens there */
	if (!answer.alive || !inet_diag_same(&answer.ends, &ends))
		return LOOKUP_GONE;
	if (found != NULL) {
		*found = *which;
		found->alive = true;
		found->uid = answer.uid;
	}
	return LOOKUP_ALIVE;
}

static bool fits(const struct connection *there, const struct connection *which) {
	return there->alive && there->client_port == which->client_port &&
	    address_equal(&there->client, &which->client) &&
	    (which->server_port == 0 ||
		there->server_port == which->server_port) &&
	    (address_is_unknown(&which->server) ||
		address_equal(&there->server, &which->server));
}

static bool may_walk(struct kernel_table *table) {
	int64_t now_ns = clock_now_ns();

	table->walk_credit_ns += (now_ns - table->walk_credit_at_ns) / WALK_SHARE;
	table->walk_credit_at_ns = now_ns;
	if (table->walk_credit_ns > KERNEL_WALK_BURST_NS)
		table->walk_credit_ns = KERNEL_WALK_BURST_NS;
	return table->walk_credit_ns > 0;
}

static bool table_walk(struct kernel_table *table, int fd,
    const struct connection *which) {
	int64_t began_ns = clock_thread_cpu_ns();
	struct inet_diag_reply answer;
	size_t length = inet_diag_dump_remote(table->request,
	    kernel_table_sequence(table), which->outbound ? which->server_port
						  : which->client_port);
	bool done = ask_lookup(table, fd, length, which->outbound ?
	    ASK_WALK_OUTBOUND : ASK_WALK_INBOUND, &answer);

	table->walk_credit_ns -= clock_thread_cpu_ns() - began_ns;
	return done;
}

/* Every connection of this remote port is looked at: dear, but it finds those
 * of which the server half or the interface is not known. */
static enum lookup_result lookup_by_client(struct kernel_table *table, int fd,
    const struct connection *which, struct connection *found) {
	struct connection *list = table->list;
	size_t count = table->list_count, size = table->list_size;
	enum lookup_result result = LOOKUP_UNKNOWN;

	if (!may_walk(table))
		return LOOKUP_UNKNOWN;
	/* the list of the last dump is in the caller's hands */
	table->list = NULL;
	table->list_count = table->list_size = 0;
	if (table_walk(table, fd, which)) {
		result = LOOKUP_GONE;
		for (size_t i = 0; i < table->list_count; i++) {
			if (!fits(&table->list[i], which))
				continue;
			result = LOOKUP_ALIVE;
			if (found != NULL)
				*found = table->list[i];
		}
	}
	free(table->list);
	table->list = list;
	table->list_count = count;
	table->list_size = size;
	return result;
}

static enum lookup_result lookup_in(struct kernel_table *table, int fd,
    const struct connection *which, struct connection *found) {
	const struct address *remote = which->outbound ? &which->server
						       : &which->client;
	bool link_local = remote->bytes[0] == 0xfe &&
	    (remote->bytes[1] & 0xc0) == 0x80;
	enum lookup_result result;

	if (which->server_port == 0 || address_is_unknown(&which->server) ||
	    link_local || table->many_interfaces)
		return lookup_by_client(table, fd, which, found);
	result = lookup_exact(table, fd, which, 0, found);
	for (unsigned i = 0; i < table->interface_count &&
	     result == LOOKUP_GONE; i++)
		result = lookup_exact(table, fd, which, table->interfaces[i],
		    found);
	return result;
}

enum lookup_result kernel_table_lookup(void *context,
    const struct connection *which, struct connection *found) {
	struct kernel_table *table = context;
	enum lookup_result result = LOOKUP_GONE;

	if (table->count == 0)
		return LOOKUP_UNKNOWN;
	for (unsigned i = 0; i < table->count; i++) {
		enum lookup_result here = lookup_in(table, table->fds[i], which,
		    found);

		if (here == LOOKUP_ALIVE)
			return here;
		if (here == LOOKUP_UNKNOWN)
			result = here;
	}
	return result;
}

enum lookup_result kernel_table_socket(void *context, uint32_t inode, uint32_t *peer) {
	struct kernel_table *table = context;
	enum lookup_result result = LOOKUP_GONE;

	for (unsigned i = 0; i < table->count; i++) {
		struct inet_diag_reply answer;
		size_t length = inet_diag_lookup_unix(table->request,
		    kernel_table_sequence(table), inode);

		if (ask_lookup(table, table->fds[i], length, ASK_ONE, &answer)) {
			if (answer.kind == INET_DIAG_REPLY_UNIX) {
				*peer = answer.peer_inode;
				return LOOKUP_ALIVE;
			}
			result = LOOKUP_UNKNOWN;
		} else if (errno != ENOENT) {
			result = LOOKUP_UNKNOWN;
		}
	}
	return table->count > 0 ? result : LOOKUP_UNKNOWN;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Dumps and announcements over one netlink socket a namespace.
 * MODEL    Answers and announcements arrive on the same socket: answers carry
 *          their request's sequence number, announcements 0.  Whatever is read
 *          while an answer is waited for goes into a bounded queue; when that or
 *          the socket's own overflows, ends were lost and a dump must tell.
 *          Which connections are inbound and which outbound is told by the ports
 *          of the last dump.
 * ERRORS   A dump that fails is none.
 * THREADS  One.
 */
#include "front/witness/kernel_table_internal.h"

#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"

#define DUMP_LIMIT_NS	NS_PER_SECOND
#define STRANGERS_MAX	64		/* ends of other ports, after each dump */

int kernel_table_open(struct kernel_table **result, const int *fds,
    unsigned count, struct diag *diag) {
	struct kernel_table *table = calloc(1, sizeof(*table));

	*result = NULL;
	if (table == NULL)
		return diag_set(diag, 0, "no memory to read connections");
	MUST(count <= SOURCES_MAX);
	table->count = count;
	table->strangers_left = STRANGERS_MAX;
	table->walk_credit_ns = KERNEL_WALK_BURST_NS;
	table->walk_credit_at_ns = clock_now_ns();
	for (unsigned i = 0; i < count; i++)
		table->fds[i] = fds[i];
	*result = table;
	return 0;
}

void kernel_table_close(struct kernel_table **table) {
	if (*table == NULL)
		return;
	for (unsigned i = 0; i < (*table)->count; i++)
		close((*table)->fds[i]);
	free((*table)->list);
	free((*table)->sockets);
	free(*table);
	*table = NULL;
}

/* --- inbound and outbound ----------------------------------------------- */

static void port_set_fill(uint8_t *set, const uint16_t *ports, size_t count) {
	memset(set, 0, PORT_SET_BYTES);
	for (size_t i = 0; i < count; i++)
		set[ports[i] / 8] |= (uint8_t)(1u << (ports[i] % 8));
}

static bool port_set_has(const uint8_t *set, uint16_t port) {
	return (set[port / 8] >> (port % 8) & 1) != 0;
}

enum way { WAY_INBOUND, WAY_OUTBOUND, WAY_NEITHER };

/* A local service port is ours whatever the remote one is. */
static enum way way_of(const struct kernel_table *table,
    const struct inet_diag_ends *ends) {
	if (port_set_has(table->local_ports, ends->local_port))
		return WAY_INBOUND;
	if (table->asks_remote &&
	    port_set_has(table->remote_ports, ends->remote_port))
		return WAY_OUTBOUND;
	return WAY_NEITHER;
}

static void to_connection(const struct inet_diag_reply *reply, bool outbound,
    struct connection *connection) {
	const struct inet_diag_ends *ends = &reply->ends;

	*connection = (struct connection){
		.client = outbound ? ends->local : ends->remote,
		.client_port = outbound ? ends->local_port : ends->remote_port,
		.server = outbound ? ends->remote : ends->local,
		.server_port = outbound ? ends->remote_port : ends->local_port,
		.alive = reply->alive, .outbound = outbound,
		.uid = reply->uid };
}

/* --- announcements ------------------------------------------------------ */

/* May it be the end of a session?  Sockets that never were connected have no
 * local port or lack the remote half on a port that is not served. */
static bool is_wanted(struct kernel_table *table,
    const struct inet_diag_reply *reply, enum way way) {
	if (way != WAY_NEITHER)
		return reply->ends.local_port != 0;
	if (reply->ends.local_port == 0 || reply->ends.remote_port == 0 ||
	    table->strangers_left == 0)
		return false;
	table->strangers_left--;
	return true;
}

static void put_end(struct kernel_table *table,
    const struct inet_diag_reply *reply) {
	enum way way = way_of(table, &reply->ends);

	if (!is_wanted(table, reply, way))
		return;
	if (table->end_count == ENDS_MAX) {
		table->lost = true;
		return;
	}
	to_connection(reply, way == WAY_OUTBOUND, &table->ends[
	    (table->end_first + table->end_count) % ENDS_MAX]);
	table->end_count++;
}

bool kernel_table_next_end(struct kernel_table *table, struct connection *which) {
	if (table->end_count == 0)
		return false;
	*which = table->ends[table->end_first];
	table->end_first = (table->end_first + 1) % ENDS_MAX;
	table->end_count--;
	return true;
}

bool kernel_table_lost(struct kernel_table *table) {
	bool lost = table->lost;

	table->lost = false;
	return lost;
}

/* --- reading ------------------------------------------------------------ */

/* The next datagram of the kernel: its length, 0 when there is none until the
 * deadline (0: do not wait), -1 with errno. */
static ssize_t netlink_receive(struct kernel_table *table, int fd, int64_t deadline_ns) {
	for (;;) {
		struct sockaddr_nl from = { 0 };
		socklen_t from_length = sizeof(from);
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		ssize_t length = recvfrom(fd, table->reply, sizeof(table->reply),
		    MSG_DONTWAIT, (struct sockaddr *)&from, &from_length);
		int64_t left_ns;

		if (length > 0 && from.nl_pid == 0)
			return length;
		if (length >= 0 || errno == EINTR)
			continue;
		if (errno == ENOBUFS) {
			table->lost = true;
			continue;
		}
		if (errno != EAGAIN)
			return -1;
		left_ns = deadline_ns == 0 ? 0 : deadline_ns - clock_now_ns();
		if (left_ns <= 0)
			return 0;
		if (poll(&ready, 1, (int)(left_ns / NS_PER_MS) + 1) < 0 &&
		    errno != EINTR)
			return -1;
	}
}

static void remember_interface(struct kernel_table *table, uint32_t interface) {
	for (unsigned i = 0; i < table->interface_count; i++) {
		if (table->interfaces[i] == interface)
			return;
	}
	if (table->interface_count < INTERFACES_MAX)
		table->interfaces[table->interface_count++] = interface;
	else
		table->many_interfaces = true;
}

static bool put_connection(struct kernel_table *table,
    const struct inet_diag_reply *reply, bool outbound) {
	if (!array_grow(&table->list, &table->list_size, table->list_count,
		sizeof(*table->list)))
		return false;
	to_connection(reply, outbound, &table->list[table->list_count++]);
	return true;
}

static bool put_socket(struct kernel_table *table, uint32_t inode) {
	if (!array_grow(&table->sockets, &table->socket_size, table->socket_count,
		sizeof(*table->sockets)))
		return false;
	table->sockets[table->socket_count++] = inode;
	return true;
}

enum progress { GOES_ON, COMPLETE, BROKEN };

/* False: no memory. */
static bool take_socket(struct kernel_table *table, enum request request,
    const struct inet_diag_reply *reply) {
	enum way way;

	if (reply->kind == INET_DIAG_REPLY_UNIX)
		return put_socket(table, reply->inode);
	way = request == ASK_WALK_INBOUND ? WAY_INBOUND :
	    request == ASK_WALK_OUTBOUND ? WAY_OUTBOUND :
	    way_of(table, &reply->ends);

	return way == WAY_NEITHER ||
	    put_connection(table, reply, way == WAY_OUTBOUND);
}

/* One datagram, as the answer to request `sequence` (0: to none) and for the
 * announcements in it.  Connections are added to the list; *reply is the last
 * message that answered.  BROKEN: errno tells. */
static enum progress take_in(struct kernel_table *table, size_t length,
    uint32_t sequence, enum request request, struct inet_diag_reply *answer) {
	struct inet_diag_reply reply;
	enum progress progress = GOES_ON;
	size_t offset = 0;
	int more;

	while ((more = inet_diag_next(table->reply, length, &offset, &reply)) > 0) {
		if (reply.kind == INET_DIAG_REPLY_OVERRUN)
			table->lost = true;
		if (reply.kind == INET_DIAG_REPLY_SOCKET && reply.sequence == 0)
			put_end(table, &reply);
		if (sequence == 0 || reply.sequence != sequence ||
		    progress == BROKEN)
			continue;
		*answer = reply;
		if (reply.ends.interface != 0)
			remember_interface(table, reply.ends.interface);
		if (reply.interrupted || reply.error != 0) {
			errno = reply.error != 0 ? reply.error : EAGAIN;
			progress = BROKEN;
		} else if ((reply.kind == INET_DIAG_REPLY_SOCKET ||
			reply.kind == INET_DIAG_REPLY_UNIX) && request != ASK_ONE) {
			if (!take_socket(table, request, &reply)) {
				errno = ENOMEM;
				progress = BROKEN;
			}
		} else {
			progress = COMPLETE;
		}
	}
	if (more < 0) {
		errno = EBADMSG;
		progress = BROKEN;
	}
	return progress;
}

void kernel_table_read(struct kernel_table *table, int fd) {
	struct inet_diag_reply ignored;
	ssize_t length;

	while (table->end_count < ENDS_MAX / 2 &&
	    (length = netlink_receive(table, fd, 0)) > 0)
		(void)take_in(table, (size_t)length, 0, ASK_NOTHING, &ignored);
}

uint32_t kernel_table_sequence(struct kernel_table *table) {
	if (++table->sequence == 0)
		table->sequence = 1;
	return table->sequence;
}

bool kernel_table_ask(struct kernel_table *table, int fd,
    size_t request_length, enum request request, int64_t deadline_ns,
    struct inet_diag_reply *answer) {
	uint32_t sequence = table->sequence;

	/* a netlink socket that is not connected sends to the kernel */
	while (send(fd, table->request, request_length, 0) < 0) {
		if (errno != EINTR)
			return false;
	}
	for (;;) {
		ssize_t length = netlink_receive(table, fd, deadline_ns);
		enum progress progress;

		if (length <= 0) {
			if (length == 0)
				errno = ETIMEDOUT;
			return false;
		}
		progress = take_in(table, (size_t)length, sequence, request,
		    answer);
		if (progress != GOES_ON)
			return progress == COMPLETE;
	}
}

/* --- questions ---------------------------------------------------------- */

int kernel_table_dump(struct kernel_table *table,
    const struct inet_diag_ports *ports, struct connection **list,
    size_t *count, struct diag *diag) {
	int64_t deadline_ns = clock_now_ns() + DUMP_LIMIT_NS;
	struct inet_diag_reply answer;

	table->list_count = 0;
	table->strangers_left = STRANGERS_MAX;
	table->asks_remote = ports->remote_count > 0;
	port_set_fill(table->local_ports, ports->local, ports->local_count);
	port_set_fill(table->remote_ports, ports->remote, ports->remote_count);
	if (table->count == 0)
		return diag_set(diag, 0, "no netlink socket");
	for (unsigned i = 0; i < table->count; i++) {
		size_t length = inet_diag_dump(table->request,
		    kernel_table_sequence(table), ports);

		if (!kernel_table_ask(table, table->fds[i], length, ASK_DUMP, deadline_ns,
			&answer))
			return diag_set(diag, errno,
			    "the connections of namespace %u cannot be read", i);
	}
	*list = table->list;
	*count = table->list_count;
	return 0;
}

static int compare_inodes(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

bool kernel_table_sockets(void *context, const uint32_t **list, size_t *count) {
	int64_t deadline_ns = clock_now_ns() + DUMP_LIMIT_NS;
	struct kernel_table *table = context;
	struct inet_diag_reply answer;

	table->socket_count = 0;
	for (unsigned i = 0; i < table->count; i++) {
		size_t length = inet_diag_dump_unix(table->request,
		    kernel_table_sequence(table));

		if (!kernel_table_ask(table, table->fds[i], length, ASK_DUMP_UNIX,
			deadline_ns, &answer))
			return false;
	}
	if (table->socket_count > 0)
		qsort(table->sockets, table->socket_count, sizeof(*table->sockets),
		    compare_inodes);
	*list = table->sockets;
	*count = table->socket_count;
	return table->count > 0;
}

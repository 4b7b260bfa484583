/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Dumps, lookups and announcements over one netlink socket a namespace.
 * MODEL    Answers and announcements arrive on the same socket: answers carry
 *          their request's sequence number, announcements 0.  Whatever is read
 *          while an answer is waited for goes into a bounded queue; when that or
 *          the socket's own overflows, ends were lost and a dump must tell.
 * ERRORS   A lookup that fails is "unknown", a dump that fails is none.
 * THREADS  One.
 * BUGS     A lookup finds a socket bound to an interface (VRF, link-local IPv6)
 *          only when told which: those that dumps have shown are tried.
 */
#include "front/kernel_table.h"

#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/inet_diag.h"

#define SOURCES_MAX	16
#define LOOKUP_LIMIT_NS	(200 * NS_PER_MS)
#define DUMP_LIMIT_NS	NS_PER_SECOND
#define ENDS_MAX	8192		/* announcements that wait */
#define INTERFACES_MAX	8

struct kernel_table {
	int fds[SOURCES_MAX];
	unsigned count;
	uint32_t sequence;		/* of the last request; never 0 */
	bool lost;
	int64_t silent_until_ns;	/* a lookup was not answered: none till then */
	bool many_interfaces;		/* more than can be remembered */
	uint32_t interfaces[INTERFACES_MAX];
	unsigned interface_count;
	struct connection *list;
	size_t list_count;
	size_t list_size;
	struct connection ends[ENDS_MAX];
	size_t end_first;
	size_t end_count;
	_Alignas(8) char request[INET_DIAG_REQUEST_BYTES];
	_Alignas(8) char reply[INET_DIAG_REPLY_BYTES];
};

int kernel_table_open(struct kernel_table **result, const int *fds,
    unsigned count, struct diag *diag) {
	struct kernel_table *table = calloc(1, sizeof(*table));

	*result = NULL;
	if (table == NULL)
		return diag_set(diag, 0, "no memory to read connections");
	MUST(count <= SOURCES_MAX);
	table->count = count;
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
	free(*table);
	*table = NULL;
}

/* --- announcements ------------------------------------------------------ */

static void to_connection(const struct inet_diag_reply *reply,
    struct connection *connection) {
	*connection = (struct connection){
		.client = reply->ends.remote, .client_port = reply->ends.remote_port,
		.server = reply->ends.local, .server_port = reply->ends.local_port,
		.alive = reply->alive };
}

static void put_end(struct kernel_table *table,
    const struct inet_diag_reply *reply) {
	if (table->end_count == ENDS_MAX) {
		table->lost = true;
		return;
	}
	to_connection(reply, &table->ends[
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
static ssize_t receive(struct kernel_table *table, int fd, int64_t deadline_ns) {
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
    const struct inet_diag_reply *reply) {
	if (table->list_count == table->list_size) {
		size_t size = table->list_size == 0 ? 256 : 2 * table->list_size;
		struct connection *larger = realloc(table->list,
		    size * sizeof(*larger));

		if (larger == NULL)
			return false;
		table->list = larger;
		table->list_size = size;
	}
	to_connection(reply, &table->list[table->list_count++]);
	return true;
}

enum progress { GOES_ON, COMPLETE, BROKEN };

/* One datagram, as the answer to request `sequence` (0: to none) and for the
 * announcements in it.  Connections are added to the list; *reply is the last
 * message that answered.  BROKEN: errno tells. */
static enum progress take_in(struct kernel_table *table, size_t length,
    uint32_t sequence, bool dump, struct inet_diag_reply *answer) {
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
		} else if (reply.kind == INET_DIAG_REPLY_SOCKET && dump) {
			if (!put_connection(table, &reply)) {
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
	    (length = receive(table, fd, 0)) > 0)
		(void)take_in(table, (size_t)length, 0, false, &ignored);
}

static uint32_t next_sequence(struct kernel_table *table) {
	if (++table->sequence == 0)
		table->sequence = 1;
	return table->sequence;
}

/* Sends the request and reads until it is answered.  False: errno tells. */
static bool ask(struct kernel_table *table, int fd, size_t request_length,
    bool dump, int64_t deadline_ns, struct inet_diag_reply *answer) {
	uint32_t sequence = table->sequence;

	/* a netlink socket that is not connected sends to the kernel */
	while (send(fd, table->request, request_length, 0) < 0) {
		if (errno != EINTR)
			return false;
	}
	for (;;) {
		ssize_t length = receive(table, fd, deadline_ns);
		enum progress progress;

		if (length <= 0) {
			if (length == 0)
				errno = ETIMEDOUT;
			return false;
		}
		progress = take_in(table, (size_t)length, sequence, dump, answer);
		if (progress != GOES_ON)
			return progress == COMPLETE;
	}
}

/* --- questions ---------------------------------------------------------- */

int kernel_table_dump(struct kernel_table *table, const uint16_t *ports,
    size_t port_count, struct connection **list, size_t *count,
    struct diag *diag) {
	int64_t deadline_ns = clock_now_ns() + DUMP_LIMIT_NS;
	struct inet_diag_reply answer;

	table->list_count = 0;
	if (table->count == 0)
		return diag_set(diag, 0, "no netlink socket");
	for (unsigned i = 0; i < table->count; i++) {
		size_t length = inet_diag_dump_local(table->request,
		    next_sequence(table), ports, port_count);

		if (!ask(table, table->fds[i], length, true, deadline_ns,
			&answer))
			return diag_set(diag, errno,
			    "the connections of namespace %u cannot be read", i);
	}
	*list = table->list;
	*count = table->list_count;
	return 0;
}

/* A kernel that does not answer costs one wait a second, not one a lookup. */
static bool ask_lookup(struct kernel_table *table, int fd, size_t length,
    bool dump, struct inet_diag_reply *answer) {
	int64_t now_ns = clock_now_ns();

	if (now_ns < table->silent_until_ns) {
		errno = ETIMEDOUT;
		return false;
	}
	if (ask(table, fd, length, dump, now_ns + LOOKUP_LIMIT_NS, answer))
		return true;
	if (errno == ETIMEDOUT)
		table->silent_until_ns = now_ns + NS_PER_SECOND;
	return false;
}

static enum lookup_result lookup_exact(struct kernel_table *table, int fd,
    const struct connection *which, uint32_t interface) {
	struct inet_diag_ends ends = {
		.local = which->server, .local_port = which->server_port,
		.remote = which->client, .remote_port = which->client_port,
		.interface = interface };
	struct inet_diag_reply answer;
	size_t length = inet_diag_lookup(table->request, next_sequence(table),
	    &ends);

	if (!ask_lookup(table, fd, length, false, &answer))
		return errno == ENOENT ? LOOKUP_GONE : LOOKUP_UNKNOWN;
	if (answer.kind != INET_DIAG_REPLY_SOCKET)
		return LOOKUP_UNKNOWN;
	/* for a tuple that is gone the kernel shows who listens there */
	return answer.alive && inet_diag_same(&answer.ends, &ends) ? LOOKUP_ALIVE
								   : LOOKUP_GONE;
}

static bool fits(const struct connection *there, const struct connection *which) {
	return there->alive && there->client_port == which->client_port &&
	    address_equal(&there->client, &which->client) &&
	    (which->server_port == 0 ||
		there->server_port == which->server_port) &&
	    (address_is_unknown(&which->server) ||
		address_equal(&there->server, &which->server));
}

/* Every connection of this remote port is looked at: dear, but it finds those
 * of which the server half or the interface is not known. */
static enum lookup_result lookup_by_client(struct kernel_table *table, int fd,
    const struct connection *which, struct connection *found) {
	struct inet_diag_reply answer;
	struct connection *list = table->list;
	size_t length, count = table->list_count, size = table->list_size;
	enum lookup_result result = LOOKUP_UNKNOWN;

	/* the list of the last dump is in the caller's hands */
	table->list = NULL;
	table->list_count = table->list_size = 0;
	length = inet_diag_dump_remote(table->request, next_sequence(table),
	    which->client_port);
	if (ask_lookup(table, fd, length, true, &answer)) {
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
	bool link_local = which->client.bytes[0] == 0xfe &&
	    (which->client.bytes[1] & 0xc0) == 0x80;
	enum lookup_result result;

	if (which->server_port == 0 || address_is_unknown(&which->server) ||
	    link_local || table->many_interfaces)
		return lookup_by_client(table, fd, which, found);
	result = lookup_exact(table, fd, which, 0);
	for (unsigned i = 0; i < table->interface_count &&
	     result == LOOKUP_GONE; i++)
		result = lookup_exact(table, fd, which, table->interfaces[i]);
	if (result == LOOKUP_ALIVE && found != NULL) {
		*found = *which;
		found->alive = true;
	}
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

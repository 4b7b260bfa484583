/* SPDX-License-Identifier: ISC */
/* Reading the kernel's table: against a kernel of our own at the other end of a
 * socket pair, and, where that is allowed, against the real one. */
#include "tests/unit/test.h"
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "front/witness/kernel_table.h"

static struct kernel_table *table;
static int kernel[2];			/* our ends, one for each namespace */
static int theirs[2];
static struct diag diag;
static uint16_t local_port;		/* of what our kernel tells */

static int set_up(void **state) {
	int pair[2];

	local_port = 25;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
		kernel[i] = pair[0];
		theirs[i] = pair[1];
	}
	assert_int_equal(kernel_table_open(&table, theirs, 2, &diag), 0);
	return 0;
}

static int tear_down(void **state) {
	kernel_table_close(&table);
	close(kernel[0]);
	close(kernel[1]);
	return 0;
}

/* --- what our kernel says, in the order in which requests are numbered ------ */

static void say_socket(unsigned where, uint32_t sequence, uint32_t client,
    uint16_t client_port, uint8_t tcp_state, uint32_t interface) {
	struct {
		struct nlmsghdr header;
		struct inet_diag_msg told;
	} message = { .header = { .nlmsg_len = sizeof(message),
		.nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_seq = sequence } };

	message.told.idiag_family = AF_INET;
	message.told.idiag_state = tcp_state;
	message.told.idiag_inode = tcp_state == TCP_ESTABLISHED ? 4711 : 0;
	message.told.idiag_uid = 4712;
	message.told.id.idiag_sport = htons(local_port);
	message.told.id.idiag_dport = htons(client_port);
	message.told.id.idiag_src[0] = htonl(0xc0000219);
	message.told.id.idiag_dst[0] = htonl(client);
	message.told.id.idiag_if = interface;
	assert_int_equal(send(kernel[where], &message, sizeof(message), 0),
	    sizeof(message));
}

static void say(unsigned where, uint16_t type, uint32_t sequence, int error) {
	struct {
		struct nlmsghdr header;
		int32_t error;
	} message = { .header = { .nlmsg_len = sizeof(message),
		.nlmsg_type = type, .nlmsg_seq = sequence }, .error = error };

	assert_int_equal(send(kernel[where], &message, sizeof(message), 0),
	    sizeof(message));
}

static void live(unsigned where, uint32_t sequence, uint32_t client) {
	say_socket(where, sequence, client, 1001, TCP_ESTABLISHED, 0);
}

static struct connection tuple(const char *client) {
	struct connection which = { .client_port = 1001, .server_port = 25 };

	assert_true(address_parse(client, strlen(client), &which.client));
	assert_true(address_parse("192.0.2.25", 10, &which.server));
	return which;
}

static int dump(size_t *count, struct connection **list) {
	static const uint16_t local = 25, remote[] = { 25, 10025 };
	const struct inet_diag_ports ports = { &local, 1, remote, 2 };

	return kernel_table_dump(table, &ports, list, count, &diag);
}

#define ONE	UINT32_C(0xc6336401)	/* 198.51.100.1 */
#define TWO	UINT32_C(0xc6336402)

TEST_IN(set_up, tear_down, a_dump_gathers_all_namespaces) {
	struct connection *list;
	size_t count;

	live(0, 1, ONE);
	say(0, NLMSG_DONE, 1, 0);
	live(1, 2, TWO);
	say_socket(1, 2, ONE, 1002, TCP_CLOSE_WAIT, 0);
	say(1, NLMSG_DONE, 2, 0);
	assert_int_equal(dump(&count, &list), 0);
	assert_int_equal(count, 3);
	assert_true(list[0].alive && list[1].alive && !list[2].alive);
}

/* Our own half is the client's: 192.0.2.25 port 40000. */
static struct connection outbound(const char *server, uint16_t port) {
	struct connection which = { .client_port = 40000, .server_port = port,
		.outbound = true };

	assert_true(address_parse(server, strlen(server), &which.server));
	assert_true(address_parse("192.0.2.25", 10, &which.client));
	return which;
}

TEST_IN(set_up, tear_down, a_dump_tells_inbound_from_outbound) {
	struct connection *list, wanted = outbound("198.51.100.2", 10025);
	size_t count;

	say_socket(0, 1, ONE, 25, TCP_ESTABLISHED, 0);	/* to our port from port 25 */
	local_port = 40000;
	say_socket(0, 1, TWO, 10025, TCP_ESTABLISHED, 0);
	say_socket(0, 1, TWO, 10026, TCP_ESTABLISHED, 0);	/* was not asked for */
	say(0, NLMSG_DONE, 1, 0);
	say(1, NLMSG_DONE, 2, 0);
	assert_int_equal(dump(&count, &list), 0);
	assert_int_equal(count, 2);
	assert_false(list[0].outbound);
	assert_int_equal(list[0].server_port, 25);
	assert_true(list[1].outbound && list[1].alive);
	assert_int_equal(list[1].uid, 4712);
	assert_true(address_equal(&list[1].server, &wanted.server));
	assert_true(address_equal(&list[1].client, &wanted.client));
	assert_int_equal(list[1].client_port, 40000);
	assert_int_equal(list[1].server_port, 10025);
}

TEST_IN(set_up, tear_down, an_outbound_lookup_asks_for_our_half_as_the_local_one) {
	struct connection which = outbound("198.51.100.2", 10025);
	struct inet_diag_req_v2 request;
	char asked[INET_DIAG_REQUEST_BYTES];

	local_port = 40000;
	say_socket(0, 1, TWO, 10025, TCP_ESTABLISHED, 0);
	assert_int_equal(kernel_table_lookup(table, &which, NULL), LOOKUP_ALIVE);
	assert_true(recv(kernel[0], asked, sizeof(asked), 0) >=
	    (ssize_t)(NLMSG_HDRLEN + sizeof(request)));
	memcpy(&request, asked + NLMSG_HDRLEN, sizeof(request));
	assert_int_equal(ntohs(request.id.idiag_sport), 40000);
	assert_int_equal(ntohs(request.id.idiag_dport), 10025);
	assert_int_equal(ntohl(request.id.idiag_dst[0]), TWO);
	/* an inbound one of the same halves is something else */
	which.outbound = false;
	say_socket(0, 2, TWO, 10025, TCP_ESTABLISHED, 0);
	say(1, NLMSG_ERROR, 3, -ENOENT);
	assert_int_equal(kernel_table_lookup(table, &which, NULL), LOOKUP_GONE);
}

TEST_IN(set_up, tear_down, ends_are_chosen_by_the_ports_of_the_last_dump) {
	struct connection which = tuple("198.51.100.1"), *list, ended;
	unsigned strangers = 0;
	size_t count;

	say(0, NLMSG_DONE, 1, 0);
	say(1, NLMSG_DONE, 2, 0);
	assert_int_equal(dump(&count, &list), 0);
	for (unsigned i = 0; i < 100; i++) {
		local_port = 8080;
		say_socket(0, 0, TWO, 1001, TCP_CLOSE, 0);
		say_socket(0, 0, 0, 0, TCP_CLOSE, 0);	/* never was connected */
		local_port = 0;
		say_socket(0, 0, 0, 0, TCP_CLOSE, 0);
		kernel_table_read(table, theirs[0]);
	}
	local_port = 25;
	say_socket(0, 0, 0, 0, TCP_CLOSE, 0);		/* lacks the remote half */
	local_port = 40000;
	say_socket(0, 0, TWO, 25, TCP_CLOSE, 0);
	local_port = 25;
	live(0, 3, ONE);
	assert_int_equal(kernel_table_lookup(table, &which, NULL), LOOKUP_ALIVE);
	while (kernel_table_next_end(table, &ended) && ended.server_port == 8080)
		strangers++;
	assert_in_range(strangers, 1, 64);
	assert_int_equal(ended.server_port, 25);
	assert_true(address_is_unknown(&ended.client) && !ended.outbound);
	assert_true(kernel_table_next_end(table, &ended));
	assert_true(ended.outbound);
	assert_int_equal(ended.client_port, 40000);
	assert_int_equal(ended.server_port, 25);
	assert_false(kernel_table_next_end(table, &ended));
	assert_false(kernel_table_lost(table));
}

TEST_IN(set_up, tear_down, a_dump_with_an_error_is_none) {
	struct connection *list;
	size_t count;

	live(0, 1, ONE);
	say(0, NLMSG_DONE, 1, 0);
	live(1, 2, TWO);
	say(1, NLMSG_ERROR, 2, -EPERM);
	assert_int_equal(dump(&count, &list), -1);
	assert_int_equal(diag.error, EPERM);
}

TEST_IN(set_up, tear_down, announcements_among_answers_are_kept) {
	struct connection which = tuple("198.51.100.1"), ended;

	live(0, 0, TWO);
	live(0, 77, ONE);		/* an answer to somebody long gone */
	live(0, 1, ONE);
	assert_int_equal(kernel_table_lookup(table, &which, NULL), LOOKUP_ALIVE);
	assert_true(kernel_table_next_end(table, &ended));
	which = tuple("198.51.100.2");
	assert_true(address_equal(&ended.client, &which.client));
	assert_false(kernel_table_next_end(table, &ended));
	assert_false(kernel_table_lost(table));
}

TEST_IN(set_up, tear_down, the_listener_is_no_answer) {
	struct connection which = tuple("198.51.100.1");

	say_socket(0, 1, 0, 0, TCP_LISTEN, 0);
	say(1, NLMSG_ERROR, 2, -ENOENT);
	assert_int_equal(kernel_table_lookup(table, &which, NULL), LOOKUP_GONE);
	/* nor is a connection that waits for its end */
	say_socket(0, 3, ONE, 1001, TCP_TIME_WAIT, 0);
	say(1, NLMSG_ERROR, 4, -ENOENT);
	assert_int_equal(kernel_table_lookup(table, &which, NULL), LOOKUP_GONE);
	/* one namespace may know what another does not */
	say(0, NLMSG_ERROR, 5, -ENOENT);
	live(1, 6, ONE);
	assert_int_equal(kernel_table_lookup(table, &which, NULL), LOOKUP_ALIVE);
}

TEST_IN(set_up, tear_down, an_error_is_not_gone) {
	struct connection which = tuple("198.51.100.1");

	say(0, NLMSG_ERROR, 1, -ENOENT);
	say(1, NLMSG_ERROR, 2, -EINVAL);
	assert_int_equal(kernel_table_lookup(table, &which, NULL),
	    LOOKUP_UNKNOWN);
}

TEST_IN(set_up, tear_down, a_silent_kernel_costs_one_wait) {
	struct connection which = tuple("198.51.100.1");
	int64_t began_ns = clock_now_ns();

	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(kernel_table_lookup(table, &which, NULL),
		    LOOKUP_UNKNOWN);
	assert_true(clock_now_ns() - began_ns < NS_PER_SECOND);
	assert_true(clock_now_ns() - began_ns > 150 * NS_PER_MS);
}

TEST_IN(set_up, tear_down, a_lookup_by_client_finds_the_server_half) {
	struct connection which = tuple("198.51.100.1"), found;

	memset(&which.server, 0, sizeof(which.server));
	which.server_port = 0;
	live(0, 1, TWO);
	live(0, 1, ONE);
	say(0, NLMSG_DONE, 1, 0);
	assert_int_equal(kernel_table_lookup(table, &which, &found),
	    LOOKUP_ALIVE);
	assert_int_equal(found.server_port, 25);
	assert_false(address_is_unknown(&found.server));
	live(0, 2, TWO);
	say(0, NLMSG_DONE, 2, 0);
	say(1, NLMSG_DONE, 3, 0);
	assert_int_equal(kernel_table_lookup(table, &which, &found),
	    LOOKUP_GONE);
}

TEST_IN(set_up, tear_down, a_socket_bound_to_an_interface_is_looked_up_there) {
	struct connection which = tuple("198.51.100.1"), *list;
	size_t count;

	say_socket(0, 1, ONE, 1001, TCP_ESTABLISHED, 5);
	say(0, NLMSG_DONE, 1, 0);
	say(1, NLMSG_DONE, 2, 0);
	assert_int_equal(dump(&count, &list), 0);
	say(0, NLMSG_ERROR, 3, -ENOENT);
	say_socket(0, 4, ONE, 1001, TCP_ESTABLISHED, 5);
	assert_int_equal(kernel_table_lookup(table, &which, NULL), LOOKUP_ALIVE);
}

TEST_IN(set_up, tear_down, broken_messages_are_errors) {
	struct connection which = tuple("198.51.100.1");

	assert_int_equal(send(kernel[0], "\1\0\0\0", 4, 0), 4);
	say(1, NLMSG_ERROR, 2, -ENOENT);
	assert_int_equal(kernel_table_lookup(table, &which, NULL),
	    LOOKUP_UNKNOWN);
}

TEST_IN(set_up, tear_down, lost_announcements_are_told) {
	struct connection which, *list;
	unsigned kept = 0;
	int pair[2];
	size_t count;

	kernel_table_close(&table);
	close(kernel[0]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	kernel[0] = pair[0];
	assert_int_equal(kernel_table_open(&table, &pair[1], 1, &diag), 0);
	say(0, NLMSG_DONE, 1, 0);
	assert_int_equal(dump(&count, &list), 0);
	for (unsigned i = 0; i < 100; i++) {
		live(0, 0, ONE);
		kernel_table_read(table, pair[1]);
	}
	while (kernel_table_next_end(table, &which))
		kept++;
	assert_int_equal(kept, 100);
	assert_false(kernel_table_lost(table));
	say(0, NLMSG_OVERRUN, 0, 0);
	kernel_table_read(table, pair[1]);
	assert_true(kernel_table_lost(table));
	assert_false(kernel_table_lost(table));
}

/* --- the real one ----------------------------------------------------------- */

static int open_netlink(int receive_bytes) {
	static const int groups[] = { SKNLGRP_INET_TCP_DESTROY,
		SKNLGRP_INET6_TCP_DESTROY };
	struct sockaddr_nl address = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    NETLINK_SOCK_DIAG);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
		sizeof(receive_bytes)) != 0)
		return -1;
	for (unsigned i = 0; i < 2; i++) {
		if (setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP,
			&groups[i], sizeof(groups[i])) != 0)
			return -1;
	}
	return fd;
}

/* A listener on the loopback address, IPv4 or dual-stack IPv6. */
static int listen_somewhere(int family, uint16_t *port) {
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	struct sockaddr_in four = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr *address = family == AF_INET ? (void *)&four
						     : (void *)&six;
	socklen_t length = family == AF_INET ? sizeof(four) : sizeof(six);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0;

	if (fd < 0)
		return -1;
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, address, length) != 0 || listen(fd, 16) != 0 ||
	    getsockname(fd, address, &length) != 0) {
		close(fd);
		return -1;
	}
	*port = ntohs(family == AF_INET ? four.sin_port : six.sin6_port);
	return fd;
}

static int connect_to(uint16_t port, struct connection *which) {
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&address,
	    sizeof(address)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	*which = (struct connection){ .client_port = ntohs(address.sin_port),
		.server_port = port };
	(void)address_parse("127.0.0.1", 9, &which->client);
	which->server = which->client;
	return fd;
}

static bool wait_for_end(int netlink, const struct connection *which) {
	struct pollfd ready = { .fd = netlink, .events = POLLIN };
	struct connection ended;

	while (poll(&ready, 1, 10000) > 0) {
		kernel_table_read(table, netlink);
		while (kernel_table_next_end(table, &ended)) {
			if (ended.client_port == which->client_port &&
			    ended.server_port == which->server_port &&
			    address_equal(&ended.client, &which->client))
				return true;
		}
	}
	return false;
}

static void follow_a_connection(int family) {
	int netlink = open_netlink(1 << 20), listener, client, server;
	struct connection which, half, found, *list;
	struct connection outbound;
	uint16_t port;
	struct inet_diag_ports ports = { &port, 1, NULL, 0 };
	size_t count;

	listener = listen_somewhere(family, &port);
	if (netlink < 0 || listener < 0)
		skip();
	assert_int_equal(kernel_table_open(&table, &netlink, 1, &diag), 0);
	client = connect_to(port, &which);
	/* in the backlog: nobody holds it */
	assert_int_equal(kernel_table_lookup(table, &which, NULL), LOOKUP_GONE);
	server = accept(listener, NULL, NULL);
	assert_int_equal(kernel_table_lookup(table, &which, NULL), LOOKUP_ALIVE);
	half = which;
	half.server_port = 0;
	memset(&half.server, 0, sizeof(half.server));
	assert_int_equal(kernel_table_lookup(table, &half, &found), LOOKUP_ALIVE);
	assert_int_equal(found.server_port, port);
	assert_int_equal(kernel_table_dump(table, &ports, &list, &count, &diag),
	    0);
	assert_int_equal(count, 1);
	assert_true(list[0].alive);
	assert_int_equal(list[0].uid, getuid());
	assert_true(address_equal(&list[0].client, &which.client));
	assert_true(address_equal(&list[0].server, &which.server));
	/* the same from the other side */
	ports = (struct inet_diag_ports){ NULL, 0, &port, 1 };
	assert_int_equal(kernel_table_dump(table, &ports, &list, &count, &diag),
	    0);
	assert_int_equal(count, 1);
	assert_true(list[0].alive && list[0].outbound);
	assert_true(address_equal(&list[0].client, &which.client));
	assert_int_equal(list[0].client_port, which.client_port);
	outbound = list[0];
	assert_int_equal(kernel_table_lookup(table, &outbound, NULL),
	    LOOKUP_ALIVE);
	ports = (struct inet_diag_ports){ &port, 1, NULL, 0 };
	assert_int_equal(kernel_table_dump(table, &ports, &list, &count, &diag),
	    0);
	close(client);
	close(server);
	assert_true(wait_for_end(netlink, &which));
	assert_int_equal(kernel_table_lookup(table, &outbound, NULL),
	    LOOKUP_GONE);
	assert_int_equal(kernel_table_lookup(table, &which, NULL), LOOKUP_GONE);
	assert_int_equal(kernel_table_lookup(table, &half, NULL), LOOKUP_GONE);
	kernel_table_close(&table);
	close(listener);
}

TEST(a_real_connection_is_followed) {
	follow_a_connection(AF_INET);
}

TEST(an_ipv4_client_of_an_ipv6_socket_is_followed) {
	follow_a_connection(AF_INET6);
}

TEST(a_flood_of_ends_is_noticed_as_lost) {
	int netlink = open_netlink(2048), listener;
	struct connection which;
	uint16_t port;

	listener = listen_somewhere(AF_INET, &port);
	if (netlink < 0 || listener < 0)
		skip();
	assert_int_equal(kernel_table_open(&table, &netlink, 1, &diag), 0);
	for (unsigned i = 0; i < 200; i++) {
		int client = connect_to(port, &which);
		int server = accept(listener, NULL, NULL);

		close(client);
		close(server);
	}
	kernel_table_read(table, netlink);
	for (unsigned i = 0; i < 1000 && !kernel_table_lost(table); i++) {
		poll(NULL, 0, 10);
		kernel_table_read(table, netlink);
		if (i == 999)
			fail_msg("nothing was lost");
	}
	/* and lookups go on */
	assert_int_equal(kernel_table_lookup(table, &which, NULL), LOOKUP_GONE);
	kernel_table_close(&table);
	close(listener);
}

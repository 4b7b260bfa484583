/* SPDX-License-Identifier: ISC */
/* inet_diag: requests as the kernel takes them (its bytecode is run here as the
 * kernel runs it), replies recorded from a kernel, and broken ones. */
#include "tests/unit/test.h"
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "wire/link/inet_diag.h"

static _Alignas(8) char buffer[INET_DIAG_REQUEST_BYTES];

static struct address address(const char *text) {
	struct address result;

	assert_true(address_parse(text, strlen(text), &result));
	return result;
}

/* What the kernel does with the program of a dump (net/ipv4/inet_diag.c). */
static bool kernel_takes(uint16_t local, uint16_t remote) {
	const struct nlmsghdr *header = (const void *)buffer;
	const struct rtattr *attribute = (const void *)(buffer + NLMSG_HDRLEN +
	    sizeof(struct inet_diag_req));
	const struct inet_diag_bc_op *at = RTA_DATA(attribute);
	int left = (int)RTA_PAYLOAD(attribute);

	assert_int_equal(attribute->rta_type, INET_DIAG_REQ_BYTECODE);
	assert_int_equal(header->nlmsg_len, NLMSG_HDRLEN +
	    sizeof(struct inet_diag_req) + attribute->rta_len);
	while (left > 0) {
		bool yes = false;
		int step;

		switch (at->code) {
		case INET_DIAG_BC_S_GE:
			yes = local >= at[1].no;
			break;
		case INET_DIAG_BC_S_LE:
			yes = local <= at[1].no;
			break;
		case INET_DIAG_BC_D_GE:
			yes = remote >= at[1].no;
			break;
		case INET_DIAG_BC_D_LE:
			yes = remote <= at[1].no;
			break;
		case INET_DIAG_BC_JMP:
			break;
		default:
			fail_msg("unknown operation");
		}
		step = yes ? at->yes : at->no;
		assert_true(step >= 4 && step % 4 == 0);
		left -= step;
		at += step / 4;
	}
	assert_true(left == 0 || left == -4);
	return left == 0;
}

TEST(a_dump_takes_the_asked_ports_and_no_others) {
	static const uint16_t ports[] = { 25, 587, 465, 65535, 1 };
	const struct inet_diag_ports asked = { .local = ports, .local_count = 5 };
	const struct nlmsghdr *header = (const void *)buffer;
	const struct inet_diag_req *request = NLMSG_DATA(header);
	size_t made;

	made = inet_diag_dump(buffer, 77, &asked);
	assert_int_equal(made, header->nlmsg_len);
	assert_int_equal(header->nlmsg_seq, 77);
	assert_int_equal(header->nlmsg_flags, NLM_F_REQUEST | NLM_F_DUMP);
	assert_int_equal(request->idiag_states & (1u << TCP_LISTEN |
	    1u << TCP_TIME_WAIT | 1u << TCP_SYN_RECV), 0);
	assert_int_not_equal(request->idiag_states & 1u << TCP_ESTABLISHED, 0);
	for (uint32_t port = 0; port <= UINT16_MAX; port++)
		assert_int_equal(kernel_takes((uint16_t)port, 25), port == 25 ||
		    port == 587 || port == 465 || port == 65535 || port == 1);
}

TEST(a_dump_takes_remote_ports_too) {
	static const uint16_t local[] = { 25, 587 }, remote[] = { 25, 10024 };
	struct inet_diag_ports asked = { local, 2, remote, 2 };

	(void)inet_diag_dump(buffer, 1, &asked);
	for (uint32_t port = 0; port <= UINT16_MAX; port++) {
		bool is_local = port == 25 || port == 587;
		bool is_remote = port == 25 || port == 10024;

		assert_int_equal(kernel_takes((uint16_t)port, 40000), is_local);
		assert_int_equal(kernel_takes(40000, (uint16_t)port), is_remote);
		assert_true(kernel_takes((uint16_t)port, 10024));
		assert_true(kernel_takes(587, (uint16_t)port));
	}
	/* outbound alone */
	asked.local_count = 0;
	(void)inet_diag_dump(buffer, 1, &asked);
	assert_true(kernel_takes(40000, 25));
	assert_false(kernel_takes(25, 40000));
}

TEST(a_dump_of_no_ports_is_empty_and_one_of_many_is_bounded) {
	static uint16_t ports[2 * INET_DIAG_PORTS_AT_MOST];
	struct inet_diag_ports asked = { ports, 0, ports, 0 };

	for (size_t i = 0; i < 2 * INET_DIAG_PORTS_AT_MOST; i++)
		ports[i] = (uint16_t)(1000 + i);
	(void)inet_diag_dump(buffer, 1, &asked);
	assert_false(kernel_takes(25, 25));
	asked.local_count = asked.remote_count = 2 * INET_DIAG_PORTS_AT_MOST;
	assert_true(inet_diag_dump(buffer, 1, &asked) <= sizeof(buffer));
	assert_true(kernel_takes(1000, 1));
	assert_true(kernel_takes(999 + INET_DIAG_PORTS_AT_MOST, 1));
	assert_false(kernel_takes(1000 + INET_DIAG_PORTS_AT_MOST, 1));
	assert_false(kernel_takes(999, 1));
	assert_true(kernel_takes(1, 1000));
	assert_true(kernel_takes(1, 999 + INET_DIAG_REMOTE_AT_MOST));
	assert_false(kernel_takes(1, 1000 + INET_DIAG_REMOTE_AT_MOST));
	assert_false(kernel_takes(1, 999));
}

TEST(a_lookup_names_both_ends) {
	struct inet_diag_ends ends = { .local = address("192.0.2.25"),
		.remote = address("198.51.100.7"), .local_port = 25,
		.remote_port = 40000, .interface = 3 };
	const struct nlmsghdr *header = (const void *)buffer;
	const struct inet_diag_req_v2 *request = NLMSG_DATA(header);
	size_t made;

	made = inet_diag_lookup(buffer, 9, &ends);
	assert_int_equal(made, header->nlmsg_len);
	assert_int_equal(header->nlmsg_type, SOCK_DIAG_BY_FAMILY);
	assert_int_equal(header->nlmsg_flags, NLM_F_REQUEST);
	assert_int_equal(request->sdiag_family, AF_INET);
	assert_int_equal(ntohl(request->id.idiag_src[0]), 0xc0000219);
	assert_int_equal(ntohl(request->id.idiag_dst[0]), 0xc6336407);
	assert_int_equal(ntohs(request->id.idiag_sport), 25);
	assert_int_equal(ntohs(request->id.idiag_dport), 40000);
	assert_int_equal(request->id.idiag_if, 3);
	ends.local = address("2001:db8::25");
	ends.remote = address("2001:db8::7");
	(void)inet_diag_lookup(buffer, 9, &ends);
	assert_int_equal(request->sdiag_family, AF_INET6);
	assert_memory_equal(request->id.idiag_dst, ends.remote.bytes, 16);
}

/* --- replies ------------------------------------------------------------- */

static size_t length;

static struct inet_diag_msg *put_socket(uint32_t sequence, uint8_t family,
    uint8_t tcp_state, uint32_t inode) {
	struct nlmsghdr *header = (void *)(buffer + length);
	struct inet_diag_msg *told = NLMSG_DATA(header);

	memset(header, 0, NLMSG_SPACE(sizeof(*told)));
	header->nlmsg_len = NLMSG_LENGTH(sizeof(*told));
	header->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	header->nlmsg_seq = sequence;
	told->idiag_family = family;
	told->idiag_state = tcp_state;
	told->idiag_inode = inode;
	told->idiag_uid = 4712;
	told->id.idiag_sport = htons(25);
	told->id.idiag_dport = htons(40000);
	if (family == AF_INET) {
		told->id.idiag_src[0] = htonl(0xc0000219);
		told->id.idiag_dst[0] = htonl(0xc6336407);
	}
	length += NLMSG_SPACE(sizeof(*told));
	return told;
}

static struct inet_diag_reply next(size_t *offset) {
	struct inet_diag_reply reply;

	assert_int_equal(inet_diag_next(buffer, length, offset, &reply), 1);
	return reply;
}

TEST(alive_are_held_connections_in_six_states) {
	static const struct { uint8_t tcp_state; bool alive; } cases[] = {
		{ TCP_ESTABLISHED, true }, { TCP_CLOSE_WAIT, true },
		{ TCP_FIN_WAIT1, true }, { TCP_FIN_WAIT2, true },
		{ TCP_CLOSING, true }, { TCP_LAST_ACK, true },
		{ TCP_LISTEN, false }, { TCP_SYN_RECV, false },
		{ TCP_SYN_SENT, false }, { TCP_TIME_WAIT, false },
		{ TCP_CLOSE, false }, { 12, false }, { 200, false },
	};
	size_t offset = 0;

	length = 0;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		(void)put_socket(1, AF_INET, cases[i].tcp_state, 4711);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(next(&offset).alive, cases[i].alive);
	length = offset = 0;
	(void)put_socket(1, AF_INET, TCP_ESTABLISHED, 0);
	assert_false(next(&offset).alive);
}

TEST(mapped_addresses_are_the_same_host) {
	struct inet_diag_reply plain, mapped;
	struct inet_diag_msg *told;
	struct address client = address("198.51.100.7");
	size_t offset = 0;

	length = 0;
	(void)put_socket(1, AF_INET, TCP_ESTABLISHED, 1);
	told = put_socket(1, AF_INET6, TCP_ESTABLISHED, 1);
	memcpy(told->id.idiag_src, address("192.0.2.25").bytes, 16);
	memcpy(told->id.idiag_dst, client.bytes, 16);
	plain = next(&offset);
	assert_int_equal(plain.uid, 4712);
	mapped = next(&offset);
	assert_true(inet_diag_same(&plain.ends, &mapped.ends));
	assert_true(address_equal(&mapped.ends.remote, &client));
	assert_true(address_is_v4(&mapped.ends.remote));
	told->id.idiag_sport = htons(26);
	offset = NLMSG_SPACE(sizeof(*told));
	mapped = next(&offset);
	assert_false(inet_diag_same(&plain.ends, &mapped.ends));
}

TEST(an_end_may_lack_its_remote_half) {
	struct inet_diag_msg *told;
	struct inet_diag_reply reply;
	size_t offset = 0;

	length = 0;
	told = put_socket(0, AF_INET, TCP_CLOSE, 0);
	told->id.idiag_dport = 0;
	told->id.idiag_dst[0] = 0;
	reply = next(&offset);
	assert_int_equal(reply.kind, INET_DIAG_REPLY_SOCKET);
	assert_int_equal(reply.sequence, 0);
	assert_true(address_is_unknown(&reply.ends.remote));
	assert_int_equal(reply.ends.remote_port, 0);
	assert_int_equal(reply.ends.local_port, 25);
}

/* Two connections to port 47025 of a dual-stack listener, as Linux 6 told them
 * (the attributes behind each message included), and the end of the dump. */
static const unsigned char recorded[] = {
#include "tests/unit/front/witness/inet_diag_dump.h"
};

TEST(a_recorded_dump_is_understood) {
	struct inet_diag_reply reply;
	size_t offset = 0;

	assert_true(sizeof(recorded) <= sizeof(buffer));
	memcpy(buffer, recorded, sizeof(recorded));
	length = sizeof(recorded);
	reply = next(&offset);
	assert_int_equal(reply.kind, INET_DIAG_REPLY_SOCKET);
	assert_int_equal(reply.sequence, 7);
	assert_true(reply.alive);
	assert_int_equal(reply.ends.local_port, 47025);
	assert_true(address_equal(&reply.ends.local,
	    &(struct address){ { [10] = 0xff, 0xff, 127, 0, 0, 1 } }));
	assert_int_equal(reply.uid, 0);
	reply = next(&offset);
	assert_true(reply.alive);
	assert_true(address_equal(&reply.ends.remote,
	    &(struct address){ { [15] = 1 } }));
	reply = next(&offset);
	assert_int_equal(reply.kind, INET_DIAG_REPLY_DONE);
	assert_int_equal(reply.error, 0);
	assert_int_equal(inet_diag_next(buffer, length, &offset, &reply), 0);
}

static void put_error(uint16_t type, int32_t error) {
	struct nlmsghdr *header = (void *)(buffer + length);

	memset(header, 0, NLMSG_SPACE(sizeof(error)));
	header->nlmsg_len = NLMSG_LENGTH(sizeof(error));
	header->nlmsg_type = type;
	header->nlmsg_seq = 5;
	memcpy(NLMSG_DATA(header), &error, sizeof(error));
	length += NLMSG_SPACE(sizeof(error));
}

TEST(ends_errors_and_losses_are_told_apart) {
	struct inet_diag_reply reply;
	size_t offset = 0;

	length = 0;
	put_error(NLMSG_DONE, 0);
	put_error(NLMSG_DONE, -105);
	put_error(NLMSG_ERROR, -2);
	put_error(NLMSG_ERROR, INT32_MIN);
	put_error(NLMSG_OVERRUN, 0);
	put_error(NLMSG_NOOP, 0);
	assert_int_equal(next(&offset).kind, INET_DIAG_REPLY_DONE);
	assert_int_equal(next(&offset).error, 105);
	reply = next(&offset);
	assert_int_equal(reply.kind, INET_DIAG_REPLY_ERROR);
	assert_int_equal(reply.error, 2);
	assert_int_equal(next(&offset).error, 0);
	assert_int_equal(next(&offset).kind, INET_DIAG_REPLY_OVERRUN);
	assert_int_equal(next(&offset).kind, INET_DIAG_REPLY_OTHER);
	assert_int_equal(inet_diag_next(buffer, length, &offset, &reply), 0);
}

TEST(every_truncation_is_malformed_or_short) {
	struct inet_diag_reply reply;

	for (size_t cut = 1; cut < sizeof(recorded); cut++) {
		size_t offset = 0;
		int more;

		memcpy(buffer, recorded, cut);
		while ((more = inet_diag_next(buffer, cut, &offset, &reply)) > 0)
			assert_true(offset <= cut);
		/* only between two messages is a cut not seen */
		assert_true(more == -1 || offset == cut);
	}
	memcpy(buffer, recorded, sizeof(recorded));
	((struct nlmsghdr *)(void *)buffer)->nlmsg_len = 8;
	assert_int_equal(inet_diag_next(buffer, sizeof(recorded),
	    &(size_t){ 0 }, &reply), -1);
	((struct nlmsghdr *)(void *)buffer)->nlmsg_len = 60;
	assert_int_equal(inet_diag_next(buffer, sizeof(recorded),
	    &(size_t){ 0 }, &reply), -1);
}

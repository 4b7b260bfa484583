/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Requests to and replies from the kernel's inet_diag.
 * MODEL    Dumps use the older request (TCPDIAG_GETSOCK), the only one that
 *          walks the kernel's table once for both families; ports are chosen by
 *          its bytecode.  A lookup uses SOCK_DIAG_BY_FAMILY.
 * ERRORS   A message that is shorter than it says ends the datagram with -1.
 * THREADS  No state.
 */
#include "wire/link/inet_diag.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#define BIT(state) (1u << (state))
#define LIVE_STATES (BIT(TCP_ESTABLISHED) | BIT(TCP_CLOSE_WAIT) | \
	BIT(TCP_FIN_WAIT1) | BIT(TCP_FIN_WAIT2) | BIT(TCP_CLOSING) | \
	BIT(TCP_LAST_ACK))

/* Two comparisons (an operation and its port each) and a jump. */
#define PORT_OPERATIONS 5
#define OPERATION_BYTES sizeof(struct inet_diag_bc_op)

#define PROGRAM_BYTES_AT_MOST ((INET_DIAG_PORTS_AT_MOST + \
	INET_DIAG_REMOTE_AT_MOST) * PORT_OPERATIONS * OPERATION_BYTES)

_Static_assert(NLMSG_HDRLEN + sizeof(struct inet_diag_req) + RTA_LENGTH(0) +
	PROGRAM_BYTES_AT_MOST <= INET_DIAG_REQUEST_BYTES, "every request fits");
_Static_assert(PROGRAM_BYTES_AT_MOST + 8 <= UINT16_MAX, "jumps are 16 bits");

static struct nlmsghdr *request_begin(void *out, uint16_t type, uint16_t flags,
    uint32_t sequence, size_t body_bytes) {
	struct nlmsghdr *header = out;

	memset(out, 0, NLMSG_SPACE(body_bytes));
	header->nlmsg_len = (uint32_t)NLMSG_LENGTH(body_bytes);
	header->nlmsg_type = type;
	header->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	header->nlmsg_seq = sequence;
	return header;
}

/* One port's part of the program: `left` bytes of it, this part included, are to
 * come.  "Goes on behind me" is yes; a test that fails jumps to the next port's,
 * the last one's four bytes beyond the end, which means "leave it out". */
static void put_port(struct inet_diag_bc_op at[PORT_OPERATIONS], bool remote,
    uint16_t port, size_t left) {
	size_t next = PORT_OPERATIONS * OPERATION_BYTES;
	size_t otherwise = left == next ? next + 4 : next;

	at[0] = (struct inet_diag_bc_op){
		remote ? INET_DIAG_BC_D_GE : INET_DIAG_BC_S_GE,
		2 * OPERATION_BYTES, (uint16_t)otherwise };
	at[1] = (struct inet_diag_bc_op){ .no = port };
	at[2] = (struct inet_diag_bc_op){
		remote ? INET_DIAG_BC_D_LE : INET_DIAG_BC_S_LE,
		2 * OPERATION_BYTES, (uint16_t)(otherwise - 2 * OPERATION_BYTES) };
	at[3] = (struct inet_diag_bc_op){ .no = port };
	at[4] = (struct inet_diag_bc_op){ INET_DIAG_BC_JMP, OPERATION_BYTES,
		(uint16_t)(left - 4 * OPERATION_BYTES) };
}

/* Its length in bytes. */
static size_t port_program(struct inet_diag_bc_op *program,
    const struct inet_diag_ports *ports) {
	size_t count = ports->local_count + ports->remote_count;
	const size_t whole = count * PORT_OPERATIONS * OPERATION_BYTES;
	size_t left = whole;

	for (size_t i = 0; i < count; i++) {
		bool remote = i >= ports->local_count;

		put_port(program + i * PORT_OPERATIONS, remote,
		    remote ? ports->remote[i - ports->local_count]
			   : ports->local[i], left);
		left -= PORT_OPERATIONS * OPERATION_BYTES;
	}
	return whole;
}

static struct inet_diag_req *begin_dump(void *out, uint32_t sequence) {
	struct nlmsghdr *header = request_begin(out, TCPDIAG_GETSOCK, NLM_F_DUMP,
	    sequence, sizeof(struct inet_diag_req));
	struct inet_diag_req *request = NLMSG_DATA(header);

	request->idiag_family = AF_INET; /* ignored: both are dumped */
	request->idiag_states = LIVE_STATES;
	return request;
}

size_t inet_diag_dump(void *out, uint32_t sequence,
    const struct inet_diag_ports *ports) {
	struct nlmsghdr *header = out;
	struct inet_diag_req *request = begin_dump(out, sequence);
	struct inet_diag_ports asked = *ports;
	struct rtattr *attribute;
	static const uint16_t none[] = { 0 };	/* no connection's */

	if (asked.local_count > INET_DIAG_PORTS_AT_MOST)
		asked.local_count = INET_DIAG_PORTS_AT_MOST;
	if (asked.remote_count > INET_DIAG_REMOTE_AT_MOST)
		asked.remote_count = INET_DIAG_REMOTE_AT_MOST;
	if (asked.local_count == 0) {
		asked.local = none;
		asked.local_count = 1;
	}
	attribute = (void *)(request + 1);
	attribute->rta_type = INET_DIAG_REQ_BYTECODE;
	attribute->rta_len = (uint16_t)RTA_LENGTH(
	    port_program(RTA_DATA(attribute), &asked));
	header->nlmsg_len += attribute->rta_len;
	return header->nlmsg_len;
}

size_t inet_diag_dump_remote(void *out, uint32_t sequence, uint16_t port) {
	struct nlmsghdr *header = out;
	struct inet_diag_req *request = begin_dump(out, sequence);

	request->id.idiag_dport = htons(port);
	return header->nlmsg_len;
}

static void put_address(uint32_t to[4], const struct address *address, bool v4) {
	if (v4)
		memcpy(to, address->bytes + 12, 4);
	else
		memcpy(to, address->bytes, 16);
}

size_t inet_diag_lookup(void *out, uint32_t sequence,
    const struct inet_diag_ends *ends) {
	bool v4 = address_is_v4(&ends->remote);
	struct nlmsghdr *header = request_begin(out, SOCK_DIAG_BY_FAMILY, 0, sequence,
	    sizeof(struct inet_diag_req_v2));
	struct inet_diag_req_v2 *request = NLMSG_DATA(header);

	request->sdiag_family = v4 ? AF_INET : AF_INET6;
	request->sdiag_protocol = IPPROTO_TCP;
	request->idiag_states = UINT32_MAX;
	request->id.idiag_sport = htons(ends->local_port);
	request->id.idiag_dport = htons(ends->remote_port);
	put_address(request->id.idiag_src, &ends->local, v4);
	put_address(request->id.idiag_dst, &ends->remote, v4);
	request->id.idiag_if = ends->interface;
	request->id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
	request->id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	return header->nlmsg_len;
}

static struct unix_diag_req *begin_unix(void *out, uint32_t sequence, uint16_t flags) {
	struct nlmsghdr *header = request_begin(out, SOCK_DIAG_BY_FAMILY, flags, sequence,
	    sizeof(struct unix_diag_req));
	struct unix_diag_req *request = NLMSG_DATA(header);

	request->sdiag_family = AF_UNIX;
	request->udiag_cookie[0] = INET_DIAG_NOCOOKIE;
	request->udiag_cookie[1] = INET_DIAG_NOCOOKIE;
	return request;
}

size_t inet_diag_dump_unix(void *out, uint32_t sequence) {
	/* a socket keeps this state when its other end is closed */
	begin_unix(out, sequence, NLM_F_DUMP)->udiag_states = BIT(TCP_ESTABLISHED);
	return NLMSG_LENGTH(sizeof(struct unix_diag_req));
}

size_t inet_diag_lookup_unix(void *out, uint32_t sequence, uint32_t inode) {
	struct unix_diag_req *request = begin_unix(out, sequence, 0);

	request->udiag_states = UINT32_MAX;
	request->udiag_ino = inode;
	request->udiag_show = UDIAG_SHOW_PEER;
	return NLMSG_LENGTH(sizeof(*request));
}

static void get_address(struct address *to, const uint32_t from[4],
    uint8_t family) {
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	memset(to, 0, sizeof(*to));
	if (family == AF_INET6) {
		memcpy(to->bytes, from, 16);
	} else if (from[0] != 0) {
		memcpy(to->bytes, mapped, 12);
		memcpy(to->bytes + 12, from, 4);
	}
}

/* False: malformed. */
static bool parse_unix(const struct nlmsghdr *header, const void *body,
    struct inet_diag_reply *reply) {
	const char *at = (const char *)body + NLMSG_ALIGN(sizeof(struct unix_diag_msg));
	size_t left = header->nlmsg_len - NLMSG_HDRLEN, step;
	struct unix_diag_msg told;
	struct rtattr attribute;

	if (left < sizeof(told))
		return false;
	memcpy(&told, body, sizeof(told));
	reply->kind = INET_DIAG_REPLY_UNIX;
	reply->inode = told.udiag_ino;
	for (left -= sizeof(told); left >= sizeof(attribute); at += step, left -= step) {
		memcpy(&attribute, at, sizeof(attribute));
		if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > left)
			return false;
		if (attribute.rta_type == UNIX_DIAG_PEER &&
		    attribute.rta_len >= RTA_LENGTH(sizeof(reply->peer_inode)))
			memcpy(&reply->peer_inode, at + RTA_LENGTH(0),
			    sizeof(reply->peer_inode));
		step = RTA_ALIGN(attribute.rta_len);
		step = step < left ? step : left;
	}
	return true;
}

/* False: too short. */
static bool parse_socket(const struct nlmsghdr *header, const void *body,
    struct inet_diag_reply *reply) {
	struct inet_diag_msg told;

	if (header->nlmsg_len > NLMSG_HDRLEN && *(const uint8_t *)body == AF_UNIX)
		return parse_unix(header, body, reply);
	if (header->nlmsg_len < NLMSG_LENGTH(sizeof(told)))
		return false;
	memcpy(&told, body, sizeof(told));
	if (told.idiag_family != AF_INET && told.idiag_family != AF_INET6)
		return true;
	reply->kind = INET_DIAG_REPLY_SOCKET;
	get_address(&reply->ends.local, told.id.idiag_src, told.idiag_family);
	get_address(&reply->ends.remote, told.id.idiag_dst, told.idiag_family);
	reply->ends.local_port = ntohs(told.id.idiag_sport);
	reply->ends.remote_port = ntohs(told.id.idiag_dport);
	reply->ends.interface = told.id.idiag_if;
	reply->uid = told.idiag_uid;
	reply->alive = told.idiag_inode != 0 && told.idiag_state < 32 &&
	    (BIT(told.idiag_state) & LIVE_STATES) != 0;
	return true;
}

int inet_diag_next(const void *data, size_t length, size_t *offset,
    struct inet_diag_reply *reply) {
	const char *at = (const char *)data + *offset;
	struct nlmsghdr header;
	size_t left = *offset < length ? length - *offset : 0, step;
	int32_t error = 0;

	memset(reply, 0, sizeof(*reply));
	if (left == 0)
		return 0;
	if (left < sizeof(header))
		return -1;
	memcpy(&header, at, sizeof(header));
	if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > left)
		return -1;
	step = NLMSG_ALIGN(header.nlmsg_len);
	*offset += step < left ? step : left;
	reply->kind = INET_DIAG_REPLY_OTHER;
	reply->sequence = header.nlmsg_seq;
	reply->interrupted = (header.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
	if (header.nlmsg_len >= NLMSG_LENGTH(sizeof(error)))
		memcpy(&error, at + NLMSG_HDRLEN, sizeof(error));
	switch (header.nlmsg_type) {
	case NLMSG_DONE:
		reply->kind = INET_DIAG_REPLY_DONE;
		reply->error = error < 0 && error > INT32_MIN ? -error : 0;
		break;
	case NLMSG_ERROR:
		if (header.nlmsg_len < NLMSG_LENGTH(sizeof(error)))
			return -1;
		reply->kind = INET_DIAG_REPLY_ERROR;
		reply->error = error < 0 && error > INT32_MIN ? -error : 0;
		break;
	case NLMSG_OVERRUN:
		reply->kind = INET_DIAG_REPLY_OVERRUN;
		break;
	case SOCK_DIAG_BY_FAMILY:
	case TCPDIAG_GETSOCK:
		if (!parse_socket(&header, at + NLMSG_HDRLEN, reply))
			return -1;
		break;
	default:
		break;
	}
	return 1;
}

bool inet_diag_same(const struct inet_diag_ends *a,
    const struct inet_diag_ends *b) {
	return a->local_port == b->local_port &&
	    a->remote_port == b->remote_port &&
	    address_equal(&a->local, &b->local) &&
	    address_equal(&a->remote, &b->remote);
}

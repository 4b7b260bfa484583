/* SPDX-License-Identifier: ISC */
/* What the two files of the kernel's table share. */
#ifndef FRONT_KERNEL_TABLE_INTERNAL_H
#define FRONT_KERNEL_TABLE_INTERNAL_H

#include "front/witness/kernel_table.h"
#include "wire/link/inet_diag.h"

#define SOURCES_MAX	16
#define ENDS_MAX	8192		/* announcements that wait */
#define INTERFACES_MAX	8
#define PORT_SET_BYTES	(65536 / 8)
/* CPU time that may be spent on a burst of walks. */
#define KERNEL_WALK_BURST_NS	(100 * NS_PER_MS)

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
	uint32_t *sockets;		/* inodes of unix sockets, of the last dump of them */
	size_t socket_count;
	size_t socket_size;
	struct connection ends[ENDS_MAX];
	size_t end_first;
	size_t end_count;
	unsigned strangers_left;
	bool asks_remote;		/* of any port */
	uint8_t local_ports[PORT_SET_BYTES];	/* of the last dump */
	uint8_t remote_ports[PORT_SET_BYTES];
	int64_t walk_credit_ns;		/* of CPU time */
	int64_t walk_credit_at_ns;
	_Alignas(8) char request[INET_DIAG_REQUEST_BYTES];
	_Alignas(8) char reply[INET_DIAG_REPLY_BYTES];
};

/* What a request asks for. */
enum request { ASK_NOTHING, ASK_ONE, ASK_DUMP, ASK_DUMP_UNIX, ASK_WALK_INBOUND,
	ASK_WALK_OUTBOUND };

/* The number of the next request: to be taken before it is written. */
uint32_t kernel_table_sequence(struct kernel_table *table);

/* Sends table->request and reads until it is answered: connections of dumps and
 * walks come into the list, *answer is the last message.  False: errno tells. */
bool kernel_table_ask(struct kernel_table *table, int fd,
    size_t request_length, enum request request, int64_t deadline_ns,
    struct inet_diag_reply *answer);

#endif

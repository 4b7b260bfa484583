/* SPDX-License-Identifier: ISC */
/*
 * The kernel's table of connections, in place of front/witness/kernel_table.c.  It lies as the
 * real one does: connections that are not accepted, orphans and TIME_WAIT have inode 0; a dump
 * is not of one moment, and may miss one or show it twice; announcements of ends come late,
 * without the remote half, or not at all; now and then nothing can be read.
 */
#include "front/witness/kernel_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"
#include "tests/machine/role.h"

#define HOSTS_MAX 12
#define ENDS_MAX 256
#define SOCKETS_MAX 256
#define PAST_MAX 128
#define TIME_WAIT_NS (2 * NS_PER_SECOND)

struct tcp tcps[TCP_MAX];

static struct {
	struct draws draws;
	uint32_t lies, hosts, ports;
	struct connection ends[ENDS_MAX];	/* announced, not heard yet */
	unsigned end_count;
	bool lost;
	uint32_t sockets[SOCKETS_MAX];
	size_t socket_count;
	uint32_t next_socket, next_tcp;
	struct tcp past[PAST_MAX];		/* that ended */
	uint32_t past_count;
	struct connection list[2 * TCP_MAX];
} kernel;

static bool lies(void) {
	return draw_below(&kernel.draws, 1000) < kernel.lies;
}

/* 192.0.2.1 ...: of three classes, by name or address. */
static void client_choose(struct draws *draws, struct tcp *tcp) {
	static const char *const names[HOSTS_MAX] = { "m1.a", "m2.b", "m3.c", NULL, "m5.a", "m6.o",
		"m7.c", "m8.d", "m9.a", NULL, "m11.b", "m12.o" };
	uint32_t client = draw_below(draws, kernel.hosts);

	memset(&tcp->client, 0, sizeof(tcp->client));
	memcpy(tcp->client.bytes + 10, (const uint8_t[]){ 0xff, 0xff, 192, 0, 2,
	    (uint8_t)(client + 1) }, 6);
	tcp->client_port = (uint16_t)(40000 + draw_below(draws, kernel.ports));
	tcp->name = names[client];
}

static bool tuple_is_free(const struct tcp *wanted) {
	for (unsigned i = 0; i < TCP_MAX; i++)
		if (tcps[i].state != TCP_FREE && tcps[i].state != TCP_CLOSED &&
		    tcps[i].client_port == wanted->client_port &&
		    address_equal(&tcps[i].client, &wanted->client))
			return false;
	return true;
}

const struct address *world_server(void) {
	static struct address server = { .bytes = { [10] = 0xff, 0xff, 192, 0, 2, 200 } };

	return &server;
}

struct tcp *tcp_begin(struct draws *draws) {
	for (unsigned i = 0; i < TCP_MAX; i++) {
		struct tcp new = { .state = TCP_WAITING, .since_ns = fibers_now_ns() };

		if (tcps[i].state != TCP_FREE)
			continue;
		for (unsigned tries = 0; tries == 0 || !tuple_is_free(&new); tries++) {
			if (tries == 100)
				return NULL;
			client_choose(draws, &new);
		}
		/* a new connection takes the place of one in TIME_WAIT */
		for (unsigned k = 0; k < TCP_MAX; k++)
			if (tcps[k].state == TCP_CLOSED && tcps[k].client_port == new.client_port &&
			    address_equal(&tcps[k].client, &new.client))
				tcps[k].state = TCP_FREE;
		new.number = ++kernel.next_tcp;
		tcps[i] = new;
		return &tcps[i];
	}
	return NULL;
}

void tcp_accept(struct tcp *tcp) {
	tcp->state = TCP_OPEN;
	tcp->waited = !roles_were_at_work();
	tcp->since_ns = fibers_now_ns();
}

static void time_wait_over(void *argument) {
	struct tcp *tcp = argument;

	if (tcp->state == TCP_CLOSED && fibers_now_ns() - tcp->since_ns >= TIME_WAIT_NS)
		tcp->state = TCP_FREE;
}

static struct connection connection_of(const struct tcp *tcp) {
	return (struct connection){ .client = tcp->client, .client_port = tcp->client_port,
		.server = *world_server(), .server_port = 25, .alive = tcp->state == TCP_OPEN };
}

static void announce(void *argument) {
	struct connection *end = argument;

	if (kernel.end_count == ENDS_MAX || lies())
		kernel.lost = true;
	else
		kernel.ends[kernel.end_count++] = *end;
	free(end);
	keeper_hear();
}

uint32_t tcps_ended(uint32_t class_index, const struct address *client, int64_t since_ns) {
	uint32_t count = 0;

	for (uint32_t i = kernel.past_count; i > 0 && kernel.past_count - i < PAST_MAX; i--) {
		const struct tcp *past = &kernel.past[(i - 1) % PAST_MAX];

		count += past->since_ns >= since_ns && tcp_may_count(past, class_index) &&
		    (client == NULL || address_equal(client, &past->client));
	}
	return count;
}

bool tcp_may_count(const struct tcp *tcp, uint32_t class_index) {
	/* who was let go may have been adopted, in the class of his address */
	return tcp->let_go || (tcp->heard == HEARD_ADMIT ? tcp->class_index == class_index :
	    tcp->heard == HEARD_FAILED_OPEN || tcp->heard == HEARD_NOTHING ||
	    tcp->heard == HEARD_DEFER);
}

/* In its class: an earlier one of the same tuple may have been adopted, into another. */
static bool is_saved(const struct tcp *tcp, const char *saved,
    const struct generation *generation) {
	char line[64], class[64] = "";
	const char *at;

	snprintf(line, sizeof(line), "\nsession %d %d 192.0.2.%u %u ", SESSION_INBOUND, SESSION_OPEN,
	    tcp->client.bytes[15], tcp->client_port);
	at = strstr(saved, line);
	return at != NULL && sscanf(at + strlen(line), "%*s %*s %*s %*s %63s", class) == 1 &&
	    (tcp->heard != HEARD_ADMIT || strcmp(class, generation_text(generation,
		generation_class(generation, tcp->class_index)->name)) == 0);
}

void tcps_are_lost(const char *saved, const struct generation *generation) {
	for (unsigned i = 0; i < TCP_MAX; i++)
		tcps[i].let_go |= tcps[i].state == TCP_OPEN &&
		    !is_saved(&tcps[i], saved, generation);
}

void tcp_was_admitted_late(uint32_t class_index) {
	kernel.past[kernel.past_count++ % PAST_MAX] = (struct tcp){ .heard = HEARD_ADMIT,
		.class_index = class_index, .since_ns = fibers_now_ns() };
}

void tcp_end(struct tcp *tcp) {
	struct connection *end = malloc(sizeof(*end));
	uint32_t how = draw_below(&kernel.draws, 3);

	*end = connection_of(tcp);
	tcp->since_ns = fibers_now_ns();
	kernel.past[kernel.past_count++ % PAST_MAX] = *tcp;
	tcp->state = how == 0 ? TCP_CLOSED : TCP_FREE;
	if (how == 0)
		timer_at(fibers_now_ns() + TIME_WAIT_NS, time_wait_over, tcp);
	if (lies()) {
		memset(&end->client, 0, sizeof(end->client));
		end->client_port = 0;
	}
	if (kernel.lies > 0 && draw_below(&kernel.draws, 8) == 0)
		free(end);	/* nobody is told */
	else
		timer_at(fibers_now_ns() + draw_scale(&kernel.draws, 10000, 20 * NS_PER_MS),
		    announce, end);
}

uint32_t socket_open(void) {
	kernel.sockets[kernel.socket_count++] = ++kernel.next_socket;
	return kernel.next_socket;
}

void socket_close(uint32_t inode) {
	for (size_t i = 0; i < kernel.socket_count; i++) {
		if (kernel.sockets[i] != inode)
			continue;
		memmove(&kernel.sockets[i], &kernel.sockets[i + 1],
		    (kernel.socket_count - i - 1) * sizeof(kernel.sockets[0]));
		kernel.socket_count--;
	}
}

void kernel_begin(const struct plan *plan) {
	kernel.draws.state = plan->seed ^ UINT64_C(0x6e31);
	kernel.lies = plan->lies;
	kernel.hosts = plan->hosts;
	kernel.ports = plan->ports;
	kernel.next_socket = 5000;
}

/* From now on it can be read, and all is told but what was not. */
void kernel_calm(void) {
	kernel.lies = 0;
}

/* --- as front/witness/kernel_table.h has it ------------------------------------------- */

int kernel_table_open(struct kernel_table **table, const int *fds, unsigned count,
    struct diag *diag) {
	(void)fds, (void)count, (void)diag;
	*table = (struct kernel_table *)(void *)&kernel;
	return 0;
}

void kernel_table_close(struct kernel_table **table) {
	*table = NULL;
}

int kernel_table_dump(struct kernel_table *table, const struct inet_diag_ports *ports,
    struct connection **list, size_t *count, struct diag *diag) {
	uint32_t begin = draw_below(&kernel.draws, TCP_MAX);

	(void)table, (void)ports;
	*count = 0;
	*list = kernel.list;
	for (unsigned i = 0; i < TCP_MAX; i++) {
		struct tcp *tcp = &tcps[(begin + i) % TCP_MAX];

		if (i % 16 == 15)
			fiber_sleep(fibers_now_ns() + draw_scale(&kernel.draws, 1000, NS_PER_MS));
		if (tcp->state == TCP_FREE || lies())
			continue;
		tcp->shown |= tcp->state == TCP_OPEN;
		kernel.list[(*count)++] = connection_of(tcp);
		if (lies())
			kernel.list[(*count)++] = connection_of(tcp);
	}
	return lies() ? diag_set(diag, 0, "the kernel's table changes too fast") : 0;
}

enum lookup_result kernel_table_lookup(void *context, const struct connection *which,
    struct connection *found) {
	const struct role *role = process_current()->own;

	(void)context;
	fiber_sleep(fibers_now_ns() + draw_scale(&kernel.draws, 1000, 50000));
	if (lies()) {
		/* while the keeper is away, too, the end of a policy connection is taken for its
		 * session's: nobody can say otherwise */
		if (role->kind == ROLE_POLICY && keeper_is_away(role->segment, clock_now_ns()))
			let_go(&which->client, which->client_port);
		return LOOKUP_UNKNOWN;
	}
	for (unsigned i = 0; i < TCP_MAX; i++) {
		const struct tcp *tcp = &tcps[i];

		if (tcp->state != TCP_OPEN || tcp->client_port != which->client_port ||
		    !address_equal(&tcp->client, &which->client) ||
		    (which->server_port != 0 && (which->server_port != 25 ||
			!address_equal(&which->server, world_server()))))
			continue;
		if (found != NULL)
			*found = connection_of(tcp);
		return LOOKUP_ALIVE;
	}
	return LOOKUP_GONE;
}

bool kernel_table_sockets(void *context, const uint32_t **list, size_t *count) {
	(void)context;
	*list = kernel.sockets;
	*count = kernel.socket_count;
	return !lies();
}

enum lookup_result kernel_table_socket(void *context, uint32_t inode, uint32_t *peer) {
	(void)context;
	*peer = 0;
	if (lies())
		return LOOKUP_UNKNOWN;
	for (size_t i = 0; i < kernel.socket_count; i++)
		if (kernel.sockets[i] == inode)
			return LOOKUP_ALIVE;
	return LOOKUP_GONE;
}

void kernel_table_read(struct kernel_table *table, int fd) {
	(void)table, (void)fd;
}

bool kernel_table_next_end(struct kernel_table *table, struct connection *which) {
	(void)table;
	if (kernel.end_count == 0)
		return false;
	*which = kernel.ends[0];
	memmove(kernel.ends, kernel.ends + 1, --kernel.end_count * sizeof(kernel.ends[0]));
	return true;
}

bool kernel_table_lost(struct kernel_table *table) {
	bool lost = kernel.lost;

	(void)table;
	kernel.lost = false;
	return lost;
}

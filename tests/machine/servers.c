/* SPDX-License-Identifier: ISC */
/*
 * smtpd processes.  Each serves one client at a time, and asks about it by a policy connection
 * that it keeps for the next one, or not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"
#include "tests/machine/world.h"

#define SERVERS_MAX 16
#define TRIES 3

struct server {
	struct tcp *tcp;		/* NULL: it waits for a client */
	struct policy_link *link;	/* NULL: none is open */
	struct policy_link *milter;	/* NULL: none, or none any more */
	bool at_milter;			/* it asks there */
	bool asks;			/* and waits for the answer */
	bool recipient;			/* it is about a recipient */
	bool over;			/* refused: the session ends whatever happens */
	unsigned tries;
	uint32_t turn;			/* each event of an earlier turn is void */
	int64_t asked_ns;
};

static struct {
	const struct plan *plan;
	struct draws draws;
	struct server servers[SERVERS_MAX];
	bool calm, finish, gone;
} all;

struct step {
	struct server *server;
	uint32_t turn;
	void (*call)(struct server *);
};

static void step(void *argument) {
	struct step *step = argument;

	if (step->server->turn == step->turn)
		step->call(step->server);
	free(step);
}

static void server_later(struct server *server, int64_t most_ns, void (*call)(struct server *)) {
	struct step *next = malloc(sizeof(*next));

	MUST(next != NULL);
	*next = (struct step){ server, server->turn, call };
	timer_at(fibers_now_ns() + draw_scale(&all.draws, 1000, most_ns), step, next);
}

static void server_hang_up(struct server *server) {
	if (server->link != NULL)
		role_end_link(server->link);
	server->link = NULL;
}

static void server_leave_milter(struct server *server) {
	if (server->milter != NULL)
		role_end_link(server->milter);
	server->milter = NULL;
}

static void server_end(struct server *server) {
	if (all.calm && !all.finish && !server->over)
		return;
	world_log("session %u ends", server->tcp->number);
	tcp_end(server->tcp);
	server_leave_milter(server);
	server->tcp = NULL;
	server->turn++;
	server->asks = server->at_milter = server->over = false;
	if (draw_below(&all.draws, 4) == 0)
		server_hang_up(server);
}

static void server_go_on(struct server *server);

static void write_request(const struct server *server, char *out, size_t size) {
	const struct tcp *tcp = server->tcp;

	snprintf(out, size, "request=smtpd_access_policy\nprotocol_state=%s\n"
	    "client_address=192.0.2.%u\nclient_port=%u\nclient_name=%s\n"
	    "server_address=192.0.2.%u\nserver_port=25\n"
	    "sender=x@example.org\nrecipient=y@example.net\n\n",
	    server->recipient ? "RCPT" : "CONNECT", tcp->client.bytes[15], tcp->client_port,
	    tcp->name == NULL ? "unknown" : tcp->name, world_server()->bytes[15]);
}

/* Nobody answers: smtpd goes on without. */
static void server_fail_open(struct server *server) {
	if (server->tcp->heard == HEARD_NOTHING)
		server->tcp->heard = HEARD_FAILED_OPEN;
	world_log("session %u fails open", server->tcp->number);
	server->asks = false;
	server_go_on(server);
}

static void server_ask(struct server *server) {
	char request[512];

	if (server->link != NULL && !link_lives(server->link))
		server_hang_up(server);
	if (server->link == NULL) {
		struct policy_link *link = calloc(1, sizeof(*link));

		MUST(link != NULL);
		link->server = server;
		if (role_connect(link, false, &all.draws))
			server->link = link;
		else
			free(link);
	}
	server->asks = true;
	server->asked_ns = fibers_now_ns();
	if (server->link == NULL) {
		server->turn++;
		if (++server->tries < TRIES)
			server_later(server, NS_PER_SECOND, server_ask);
		else
			server_fail_open(server);
		return;
	}
	server->link->tcp = server->tcp;
	server->link->number = server->tcp->number;
	write_request(server, request, sizeof(request));
	role_ask(server->link, request);
}

/* Each session has a milter connection of its own, where there are milters that live. */
static void server_ask_milter(struct server *server) {
	struct policy_link *link = calloc(1, sizeof(*link));

	MUST(link != NULL);
	link->server = server;
	link->tcp = server->tcp;
	link->number = server->tcp->number;
	link->client = server->tcp->client;
	link->client_port = server->tcp->client_port;
	if (!role_connect(link, true, &all.draws)) {
		free(link);
		server_ask(server);
		return;
	}
	server->milter = link;
	server->asks = server->at_milter = true;
	role_ask(link, server->tcp->name == NULL ? "" : server->tcp->name);
}

static void server_ask_recipient(struct server *server) {
	server->recipient = true;
	server->tries = 0;
	if (all.calm) {
		server_go_on(server);
		return;
	}
	if (draw_below(&all.draws, 8) == 0)
		server_hang_up(server);
	server_ask(server);
}

static void server_hang_up_early(struct server *server) {
	if (!all.calm && !server->asks)
		server_hang_up(server);
}

/* What comes next in the session. */
static void server_go_on(struct server *server) {
	int64_t most_ns = all.plan->spread * NS_PER_MS / 2 + NS_PER_MS;

	server->turn++;
	if (server->tcp->heard == HEARD_REFUSE) {
		server->over = true;
		server_later(server, 5 * NS_PER_MS, server_end);
		return;
	}
	if (!server->recipient && draw_below(&all.draws, 2) == 0)
		server_later(server, most_ns / 2, server_ask_recipient);
	else if (!all.calm)
		server_later(server, most_ns, server_end);
	if (draw_below(&all.draws, 10) == 0)
		server_later(server, most_ns, server_hang_up_early);
}

static void server_hears(struct server *server) {
	bool at_milter = server->at_milter;

	server->asks = server->at_milter = false;
	if (at_milter && server->tcp->heard != HEARD_REFUSE) {
		server_ask(server);
		return;
	}
	server_go_on(server);
}

void server_answered(struct policy_link *link, const char *reply, size_t length) {
	struct server *server = link->server;
	struct tcp *tcp = link->tcp;

	if ((server->at_milter ? server->milter : server->link) != link || server->tcp != tcp ||
	    tcp == NULL || tcp->number != link->number || !server->asks)
		return;
	if (length > 10 && strncmp(reply, "action=421", 10) == 0)
		tcp->heard = HEARD_REFUSE;
	else if (tcp->heard == HEARD_NOTHING)
		tcp->heard = HEARD_UNCOUNTED;
	server->turn++;
	server_later(server, NS_PER_MS / 10, server_hears);
}

static bool is_led_to(const struct policy_link *link, const struct role *role, uint32_t start) {
	return link != NULL && link->role == role && link->start == start;
}

void servers_lose(const struct role *role, uint32_t start) {
	for (unsigned i = 0; i < all.plan->servers; i++) {
		struct server *server = &all.servers[i];

		if (is_led_to(server->milter, role, start)) {
			server_leave_milter(server);
			if (server->at_milter) {
				server->turn++;
				server_later(server, NS_PER_MS / 10, server_hears);
			}
		}
		if (!is_led_to(server->link, role, start))
			continue;
		server_hang_up(server);
		if (!server->asks || server->at_milter)
			continue;
		server->turn++;
		if (++server->tries < TRIES)
			server_later(server, NS_PER_SECOND, server_ask);
		else
			server_fail_open(server);
	}
}

static void server_accepts(struct server *server) {
	tcp_accept(server->tcp);
	world_log("session %u from 192.0.2.%u[%u]", server->tcp->number,
	    server->tcp->client.bytes[15], server->tcp->client_port);
	server->recipient = false;
	server->tries = 0;
	if (all.plan->milters > 0)
		server_ask_milter(server);
	else
		server_ask(server);
}

static void client_comes(void *argument) {
	unsigned first = draw_below(&all.draws, all.plan->servers);

	if (all.calm)
		return;
	for (unsigned i = 0; i < all.plan->servers; i++) {
		struct server *server = &all.servers[(first + i) % all.plan->servers];

		if (server->tcp != NULL)
			continue;
		server->tcp = tcp_begin(&all.draws);
		if (server->tcp == NULL)
			break;
		server_later(server, NS_PER_MS, server_accepts);
		return;
	}
	timer_at(fibers_now_ns() + draw_scale(&all.draws, 10000, 50 * NS_PER_MS), client_comes,
	    argument);
}

static void server_dies(void *argument) {
	struct server *server = &all.servers[draw_below(&all.draws, all.plan->servers)];

	(void)argument;
	if (all.calm || server->tcp == NULL || server->tcp->state != TCP_OPEN)
		return;
	world_log("session %u dies with its smtpd", server->tcp->number);
	server_end(server);
	server_hang_up(server);
}

void servers_begin(const struct plan *plan) {
	int64_t now_ns = fibers_now_ns() + NS_PER_MS;

	all.plan = plan;
	all.draws.state = plan->seed ^ UINT64_C(0xc11e);
	for (uint32_t i = 0; i < plan->sessions + plan->deaths; i++)
		timer_at(now_ns + (int64_t)draw_below(&all.draws, plan->spread * 1000) * 1000,
		    i < plan->sessions ? client_comes : server_dies, NULL);
}

void servers_calm(void) {
	all.calm = true;
}

void servers_finish(void) {
	all.finish = true;
	for (unsigned i = 0; i < all.plan->servers; i++) {
		struct server *server = &all.servers[i];

		server->turn++;
		if (server->tcp != NULL)
			server_later(server, 100 * NS_PER_MS, server_end);
	}
}

void servers_leave(void) {
	for (unsigned i = 0; i < all.plan->servers; i++)
		server_hang_up(&all.servers[i]);
	all.gone = true;
}

bool servers_are_gone(void) {
	return all.gone;
}

bool servers_are_quiet(void) {
	for (unsigned i = 0; i < all.plan->servers; i++) {
		const struct server *server = &all.servers[i];

		if (server->tcp != NULL && (server->asks || server->over ||
		    server->tcp->state == TCP_WAITING))
			return false;
	}
	return true;
}

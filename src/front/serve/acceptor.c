/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Accept connections for a front end.
 * MODEL    One a turn of the loop, so that processes on one socket share them.
 * ERRORS   Of too many one that has never asked anything is closed, else the new one, and
 *          logged.  Without descriptors or memory nothing is accepted for a while.
 * THREADS  One.
 */
#include "front/serve/acceptor.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "config/generation/generation.h"
#include "engine/engine.h"

#define PAUSE_MS	100

struct listening {
	struct event event;
	struct acceptor *acceptor;
	uint8_t listener;
	bool is_tcp;
};

struct acceptor {
	struct event_base *base;
	struct engine *engine;
	const char *name;
	acceptor_take *take;
	acceptor_spare *spare;
	void *context;
	struct event resume;
	uint32_t count;
	unsigned listening_count;
	struct listening listening[GENERATION_LISTENERS_MAX];
};

static uint32_t limit_of(struct acceptor *acceptor) {
	const struct generation *generation = engine_pin(acceptor->engine);
	uint32_t limit = generation->policy_connections;

	engine_unpin(acceptor->engine, generation);
	return limit;
}

/* Level-triggered events would come at once again. */
static void pause_accepting(struct acceptor *acceptor, int error) {
	const struct timeval pause = { .tv_usec = PAUSE_MS * 1000 };

	log_event(EVENT_SYSTEM, "from=%s text=\"cannot accept: %s\"", acceptor->name,
	    strerror(error));
	for (unsigned i = 0; i < acceptor->listening_count; i++)
		event_del(&acceptor->listening[i].event);
	event_add(&acceptor->resume, &pause);
}

static void on_resume(evutil_socket_t fd, short what, void *argument) {
	struct acceptor *acceptor = argument;

	(void)fd, (void)what;
	for (unsigned i = 0; i < acceptor->listening_count; i++)
		event_add(&acceptor->listening[i].event, NULL);
}

static bool make_room(const struct listening *l, uint32_t limit) {
	struct acceptor *acceptor = l->acceptor;
	bool spared = acceptor->spare(acceptor->context);

	log_event(EVENT_CLIENT_LIMIT, "from=%s listener=%u connections=%u limit=%u action=%s",
	    acceptor->name, l->listener, acceptor->count, limit,
	    spared ? "close-idle" : "close");
	/* the limit may have been lowered */
	return spared && acceptor->count < limit;
}

static void on_connection(evutil_socket_t listening_fd, short what, void *argument) {
	struct listening *l = argument;
	struct acceptor *acceptor = l->acceptor;
	int fd = accept4(listening_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
	uint32_t limit;

	(void)what;
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_accepting(acceptor, errno);
		return;
	}
	limit = limit_of(acceptor);
	if (acceptor->count >= limit && !make_room(l, limit)) {
		close(fd);
		return;
	}
	if (l->is_tcp)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (acceptor->take(acceptor->context, fd, l->listener))
		acceptor->count++;
}

int acceptor_open(struct acceptor **result, struct event_base *base,
    struct engine *engine, const char *name, acceptor_take *take,
    acceptor_spare *spare, void *context, struct diag *diag) {
	struct acceptor *acceptor = calloc(1, sizeof(*acceptor));

	*result = NULL;
	if (acceptor == NULL)
		return diag_set(diag, 0, "no memory for an acceptor");
	*acceptor = (struct acceptor){ .base = base, .engine = engine, .name = name,
		.take = take, .spare = spare, .context = context };
	if (event_assign(&acceptor->resume, base, -1, 0, on_resume, acceptor) != 0) {
		free(acceptor);
		return diag_set(diag, 0, "cannot create a timer");
	}
	*result = acceptor;
	return 0;
}

int acceptor_listen(struct acceptor *acceptor, int fd, uint8_t listener,
    struct diag *diag) {
	struct listening *l = &acceptor->listening[acceptor->listening_count];
	struct sockaddr_storage address = { 0 };
	socklen_t length = sizeof(address);

	if (acceptor->listening_count == GENERATION_LISTENERS_MAX)
		return diag_set(diag, 0, "too many listening sockets");
	if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
		return diag_set(diag, errno, "listening socket %d", fd);
	l->acceptor = acceptor;
	l->listener = listener;
	l->is_tcp = address.ss_family != AF_UNIX;
	if (event_assign(&l->event, acceptor->base, fd, EV_READ | EV_PERSIST,
		on_connection, l) != 0 || event_add(&l->event, NULL) != 0)
		return diag_set(diag, 0, "cannot wait for connections");
	acceptor->listening_count++;
	return 0;
}

void acceptor_left(struct acceptor *acceptor) {
	acceptor->count--;
}

void acceptor_close(struct acceptor **result) {
	struct acceptor *acceptor = *result;

	if (acceptor == NULL)
		return;
	for (unsigned i = 0; i < acceptor->listening_count; i++) {
		event_del(&acceptor->listening[i].event);
		close(event_get_fd(&acceptor->listening[i].event));
	}
	event_del(&acceptor->resume);
	free(acceptor);
	*result = NULL;
}

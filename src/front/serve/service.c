/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Connections of a front end.
 * MODEL    One a turn of the loop, so that processes on one socket share them.
 * ERRORS   Of too many one that has never asked anything is closed, else the new one, and
 *          logged.  Without descriptors or memory nothing is accepted for a while.
 * THREADS  One.
 */
#include "front/serve/service.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "config/generation/generation.h"
#include "engine/engine.h"

#define PAUSE_MS	100

struct listening {
	struct event event;
	struct service *service;
	uint8_t listener;
	bool is_tcp;
};

struct service {
	struct event_base *base;
	struct engine *engine;
	const struct service_calls *calls;
	void *context;
	struct event resume;
	struct stream_list connections;
	struct stream_list waiting;
	struct stream_list newcomers;	/* that have never asked anything */
	uint32_t count;
	unsigned listening_count;
	struct listening listening[GENERATION_LISTENERS_MAX];
};

static uint32_t limit_of(struct service *service) {
	const struct generation *generation;
	uint32_t limit;

	if (service->calls->spare != NULL)
		return service->calls->most;
	generation = engine_pin(service->engine);
	limit = generation->policy_connections;
	engine_unpin(service->engine, generation);
	return limit;
}

/* Level-triggered events would come at once again. */
static void pause_accepting(struct service *service, int error) {
	const struct timeval pause = { .tv_usec = PAUSE_MS * 1000 };

	log_event(EVENT_SYSTEM, "from=%s text=\"cannot accept: %s\"", service->calls->name,
	    strerror(error));
	for (unsigned i = 0; i < service->listening_count; i++)
		event_del(&service->listening[i].event);
	event_add(&service->resume, &pause);
}

static void on_resume(evutil_socket_t fd, short what, void *argument) {
	struct service *service = argument;

	(void)fd, (void)what;
	for (unsigned i = 0; i < service->listening_count; i++)
		event_add(&service->listening[i].event, NULL);
}

/* --- connections -------------------------------------------------------------------------- */

static void forget_connection(void *connection) {
	struct stream *stream = connection;
	struct service *service = stream->service;

	TAILQ_REMOVE(&service->connections, stream, all);
	service->count--;
	free(connection);
}

void service_end(void *connection) {
	struct stream *stream = connection;
	bool is_over = stream->service->calls->end(connection);

	if (stream->fd >= 0)
		stream_close(stream);
	if (is_over)
		forget_connection(connection);
}

static bool spare_connection(struct service *service) {
	const struct service_calls *calls = service->calls;
	void *spared = calls->spare != NULL ? calls->spare(&service->connections) :
	    calls->waits_first ? stream_overdue(&service->waiting, clock_now_ns(), 0) :
	    stream_spare(&service->newcomers);

	if (spared != NULL)
		service_end(spared);
	return spared != NULL;
}

/* `fd` is ours from now on. */
static void begin_connection(struct service *service, int fd, uint8_t listener) {
	const struct service_calls *calls = service->calls;
	struct stream *stream;

	if (calls->spare == NULL && calls->most != 0 && service->count >= calls->most)
		(void)spare_connection(service);
	stream = calloc(1, calls->size);
	if (stream == NULL) {
		close(fd);
		return;
	}
	if (!stream_open(stream, service->base, fd, &service->waiting, calls->ready, stream) ||
	    (calls->by_edges && !stream_wait_for_edges(stream))) {
		free(stream);
		return;
	}
	stream->service = service;
	stream->listener = listener;
	if (calls->waits_first)
		stream_wait_begin(stream, clock_now_ns());
	else
		stream_is_new(stream, &service->newcomers);
	TAILQ_INSERT_TAIL(&service->connections, stream, all);
	service->count++;
	calls->begin(service->context, stream);
}

const struct stream_list *service_connections(const struct service *service) {
	return &service->connections;
}

bool service_is_empty(const struct service *service) {
	return TAILQ_EMPTY(&service->connections);
}

void service_second(struct service *service, int64_t now_ns) {
	void *stalled;

	while ((stalled = stream_overdue(&service->waiting, now_ns,
		    service->calls->patience_ns)) != NULL) {
		if (service->calls->stalled != NULL)
			service->calls->stalled(stalled);
		service_end(stalled);
	}
}

/* --- listening sockets --------------------------------------------------------------------- */

static bool make_room(const struct listening *l, uint32_t limit) {
	struct service *service = l->service;
	bool spared = spare_connection(service);

	log_event(EVENT_CLIENT_LIMIT, "from=%s listener=%u connections=%u limit=%u action=%s",
	    service->calls->name, l->listener, service->count, limit,
	    spared ? "close-idle" : "close");
	/* the limit may have been lowered */
	return spared && service->count < limit;
}

static void on_connection(evutil_socket_t listening_fd, short what, void *argument) {
	struct listening *l = argument;
	struct service *service = l->service;
	int fd = accept4(listening_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
	bool is_full, may_go = service->calls->spare != NULL;
	uint32_t limit;

	(void)what;
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_accepting(service, errno);
		return;
	}
	limit = limit_of(service);
	is_full = service->count >= limit;
	if (is_full && !may_go && !make_room(l, limit)) {
		close(fd);
		return;
	}
	if (l->is_tcp)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	begin_connection(service, fd, l->listener);
	/* perhaps of the new one */
	if (is_full && may_go)
		(void)make_room(l, limit);
}

int service_open(struct service **result, struct event_base *base, struct engine *engine,
    const struct service_calls *calls, void *context, struct diag *diag) {
	struct service *service = calloc(1, sizeof(*service));

	*result = NULL;
	if (service == NULL)
		return diag_set(diag, 0, "no memory for the %s service", calls->name);
	*service = (struct service){ .base = base, .engine = engine, .calls = calls,
		.context = context };
	TAILQ_INIT(&service->connections);
	TAILQ_INIT(&service->waiting);
	TAILQ_INIT(&service->newcomers);
	if (event_assign(&service->resume, base, -1, 0, on_resume, service) != 0) {
		free(service);
		return diag_set(diag, 0, "cannot create a timer");
	}
	*result = service;
	return 0;
}

int service_listen(struct service *service, int fd, uint8_t listener,
    struct diag *diag) {
	struct listening *l = &service->listening[service->listening_count];
	struct sockaddr_storage address = { 0 };
	socklen_t length = sizeof(address);

	if (service->listening_count == GENERATION_LISTENERS_MAX)
		return diag_set(diag, 0, "too many listening sockets");
	if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
		return diag_set(diag, errno, "listening socket %d", fd);
	l->service = service;
	l->listener = listener;
	l->is_tcp = address.ss_family != AF_UNIX;
	if (event_assign(&l->event, service->base, fd, EV_READ | EV_PERSIST,
		on_connection, l) != 0 || event_add(&l->event, NULL) != 0)
		return diag_set(diag, 0, "cannot wait for connections");
	service->listening_count++;
	return 0;
}

void service_close(struct service **result) {
	struct service *service = *result;

	if (service == NULL)
		return;
	while (!TAILQ_EMPTY(&service->connections))
		service_end(TAILQ_FIRST(&service->connections));
	for (unsigned i = 0; i < service->listening_count; i++) {
		event_del(&service->listening[i].event);
		close(event_get_fd(&service->listening[i].event));
	}
	event_del(&service->resume);
	free(service);
	*result = NULL;
}

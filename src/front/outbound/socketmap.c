/* SPDX-License-Identifier: ISC */
/*
 * The socketmap front end.
 *
 * MODEL: as front/policy/policy.c, in small, as Sendmail sends a request when it has
 * read the reply to the one before.  Bytes are read into one buffer of the
 * process; only an unfinished request, or requests behind a reply that the kernel
 * does not take, move into a buffer of the connection's own, and until that reply
 * is gone nothing is read.  The kernel tells which process opened the connection.
 * One that told of a client stays until its process has ended (pidfd_open): Sendmail closes
 * its maps when it forks to deliver, and goes on with the client.
 * ERRORS: whatever a connection does wrong ends that connection, is counted, and
 * logged with place and reason.  A process that cannot be told apart from others
 * is admitted uncounted.  When a connection ends, its process's places in windows are
 * free when the process is gone, too, which takes it a moment.
 * THREADS: one.
 */
#include "front/outbound/socketmap.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "config/generation/generation.h"
#include "engine/outbound/outbound.h"
#include "front/serve/service.h"
#include "front/outbound/map_question.h"
#include "front/serve/stream.h"
#include "wire/ask/socketmap.h"

/* Holds the longest request, so that what does not fit is none. */
#define READ_BYTES	(2 * SOCKETMAP_REQUEST_MAX)
#define LOOK_AGAIN_MS	5
#define LEAVING_NS	NS_PER_SECOND
#define LOOKS_AT_ONCE	32		/* each is a read of /proc */

struct connection {
	struct stream stream;
	struct socketmap_front *front;
	char *in;			/* requests not answered, NULL: none */
	size_t in_length;
	struct map_client client;
	bool knows_process;		/* whose it is was looked for */
	bool lingers;			/* closed, until its process ends */
	struct event process_ends;
	int pidfd;
};

/* A process whose connection has ended, and that has not been seen to end yet. */
struct leaving {
	struct outbound_process *process;
	int64_t until_ns;
	TAILQ_ENTRY(leaving) all;
};

TAILQ_HEAD(leaving_list, leaving);

struct socketmap_front {
	struct engine *engine;
	struct event_base *base;
	struct event second;		/* while there are connections */
	struct event soon;		/* to look whether those that leave are gone */
	struct leaving_list leaving;
	struct service *service;
	bool closing;
	char bytes[READ_BYTES];
};

static void look_again(struct socketmap_front *front) {
	static const struct timeval soon = { .tv_usec = LOOK_AGAIN_MS * 1000 };

	if (!TAILQ_EMPTY(&front->leaving) && !event_pending(&front->soon, EV_TIMEOUT, NULL))
		(void)event_add(&front->soon, &soon);
}

/* Looks at some in turn.  Those that are gone are forgotten, and so are `all` and those
 * that have stayed for long: the keeper will find out when they end. */
static void look_at_leaving(struct socketmap_front *front, const struct generation *generation,
    int64_t now_ns, bool all) {
	struct leaving *leaving, *last = TAILQ_LAST(&front->leaving, leaving_list), *next;
	unsigned looks = 0;

	for (leaving = TAILQ_FIRST(&front->leaving); leaving != NULL; leaving = next) {
		next = leaving == last || (!all && ++looks == LOOKS_AT_ONCE) ? NULL :
		    TAILQ_NEXT(leaving, all);
		TAILQ_REMOVE(&front->leaving, leaving, all);
		if (!all && now_ns < leaving->until_ns &&
		    !outbound_process_is_over(leaving->process)) {
			TAILQ_INSERT_TAIL(&front->leaving, leaving, all);
			continue;
		}
		outbound_process_close(&leaving->process, generation, now_ns);
		free(leaving);
	}
	look_again(front);
}

static void on_soon(evutil_socket_t fd, short what, void *argument) {
	struct socketmap_front *front = argument;
	const struct generation *generation = engine_pin(front->engine);

	(void)fd, (void)what;
	look_at_leaving(front, generation, clock_now_ns(), false);
	engine_unpin(front->engine, generation);
}

/* Its connection ended, as it did, most likely: it is gone in a moment. */
static void let_go(struct socketmap_front *front, struct outbound_process **process,
    const struct generation *generation, int64_t now_ns) {
	struct leaving *leaving;

	if (*process == NULL)
		return;
	outbound_process_leave(*process, generation, now_ns);
	leaving = outbound_process_is_over(*process) ? NULL : calloc(1, sizeof(*leaving));
	if (leaving == NULL) {
		outbound_process_close(process, generation, now_ns);
		return;
	}
	leaving->process = *process;
	leaving->until_ns = now_ns + LEAVING_NS;
	TAILQ_INSERT_TAIL(&front->leaving, leaving, all);
	*process = NULL;
	look_again(front);
}

static void on_process_end(evutil_socket_t fd, short what, void *argument) {
	(void)fd, (void)what;
	service_end(argument);
}

/* Waits for the end of a process that told of a client.  False: it has ended, or there is
 * no telling. */
static bool connection_linger(struct connection *c) {
#ifdef SYS_pidfd_open
	if (c->client.session.ref.slot == 0 || c->client.pid <= 0)
		return false;
	c->pidfd = (int)syscall(SYS_pidfd_open, c->client.pid, 0);
	if (c->pidfd < 0)
		return false;
	c->lingers = event_assign(&c->process_ends, c->front->base, c->pidfd, EV_READ,
	    on_process_end, c) == 0 && event_add(&c->process_ends, NULL) == 0;
	if (!c->lingers)
		close(c->pidfd);
#endif
	return c->lingers;
}

static bool connection_ends(void *connection) {
	struct connection *c = connection;
	struct socketmap_front *front = c->front;
	const struct generation *generation = engine_pin(front->engine);
	int64_t now_ns = clock_now_ns();
	bool stays = false;

	if (c->lingers) {
		event_del(&c->process_ends);
		close(c->pidfd);
	} else {
		let_go(front, &c->client.process, generation, now_ns);
		free(c->in);
		stays = !front->closing && connection_linger(c);
	}
	if (!stays)
		map_session_over(&c->client.session, front->engine, generation, now_ns);
	engine_unpin(front->engine, generation);
	return !stays;
}

static void report_malformed(struct connection *c, const struct socketmap_error *error,
    const char *data, size_t length) {
	char start[100];
	size_t shown = length - error->offset;

	engine_count(c->front->engine, COUNTER_BAD_MAP_REQUESTS, 1);
	log_quote(start, sizeof(start), data + error->offset,
	    shown < sizeof(start) ? shown : sizeof(start));
	log_event(EVENT_BAD_REQUEST, "from=socketmap listener=%u pid=%d offset=%zu "
	    "text=\"%s\" bytes=%s action=close", c->client.listener, (int)c->client.pid,
	    error->offset, error->reason, start);
}

static void report_stalled(void *connection) {
	const struct connection *c = connection;

	engine_count(c->front->engine, COUNTER_STALLED_MAP_CLIENTS, 1);
	log_event(EVENT_CLIENT_LIMIT, "from=socketmap listener=%u pid=%d text=\"%s\" "
	    "action=close", c->client.listener, (int)c->client.pid, c->stream.out != NULL ?
	    "the client does not read its reply" :
	    "the client does not complete its request");
}

/* Keeps what is at data, the tail of the process's buffer or of c->in. */
static enum outcome keep_rest(struct connection *c, const char *data, size_t length) {
	char *rest = NULL;

	if (length > 0) {
		rest = malloc(length);
		if (rest == NULL)
			return MUST_CLOSE;
		memcpy(rest, data, length);
	}
	free(c->in);
	c->in = rest;
	c->in_length = length;
	return GOES_ON;
}

/* Of a delivering one.  It may be of another PID namespace, or gone by now; then its mail
 * passes uncounted. */
static void know_process(struct connection *c) {
	struct process_identity identity = { .pid = c->client.pid };

	if (c->knows_process)
		return;
	c->knows_process = true;
	if (c->client.pid > 0 && process_start_ticks(c->client.pid, &identity.start_ticks))
		c->client.process = outbound_process_open(c->front->engine, &identity);
	if (c->client.process == NULL)
		log_event(EVENT_UNTRACKED, "from=socketmap listener=%u pid=%d text=\"the "
		    "process behind a connection is unknown; its mail is not counted\"",
		    c->client.listener, (int)c->client.pid);
}

/* Answers the whole requests at data.  Stops at a reply that cannot be sent. */
static enum outcome answer_all(struct connection *c,
    const struct generation *generation, const char *data, size_t length,
    int64_t now_ns) {
	char reply[SOCKETMAP_REPLY_MAX];
	struct socketmap_request request;
	struct socketmap_error error;
	int64_t began_ns = now_ns;
	size_t at = 0, reply_length;

	while (at < length && c->stream.out == NULL) {
		long used = socketmap_parse(data + at, length - at, &request, &error);

		if (used < 0) {
			report_malformed(c, &error, data + at, length - at);
			return MUST_CLOSE;
		}
		if (used == 0)
			break;
		stream_wait_end(&c->stream);
		stream_has_asked(&c->stream);
		at += (size_t)used;
		if (map_question_is_outbound(&request))
			know_process(c);
		reply_length = map_question_answer(&c->client, c->front->engine, generation,
		    &request, now_ns, reply);
		began_ns = engine_timed(c->front->engine, TIMING_MAP, 1, began_ns);
		if (stream_send(&c->stream, reply, reply_length, now_ns) != GOES_ON)
			return MUST_CLOSE;
	}
	if (at < length)
		stream_wait_begin(&c->stream, now_ns);
	return keep_rest(c, data + at, length - at);
}

/* Reads once, behind what was kept.  The loop is level-triggered. */
static enum outcome read_requests(struct connection *c,
    const struct generation *generation, int64_t now_ns) {
	char *bytes = c->front->bytes;
	ssize_t n;

	/* a whole request would have been answered: there is room for its rest */
	if (c->in_length > 0)
		memcpy(bytes, c->in, c->in_length);
	n = read(c->stream.fd, bytes + c->in_length, READ_BYTES - c->in_length);
	if (n < 0)
		return stream_is_passing(errno) ? GOES_ON : MUST_CLOSE;
	if (n == 0) {
		const struct socketmap_error cut = {
			"the connection ended in the middle of a request", 0 };

		if (c->in_length > 0)
			report_malformed(c, &cut, c->in, c->in_length);
		return MUST_CLOSE;
	}
	return answer_all(c, generation, bytes, c->in_length + (size_t)n, now_ns);
}

/* Goes on with the reply, then with requests that were read behind it. */
static enum outcome write_reply(struct connection *c,
    const struct generation *generation, int64_t now_ns) {
	if (stream_flush(&c->stream) != GOES_ON)
		return MUST_CLOSE;
	if (c->stream.out != NULL || c->in == NULL)
		return GOES_ON;
	return answer_all(c, generation, c->in, c->in_length, now_ns);
}

static void on_event(evutil_socket_t fd, short what, void *argument) {
	struct connection *c = argument;
	struct engine *engine = c->front->engine;
	const struct generation *generation = engine_pin(engine);
	int64_t now_ns = clock_now_ns();
	enum outcome outcome = c->stream.writing ? write_reply(c, generation, now_ns) :
	    read_requests(c, generation, now_ns);

	(void)fd, (void)what;
	if (outcome == MUST_CLOSE)
		service_end(c);
	engine_unpin(engine, generation);
}

static void await_second(struct socketmap_front *front) {
	static const struct timeval second = { .tv_sec = 1 };

	if (!service_is_empty(front->service) &&
	    !event_pending(&front->second, EV_TIMEOUT, NULL))
		(void)event_add(&front->second, &second);
}

static void connection_begins(void *context, void *connection) {
	struct socketmap_front *front = context;
	struct connection *c = connection;
	struct ucred peer;
	socklen_t length = sizeof(peer);

	c->front = front;
	c->client.listener = c->stream.listener;
	c->client.fd = c->stream.fd;
	if (getsockopt(c->stream.fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0)
		c->client.pid = peer.pid;
	await_second(front);
}

static const struct service_calls calls = { .name = "socketmap", .size = sizeof(struct connection),
	.begin = connection_begins, .ready = on_event, .end = connection_ends,
	.stalled = report_stalled, .patience_ns = SOCKETMAP_PATIENCE_NS };

static void on_second(evutil_socket_t fd, short what, void *argument) {
	struct socketmap_front *front = argument;
	int64_t now_ns = clock_now_ns();

	(void)fd, (void)what;
	/* the policy front end has nothing to do perhaps */
	engine_heartbeat(front->engine, now_ns);
	service_second(front->service, now_ns);
	await_second(front);
}

int socketmap_front_open(struct socketmap_front **result, struct engine *engine,
    struct event_base *base, struct diag *diag) {
	struct socketmap_front *front = calloc(1, sizeof(*front));

	*result = NULL;
	if (front == NULL)
		return diag_set(diag, 0, "no memory for the socketmap front end");
	front->engine = engine;
	front->base = base;
	TAILQ_INIT(&front->leaving);
	if (service_open(&front->service, base, engine, &calls, front, diag) != 0) {
		free(front);
		return -1;
	}
	if (event_assign(&front->second, base, -1, 0, on_second, front) != 0 ||
	    event_assign(&front->soon, base, -1, 0, on_soon, front) != 0) {
		socketmap_front_close(&front);
		return diag_set(diag, 0, "cannot create a timer");
	}
	*result = front;
	return 0;
}

int socketmap_front_listen(struct socketmap_front *front, int fd, uint8_t listener,
    struct diag *diag) {
	return service_listen(front->service, fd, listener, diag);
}

void socketmap_front_close(struct socketmap_front **result) {
	struct socketmap_front *front = *result;
	const struct generation *generation;

	if (front == NULL)
		return;
	front->closing = true;
	service_close(&front->service);
	generation = engine_pin(front->engine);
	look_at_leaving(front, generation, clock_now_ns(), true);
	engine_unpin(front->engine, generation);
	event_del(&front->second);
	event_del(&front->soon);
	free(front);
	*result = NULL;
}

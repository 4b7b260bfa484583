/* SPDX-License-Identifier: ISC */
/*
 * The policy front end.
 *
 * MODEL: a request costs one read, one send and no allocation: bytes are read
 * into one buffer of the process, and only what is left of them, an unfinished
 * request, moves into a buffer of the connection's own.  A reply that the kernel
 * does not take waits in another; until it is gone nothing is read, so that a
 * client that does not read cannot make us keep more.  Connections that wait for
 * either stand in a list by the time of their deadline.
 * ERRORS: whatever a connection does wrong ends that connection, is counted, and
 * logged with place and reason.
 * THREADS: one.
 */
#include "front/policy.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "config/generation.h"
#include "front/acceptor.h"
#include "front/policy_session.h"
#include "front/stream.h"

#define READ_BYTES	POLICY_REQUEST_MAX
#define REPLIES_BYTES	8192		/* sent in one piece, for pipelined requests */
#define OWN_BYTES_LEAST	4096

struct connection {
	struct stream stream;
	struct policy_front *front;
	TAILQ_ENTRY(connection) all;
	uint8_t listener;
	char *in;			/* unfinished request, NULL: none */
	size_t in_size, in_length;
	struct policy_parser parser;
	struct policy_session session;
};

TAILQ_HEAD(connection_list, connection);

struct policy_front {
	struct engine *engine;
	const struct generation *generation;	/* the newest, pinned */
	struct event_base *base;
	struct event second;
	struct acceptor *acceptor;
	struct connection_list connections;
	struct stream_list waiting;
	struct stream_list newcomers;	/* that have never asked anything */
	char bytes[READ_BYTES];
};

static const struct generation *generation_of(struct policy_front *front)
{
	front->generation = engine_pin_newer(front->engine, front->generation);
	return front->generation;
}

static void connection_free(struct connection *c, const struct generation *generation,
    int64_t now_ns)
{
	struct policy_front *front = c->front;

	policy_session_over(&c->session, front->engine, generation, now_ns);
	TAILQ_REMOVE(&front->connections, c, all);
	acceptor_left(front->acceptor);
	stream_close(&c->stream);
	free(c->in);
	free(c);
}

static void report_malformed(struct connection *c, const struct policy_error *error,
    const char *data, size_t length)
{
	char start[100];
	size_t shown = length - error->offset;

	engine_count(c->front->engine, COUNTER_BAD_POLICY_REQUESTS, 1);
	log_quote(start, sizeof(start), data + error->offset,
	    shown < sizeof(start) ? shown : sizeof(start));
	log_event(EVENT_BAD_REQUEST, "from=policy listener=%u offset=%zu text=\"%s\" "
	    "bytes=%s action=close", c->listener, error->offset, error->reason, start);
}

static void report_stalled(struct connection *c)
{
	engine_count(c->front->engine, COUNTER_STALLED_POLICY_CLIENTS, 1);
	log_event(EVENT_CLIENT_LIMIT, "from=policy listener=%u text=\"%s\" action=close",
	    c->listener, c->stream.out != NULL ? "the client does not read its reply" :
	    "the client does not complete its request");
}

/* Keeps the unfinished request at data, which may lie in c->in already. */
static enum outcome keep_rest(struct connection *c, const char *data, size_t length)
{
	if (length == 0) {
		free(c->in);
		c->in = NULL;
		c->in_size = c->in_length = 0;
		return GOES_ON;
	}
	if (c->in == NULL) {
		c->in_size = length < OWN_BYTES_LEAST ? OWN_BYTES_LEAST : length;
		c->in = malloc(c->in_size);
		if (c->in == NULL)
			return MUST_CLOSE;
	}
	if (data != c->in)
		memmove(c->in, data, length);
	c->in_length = length;
	return GOES_ON;
}

/* Answers the whole requests at data.  Stops at a reply that cannot be sent. */
static enum outcome answer_all(struct connection *c,
    const struct generation *generation, const char *data, size_t length,
    int64_t now_ns)
{
	char replies[REPLIES_BYTES];
	size_t at = 0, reply_length = 0;
	struct policy_error error;
	int64_t began_ns = now_ns;
	long used = 1;

	while (at < length && used > 0) {
		used = policy_parser_feed(&c->parser, data + at, length - at, &error);
		if (used > 0) {
			if (!c->session.is_known) {
				c->session.socket = engine_peer_socket(c->front->engine,
				    c->stream.fd);
				c->session.is_known = true;
			}
			reply_length += policy_session_answer(&c->session, c->front->engine,
			    generation, c->listener, data + at, &c->parser.request,
			    now_ns, replies + reply_length);
			began_ns = engine_timed(c->front->engine, TIMING_POLICY, began_ns);
			at += (size_t)used;
			policy_parser_reset(&c->parser);
			stream_wait_end(&c->stream);
			stream_has_asked(&c->stream);
		}
		if (reply_length == 0 || (used > 0 && at < length &&
			reply_length + POLICY_REPLY_MAX <= sizeof(replies)))
			continue;
		if (stream_send(&c->stream, replies, reply_length, now_ns) != GOES_ON)
			return MUST_CLOSE;
		reply_length = 0;
		if (c->stream.out != NULL)
			break;
	}
	if (used < 0) {
		report_malformed(c, &error, data + at, length - at);
		return MUST_CLOSE;
	}
	if (at < length)
		stream_wait_begin(&c->stream, now_ns);
	return keep_rest(c, data + at, length - at);
}

/* Reads once.  The event loop is level-triggered: more comes with the next turn. */
static enum outcome read_requests(struct connection *c,
    const struct generation *generation, int64_t now_ns)
{
	char *to = c->front->bytes;
	size_t room = READ_BYTES;
	ssize_t n;

	if (c->in != NULL) {
		if (c->in_length == c->in_size) {
			/* the parser ends what grows beyond POLICY_REQUEST_MAX */
			char *more = realloc(c->in, c->in_size * 2);

			if (more == NULL)
				return MUST_CLOSE;
			c->in = more;
			c->in_size *= 2;
		}
		to = c->in + c->in_length;
		room = c->in_size - c->in_length;
	}
	n = read(c->stream.fd, to, room);
	if (n < 0)
		return stream_is_passing(errno) ? GOES_ON : MUST_CLOSE;
	if (n == 0) {
		const struct policy_error cut = {
			"the connection ended in the middle of a request", 0 };

		if (c->in_length > 0)
			report_malformed(c, &cut, c->in, c->in_length);
		return MUST_CLOSE;
	}
	if (c->in == NULL)
		return answer_all(c, generation, to, (size_t)n, now_ns);
	return answer_all(c, generation, c->in, c->in_length + (size_t)n, now_ns);
}

/* Goes on with the replies, then with requests that were read behind them. */
static enum outcome write_replies(struct connection *c,
    const struct generation *generation, int64_t now_ns)
{
	if (stream_flush(&c->stream) != GOES_ON)
		return MUST_CLOSE;
	if (c->stream.out != NULL || c->in == NULL)
		return GOES_ON;
	policy_parser_reset(&c->parser);
	return answer_all(c, generation, c->in, c->in_length, now_ns);
}

static void on_event(evutil_socket_t fd, short what, void *argument)
{
	struct connection *c = argument;
	const struct generation *generation = generation_of(c->front);
	int64_t now_ns = clock_now_ns();
	enum outcome outcome = c->stream.writing ? write_replies(c, generation, now_ns) :
	    read_requests(c, generation, now_ns);

	(void)fd, (void)what;
	if (outcome == MUST_CLOSE)
		connection_free(c, generation, now_ns);
}

static bool connection_new(void *context, int fd, uint8_t listener)
{
	struct policy_front *front = context;
	struct connection *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		close(fd);
		return false;
	}
	c->front = front;
	c->listener = listener;
	if (!stream_open(&c->stream, front->base, fd, &front->waiting, on_event, c)) {
		free(c);
		return false;
	}
	stream_is_new(&c->stream, &front->newcomers);
	TAILQ_INSERT_TAIL(&front->connections, c, all);
	return true;
}

static bool spare_one(void *context)
{
	struct policy_front *front = context;
	struct connection *c = stream_spare(&front->newcomers);

	if (c == NULL)
		return false;
	connection_free(c, generation_of(front), clock_now_ns());
	return true;
}

static void close_stalled(struct policy_front *front, int64_t now_ns)
{
	const struct generation *generation = generation_of(front);
	struct connection *c;

	while ((c = stream_overdue(&front->waiting, now_ns, POLICY_PATIENCE_NS)) != NULL) {
		report_stalled(c);
		connection_free(c, generation, now_ns);
	}
}

static void on_second(evutil_socket_t fd, short what, void *argument)
{
	struct policy_front *front = argument;
	int64_t now_ns = clock_now_ns();

	(void)fd, (void)what;
	engine_heartbeat(front->engine, now_ns);
	close_stalled(front, now_ns);
	log_flush();
}

int policy_front_open(struct policy_front **result, struct engine *engine,
    struct diag *diag)
{
	const struct timeval second = { .tv_sec = 1 };
	struct policy_front *front = calloc(1, sizeof(*front));

	*result = NULL;
	if (front == NULL)
		return diag_set(diag, 0, "no memory for the policy front end");
	front->engine = engine;
	TAILQ_INIT(&front->connections);
	TAILQ_INIT(&front->waiting);
	TAILQ_INIT(&front->newcomers);
	front->base = event_base_new();
	if (front->base == NULL) {
		free(front);
		return diag_set(diag, 0, "cannot create an event loop");
	}
	diag_set(diag, 0, "cannot create a timer");
	if (event_assign(&front->second, front->base, -1, EV_PERSIST, on_second, front) != 0 ||
	    event_add(&front->second, &second) != 0 ||
	    acceptor_open(&front->acceptor, front->base, engine, "policy", connection_new,
		spare_one, front, diag) != 0) {
		event_base_free(front->base);
		free(front);
		return -1;
	}
	*result = front;
	return 0;
}

int policy_front_listen(struct policy_front *front, int fd, uint8_t listener,
    struct diag *diag)
{
	return acceptor_listen(front->acceptor, fd, listener, diag);
}

struct event_base *policy_front_base(struct policy_front *front)
{
	return front->base;
}

void policy_front_run(struct policy_front *front)
{
	engine_heartbeat(front->engine, clock_now_ns());
	(void)event_base_dispatch(front->base);
}

void policy_front_close(struct policy_front **result)
{
	struct policy_front *front = *result;
	struct connection *c;

	if (front == NULL)
		return;
	while ((c = TAILQ_FIRST(&front->connections)) != NULL)
		connection_free(c, generation_of(front), clock_now_ns());
	if (front->generation != NULL)
		engine_unpin(front->engine, front->generation);
	acceptor_close(&front->acceptor);
	event_del(&front->second);
	event_base_free(front->base);
	free(front);
	*result = NULL;
}

/* SPDX-License-Identifier: ISC */
/*
 * The policy front end.
 *
 * MODEL: a request costs one recv, one send and no allocation: bytes are read
 * into one buffer of the process, and only what is left of them, an unfinished
 * request, moves into a buffer of the connection's own.  Replies to connections
 * that are ready in the same turn of the loop go out together, at most 16, when
 * all of these were decided: each send may wake a process, which would then
 * compete with us for a processor.  A reply that the kernel does not take waits
 * in a buffer of its own; until it is gone nothing is read, so that a client that
 * does not read cannot make us keep more.  Connections that wait for either stand
 * in a list by the time of their deadline.
 * ERRORS: whatever a connection does wrong ends that connection, is counted, and
 * logged with place and reason.
 * THREADS: one.
 */
#include "front/policy/policy.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "config/generation/generation.h"
#include "front/serve/service.h"
#include "front/serve/beat.h"
#include "front/policy/policy_session.h"
#include "front/serve/stream.h"

#define READ_BYTES	POLICY_REQUEST_MAX
#define REPLIES_BYTES	8192		/* of several connections, or of pipelined requests */
#define REPLIES_MOST	16		/* that wait for each other */
#define OWN_BYTES_LEAST	4096

struct connection {
	struct stream stream;
	struct policy_front *front;
	char *in;			/* unfinished request, NULL: none */
	size_t in_size, in_length;
	struct policy_parser parser;
	struct policy_session session;
	bool has_reply;			/* in front->ready */
};

/* Replies to one connection, which go out when this turn of the loop ends. */
struct ready_reply {
	struct connection *connection;	/* NULL: it has ended since */
	size_t from, length;		/* in front->replies */
};

struct policy_front {
	struct engine *engine;
	const struct generation *generation;	/* the newest, pinned */
	struct event_base *base;
	struct beat beat;
	struct service *service;
	struct event turn_end;		/* active while there are ready replies */
	struct ready_reply ready[REPLIES_MOST];
	unsigned ready_count;
	/* Since the loop's turn began, whose time is read once: what is answered now */
	int64_t turn_ns;
	unsigned answers;
	char replies[REPLIES_BYTES];
	size_t replies_length;
	char bytes[READ_BYTES];
};

static const struct generation *generation_of(struct policy_front *front) {
	front->generation = engine_pin_newer(front->engine, front->generation);
	return front->generation;
}

/* What the caller works by stays pinned. */
static bool connection_ends(void *connection) {
	struct connection *c = connection;
	struct policy_front *front = c->front;

	for (unsigned i = 0; c->has_reply && i < front->ready_count; i++)
		if (front->ready[i].connection == c)
			front->ready[i].connection = NULL;
	if (front->generation == NULL)
		(void)generation_of(front);
	policy_session_over(&c->session, front->engine, front->generation, clock_now_ns());
	free(c->in);
	return true;
}

static void report_malformed(struct connection *c, const struct policy_error *error,
    const char *data, size_t length) {
	char start[100];
	size_t shown = length - error->offset;

	engine_count(c->front->engine, COUNTER_BAD_POLICY_REQUESTS, 1);
	log_quote(start, sizeof(start), data + error->offset,
	    shown < sizeof(start) ? shown : sizeof(start));
	log_event(EVENT_BAD_REQUEST, "from=policy listener=%u offset=%zu text=\"%s\" "
	    "bytes=%s action=close", c->stream.listener, error->offset, error->reason, start);
}

static void report_stalled(void *connection) {
	const struct connection *c = connection;

	engine_count(c->front->engine, COUNTER_STALLED_POLICY_CLIENTS, 1);
	log_event(EVENT_CLIENT_LIMIT, "from=policy listener=%u text=\"%s\" action=close",
	    c->stream.listener, c->stream.out != NULL ? "the client does not read its reply" :
	    "the client does not complete its request");
}

/* Keeps the unfinished request at data, which may lie in c->in already. */
static enum outcome keep_rest(struct connection *c, const char *data, size_t length) {
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

/* The answers of this turn stand: counts them, with their time. */
static void turn_over(struct policy_front *front) {
	if (front->answers == 0)
		return;
	front->turn_ns = engine_timed(front->engine, TIMING_POLICY, front->answers,
	    front->turn_ns);
	front->answers = 0;
}

/* Sends the replies from replies[from] to the end, which are this connection's. */
static enum outcome send_now(struct connection *c, size_t from, int64_t now_ns) {
	struct policy_front *front = c->front;
	size_t length = front->replies_length - from;

	front->replies_length = from;
	return length == 0 ? GOES_ON :
	    stream_send(&c->stream, front->replies + from, length, now_ns);
}

/* The same when this turn of the loop ends; at once where no other event is active. */
static enum outcome send_later(struct connection *c, size_t from, int64_t now_ns) {
	struct policy_front *front = c->front;
	size_t length = front->replies_length - from;

	if (length == 0)
		return GOES_ON;
	if (front->ready_count == 0) {
		if (event_base_get_num_events(front->base, EVENT_BASE_COUNT_ACTIVE) == 0) {
			turn_over(front);
			return send_now(c, from, now_ns);
		}
		event_active(&front->turn_end, EV_TIMEOUT, 0);
	}
	front->ready[front->ready_count++] = (struct ready_reply){ c, from, length };
	c->has_reply = true;
	return GOES_ON;
}

static void send_ready(struct policy_front *front) {
	turn_over(front);
	for (unsigned i = 0; i < front->ready_count; i++) {
		const struct ready_reply *reply = &front->ready[i];
		struct connection *c = reply->connection;

		if (c == NULL)
			continue;
		c->has_reply = false;
		if (stream_send(&c->stream, front->replies + reply->from, reply->length,
			front->turn_ns) != GOES_ON)
			service_end(c);
	}
	front->ready_count = 0;
	front->replies_length = 0;
}

static void on_turn_end(evutil_socket_t fd, short what, void *argument) {
	(void)fd, (void)what;
	send_ready(argument);
}

/* Answers one whole request; its reply stands behind the others. */
static void answer_one(struct connection *c, const struct generation *generation,
    const char *request, int64_t now_ns) {
	struct policy_front *front = c->front;

	if (!c->session.is_known) {
		c->session.socket = engine_peer_socket(front->engine, c->stream.fd);
		c->session.is_known = true;
	}
	front->replies_length += policy_session_answer(&c->session, front->engine, generation,
	    c->stream.listener, request, &c->parser.request, now_ns,
	    front->replies + front->replies_length);
	front->answers++;
	policy_parser_reset(&c->parser);
	stream_wait_end(&c->stream);
	stream_has_asked(&c->stream);
}

static bool has_room(const struct policy_front *front) {
	return front->replies_length + POLICY_REPLY_MAX <= sizeof(front->replies);
}

/* Answers the whole requests at data.  Stops at replies that cannot be sent. */
static enum outcome answer_all(struct connection *c,
    const struct generation *generation, const char *data, size_t length,
    int64_t now_ns) {
	struct policy_front *front = c->front;
	size_t at = 0, from;
	struct policy_error error;
	long used = 1;

	if (!has_room(front))
		send_ready(front);
	from = front->replies_length;
	while (at < length && c->stream.out == NULL) {
		used = policy_parser_feed(&c->parser, data + at, length - at, &error);
		if (used <= 0)
			break;
		answer_one(c, generation, data + at, now_ns);
		at += (size_t)used;
		if (!has_room(front) && send_now(c, from, now_ns) != GOES_ON)
			return MUST_CLOSE;
	}
	if (used < 0) {
		(void)send_now(c, from, now_ns);
		report_malformed(c, &error, data + at, length - at);
		return MUST_CLOSE;
	}
	if (at < length) {
		stream_wait_begin(&c->stream, now_ns);
		/* of an end with replies unread the event said no more than that there is data */
		if (stream_look_again(&c->stream) != GOES_ON)
			return MUST_CLOSE;
	}
	if (send_later(c, from, now_ns) != GOES_ON)
		return MUST_CLOSE;
	return keep_rest(c, data + at, length - at);
}

/* Reads once: what is left comes with the next turn.  `what`: of the event. */
static enum outcome read_requests(struct connection *c,
    const struct generation *generation, short what, int64_t now_ns) {
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
	n = recv(c->stream.fd, to, room, MSG_DONTWAIT);
	if (n < 0) {
		if (errno == EAGAIN)
			return GOES_ON;
		return stream_is_passing(errno) ? stream_look_again(&c->stream) : MUST_CLOSE;
	}
	if (n == 0) {
		const struct policy_error cut = {
			"the connection ended in the middle of a request", 0 };

		if (c->in_length > 0)
			report_malformed(c, &cut, c->in, c->in_length);
		return MUST_CLOSE;
	}
	if (((size_t)n == room || (what & EV_CLOSED) != 0) &&
	    stream_look_again(&c->stream) != GOES_ON)
		return MUST_CLOSE;
	if (c->in == NULL)
		return answer_all(c, generation, to, (size_t)n, now_ns);
	return answer_all(c, generation, c->in, c->in_length + (size_t)n, now_ns);
}

/* Goes on with the replies, then with requests that were read behind them. */
static enum outcome write_replies(struct connection *c,
    const struct generation *generation, int64_t now_ns) {
	if (stream_flush(&c->stream) != GOES_ON)
		return MUST_CLOSE;
	if (c->stream.out != NULL || c->in == NULL)
		return GOES_ON;
	policy_parser_reset(&c->parser);
	return answer_all(c, generation, c->in, c->in_length, now_ns);
}

static void on_event(evutil_socket_t fd, short what, void *argument) {
	struct connection *c = argument;
	struct policy_front *front = c->front;
	const struct generation *generation = generation_of(front);
	enum outcome outcome;

	(void)fd;
	if (front->answers == 0)
		front->turn_ns = clock_now_ns();
	outcome = c->stream.writing ? write_replies(c, generation, front->turn_ns) :
	    read_requests(c, generation, what, front->turn_ns);
	if (outcome == MUST_CLOSE)
		service_end(c);
	if (front->ready_count == REPLIES_MOST)
		send_ready(front);
	else if (front->ready_count == 0)
		turn_over(front);
}

static void connection_begins(void *context, void *connection) {
	struct policy_front *front = context;
	struct connection *c = connection;

	c->front = front;
	beat_quicken(&front->beat);
}

static bool has_connections(void *context) {
	const struct policy_front *front = context;

	return !service_is_empty(front->service);
}

static void close_stalled(void *context, int64_t now_ns) {
	struct policy_front *front = context;

	(void)generation_of(front);
	service_second(front->service, now_ns);
}

static const struct service_calls calls = { .name = "policy", .size = sizeof(struct connection),
	.begin = connection_begins, .ready = on_event, .end = connection_ends,
	.stalled = report_stalled, .patience_ns = POLICY_PATIENCE_NS, .by_edges = true };

int policy_front_open(struct policy_front **result, struct engine *engine,
    struct diag *diag) {
	struct policy_front *front = calloc(1, sizeof(*front));
	const struct beat_calls beats = { has_connections, close_stalled, front };

	*result = NULL;
	if (front == NULL)
		return diag_set(diag, 0, "no memory for the policy front end");
	front->engine = engine;
	front->base = event_base_new();
	if (front->base == NULL) {
		free(front);
		return diag_set(diag, 0, "cannot create an event loop");
	}
	if (beat_open(&front->beat, front->base, engine, &beats, diag) != 0 ||
	    event_assign(&front->turn_end, front->base, -1, 0, on_turn_end, front) != 0 ||
	    service_open(&front->service, front->base, engine, &calls, front, diag) != 0) {
		event_base_free(front->base);
		free(front);
		return -1;
	}
	*result = front;
	return 0;
}

int policy_front_listen(struct policy_front *front, int fd, uint8_t listener,
    struct diag *diag) {
	return service_listen(front->service, fd, listener, diag);
}

struct event_base *policy_front_base(struct policy_front *front) {
	return front->base;
}

void policy_front_run(struct policy_front *front) {
	engine_heartbeat(front->engine, clock_now_ns());
	(void)event_base_dispatch(front->base);
}

void policy_front_close(struct policy_front **result) {
	struct policy_front *front = *result;

	if (front == NULL)
		return;
	service_close(&front->service);
	if (front->generation != NULL)
		engine_unpin(front->engine, front->generation);
	beat_close(&front->beat);
	event_del(&front->turn_end);
	event_base_free(front->base);
	free(front);
	*result = NULL;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Bytes of HTTP to requests, and answers to bytes.
 * MODEL    As front/policy/policy.c: a request is read whole, answered at once, and nothing is
 *          read while an answer waits to be sent.  Every connection stands in the list of
 *          those that keep us waiting, by the time since when.
 * ERRORS   A request that is none costs the connection, behind an answer that says why.
 * THREADS  One.
 */
#include "front/http/http.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "front/serve/beat.h"
#include "front/http/http_answer.h"
#include "front/serve/service.h"

#define HEAD_BYTES	1536
#define DRAIN_BYTES	65536

/* Scripts, styles and data from here alone; nobody may frame it, and it submits nothing. */
#define SAFETY \
	"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; " \
	"img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; " \
	"frame-ancestors 'none'\r\n" \
	"X-Content-Type-Options: nosniff\r\n" \
	"X-Frame-Options: DENY\r\n" \
	"Referrer-Policy: no-referrer\r\n" \
	"Cross-Origin-Resource-Policy: same-origin\r\n" \
	"Cross-Origin-Opener-Policy: same-origin\r\n" \
	"Cache-Control: no-store\r\n"

struct connection {
	struct stream stream;
	struct http_front *front;
	bool any_host;
	bool last;			/* closed when the answer is sent */
	size_t in_length;
	char in[HTTP_REQUEST_MAX];
};

struct http_front {
	struct engine *engine;
	struct event_base *base;
	struct beat beat;
	struct service *service;
	struct http_answers *answers;
};

/* --- answers ------------------------------------------------------------------- */

static size_t write_head(char out[HEAD_BYTES], const struct http_answer *answer, bool last) {
	time_t now_s = (time_t)clock_wall_s();
	struct tm tm;
	char date[64] = "";
	size_t length;

	if (gmtime_r(&now_s, &tm) != NULL)
		(void)strftime(date, sizeof(date), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
	length = text_append(out, HEAD_BYTES, 0, "HTTP/1.1 %u %s\r\n%s" SAFETY, answer->status,
	    http_status_text(answer->status), date);
	if (answer->allow != NULL)
		length = text_append(out, HEAD_BYTES, length, "Allow: %s\r\n", answer->allow);
	return text_append(out, HEAD_BYTES, length, "Content-Type: %s\r\nContent-Length: %zu\r\n"
	    "Connection: %s\r\n\r\n", answer->type, answer->length,
	    last ? "close" : "keep-alive");
}

static enum outcome send_answer(struct connection *c, const struct http_answer *answer,
    bool with_body, int64_t now_ns) {
	char head[HEAD_BYTES];
	size_t length = write_head(head, answer, c->last);
	size_t body = with_body ? answer->length : 0;
	char *all = malloc(length + body);
	enum outcome outcome;

	if (all == NULL)
		return MUST_CLOSE;
	memcpy(all, head, length);
	if (body > 0)
		memcpy(all + length, answer->body, body);
	outcome = stream_send(&c->stream, all, length + body, now_ns);
	free(all);
	return outcome;
}

static void report_malformed(struct connection *c, const struct http_error *error) {
	char start[100];
	size_t shown = c->in_length > error->offset ? c->in_length - error->offset : 0;

	log_quote(start, sizeof(start), c->in + error->offset,
	    shown < sizeof(start) ? shown : sizeof(start));
	engine_count(c->front->engine, COUNTER_BAD_HTTP_REQUESTS, 1);
	log_event(EVENT_BAD_REQUEST, "from=http offset=%zu text=\"%s\" bytes=%s action=close",
	    error->offset, error->reason, start);
}

/* What is left unread when a socket is closed takes the answer with it. */
static enum outcome end_if_sent(struct connection *c) {
	char rest[4096];
	size_t drained = 0;
	ssize_t n;

	if (!c->last || c->stream.out != NULL)
		return GOES_ON;
	(void)shutdown(c->stream.fd, SHUT_WR);
	do {
		n = recv(c->stream.fd, rest, sizeof(rest), MSG_DONTWAIT);
		drained += n > 0 ? (size_t)n : 0;
	} while (n > 0 && drained < DRAIN_BYTES);
	return MUST_CLOSE;
}

/* Answers the whole requests that were read.  Stops at an answer that cannot be sent. */
static enum outcome answer_all(struct connection *c, int64_t now_ns) {
	while (c->stream.out == NULL && !c->last && c->in_length > 0) {
		struct http_request request;
		struct http_answer answer;
		struct http_error error;
		bool with_body = true;
		long used = http_request_parse(c->in, c->in_length, &request, &error);

		if (used == 0)
			break;
		if (used < 0) {
			report_malformed(c, &error);
			http_answer_error(error.status, error.reason, &answer);
			c->last = true;
			used = (long)c->in_length;
		} else {
			http_answer(c->front->answers, &request, c->any_host, now_ns, &answer);
			c->last = !request.keep_alive;
			with_body = request.method != HTTP_HEAD;
		}
		if (send_answer(c, &answer, with_body, now_ns) != GOES_ON)
			return MUST_CLOSE;
		c->in_length -= (size_t)used;
		memmove(c->in, c->in + used, c->in_length);
		/* it is waited for the next request from now on */
		if (c->stream.out == NULL) {
			stream_wait_end(&c->stream);
			stream_wait_begin(&c->stream, now_ns);
		}
	}
	return end_if_sent(c);
}

static enum outcome read_requests(struct connection *c, int64_t now_ns) {
	ssize_t n = read(c->stream.fd, c->in + c->in_length, sizeof(c->in) - c->in_length);

	if (n < 0)
		return stream_is_passing(errno) ? GOES_ON : MUST_CLOSE;
	if (n == 0)
		return MUST_CLOSE;
	c->in_length += (size_t)n;
	return answer_all(c, now_ns);
}

static enum outcome write_answer(struct connection *c, int64_t now_ns) {
	if (stream_flush(&c->stream) != GOES_ON)
		return MUST_CLOSE;
	if (c->stream.out != NULL)
		return GOES_ON;
	stream_wait_begin(&c->stream, now_ns);
	return answer_all(c, now_ns);
}

/* --- connections ------------------------------------------------------------------ */

static void on_event(evutil_socket_t fd, short what, void *argument) {
	struct connection *c = argument;
	int64_t now_ns = clock_now_ns();

	(void)fd, (void)what;
	if ((c->stream.writing ? write_answer(c, now_ns) : read_requests(c, now_ns)) ==
	    MUST_CLOSE)
		service_end(c);
}

static void connection_begins(void *context, void *connection) {
	struct connection *c = connection;
	struct sockaddr_storage address = { 0 };
	socklen_t length = sizeof(address);

	c->front = context;
	c->any_host = getsockname(c->stream.fd, (struct sockaddr *)&address, &length) == 0 &&
	    address.ss_family == AF_UNIX;
}

static bool connection_ends(void *connection) {
	(void)connection;
	return true;
}

static const struct service_calls calls = { .name = "http", .size = sizeof(struct connection),
	.begin = connection_begins, .ready = on_event, .end = connection_ends,
	.patience_ns = HTTP_PATIENCE_NS, .waits_first = true, .most = HTTP_CONNECTIONS };

static void close_stalled(void *context, int64_t now_ns) {
	struct http_front *front = context;

	service_second(front->service, now_ns);
}

/* --- life ------------------------------------------------------------------------- */

int http_front_open(struct http_front **result, struct engine *engine, struct diag *diag) {
	struct http_front *front = calloc(1, sizeof(*front));
	/* the keeper has to carry each over in time: none is left out */
	const struct beat_calls beats = { .each = close_stalled, .context = front };

	*result = NULL;
	if (front == NULL)
		return diag_set(diag, 0, "no memory for the HTTP front end");
	front->engine = engine;
	front->answers = http_answers_open(engine_state_path(engine));
	front->base = event_base_new();
	if (front->answers == NULL || front->base == NULL ||
	    beat_open(&front->beat, front->base, engine, &beats, diag) != 0 ||
	    service_open(&front->service, front->base, engine, &calls, front, diag) != 0) {
		http_answers_close(&front->answers);
		if (front->base != NULL)
			event_base_free(front->base);
		free(front);
		return diag_set(diag, 0, "cannot create the event loop of the HTTP front end");
	}
	*result = front;
	return 0;
}

int http_front_listen(struct http_front *front, int fd, uint8_t listener,
    struct diag *diag) {
	return service_listen(front->service, fd, listener, diag);
}

struct event_base *http_front_base(struct http_front *front) {
	return front->base;
}

void http_front_run(struct http_front *front) {
	engine_heartbeat(front->engine, clock_now_ns());
	(void)event_base_dispatch(front->base);
}

void http_front_close(struct http_front **result) {
	struct http_front *front = *result;

	if (front == NULL)
		return;
	service_close(&front->service);
	beat_close(&front->beat);
	event_base_free(front->base);
	http_answers_close(&front->answers);
	free(front);
	*result = NULL;
}

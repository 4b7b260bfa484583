/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The event socket: other mail servers' deliveries and sessions, and log lines
 *          that somebody hands us (postern-events(5)).
 * MODEL    Bytes are read into one buffer of the process; an unfinished line moves
 *          into one of the connection's own.  Nothing is answered but errors and
 *          "sync".  A connection stands for nothing: a session may be opened by
 *          one and closed by another.
 * ERRORS   A line that is none is answered (the first ERRORS_TOLD of a connection) and
 *          counted; the next one is read.
 * THREADS  One.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/feed/feed_files.h"
#include "engine/session/told_sessions.h"
#include "front/feed/feed_internal.h"
#include "front/serve/service.h"
#include "wire/mail/event_line.h"

#define READ_BYTES	(2 * EVENT_WHOLE_MAX)
#define ANSWER_MAX	160
#define ERRORS_TOLD	100
/* To somebody who does not read what he asked for. */
#define PATIENCE_NS	(60 * NS_PER_SECOND)

struct connection {
	struct stream stream;
	struct feed *feed;
	char *in;		/* an unfinished line, NULL: none */
	size_t in_length;
	bool skipping;		/* within a line that is too long */
	uint64_t lines;		/* of its source, so far; sync and source are none */
	uint64_t origin;	/* the source's, or 0 */
	uint64_t errors;
};

/* What is sent after each read, in one piece. */
struct answers {
	char text[ANSWER_MAX * 64];
	size_t length;
};

struct feed_events {
	struct service *service;
	char bytes[READ_BYTES];
	struct answers answers;
};

static void answer(struct answers *answers, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void answer(struct answers *answers, const char *format, ...) {
	size_t room = sizeof(answers->text) - answers->length;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(answers->text + answers->length, room, format, arguments);
	va_end(arguments);
	/* whoever does not wait for one answer before the next question has to do
	 * without some */
	if (length > 0 && (size_t)length < room)
		answers->length += (size_t)length;
}

static void report(struct connection *c, size_t offset, const char *reason) {
	c->errors++;
	engine_count(c->feed->engine, COUNTER_FEED_BAD_EVENTS, 1);
	if (c->errors <= ERRORS_TOLD)
		answer(&c->feed->events->answers, "error %" PRIu64 " %zu %s\n", c->lines,
		    offset, reason);
	log_event(EVENT_BAD_REQUEST, "from=events listener=%u line=%" PRIu64 " offset=%zu "
	    "text=\"%s\"", c->stream.listener, c->lines, offset, reason);
}

/* --- what a line says ----------------------------------------------------------- */

/* Bit i: mail server i of the generation.  All where none is named; 0: there is none of
 * that name. */
static unsigned find_mtas(const struct generation *g, struct span name) {
	if (name.length == 0)
		return UINT32_MAX;
	for (uint32_t i = 0; i < g->mta_count; i++) {
		const char *known = generation_text(g, g->mtas[i].name);

		if (g->mtas[i].transport == 0 && strlen(known) == name.length &&
		    memcmp(known, name.text, name.length) == 0)
			return 1U << i;
	}
	return 0;
}

static void tell_session(struct connection *c, const struct event_line *line) {
	struct feed *feed = c->feed;
	const struct question question = {
		.client = line->client, .client_port = line->client_port,
		.server = line->server, .server_port = line->server_port,
		.name = line->name.length > 0 ? line->name.text : NULL,
		.name_length = line->name.length,
		.listener = c->stream.listener, .owner = OWNER_POLICY, .connect_only = true,
	};
	struct answer ignored;	/* it is open, whatever we think of it */

	feed_beat(feed);
	if (line->kind == EVENT_LINE_OPEN)
		engine_session_open(feed->engine, feed->generation, &question, feed->now_ns,
		    &ignored);
	else
		engine_session_gone(feed->engine, feed->generation, &question, feed->now_ns,
		    feed->now_ns);
}

static void tell_delivery(struct connection *c, unsigned mtas, const struct event_line *line) {
	struct feed *feed = c->feed;
	int64_t ago_ms = line->ended_ms == 0 ? 0 : feed->wall_ms - line->ended_ms;
	struct feed_origin origin = { .log = c->origin, .offset = c->lines };
	const struct log_line told = { .kind = LOG_LINE_DELIVERY, .head = { "", 0 },
		.delivery = line->delivery };

	if (ago_ms > 0 && ago_ms < feed->now_ns / NS_PER_MS)
		origin.ended_ns = feed->now_ns - ago_ms * NS_PER_MS;
	origin.slack_ns = NS_PER_MS;
	(void)feed_line(feed, mtas, &told, &origin, false);
}

/* From now on lines are known by their numbers: what somebody sends once more, as he did
 * not hear that we had it, does not count again. */
static void begin_source(struct connection *c, const struct event_line *line) {
	char name[EVENT_SOURCE_MAX + 8];

	snprintf(name, sizeof(name), "source %.*s", (int)line->text.length, line->text.text);
	c->origin = feed_log_id(name);
	c->lines = line->number;
}

static void on_line(struct connection *c, char *text, size_t length) {
	struct feed *feed = c->feed;
	struct event_error error;
	struct event_line line;
	struct feed_origin origin;
	unsigned mtas;
	bool good;

	feed->tally.events++;
	if (length > 0 && text[length - 1] == '\r')
		length--;
	good = event_line_read(text, length, &line, &error);
	if (line.kind != EVENT_LINE_SYNC && line.kind != EVENT_LINE_SOURCE)
		c->lines++;
	origin = (struct feed_origin){ .log = c->origin, .offset = c->lines };
	if (!good) {
		report(c, error.offset, error.reason);
		return;
	}
	mtas = find_mtas(feed->generation, line.mta);
	if (mtas == 0) {
		report(c, (size_t)(line.mta.text - text),
		    "the configuration has no mail server with this name");
		return;
	}
	switch (line.kind) {
	case EVENT_LINE_NOTHING:
		break;
	case EVENT_LINE_DELIVERY:
		tell_delivery(c, mtas, &line);
		break;
	case EVENT_LINE_START:
		feed_beat(feed);
		engine_feed_start(feed->engine, feed->generation, mtas, &line.delivery,
		    feed->now_ns);
		break;
	case EVENT_LINE_OPEN:
	case EVENT_LINE_CLOSE:
		tell_session(c, &line);
		break;
	case EVENT_LINE_LOG:
		(void)feed_text(feed, mtas, line.text, &origin, false);
		break;
	case EVENT_LINE_SYNC:
		answer(&feed->events->answers, "ok %" PRIu64 " %" PRIu64 "\n", c->lines,
		    c->errors);
		break;
	case EVENT_LINE_SOURCE:
		begin_source(c, &line);
		break;
	}
}

/* --- bytes ---------------------------------------------------------------------- */

/* Keeps what is left of an unfinished line. */
static enum outcome keep_rest(struct connection *c, const char *data, size_t length) {
	if (length > EVENT_WHOLE_MAX) {
		c->lines++;
		report(c, EVENT_WHOLE_MAX, "the line is too long");
		c->lines--;	/* it is counted when its end has come */
		c->skipping = true;
	}
	if (c->skipping)
		length = 0;
	if (length > 0 && c->in == NULL)
		c->in = malloc(EVENT_WHOLE_MAX);
	if (length > 0 && c->in == NULL)
		return MUST_CLOSE;
	if (length > 0) {
		memcpy(c->in, data, length);
	} else {
		free(c->in);
		c->in = NULL;
	}
	c->in_length = length;
	return GOES_ON;
}

/* The last line may lack its newline, and its writer may still read. */
static void read_last(struct connection *c) {
	const struct answers *answers = &c->feed->events->answers;

	if (c->in_length > 0)
		on_line(c, c->feed->events->bytes, c->in_length);
	if (answers->length > 0)
		(void)stream_send(&c->stream, answers->text, answers->length,
		    c->feed->now_ns);
}

static enum outcome read_lines(struct connection *c) {
	struct feed_events *events = c->feed->events;
	char *at = events->bytes, *end, *newline;
	ssize_t n;

	if (c->in_length > 0)
		memcpy(events->bytes, c->in, c->in_length);
	n = read(c->stream.fd, events->bytes + c->in_length, READ_BYTES - c->in_length);
	if (n < 0)
		return stream_is_passing(errno) ? GOES_ON : MUST_CLOSE;
	if (n == 0) {
		read_last(c);
		return MUST_CLOSE;
	}
	end = events->bytes + c->in_length + n;
	while ((newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
		if (c->skipping)
			c->lines++;
		else
			on_line(c, at, (size_t)(newline - at));
		stream_has_asked(&c->stream);
		c->skipping = false;
		at = newline + 1;
	}
	if (keep_rest(c, at, (size_t)(end - at)) != GOES_ON)
		return MUST_CLOSE;
	if (events->answers.length == 0)
		return GOES_ON;
	return stream_send(&c->stream, events->answers.text, events->answers.length,
	    c->feed->now_ns);
}

static void on_event(evutil_socket_t fd, short what, void *argument) {
	struct connection *c = argument;
	struct feed *feed = c->feed;
	enum outcome outcome;

	(void)fd, (void)what;
	feed_begin(feed);
	feed->events->answers.length = 0;
	outcome = c->stream.writing ? stream_flush(&c->stream) : read_lines(c);
	if (outcome == MUST_CLOSE)
		service_end(c);
	feed_end(feed);
}

static void connection_begins(void *context, void *connection) {
	struct connection *c = connection;

	c->feed = context;
}

static bool connection_ends(void *connection) {
	struct connection *c = connection;

	free(c->in);
	return true;
}

static void report_stalled(void *connection) {
	const struct connection *c = connection;

	log_event(EVENT_CLIENT_LIMIT, "from=events listener=%u text=\"the client does "
	    "not read its answers\" action=close", c->stream.listener);
}

static const struct service_calls calls = { .name = "events", .size = sizeof(struct connection),
	.begin = connection_begins, .ready = on_event, .end = connection_ends,
	.stalled = report_stalled, .patience_ns = PATIENCE_NS };

void feed_events_second(struct feed *feed) {
	service_second(feed->events->service, feed->now_ns);
}

int feed_events_open(struct feed *feed, struct diag *diag) {
	struct feed_events *events = calloc(1, sizeof(*events));

	if (events == NULL)
		return diag_set(diag, 0, "no memory for events");
	if (service_open(&events->service, feed->base, feed->engine, &calls, feed, diag) != 0) {
		free(events);
		return -1;
	}
	feed->events = events;
	return 0;
}

int feed_events_listen(struct feed *feed, const struct feed_socket *socket,
    struct diag *diag) {
	return service_listen(feed->events->service, socket->fd, socket->listener, diag);
}

void feed_events_close(struct feed *feed) {
	if (feed->events == NULL)
		return;
	service_close(&feed->events->service);
	free(feed->events);
	feed->events = NULL;
}

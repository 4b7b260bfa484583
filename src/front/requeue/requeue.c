/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Carry what engine/requeue/requeue.c asks for to the supervisor, and lists of
 *          queues back.
 * MODEL    A timer for the next turn, which comes sooner when something was noted.
 *          A list comes by a pipe: it has been read when the pipe is at its end and
 *          the supervisor has told how the command ended.
 * ERRORS   A list that is cut or too slow is asked for again.  Where the supervisor
 *          ends the link the loop ends: whoever is started in our place has a new one.
 * THREADS  One.
 */
#include "front/requeue/requeue.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "front/link/mta_link.h"
#include "wire/mail/queue_list.h"

/* A message with so many recipients that its line is longer is known by its first. */
#define LINE_MAX_BYTES	((size_t)64 << 10)
#define RECIPIENTS_BEAT	256		/* then a sign of life */
#define SOON_NS		(5 * NS_PER_MS)
#define IDLE_NS		NS_PER_SECOND

/* The list of one queue that is being read. */
struct listing {
	struct front_requeue *front;
	unsigned mta;
	int fd;			/* -1: at its end, or not there yet */
	struct event *readable;
	char *line;		/* what is there of the line that is not whole */
	size_t length;
	bool skips;		/* the rest of a line that was too long */
	bool told;		/* how the command ended */
	int code;
	uint64_t messages;
	uint64_t recipients;
};

struct front_requeue {
	struct engine *engine;
	struct event_base *base;
	struct requeue *requeue;
	struct mta_link link;
	struct event *answered;
	bool is_cut_off;	/* the supervisor ended the link */
	struct event *timer;
	int64_t timer_ns;	/* when it comes */
	const struct generation *generation;	/* during a turn */
	struct listing listings[GENERATION_MTAS_MAX];
};

static void come_at(struct front_requeue *front, int64_t at_ns, int64_t now_ns) {
	int64_t wait_ns = at_ns > now_ns ? at_ns - now_ns : 0;
	struct timeval wait;

	if (wait_ns > IDLE_NS)
		wait_ns = IDLE_NS;
	if (wait_ns < SOON_NS)
		wait_ns = SOON_NS;
	front->timer_ns = now_ns + wait_ns;
	wait = (struct timeval){ .tv_sec = (time_t)(wait_ns / NS_PER_SECOND),
		.tv_usec = (suseconds_t)(wait_ns % NS_PER_SECOND / 1000) };
	(void)event_add(front->timer, &wait);
}

static void come_soon(struct front_requeue *front, int64_t now_ns) {
	if (front->timer_ns > now_ns + SOON_NS)
		come_at(front, now_ns + SOON_NS, now_ns);
}

static void on_timer(evutil_socket_t fd, short what, void *argument) {
	struct front_requeue *front = argument;
	const struct generation *generation = engine_pin(front->engine);
	int64_t now_ns = clock_now_ns(), next_ns;

	(void)fd;
	(void)what;
	front->generation = generation;
	next_ns = requeue_turn(front->requeue, generation, now_ns);
	front->generation = NULL;
	engine_unpin(front->engine, generation);
	come_at(front, next_ns, now_ns);
}

/* --- what is asked for ------------------------------------------------------------- */

static bool flush_id(void *context, unsigned mta, const char *queue_id) {
	struct front_requeue *front = context;

	return mta_link_ask(&front->link, MTA_REQUEUE, mta, front->generation->number, queue_id);
}

static bool list_queue(void *context, unsigned mta) {
	struct front_requeue *front = context;

	return mta_link_ask(&front->link, MTA_LIST, mta, front->generation->number, NULL);
}

static void tell_return(void *context, const char *destination, uint32_t messages) {
	char name[4 * REQUEUE_NAME_MAX + 4];

	(void)context;
	log_event(EVENT_REQUEUE, "destination=%s messages=%u",
	    log_quote(name, sizeof(name), destination, strlen(destination)), messages);
}

/* --- lists ------------------------------------------------------------------------- */

static void list_ended(struct listing *listing) {
	struct front_requeue *front = listing->front;
	int64_t now_ns = clock_now_ns();

	if (listing->fd >= 0 || !listing->told)
		return;
	if (listing->code == 0)
		log_event(EVENT_REQUEUE, "mta=%u messages=%llu text=\"read the list of the "
		    "queue\"", listing->mta, (unsigned long long)listing->messages);
	requeue_listed(front->requeue, listing->mta, listing->code == 0, now_ns);
	listing->told = false;
	come_soon(front, now_ns);
}

static void close_list(struct listing *listing) {
	if (listing->readable != NULL)
		event_free(listing->readable);
	if (listing->fd >= 0)
		close(listing->fd);
	free(listing->line);
	listing->readable = NULL;
	listing->line = NULL;
	listing->fd = -1;
	listing->length = 0;
	listing->skips = false;
}

static void take_line(struct listing *listing, const struct generation *generation, char *line,
    size_t length, int64_t now_ns) {
	struct front_requeue *front = listing->front;
	struct queue_listed listed;
	struct span address, reason;
	int64_t arrival_ns = now_ns;

	if (!queue_list_scan(line, length, &listed))
		return;
	listing->messages++;
	if (listed.arrival_s > 0)
		arrival_ns -= (clock_wall_s() - listed.arrival_s) * NS_PER_SECOND;
	while (queue_list_recipient(&listed, &address, &reason)) {
		if (++listing->recipients % RECIPIENTS_BEAT == 0)
			engine_heartbeat(front->engine, clock_now_ns());
		requeue_list_recipient(front->requeue, generation, listing->mta, listed.queue_id,
		    address, reason, arrival_ns, now_ns);
	}
}

/* Whole lines, and the start of one that does not fit. */
static void take_lines(struct listing *listing, const struct generation *generation,
    int64_t now_ns) {
	char *line = listing->line, *end = line + listing->length, *newline;

	while ((newline = memchr(line, '\n', (size_t)(end - line))) != NULL) {
		if (!listing->skips)
			take_line(listing, generation, line, (size_t)(newline - line), now_ns);
		listing->skips = false;
		line = newline + 1;
	}
	listing->length = (size_t)(end - line);
	if (listing->length == LINE_MAX_BYTES) {
		if (!listing->skips)
			take_line(listing, generation, line, listing->length, now_ns);
		listing->skips = true;
		listing->length = 0;
	}
	memmove(listing->line, line, listing->length);
}

/* One read: the feed has other things to do. */
static void on_list(evutil_socket_t fd, short what, void *argument) {
	struct listing *listing = argument;
	const struct generation *generation;
	ssize_t got = read(fd, listing->line + listing->length, LINE_MAX_BYTES - listing->length);

	(void)what;
	if (got < 0)
		return;
	if (got == 0) {
		close_list(listing);
		list_ended(listing);
		return;
	}
	listing->length += (size_t)got;
	generation = engine_pin(listing->front->engine);
	take_lines(listing, generation, clock_now_ns());
	engine_unpin(listing->front->engine, generation);
}

static void open_list(struct front_requeue *front, unsigned mta, int fd) {
	struct listing *listing;

	if (mta >= GENERATION_MTAS_MAX || front->listings[mta].fd >= 0) {
		close(fd);
		return;
	}
	listing = &front->listings[mta];
	listing->fd = fd;
	listing->messages = 0;
	listing->line = malloc(LINE_MAX_BYTES);
	listing->readable = event_new(front->base, fd, EV_READ | EV_PERSIST, on_list, listing);
	if (listing->line == NULL || listing->readable == NULL ||
	    event_add(listing->readable, NULL) != 0)
		close_list(listing);
}

/* --- answers ----------------------------------------------------------------------- */

static void take_outcome(struct front_requeue *front, const struct mta_outcome *outcome) {
	int64_t now_ns = clock_now_ns();

	if (outcome->mta >= GENERATION_MTAS_MAX)
		return;
	if (outcome->verb == MTA_LIST) {
		front->listings[outcome->mta].told = true;
		front->listings[outcome->mta].code = outcome->code;
		list_ended(&front->listings[outcome->mta]);
	} else if (outcome->verb == MTA_REQUEUE && outcome->code != 0) {
		requeue_flush_failed(front->requeue, outcome->mta, outcome->queue_id, now_ns);
		come_soon(front, now_ns);
	}
}

static void on_answer(evutil_socket_t fd, short what, void *argument) {
	struct front_requeue *front = argument;
	struct mta_outcome outcome;
	int output_fd;

	(void)fd;
	(void)what;
	switch (mta_link_next(&front->link, &outcome, &output_fd)) {
	case MTA_NO_NEWS:
		break;
	case MTA_OUTPUT:
		open_list(front, outcome.mta, output_fd);
		break;
	case MTA_OUTCOME:
		take_outcome(front, &outcome);
		break;
	case MTA_LINK_ENDED:
		front->is_cut_off = true;
		(void)event_del(front->answered);
		(void)event_base_loopbreak(front->base);
		break;
	}
}

void front_requeue_result(struct front_requeue *front, const struct generation *generation,
    const struct requeue_result *result, int64_t now_ns) {
	if (requeue_note(front->requeue, generation, result, now_ns))
		come_soon(front, now_ns);
}

void front_requeue_active(struct front_requeue *front, const struct generation *generation,
    unsigned mta, struct span queue_id, struct span sender) {
	if (requeue_active(front->requeue, generation, mta, queue_id, sender))
		come_soon(front, clock_now_ns());
}

void front_requeue_removed(struct front_requeue *front, unsigned mta, struct span queue_id) {
	if (requeue_removed(front->requeue, mta, queue_id))
		come_soon(front, clock_now_ns());
}

bool front_requeue_is_cut_off(const struct front_requeue *front) {
	return front->is_cut_off;
}

int front_requeue_open(struct front_requeue **result, struct event_base *base,
    struct engine *engine, int mta_fd, struct diag *diag) {
	struct front_requeue *front = calloc(1, sizeof(*front));
	const struct requeue_calls calls = { flush_id, list_queue, tell_return, front };

	*result = NULL;
	if (front == NULL) {
		if (mta_fd >= 0)
			close(mta_fd);
		return diag_set(diag, 0, "no memory for waiting mail");
	}
	front->engine = engine;
	front->base = base;
	front->link.fd = mta_fd;
	for (unsigned i = 0; i < GENERATION_MTAS_MAX; i++)
		front->listings[i] = (struct listing){ .front = front, .mta = i, .fd = -1 };
	front->timer = event_new(base, -1, 0, on_timer, front);
	if (mta_fd >= 0)
		front->answered = event_new(base, mta_fd, EV_READ | EV_PERSIST, on_answer, front);
	if (front->timer == NULL || (mta_fd >= 0 && (front->answered == NULL ||
	    event_add(front->answered, NULL) != 0)) ||
	    requeue_open(&front->requeue, engine, &calls, diag) != 0) {
		front_requeue_close(&front);
		return diag_set(diag, 0, "no memory for waiting mail");
	}
	come_at(front, 0, clock_now_ns());
	*result = front;
	return 0;
}

void front_requeue_close(struct front_requeue **result) {
	struct front_requeue *front = *result;

	if (front == NULL)
		return;
	for (unsigned i = 0; i < GENERATION_MTAS_MAX; i++)
		close_list(&front->listings[i]);
	if (front->answered != NULL)
		event_free(front->answered);
	if (front->timer != NULL)
		event_free(front->timer);
	mta_link_close(&front->link);
	requeue_close(&front->requeue);
	free(front);
	*result = NULL;
}

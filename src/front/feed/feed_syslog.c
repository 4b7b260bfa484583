/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Log lines in datagrams of a syslog daemon.
 * MODEL    A datagram is looked at, dealt with, noted by its number and hash in the
 *          segment, and only then taken from the socket, which outlives us: who comes
 *          after us meets it again, and knows it.  That it was taken is noted, too, so
 *          that a line which is written twice counts twice.
 * ERRORS   What is no line is counted and passed over.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/feed/feed_files.h"
#include "front/feed/feed_internal.h"
#include "front/feed/followed_file.h"
#include "wire/mail/syslog_frame.h"

#define DATAGRAM_MAX	65536
#define AT_ONCE		256	/* datagrams in one turn of the loop */

struct syslog_socket {
	struct feed *feed;
	struct event *ready;
	int fd;
	uint32_t record;
	struct feed_position position;	/* spot: how many, the hash of the last one, and
					 * (skipping) whether it may not be taken yet */
	uint64_t origin;
};

struct feed_syslog {
	struct syslog_socket list[GENERATION_LISTENERS_MAX];
	unsigned count;
	char datagram[DATAGRAM_MAX];
	char scratch[DATAGRAM_MAX + SYSLOG_HEAD_MAX];
};

static void deal_with(struct syslog_socket *s, const char *datagram, size_t length) {
	struct feed *feed = s->feed;
	struct feed_origin origin = { .log = s->origin,
		.offset = s->position.spot.offset + 1 };
	const char *why;
	struct span line;

	if (!syslog_frame_read(datagram, length, feed->syslog->scratch, &line, &why))
		engine_count(feed->engine, COUNTER_FEED_BAD_EVENTS, 1);
	if (line.length > 0)
		(void)feed_text(feed, UINT32_MAX, line, &origin, false);
}

static void note(struct syslog_socket *s, bool untaken) {
	s->position.spot.skipping = untaken;
	s->feed->keeper.move(s->feed->keeper.segment, s->record, &s->position.spot);
}

/* False: there is none, or it is left for the next turn. */
static bool read_one(struct syslog_socket *s) {
	const struct feed_spot *spot = &s->position.spot;
	char *datagram = s->feed->syslog->datagram;
	ssize_t n = recv(s->fd, datagram, DATAGRAM_MAX, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
	uint32_t hash;

	if (n < 0)
		return errno != EAGAIN && errno != EINTR && errno != ENOMEM;
	if (n > DATAGRAM_MAX) {
		s->feed->tally.broken++;	/* longer than any line */
	} else {
		hash = followed_tail(datagram, (size_t)n);
		/* the process before us died between the note and the taking */
		if (!spot->skipping || hash != spot->tail) {
			deal_with(s, datagram, (size_t)n);
			s->position.spot.offset++;
			s->position.spot.tail = hash;
			note(s, true);
		}
	}
	if (recv(s->fd, datagram, 1, MSG_DONTWAIT) < 0)
		return false;
	if (spot->skipping)
		note(s, false);
	return true;
}

static void on_ready(evutil_socket_t fd, short what, void *argument) {
	struct syslog_socket *s = argument;

	(void)fd, (void)what;
	feed_begin(s->feed);
	for (unsigned i = 0; i < AT_ONCE && read_one(s); i++)
		;
	feed_end(s->feed);
}

/* Goes on from the note, or begins one. */
static void find_place(struct syslog_socket *s, const char *address) {
	struct feed_position known[FEED_FILES_MAX];
	uint32_t records[FEED_FILES_MAX];
	uint64_t log = feed_log_id(address);

	if (engine_feed_files(s->feed->engine, log, known, records) > 0) {
		s->position = known[0];
		s->record = records[0];
	} else {
		s->position = (struct feed_position){ .log = log, .inode = log,
			.epoch = (uint32_t)((uint64_t)s->feed->now_ns >> 20) };
		s->record = s->feed->keeper.begin(s->feed->keeper.segment, &s->position);
	}
	s->origin = feed_origin_id(&s->position);
}

int feed_syslog_open(struct feed *feed, struct diag *diag) {
	feed->syslog = calloc(1, sizeof(*feed->syslog));
	return feed->syslog == NULL ? diag_set(diag, 0, "no memory for syslog") : 0;
}

int feed_syslog_listen(struct feed *feed, const struct feed_socket *socket,
    struct diag *diag) {
	struct syslog_socket *s = &feed->syslog->list[feed->syslog->count];
	const struct generation *generation;

	if (feed->syslog->count == GENERATION_LISTENERS_MAX)
		return diag_set(diag, 0, "too many syslog sockets");
	*s = (struct syslog_socket){ .feed = feed, .fd = socket->fd };
	feed->syslog->count++;
	generation = engine_pin(feed->engine);
	if (socket->listener < generation->listener_count)
		find_place(s, generation_text(generation,
		    generation->listeners[socket->listener].address));
	engine_unpin(feed->engine, generation);
	s->ready = event_new(feed->base, s->fd, EV_READ | EV_PERSIST, on_ready, s);
	if (s->ready == NULL || event_add(s->ready, NULL) != 0)
		return diag_set(diag, 0, "cannot wait for datagrams");
	return 0;
}

void feed_syslog_close(struct feed *feed) {
	if (feed->syslog == NULL)
		return;
	for (unsigned i = 0; i < feed->syslog->count; i++) {
		if (feed->syslog->list[i].ready != NULL)
			event_free(feed->syslog->list[i].ready);
		close(feed->syslog->list[i].fd);
	}
	free(feed->syslog);
	feed->syslog = NULL;
}

/* SPDX-License-Identifier: ISC */
/* The loop is level-triggered, but for reading where the owner asked for edges: what was not
 * done in one turn is done in the next. */
#include "front/serve/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOKS_MAX	16	/* who has sent something is about to be read */

static bool stream_watch(struct stream *stream, struct event_base *base, event_callback_fn ready,
    void *owner) {
	short what = stream->writing ? EV_WRITE :
	    stream->by_edges ? EV_READ | EV_CLOSED | EV_ET : EV_READ;

	return event_assign(&stream->event, base, stream->fd, what | EV_PERSIST, ready,
	    owner) == 0 && event_add(&stream->event, NULL) == 0;
}

bool stream_open(struct stream *stream, struct event_base *base, int fd,
    struct stream_list *waiting, event_callback_fn ready, void *owner) {
	*stream = (struct stream){ .waiting = waiting, .fd = fd };
	if (stream_watch(stream, base, ready, owner))
		return true;
	close(fd);
	return false;
}

bool stream_wait_for_edges(struct stream *stream) {
	struct event_base *base = event_get_base(&stream->event);

	if ((event_base_get_features(base) & (EV_FEATURE_ET | EV_FEATURE_EARLY_CLOSE)) !=
	    (EV_FEATURE_ET | EV_FEATURE_EARLY_CLOSE))
		return true;
	stream->by_edges = true;
	event_del(&stream->event);
	if (stream_watch(stream, base, event_get_callback(&stream->event),
		event_get_callback_arg(&stream->event)))
		return true;
	close(stream->fd);
	return false;
}

enum outcome stream_look_again(struct stream *stream) {
	if (!stream->by_edges || stream->writing)
		return GOES_ON;
	/* the kernel looks whether anything is there when an event is added */
	return event_del(&stream->event) == 0 && event_add(&stream->event, NULL) == 0 ?
	    GOES_ON : MUST_CLOSE;
}

void stream_is_new(struct stream *stream, struct stream_list *newcomers) {
	stream->newcomers = newcomers;
	TAILQ_INSERT_TAIL(newcomers, stream, comes);
}

void stream_has_asked(struct stream *stream) {
	if (stream->newcomers == NULL)
		return;
	TAILQ_REMOVE(stream->newcomers, stream, comes);
	stream->newcomers = NULL;
}

void *stream_spare(const struct stream_list *newcomers) {
	const struct stream *stream;
	unsigned looks = 0;
	char byte;

	TAILQ_FOREACH(stream, newcomers, comes) {
		if (recv(stream->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
		    (errno == EAGAIN || errno == EWOULDBLOCK))
			return event_get_callback_arg(&stream->event);
		if (++looks == LOOKS_MAX)
			break;
	}
	return NULL;
}

void stream_wait_begin(struct stream *stream, int64_t now_ns) {
	if (stream->waits_since_ns != 0)
		return;
	stream->waits_since_ns = now_ns;
	TAILQ_INSERT_TAIL(stream->waiting, stream, waits);
}

void stream_wait_end(struct stream *stream) {
	if (stream->waits_since_ns == 0)
		return;
	stream->waits_since_ns = 0;
	TAILQ_REMOVE(stream->waiting, stream, waits);
}

/* Waits for the other direction from now on. */
static enum outcome turn_to(struct stream *stream, bool writing) {
	struct event_base *base = event_get_base(&stream->event);
	event_callback_fn ready = event_get_callback(&stream->event);
	void *owner = event_get_callback_arg(&stream->event);

	if (stream->writing == writing)
		return GOES_ON;
	stream->writing = writing;
	event_del(&stream->event);
	return stream_watch(stream, base, ready, owner) ? GOES_ON : MUST_CLOSE;
}

bool stream_is_passing(int error) {
	return error == EAGAIN || error == EINTR || error == ENOBUFS;
}

enum outcome stream_send(struct stream *stream, const char *data, size_t length,
    int64_t now_ns) {
	ssize_t n = send(stream->fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n == (ssize_t)length)
		return GOES_ON;
	if (n < 0) {
		if (!stream_is_passing(errno))
			return MUST_CLOSE;
		n = 0;
	}
	stream->out_length = length - (size_t)n;
	stream->out_sent = 0;
	stream->out = malloc(stream->out_length);
	if (stream->out == NULL)
		return MUST_CLOSE;
	memcpy(stream->out, data + n, stream->out_length);
	stream_wait_end(stream);
	stream_wait_begin(stream, now_ns);
	return turn_to(stream, true);
}

enum outcome stream_flush(struct stream *stream) {
	ssize_t n = send(stream->fd, stream->out + stream->out_sent,
	    stream->out_length - stream->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0)
		return stream_is_passing(errno) ? GOES_ON : MUST_CLOSE;
	stream->out_sent += (size_t)n;
	if (stream->out_sent < stream->out_length)
		return GOES_ON;
	free(stream->out);
	stream->out = NULL;
	stream_wait_end(stream);
	return turn_to(stream, false);
}

void *stream_overdue(const struct stream_list *waiting, int64_t now_ns,
    int64_t patience_ns) {
	const struct stream *oldest = TAILQ_FIRST(waiting);

	return oldest != NULL && now_ns - oldest->waits_since_ns >= patience_ns ?
	    event_get_callback_arg(&oldest->event) : NULL;
}

void stream_close(struct stream *stream) {
	stream_wait_end(stream);
	stream_has_asked(stream);
	event_del(&stream->event);
	close(stream->fd);
	stream->fd = -1;
	free(stream->out);
	stream->out = NULL;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Sockets of the control server.
 * MODEL    A connection has one request at a time: nothing is read from it while
 *          its answer is being made or sent.  Reloads go to the supervisor in the
 *          order of their coming and are answered in that order; whoever gives up
 *          waiting keeps its place in the queue, so that no answer reaches
 *          another.
 * ERRORS   A malformed frame costs the connection, and is counted.  A supervisor
 *          that breaks the protocol is not asked any more.
 * THREADS  The keeper's one.
 */
#include "front/control.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "front/control_answer.h"

#define CONNECTIONS_MAX	64
#define LISTENERS_MAX	8
#define REQUEST_BYTES	8192		/* a request, its length line included */
#define PENDING_MAX	256		/* reloads that the supervisor was asked for */
#define OUT_BYTES_MAX	(8 * 1024 * 1024)
#define IDLE_NS		(60 * NS_PER_SECOND)
#define RELOAD_NS	(60 * NS_PER_SECOND)
#define FRAME_BYTES	(CONTROL_BODY_MAX + 16)

struct client {
	TAILQ_ENTRY(client) all;
	struct control *control;
	struct event *readable;
	struct event *writable;
	int fd;
	bool operator;
	bool waits;			/* for the supervisor */
	bool last;			/* close when all is sent */
	int64_t since_ns;		/* last progress, or when it began to wait */
	size_t in_length;
	char in[REQUEST_BYTES];
	char *out;
	size_t out_length, out_sent, out_size;
};
TAILQ_HEAD(client_list, client);

struct control {
	struct engine *engine;
	struct event_base *base;
	struct client_list clients;
	unsigned count;
	struct event *listeners[LISTENERS_MAX];
	unsigned listener_count;
	struct event *supervisor;	/* NULL: it cannot be asked */
	int supervisor_fd;
	struct client *pending[PENDING_MAX];	/* NULL: it gave up waiting */
	unsigned pending_first, pending_count;
	size_t in_length;
	char in[FRAME_BYTES];		/* from the supervisor */
	char answer[CONTROL_ANSWER_BYTES];
};

/* --- connections -------------------------------------------------------- */

static void give_up_place(struct client *client) {
	struct control *control = client->control;

	for (unsigned i = 0; i < control->pending_count; i++) {
		unsigned at = (control->pending_first + i) % PENDING_MAX;

		if (control->pending[at] == client)
			control->pending[at] = NULL;
	}
	client->waits = false;
}

static void client_free(struct client *client) {
	struct control *control = client->control;

	give_up_place(client);
	TAILQ_REMOVE(&control->clients, client, all);
	control->count--;
	event_free(client->readable);
	event_free(client->writable);
	close(client->fd);
	free(client->out);
	free(client);
}

static bool client_put(struct client *client, const char *data, size_t length) {
	if (client->out_size - client->out_length < length) {
		size_t size = 2 * client->out_size + length;
		char *larger;

		if (client->out_length + length > OUT_BYTES_MAX)
			return false;
		larger = realloc(client->out, size);
		if (larger == NULL)
			return false;
		client->out = larger;
		client->out_size = size;
	}
	memcpy(client->out + client->out_length, data, length);
	client->out_length += length;
	return true;
}

static bool client_end(struct client *client, int exit_code, const char *error) {
	char frame[1024];
	size_t length = control_answer_end(frame, sizeof(frame), exit_code, error);

	return client_put(client, frame, length);
}

/* Sends what waits.  False: the connection is over (and still allocated). */
static bool client_flush(struct client *client) {
	while (client->out_sent < client->out_length) {
		ssize_t sent = send(client->fd, client->out + client->out_sent,
		    client->out_length - client->out_sent,
		    MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN)
			return event_add(client->writable, NULL) == 0;
		if (sent < 0)
			return false;
		client->out_sent += (size_t)sent;
		client->since_ns = clock_now_ns();
	}
	free(client->out);
	client->out = NULL;
	client->out_length = client->out_sent = client->out_size = 0;
	return !client->last;
}

static bool serve_all(struct client *client);

/* Goes on with what came meanwhile, when nothing waits any more. */
static void client_resume(struct client *client) {
	if (client->out != NULL || client->waits)
		return;
	if (!serve_all(client) || event_add(client->readable, NULL) != 0)
		client_free(client);
}

/* --- the supervisor ------------------------------------------------------ */

static void supervisor_lost(struct control *control, const char *why) {
	struct client *client, *next;

	if (control->supervisor == NULL)
		return;
	log_event(EVENT_SYSTEM, "from=control text=\"%s\"", why);
	event_free(control->supervisor);
	control->supervisor = NULL;
	control->pending_count = 0;
	for (client = TAILQ_FIRST(&control->clients); client != NULL;
	     client = next) {
		next = TAILQ_NEXT(client, all);
		if (!client->waits)
			continue;
		client->waits = false;
		if (!client_end(client, EX_UNAVAILABLE,
			"the supervisor cannot be asked") ||
		    !client_flush(client))
			client_free(client);
		else
			client_resume(client);
	}
}

/* Asks for a reload in the client's name, or tells it why not. */
static void ask_supervisor(struct client *client) {
	static const char request[] = "15\ncommand=reload\n";
	struct control *control = client->control;

	_Static_assert(sizeof("command=reload\n") - 1 == 15, "its length line");
	if (control->supervisor == NULL ||
	    control->pending_count == PENDING_MAX ||
	    send(control->supervisor_fd, request, sizeof(request) - 1,
		MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(request) - 1) {
		if (!client_end(client, EX_UNAVAILABLE,
			"the supervisor cannot be asked now"))
			client->last = true;
		return;
	}
	control->pending[(control->pending_first + control->pending_count) %
	    PENDING_MAX] = client;
	control->pending_count++;
	client->waits = true;
	client->since_ns = clock_now_ns();
}

/* One frame of the supervisor's answer goes to whoever is first in the queue. */
static bool relay(struct control *control, const struct control_frame *frame) {
	struct control_writer writer;
	struct client *client;
	bool end = control_frame_get(frame, "end") != NULL;
	size_t length;

	if (control->pending_count == 0)
		return false;
	client = control->pending[control->pending_first];
	if (end) {
		control->pending_first = (control->pending_first + 1) % PENDING_MAX;
		control->pending_count--;
	}
	if (client == NULL)
		return true;
	control_writer_begin(&writer, control->answer, sizeof(control->answer));
	for (size_t i = 0; i < frame->count; i++)
		control_writer_add(&writer, frame->fields[i].key, "%s",
		    frame->fields[i].value);
	length = control_writer_finish(&writer);
	if (end)
		client->waits = false;
	if (!client_put(client, control->answer, length) || !client_flush(client))
		client_free(client);
	else
		client_resume(client);
	return true;
}

static void on_supervisor(evutil_socket_t fd, short what, void *context) {
	struct control *control = context;
	struct control_frame frame;
	const char *why = "";
	size_t used = 0;
	long step = 0;
	ssize_t got = recv(fd, control->in + control->in_length,
	    sizeof(control->in) - control->in_length, MSG_DONTWAIT);

	(void)what;
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		supervisor_lost(control, "the supervisor hung up");
		return;
	}
	control->in_length += (size_t)got;
	while ((step = control_frame_parse(control->in + used,
	    control->in_length - used, &frame, &why)) > 0) {
		used += (size_t)step;
		if (!relay(control, &frame)) {
			supervisor_lost(control,
			    "the supervisor answered what was not asked");
			return;
		}
	}
	if (step < 0) {
		supervisor_lost(control, why);
		return;
	}
	control->in_length -= used;
	memmove(control->in, control->in + used, control->in_length);
}

/* --- requests ------------------------------------------------------------ */

static void report_malformed(const struct client *client, const char *why) {
	engine_count(client->control->engine, COUNTER_BAD_CONTROL_FRAMES, 1);
	log_event(EVENT_BAD_REQUEST, "from=control text=\"%s\" action=close", why);
}

static bool speaks_our_protocol(const struct control_frame *frame) {
	const char *protocol = control_frame_get(frame, "protocol");
	uint32_t number;

	return protocol == NULL || (text_to_u32(protocol, strlen(protocol),
	    UINT32_MAX, &number) && number == CONTROL_PROTOCOL);
}

/* False: the connection is over. */
static bool serve(struct client *client, const struct control_frame *frame) {
	struct control *control = client->control;
	size_t length;

	if (!speaks_our_protocol(frame)) {
		client->last = true;
		return client_end(client, EX_PROTOCOL,
		    "the daemon speaks another protocol");
	}
	if (control_frame_get(frame, "command") == NULL)
		return true;	/* a greeting alone */
	switch (control_answer(control->engine, frame, client->operator,
	    control->answer, &length)) {
	case CONTROL_REQUEST_RELOAD:
		ask_supervisor(client);
		break;
	case CONTROL_REQUEST_ANSWERED:
		return client_put(client, control->answer, length);
	}
	return true;
}

/* Serves the requests that came whole, one after the other.  False: the
 * connection is over. */
static bool serve_all(struct client *client) {
	struct control_frame frame;
	const char *why = "";
	size_t used;
	long step;

	for (used = 0; !client->waits && !client->last && client->out == NULL;
	     used += (size_t)step) {
		step = control_frame_parse(client->in + used,
		    client->in_length - used, &frame, &why);
		if (step == 0 && used == 0 && client->in_length == REQUEST_BYTES) {
			step = -1;
			why = "the request is too long";
		}
		if (step < 0) {
			report_malformed(client, why);
			client->last = true;
			(void)client_end(client, EX_PROTOCOL, why);
			step = (long)(client->in_length - used);
		} else if (step == 0) {
			break;
		} else if (!serve(client, &frame)) {
			return false;
		}
		if (client->out != NULL && !client_flush(client))
			return false;
	}
	client->in_length -= used;
	memmove(client->in, client->in + used, client->in_length);
	return true;
}

static void on_readable(evutil_socket_t fd, short what, void *context) {
	struct client *client = context;
	ssize_t got;

	(void)what;
	if (client->waits || client->out != NULL ||
	    client->in_length == REQUEST_BYTES) {
		(void)event_del(client->readable); /* client_resume adds it */
		return;
	}
	got = recv(fd, client->in + client->in_length,
	    REQUEST_BYTES - client->in_length, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		client_free(client);
		return;
	}
	client->since_ns = clock_now_ns();
	client->in_length += (size_t)got;
	if (!serve_all(client))
		client_free(client);
}

static void on_writable(evutil_socket_t fd, short what, void *context) {
	struct client *client = context;

	(void)fd;
	(void)what;
	if (client_flush(client))
		client_resume(client);
	else
		client_free(client);
}

/* --- life ----------------------------------------------------------------- */

static bool is_operator(int fd) {
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
	    length == sizeof(peer) && peer.pid > 0 &&
	    (peer.uid == 0 || peer.uid == geteuid());
}

static bool client_open(struct control *control, int fd) {
	struct client *client = calloc(1, sizeof(*client));
	char hello[256];

	if (client == NULL)
		return false;
	client->control = control;
	client->fd = fd;
	client->operator = is_operator(fd);
	client->since_ns = clock_now_ns();
	client->readable = event_new(control->base, fd, EV_READ | EV_PERSIST,
	    on_readable, client);
	client->writable = event_new(control->base, fd, EV_WRITE, on_writable,
	    client);
	TAILQ_INSERT_TAIL(&control->clients, client, all);
	control->count++;
	if (client->readable == NULL || client->writable == NULL ||
	    event_add(client->readable, NULL) != 0 ||
	    !client_put(client, hello, control_answer_hello(hello,
		sizeof(hello))) ||
	    !client_flush(client)) {
		client->fd = -1; /* the caller's */
		client_free(client);
		return false;
	}
	return true;
}

static void on_connection(evutil_socket_t listener, short what, void *context) {
	struct control *control = context;
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)what;
	if (fd < 0)
		return;
	if (control->count >= CONNECTIONS_MAX) {
		log_event(EVENT_CLIENT_LIMIT,
		    "from=control text=\"too many connections\" limit=%d",
		    CONNECTIONS_MAX);
		close(fd);
	} else if (!client_open(control, fd)) {
		close(fd);
	}
}

int control_open(struct control **result, struct event_base *base,
    struct engine *engine, int supervisor_fd, struct diag *diag) {
	struct control *control = calloc(1, sizeof(*control));

	*result = NULL;
	if (control == NULL)
		return diag_set(diag, 0, "no memory for the control server");
	control->engine = engine;
	control->base = base;
	control->supervisor_fd = supervisor_fd;
	TAILQ_INIT(&control->clients);
	if (supervisor_fd >= 0) {
		control->supervisor = event_new(base, supervisor_fd,
		    EV_READ | EV_PERSIST, on_supervisor, control);
		if (control->supervisor == NULL ||
		    event_add(control->supervisor, NULL) != 0) {
			control_close(&control);
			return diag_set(diag, 0, "no memory for an event");
		}
	}
	*result = control;
	return 0;
}

void control_close(struct control **control) {
	struct client *client;

	if (*control == NULL)
		return;
	while ((client = TAILQ_FIRST(&(*control)->clients)) != NULL)
		client_free(client);
	for (unsigned i = 0; i < (*control)->listener_count; i++) {
		close(event_get_fd((*control)->listeners[i]));
		event_free((*control)->listeners[i]);
	}
	if ((*control)->supervisor != NULL)
		event_free((*control)->supervisor);
	if ((*control)->supervisor_fd >= 0)
		close((*control)->supervisor_fd);
	free(*control);
	*control = NULL;
}

int control_listen(struct control *control, int fd, struct diag *diag) {
	struct event *event;

	if (control->listener_count == LISTENERS_MAX)
		return diag_set(diag, 0, "more than %d control sockets",
		    LISTENERS_MAX);
	event = event_new(control->base, fd, EV_READ | EV_PERSIST, on_connection,
	    control);
	if (event == NULL || event_add(event, NULL) != 0) {
		if (event != NULL)
			event_free(event);
		return diag_set(diag, 0, "no memory for an event");
	}
	control->listeners[control->listener_count++] = event;
	return 0;
}

void control_second(struct control *control, int64_t now_ns) {
	struct client *client, *next;

	for (client = TAILQ_FIRST(&control->clients); client != NULL;
	     client = next) {
		next = TAILQ_NEXT(client, all);
		if (client->waits) {
			if (now_ns - client->since_ns < RELOAD_NS)
				continue;
			give_up_place(client);
			client->last = true;
			if (!client_end(client, EX_TEMPFAIL,
				"the supervisor does not answer") ||
			    !client_flush(client))
				client_free(client);
		} else if (now_ns - client->since_ns >= IDLE_NS) {
			client_free(client);
		}
	}
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Sockets of the control server.
 * MODEL    A connection has one request at a time: nothing is read from it while
 *          its answer is being made or sent.
 * ERRORS   A malformed frame costs the connection, and is counted.  Of too many connections
 *          the one goes that has been idle longest among those that may least; whoever may
 *          less than all of them is not let in.
 * THREADS  The keeper's one.
 */
#include "front/control/control_internal.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#define CONNECTIONS_MAX	256
#define COMMAND_LOGGED	64
#define OUT_BYTES_MAX	(8 * 1024 * 1024)
#define IDLE_NS		(60 * NS_PER_SECOND)
#define RELOAD_NS	(60 * NS_PER_SECOND)

/* --- connections -------------------------------------------------------- */

void client_free(struct client *client) {
	struct control *control = client->control;

	if (control->gone != NULL)
		control->gone(client);
	TAILQ_REMOVE(&control->clients, client, all);
	control->count--;
	if (client->readable != NULL)
		event_free(client->readable);
	if (client->writable != NULL)
		event_free(client->writable);
	if (client->fd >= 0)
		close(client->fd);
	free(client->out);
	free(client);
}

static bool client_has_room(const struct client *client, size_t length) {
	return client->out_length + length <= client->control->out_most;
}

bool client_put(struct client *client, const char *data, size_t length) {
	if (client->out_size - client->out_length < length) {
		size_t size = 2 * client->out_size + length;
		char *larger;

		if (!client_has_room(client, length))
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

bool client_end(struct client *client, int exit_code, const char *error) {
	char frame[1024];
	size_t length = control_answer_end(frame, sizeof(frame), exit_code, error);

	return client_put(client, frame, length);
}

bool client_flush(struct client *client) {
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

void client_resume(struct client *client) {
	if (client->out != NULL || client->waits)
		return;
	if (!serve_all(client) || event_add(client->readable, NULL) != 0)
		client_free(client);
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

void control_log_forbidden(const struct client *client, const char *command) {
	char quoted[COMMAND_LOGGED];

	log_event(EVENT_FORBIDDEN, "from=control uid=%ld command=%s action=refuse",
	    (long)(int32_t)client->uid, log_quote(quoted, sizeof(quoted), command,
	    strlen(command)));
}

/* False: the connection is over. */
static bool serve(struct client *client, const struct control_frame *frame) {
	char text[256];

	if (!speaks_our_protocol(frame)) {
		client->last = true;
		return client_end(client, EX_PROTOCOL,
		    "the daemon uses another protocol version");
	}
	if (control_frame_get(frame, "command") == NULL)
		return true;	/* a greeting alone */
	if (client->permission == CONTROL_STRANGER) {
		control_log_forbidden(client, control_frame_get(frame, "command"));
		return client_end(client, EX_NOPERM, control_refusal(client->access,
		    CONTROL_READER, text, sizeof(text)));
	}
	return client->control->serve(client, frame);
}

/* The keeper's answers. */
static bool serve_keeper(struct client *client, const struct control_frame *frame) {
	struct control *control = client->control;
	int64_t began_ns = clock_now_ns();
	size_t length;

	switch (control_answer(control->engine, frame, client, control->answer,
	    &length)) {
	case CONTROL_REQUEST_RELOAD:
		client_reload(client);
		break;
	case CONTROL_REQUEST_ANSWERED:
		(void)engine_timed(control->engine, TIMING_CONTROL, 1, began_ns);
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
		if (step == 0 && used == 0 && client->in_length == CONTROL_REQUEST_BYTES) {
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
	    client->in_length == CONTROL_REQUEST_BYTES) {
		(void)event_del(client->readable); /* client_resume adds it */
		return;
	}
	got = recv(fd, client->in + client->in_length,
	    CONTROL_REQUEST_BYTES - client->in_length, MSG_DONTWAIT);
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

static bool client_open(const struct control_door *door, int fd,
    enum control_permission permission, uid_t uid) {
	struct control *control = door->control;
	struct client *client = calloc(1, sizeof(*client));
	char hello[256];

	if (client == NULL)
		return false;
	client->control = control;
	client->fd = fd;
	client->access = door->access;
	client->permission = permission;
	client->uid = uid;
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

/* Is `a` the better one to go?  Who waits for the supervisor, or has not read all, stays
 * rather than who does nothing. */
static bool goes_before(const struct client *a, const struct client *b) {
	bool a_idle = !a->waits && a->out == NULL, b_idle = !b->waits && b->out == NULL;

	if (a->permission != b->permission)
		return a->permission < b->permission;
	if (a_idle != b_idle)
		return a_idle;
	return a->since_ns < b->since_ns;
}

/* False: all may more than the new one. */
static bool make_room(struct control *control, enum control_permission permission) {
	struct client *client, *first = NULL;

	TAILQ_FOREACH(client, &control->clients, all)
		if (first == NULL || goes_before(client, first))
			first = client;
	if (first == NULL || first->permission > permission)
		return false;
	client_free(first);
	return true;
}

/* No descriptors or memory: level-triggered events would come at once again. */
static void pause_accepting(struct control *control, int error) {
	log_event(EVENT_SYSTEM, "from=control text=\"cannot accept: %s\"",
	    strerror(error));
	control->pausing = true;
	for (unsigned i = 0; i < control->door_count; i++)
		(void)event_del(control->doors[i].event);
}

static void resume_accepting(struct control *control) {
	control->pausing = false;
	for (unsigned i = 0; i < control->door_count; i++)
		(void)event_add(control->doors[i].event, NULL);
}

static void on_connection(evutil_socket_t listener, short what, void *context) {
	const struct control_door *door = context;
	struct control *control = door->control;
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	enum control_permission permission;
	uid_t uid;

	(void)what;
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
		    errno == ENOMEM)
			pause_accepting(control, errno);
		return;
	}
	permission = control_permission_of(fd, door->access, &uid);
	if (control->count >= CONNECTIONS_MAX) {
		log_event(EVENT_CLIENT_LIMIT,
		    "from=control text=\"too many connections\" limit=%d",
		    CONNECTIONS_MAX);
		if (!make_room(control, permission)) {
			close(fd);
			return;
		}
	}
	if (!client_open(door, fd, permission, uid))
		close(fd);
}

int control_begin(struct control **result, struct event_base *base,
    struct engine *engine, control_serve_fn *serve_one, struct diag *diag) {
	struct control *control = calloc(1, sizeof(*control));

	*result = control;
	if (control == NULL)
		return diag_set(diag, 0, "no memory for the control server");
	control->engine = engine;
	control->base = base;
	control->serve = serve_one;
	control->out_most = OUT_BYTES_MAX;
	TAILQ_INIT(&control->clients);
	return 0;
}

int control_open(struct control **control, struct event_base *base,
    struct engine *engine, control_reload_fn *reload, void *context, struct diag *diag) {
	if (control_begin(control, base, engine, serve_keeper, diag) != 0)
		return -1;
	(*control)->reload = reload;
	(*control)->reload_context = context;
	return 0;
}

void control_close(struct control **control) {
	struct client *client;

	if (*control == NULL)
		return;
	while ((client = TAILQ_FIRST(&(*control)->clients)) != NULL)
		client_free(client);
	for (unsigned i = 0; i < (*control)->door_count; i++) {
		close(event_get_fd((*control)->doors[i].event));
		event_free((*control)->doors[i].event);
	}
	free(*control);
	*control = NULL;
}

int control_listen(struct control *control, int fd, const struct control_access *access,
    struct diag *diag) {
	static const struct control_access nothing = { .has_readers = false };
	struct control_door *door = &control->doors[control->door_count];

	if (control->door_count == GENERATION_LISTENERS_MAX)
		return diag_set(diag, 0, "more than %d control sockets",
		    GENERATION_LISTENERS_MAX);
	door->control = control;
	door->access = access != NULL ? access : &nothing;
	door->event = event_new(control->base, fd, EV_READ | EV_PERSIST, on_connection, door);
	if (door->event == NULL || event_add(door->event, NULL) != 0) {
		if (door->event != NULL)
			event_free(door->event);
		return diag_set(diag, 0, "no memory for an event");
	}
	control->door_count++;
	return 0;
}

void control_second(struct control *control, int64_t now_ns) {
	struct client *client, *next;

	if (control->pausing)
		resume_accepting(control);
	for (client = TAILQ_FIRST(&control->clients); client != NULL;
	     client = next) {
		next = TAILQ_NEXT(client, all);
		if (client->waits) {
			if (now_ns - client->since_ns < RELOAD_NS)
				continue;
			client->waits = false;
			client->last = true;
			if (!client_end(client, EX_TEMPFAIL,
				"the supervisor does not answer") ||
			    !client_flush(client))
				client_free(client);
		} else if (now_ns - client->since_ns >= IDLE_NS) {
			client_free(client);
		}
	}
	control_reload_turn(control);
}

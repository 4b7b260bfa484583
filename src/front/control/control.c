/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Sockets of the control server.
 * MODEL    A connection has one request at a time: nothing is read from it while
 *          its answer is being made or sent.
 * ERRORS   A malformed frame costs the connection, and is counted.  Of too many connections
 *          the one goes that has been idle longest among those that may least, which may be
 *          the new one.
 * THREADS  The keeper's one.
 */
#include "front/control/control_internal.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "front/serve/service.h"

#define CONNECTIONS_MAX	256
#define OUT_BYTES_MAX	(8 * 1024 * 1024)
#define PATIENCE_NS	(60 * NS_PER_SECOND)	/* of idle ones, and of a reload */

/* --- connections -------------------------------------------------------- */

void client_free(struct client *client) {
	service_end(client);
}

void client_progressed(struct client *client) {
	stream_wait_end(&client->stream);
	stream_wait_begin(&client->stream, clock_now_ns());
}

static bool client_is_sending(const struct client *client) {
	return client->out != NULL || client->stream.out != NULL;
}

bool client_put(struct client *client, const char *data, size_t length) {
	size_t end = client->out_length + length;

	if (client->stream.out_length + end > client->control->out_most ||
	    !array_grow(&client->out, &client->out_size, end, 1))
		return false;
	memcpy(client->out + client->out_length, data, length);
	client->out_length = end;
	return true;
}

bool client_end(struct client *client, int exit_code, const char *error) {
	char frame[1024];
	size_t length = control_answer_end(frame, sizeof(frame), exit_code, error);

	return client_put(client, frame, length);
}

bool client_flush(struct client *client) {
	enum outcome outcome = GOES_ON;

	if (client->stream.out != NULL)
		return true;
	if (client->out != NULL)
		outcome = stream_send(&client->stream, client->out, client->out_length,
		    clock_now_ns());
	free(client->out);
	client->out = NULL;
	client->out_length = client->out_size = 0;
	return outcome == GOES_ON && (client->stream.out != NULL || !client->last);
}

static bool serve_all(struct client *client);

void client_resume(struct client *client) {
	if (client_is_sending(client) || client->waits)
		return;
	if (!serve_all(client) || event_add(&client->stream.event, NULL) != 0)
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

/* False: the connection is over. */
static bool client_serve(struct client *client, const struct control_frame *frame) {
	char text[256];

	if (!speaks_our_protocol(frame)) {
		client->last = true;
		return client_end(client, EX_PROTOCOL,
		    "the daemon uses another protocol version");
	}
	if (control_frame_get(frame, "command") == NULL)
		return true;	/* a greeting alone */
	if (client->peer.permission == CONTROL_STRANGER)
		return client_end(client, EX_NOPERM, control_refusal(&client->peer,
		    control_frame_get(frame, "command"), CONTROL_READER, text, sizeof(text)));
	return client->control->serve(client, frame);
}

/* The keeper's answers. */
static bool serve_keeper(struct client *client, const struct control_frame *frame) {
	struct control *control = client->control;
	int64_t began_ns = clock_now_ns();
	size_t length;

	switch (control_answer(control->engine, frame, &client->peer, control->answer,
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

	for (used = 0; !client->waits && !client->last && !client_is_sending(client);
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
		} else if (!client_serve(client, &frame)) {
			return false;
		}
		if (client->out != NULL && !client_flush(client))
			return false;
	}
	client->in_length -= used;
	memmove(client->in, client->in + used, client->in_length);
	return true;
}

static void client_read(struct client *client) {
	ssize_t got;

	if (client->waits || client_is_sending(client) ||
	    client->in_length == CONTROL_REQUEST_BYTES) {
		(void)event_del(&client->stream.event); /* client_resume adds it */
		return;
	}
	got = recv(client->stream.fd, client->in + client->in_length,
	    CONTROL_REQUEST_BYTES - client->in_length, MSG_DONTWAIT);
	if (got < 0 && stream_is_passing(errno))
		return;
	if (got <= 0) {
		client_free(client);
		return;
	}
	client_progressed(client);
	client->in_length += (size_t)got;
	if (!serve_all(client))
		client_free(client);
}

static void client_write(struct client *client) {
	bool lives = stream_flush(&client->stream) == GOES_ON && client_flush(client);

	client_progressed(client);
	if (lives)
		client_resume(client);
	else
		client_free(client);
}

static void on_event(evutil_socket_t fd, short what, void *connection) {
	struct client *client = connection;

	(void)fd, (void)what;
	if (client->stream.writing)
		client_write(client);
	else
		client_read(client);
}

/* --- life ----------------------------------------------------------------- */

static void client_begins(void *context, void *connection) {
	struct client *client = connection;
	struct control *control = context;
	char hello[256];

	client->control = control;
	client->peer = control_peer_of(client->stream.fd,
	    control->accesses[client->stream.listener]);
	if (!client_put(client, hello, control_answer_hello(hello, sizeof(hello))) ||
	    !client_flush(client))
		client_free(client);
}

static bool client_ends(void *connection) {
	struct client *client = connection;

	if (client->control->gone != NULL)
		client->control->gone(client);
	free(client->out);
	return true;
}

static void client_stalled(void *connection) {
	struct client *client = connection;

	if (client->waits && client_end(client, EX_TEMPFAIL, "the supervisor does not answer"))
		(void)client_flush(client);
}

/* Is `a` the better one to go?  Who waits for the supervisor, or has not read all, stays
 * rather than who does nothing. */
static bool goes_before(const struct client *a, const struct client *b) {
	bool a_idle = !a->waits && !client_is_sending(a);
	bool b_idle = !b->waits && !client_is_sending(b);

	if (a->peer.permission != b->peer.permission)
		return a->peer.permission < b->peer.permission;
	if (a_idle != b_idle)
		return a_idle;
	return a->stream.waits_since_ns < b->stream.waits_since_ns;
}

static void *client_spared(const struct stream_list *connections) {
	struct stream *stream;
	struct client *first = NULL;

	TAILQ_FOREACH(stream, connections, all) {
		struct client *client = (struct client *)stream;

		if (first == NULL || goes_before(client, first))
			first = client;
	}
	return first;
}

static const struct service_calls calls = { .name = "control", .size = sizeof(struct client),
	.begin = client_begins, .ready = on_event, .end = client_ends,
	.stalled = client_stalled, .patience_ns = PATIENCE_NS, .waits_first = true,
	.most = CONNECTIONS_MAX, .spare = client_spared };

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
	if (service_open(&control->service, base, engine, &calls, control, diag) == 0)
		return 0;
	control_close(result);
	return -1;
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
	if (*control == NULL)
		return;
	service_close(&(*control)->service);
	free(*control);
	*control = NULL;
}

int control_listen(struct control *control, int fd, const struct control_access *access,
    struct diag *diag) {
	static const struct control_access nothing = { .has_readers = false };
	unsigned listener = control->listening_count;

	if (service_listen(control->service, fd, (uint8_t)listener, diag) != 0)
		return -1;
	control->accesses[listener] = access != NULL ? access : &nothing;
	control->listening_count++;
	return 0;
}

void control_second(struct control *control, int64_t now_ns) {
	service_second(control->service, now_ns);
	control_reload_turn(control);
}

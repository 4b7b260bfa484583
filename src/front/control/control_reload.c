/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The control server's way to the supervisor, for reloads and the gate.
 * MODEL    Requests go to the supervisor in the order of their coming and are
 *          answered in that order; whoever gives up waiting keeps its place in the
 *          queue, so that no answer reaches another.
 * ERRORS   A supervisor that hangs up or breaks the protocol is not asked any more:
 *          the loop ends, as the keeper that is started in our place has a new stream.
 * THREADS  The keeper's one.
 */
#include "front/control/control_internal.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/log.h"

void reload_give_up(struct client *client) {
	struct control *control = client->control;

	for (unsigned i = 0; i < control->pending_count; i++) {
		unsigned at = (control->pending_first + i) % CONTROL_PENDING_MAX;

		if (control->pending[at] == client)
			control->pending[at] = NULL;
	}
	client->waits = false;
}

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
			"cannot send a request to the supervisor") ||
		    !client_flush(client))
			client_free(client);
		else
			client_resume(client);
	}
	(void)event_base_loopbreak(control->base);
}

void reload_ask(struct client *client) {
	static const char request[] = "15\ncommand=reload\n";
	struct control *control = client->control;

	_Static_assert(sizeof("command=reload\n") - 1 == 15, "its length line");
	if (control->supervisor == NULL ||
	    control->pending_count == CONTROL_PENDING_MAX ||
	    send(control->supervisor_fd, request, sizeof(request) - 1,
		MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(request) - 1) {
		if (!client_end(client, EX_UNAVAILABLE,
			"cannot send a request to the supervisor now"))
			client->last = true;
		return;
	}
	control->pending[(control->pending_first + control->pending_count) %
	    CONTROL_PENDING_MAX] = client;
	control->pending_count++;
	client->waits = true;
	client->since_ns = clock_now_ns();
}

void control_tell_gate(struct control *control, bool shut) {
	static const char shuts[] = "23\ncommand=gate\ngate=shut\n";
	static const char opens[] = "23\ncommand=gate\ngate=open\n";
	ssize_t sent;

	_Static_assert(sizeof("command=gate\ngate=shut\n") - 1 == 23 &&
	    sizeof(shuts) == sizeof(opens), "its length line");
	if (control->supervisor == NULL)
		return;
	/* so small a message goes as a whole or not at all */
	sent = send(control->supervisor_fd, shut ? shuts : opens,
	    sizeof(shuts) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent > 0 && sent != (ssize_t)sizeof(shuts) - 1)
		supervisor_lost(control, "incomplete request");
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
		control->pending_first = (control->pending_first + 1) % CONTROL_PENDING_MAX;
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
		supervisor_lost(control, "the supervisor closed the connection");
		return;
	}
	control->in_length += (size_t)got;
	while ((step = control_frame_parse(control->in + used,
	    control->in_length - used, &frame, &why)) > 0) {
		used += (size_t)step;
		if (!relay(control, &frame)) {
			supervisor_lost(control,
			    "unexpected answer of the supervisor");
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

int reload_open(struct control *control, struct diag *diag) {
	control->supervisor = event_new(control->base, control->supervisor_fd,
	    EV_READ | EV_PERSIST, on_supervisor, control);
	if (control->supervisor == NULL || event_add(control->supervisor, NULL) != 0)
		return diag_set(diag, 0, "no memory for an event");
	return 0;
}

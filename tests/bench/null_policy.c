/* SPDX-License-Identifier: ISC */
/*
 * A policy server on libevent that answers DUNNO to every request without
 * reading it: what one event loop can reach at best.  Plain events, read and
 * send, one thread.  usage: null_policy unix:/path
 */
#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct client {
	struct event *event;
	size_t length;
	char buffer[16384];
};

static void client_free(struct client *client) {
	close(event_get_fd(client->event));
	event_free(client->event);
	free(client);
}

static void readable(evutil_socket_t fd, short what, void *context) {
	static const char reply[] = "action=DUNNO\n\n";
	struct client *client = context;
	ssize_t got = read(fd, client->buffer + client->length,
	    sizeof client->buffer - client->length);
	char *end;

	(void)what;
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		client_free(client);
		return;
	}
	client->length += (size_t)got;
	while ((end = memmem(client->buffer, client->length, "\n\n", 2)) != NULL) {
		size_t used = (size_t)(end - client->buffer) + 2;

		if (send(fd, reply, sizeof reply - 1, MSG_NOSIGNAL) != sizeof reply - 1) {
			client_free(client);
			return;
		}
		client->length -= used;
		if (client->length > 0)
			memmove(client->buffer, client->buffer + used, client->length);
	}
	if (client->length == sizeof client->buffer)
		client_free(client);
}

static void accepted(struct evconnlistener *listener, evutil_socket_t fd,
    struct sockaddr *address, int length, void *context) {
	struct client *client = calloc(1, sizeof *client);

	(void)address, (void)length, (void)context;
	if (client == NULL) {
		close(fd);
		return;
	}
	client->event = event_new(evconnlistener_get_base(listener), fd, EV_READ | EV_PERSIST,
	    readable, client);
	event_add(client->event, NULL);
}

int main(int argc, char **argv) {
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct event_base *base = event_base_new();
	const char *path = argc == 2 && strncmp(argv[1], "unix:", 5) == 0 ? argv[1] + 5 : "";

	if (base == NULL || *path == '\0' || strlen(path) >= sizeof address.sun_path) {
		fprintf(stderr, "usage: null_policy unix:/path\n");
		return 64;
	}
	memcpy(address.sun_path, path, strlen(path));
	unlink(path);
	if (evconnlistener_new_bind(base, accepted, NULL,
	    LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 1024,
	    (struct sockaddr *)&address, (int)sizeof address) == NULL) {
		perror(path);
		return 1;
	}
	return event_base_dispatch(base) == 0 ? 0 : 1;
}

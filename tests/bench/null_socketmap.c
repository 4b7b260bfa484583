/* SPDX-License-Identifier: ISC */
/*
 * A socketmap server on libevent that answers NOTFOUND to every request without
 * looking at it: what one event loop can reach at best.  Plain events, read and send,
 * one thread.  With "-" it serves its standard streams, as a program of spawn(8) does.
 * usage: null_socketmap unix:/path|-
 */
#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <stdbool.h>
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

/* Length of the netstring at the start; 0: it is not whole, -1: it is none. */
static long netstring(const char *text, size_t length) {
	size_t at = 0, inside = 0;

	for (; at < length && text[at] >= '0' && text[at] <= '9' && at < 6; at++)
		inside = inside * 10 + (size_t)(text[at] - '0');
	if (at == length)
		return 0;
	if (at == 0 || text[at] != ':')
		return -1;
	if (length - at < inside + 2)
		return 0;
	return text[at + 1 + inside] == ',' ? (long)(at + inside + 2) : -1;
}

static const char reply[] = "9:NOTFOUND ,";

static int serve_streams(void) {
	static char buffer[16384];
	size_t length = 0;
	ssize_t got;
	long used;

	while ((got = read(STDIN_FILENO, buffer + length, sizeof buffer - length)) > 0) {
		length += (size_t)got;
		while ((used = netstring(buffer, length)) > 0) {
			if (write(STDOUT_FILENO, reply, sizeof reply - 1) != sizeof reply - 1)
				return 1;
			length -= (size_t)used;
			memmove(buffer, buffer + used, length);
		}
		if (used < 0)
			return 1;
	}
	return 0;
}

static void readable(evutil_socket_t fd, short what, void *context) {
	struct client *client = context;
	ssize_t got = read(fd, client->buffer + client->length,
	    sizeof client->buffer - client->length);
	long used;

	(void)what;
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		client_free(client);
		return;
	}
	client->length += (size_t)got;
	while ((used = netstring(client->buffer, client->length)) > 0) {
		if (send(fd, reply, sizeof reply - 1, MSG_NOSIGNAL) != sizeof reply - 1) {
			client_free(client);
			return;
		}
		client->length -= (size_t)used;
		if (client->length > 0)
			memmove(client->buffer, client->buffer + used, client->length);
	}
	if (used < 0 || client->length == sizeof client->buffer)
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
	bool streams = argc == 2 && strcmp(argv[1], "-") == 0;
	struct event_base *base = streams ? NULL : event_base_new();
	const char *path = argc == 2 && strncmp(argv[1], "unix:", 5) == 0 ? argv[1] + 5 : "";

	if (streams)
		return serve_streams();
	if (base == NULL || *path == '\0' || strlen(path) >= sizeof address.sun_path) {
		fprintf(stderr, "usage: null_socketmap unix:/path\n");
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

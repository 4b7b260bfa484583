/* SPDX-License-Identifier: ISC */
/*
 * bench_release: how long a slot stays taken after its connection has ended.
 *	bench_release POLICY-SOCKET STATE-FILE PORT ROUNDS
 * Real TCP connections to a listener of our own on 127.0.0.1:PORT, announced by
 * the policy protocol as smtpd would, then closed, one after the other; the
 * segment is watched until the class count is back.  A daemon must be running
 * with a class that counts 127.0.0.0/8.  The last question of a policy
 * connection stays open, as with an idle smtpd: only the kernel's table can
 * tell the end.  Prints release_p50_us, release_p99_us, release_max_us.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "segment/reader.h"

#define GIVE_UP_NS INT64_C(20000000000)

static void fail(const char *what) {
	fprintf(stderr, "bench_release: %s: %s\n", what, errno ? strerror(errno) : "failed");
	exit(1);
}

static int64_t now_ns(void) {
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void add_open(void *sum, const struct reader_class *class) {
	*(uint32_t *)sum += class->open;
}

static uint32_t open_sessions(const struct segment *reader) {
	uint32_t sum = 0;

	(void)reader_classes(reader, add_open, &sum);
	return sum;
}

/* Waits until `wanted` sessions are open; the time is that of the last look. */
static int64_t await(const struct segment *reader, uint32_t wanted) {
	int64_t start = now_ns(), now;
	const struct timespec pause = { .tv_nsec = 20000 };

	while (open_sessions(reader) != wanted) {
		now = now_ns();
		if (now - start > GIVE_UP_NS) {
			errno = 0;
			fail("the count did not come back in 20 s");
		}
		nanosleep(&pause, NULL);
	}
	return now_ns();
}

static int connect_policy(const char *path) {
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof address.sun_path)
		fail(path);
	memcpy(address.sun_path, path, strlen(path));
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
		fail(path);
	return fd;
}

static void ask(int policy, uint16_t client_port, uint16_t port) {
	char text[512], reply[256];
	int length = snprintf(text, sizeof text,
	    "request=smtpd_access_policy\nprotocol_state=CONNECT\nprotocol_name=SMTP\n"
	    "client_address=127.0.0.1\nclient_name=unknown\nclient_port=%u\n"
	    "server_address=127.0.0.1\nserver_port=%u\n\n", (unsigned)client_port, (unsigned)port);
	ssize_t got;

	if (send(policy, text, (size_t)length, MSG_NOSIGNAL) != length)
		fail("policy socket");
	got = recv(policy, reply, sizeof reply, 0);
	if (got < 14 || memcmp(reply, "action=DUNNO\n\n", 14) != 0)
		fail("the session was not admitted");
}

static int listen_on(uint16_t port) {
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 16) != 0)
		fail("listener");
	return fd;
}

/* One session; returns how long its slot outlived it. */
static int64_t round_ns(const struct segment *reader, int policy, int listener, uint16_t port) {
	struct sockaddr_in address;
	socklen_t length = sizeof address;
	int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), server;
	int64_t ended;

	if (getsockname(listener, (struct sockaddr *)&address, &length) != 0 || client < 0 ||
	    connect(client, (struct sockaddr *)&address, sizeof address) != 0)
		fail("connect");
	length = sizeof address;
	server = accept(listener, (struct sockaddr *)&address, &length);
	if (server < 0)
		fail("accept");
	ask(policy, ntohs(address.sin_port), port);
	await(reader, 1);
	close(client);
	ended = now_ns();
	close(server);
	return await(reader, 0) - ended;
}

static int by_size(const void *a, const void *b) {
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return (left > right) - (left < right);
}

int main(int argc, char **argv) {
	struct segment *reader = NULL;
	struct diag diag = { 0 };
	long rounds = argc == 5 ? strtol(argv[4], NULL, 10) : 0;
	long port = argc == 5 ? strtol(argv[3], NULL, 10) : 0;
	int64_t *delays;
	int listener, policy;

	if (rounds < 1 || rounds > 1000000 || port < 1 || port > 65535) {
		fprintf(stderr, "usage: bench_release POLICY-SOCKET STATE-FILE PORT ROUNDS\n");
		return 64;
	}
	delays = calloc((size_t)rounds, sizeof *delays);
	if (delays == NULL)
		fail("memory");
	if (reader_open(&reader, argv[2], &diag) != 0) {
		fprintf(stderr, "bench_release: %s\n", diag.text);
		return 1;
	}
	listener = listen_on((uint16_t)port);
	policy = connect_policy(argv[1]);
	for (long i = 0; i < rounds; i++)
		delays[i] = round_ns(reader, policy, listener, (uint16_t)port);
	qsort(delays, (size_t)rounds, sizeof *delays, by_size);
	printf("release_p50_us %.1f\n", (double)delays[rounds / 2] / 1000.0);
	printf("release_p99_us %.1f\n", (double)delays[rounds * 99 / 100] / 1000.0);
	printf("release_max_us %.1f\n", (double)delays[rounds - 1] / 1000.0);
	segment_unmap(&reader);
	close(policy);
	close(listener);
	free(delays);
	return 0;
}

/* SPDX-License-Identifier: ISC */
/* Clients of a front end over real sockets, with a clock of the test's own; included by
 * one test program, behind fake_engine.h. */
#ifndef TESTS_UNIT_FRONT_CLIENTS_H
#define TESTS_UNIT_FRONT_CLIENTS_H

#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static int64_t test_now_ns;

int64_t clock_now_ns(void) {
	return test_now_ns;
}

int64_t clock_coarse_ns(void) {
	return test_now_ns;
}

int64_t clock_wall_ns(void) {
	return NS_PER_SECOND;
}

int64_t clock_wall_s(void) {
	return 1;
}

static struct event_base *loop;		/* the front end's: the test sets it */
static struct sockaddr_un place;
static unsigned lines;			/* of the log, and the last one */
static char line[4096];

static void catch_line(void *context, const char *text) {
	(void)context;
	lines++;
	snprintf(line, sizeof(line), "%s", text);
}

/* A new engine, time and log; returns a listening socket. */
static int begin(void) {
	socklen_t length = sizeof(place);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	fake_reset();
	test_now_ns += 1000 * NS_PER_SECOND;
	lines = 0;
	line[0] = '\0';
	log_redirect(catch_line, NULL);
	/* autobind: an abstract name that the kernel picks */
	place = (struct sockaddr_un){ .sun_family = AF_UNIX };
	assert_int_equal(bind(fd, (struct sockaddr *)&place, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(fd, 100), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&place, &length), 0);
	return fd;
}

/* Everything that is ready now. */
static void turn(void) {
	for (int i = 0; i < 20; i++)
		event_base_loop(loop, EVLOOP_NONBLOCK);
}

static void try_connect(int fd) {
	assert_int_equal(connect(fd, (struct sockaddr *)&place,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 6)), 0);
}

static int client(void) {
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	try_connect(fd);
	turn();
	return fd;
}

static void say(int fd, const char *text, size_t length) {
	assert_int_equal(send(fd, text, length, MSG_NOSIGNAL), length);
	turn();
}

static inline void hear(int fd, const char *wanted) {
	char text[4096];
	ssize_t n = read(fd, text, sizeof(text) - 1);

	assert_true(n >= 0);
	text[n] = '\0';
	assert_string_equal(text, wanted);
}

static inline void hear_end(int fd) {
	char c;

	turn();
	assert_int_equal(read(fd, &c, 1), 0);
	close(fd);
}

#endif

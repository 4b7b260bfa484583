/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Let only connections that have begun to speak come to libmilter.
 * MODEL    libmilter takes a descriptor, polls it, and calls accept().  Ours is an epoll
 *          descriptor, readable when the listening socket, a connection that waits, or the
 *          timer is; and the calls that libmilter makes with it (listen, accept) come here,
 *          as a program's own functions go before the C library's.  One event is taken at a
 *          time, so that none is lost when accept() returns.
 *          A connection goes on as soon as its first packet is whole, is none, or is the end:
 *          what to make of that is libmilter's.
 * ERRORS   Who says nothing for PATIENCE_NS goes.  Of too many that wait the oldest goes; of
 *          too many inside the new one.
 * THREADS  libmilter's listener; milter_gate_left any.
 */
#include "front/milter/milter_gate.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

#define PATIENCE_NS	(30 * NS_PER_SECOND)
#define WAITING_MAX	16384
#define INSIDE_MAX	16384	/* each may hold a thread */
#define PAUSE_NS	100000000L
#define FDS_MOST	65536
#define PACKET_MOST	512	/* no first one is longer: 4 bytes of length, and so many */

struct peer {
	struct sockaddr_storage address;
	socklen_t length;
};

struct waiting {
	TAILQ_ENTRY(waiting) all;
	int fd;
	int64_t since_ns;
	struct peer peer;
};

static struct {
	int epoll_fd;		/* -1: there is no gate */
	int listening_fd, timer_fd;
	bool used;
	_Atomic bool ticks;	/* the timer is set */
	const struct milter_gate_calls *calls;
	TAILQ_HEAD(, waiting) list;	/* oldest first */
	unsigned count;
	_Atomic unsigned inside;
	/* By descriptor: it has left, though it may be open still: a client may say that it is
	 * over and goes on as a new one (SMFIC_QUIT_NC), and libmilter tells each end. */
	_Atomic bool left[FDS_MOST];
} gate = { .epoll_fd = -1 };

/* What epoll tells of these two; else a struct waiting. */
static char the_listener, the_timer;

static void gate_drop(struct waiting *waiting) {
	TAILQ_REMOVE(&gate.list, waiting, all);
	gate.count--;
	close(waiting->fd);
	free(waiting);
}

/* A tick each second while connections wait, and one more. */
static void set_timer(bool on) {
	const struct itimerspec times = { .it_interval = { .tv_sec = on },
		.it_value = { .tv_sec = on } };

	(void)timerfd_settime(gate.timer_fd, 0, &times, NULL);
	atomic_store(&gate.ticks, on);
}

/* Is there something for libmilter to read: a whole packet, what is none, or the end? */
static bool has_begun(int fd) {
	unsigned char bytes[4 + PACKET_MOST];
	ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
	uint32_t length;

	if (got < 0)
		return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
	if (got < 4)
		return got == 0;
	length = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
	    (uint32_t)bytes[2] << 8 | bytes[3];
	return length > PACKET_MOST || (size_t)got >= 4 + (size_t)length;
}

static bool begin_to_wait(int fd, const struct peer *peer) {
	struct waiting *waiting = malloc(sizeof(*waiting));
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET,
		.data = { .ptr = waiting } };

	if (waiting == NULL)
		return false;
	*waiting = (struct waiting){ .fd = fd, .since_ns = clock_now_ns(),
		.peer = *peer };
	if (epoll_ctl(gate.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
		free(waiting);
		return false;
	}
	TAILQ_INSERT_TAIL(&gate.list, waiting, all);
	if (gate.count++ == 0 && !atomic_load(&gate.ticks))
		set_timer(true);
	return true;
}

/* Without descriptors or memory: epoll would tell of the socket at once again. */
static void rest(void) {
	if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
		clock_pause(PAUSE_NS);
}

/* A connection that may go on at once; or -1: there was none, or it waits. */
static int take_new(struct peer *peer) {
	int fd;

	peer->length = sizeof(peer->address);
	fd = accept4(gate.listening_fd, (struct sockaddr *)&peer->address, &peer->length,
	    SOCK_CLOEXEC);
	if (fd < 0) {
		rest();
		return -1;
	}
	if (has_begun(fd))
		return fd;
	if (gate.count >= WAITING_MAX) {
		gate.calls->too_many(gate.count, atomic_load(&gate.inside));
		gate_drop(TAILQ_FIRST(&gate.list));
	}
	if (!begin_to_wait(fd, peer))
		close(fd);
	return -1;
}

static int look_again(struct waiting *waiting, uint32_t events, struct peer *peer) {
	int fd = waiting->fd;

	/* of an end behind half a packet only epoll tells */
	if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0 && !has_begun(fd))
		return -1;
	(void)epoll_ctl(gate.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	*peer = waiting->peer;
	TAILQ_REMOVE(&gate.list, waiting, all);
	gate.count--;
	free(waiting);
	return fd;
}

static void on_timer(void) {
	int64_t now_ns = clock_now_ns();
	struct waiting *oldest;
	uint64_t times;

	if (read(gate.timer_fd, &times, sizeof(times)) < 0)
		return;
	while ((oldest = TAILQ_FIRST(&gate.list)) != NULL &&
	    now_ns - oldest->since_ns >= PATIENCE_NS) {
		gate.calls->stalled();
		gate_drop(oldest);
	}
	if (oldest == NULL)
		set_timer(false);
}

/* It goes inside, unless too many are there: the connection, or -1. */
static int let_in(int fd) {
	if (fd < 0 || atomic_load(&gate.inside) < INSIDE_MAX)
		return fd;
	gate.calls->too_many(gate.count, INSIDE_MAX);
	close(fd);
	return -1;
}

static int next_connection(struct peer *peer) {
	struct epoll_event event;
	/* most often nobody waits, and epoll need not be asked who it is */
	int fd = gate.count == 0 ? let_in(take_new(peer)) : -1;

	while (fd < 0 && epoll_wait(gate.epoll_fd, &event, 1, 0) == 1) {
		if (event.data.ptr == &the_timer)
			on_timer();
		else
			fd = let_in(event.data.ptr == &the_listener ? take_new(peer) :
			    look_again(event.data.ptr, event.events, peer));
	}
	return fd;
}

/* A thread of libmilter's reads a packet and then calls us about it. */
static _Thread_local int read_last = -1;

void milter_gate_read(int fd) {
	read_last = fd;
}

int milter_gate_socket(void) {
	return read_last;
}

/* In place of the C library's, for libmilter: of this program accept4 is used. */
int accept(int fd, struct sockaddr *address, socklen_t *length) {
	struct peer peer;
	int connection;

	if (gate.epoll_fd < 0 || fd != gate.epoll_fd)
		return accept4(fd, address, length, 0);
	connection = next_connection(&peer);
	if (connection < 0) {
		errno = EAGAIN;
		return -1;
	}
	if (address != NULL) {
		memcpy(address, &peer.address,
		    peer.length < *length ? peer.length : *length);
		*length = peer.length;
	}
	if (connection < FDS_MOST)
		atomic_store(&gate.left[connection], false);
	atomic_fetch_add(&gate.inside, 1);
	return connection;
}

int listen(int fd, int backlog) {
	if (gate.epoll_fd >= 0 && fd == gate.epoll_fd) {
		gate.used = true;
		fd = gate.listening_fd;
	}
	return (int)syscall(SYS_listen, fd, backlog);
}

static int gate_add(int fd, char *which) {
	struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = which } };

	return epoll_ctl(gate.epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int milter_gate_open(int listening_fd, const struct milter_gate_calls *calls,
    struct diag *diag) {
	TAILQ_INIT(&gate.list);
	gate.calls = calls;
	gate.listening_fd = listening_fd;
	gate.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	gate.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (gate.timer_fd < 0 || gate.epoll_fd < 0 ||
	    gate_add(listening_fd, &the_listener) != 0 || gate_add(gate.timer_fd, &the_timer) != 0) {
		diag_set(diag, errno, "cannot create the gate of the milter socket");
		close(gate.timer_fd);
		close(gate.epoll_fd);
		gate.epoll_fd = -1;
		return -1;
	}
	return gate.epoll_fd;
}

bool milter_gate_is_used(void) {
	return gate.used;
}

bool milter_gate_is_empty(void) {
	return atomic_load(&gate.inside) == 0 && !atomic_load(&gate.ticks);
}

static bool is_known(int fd) {
	return fd >= 0 && fd < FDS_MOST;
}

void milter_gate_left(void) {
	unsigned inside = atomic_load(&gate.inside);

	if (is_known(read_last) && atomic_exchange(&gate.left[read_last], true))
		return;
	while (inside > 0 && !atomic_compare_exchange_weak(&gate.inside, &inside, inside - 1))
		;
}

void milter_gate_goes_on(void) {
	if (is_known(read_last) && atomic_exchange(&gate.left[read_last], false))
		atomic_fetch_add(&gate.inside, 1);
}

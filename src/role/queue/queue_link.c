/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Serve the queue role.
 * MODEL    Each order is answered at once; what ends is told when it ends.  A turn takes
 *          so many orders that the rest of the supervisor's work is not late.  A run that
 *          is ordered too soon after others waits, and what was sent after it.
 * ERRORS   A role that sends what is no order, or does not read, loses its link, and ends.
 * THREADS  The supervisor's.
 */
#include "role/queue/queue_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/datagram.h"
#include "base/log.h"
#include "base/trusted_path.h"
#include "policy/limit/rate.h"
#include "role/supervise/supervised.h"

#define OPEN_TRIES	4
#define ORDERS_A_TURN	256
#define TURN_MOST_NS	(20 * NS_PER_MS)	/* from its beginning: later, one order alone */
#define LOOK_EVERY_NS	(60 * NS_PER_SECOND)
#define SEND_ROOM	(4 << 20)
#define STALE_MOST_NS	(5 * NS_PER_SECOND)	/* a role that is to end */
/* Of one place for a process: no run that delivers is that short. */
#define RUNS_A_SECOND	20
#define RUNS_AT_ONCE	100

static struct queue_link supervisors_link;

const struct queue_places *queue_link_places(void) {
	return &supervisors_link.places;
}

/* The role ends when it finds its link ended, or is ended. */
static void hang_up(struct queue_link *link) {
	if (link->fd >= 0) {
		close(link->fd);
		if (link->stale_ns == 0)
			link->stale_ns = clock_now_ns();
	}
	link->fd = -1;
	link->more = false;
	link->waits_until_ns = 0;
}

void queue_link_close(struct supervisor *supervisor) {
	struct queue_link *link = supervisor->queue;

	hang_up(link);
	link->stale_ns = 0;
	queue_places_close(&link->places);
}

/* With a descriptor where that is not -1. */
static void tell_role(struct queue_link *link, const struct queue_tell *news, int passed_fd) {
	if (link->fd < 0 || datagram_send(link->fd, news, queue_tell_length(news), passed_fd))
		return;
	log_event(EVENT_BAD_REQUEST, "from=queue text=\"the worker does not read: %s\" "
	    "action=close",
	    strerror(errno));
	hang_up(link);
}

static void tell_end(const struct queue_tell *news) {
	tell_role(&supervisors_link, news, -1);
}

void queue_link_init(struct supervisor *supervisor) {
	supervisors_link = (struct queue_link){ .fd = -1, .places = { .notify_fd = -1 },
		.runs = { .processes = &supervisor->programs, .tell = tell_end } };
	supervisor->queue = &supervisors_link;
}

/* --- the link ---------------------------------------------------------------------- */

static void tell_of_runs(struct queue_link *link) {
	const struct queue_run_process *run;

	LIST_FOREACH(run, &link->runs.list, next) {
		struct queue_tell news = { .news = QUEUE_LIVES, .pid = (uint32_t)run->child.pid,
			.ids = run->ids };

		for (unsigned i = 0; i < link->places.count; i++)
			if (strcmp(link->places.list[i].path, run->path) == 0) {
				news.directory = i;
				tell_role(link, &news, -1);
				break;
			}
	}
}

int queue_link_open(struct supervisor *supervisor, struct diag *diag) {
	static const int room = SEND_ROOM;
	struct queue_link *link = supervisor->queue;
	int fds[2];

	queue_link_close(supervisor);
	if (datagram_pair(fds, diag) != 0)
		return -1;
	if (setsockopt(fds[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) != 0)
		(void)setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	link->fd = fds[0];
	link->looked_ns = clock_now_ns();
	link->looked_for = supervisor->generation->number;
	queue_places_open(&link->places, supervisor->generation);
	tell_of_runs(link);
	return fds[1];
}

void queue_link_poll(const struct supervisor *supervisor, struct pollfd *polled) {
	const struct queue_link *link = supervisor->queue;

	*polled = (struct pollfd){ .fd = link->waits_until_ns == 0 ? link->fd : -1,
		.events = POLLIN };
}

/* --- orders ------------------------------------------------------------------------ */

/* The file, or -1 with errno. */
static int open_file(const struct queue_directory *place, const char *id) {
	char name[SENDMAIL_QUEUE_ID_MAX + 3];
	struct stat status;

	snprintf(name, sizeof(name), "qf%s", id);
	for (unsigned i = 0; i < OPEN_TRIES; i++) {
		int fd = openat(place->fd, name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		bool is_only;

		if (fd < 0)
			return -1;
		is_only = trusted_path_is_only_name(fd, place->fd, name, &status);
		if (is_only && S_ISREG(status.st_mode))
			return fd;
		close(fd);
		/* else Sendmail has just renamed another one over it */
		if (is_only || status.st_nlink > 1)
			break;
	}
	errno = EINVAL;
	return -1;
}

static void obey_open(struct supervisor *supervisor, const struct queue_order *order) {
	struct queue_link *link = supervisor->queue;
	const struct queue_directory *place = &link->places.list[order->directory];
	struct queue_tell news = { .news = QUEUE_OPENED, .ticket = order->ticket };
	int fd = -1;

	errno = ESTALE;
	if (queue_place_owner(place, supervisor->generation) != NULL)
		fd = open_file(place, order->ids.list[0]);
	news.error = fd < 0 ? (uint32_t)errno : 0;
	tell_role(link, &news, fd);
	if (fd >= 0)
		close(fd);
}

/* Limits how often the role can have root start Sendmail. */
static bool run_may_start(struct supervisor *supervisor, const struct queue_order *order,
    int64_t now_ns) {
	struct queue_link *link = supervisor->queue;
	const struct generation_mta *mta = queue_place_owner(
	    &link->places.list[order->directory], supervisor->generation);
	uint32_t processes = mta == NULL || mta->processes == 0 ? 1 :
	    mta->processes + mta->local_processes;
	const struct rate_limit rate = { .period_ns = NS_PER_SECOND,
		.count = processes * RUNS_A_SECOND, .burst = processes * RUNS_AT_ONCE };

	if (!rate_allows(&rate, link->run_tat_ns, now_ns)) {
		link->waits_until_ns = now_ns + rate_wait_ns(&rate, link->run_tat_ns, now_ns);
		return false;
	}
	link->waits_until_ns = 0;
	link->run_tat_ns = rate_after(&rate, link->run_tat_ns, now_ns);
	return true;
}

static void obey_run(struct supervisor *supervisor, const struct queue_order *order,
    int64_t now_ns) {
	const struct generation *generation = supervisor->generation;
	struct queue_link *link = supervisor->queue;
	struct queue_directory *place = &link->places.list[order->directory];
	struct queue_tell news = { .news = QUEUE_STARTED, .ticket = order->ticket };
	const struct generation_mta *mta = queue_place_owner(place, generation);
	pid_t pid = -1;

	errno = ESTALE;
	if (order->generation == generation->number && mta != NULL)
		pid = queue_runs_start(&link->runs, generation, mta, place, order,
		    now_ns);
	if (pid > 0)
		news.pid = (uint32_t)pid;
	else
		news.error = (uint32_t)errno;
	tell_role(link, &news, -1);
}

/* False: there is none. */
static bool read_order(struct queue_link *link, struct queue_order *order) {
	struct queue_order data;
	const char *why;
	ssize_t length;

	length = recv(link->fd, &data, sizeof(data), MSG_DONTWAIT | MSG_TRUNC);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (length <= 0) {
		hang_up(link);
		return false;
	}
	if (!queue_order_read(&data, (size_t)length, order, &why) ||
	    (order->directory >= link->places.count &&
	    (why = "unknown directory") != NULL)) {
		log_event(EVENT_BAD_REQUEST, "from=queue text=\"%s\" action=close", why);
		hang_up(link);
		return false;
	}
	return true;
}

/* False: there is no order, or its time has not come. */
static bool serve_order(struct supervisor *supervisor, int64_t now_ns) {
	struct queue_link *link = supervisor->queue;
	struct queue_order *order = &link->waiting;

	if (link->fd < 0 || now_ns < link->waits_until_ns ||
	    (link->waits_until_ns == 0 && !read_order(link, order)))
		return false;
	if (order->verb == QUEUE_ORDER_OPEN) {
		obey_open(supervisor, order);
		return true;
	}
	if (!run_may_start(supervisor, order, now_ns))
		return false;
	obey_run(supervisor, order, now_ns);
	return true;
}

/* It was told to end, or lost its link, and goes on with directories that are perhaps not
 * driven any more. */
static void end_stale(struct supervisor *supervisor, int64_t now_ns) {
	struct queue_link *link = supervisor->queue;

	if (link->stale_ns == 0 || now_ns < link->stale_ns + STALE_MOST_NS)
		return;
	hang_up(link);
	link->stale_ns = 0;
	log_event(EVENT_BAD_REQUEST, "from=queue text=\"the process was asked to end, or lost "
	    "its link, but still runs\" action=kill");
	for (unsigned i = 0; i < supervisor->child_count; i++) {
		struct child *child = &supervisor->children[i];

		if (child->kind == ROLE_QUEUE && child->pid > 0 &&
		    kill(child->pid, SIGKILL) == 0)
			child->killed = "it did not end when asked to";
	}
}

static void look_for_others(struct supervisor *supervisor, int64_t now_ns) {
	static const struct queue_tell again = { .news = QUEUE_AGAIN };
	struct queue_link *link = supervisor->queue;

	/* a reload looks at once */
	if (link->fd < 0 || link->stale_ns != 0 || (now_ns < link->looked_ns + LOOK_EVERY_NS &&
	    link->looked_for == supervisor->generation->number))
		return;
	link->looked_ns = now_ns;
	link->looked_for = supervisor->generation->number;
	if (queue_places_changed(&link->places, supervisor->generation)) {
		link->stale_ns = now_ns;
		tell_role(link, &again, -1);
	}
}

void queue_link_turn(struct supervisor *supervisor, int64_t now_ns) {
	struct queue_link *link = supervisor->queue;

	link->more = true;
	for (unsigned i = 0; i < ORDERS_A_TURN && link->more &&
	     (i == 0 || clock_now_ns() < now_ns + TURN_MOST_NS); i++)
		link->more = serve_order(supervisor, now_ns);
	look_for_others(supervisor, now_ns);
	end_stale(supervisor, now_ns);
}

int64_t queue_link_next_ns(const struct supervisor *supervisor) {
	const struct queue_link *link = supervisor->queue;

	if (link->more)
		return 0;
	return link->waits_until_ns != 0 ? link->waits_until_ns : INT64_MAX;
}

void queue_link_reloaded(struct supervisor *supervisor) {
	if (supervisor->queue != NULL)
		queue_runs_forget(&supervisor->queue->runs);
}

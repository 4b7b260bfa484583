/* SPDX-License-Identifier: ISC */
/*
 * What a role taken over by somebody else can say to the supervisor: takes the descriptors of
 * its links, and writes to them as that role.  Needs root.
 *
 *     spoil_links SUPERVISOR TITLE SECONDS SEED	at random, while there is such a process
 *     spoil_links SUPERVISOR TITLE linger SECONDS	over each link once, with a socket that
 *							takes so long to be closed
 *     spoil_links SUPERVISOR TITLE reloads SECONDS	in the keeper's place, which is stopped: orders
 *							one reload after the other
 *
 * TITLE: of the process, "postern-keeper0".  Lines of the output: "opened PATH" for each file
 * that the supervisor sent; at the end "sent" and how many of what.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "taken_links.h"
#include "base/clock.h"
#include "role/run/keeper_orders.h"
#include "wire/link/mta_order.h"
#include "wire/queue/queue_order.h"

#define MESSAGE_MAX	70000
#define FLOOD		400
#define ATTACHED_MAX	253		/* the kernel's SCM_MAX_FD */
#define LINGER_S	20

enum way { WAY_BYTES, WAY_SIZES, WAY_FIELDS, WAY_MUTATED, WAY_FLOOD, WAY_ATTACHED, WAY_CLOSED, WAYS };
static const char *const way_words[WAYS] = { "bytes", "sizes", "fields", "mutated", "flood",
	"attached", "closed" };

static uint64_t state, counts[WAYS], taken;
static char message[MESSAGE_MAX];

static uint64_t random_word(void) {
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static unsigned below(unsigned limit) {
	return (unsigned)(random_word() >> 16) % limit;
}

/* --- messages: how long it is, in `message` ------------------------------------------- */

static size_t random_bytes(size_t length) {
	for (size_t i = 0; i < length; i++)
		message[i] = (char)random_word();
	return length;
}

static uint64_t some_number(void) {
	static const uint64_t edges[] = { 0, 1, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX };

	return below(3) == 0 ? edges[below(6)] : below(2) == 0 ? random_word() : below(64);
}

/* Printable, with all that a shell or a log would make something of. */
static void some_text(char *out, size_t size) {
	static const char hostile[] = "\"';|&$(`)<>\\ =%-/touch /run/t/owned";
	size_t length = below((unsigned)size);

	for (size_t i = 0; i < length; i++)
		out[i] = below(2) == 0 ? hostile[below(sizeof(hostile) - 1)] :
		    (char)(' ' + below('~' - ' ' + 1));
	memset(out + length, 0, size - length);
}

static size_t report_message(void) {
	struct keeper_report report;
	bool observed = below(2) == 0;

	memset(&report, 0, sizeof(report));
	report.kind = 1 + below(KEEPER_REPORT_ALERT);
	report.journal_failed = (uint32_t)some_number();
	report.number = below(2) == 0 ? below(64) : some_number();
	report.alerts_from = some_number();
	some_text(report.text, sizeof(report.text));
	report.alert.kind = (enum alert_kind)below(ALERT_KINDS);
	some_text(report.alert.subject, sizeof(report.alert.subject));
	report.alert.subject[0] = '-';
	some_text(report.alert.text, sizeof(report.alert.text));
	some_text(report.alert.rule, sizeof(report.alert.rule));
	some_text(report.alert.id, sizeof(report.alert.id));
	report.alert.for_s = (int64_t)some_number();
	report.alert.wall_s = (int64_t)some_number();
	report.alert.observed = observed;
	memcpy(message, &report, sizeof(report));
	return sizeof(report);
}

static size_t mta_message(void) {
	struct mta_order order = { .verb = below(MTA_VERB_COUNT),
		.mta = below(4), .generation = below(4) == 0 ? some_number() : below(32) };

	snprintf(order.queue_id, sizeof(order.queue_id), "%08" PRIX32, (uint32_t)random_word());
	if (order.verb != MTA_REQUEUE)
		memset(order.queue_id, 0, sizeof(order.queue_id));
	memcpy(message, &order, sizeof(order));
	return sizeof(order);
}

/* Files of tests/mta/test_attack_links.py are among them. */
static size_t queue_message(void) {
	struct queue_order order = { .verb = below(2) == 0 ? QUEUE_ORDER_OPEN : QUEUE_ORDER_RUN,
		.directory = below(8) == 0 ? (uint32_t)some_number() : 0,
		.ticket = (uint32_t)some_number(), .brief = below(2) == 0,
		.checkpoint = 1 + below(QUEUE_CHECKPOINT_MOST),
		.generation = below(4) == 0 ? some_number() : below(32) };
	unsigned ids = order.verb == QUEUE_ORDER_OPEN ? 1 : 1 + below(QUEUE_ORDER_IDS_MAX);
	char id[16];

	for (unsigned i = 0; i < ids; i++) {
		snprintf(id, sizeof(id), "w000000%u", below(10));
		(void)queue_order_add_id(&order.ids, id);
	}
	memcpy(message, &order, queue_order_length(&order));
	return queue_order_length(&order);
}

static size_t lifeline_message(void) {
	uint32_t word = (uint32_t)some_number();

	memcpy(message, &word, sizeof(word));
	return sizeof(word);
}

/* One that makes sense, of any values. */
static size_t sound_message(const struct link *link) {
	switch (link->kind) {
	case LINK_ORDERS:
		return report_message();
	case LINK_MTA:
		return mta_message();
	case LINK_QUEUE:
		return queue_message();
	case LINK_LIFELINE:
		break;
	}
	return lifeline_message();
}

static size_t any_message(const struct link *link, enum way way) {
	size_t length;

	if (way == WAY_BYTES)
		return random_bytes(1 + below(300));
	length = sound_message(link);
	if (way == WAY_SIZES)
		return below(4) == 0 ? random_bytes(MESSAGE_MAX) : below((unsigned)length * 2 + 1);
	if (way == WAY_MUTATED && length > 0)
		message[below((unsigned)length)] = (char)random_word();
	return length;
}

/* --- descriptors ------------------------------------------------------------------------ */

/* A TCP socket that cannot send what it has, and is to wait for that when it is closed. */
static int lingering(int seconds) {
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	const struct linger linger = { 1, seconds };
	socklen_t size = sizeof(at);
	static int listener = -1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	/* the other ends are never accepted, nor read: they stay as long as this process */
	if (listener < 0) {
		listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		(void)listen(listener, 4096);
	}
	if (listener < 0 || fd < 0 ||
	    getsockname(listener, (struct sockaddr *)&at, &size) != 0 ||
	    (connect(fd, (const struct sockaddr *)&at, sizeof(at)) != 0 &&
		errno != EINPROGRESS) ||
	    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) != 0) {
		perror("a socket that lingers");
		exit(1);
	}
	while (send(fd, message, sizeof(message), MSG_NOSIGNAL) > 0)
		;
	return fd;
}

static int some_descriptor(const struct link *link) {
	switch (below(5)) {
	case 0:
		return lingering(LINGER_S);
	case 1:
		return memfd_create("spoil", MFD_CLOEXEC);
	case 2:
		return dup(link->fd);
	case 3:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	default:
		return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	}
}

static bool send_with(const struct link *link, size_t length, const int *fds, unsigned count) {
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(ATTACHED_MAX * sizeof(int))];
	} control = { .room = { 0 } };
	struct iovec data = { message, length };
	struct msghdr packet = { .msg_iov = &data, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = (socklen_t)CMSG_SPACE(count * sizeof(int)) };

	control.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
		.cmsg_len = (socklen_t)CMSG_LEN(count * sizeof(int)) };
	memcpy(CMSG_DATA(&control.head), fds, count * sizeof(int));
	return sendmsg(link->fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

/* The last one must not linger here. */
static void close_ours(int fd, bool sent) {
	static const struct linger at_once = { 1, 0 };

	if (!sent)
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
}

static bool attach(const struct link *link, size_t length) {
	unsigned count = below(8) == 0 ? ATTACHED_MAX : 1 + below(3);
	int fds[ATTACHED_MAX], error;
	bool sent;

	if (link->kind == LINK_LIFELINE)
		return true;
	fds[0] = some_descriptor(link);
	for (unsigned i = 1; i < count; i++)
		fds[i] = fds[0];
	sent = send_with(link, length, fds, count);
	error = errno;
	close_ours(fds[0], sent);
	return sent || error == EAGAIN || error == EPERM || error == ETOOMANYREFS;
}

/* --- the attack ---------------------------------------------------------------------------- */

/* What the supervisor says; a file that comes along is looked at. */
static void read_answers(const struct link *link) {
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	static char answer[4096];

	for (;;) {
		struct iovec data = { answer, sizeof(answer) };
		struct msghdr packet = { .msg_iov = &data, .msg_iovlen = 1,
			.msg_control = &control, .msg_controllen = sizeof(control) };
		const struct cmsghdr *head;
		char number[16], name[PATH_MAX];
		int fd;

		if (recvmsg(link->fd, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
			return;
		head = CMSG_FIRSTHDR(&packet);
		if (head == NULL || head->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(&fd, CMSG_DATA(head), sizeof(fd));
		snprintf(number, sizeof(number), "%d", fd);
		name_of(name, sizeof(name), getpid(), number);
		if (link->kind == LINK_QUEUE)
			printf("opened %s\n", name);
		close(fd);
	}
}

static void rest(void) {
	const struct timespec pause = { .tv_nsec = 500000 };

	(void)nanosleep(&pause, NULL);
}

/* False: the link has ended. */
static bool say(const struct link *link, enum way way) {
	size_t length = any_message(link, way == WAY_FLOOD ? WAY_FIELDS : way);
	bool sent = way == WAY_ATTACHED ? attach(link, length) :
	    link->kind == LINK_LIFELINE ? write(link->fd, message, length) >= 0 :
	    send(link->fd, message, length, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;

	counts[way]++;
	return sent || errno == EAGAIN || errno == EMSGSIZE;
}

/* Some messages of one sort over one link.  False: it has ended. */
static bool attack(const struct link *link) {
	/* nonsense ends a link at once: most of it makes sense */
	static const enum way ways[] = { WAY_FIELDS, WAY_FIELDS, WAY_FIELDS, WAY_FLOOD, WAY_FLOOD,
		WAY_ATTACHED, WAY_MUTATED, WAY_BYTES, WAY_SIZES, WAY_CLOSED };
	enum way way = ways[below(sizeof(ways) / sizeof(ways[0]))];
	unsigned times = way == WAY_FLOOD ? FLOOD : 1 + below(10);
	bool reads = below(2) == 0, lives = true;

	if (way == WAY_CLOSED) {
		counts[way]++;
		return link->kind == LINK_LIFELINE || shutdown(link->fd, SHUT_RDWR) != 0;
	}
	for (unsigned i = 0; i < times && lives; i++) {
		lives = say(link, way);
		if (link->kind != LINK_LIFELINE && reads)
			read_answers(link);
		if (way != WAY_FLOOD)
			rest();
	}
	return lives;
}

static int at_random(pid_t supervisor, const char *title, long seconds) {
	int64_t end_ns = clock_now_ns() + seconds * NS_PER_SECOND;

	while (clock_now_ns() < end_ns) {
		struct link links[LINKS_MAX];
		pid_t pid = find_role(supervisor, title);
		unsigned count = pid == 0 ? 0 : take_links(supervisor, pid, title, links);
		bool lives = count > 0;

		taken += count;
		for (unsigned i = 0; i < 50 && lives && clock_now_ns() < end_ns; i++)
			lives = attack(&links[below(count)]);
		for (unsigned i = 0; i < count; i++)
			close(links[i].fd);
		rest();
	}
	printf("sent links=%" PRIu64, taken);
	for (unsigned way = 0; way < WAYS; way++)
		printf(" %s=%" PRIu64, way_words[way], counts[way]);
	printf("\n");
	return 0;
}

/* One message over each of its links. */
static int once(pid_t supervisor, const char *title, int linger_s) {
	pid_t pid = find_role(supervisor, title);
	struct link links[LINKS_MAX];
	unsigned count = pid == 0 ? 0 : take_links(supervisor, pid, title, links);
	unsigned sent = 0;

	for (unsigned i = 0; i < count; i++) {
		bool done;
		int fd;

		if (links[i].kind == LINK_LIFELINE)
			continue;
		fd = lingering(linger_s);
		done = send_with(&links[i], sound_message(&links[i]), &fd, 1);
		close_ours(fd, done);
		sent += done;
	}
	printf("sent %u\n", sent);
	fflush(stdout);
	/* the other ends of what was sent live as long as we do */
	(void)!read(STDIN_FILENO, message, 1);
	return 0;
}

static const struct link *link_of(const struct link *links, unsigned count, enum link_kind kind) {
	for (unsigned i = 0; i < count; i++)
		if (links[i].kind == kind)
			return &links[i];
	fputs("it has no such link\n", stderr);
	exit(1);
}

/* It says that it has published what it is ordered to, and that it lives: all is as it should. */
static int order_reloads(pid_t supervisor, const char *title, long seconds) {
	struct keeper_report reload = { .kind = KEEPER_REPORT_RELOAD, .number = 0 };
	int64_t now_ns = clock_now_ns(), end_ns = now_ns + seconds * NS_PER_SECOND;
	pid_t pid = find_role(supervisor, title);
	struct keeper_report report = { .kind = KEEPER_REPORT_PUBLISHED, .number = 1000 };
	struct keeper_order order;
	struct link links[LINKS_MAX];
	unsigned count;
	int fd, lifeline, orders;

	if (pid == 0 || kill(pid, SIGSTOP) != 0)
		return 1;
	count = take_links(supervisor, pid, title, links);
	lifeline = link_of(links, count, LINK_LIFELINE)->fd;
	orders = link_of(links, count, LINK_ORDERS)->fd;
	for (; now_ns < end_ns; now_ns = clock_now_ns()) {
		(void)!write(lifeline, &(uint32_t){ 0 }, sizeof(uint32_t));
		reload.number++;
		(void)keeper_report_send(orders, &reload);
		while (keeper_order_receive(orders, &order, &fd) > 0) {
			if (fd >= 0)
				close(fd);
			if (order.kind != KEEPER_ORDER_PUBLISH)
				continue;
			report.number = order.number;
			(void)keeper_report_send(orders, &report);
		}
	}
	printf("sent %" PRIu64 "\n", report.number - 1000);
	return kill(pid, SIGKILL);
}

int main(int argc, char **argv) {
	pid_t supervisor = argc > 1 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
	long seconds;

	state = 1;
	(void)signal(SIGPIPE, SIG_IGN);	/* of a lifeline that has ended */
	if (argc == 5 && strcmp(argv[3], "linger") == 0)
		return once(supervisor, argv[2], (int)strtol(argv[4], NULL, 10));
	if (argc == 5 && strcmp(argv[3], "reloads") == 0)
		return order_reloads(supervisor, argv[2], strtol(argv[4], NULL, 10));
	if (argc == 5 && (seconds = strtol(argv[3], NULL, 10)) > 0) {
		state = strtoull(argv[4], NULL, 10) | 1;
		return at_random(supervisor, argv[2], seconds);
	}
	fputs("usage: spoil_links SUPERVISOR TITLE SECONDS SEED | linger SECONDS | "
	    "reloads SECONDS\n", stderr);
	return 64;
}

/* SPDX-License-Identifier: ISC */
/*
 * What the witness costs: 10,000 SMTP connections on the loopback interface of a
 * network namespace of our own, each with its session, while 1,000 a second come
 * and as many go.  Beside it the bare load: the CPU of these connects, accepts
 * and closes alone.  A process runs the witness as the keeper does; nobody but
 * the kernel tells it of ends.  Then what one dump takes, also with 50,000
 * sockets of others.  Prints "name value" lines; times are CPU times.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "front/witness/kernel_table.h"
#include "front/witness/witness.h"
#include "role/link/netlink.h"
#include "segment/file/internal.h"
#include "tests/unit/site.h"

#define PRESENT		10000
#define RATE		1000
#define OTHERS		50000	/* sockets, of others */
#define OTHERS_EACH	8400	/* pairs in one process */
#define DUMPS		11
#define SMTP_PORT	20125
#define OTHER_PORT	20126	/* and the next ones */
#define PROCESSES_MAX	8
#define SOURCES		250

struct client {
	int fd;
	struct sockaddr_in name;
};

static struct site site;
static struct client clients[PRESENT];
static uint32_t made;
static unsigned seconds = 5;	/* of load */

static void fail(const char *what) {
	fprintf(stderr, "bench_witness: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* --- the machine --------------------------------------------------------- */

static void own_network(void) {
	struct ifreq request = { .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd;

	if (unshare(CLONE_NEWNET) != 0)
		fail("no network namespace (is this root?)");
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	memcpy(request.ifr_name, "lo", 3);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) != 0)
		fail("loopback interface");
	close(fd);
}

static void many_files(void) {
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		fail("RLIMIT_NOFILE");
	limit.rlim_cur = 2 * OTHERS_EACH + 1000;
	if (limit.rlim_max < limit.rlim_cur)
		limit.rlim_max = limit.rlim_cur;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
		fprintf(stderr, "bench_witness: left out: %lu open files are not allowed here\n",
		    (unsigned long)limit.rlim_cur);
		exit(77);
	}
}

static int listen_on(uint16_t port) {
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(fd, 4096) != 0)
		fail("listen");
	return fd;
}

/* A connection from the next of many addresses. */
static int connect_to(uint16_t port) {
	static const int on = 1;
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr =
		htonl(0x7f000100 + made++ % SOURCES) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) != 0 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		fail("connect");
	return fd;
}

/* Connects, and waits until it was accepted. */
static void come(struct client *client) {
	socklen_t length = sizeof(client->name);
	char greeting;

	client->fd = connect_to(SMTP_PORT);
	if (getsockname(client->fd, (struct sockaddr *)&client->name,
		&length) != 0 || read(client->fd, &greeting, 1) != 1)
		fail("greeting");
}

static pid_t start(void (*run)(int), int argument) {
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0; i < PRESENT && clients[i].fd != 0; i++)
		close(clients[i].fd);
	run(argument);
	exit(1);
}

static void end_process(pid_t pid) {
	kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

/* Accepts, greets, and closes when the client has. */
static void serve(int listener) {
	struct epoll_event event = { .events = EPOLLIN, .data.fd = listener };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
	while (epoll_wait(epoll, &event, 1, -1) >= 0) {
		if (event.data.fd != listener) {
			close(event.data.fd);
			continue;
		}
		event.data.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (event.data.fd < 0)
			fail("accept");
		epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
		if (write(event.data.fd, "2", 1) != 1)
			fail("greeting");
	}
}

/* Connections that are nobody's business; says so when they are there. */
static void crowd(int number) {
	uint16_t port = (uint16_t)(OTHER_PORT + number % PROCESSES_MAX);
	int ready = number / PROCESSES_MAX, listener = listen_on(port);

	for (unsigned i = 0; i < OTHERS_EACH; i++) {
		(void)connect_to(port);
		if (accept4(listener, NULL, NULL, SOCK_CLOEXEC) < 0)
			fail("accept");
	}
	if (write(ready, "", 1) == 1)
		for (;;)
			pause();
}

/* --- sessions ------------------------------------------------------------- */

static void announce(const struct client *client) {
	struct question question = { .owner = OWNER_POLICY,
		.listener = site.auto_listener, .server_port = SMTP_PORT,
		.client_port = ntohs(client->name.sin_port) };
	struct answer answer;

	memcpy(question.client.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
	memcpy(question.client.bytes + 12, &client->name.sin_addr, 4);
	(void)address_parse("127.0.0.1", 9, &question.server);
	engine_session_open(site.engine, site.generation, &question,
	    clock_now_ns(), &answer);
	if (answer.session.slot == 0) {
		fprintf(stderr, "bench_witness: a session was not counted\n");
		exit(1);
	}
}

static uint32_t open_sessions(void) {
	return atomic_load(&site_class(&site, "all")->open);
}

static void await(uint32_t wanted) {
	int64_t end_ns = clock_now_ns() + 20 * NS_PER_SECOND;
	static const struct timespec pause = { .tv_nsec = NS_PER_MS };

	while (open_sessions() != wanted) {
		if (clock_now_ns() > end_ns) {
			fprintf(stderr, "bench_witness: %u sessions are counted, "
			    "not %u\n", open_sessions(), wanted);
			exit(1);
		}
		(void)nanosleep(&pause, NULL);
	}
}

/* --- the keeper ------------------------------------------------------------ */

struct keeper {
	struct engine *engine;
	struct front_witness *witness;
};

static void on_beat(evutil_socket_t fd, short what, void *argument) {
	const struct keeper *keeper = argument;

	(void)fd;
	(void)what;
	engine_heartbeat(keeper->engine, clock_now_ns());
}

static void on_second(evutil_socket_t fd, short what, void *argument) {
	const struct keeper *keeper = argument;

	(void)fd;
	(void)what;
	front_witness_second(keeper->witness, clock_now_ns());
}

static void keep(int unused) {
	static const struct timeval one_second = { .tv_sec = 1 };
	static const struct timeval fifth = { .tv_usec = 200000 };
	struct role_context context = { .kind = ROLE_KEEPER };
	struct event_base *base = event_base_new();
	struct keeper keeper;
	struct diag diag;
	unsigned place = segment_role_place(ROLE_KEEPER, 0);

	(void)unused;
	segment_role_starting(site.segment, ROLE_KEEPER, 0, clock_now_ns());
	if (!netlink_open(site.generation, &context) ||
	    engine_open(&keeper.engine, site.segment, place, &diag) != 0 ||
	    front_witness_open(&keeper.witness, base, keeper.engine,
		context.netlink_fds, context.netlink_count, &diag) != 0)
		fail("witness");
	event_add(event_new(base, -1, EV_PERSIST, on_beat, &keeper), &fifth);
	event_add(event_new(base, -1, EV_PERSIST, on_second, &keeper),
	    &one_second);
	event_base_dispatch(base);
}

static int64_t cpu_ns(clockid_t clock) {
	struct timespec time;

	if (clock_gettime(clock, &time) != 0)
		fail("clock of a process");
	return (int64_t)time.tv_sec * NS_PER_SECOND + (int64_t)time.tv_nsec;
}

/* --- the load --------------------------------------------------------------- */

/* Comings and goings at an even rate. */
static void load(bool announced) {
	int64_t began_ns = clock_now_ns();

	for (uint32_t i = 0; i < RATE * seconds; i++) {
		struct client *client = &clients[i * 7919u % PRESENT];
		int64_t due_ns = began_ns + (int64_t)i * NS_PER_SECOND / RATE;
		int64_t early_ns = due_ns - clock_now_ns();
		struct timespec pause = { .tv_nsec = (long)early_ns };

		if (early_ns > 0)
			(void)nanosleep(&pause, NULL);
		close(client->fd);
		come(client);
		if (announced)
			announce(client);
	}
}

static double percent(int64_t ns, int64_t of_ns) {
	return 100.0 * (double)ns / (double)of_ns;
}

/* CPU share of a process over a time in which `do_it` is done. */
static double share_of(clockid_t clock, void (*do_it)(bool), bool argument) {
	int64_t cpu = cpu_ns(clock), began_ns = clock_now_ns();

	do_it(argument);
	return percent(cpu_ns(clock) - cpu, clock_now_ns() - began_ns);
}

static void rest(bool unused) {
	const struct timespec time = { .tv_sec = (time_t)seconds };

	(void)unused;
	(void)nanosleep(&time, NULL);
}

static clockid_t clock_of(pid_t pid) {
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0)
		fail("clock of a process");
	return clock;
}

static void shares(pid_t server) {
	int64_t own = cpu_ns(CLOCK_PROCESS_CPUTIME_ID), began_ns;
	double servers = share_of(clock_of(server), load, false);
	pid_t keeper;

	own = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - own;
	printf("witness_bare_load_cpu_percent %.2f\n", servers +
	    percent(own, seconds * NS_PER_SECOND));
	keeper = start(keep, 0);
	for (uint32_t i = 0; i < PRESENT; i++)
		announce(&clients[i]);
	rest(false);	/* all were shown, and what was early is done */
	printf("witness_rest_cpu_percent_%u %.2f\n", PRESENT,
	    share_of(clock_of(keeper), rest, false));
	printf("witness_cpu_percent_%u_at_%u %.2f\n", PRESENT, RATE,
	    share_of(clock_of(keeper), load, true));
	began_ns = clock_now_ns();
	await(PRESENT);
	printf("witness_right_after_ms %.1f\n",
	    (double)(clock_now_ns() - began_ns) / NS_PER_MS);
	end_process(keeper);
}

/* --- dumps ------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void dumps(struct kernel_table *table, const char *name, size_t wanted) {
	static const uint16_t port = SMTP_PORT;
	const struct inet_diag_ports ports = { .local = &port, .local_count = 1 };
	int64_t took_ns[DUMPS];
	struct connection *list;
	struct diag diag;
	size_t count = 0;

	for (unsigned i = 0; i < DUMPS; i++) {
		int64_t began_ns = clock_thread_cpu_ns();

		if (kernel_table_dump(table, &ports, &list, &count, &diag) != 0 ||
		    count < wanted)
			fail("dump");
		took_ns[i] = clock_thread_cpu_ns() - began_ns;
	}
	qsort(took_ns, DUMPS, sizeof(took_ns[0]), ascending);
	printf("witness_dump_us_%s %.0f\n", name,
	    (double)took_ns[DUMPS / 2] / 1000);
}

static struct kernel_table *open_table(void) {
	struct role_context context = { .kind = ROLE_POLICY };
	struct kernel_table *table = NULL;
	struct diag diag;

	if (!netlink_open(site.generation, &context) ||
	    kernel_table_open(&table, context.netlink_fds, context.netlink_count,
		&diag) != 0)
		fail("netlink");
	return table;
}

/* With what is present after the load, and with others beside it. */
static void dump_costs(struct kernel_table *table) {
	pid_t crowds[PROCESSES_MAX];
	int ready[2], count = 0;
	char one;

	if (pipe(ready) != 0)
		fail("pipe");
	dumps(table, "10000", PRESENT);
	for (; count * 2 * OTHERS_EACH < OTHERS; count++) {
		crowds[count] = start(crowd, ready[1] * PROCESSES_MAX + count);
		if (read(ready[0], &one, 1) != 1)
			fail("others");
	}
	dumps(table, "10000_others_50000", PRESENT);
	while (count > 0)
		end_process(crowds[--count]);
}

int main(int argc, char **argv) {
	struct kernel_table *table;
	int listener;
	pid_t server;

	(void)argv;
	if (argc > 1)
		seconds = 1;	/* short: no figures to quote */
	setvbuf(stdout, NULL, _IONBF, 0);
	own_network();
	many_files();
	listener = listen_on(SMTP_PORT);
	server = start(serve, listener);
	site_open(&site, 65536, "witness = { ports = [ 20125 ]; }; "
	    "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 2000000; refuse_at = 2000000; } );");
	table = open_table();
	dumps(table, "none", 0);
	for (uint32_t i = 0; i < PRESENT; i++)
		come(&clients[i]);
	shares(server);
	dump_costs(table);
	kernel_table_close(&table);
	end_process(server);
	site_close(&site);
	return 0;
}

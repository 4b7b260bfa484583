/* SPDX-License-Identifier: ISC */
/* The load generators' common part; see load.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/load.h"

#define ANSWERS_MAX 16
#define SILENCE_MS 20000
#define BUCKETS 4096		/* of the histogram: 64 steps for each power of two, in ns */

static struct {
	const struct load_protocol *protocol;
	union {
		struct sockaddr any;
		struct sockaddr_un local;
		struct sockaddr_in inet;
	} address;
	socklen_t address_length;
	const char *place;		/* as it was given */
	unsigned connections;
	uint64_t units, warm_up;
	uint32_t clients;
	int poll;
	uint64_t begun, done;
	int64_t start_ns, start_cpu_ns;
	uint64_t histogram[BUCKETS];
	struct {
		const char *word;
		uint64_t count;
	} answers[ANSWERS_MAX];
} load = { .connections = 1, .units = 100000, .warm_up = 1000, .clients = 10000 };

static void fail(const char *what) {
	fprintf(stderr, "%s: %s: %s\n", load.protocol->name, what,
	    errno ? strerror(errno) : "protocol");
	exit(1);
}

static int64_t now_ns(void) {
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t cpu_ns(void) {
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void load_put(struct load_connection *connection, const void *data, size_t length) {
	if (length > sizeof connection->out - connection->out_length)
		abort();
	memcpy(connection->out + connection->out_length, data, length);
	connection->out_length += length;
}

uint32_t load_client(uint64_t serial) {
	uint64_t mixed = (serial + 1) * UINT64_C(0x9e3779b97f4a7c15);

	return 0x10000000 + (uint32_t)((mixed >> 32) % load.clients);
}

uint16_t load_port(uint64_t serial) {
	return (uint16_t)(1024 + serial % 64000);
}

static unsigned bucket_of(int64_t ns) {
	uint64_t value = ns < 64 ? 64 : (uint64_t)ns;
	unsigned top = 63 - (unsigned)__builtin_clzll(value);
	unsigned bucket = (top - 6) * 64 + (unsigned)((value >> (top - 6)) & 63);

	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static double percentile_us(double share) {
	uint64_t total = 0, seen = 0;

	for (unsigned i = 0; i < BUCKETS; i++)
		total += load.histogram[i];
	for (unsigned i = 0; i < BUCKETS; i++) {
		seen += load.histogram[i];
		if ((double)seen >= share * (double)total && seen > 0)
			return (double)((UINT64_C(64) + i % 64) << (i / 64)) / 1000.0;
	}
	return 0;
}

static void count(const char *word) {
	for (unsigned i = 0; i < ANSWERS_MAX; i++) {
		if (load.answers[i].word == NULL)
			load.answers[i].word = word;
		if (strcmp(load.answers[i].word, word) == 0) {
			load.answers[i].count++;
			return;
		}
	}
}

static void send_out(struct load_connection *connection) {
	/* Far smaller than a socket buffer: it goes out at once. */
	if (connection->out_length > 0 &&
	    send(connection->fd, connection->out, connection->out_length, MSG_NOSIGNAL) !=
	    (ssize_t)connection->out_length)
		fail("send");
	connection->out_length = 0;
}

static void open_connection(struct load_connection *connection) {
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };
	bool each = load.protocol->connection_each;

	connection->fd = socket(load.address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC |
	    (each ? SOCK_NONBLOCK : 0), 0);
	if (connection->fd < 0)
		fail("socket");
	/* a kernel that refuses is an answer, too: it is read as one that hung up */
	if (connect(connection->fd, &load.address.any, load.address_length) != 0 &&
	    !(each && (errno == EINPROGRESS || errno == ECONNREFUSED)))
		fail(load.place);
	connection->in_length = 0;
	if (epoll_ctl(load.poll, EPOLL_CTL_ADD, connection->fd, &event) != 0)
		fail("epoll_ctl");
}

/* Starts the next unit, if there is one. */
static void begin(struct load_connection *connection) {
	if (load.begun == load.warm_up + load.units) {
		if (connection->fd >= 0)
			close(connection->fd);
		connection->fd = -1;
		return;
	}
	connection->sent_ns = now_ns();
	if (connection->fd < 0)
		open_connection(connection);
	connection->serial = load.begun++;
	connection->step = 0;
	connection->out_length = 0;
	load.protocol->begin(connection);
	send_out(connection);
}

static void unit_done(struct load_connection *connection) {
	if (++load.done == load.warm_up) {
		load.start_ns = now_ns();
		load.start_cpu_ns = cpu_ns();
	}
	if (load.protocol->connection_each) {
		close(connection->fd);
		connection->fd = -1;
	}
	begin(connection);
}

static void readable(struct load_connection *connection) {
	ssize_t length = recv(connection->fd, connection->in + connection->in_length,
	    sizeof connection->in - connection->in_length, MSG_DONTWAIT);
	const char *answer = NULL;
	size_t used = 0;
	enum load_result result;

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	connection->hung_up = length <= 0;
	if (connection->hung_up && !load.protocol->connection_each)
		fail("the server closed a connection");
	connection->in_length += length > 0 ? (size_t)length : 0;
	result = load.protocol->input(connection, &used, &answer);
	errno = 0;
	if (result == LOAD_BAD || used > connection->in_length ||
	    (result == LOAD_MORE && connection->hung_up))
		fail("malformed reply");
	if (result == LOAD_MORE)
		return;
	connection->in_length -= used;
	if (connection->in_length > 0)
		fail("a reply that nobody asked for");
	if (answer != NULL && load.done >= load.warm_up) {
		load.histogram[bucket_of(now_ns() - connection->sent_ns)]++;
		count(answer);
	}
	if (result == LOAD_STEP)
		connection->sent_ns = now_ns();
	send_out(connection);
	if (result == LOAD_DONE)
		unit_done(connection);
}

static void run(struct load_connection *connections) {
	struct epoll_event events[64];

	load.poll = epoll_create1(EPOLL_CLOEXEC);
	if (load.poll < 0)
		fail("epoll_create1");
	for (unsigned i = 0; i < load.connections; i++) {
		connections[i].fd = -1;
		begin(&connections[i]);
	}
	while (load.done < load.warm_up + load.units) {
		int ready = epoll_wait(load.poll, events, 64, SILENCE_MS);

		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			fail("no reply in 20 s");
		for (int i = 0; i < ready; i++)
			readable(events[i].data.ptr);
	}
}

static void summary(void) {
	double seconds = (double)(now_ns() - load.start_ns) / 1e9;

	printf("rate %.1f\n", (double)load.units / seconds);
	printf("p50_us %.1f\n", percentile_us(0.50));
	printf("p99_us %.1f\n", percentile_us(0.99));
	printf("loader_us %.2f\n",
	    (double)(cpu_ns() - load.start_cpu_ns) / 1000.0 / (double)load.units);
	for (unsigned i = 0; i < ANSWERS_MAX && load.answers[i].word != NULL; i++)
		printf("answer %s %" PRIu64 "\n", load.answers[i].word, load.answers[i].count);
}

static void usage(void) {
	fprintf(stderr, "usage: %s unix:/path|inet:address:port [-c connections] [-n units] [-w warm-up] "
	    "[-K clients]\n", load.protocol->name);
	exit(64);
}

static uint64_t number(const char *text) {
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (*end != '\0' || value == 0 || value > UINT32_MAX)
		usage();
	return value;
}

uint32_t load_clients(void) {
	return load.clients;
}

/* "unix:/path" or "inet:127.0.0.1:25" */
static void set_address(const char *place) {
	const char *port = strrchr(place, ':');
	char host[INET_ADDRSTRLEN];

	load.place = place;
	if (strncmp(place, "unix:", 5) == 0 &&
	    strlen(place + 5) < sizeof load.address.local.sun_path) {
		load.address.local.sun_family = AF_UNIX;
		memcpy(load.address.local.sun_path, place + 5, strlen(place + 5));
		load.address_length = sizeof load.address.local;
		return;
	}
	if (strncmp(place, "inet:", 5) != 0 || port == place + 4 ||
	    (size_t)(port - place - 5) >= sizeof host)
		usage();
	memcpy(host, place + 5, (size_t)(port - place - 5));
	host[port - place - 5] = '\0';
	load.address.inet.sin_family = AF_INET;
	load.address.inet.sin_port = htons((uint16_t)number(port + 1));
	load.address_length = sizeof load.address.inet;
	if (inet_pton(AF_INET, host, &load.address.inet.sin_addr) != 1)
		usage();
}

int load_main(int argc, char **argv, const struct load_protocol *protocol) {
	struct load_connection *connections;
	int letter;

	load.protocol = protocol;
	while ((letter = getopt(argc, argv, "c:n:w:K:")) != -1) {
		switch (letter) {
		case 'c':
			load.connections = (unsigned)number(optarg);
			break;
		case 'n':
			load.units = number(optarg);
			break;
		case 'w':
			load.warm_up = number(optarg);
			break;
		case 'K':
			load.clients = (uint32_t)number(optarg);
			break;
		default:
			usage();
		}
	}
	if (optind != argc - 1)
		usage();
	set_address(argv[optind]);
	connections = calloc(load.connections, sizeof *connections);
	if (connections == NULL)
		fail("memory");
	run(connections);
	summary();
	free(connections);
	return 0;
}

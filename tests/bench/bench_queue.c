/* SPDX-License-Identifier: ISC */
/*
 * The driven queue with 100,000 and with 1,000,000 messages that failed and wait for their next
 * try, with its journal on a real disk (TMPDIR, or /var/tmp), as if their files had been read:
 *
 *	memory		of the process, for each message beyond the 100,000; and messages that
 *			are in memory
 *	list		until all of them were told, as rows and summed up by destination; and the
 *			longest piece of that, in which the queue does nothing else
 *
 * With an argument: 20,000 instead of 1,000,000, to see that it works.  With "serve" and a path:
 * 1,000,000 are served there for posternctl -s unix:PATH, until the process is ended.
 */
#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/queue/queue_journal.h"
#include "front/queue/queue_control.h"
#include "tests/unit/site.h"
#include "tests/unit/engine/queue/queue_defaults.h"

#define FEW		100000u
#define DOMAINS		50000u
#define HOUR_NS		(3600 * NS_PER_SECOND)
#define CONFIGURATION	"classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 1000; } );\n" \
	"mta = ( { name = \"out\"; kind = \"sendmail\"; user = \"root\"; } );\n"

static struct site site;
static struct queue *queue;
static char place[PATH_MAX];
static uint64_t told;

static void give_up(const char *what) {
	fprintf(stderr, "bench_queue: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double ms_since(int64_t start_ns) {
	return (double)(clock_now_ns() - start_ns) / 1e6;
}

static uint64_t resident_bytes(void) {
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long all = 0, resident = 0;

	(void)malloc_trim(0);
	if (file == NULL || fscanf(file, "%lu %lu", &all, &resident) != 2)
		give_up("/proc/self/statm");
	fclose(file);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* --- the queue ---------------------------------------------------------------------- */

static void read_more(void *context, unsigned directory, const char *id,
    uint64_t at) {
	(void)context, (void)directory, (void)id, (void)at;
}

static void has_room(void *context) {
	(void)context;
}

static void turn(void) {
	engine_heartbeat(site.engine, clock_now_ns());
	(void)queue_turn(queue, clock_now_ns());
}

static void begin(void) {
	static const struct queue_calls calls = { read_more, has_room, NULL };
	static const struct queue_directory directory = { .mta_name = "out",
		.path = "/var/spool/mqueue/q1" };
	struct queue_journal_setup setup = { .path = place, .file_size = 16 << 20,
		.sync_delay_ns = 100 * NS_PER_MS, .envelope_delay_ns = NS_PER_SECOND,
		.threaded = true };
	struct queue_settings settings = queue_defaults;
	struct diag diag;

	site_open_sized(&site, 1024, 4096, CONFIGURATION);
	settings.mtas[0] = (struct generation_mta){ .drive = 1,
		.processes = 20, .local_processes = 20, .retry_ns = 300 * NS_PER_SECOND,
		.retry_most_ns = 1800 * NS_PER_SECOND, .stall_ns = 10 * NS_PER_SECOND };
	if (queue_open(&queue, site.engine, &settings, &directory, 1, &calls, &diag) != 0 ||
	    queue_journal_open(queue, &setup, clock_now_ns(), clock_wall_ns(), &diag) != 0)
		give_up(diag.text);
	while (!queue_scan_may_begin(queue))
		turn();
}

/* Its file was read: it has been tried for some time, now for the last time. */
static void read_one(uint32_t number) {
	int64_t now_ns = clock_now_ns();
	struct queue_file file = { .stamp = number + 1, .inode = number + 1,
		.arrival_ns = now_ns - HOUR_NS, .tried_ns = now_ns, .tries = 5, .recipients = 1,
		.made_s = clock_wall_s() - 3600, .sender = "somebody@sender.example",
		.sender_length = 23 };
	char id[32], domain[40];
	int length = snprintf(domain, sizeof(domain), "customer%u.example", number % DOMAINS);

	snprintf(id, sizeof(id), "6AR%04xx%06u", number / 1000000, number % 1000000);
	if (!queue_read_begin(queue, 0, id, &file) || !queue_read_recipient(queue, domain, (size_t)length))
		give_up(id);
	queue_read_end(queue, true, 0, now_ns);
}

static void fill(uint32_t from, uint32_t to) {
	for (uint32_t i = from; i < to; i++) {
		read_one(i);
		if (i % 256 == 0)
			turn();
	}
	turn();
}

/* --- what is measured ------------------------------------------------------------------ */

static bool count_row(void *context, const struct queue_row *row) {
	(void)context, (void)row;
	told++;
	return true;
}

static bool count_destination(void *context, const struct queue_destination_row *row) {
	(void)context;
	told += row->messages;
	return true;
}

static void list(const char *word, bool sums_up, uint32_t count) {
	int64_t start_ns = clock_now_ns();
	struct queue_journal_list *journal = queue_journal_list_open(queue, sums_up);
	double longest = 0;
	bool more = journal != NULL;

	told = 0;
	while (more) {
		int64_t piece_ns = clock_now_ns();

		more = queue_journal_list_step(journal, piece_ns, count_row, NULL);
		longest = ms_since(piece_ns) > longest ? ms_since(piece_ns) : longest;
	}
	if (sums_up)
		queue_each_destination(queue, journal, clock_now_ns(), count_destination, NULL);
	else
		queue_each(queue, count_row, NULL);
	queue_journal_list_close(&journal);
	printf("queue_%s_ms_%u %.0f\n", word, count, ms_since(start_ns));
	printf("queue_%s_longest_piece_ms_%u %.1f\n", word, count, longest);
	if (told != count)
		give_up("not all were told");
}

static void measure(uint32_t count) {
	uint64_t before;

	begin();
	fill(0, FEW < count ? FEW : count / 2);
	before = resident_bytes();
	fill(FEW < count ? FEW : count / 2, count);
	printf("queue_in_memory_%u %llu\n", count,
	    count - (unsigned long long)queue_journal_waiting(queue));
	printf("queue_resident_bytes_per_message_beyond_%u %.1f\n", FEW < count ? FEW : count / 2,
	    ((double)resident_bytes() - (double)before) /
	    (count - (FEW < count ? FEW : count / 2)));
	fflush(stdout);
	list("list", false, count);
	list("list_destinations", true, count);
}

/* --- for posternctl -------------------------------------------------------------------- */

static void on_turn(evutil_socket_t fd, short what, void *context) {
	(void)fd, (void)what, (void)context;
	turn();
}

static void serve(const char *path, uint32_t count) {
	static const struct timeval tenth = { .tv_usec = 100000 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct event_base *base = event_base_new();
	struct queue_control *control;
	struct event *event = event_new(base, -1, EV_PERSIST, on_turn, NULL);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct diag diag;

	begin();
	fill(0, count);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	(void)unlink(path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 10) != 0 ||
	    queue_control_open(&control, base, site.engine, queue, &diag) != 0 ||
	    queue_control_listen(control, fd, NULL, &diag) != 0 || event_add(event, &tenth) != 0)
		give_up(path);
	printf("serving\n");
	fflush(stdout);
	event_base_dispatch(base);
}

static void remove_place(void) {
	DIR *directory = opendir(place);
	const struct dirent *entry;

	while (directory != NULL && (entry = readdir(directory)) != NULL)
		(void)unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory == NULL || rmdir(place) != 0)
		give_up(place);
	closedir(directory);
}

int main(int argc, char **argv) {
	const char *parent = getenv("TMPDIR");

	snprintf(place, sizeof(place), "%s/postern-queue.XXXXXX",
	    parent != NULL ? parent : "/var/tmp");
	if (mkdtemp(place) == NULL)
		give_up(place);
	if (argc > 2)
		serve(argv[2], 1000000);
	measure(argc > 1 ? 20000 : 1000000);
	queue_close(&queue);
	site_close(&site);
	remove_place();
	return 0;
}

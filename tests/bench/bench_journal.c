/* SPDX-License-Identifier: ISC */
/*
 * The journal on a real disk (TMPDIR, or /var/tmp):
 *
 *	recovery	of 10,000 and of 1,000,000 messages that wait, of which 1,000 were being
 *			worked on, side by side in the log as a runner brings them: time
 *			until runs may begin, and bytes read, with the files in the page
 *			cache, and without (cold).  Spread: the 1,000 stand as far from each
 *			other as can be, so that each costs a read of its own
 *	deliveries	200 a second for 10 s by the clock, each with a new message, a
 *			start and a finish: syncs for each recipient
 *	queue		a queue of 20,000 messages of which half of the deliveries are deferred, as
 *			fast as it can be, on one log and on one for each retry interval
 *			(postern-simulate queue counts what they read and write)
 *	append		records of 200 bytes, without a sync, in groups, and with a sync for
 *			each, beside a loop of write and fdatasync
 *
 * With an argument: less of all, to see that it works.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <dirent.h>

#include "base/clock.h"
#include "lab/simulate_queue.h"
#include "journal/log.h"
#include "journal/queue/messages.h"
#include "tests/crash/sync_log.h"

#define START_NS	(INT64_C(1800000000) * NS_PER_SECOND)
#define SUFFIX		1000
#define ROUNDS		5
#define FEW		10000
#define RATE		200
#define RECORD		200	/* bytes */

static unsigned seconds = 10, most = 1000000, rounds = ROUNDS, appends = 1000000;
static char place[PATH_MAX];
static uint64_t sink;

static void give_up(const char *what) {
	fprintf(stderr, "bench_journal: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double seconds_since(int64_t start_ns) {
	return (double)(clock_now_ns() - start_ns) / 1e9;
}

/* --- the directory ------------------------------------------------------------------------ */

static void each_file_of(const char *where, void (*what)(const char *path)) {
	DIR *directory = opendir(where);
	struct dirent *entry;

	if (directory == NULL)
		give_up(where);
	while ((entry = readdir(directory)) != NULL) {
		char *path;

		if (entry->d_name[0] == '.')
			continue;
		if (asprintf(&path, "%s/%s", where, entry->d_name) < 0)
			give_up(where);
		what(path);
		free(path);
	}
	closedir(directory);
}

static void each_file(void (*what)(const char *path)) {
	each_file_of(place, what);
}

static void remove_one(const char *path) {
	(void)unlink(path);
}

static bool drops;	/* out of the page cache */

static void settle_one(const char *path) {
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fdatasync(fd) != 0 ||
	    (drops && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0))
		give_up(path);
	close(fd);
}

static struct journal_storage *open_storage(void) {
	struct diag diag = { .error = 0 };
	struct journal_storage *storage = journal_storage_posix(place, false, &diag);

	if (storage == NULL)
		give_up(place);
	return storage;
}

static struct messages *open_messages(struct journal_storage *storage, bool threaded,
    int64_t wall_ns) {
	struct messages_settings settings = messages_defaults;
	const struct messages_calls calls = { .renewed = NULL };
	struct messages *messages = NULL;
	struct diag diag;

	settings.log.threaded = threaded;
	if (messages_open(&messages, storage, &settings, &calls, wall_ns, clock_now_ns(),
		&diag) != 0 || messages_is_degraded(messages))
		give_up("the journal does not open");
	return messages;
}

/* --- recovery --------------------------------------------------------------------------------- */

static void put(struct messages *messages, unsigned number, int64_t due_ns, int64_t wall_ns) {
	char id[32], domain[40];
	struct messages_group group = { .domain = domain, .recipients = 1, .due_ns = due_ns };
	struct messages_envelope envelope = { .mta = "sendmail",
		.directory = "/var/spool/mqueue", .id = id, .stamp = number,
		.sender = "somebody@sender.example", .arrival_ns = wall_ns,
		.due_ns = due_ns, .recipients = 1, .groups = &group, .group_count = 1 };

	snprintf(id, sizeof(id), "1AM2xK%07u", number);
	group.length = (size_t)snprintf(domain, sizeof(domain), "customer%u.example",
	    number % 50000);
	if (messages_put(messages, &envelope, false, wall_ns) == 0)
		give_up("put");
}

static void work_on(struct messages *messages, unsigned number, int64_t wall_ns) {
	char id[32], domain[40];
	size_t length = (size_t)snprintf(domain, sizeof(domain), "customer%u.example",
	    number % 50000);

	snprintf(id, sizeof(id), "1AM2xK%07u", number);
	if (messages_start(messages, messages_key("sendmail", "/var/spool/mqueue", id), 0, wall_ns) == 0)
		give_up("start");
	if (number % 2 == 0 && messages_delivered(messages, messages_key("sendmail", "/var/spool/mqueue", id),
	    &(const struct journal_delivery){ .domain = { domain, (uint16_t)length },
	    .recipients = 1 }, wall_ns) == 0)
		give_up("delivered");
}

static void turn_until(struct messages *messages, int64_t *wall_ns,
    bool (*done)(const struct messages *messages)) {
	while (!done(messages)) {
		*wall_ns += NS_PER_MS;
		(void)messages_turn(messages, *wall_ns, clock_now_ns());
	}
}

/* `queued' messages wait, and 1,000 are being worked on; then it dies. */
static void fill(unsigned queued, bool spread) {
	struct journal_storage *storage = open_storage();
	int64_t wall_ns = START_NS, now_ns = clock_now_ns();
	struct messages *messages = open_messages(storage, false, wall_ns);

	turn_until(messages, &wall_ns, messages_is_indexed);
	for (unsigned i = 0; i < queued; i++) {
		put(messages, i, i % 3 == 0 ? INT64_MAX : wall_ns + NS_PER_SECOND * 3600, wall_ns);
		if (i % 1000 == 0)
			(void)messages_turn(messages, wall_ns += NS_PER_MS, now_ns += NS_PER_MS);
	}
	/* long enough for positions */
	for (unsigned i = 0; i < 40; i++)
		(void)messages_turn(messages, wall_ns += NS_PER_SECOND / 2,
		    now_ns += NS_PER_SECOND / 2);
	for (unsigned i = 0; i < SUFFIX; i++)
		work_on(messages, spread ? (unsigned)((uint64_t)i * queued / SUFFIX) :
		    queued / 2 + i, wall_ns);
	if (sync_log(messages_log(messages), now_ns) != 0)
		give_up("sync");
	messages_close(&messages);
	journal_storage_close(&storage);
}

struct recovery {
	double seconds, indexed;
	uint64_t bytes, all_bytes, recovered;
};

static struct recovery recover(bool cold) {
	struct journal_storage *storage = open_storage();
	struct messages_totals totals;
	struct recovery took;
	struct messages *messages;
	int64_t wall_ns = START_NS + NS_PER_SECOND * 60, start_ns;

	drops = cold;
	each_file(settle_one);
	start_ns = clock_now_ns();
	messages = open_messages(storage, true, wall_ns);
	turn_until(messages, &wall_ns, messages_is_recovered);
	took.seconds = seconds_since(start_ns);
	took.bytes = journal_log_files(messages_log(messages))->bytes_read;
	turn_until(messages, &wall_ns, messages_is_indexed);
	took.indexed = seconds_since(start_ns);
	took.all_bytes = journal_log_files(messages_log(messages))->bytes_read;
	messages_count(messages, &totals);
	took.recovered = totals.recovered;
	sink += totals.messages;
	messages_close(&messages);
	journal_storage_close(&storage);
	return took;
}

static int by_seconds(const void *one, const void *other) {
	double a = ((const struct recovery *)one)->seconds;
	double b = ((const struct recovery *)other)->seconds;

	return (a > b) - (a < b);
}

/* Each round has a journal of its own: recovery writes. */
static double bench_recovery(unsigned queued, bool cold, bool spread) {
	const char *word = spread ? "spread_" : cold ? "cold_" : "";
	struct recovery all[ROUNDS];
	const struct recovery *median = &all[rounds / 2];

	for (unsigned i = 0; i < rounds; i++) {
		each_file(remove_one);
		fill(queued, spread);
		all[i] = recover(cold);
	}
	each_file(remove_one);
	qsort(all, rounds, sizeof(all[0]), by_seconds);
	printf("journal_recovery_%sms_%u %.2f\n", word, queued, median->seconds * 1e3);
	printf("journal_recovery_%sbytes_read_%u %" PRIu64 "\n", word, queued, median->bytes);
	if (median->recovered != SUFFIX)
		give_up("not all that was worked on was recovered");
	printf("journal_indexed_%sms_%u %.2f\n", word, queued, median->indexed * 1e3);
	printf("journal_indexed_%sbytes_read_%u %" PRIu64 "\n", word, queued,
	    median->all_bytes);
	fflush(stdout);
	return median->seconds;
}

static void compare_recovery(bool cold, bool spread) {
	double few = bench_recovery(FEW, cold, spread);
	double many = bench_recovery(most, cold, spread);

	printf("journal_recovery_%sgrowth_%d_to_%u %.2f\n",
	    spread ? "spread_" : cold ? "cold_" : "", FEW, most, many / few);
}

/* --- 200 deliveries a second ------------------------------------------------------------------- */

static void wait_until(struct messages *messages, int64_t until_ns) {
	int64_t now_ns;

	while ((now_ns = clock_now_ns()) < until_ns) {
		struct pollfd event = { .fd = journal_log_event_fd(messages_log(messages)),
			.events = POLLIN };
		int64_t next_ns = messages_turn(messages, START_NS + now_ns, now_ns);
		int64_t wait_ns = (next_ns < until_ns ? next_ns : until_ns) - now_ns;

		(void)poll(&event, 1, wait_ns > 0 ? (int)(wait_ns / NS_PER_MS) + 1 : 0);
	}
}

static void bench_deliveries(void) {
	struct journal_storage *storage = open_storage();
	int64_t start_ns = clock_now_ns(), wall_ns = START_NS + start_ns;
	struct messages *messages = open_messages(storage, true, wall_ns);
	struct journal_log_counts before, after;
	double all;

	turn_until(messages, &wall_ns, messages_is_indexed);
	journal_log_count(messages_log(messages), &before);
	start_ns = clock_now_ns();
	for (unsigned i = 0; i < RATE * seconds; i++) {
		char id[32];

		wait_until(messages, start_ns + i * (NS_PER_SECOND / RATE));
		wall_ns = START_NS + clock_now_ns();
		put(messages, 2 * i, 0, wall_ns);
		work_on(messages, 2 * i, wall_ns);
		snprintf(id, sizeof(id), "1AM2xK%07u", 2 * i);
		(void)messages_finish(messages, messages_key("sendmail", "/var/spool/mqueue", id), wall_ns);
	}
	journal_log_count(messages_log(messages), &after);
	all = (double)(after.syncs - before.syncs);
	printf("journal_log_syncs_per_recipient %.4f\n", all / (RATE * seconds));
	all += (double)(after.position_syncs - before.position_syncs +
	    after.directory_syncs - before.directory_syncs);
	printf("journal_syncs_per_recipient %.4f\n", all / (RATE * seconds));
	messages_close(&messages);
	journal_storage_close(&storage);
	each_file(remove_one);
}

/* --- appending ------------------------------------------------------------------------------------ */

static struct journal_log *open_log(struct journal_storage *storage) {
	struct journal_log_options options = { .kind = JOURNAL_QUEUE,
		.file_size = JOURNAL_FILE_SIZE };
	struct journal_log *log = NULL;
	struct diag diag;

	if (journal_log_open(&log, storage, &options, clock_now_ns(), &diag) != 0 ||
	    journal_log_state(log) != JOURNAL_GOOD)
		give_up("the log does not open");
	return log;
}

/* Records a second; a sync after each `group', 0: none. */
static double append(unsigned records, unsigned group) {
	static const uint8_t payload[RECORD - JOURNAL_HEADER];
	struct journal_storage *storage = open_storage();
	struct journal_log *log = open_log(storage);
	int64_t start_ns = clock_now_ns();
	double took;

	for (unsigned i = 1; i <= records; i++) {
		if (journal_log_append(log, JOURNAL_ENVELOPE, payload, sizeof(payload),
			NULL) == 0)
			give_up("append");
		if (group != 0 && i % group == 0 &&
		    sync_log(log, clock_now_ns()) != 0)
			give_up("sync");
	}
	journal_log_flush(log);
	took = seconds_since(start_ns);
	journal_log_close(&log);
	journal_storage_close(&storage);
	each_file(remove_one);
	return records / took;
}

/* The same bytes by write(2), and fdatasync(2) after each `group' of them. */
static double plain(unsigned records, unsigned group) {
	static const uint8_t bytes[RECORD];
	char path[PATH_MAX + 16];
	int64_t start_ns;
	double took;
	int fd;

	snprintf(path, sizeof(path), "%s/plain", place);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		give_up(path);
	start_ns = clock_now_ns();
	for (unsigned i = 1; i <= records; i++) {
		if (write(fd, bytes, sizeof(bytes)) != sizeof(bytes) ||
		    (group != 0 && i % group == 0 && fdatasync(fd) != 0))
			give_up(path);
	}
	took = seconds_since(start_ns);
	close(fd);
	unlink(path);
	return records / took;
}

static void bench_append(void) {
	printf("plain_write_per_s %.0f\n", plain(appends, 0));
	printf("journal_append_per_s %.0f\n", append(appends, 0));
	printf("plain_write_fdatasync_per_s %.0f\n", plain(appends / 500, 1));
	printf("journal_append_sync_each_per_s %.0f\n", append(appends / 500, 1));
	printf("plain_write_fdatasync_by_20_per_s %.0f\n", plain(appends / 25, 20));
	printf("journal_append_sync_by_20_per_s %.0f\n", append(appends / 25, 20));
}

/* --- one log or several ----------------------------------------------------------------- */

static void bench_queue(unsigned logs, const char *word) {
	struct journal_storage *storages[QUEUED_LOGS_MAX];
	char paths[QUEUED_LOGS_MAX][PATH_MAX + 16];
	struct queue_simulation simulation;
	struct queue_result result;
	int64_t start_ns, start_cpu_ns;
	struct diag diag;

	simulate_queue_defaults(&simulation);
	simulation.messages = most / 50;
	simulation.deferred = 0.5;
	for (unsigned i = 0; i < logs; i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s/%u", place, i);
		if (mkdir(paths[i], 0700) != 0)
			give_up(paths[i]);
		storages[i] = journal_storage_posix(paths[i], false, &diag);
		if (storages[i] == NULL)
			give_up(paths[i]);
	}
	start_ns = clock_now_ns();
	start_cpu_ns = clock_thread_cpu_ns();
	if (!simulate_queue(&simulation, storages, logs, false, &result))
		give_up("the queue does not run");
	printf("queue_%s_ms %.0f\n", word, seconds_since(start_ns) * 1e3);
	printf("queue_%s_cpu_ms %.0f\n", word,
	    (double)(clock_thread_cpu_ns() - start_cpu_ns) / 1e6);
	fflush(stdout);
	for (unsigned i = 0; i < logs; i++) {
		journal_storage_close(&storages[i]);
		each_file_of(paths[i], remove_one);
		(void)rmdir(paths[i]);
	}
}

int main(int argc, char **argv) {
	const char *parent = getenv("TMPDIR");

	(void)argv;
	if (argc > 1) {
		seconds = rounds = 1;
		most = 2 * FEW;
		appends = 20000;
	}
	snprintf(place, sizeof(place), "%s/postern-journal.XXXXXX",
	    parent != NULL ? parent : "/var/tmp");
	if (mkdtemp(place) == NULL)
		give_up(place);
	bench_append();
	fflush(stdout);
	bench_deliveries();
	bench_queue(1, "one_log");
	bench_queue(simulate_queue_logs(), "log_per_interval");
	compare_recovery(false, false);
	compare_recovery(true, false);
	compare_recovery(true, true);
	each_file(remove_one);
	rmdir(place);
	return sink == 0;
}

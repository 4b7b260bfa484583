/* SPDX-License-Identifier: ISC */
/*
 * Many messages through one journal on a real disk, in virtual time: 500 a second, of which
 * one in ten is put off, by 5 minutes to half an hour, again and again, and a few are
 * suspended for hours.  Each 1,000,000 messages the process "dies", at any time, and another
 * goes on.
 *
 *	journal_soak [-n MESSAGES] [-s SEED]
 *
 * All the while the disk holds what comes in an hour, at most (the longest interval's
 * runner goes round in half an hour), files are deleted in order, and none but the journal
 * knows what is put off: each message is done with once.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "journal/log.h"
#include "journal/queue/messages.h"
#include "tests/unit/random.h"
#include "tests/crash/sync_log.h"

#define START_NS	(INT64_C(1800000000) * NS_PER_SECOND)
#define RATE		500
#define TURN_NS		(100 * NS_PER_MS)
#define LIFE		1000000		/* messages of a process */
#define HOUR_NS		(3600 * NS_PER_SECOND)
#define SLACK		(UINT64_C(8) * JOURNAL_FILE_SIZE)

static char place[PATH_MAX];
static struct journal_storage *storage;
static struct messages *messages;
static struct random dice;
static int64_t wall_ns = START_NS, now_ns;
static uint64_t wanted = 10000000, put_count, done_count, lives;
static uint64_t appended_bytes, bytes_an_hour, most_bytes, deleted, begun, anew;
static uint8_t *done;		/* a bit each */
static bool failed;

static void give_up(const char *what) {
	fprintf(stderr, "journal_soak: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void fail(const char *what, uint64_t number) {
	fprintf(stderr, "FAILED: %s: %" PRIu64 "\n", what, number);
	failed = true;
}

/* --- messages --------------------------------------------------------------------------- */

static bool is_done(uint64_t number) {
	return (done[number / 8] >> number % 8 & 1) != 0;
}

static void put(uint64_t number, uint32_t tries, int64_t due_ns) {
	char id[32], domain[40];
	struct messages_group group = { .domain = domain, .recipients = 1, .due_ns = due_ns };
	struct messages_envelope envelope = { .mta = "sendmail",
		.directory = "/var/spool/mqueue", .id = id, .stamp = number + 1,
		.sender = "somebody@sender.example", .arrival_ns = wall_ns, .due_ns = due_ns,
		.recipients = 1, .tries = tries, .groups = &group, .group_count = 1 };

	snprintf(id, sizeof(id), "Q%09" PRIu64, number);
	group.length = (size_t)snprintf(domain, sizeof(domain), "customer%" PRIu64 ".example",
	    number % 5000);
	if (messages_put(messages, &envelope, false, wall_ns) == 0)
		fail("nothing was put", number);
}

/* One in ten is put off, one in a thousand for hours. */
static void work_on(const struct messages_envelope *envelope) {
	uint64_t number = envelope->stamp - 1;
	uint32_t tries = envelope->tries, drawn = random_below(&dice, 1000);
	char id[64], domain[64];
	size_t length = envelope->groups[0].length;

	if (number >= put_count || is_done(number)) {
		fail("it was done with, or never put", number);
		return;
	}
	snprintf(id, sizeof(id), "%s", envelope->id);
	memcpy(domain, envelope->groups[0].domain, length);
	if (messages_start(messages, messages_key("sendmail", "/var/spool/mqueue", id), 0, wall_ns) == 0)
		fail("it cannot be started", number);
	if (drawn < 100 && put_count < wanted) {
		static const int minutes[] = { 5, 10, 20, 30 };

		put(number, tries + 1, wall_ns + (drawn == 0 ? 5 * HOUR_NS :
		    60 * NS_PER_SECOND * minutes[tries < 4 ? tries : 3]));
		return;
	}
	if (messages_delivered(messages, messages_key("sendmail", "/var/spool/mqueue", id),
	    &(const struct journal_delivery){ .domain = { domain, (uint16_t)length },
	    .recipients = 1 }, wall_ns) == 0 || messages_finish(messages, messages_key("sendmail", "/var/spool/mqueue", id), wall_ns) == 0)
		fail("it cannot be finished", number);
	done[number / 8] |= (uint8_t)(1u << number % 8);
	done_count++;
}

/* --- the disk ------------------------------------------------------------------------------ */

/* The files that are there have numbers without a gap. */
static void check_files(void) {
	DIR *directory = opendir(place);
	uint32_t least = UINT32_MAX, most = 0, count = 0;
	struct dirent *entry;
	struct journal_log_counts counts;

	if (directory == NULL)
		give_up(place);
	while ((entry = readdir(directory)) != NULL) {
		uint32_t number = journal_file_number(entry->d_name);

		if (number == 0)
			continue;
		least = number < least ? number : least;
		most = number > most ? number : most;
		count++;
	}
	closedir(directory);
	if (count > 0 && most - least + 1 != count)
		fail("files are missing between the first and the last", most - least + 1 - count);
	journal_log_count(messages_log(messages), &counts);
	if (counts.disk_bytes > most_bytes)
		most_bytes = counts.disk_bytes;
	if (put_count >= LIFE && counts.disk_bytes > bytes_an_hour + SLACK)
		fail("the disk holds more than an hour's records: bytes", counts.disk_bytes);
}

static void remove_files(void) {
	DIR *directory = opendir(place);
	struct dirent *entry;

	while (directory != NULL && (entry = readdir(directory)) != NULL)
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory != NULL)
		closedir(directory);
	rmdir(place);
}

/* --- life ---------------------------------------------------------------------------------- */

static void turn(int64_t passed_ns) {
	wall_ns += passed_ns;
	now_ns += passed_ns;
	(void)messages_turn(messages, wall_ns, now_ns);
}

static void begin_life(void) {
	struct messages_settings settings = messages_defaults;
	const struct messages_calls calls = { .renewed = NULL };
	struct diag diag;

	settings.log.threaded = false;
	settings.sync_delay_ns = NS_PER_SECOND;
	now_ns = random_below(&dice, 1000) * NS_PER_SECOND;
	if (messages_open(&messages, storage, &settings, &calls, wall_ns, now_ns, &diag) != 0)
		give_up(diag.text);
	for (unsigned i = 0; !messages_is_indexed(messages) && i < 1000000; i++)
		turn(NS_PER_MS);
	lives++;
}

static void count_life(void) {
	struct journal_log_counts counts;
	struct messages_totals totals;

	journal_log_count(messages_log(messages), &counts);
	messages_count(messages, &totals);
	appended_bytes += counts.appended_bytes;
	deleted += counts.files_deleted;
	begun += counts.files_begun;
	anew += totals.written_anew;
	if (totals.unreadable != 0)
		fail("records cannot be read", totals.unreadable);
}

/* Dies after its last words were synced; those that it held come back. */
static void end_life(void) {
	if (sync_log(messages_log(messages), now_ns) != 0)
		fail("it cannot be synced", lives);
	count_life();
	messages_close(&messages);
}

static void one_turn(void) {
	struct messages_envelope envelope;
	enum messages_answer answer;
	int64_t next_ns;

	for (unsigned i = 0; i < RATE / (NS_PER_SECOND / TURN_NS) && put_count < wanted; i++)
		put(put_count++, 0, 0);
	for (unsigned i = 0; i < 2 * RATE && !failed; i++) {
		answer = messages_next(messages, wall_ns, &envelope, &next_ns);
		if (answer != MESSAGES_ONE)
			break;
		work_on(&envelope);
	}
	turn(TURN_NS);
}

static void run(void) {
	uint64_t life_end = LIFE;
	int64_t told_ns = wall_ns;

	begin_life();
	for (uint64_t turns = 0; done_count < wanted && !failed; turns++) {
		one_turn();
		if (turns % 100 == 0)
			check_files();
		if (bytes_an_hour == 0 && wall_ns - START_NS > 600 * NS_PER_SECOND) {
			struct journal_log_counts counts;

			journal_log_count(messages_log(messages), &counts);
			bytes_an_hour = 6 * counts.appended_bytes;
		}
		if (put_count >= life_end && put_count < wanted) {
			end_life();
			begin_life();
			life_end += LIFE / 2 + random_below(&dice, LIFE);
		}
		if (put_count == wanted && wall_ns - told_ns > 24 * HOUR_NS)
			fail("not all are done with in a day: left", wanted - done_count);
		if (put_count < wanted)
			told_ns = wall_ns;
	}
	end_life();
}

int main(int argc, char **argv) {
	const char *parent = getenv("TMPDIR");
	int64_t start_ns = clock_now_ns();
	struct diag diag;
	int option;

	dice.state = random_seed();
	while ((option = getopt(argc, argv, "n:s:")) != -1) {
		switch (option) {
		case 'n': wanted = strtoull(optarg, NULL, 10); break;
		case 's': dice.state = strtoull(optarg, NULL, 10); break;
		default: return 2;
		}
	}
	printf("seed %" PRIu64 "\n", dice.state);
	fflush(stdout);
	done = calloc((size_t)(wanted / 8 + 1), 1);
	snprintf(place, sizeof(place), "%s/postern-journal.XXXXXX",
	    parent != NULL ? parent : "/var/tmp");
	if (done == NULL || mkdtemp(place) == NULL)
		give_up(place);
	storage = journal_storage_posix(place, false, &diag);
	if (storage == NULL)
		give_up(place);
	run();
	journal_storage_close(&storage);
	remove_files();
	free(done);
	printf("messages %" PRIu64 " in %.0f h of virtual time (%.0f s), lives %" PRIu64 "\n",
	    done_count, (double)(wall_ns - START_NS) / (double)HOUR_NS,
	    (double)(clock_now_ns() - start_ns) / 1e9, lives);
	printf("appended %" PRIu64 " MB, on the disk at most %" PRIu64 " MB (an hour's records: %"
	    PRIu64 " MB), files begun %" PRIu64 ", deleted in order %" PRIu64
	    ", envelopes written anew %" PRIu64 "\n", appended_bytes >> 20, most_bytes >> 20,
	    bytes_an_hour >> 20, begun, deleted, anew);
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed;
}

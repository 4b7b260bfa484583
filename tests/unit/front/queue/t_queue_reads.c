/* SPDX-License-Identifier: ISC */
/* Which queue files are read, when, and what the engine is told of them; the supervisor
 * and the engine are played here. */
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/socket.h>

#include "tests/unit/test.h"
#include "base/clock.h"
#include "engine/queue/queue_journal.h"
#include "front/queue/queue_drive_internal.h"
#include "tests/unit/caught_log.h"
#include "tests/unit/scratch.h"

#define KNOWN_MAX	4096
#define MTA		3

/* --- an engine that keeps the names -------------------------------------------------- */

struct known {
	char id[32];
	uint64_t stamp;
	struct queue_file file;
	unsigned taken;		/* recipients */
	bool whole;
	uint64_t place;
	char last_domain[64];
};
static struct known known[KNOWN_MAX];
static unsigned known_count, begun, gone_count, dropped_count, abandoned, most_recipients;
static bool full, wants_more;
static struct known *reading;
static char last_gone[32];

static void ask_for_more(const char *id, uint64_t place);

static struct known *find(const char *id) {
	for (unsigned i = 0; i < known_count; i++)
		if (strcmp(known[i].id, id) == 0)
			return &known[i];
	return NULL;
}

bool queue_wants(struct queue *queue, unsigned directory, const char *id) {
	(void)queue, (void)directory, (void)id;
	return !full;
}

bool queue_knows(const struct queue *queue, unsigned directory, const char *id,
    uint64_t stamp) {
	const struct known *there = find(id);

	(void)queue, (void)directory;
	return there != NULL && there->stamp == stamp;
}

bool queue_scan_found(struct queue *queue, unsigned directory, const char *id,
    uint64_t inode) {
	const struct known *there = find(id);

	(void)queue, (void)directory;
	return there != NULL && there->file.inode == inode;
}

bool queue_scan_may_begin(const struct queue *queue) {
	return true;
}

void queue_scan_begin(struct queue *queue) {
}

void queue_scan_end(struct queue *queue, bool whole) {
	(void)queue, (void)whole;
}

bool queue_read_begin(struct queue *queue, unsigned directory,
    const char *id, const struct queue_file *file) {
	(void)queue, (void)directory;
	assert_null(reading);
	if (full)
		return false;
	reading = find(id);
	if (reading == NULL) {
		assert_true(known_count < KNOWN_MAX);
		reading = &known[known_count++];
	}
	memset(reading, 0, sizeof(*reading));
	snprintf(reading->id, sizeof(reading->id), "%s", id);
	reading->file = *file;
	reading->stamp = file->stamp;
	begun++;
	return true;
}

bool queue_read_more(struct queue *queue, unsigned directory,
    const char *id) {
	(void)queue, (void)directory;
	reading = find(id);
	assert_non_null(reading);
	most_recipients += 10;
	return true;
}

bool queue_read_recipient(struct queue *queue, const char *domain, size_t length) {
	if (reading->taken == most_recipients)
		return false;
	reading->taken++;
	snprintf(reading->last_domain, sizeof(reading->last_domain), "%.*s", (int)length,
	    domain);
	return true;
}

void queue_read_end(struct queue *queue, bool whole, uint64_t place, int64_t now_ns) {
	reading->whole = whole;
	reading->place = place;
	if (wants_more && !whole)
		ask_for_more(reading->id, place);
	reading = NULL;
}

void queue_read_abandon(struct queue *queue, int64_t now_ns) {
	abandoned++;
	reading = NULL;
}

void queue_forget_file(struct queue *queue, unsigned directory, const char *id, bool gone,
    int64_t now_ns) {
	struct known *there = find(id);

	(void)queue, (void)directory, (void)now_ns;
	gone_count++;
	dropped_count += !gone;
	snprintf(last_gone, sizeof(last_gone), "%s", id);
	if (there != NULL)
		*there = known[--known_count];
}

void queue_drive_beat(struct queue_drive *of) {
}

void engine_count(struct engine *engine, enum counter counter, uint64_t amount) {
	(void)engine, (void)counter, (void)amount;
}

/* --- a directory and a supervisor ------------------------------------------------------ */

static struct queue_drive drive;
static struct queue_directory directory;
static struct queue_drive_setup setup;
static int far_fd, notify_pipe[2], directory_fd;

static void ask_for_more(const char *id, uint64_t place) {
	queue_reads_want(&drive, 0, id, place);
}

#define FILE_OF(recipients)	"V8\nT1000\nK2000\nN3\nP30000\nS<a@b.example>\n" recipients ".\n"
static const char one[] = FILE_OF("RPFD:<u@h.example>\n");

/* Another file by the same name, as Sendmail does it. */
static void replace(const char *name, const char *text) {
	scratch_write("tfNEW", text);
	assert_int_equal(renameat(directory_fd, "tfNEW", directory_fd, name), 0);
}

static int begin(void **state) {
	int fds[2];

	if (scratch_open(state) != 0 || pipe2(notify_pipe, O_NONBLOCK) != 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds) != 0)
		return -1;
	directory_fd = open(scratch, O_RDONLY | O_DIRECTORY);
	directory = (struct queue_directory){ .mta = MTA, .fd = directory_fd, .watch = 1 };
	(void)snprintf(directory.path, sizeof(directory.path), "%s", scratch);
	setup = (struct queue_drive_setup){ .directories = &directory, .directory_count = 1,
		.notify_fd = notify_pipe[0], .link_fd = fds[0] };
	far_fd = fds[1];
	drive = (struct queue_drive){ .setup = &setup,
		.now_ns = 1000 * NS_PER_SECOND, .wall_s = 5000 };
	known_count = begun = gone_count = dropped_count = abandoned = 0;
	most_recipients = 1000000;
	full = wants_more = false;
	reading = NULL;
	catch_log(state);
	queue_reads_open(&drive);
	queue_directory_open(&drive);
	return 0;
}

static int end(void **state) {
	queue_directory_close(&drive);
	queue_reads_close(&drive);
	close(setup.link_fd);
	close(far_fd);
	close(directory_fd);
	close(notify_pipe[0]);
	close(notify_pipe[1]);
	release_log(state);
	return scratch_close(state);
}

/* The supervisor obeys one order; false: there is none. */
static bool obey(void) {
	struct queue_order data, order;
	char name[64];
	const char *why;
	ssize_t length = recv(far_fd, &data, sizeof(data), 0);
	int fd;

	if (length <= 0)
		return false;
	assert_true(queue_order_read(&data, (size_t)length, &order, &why));
	assert_int_equal(order.verb, QUEUE_ORDER_OPEN);
	snprintf(name, sizeof(name), "qf%s", order.ids.list[0]);
	fd = openat(directory_fd, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
	queue_reads_opened(&drive, order.ticket, fd, fd < 0 ? (uint32_t)errno : 0);
	return true;
}

/* Until nothing is left to do but wait. */
static void settle(void) {
	do {
		while (queue_directory_step(&drive) && queue_directory_next_ns(&drive) == 0)
			;
		queue_reads_ask(&drive);
	} while (obey());
}

static void pass_second(void) {
	drive.now_ns += NS_PER_SECOND;
	drive.wall_s++;
	queue_reads_second(&drive);
	queue_directory_second(&drive);
	settle();
}

static void notify(uint32_t mask, const char *name) {
	char text[32] = "", data[sizeof(struct inotify_event) + sizeof(text)];
	const struct inotify_event event = { .wd = 1, .mask = mask, .len = sizeof(text) };

	snprintf(text, sizeof(text), "%s", name);
	memcpy(data, &event, sizeof(event));
	memcpy(data + sizeof(event), text, sizeof(text));
	assert_int_equal(write(notify_pipe[1], data, sizeof(data)), (ssize_t)sizeof(data));
	queue_directory_notified(&drive);
	settle();
}

/* --- tests ----------------------------------------------------------------------------- */

TEST_IN(begin, end, what_is_there_is_read) {
	const struct known *there;

	scratch_write("qfAA1", one);
	scratch_write("qfAA2", FILE_OF("RPFD:<u@h.example>\nRPFD:<local>\nRPFD:<v@i.example>\n"));
	scratch_write("dfAA1", "data");
	scratch_write("hfAA3", one);
	scratch_write("QfAA4", one);
	scratch_write("tfAA5", one);
	scratch_write("xfAA1", "x");
	settle();
	assert_int_equal(known_count, 2);
	there = find("AA2");
	assert_int_equal(there->file.recipients, 3);
	assert_int_equal(there->taken, 3);
	assert_string_equal(there->last_domain, "i.example");
	assert_true(there->whole);
	/* made 4000 s ago, tried 3000 s ago, by a clock that says 1000 */
	assert_int_equal(there->file.arrival_ns, -3000 * NS_PER_SECOND);
	assert_int_equal(there->file.tried_ns, -2000 * NS_PER_SECOND);
	assert_int_equal(there->file.tries, 3);
	/* "looked through" alone */
	assert_int_equal(logged, 1);
}

TEST_IN(begin, end, changes) {
	settle();
	scratch_write("qfAA1", one);
	notify(IN_CLOSE_WRITE, "qfAA1");
	assert_int_equal(begun, 1);
	/* a process that had it open to lock it has closed it */
	notify(IN_CLOSE_WRITE, "qfAA1");
	assert_int_equal(begun, 1);
	replace("qfAA1", one);
	notify(IN_MOVED_TO, "qfAA1");
	assert_int_equal(begun, 2);
	notify(IN_MOVED_TO, "dfAA1");
	notify(IN_MOVED_TO, "qf../x");
	assert_int_equal(begun, 2);
	notify(IN_DELETE, "qfAA1");
	assert_int_equal(known_count, 0);
	notify(IN_MOVED_FROM, "qfAA2");
	assert_string_equal(last_gone, "AA2");
}

/* The engine asks for a file: it is told of it even if it is as it was. */
TEST_IN(begin, end, the_engine_asks) {
	scratch_write("qfAA1", one);
	settle();
	queue_reads_add(&drive, 0, "AA1", true);
	settle();
	assert_int_equal(begun, 2);
	assert_int_equal(unlinkat(directory_fd, "qfAA1", 0), 0);
	queue_reads_add(&drive, 0, "AA1", true);
	settle();
	assert_int_equal(gone_count, 1);
	assert_int_equal(known_count, 0);
}

/* It changes between the asking and the answer: it is read once more. */
TEST_IN(begin, end, changed_while_it_is_opened) {
	scratch_write("qfAA1", one);
	settle();
	replace("qfAA1", one);
	queue_reads_add(&drive, 0, "AA1", false);
	queue_reads_ask(&drive);
	queue_reads_add(&drive, 0, "AA1", false);
	assert_true(obey());
	assert_int_equal(drive.reads.by_file.count, 1);
	replace("qfAA1", one);
	settle();
	assert_int_equal(begun, 3);
	assert_int_equal(drive.reads.by_file.count, 0);
}

/* One that is being written is looked at again, for a while. */
TEST_IN(begin, end, a_file_that_is_cut) {
	scratch_write("qfAA1", "");
	scratch_write("qfAA2", "V8\nT1\nRPFD:<u@h.ex");
	settle();
	assert_int_equal(known_count, 0);
	assert_int_equal(drive.reads.by_file.count, 2);
	scratch_write("qfAA1", one);
	pass_second();
	assert_int_equal(known_count, 1);
	assert_int_equal(logged, 1);
	for (unsigned i = 0; i < 10; i++)
		pass_second();
	assert_int_equal(drive.reads.by_file.count, 0);
	assert_int_equal(logged, 2);
	assert_non_null(strstr(last_line, "id=AA2 line=3 text=\"queue file is not managed: it "
	    "ends too early\""));
	/* known as bad: not read again, nor logged, until it is another one */
	for (unsigned i = 0; i < 70; i++)
		pass_second();
	assert_int_equal(logged, 2);
	replace("qfAA2", one);
	notify(IN_MOVED_TO, "qfAA2");
	assert_int_equal(known_count, 2);
}

TEST_IN(begin, end, bad_files) {
	scratch_write("qfAA1", "V9\nT1\n.\n");
	settle();
	assert_non_null(strstr(last_line, "unknown version"));
	assert_int_equal(symlinkat("/etc/passwd", directory_fd, "qfAA2"), 0);
	notify(IN_MOVED_TO, "qfAA2");
	assert_non_null(strstr(last_line, "id=AA2 line=0 text=\"queue file is not managed: a "
	    "symbolic link\""));
	assert_int_equal(mkdirat(directory_fd, "qfAA3", 0700), 0);
	notify(IN_MOVED_TO, "qfAA3");
	assert_non_null(strstr(last_line, "not a regular file"));
	assert_int_equal(known_count, 0);
	/* nothing is concluded of what cannot be read */
	assert_int_equal(dropped_count, gone_count);
	scratch_write("qfAA4", FILE_OF("qheld by hand\nRPFD:<u@h.example>\n"));
	notify(IN_MOVED_TO, "qfAA4");
	assert_int_equal(known_count, 0);
	assert_string_equal(last_gone, "AA4");
}

/* Nothing of it changes: not a line each minute, of none of them. */
TEST_IN(begin, end, many_that_are_no_files_are_remembered) {
	char name[32];

	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "qfAA%u", i);
		assert_int_equal(mkfifoat(directory_fd, name, 0600), 0);
	}
	settle();
	assert_int_equal(gone_count, 100);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "AA%u", i);
		assert_true(queue_reads_is_bad(&drive, 0, name, 0));
	}
}

static const char *a_hundred(void) {
	static char text[8192];
	int length = snprintf(text, sizeof(text), "V8\nT1\n");

	for (unsigned i = 0; i < 100; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length,
		    "rRFC822; u%u@d%u.example\nRPFD:<u%u@d%u.example>\n", i, i, i, i);
	snprintf(text + length, sizeof(text) - (size_t)length, ".\n");
	return text;
}

/* 100 recipients, of which the engine takes 30, then 10 each. */
TEST_IN(begin, end, batches) {
	const struct known *there;

	scratch_write("qfAA1", a_hundred());
	most_recipients = 30;
	settle();
	there = find("AA1");
	assert_int_equal(there->file.recipients, 100);
	assert_int_equal(there->taken, 30);
	assert_false(there->whole);
	assert_string_equal(there->last_domain, "d29.example");
	for (unsigned i = 40; i <= 100; i += 10) {
		char domain[32];

		queue_reads_want(&drive, 0, "AA1", there->place);
		settle();
		snprintf(domain, sizeof(domain), "d%u.example", i - 1);
		assert_int_equal(there->taken, i);
		assert_string_equal(there->last_domain, domain);
	}
	queue_reads_want(&drive, 0, "AA1", there->place);
	settle();
	assert_true(there->whole);
	assert_int_equal(there->taken, 100);
	/* changed meanwhile: it is told anew */
	replace("qfAA1", a_hundred());
	most_recipients = 30;
	queue_reads_want(&drive, 0, "AA1", there->place);
	settle();
	assert_int_equal(begun, 2);
	assert_int_equal(find("AA1")->taken, 30);
}

/* A file system gives the inode of the old one to the new one. */
TEST_IN(begin, end, a_file_that_is_written_anew_in_an_old_inode) {
	scratch_write("qfAA1", a_hundred());
	settle();
	assert_int_equal(find("AA1")->taken, 100);
	while (begun == 1) {			/* a file system's clock has its ticks */
		scratch_write("qfAA1", one);
		queue_reads_add(&drive, 0, "AA1", false);
		settle();
	}
	assert_int_equal(find("AA1")->taken, 1);
	/* it was not changed: the same stamp */
	queue_reads_add(&drive, 0, "AA1", false);
	settle();
	assert_int_equal(begun, 2);
}

/* Nothing of a batch may go: the engine asks for the next before the file is closed. */
TEST_IN(begin, end, more_that_is_wanted_while_the_file_is_read) {
	scratch_write("qfAA1", a_hundred());
	most_recipients = 30;
	wants_more = true;
	settle();
	assert_int_equal(begun, 1);
	assert_int_equal(find("AA1")->taken, 100);
	assert_true(find("AA1")->whole);
	assert_int_equal(drive.reads.by_file.count, 0);
}

/* Somebody has had the file open, and it is as it was. */
TEST_IN(begin, end, more_that_is_wanted_while_the_file_waits) {
	scratch_write("qfAA1", a_hundred());
	most_recipients = 30;
	settle();
	queue_reads_add(&drive, 0, "AA1", false);
	queue_reads_want(&drive, 0, "AA1", find("AA1")->place);
	settle();
	assert_int_equal(find("AA1")->taken, 40);
	queue_reads_want(&drive, 0, "AA1", find("AA1")->place);
	queue_reads_add(&drive, 0, "AA1", false);
	settle();
	assert_int_equal(find("AA1")->taken, 50);
	assert_int_equal(begun, 1);
	/* it is to be told anew: more of it comes later */
	queue_reads_want(&drive, 0, "AA1", find("AA1")->place);
	queue_reads_add(&drive, 0, "AA1", true);
	settle();
	assert_int_equal(begun, 2);
	assert_int_equal(drive.reads.by_file.count, 0);
}

/* Nothing was taken of it, so there is no place to go on from. */
TEST_IN(begin, end, more_from_the_beginning) {
	scratch_write("qfAA1", a_hundred());
	most_recipients = 0;
	settle();
	assert_int_equal(find("AA1")->taken, 0);
	most_recipients = 30;
	queue_reads_want(&drive, 0, "AA1", 0);
	settle();
	assert_int_equal(find("AA1")->taken, 30);
}

TEST_IN(begin, end, very_many_files) {
	char name[32];

	for (unsigned i = 0; i < KNOWN_MAX; i++) {
		snprintf(name, sizeof(name), "qfAA%05u", i);
		scratch_write(name, one);
	}
	settle();
	assert_int_equal(known_count, KNOWN_MAX);
	assert_int_equal(begun, KNOWN_MAX);
	/* none of it is read again */
	for (unsigned i = 0; i < 70; i++)
		pass_second();
	assert_int_equal(begun, KNOWN_MAX);
	/* but when inotify has lost something */
	notify(IN_Q_OVERFLOW, "");
	assert_int_equal(begun, 2 * KNOWN_MAX);
}

/* A change that nobody told is found by the slow look. */
TEST_IN(begin, end, the_slow_look) {
	scratch_write("qfAA1", one);
	settle();
	scratch_write("qfAA2", one);
	replace("qfAA1", one);
	for (unsigned i = 0; i < 58; i++)
		pass_second();
	assert_int_equal(begun, 1);
	for (unsigned i = 0; i < 3; i++)
		pass_second();
	assert_int_equal(begun, 3);
}

/* What the engine had no room for is looked for when it has. */
TEST_IN(begin, end, room) {
	full = true;
	scratch_write("qfAA1", one);
	settle();
	assert_int_equal(known_count, 0);
	full = false;
	queue_directory_room(&drive);
	for (unsigned i = 0; i < 3; i++)
		pass_second();
	assert_int_equal(known_count, 1);
}

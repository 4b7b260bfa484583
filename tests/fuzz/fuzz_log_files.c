/* SPDX-License-Identifier: ISC */
/*
 * Three logs, of two Postfix and a Sendmail, as they grow and change under the feed: lines whole,
 * half, too long and of any bytes, files renamed, made anew at once or late, named by date,
 * emptied, removed; the clock of day set; the feed stopped and killed at any line.  No delivery
 * counts twice, and each counts that nobody took away before it could be read.
 *
 * Input: operations (operations.h), see do_one.  Deliveries are told by the number in their
 * recipient: of what the input says itself, @ is taken away.
 */
#include <dirent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/log.h"
#include "front/feed/feed_internal.h"
#include "tests/fuzz/fresh_site.h"
#include "tests/fuzz/operations.h"
#include "tests/fuzz/own_clock.h"

#define LOGS		3
#define LINES		1000	/* with numbers */
#define AT_ONCE		4	/* rotations before the feed looks: it follows 8 files */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the mail server that writes it has of a log. */
struct log {
	int fd, old_fd;		/* -1: none; the old one's name is another by now */
	bool half, old_half;	/* its last line has no end */
	unsigned rotations;	/* since the feed has looked */
	bool unseen;		/* the feed has seen no file of it: one that is renamed now is none */
	unsigned files;		/* so far, of the one that is named by date */
};

static struct fresh_site fresh;
static struct feed feed;
static char directory[64], classes[1024];
static struct log logs[LOGS];
static unsigned lines;		/* with numbers, so far */
static unsigned counted[LINES];
static bool wanted[LINES];	/* it must have been counted in the end */
static uint8_t line_log[LINES];
static unsigned killed_in;	/* deliveries; 0: it lives on */
static bool killed_before;	/* that delivery was counted */
static jmp_buf death;

/* --- the engine, as seen by the test ---------------------------------------------------- */

struct feed_outcome __real_engine_feed_delivery(struct engine *engine,
    const struct generation *generation, unsigned mtas, const struct delivery *delivery,
    const struct feed_origin *origin, int64_t now_ns);
struct feed_outcome __wrap_engine_feed_delivery(struct engine *engine,
    const struct generation *generation, unsigned mtas, const struct delivery *delivery,
    const struct feed_origin *origin, int64_t now_ns);

struct feed_outcome __wrap_engine_feed_delivery(struct engine *engine,
    const struct generation *generation, unsigned mtas, const struct delivery *delivery,
    const struct feed_origin *origin, int64_t now_ns) {
	struct feed_outcome outcome;
	unsigned number;

	if (killed_in == 1 && killed_before)
		longjmp(death, 1);
	outcome = __real_engine_feed_delivery(engine, generation, mtas, delivery, origin, now_ns);
	if (delivery->recipient.length > 5 && delivery->recipient.text[0] == 'n' &&
	    sscanf(delivery->recipient.text, "n%4u@", &number) == 1) {
		MUST(number < lines && outcome.judgement != NULL);
		counted[number] += !outcome.repeated;
		MUST(counted[number] <= 1);
	}
	if (killed_in > 0 && --killed_in == 0)
		longjmp(death, 1);
	return outcome;
}

/* --- the feed ----------------------------------------------------------------------------- */

static void no_line(void *context, const char *text) {
	(void)context, (void)text;
}

static void feed_open(void) {
	static struct event_base *base;
	struct diag diag;

	if (base == NULL)
		base = event_base_new();
	memset(&feed, 0, sizeof(feed));
	feed.base = base;
	feed.engine = fresh.site.engine;
	feed.keeper = engine_feed_keeper(feed.engine);
	feed.began_ns = feed.now_ns = clock_now_ns();
	MUST(front_requeue_open(&feed.requeue, base, feed.engine, -1, &diag) == 0);
	MUST(feed_logs_open(&feed, &diag) == 0);
	feed.read_first = engine_feed_read_last(feed.engine);
}

static void feed_close(void) {
	feed_logs_close(&feed);
	front_requeue_close(&feed.requeue);
	engine_feed_close(feed.engine);
}

static void feed_restart(void) {
	struct site *site = &fresh.site;
	struct diag diag;

	killed_in = 0;
	if (feed.generation != NULL)
		engine_unpin(feed.engine, feed.generation);	/* it died at work */
	feed_close();
	engine_unpin(site->engine, site->generation);
	engine_close(&site->engine);
	MUST(engine_open(&site->engine, site->segment, site->place, &diag) == 0);
	site->generation = engine_pin(site->engine);
	feed_open();
}

/* One turn; whoever is killed in it is started again. */
static void turn(void) {
	if (setjmp(death) != 0)
		feed_restart();
	feed_begin(&feed);
	feed_logs_turn(&feed);
	engine_feed_turn(feed.engine, feed.generation, feed.now_ns);
	feed_end(&feed);
	MUST(!feed.wants_help);
}

static void pass(unsigned seconds) {
	own_clock_pass(seconds * NS_PER_SECOND);
	turn();
}

/* All that is there is read. */
static void follow(void) {
	for (unsigned i = 0; i < 3; i++)
		pass(1);
	for (unsigned i = 0; i < LOGS; i++) {
		logs[i].rotations = 0;
		logs[i].unseen &= logs[i].fd < 0;
	}
}

/* --- logs --------------------------------------------------------------------------------- */

/* "log", "log.1" ... */
static void name_of(const struct log *log, unsigned older, char out[128]) {
	unsigned which = (unsigned)(log - logs);

	if (which == 2)
		snprintf(out, 128, "%s/c-2026%02u%02u.log", directory, 1 + log->files / 28 % 12,
		    1 + log->files % 28);
	else if (older == 0)
		snprintf(out, 128, "%s/%c", directory, "ab"[which]);
	else
		snprintf(out, 128, "%s/%c.%u", directory, "ab"[which], older);
}

static void writer_open(struct log *log) {
	char name[128];

	if (log->fd >= 0)
		return;
	name_of(log, 0, name);
	log->fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	MUST(log->fd >= 0);
	log->half = false;
}

static void put(struct log *log, bool by_old, const char *text, size_t length) {
	int fd = by_old ? log->old_fd : log->fd;

	if (length == 0)
		return;
	MUST(write(fd, text, length) == (ssize_t)length);
	*(by_old ? &log->old_half : &log->half) = text[length - 1] != '\n';
}

static size_t date_text(bool iso, char *out, size_t size) {
	time_t now = clock_wall_s();
	struct tm parts;

	(void)gmtime_r(&now, &parts);
	return strftime(out, size, iso ? "%Y-%m-%dT%H:%M:%S.123456+00:00" : "%b %e %H:%M:%S",
	    &parts);
}

static void put_delivery(struct log *log, bool by_old, unsigned how) {
	static const char *const results[] = { "dsn=2.0.0, status=sent (250 2.0.0 Ok)",
		"dsn=4.7.0, status=deferred (host mx.example[192.0.2.9] said: 421 4.7.0 Try later "
		"(in reply to MAIL FROM command))",
		"dsn=4.4.1, status=deferred (connect to mx.example[192.0.2.9]:25: Connection refused)",
		"dsn=5.1.1, status=bounced (host mx.example[192.0.2.9] said: 550 no (in reply to "
		"RCPT TO command))" };
	static const char *const stats[] = { "dsn=2.0.0, stat=Sent (ok)",
		"dsn=4.7.0, stat=Deferred: 421 4.7.0 Try later",
		"dsn=4.0.0, stat=Deferred: Connection refused by mx.example.",
		"dsn=5.1.1, stat=User unknown" };
	unsigned which = (unsigned)(log - logs), length;
	char text[512], date[64];

	if (lines == LINES)
		return;
	(void)date_text(how / 32 % 2 == 0, date, sizeof(date));
	if (which == 1)
		length = (unsigned)snprintf(text, sizeof(text), "%s mx sendmail[7]: 6AL5rHTW01%04u: "
		    "to=<n%04u@d%u.example>, delay=00:00:03, xdelay=00:00:01, mailer=esmtp, "
		    "pri=120000, relay=mx.example. [192.0.2.9], %s\n", date, lines, lines, how % 8,
		    stats[how / 8 % 4]);
	else
		length = (unsigned)snprintf(text, sizeof(text), "%s mx %s/smtp[7]: 4F%04X: "
		    "to=<n%04u@d%u.example>, relay=mx.example[192.0.2.9]:25, delay=3, "
		    "delays=1/1/0.5/0.5, %s\n", date, which == 0 ? "postfix" : "postfix-d", lines,
		    lines, how % 8, results[how / 8 % 4]);
	/* behind a half line it is none of its own */
	wanted[lines] = !by_old && !log->half;
	line_log[lines++] = (uint8_t)which;
	put(log, by_old, text, length);
}

static void put_raw(struct log *log, bool by_old, const char *bytes, size_t length) {
	char copy[256];

	memcpy(copy, bytes, length);
	for (size_t i = 0; i < length; i++)
		if (copy[i] == '@')
			copy[i] = 'a';
	put(log, by_old, copy, length);
}

/* What of this log was not read yet may never be. */
static void give_up(const struct log *log) {
	for (unsigned i = 0; i < lines; i++)
		if (line_log[i] == (uint8_t)(log - logs) && counted[i] == 0)
			wanted[i] = false;
}

static void rotate(struct log *log, bool late) {
	char from[128], to[128];

	writer_open(log);
	if (log->rotations++ == AT_ONCE || log->unseen)
		follow();
	for (unsigned i = 9; log != &logs[2] && i > 0; i--) {
		name_of(log, i, to);
		name_of(log, i - 1, from);
		(void)rename(from, to);
	}
	log->files++;
	if (log->old_fd >= 0)
		close(log->old_fd);
	log->old_fd = log->fd;
	log->old_half = log->half;
	log->fd = -1;
	if (!late)
		writer_open(log);
}

static void empty(struct log *log, bool read_before) {
	writer_open(log);
	if (read_before)
		follow();
	give_up(log);
	MUST(ftruncate(log->fd, 0) == 0);
	log->half = false;
}

/* By its name only, or by another file that is put in its place. */
static void take_away(struct log *log, bool replace) {
	char name[128], other[128];

	writer_open(log);
	give_up(log);
	name_of(log, 0, name);
	close(log->fd);
	log->fd = -1;
	if (!replace) {
		(void)unlink(name);
		log->unseen = true;
		return;
	}
	snprintf(other, sizeof(other), "%s/new", directory);
	log->fd = open(other, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	MUST(log->fd >= 0 && rename(other, name) == 0);
	log->half = false;
	log->unseen = true;
}

static void too_long(struct log *log, unsigned length) {
	char text[256];

	memset(text, 'x', sizeof(text));
	for (length *= 64; length > 0; length -= length < sizeof(text) ? length : sizeof(text))
		put(log, false, text, length < sizeof(text) ? length : sizeof(text));
}

static void do_one(struct operations *operations) {
	uint8_t order = take_byte(operations);
	struct log *log = &logs[(order >> 4) % LOGS];
	bool more = order >= 128, by_old = more && log->old_fd >= 0;
	const char *bytes;
	size_t length;

	switch (order % 16) {
	case 0: case 1: case 2:
		writer_open(log);
		put_delivery(log, by_old, take_byte(operations));
		break;
	case 3:
		length = take_bytes(operations, &bytes);
		writer_open(log);
		put_raw(log, by_old, bytes, length);
		break;
	case 4:
		writer_open(log);
		put(log, by_old, "\n", 1);
		break;
	case 5:
		rotate(log, more);
		break;
	case 6:
		empty(log, more);
		break;
	case 7:
		take_away(log, more);
		break;
	case 8:
		pass(more ? take_byte(operations) * 400U : 1);
		break;
	case 9:
		turn();
		break;
	case 10:
		feed_restart();
		break;
	case 11:
		killed_in = 1U + take_byte(operations) % 16;
		killed_before = more;
		break;
	case 12:
		own_clock_set_wall((int8_t)take_byte(operations) * (more ? 86400 : 10) *
		    NS_PER_SECOND);
		break;
	case 13:
		writer_open(log);
		too_long(log, take_byte(operations));
		break;
	case 14:
		writer_open(log);
		for (unsigned i = take_byte(operations) % 64; i > 0; i--)
			put_delivery(log, false, i);
		break;
	default:
		follow();
		break;
	}
}

/* --- one input ---------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int what, struct FTW *at) {
	(void)status, (void)what;
	return at->level > 0 ? remove(path) : 0;
}

static void remove_directory(void) {
	(void)nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	(void)rmdir(directory);
}

static void begin_once(void) {
	if (directory[0] != '\0')
		return;
	snprintf(directory, sizeof(directory), "/dev/shm/postern-fuzz-XXXXXX");
	MUST(mkdtemp(directory) != NULL);
	atexit(remove_directory);
	snprintf(classes, sizeof(classes), "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 9; } );\nmta = ( { name = \"a\"; log = \"%s/a\"; clone = \"smtp\"; "
	    "lanes = [ 1, 5 ]; }, { name = \"b\"; kind = \"sendmail\"; log = \"%s/b\"; }, "
	    "{ name = \"c\"; syslog_name = \"postfix-d\"; log = \"%s/c-%%Y%%m%%d.log\"; } );\n",
	    directory, directory, directory);
}

static void begin(void) {
	own_clock_begin();
	log_redirect(no_line, NULL);
	fresh_site_begin(&fresh, classes);
	for (unsigned i = 0; i < LOGS; i++)
		logs[i] = (struct log){ .fd = -1, .old_fd = -1, .unseen = true };
	lines = killed_in = 0;
	memset(counted, 0, sizeof(counted));
	feed_open();
	turn();
}

static int open_descriptors(void) {
	int next = dup(0);

	close(next);
	return next;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct operations operations = { data, data + size };
	int descriptors;

	begin_once();
	begin();
	descriptors = open_descriptors();
	for (unsigned i = 0; i < 400 && has_more(&operations); i++)
		do_one(&operations);
	killed_in = 0;
	follow();
	for (unsigned i = 0; i < lines; i++)
		MUST(counted[i] == 1 || !wanted[i]);
	for (unsigned i = 0; i < LOGS; i++) {
		if (logs[i].fd >= 0)
			close(logs[i].fd);
		if (logs[i].old_fd >= 0)
			close(logs[i].old_fd);
	}
	feed_close();
	MUST(open_descriptors() <= descriptors);
	(void)nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return 0;
}

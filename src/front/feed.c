/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Follow the logs and hand each delivery to the engine.
 * MODEL    inotify on the logs' directories says that something changed, and a look
 *          each second finds what it does not tell.  A turn reads a chunk of each
 *          log, notes how far it came, and gives a sign of life; while there is more
 *          the next one follows at once.
 * ERRORS   A log that cannot be read is told once, and once when it can be again.
 *          One that only root may open ends us: the next process has it opened.
 * THREADS  One.
 */
#include "front/feed.h"

#include <errno.h>
#include <event2/event.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/feed.h"
#include "front/followed_log.h"
#include "wire/mail_log.h"

#define CHUNK_BYTES	((size_t)256 << 10)
/* A sign of life at each: a lock may take 50 ms, and after 3 s we count as hung. */
#define BEAT_DELIVERIES	16
#define SOON_MS		20		/* from a change to the turn: many come at once */
/* Only root can open it, and root could not: it is asked again this often. */
#define ASK_AGAIN_NS	(60 * NS_PER_SECOND)
#define ASK_FIRST_NS	NS_PER_SECOND

struct feed_log {
	struct followed_log log;
	unsigned mtas;		/* bit i: mail server i of the generation */
	unsigned number;	/* the first of them */
	int told;		/* the error that was logged last; -1: nothing yet */
	bool refused_to_root;
};

struct feed {
	struct engine *engine;
	const struct generation *generation;	/* pinned during a turn */
	uint64_t taken_up;	/* number of the generation that the logs are of */
	struct feed_log logs[GENERATION_MTAS_MAX];
	unsigned log_count;
	const struct feed_log *reading;
	const struct feed_opened *opened;	/* at the start */
	unsigned opened_count;
	struct event_base *base;
	struct event *second;
	struct event *soon;
	struct event *changed;
	int inotify;
	int64_t began_ns;
	int64_t beat_ns;
	int64_t now_ns;
	uint64_t lines;		/* of this turn */
	uint64_t deliveries;
	uint64_t broken;
	bool wants_help;
	char *chunk;
};

static void tell(struct feed_log *log)
{
	char path[256], why[128];
	int error = log->log.error;

	/* between two logs: the one that we have is read on */
	if (error == log->told || (log->log.file.fd >= 0 && !log->refused_to_root &&
	    (error == ENOENT || error == EACCES || error == EPERM)))
		return;
	log_quote(path, sizeof(path), log->log.path, strlen(log->log.path));
	if (error == 0)
		log_event(EVENT_FEED, "log=%s text=\"is read\"", path);
	else
		log_event(EVENT_FEED_FAILED, "log=%s text=\"cannot be read: %s\"", path,
		    log_sentence(why, sizeof(why), error == EINVAL ? "not a regular file" :
		    strerror(error)));
	log->told = error;
}

/* --- lines ----------------------------------------------------------------- */

static void on_line(void *context, const char *line, size_t length)
{
	struct feed *feed = context;
	struct log_line out;
	struct feed_delivery delivery;

	feed->lines++;
	switch (mail_log_scan(line, length, &out)) {
	case LOG_LINE_FOREIGN:
	case LOG_LINE_OTHER:
	case LOG_LINE_SESSION:
	case LOG_LINE_REMOVED:
		return;
	case LOG_LINE_BROKEN:
		feed->broken++;
		return;
	case LOG_LINE_DELIVERY:
		break;
	}
	feed->deliveries++;
	delivery = (struct feed_delivery){
		.program = out.program.text,
		.program_length = out.program.length,
		.domain = out.delivery.domain.text,
		.domain_length = out.delivery.domain.length,
		.relay_name = out.delivery.relay_name.text,
		.relay_name_length = out.delivery.relay_name.length,
		.relay = out.delivery.relay_address,
		.relay_port = out.delivery.relay_port,
	};
	(void)engine_feed_note(feed->engine, feed->generation, feed->reading->mtas,
	    &delivery, feed->now_ns);
	if (feed->deliveries % BEAT_DELIVERIES == 0) {
		feed->now_ns = clock_now_ns();
		engine_heartbeat(feed->engine, feed->now_ns);
	}
}

static void keep_place(struct feed *feed, const struct feed_log *log)
{
	struct followed_place place;

	if (followed_log_place(&log->log, &place))
		engine_feed_keep_place(feed->engine, log->number, &(struct feed_place){
			place.device, place.inode, place.offset });
}

static void count(struct feed *feed, struct feed_log *log)
{
	engine_count(feed->engine, COUNTER_FEED_LINES, feed->lines);
	engine_count(feed->engine, COUNTER_FEED_DELIVERIES, feed->deliveries);
	engine_count(feed->engine, COUNTER_FEED_BAD_LINES, feed->broken + log->log.long_lines);
	engine_count(feed->engine, COUNTER_FEED_TRUNCATED, log->log.truncated);
	engine_count(feed->engine, COUNTER_FEED_REPLACED, log->log.replaced);
	feed->lines = feed->deliveries = feed->broken = 0;
	log->log.long_lines = log->log.truncated = log->log.replaced = 0;
}

/* True: there is more. */
static bool read_log(struct feed *feed, struct feed_log *log)
{
	bool more;

	feed->reading = log;
	more = followed_log_read(&log->log, feed->chunk, CHUNK_BYTES, on_line, feed);
	keep_place(feed, log);
	count(feed, log);
	return more;
}

/* --- the logs of the configuration ----------------------------------------- */

static void watch_directory(struct feed *feed, const char *path)
{
	char copy[PATH_MAX];

	/* who may not watch it has the look each second */
	if (feed->inotify >= 0 && text_copy(copy, sizeof(copy), path, strlen(path)))
		(void)inotify_add_watch(feed->inotify, dirname(copy), IN_MODIFY | IN_CREATE |
		    IN_MOVED_TO | IN_ONLYDIR);
}

static void open_log(struct feed *feed, struct feed_log *log, const char *path)
{
	struct feed_place place;
	struct followed_place from;
	int fd = -1, before_fd = -1, error = 0;

	for (unsigned i = 0; i < feed->opened_count; i++)
		if (strcmp(feed->opened[i].path, path) == 0) {
			fd = feed->opened[i].fd;
			before_fd = feed->opened[i].before_fd;
			error = feed->opened[i].error;
		}
	if (engine_feed_place(feed->engine, log->number, &place)) {
		from = (struct followed_place){ place.device, place.inode, place.offset };
		followed_log_open(&log->log, path, fd, &from);
		if (before_fd >= 0)
			followed_log_before(&log->log, before_fd, &from, feed->now_ns);
	} else {
		followed_log_open(&log->log, path, fd, NULL);
	}
	log->told = -1;
	log->refused_to_root = error == EACCES || error == EPERM;
	watch_directory(feed, path);
}

/* The log of that path in the list, kept from before or new. */
static struct feed_log *find_log(struct feed_log *list, unsigned count, const char *path)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(list[i].log.path, path) == 0)
			return &list[i];
	return NULL;
}

static void take_up(struct feed *feed)
{
	const struct generation *g = feed->generation;
	struct feed_log *old = malloc(sizeof(feed->logs));
	unsigned old_count = feed->log_count;

	if (old == NULL)
		return;		/* the next turn tries again */
	memcpy(old, feed->logs, sizeof(feed->logs));
	feed->log_count = 0;
	for (unsigned i = 0; i < g->mta_count; i++) {
		const char *path = generation_text(g, g->mtas[i].log);
		struct feed_log *log = find_log(feed->logs, feed->log_count, path), *kept;

		if (g->mtas[i].kind != MTA_POSTFIX || *path == '\0' || strlen(path) >= PATH_MAX)
			continue;
		if (log == NULL) {
			log = &feed->logs[feed->log_count++];
			kept = find_log(old, old_count, path);
			if (kept != NULL) {
				*log = *kept;
				kept->log.path[0] = '\0';
			}
			log->number = i;
			log->mtas = 0;
			if (kept == NULL)
				open_log(feed, log, path);
			keep_place(feed, log);
		}
		log->mtas |= 1U << i;
	}
	for (unsigned i = 0; i < old_count; i++)
		if (old[i].log.path[0] != '\0')
			followed_log_close(&old[i].log);
	free(old);
	/* what was opened for us is ours by now, or nobody's */
	feed->opened_count = 0;
	feed->taken_up = g->number;
}

/* --- turns ----------------------------------------------------------------- */

static void ask_for_help(struct feed *feed, struct feed_log *log)
{
	int64_t after_ns = log->refused_to_root ? ASK_AGAIN_NS : ASK_FIRST_NS;
	char path[256];

	if (feed->now_ns - feed->began_ns < after_ns)
		return;
	log_event(EVENT_FEED, "log=%s text=\"is another file that we may not open: our successor "
	    "has it opened\"", log_quote(path, sizeof(path), log->log.path,
	    strlen(log->log.path)));
	feed->wants_help = true;
}

static void turn(struct feed *feed)
{
	static const struct timeval at_once;
	bool more = false;

	feed->now_ns = clock_now_ns();
	feed->generation = engine_pin(feed->engine);
	if (feed->generation->number != feed->taken_up)
		take_up(feed);
	for (unsigned i = 0; i < feed->log_count; i++) {
		struct feed_log *log = &feed->logs[i];
		bool refused = false;

		if (read_log(feed, log))
			more = true;
		else
			refused = followed_log_look(&log->log, feed->now_ns);
		tell(log);
		if (refused)
			ask_for_help(feed, log);
		count(feed, log);
	}
	engine_unpin(feed->engine, feed->generation);
	feed->now_ns = clock_now_ns();
	if (feed->now_ns - feed->beat_ns > NS_PER_SECOND / 5) {
		engine_heartbeat(feed->engine, feed->now_ns);
		feed->beat_ns = feed->now_ns;
	}
	if (feed->wants_help)
		(void)event_base_loopbreak(feed->base);
	else if (more)
		(void)event_add(feed->soon, &at_once);
}

static void on_soon(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	turn(argument);
}

static void on_second(evutil_socket_t fd, short what, void *argument)
{
	struct feed *feed = argument;

	(void)fd;
	(void)what;
	turn(feed);
	log_flush();
}

/* What changed does not matter: each turn looks at all logs. */
static void on_changed(evutil_socket_t fd, short what, void *argument)
{
	static const struct timeval soon = { .tv_usec = SOON_MS * 1000 };
	struct feed *feed = argument;
	char events[16384];

	(void)what;
	if (read(fd, events, sizeof(events)) > 0 && !event_pending(feed->soon, EV_TIMEOUT, NULL))
		(void)event_add(feed->soon, &soon);
}

static int prepare(struct feed *feed, struct diag *diag)
{
	static const struct timeval one_second = { .tv_sec = 1 };

	feed->base = event_base_new();
	feed->chunk = malloc(CHUNK_BYTES);
	feed->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (feed->base == NULL || feed->chunk == NULL)
		return diag_set(diag, 0, "no memory for the feed");
	feed->second = event_new(feed->base, -1, EV_PERSIST, on_second, feed);
	feed->soon = event_new(feed->base, -1, 0, on_soon, feed);
	if (feed->inotify >= 0)
		feed->changed = event_new(feed->base, feed->inotify, EV_READ | EV_PERSIST,
		    on_changed, feed);
	if (feed->second == NULL || feed->soon == NULL ||
	    event_add(feed->second, &one_second) != 0 ||
	    (feed->changed != NULL && event_add(feed->changed, NULL) != 0))
		return diag_set(diag, 0, "no memory for a timer");
	return 0;
}

static void release(struct feed *feed)
{
	for (unsigned i = 0; i < feed->log_count; i++)
		followed_log_close(&feed->logs[i].log);
	if (feed->second != NULL)
		event_free(feed->second);
	if (feed->soon != NULL)
		event_free(feed->soon);
	if (feed->changed != NULL)
		event_free(feed->changed);
	if (feed->base != NULL)
		event_base_free(feed->base);
	if (feed->inotify >= 0)
		close(feed->inotify);
	free(feed->chunk);
}

int feed_run(struct engine *engine, const struct feed_opened *opened, unsigned count,
    struct diag *diag)
{
	struct feed *feed = calloc(1, sizeof(*feed));
	int result;

	if (feed == NULL)
		return diag_set(diag, 0, "no memory for the feed");
	feed->engine = engine;
	feed->opened = opened;
	feed->opened_count = count;
	feed->inotify = -1;
	feed->began_ns = clock_now_ns();
	result = prepare(feed, diag);
	if (result == 0) {
		engine_heartbeat(engine, feed->began_ns);
		turn(feed);
		if (!feed->wants_help)
			(void)event_base_dispatch(feed->base);
		if (!feed->wants_help)
			result = diag_set(diag, 0, "the event loop ended");
	}
	release(feed);
	free(feed);
	return result;
}

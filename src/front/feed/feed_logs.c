/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The log files of all mail servers of the configuration.
 * MODEL    inotify on the files' directories says that something changed, and a look
 *          each second finds what it does not tell.  A turn reads a chunk of each
 *          log; while there is more the next one follows at once.
 * ERRORS   A log that cannot be read is told once, and once when it can be again.
 *          One that only root may open ends us: the next process has it opened.
 * THREADS  One.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sd_log.h"
#include "base/text.h"
#include "engine/feed/feed_files.h"
#include "front/feed/feed_internal.h"
#include "front/feed/followed_log.h"

#define CHUNK_BYTES	((size_t)256 << 10)
#define SOON_MS		20		/* from a change to the turn: many come at once */
/* Only root can open it, and root could not: it is asked again this often. */
#define ASK_AGAIN_NS	(60 * NS_PER_SECOND)
#define ASK_FIRST_NS	NS_PER_SECOND
#define BETWEEN_LOGS_NS	(5 * NS_PER_SECOND)

_Static_assert(CHUNK_BYTES >= FOLLOWED_BUFFER_MIN, "a line and its end fit");

struct feed_log {
	struct followed_log log;
	unsigned mtas;		/* bit i: mail server i of the generation */
	unsigned watched;	/* files whose directories are watched */
	int told;		/* the error that was logged last; -1: nothing yet */
	int64_t between_ns;	/* since when its name is not there, or 0 */
	bool refused_to_root;
	bool behind;		/* there was more than one chunk to read */
};

struct feed_logs {
	uint64_t taken_up;	/* number of the generation that the logs are of */
	struct feed_log *list[GENERATION_MTAS_MAX];
	unsigned count;
	const struct feed_setup *setup;	/* during the first turn */
	struct event *soon;
	struct event *changed;
	int inotify;
	char *chunk;
};

/* --- reading ------------------------------------------------------------------------ */

static void tell_cut(const struct feed_log *log) {
	char path[256];

	log_event(EVENT_FEED, "log=%s text=\"log was truncated; rereading it from the start "
	    "(unread lines are lost)\"", log_quote(path, sizeof(path), log->log.log,
	    strlen(log->log.log)));
}

static void tell_lost(const struct feed_log *log) {
	char path[256];

	log_event(EVENT_FEED_FAILED, "log=%s text=\"a log that was not read to its end was "
	    "removed, or there were too many; its remaining lines are lost\"",
	    log_quote(path, sizeof(path), log->log.log,
	    strlen(log->log.log)));
}

static void count(struct feed *feed, struct feed_log *log) {
	struct followed_counts *counts = &log->log.counts;

	if (counts->truncated > 0)
		tell_cut(log);
	if (counts->lost > 0)
		tell_lost(log);
	feed->tally.broken += counts->long_lines;
	engine_count(feed->engine, COUNTER_FEED_TRUNCATED, counts->truncated);
	engine_count(feed->engine, COUNTER_FEED_REPLACED, counts->replaced);
	engine_count(feed->engine, COUNTER_FEED_LOST, counts->lost);
	*counts = (struct followed_counts){ 0 };
}

/* A buffer of the file at most.  True: there is more. */
static bool read_file(struct feed *feed, const struct feed_log *log,
    struct followed_file *file, struct followed_reader *reader) {
	struct followed_line lines[FOLLOWED_LINES];
	unsigned count;

	if (!followed_file_read(file, reader, feed->now_ns))
		return reader->more;
	while ((count = followed_file_lines(file, reader, lines)) > 0) {
		feed_lines_read(feed, lines, count);
		for (unsigned i = 0; i < count; i++) {
			struct feed_origin origin = { .log = file->origin,
				.offset = lines[i].offset, .expected = feed->expected[i] };

			if (feed_line(feed, log->mtas, &feed->lines[i], &origin, log->behind))
				followed_file_keep(file, reader, &lines[i]);
		}
	}
	return reader->more;
}

/* True: there is more. */
static bool read_log(struct feed *feed, struct feed_log *log) {
	struct followed_reader reader = { .buffer = feed->logs->chunk,
		.buffer_size = CHUNK_BYTES, .keeper = &feed->keeper,
		.counts = &log->log.counts };
	bool more = false;

	for (unsigned i = 0; i < log->log.count && !more; i++)
		more = read_file(feed, log, &log->log.files[i], &reader);
	log->behind = more;
	count(feed, log);
	return more;
}

/* Between two logs, which does not last: the one that we have is read on. */
static bool is_between_logs(const struct feed *feed, struct feed_log *log) {
	int error = log->log.error;

	if (log->log.count == 0 || log->refused_to_root ||
	    (error != ENOENT && error != EACCES && error != EPERM)) {
		log->between_ns = 0;
		return false;
	}
	if (log->between_ns == 0)
		log->between_ns = feed->now_ns;
	return error != ENOENT || feed->now_ns - log->between_ns < BETWEEN_LOGS_NS;
}

static void tell(const struct feed *feed, struct feed_log *log) {
	char path[256], why[128];
	int error = log->log.error;

	if (is_between_logs(feed, log) || error == log->told)
		return;
	log_quote(path, sizeof(path), log->log.log, strlen(log->log.log));
	if (error == 0)
		log_event(EVENT_FEED, "log=%s text=\"reading log\"", path);
	else
		log_event(EVENT_FEED_FAILED, "log=%s text=\"cannot read log: %s\"", path,
		    log_sentence(why, sizeof(why), error == EINVAL ? "not a regular file" :
		    strerror(error)));
	log->told = error;
}

/* --- the logs of the configuration -------------------------------------------------- */

static void watch_directory(struct feed_logs *logs, const char *path) {
	char copy[PATH_MAX];

	/* who may not watch it has the look each second */
	if (logs->inotify >= 0 && text_copy(copy, sizeof(copy), path, strlen(path)))
		(void)inotify_add_watch(logs->inotify, dirname(copy), IN_MODIFY | IN_CREATE |
		    IN_MOVED_TO | IN_ONLYDIR);
}

static void watch(struct feed_logs *logs, struct feed_log *log) {
	/* files leave the list only from its front, and rarely */
	for (unsigned i = 0; i < log->log.count && log->watched != log->log.count; i++)
		watch_directory(logs, log->log.files[i].path);
	log->watched = log->log.count;
}

static struct feed_log *open_log(struct feed *feed, const char *text, bool from_begin) {
	struct feed_logs *logs = feed->logs;
	struct feed_position known[FEED_FILES_MAX];
	uint32_t records[FEED_FILES_MAX];
	struct followed_start start = { .known = known, .records = records,
		.from_begin = from_begin };
	struct feed_log *log = calloc(1, sizeof(*log));

	if (log == NULL)
		return NULL;
	start.known_count = engine_feed_files(feed->engine, feed_log_id(text), known, records);
	for (unsigned i = 0; logs->setup != NULL && i < logs->setup->log_count; i++)
		if (strcmp(logs->setup->logs[i].log, text) == 0)
			start.files = &logs->setup->logs[i];
	followed_log_open(&log->log, text, &start, &feed->keeper, feed->now_ns);
	log->told = -1;
	log->refused_to_root = start.files != NULL &&
	    (start.files->error == EACCES || start.files->error == EPERM);
	/* what was written while nobody read is old */
	log->behind = start.known_count > 0 || from_begin;
	watch_directory(logs, text);
	return log;
}

/* The log of that text in the list, kept from before or new. */
static unsigned find_log(struct feed_log *const *list, unsigned count, const char *text) {
	unsigned i = 0;

	while (i < count && (list[i] == NULL || strcmp(list[i]->log.log, text) != 0))
		i++;
	return i;
}

static void close_log(struct feed_log *log) {
	if (log == NULL)
		return;
	followed_log_close(&log->log);
	free(log);
}

/* Positions of logs that nobody follows any more would be read on from, one day. */
static void forget_others(struct feed *feed) {
	uint64_t wanted[2 * GENERATION_MTAS_MAX + GENERATION_LISTENERS_MAX];
	const struct generation *g = feed->generation;
	unsigned count = 0;

	for (unsigned i = 0; i < feed->logs->count; i++)
		wanted[count++] = feed->logs->list[i]->log.id;
	for (uint32_t i = 0; i < g->mta_count; i++)
		if (sd_log_is(generation_text(g, g->mtas[i].log)))
			wanted[count++] = feed_log_id(generation_text(g, g->mtas[i].log));
	for (uint32_t i = 0; i < g->listener_count; i++)
		if (g->listeners[i].kind == LISTENER_SYSLOG)
			wanted[count++] = feed_log_id(generation_text(g,
			    g->listeners[i].address));
	engine_feed_logs_keep(feed->engine, wanted, count);
}

static void take_up(struct feed *feed) {
	struct feed_logs *logs = feed->logs;
	const struct generation *g = feed->generation;
	struct feed_log *old[GENERATION_MTAS_MAX];
	unsigned old_count = logs->count;
	bool whole = true;

	memcpy(old, logs->list, sizeof(old));
	logs->count = 0;
	for (unsigned i = 0; i < g->mta_count; i++) {
		const char *text = generation_text(g, g->mtas[i].log);
		unsigned at = find_log(logs->list, logs->count, text), kept;

		if (*text == '\0' || strlen(text) >= PATH_MAX || sd_log_is(text))
			continue;
		if (at == logs->count) {
			kept = find_log(old, old_count, text);
			logs->list[at] = kept < old_count ? old[kept] :
			    open_log(feed, text, g->mtas[i].log_from_begin != 0);
			if (kept < old_count)
				old[kept] = NULL;
			if (logs->list[at] == NULL) {
				whole = false;	/* no memory: the next turn tries again */
				continue;
			}
			logs->list[at]->mtas = 0;
			logs->count++;
		}
		logs->list[at]->mtas |= 1U << i;
	}
	for (unsigned i = 0; i < old_count; i++)
		close_log(old[i]);
	if (whole) {
		forget_others(feed);
		logs->taken_up = g->number;
	}
}

/* --- turns -------------------------------------------------------------------------- */

static void ask_for_help(struct feed *feed, struct feed_log *log) {
	int64_t after_ns = log->refused_to_root ? ASK_AGAIN_NS : ASK_FIRST_NS;
	char path[256];

	if (feed->now_ns - feed->began_ns < after_ns)
		return;
	log_event(EVENT_FEED, "log=%s text=\"log was replaced by a file that this process "
	    "cannot open; restarting to open it\"", log_quote(path, sizeof(path), log->log.log,
	    strlen(log->log.log)));
	feed->wants_help = true;
}

void feed_logs_turn(struct feed *feed) {
	static const struct timeval at_once;
	struct feed_logs *logs = feed->logs;
	bool more = false;

	if (feed->generation->number != logs->taken_up)
		take_up(feed);
	for (unsigned i = 0; i < logs->count; i++) {
		struct feed_log *log = logs->list[i];
		bool refused = false;

		if (read_log(feed, log))
			more = true;
		else
			refused = followed_log_look(&log->log, feed->now_ns);
		tell(feed, log);
		watch(logs, log);
		if (refused)
			ask_for_help(feed, log);
		count(feed, log);
	}
	if (more)
		(void)event_add(logs->soon, &at_once);
	else
		engine_feed_reached(feed->engine, feed->now_ns);
}

static void on_soon(evutil_socket_t fd, short what, void *argument) {
	struct feed *feed = argument;

	(void)fd, (void)what;
	feed_begin(feed);
	if (feed->logs->changed != NULL)
		(void)event_add(feed->logs->changed, NULL);
	feed_logs_turn(feed);
	feed_end(feed);
}

/* What changed does not matter: each turn looks at all logs.  Until then each line that is
 * written would wake us. */
static void on_changed(evutil_socket_t fd, short what, void *argument) {
	static const struct timeval soon = { .tv_usec = SOON_MS * 1000 };
	struct feed *feed = argument;
	char events[16384];

	(void)what;
	if (read(fd, events, sizeof(events)) <= 0)
		return;
	if (event_pending(feed->logs->soon, EV_TIMEOUT, NULL) ||
	    event_add(feed->logs->soon, &soon) == 0)
		(void)event_del(feed->logs->changed);
}

int feed_logs_open(struct feed *feed, struct diag *diag) {
	struct feed_logs *logs = calloc(1, sizeof(*logs));

	if (logs == NULL)
		return diag_set(diag, 0, "no memory for the logs");
	feed->logs = logs;
	logs->chunk = malloc(CHUNK_BYTES);
	logs->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	logs->soon = event_new(feed->base, -1, 0, on_soon, feed);
	if (logs->inotify >= 0)
		logs->changed = event_new(feed->base, logs->inotify, EV_READ | EV_PERSIST,
		    on_changed, feed);
	if (logs->chunk == NULL || logs->soon == NULL ||
	    (logs->changed != NULL && event_add(logs->changed, NULL) != 0))
		return diag_set(diag, 0, "no memory for the logs");
	return 0;
}

void feed_logs_begin(struct feed *feed, const struct feed_setup *setup) {
	feed->logs->setup = setup;
	feed_logs_turn(feed);
	feed->logs->setup = NULL;
}

void feed_logs_close(struct feed *feed) {
	struct feed_logs *logs = feed->logs;

	if (logs == NULL)
		return;
	for (unsigned i = 0; i < logs->count; i++)
		close_log(logs->list[i]);
	if (logs->soon != NULL)
		event_free(logs->soon);
	if (logs->changed != NULL)
		event_free(logs->changed);
	if (logs->inotify >= 0)
		close(logs->inotify);
	free(logs->chunk);
	free(logs);
	feed->logs = NULL;
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The log files of all mail servers of the configuration.
 * MODEL    inotify on the files' directories says that something changed, and a look
 *          each second finds what it does not tell.  feed_lines.c reads them.
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

#define SOON_MS		20		/* from a change to the turn: many come at once */
/* Only root can open it, and root could not: it is asked again this often. */
#define ASK_AGAIN_NS	(60 * NS_PER_SECOND)
#define ASK_FIRST_NS	NS_PER_SECOND
#define BETWEEN_LOGS_NS	(5 * NS_PER_SECOND)

static void count_up(struct feed *feed, struct feed_log *log) {
	struct followed_counts *counts = &log->log.counts;

	if (counts->truncated > 0)
		feed_source_log(&log->source, EVENT_FEED, "log was truncated; rereading it from "
		    "the start (unread lines are lost)");
	if (counts->lost > 0)
		feed_source_log(&log->source, EVENT_FEED_FAILED, "a log that was not read to its "
		    "end was removed, or there were too many; its remaining lines are lost");
	feed->tally.broken += counts->long_lines;
	engine_count(feed->engine, COUNTER_FEED_TRUNCATED, counts->truncated);
	engine_count(feed->engine, COUNTER_FEED_REPLACED, counts->replaced);
	engine_count(feed->engine, COUNTER_FEED_LOST, counts->lost);
	*counts = (struct followed_counts){ 0 };
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

static bool is_log(struct feed *feed, const char *text) {
	(void)feed;
	return *text != '\0' && strlen(text) < PATH_MAX && !sd_log_is(text);
}

static struct feed_source *open_log(struct feed *feed, const char *text, bool from_begin) {
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
	log->source = (struct feed_source){ .log = log->log.log, .told = -1,
		/* what was written while nobody read is old */
		.behind = start.known_count > 0 || from_begin };
	log->refused_to_root = start.files != NULL &&
	    (start.files->error == EACCES || start.files->error == EPERM);
	watch_directory(logs, text);
	return &log->source;
}

static void close_log(struct feed_source *source) {
	struct feed_log *log = (struct feed_log *)source;

	followed_log_close(&log->log);
	free(log);
}

/* Positions of logs that nobody follows any more would be read on from, one day. */
static void forget_others(struct feed *feed) {
	uint64_t wanted[2 * GENERATION_MTAS_MAX + GENERATION_LISTENERS_MAX];
	const struct generation *g = feed->generation;
	unsigned count = 0;

	for (unsigned i = 0; i < feed->logs->logs.count; i++)
		wanted[count++] = ((struct feed_log *)feed->logs->logs.list[i])->log.id;
	for (uint32_t i = 0; i < g->mta_count; i++)
		if (sd_log_is(generation_text(g, g->mtas[i].log)))
			wanted[count++] = feed_log_id(generation_text(g, g->mtas[i].log));
	for (uint32_t i = 0; i < g->listener_count; i++)
		if (g->listeners[i].kind == LISTENER_SYSLOG)
			wanted[count++] = feed_log_id(generation_text(g,
			    g->listeners[i].address));
	engine_feed_logs_keep(feed->engine, wanted, count);
}

/* --- turns -------------------------------------------------------------------------- */

static void ask_for_help(struct feed *feed, const struct feed_log *log) {
	int64_t after_ns = log->refused_to_root ? ASK_AGAIN_NS : ASK_FIRST_NS;

	if (feed->now_ns - feed->began_ns < after_ns)
		return;
	feed_source_log(&log->source, EVENT_FEED, "log was replaced by a file that this process "
	    "cannot open; restarting to open it");
	feed->wants_help = true;
}

void feed_logs_take_up(struct feed *feed) {
	static const struct feed_source_calls calls = { is_log, open_log, close_log };
	struct feed_sources *logs = &feed->logs->logs;

	if (feed->generation->number == logs->taken_up)
		return;
	feed_sources_take_up(feed, logs, &calls);
	if (feed->generation->number == logs->taken_up)
		forget_others(feed);
}

void feed_log_tend(struct feed *feed, struct feed_log *log) {
	bool refused;

	count_up(feed, log);
	refused = !log->source.behind && followed_log_look(&log->log, feed->now_ns);
	if (!is_between_logs(feed, log))
		feed_source_tell(&log->source, log->log.error, log->log.error == EINVAL ?
		    "not a regular file" : strerror(log->log.error));
	watch(feed->logs, log);
	if (refused)
		ask_for_help(feed, log);
	count_up(feed, log);
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
	logs->chunk = malloc(FEED_CHUNK_BYTES);
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
	for (unsigned i = 0; i < logs->logs.count; i++)
		close_log(logs->logs.list[i]);
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

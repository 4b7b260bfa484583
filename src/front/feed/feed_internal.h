/* SPDX-License-Identifier: ISC */
/* What the feed's sources share: each has its file, and hands lines and deliveries to
 * feed_lines.c. */
#ifndef FRONT_FEED_INTERNAL_H
#define FRONT_FEED_INTERNAL_H

#include <event2/event.h>
#include <stdbool.h>

#include "base/log.h"
#include "engine/feed/feed.h"
#include "engine/feed/feed_files.h"
#include "engine/journal/journal_state.h"
#include "front/serve/beat.h"
#include "front/feed/feed.h"
#include "front/feed/followed_log.h"
#include "front/requeue/requeue.h"
#include "front/feed/followed_file.h"
#include "front/serve/stream.h"
#include "wire/mail/log_line.h"

struct feed_tally {
	uint64_t lines;
	uint64_t deliveries;
	uint64_t broken;
	uint64_t wrong_clocks;
	uint64_t events;	/* lines of the event socket */
};

/* Lines of one second begin alike: what such a head says. */
struct feed_date {
	char head[48];
	size_t length;		/* 0: none */
	int64_t ms;
	bool is_date;
};

struct feed {
	struct engine *engine;
	const struct generation *generation;	/* pinned between feed_begin and feed_end */
	struct event_base *base;
	struct beat beat;
	struct feed_keeper keeper;	/* of positions, for the next feed */
	struct feed_logs *logs;
	struct feed_journals *journals;
	struct feed_syslog *syslog;
	struct feed_events *events;
	struct front_requeue *requeue;
	struct journal_states *journal;	/* NULL: there is none */
	uint64_t read_first;	/* the file that our predecessor read last; 0: that was read again */
	int64_t began_ns;
	int64_t now_ns;		/* as of feed_begin, or newer */
	int64_t wall_ms;	/* since 1970, at now_ns */
	int64_t zone_ms;	/* local time is ahead of UTC by this */
	int year;
	int64_t zone_until_ns;	/* zone and year are looked up again then */
	struct feed_date date;	/* that was read last */
	int64_t beat_ns;
	unsigned unbeaten;	/* what took locks since the last sign of life */
	struct feed_tally tally;
	struct log_line lines[FOLLOWED_LINES];	/* of a log: room for feed_file */
	bool wants_help;	/* a log has to be opened by root: the loop ends */
};

/* Around all work: the time, and the generation. */
void feed_begin(struct feed *feed);
void feed_end(struct feed *feed);
/* Before whatever takes a lock of the shared state, which may take 50 ms: a sign of life
 * now and then, as after 3 s without one we count as hung. */
void feed_beat(struct feed *feed);
/* Before what may take a second or more. */
void feed_beat_now(struct feed *feed);

/* --- feed_lines.c ----------------------------------------------------------------- */

/* Reads what has come in the log files, and sees to it that the rest is read soon. */
void feed_logs_turn(struct feed *feed);

/* A buffer of a file of these mail servers' logs (bit i: number i of the generation).  `behind`:
 * its lines may be old. */
void feed_file(struct feed *feed, unsigned mtas, struct followed_file *file,
    struct followed_reader *reader, bool behind);

/* One line that was read, or a delivery result that was told as if by one.  Its `origin` says
 * where it was read.  True: something came of it. */
bool feed_line(struct feed *feed, unsigned mtas, const struct log_line *line,
    struct feed_origin *origin, bool behind);
/* One that came alone, and was not read. */
bool feed_text(struct feed *feed, unsigned mtas, struct span text,
    struct feed_origin *origin, bool behind);

/* Counts what was tallied. */
void feed_count(struct feed *feed);

/* --- feed_sources.c ----------------------------------------------------------------- */

/* A log of the configuration: the first member of what each kind has of it. */
struct feed_source {
	const char *log;	/* its text there */
	unsigned mtas;		/* bit i: mail server i of the generation */
	int told;		/* the error that was logged last; -1: nothing yet */
	bool behind;		/* there was more to read than a turn reads */
};
struct feed_sources {
	uint64_t taken_up;	/* number of the generation that they are of */
	struct feed_source *list[GENERATION_MTAS_MAX];
	unsigned count;
};
struct feed_source_calls {
	bool (*is_one)(struct feed *feed, const char *text);
	struct feed_source *(*open)(struct feed *feed, const char *text, bool from_begin);
	void (*close)(struct feed_source *source);
};
/* Those of the generation: kept from before, or opened (NULL: no memory). */
void feed_sources_take_up(struct feed *feed, struct feed_sources *sources,
    const struct feed_source_calls *calls);
void feed_source_log(const struct feed_source *source, enum event_kind event, const char *text);
/* Whether it can be read, when that has changed. */
void feed_source_tell(struct feed_source *source, int error, const char *why);

/* --- feed_logs.c -------------------------------------------------------------------- */

#define FEED_CHUNK_BYTES	((size_t)256 << 10)
_Static_assert(FEED_CHUNK_BYTES >= FOLLOWED_BUFFER_MIN, "a line and its end fit");

struct feed_log {
	struct feed_source source;	/* behind: there was more than one chunk to read */
	struct followed_log log;
	unsigned watched;	/* files whose directories are watched */
	int64_t between_ns;	/* since when its name is not there, or 0 */
	bool refused_to_root;
};

struct feed_logs {
	struct feed_sources logs;	/* struct feed_log */
	const struct feed_setup *setup;	/* during the first turn */
	struct event *soon;
	struct event *changed;
	int inotify;
	char *chunk;
};

/* 0, or -1 with *diag.  `setup` lives until feed_logs_begin returns. */
int feed_logs_open(struct feed *feed, struct diag *diag);
/* The first turn, with what was opened for us; feed->read_first comes first. */
void feed_logs_begin(struct feed *feed, const struct feed_setup *setup);
/* Those of the generation. */
void feed_logs_take_up(struct feed *feed);
/* After it was read: is it still the log, can it be read, and what is to be told of it? */
void feed_log_tend(struct feed *feed, struct feed_log *log);
void feed_logs_close(struct feed *feed);

/* --- feed_journals.c ------------------------------------------------------------------ */

/* systemd's journal; as feed_logs.c.  0, or -1 with *diag. */
int feed_journals_open(struct feed *feed, struct diag *diag);
/* Those of the generation; feed->read_first is read, where it is one of them. */
void feed_journals_take_up(struct feed *feed);
void feed_journals_turn(struct feed *feed);
void feed_journals_close(struct feed *feed);

/* --- feed_syslog.c, feed_events.c --------------------------------------------------- */

int feed_syslog_open(struct feed *feed, struct diag *diag);
int feed_syslog_listen(struct feed *feed, const struct feed_socket *socket,
    struct diag *diag);
void feed_syslog_close(struct feed *feed);

int feed_events_open(struct feed *feed, struct diag *diag);
int feed_events_listen(struct feed *feed, const struct feed_socket *socket,
    struct diag *diag);
/* Each second: closes connections that keep us waiting. */
void feed_events_second(struct feed *feed);
void feed_events_close(struct feed *feed);

#endif

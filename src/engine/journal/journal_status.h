/* SPDX-License-Identifier: ISC */
/*
 * How the journal's directories fare, for all to see (posternctl status), and what is told
 * of them once.  Each is written by one process, which tells of it in the segment's header
 * each second.
 */
#ifndef ENGINE_JOURNAL_STATUS_H
#define ENGINE_JOURNAL_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/generation/generation.h"
#include "engine/engine.h"
#include "journal/log.h"

enum journal_news_kind {
	JOURNAL_NEWS_FAILED,	/* it cannot be written: error, what */
	JOURNAL_NEWS_WELL,	/* it can again: lost */
	JOURNAL_NEWS_DAMAGED,	/* when it was read: bytes, lost: places */
	JOURNAL_NEWS_LATER,	/* the same, of a later version: lost: files, or records */
	JOURNAL_NEWS_FOREIGN,	/* it is another state's: lost: its last file */
	JOURNAL_NEWS_TOO_MANY,	/* done by hand: lost: of those in force */
	JOURNAL_NEWS_UNREAD,	/* when all was to be restored: what */
	JOURNAL_NEWS_RESTORED,	/* the rest */
};
struct journal_news {
	enum journal_news_kind kind;
	enum journal_room room;
	int error;		/* an errno */
	const char *what;	/* that was tried: "write", "sync" ... */
	const char *path;	/* of the directory; "": not of one */
	uint64_t lost;		/* records that were not kept meanwhile */
	uint64_t bytes;		/* that could not be read */
	uint64_t destinations, recipients, logs, actions, logins;
	int64_t age_ns;		/* of the newest of it */
};
/* Who hears of it: front/decision/journal_news.h has one that logs. */
struct journal_listener {
	void (*tell)(void *context, const struct journal_news *news);
	void *context;
};

/* What was told last; zeros at the begin. */
struct journal_told {
	struct journal_log_counts counts;
	bool damage, later;
	bool failed;
	/* Its owner's: what is known is not all there again, though it can be written. */
	bool behind;
	int error;		/* of the last failure */
	bool was_well;		/* once */
	bool silent;		/* somebody else tells of this failure */
	uint64_t dropped;	/* when it failed */
};

/* Tells the listener, with the path of the room. */
void journal_status_say(struct engine *engine, struct journal_news news,
    const struct journal_listener *listener);

/* Tells how `log` fares: counters, the record of its room, and the listener where it has
 * failed, or is well again, or was found to be damaged.  Each second at least, and when the
 * log says that it has changed.  */
void journal_status_tell(struct engine *engine, enum journal_room room,
    struct journal_told *told, struct journal_log *log,
    const struct journal_listener *listener, int64_t now_ns);

/* How many messages queue/ holds, and how many of them are in no memory. */
void journal_status_messages(struct engine *engine, uint64_t messages, uint64_t waiting);

/* Nobody writes this room. */
void journal_status_none(struct engine *engine, enum journal_room room);

#endif

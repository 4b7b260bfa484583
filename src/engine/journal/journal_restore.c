/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The journal's feed/ and keeper/ into a new segment.
 * MODEL    keeper/ is read into memory, then feed/ twice: to find the last checkpoint and
 *          the last whole group, and to take what stands between them, in its order.  Actions
 *          that are older than the destination as it was written are dropped; the others are
 *          done again.
 * ERRORS   See journal_restore.h.
 * THREADS  One.
 */
#include "engine/journal/journal_restore.h"

#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/sd_log.h"
#include "base/text.h"
#include "engine/internal.h"
#include "engine/journal/journal_accounts.h"
#include "engine/journal/journal_manual.h"
#include "engine/journal/journal_sources.h"
#include "engine/journal/journal_state.h"
#include "engine/journal/journal_room.h"
#include "engine/destination/windows.h"
#include "segment/destination/recipients.h"
#include "segment/destination/state_text.h"
#include "segment/destination/states.h"
#include "segment/file/feed_position.h"

/* A boot's begin is known about so well. */
#define BOOT_SLACK_NS	(5 * NS_PER_SECOND)
#define DEADLINE_NS	(20 * NS_PER_SECOND)
#define FOR_EVER_NS	(INT64_MAX / 2)

/* How far the logs were read, as the groups of feed/ tell it: the last whole one counts. */
struct restored_logs {
	struct journal_log_position next[SEGMENT_LOG_FILES];	/* of the group that is read */
	struct journal_log_position last[SEGMENT_LOG_FILES];	/* of the last whole one */
	unsigned next_count, last_count;
	bool known;			/* there was one */
};

struct restore {
	struct engine *engine;
	const struct generation *generation;
	int64_t now_ns, wall_ns;
	struct manual_table *table;	/* what is to be done again, */
	bool (*wanted)(void *context, const struct journal_manual *action);	/* NULL: all */
	void *context;
	struct restored_logs logs;
	int64_t recipients_ns;	/* when the last list of them was written */
	int64_t newest_ns;
	struct journal_news news;
	const struct journal_listener *listener;
	struct journal_bad bad[JOURNAL_ROOMS];
	uint64_t records;
	int64_t deadline_ns;	/* by the clock */
	bool late;
	bool whole;		/* all was read that was there */
};

/* By the clock of now.  A wall clock that went back tells nothing: then it was just now. */
static int64_t then_of(const struct restore *r, int64_t wall_ns) {
	if (wall_ns > r->wall_ns)
		return r->now_ns;
	return r->now_ns - (r->wall_ns - (wall_ns < 0 ? 0 : wall_ns));
}

/* The same of an end that was told at `when`: never longer than it was to be then. */
static int64_t end_of(const struct restore *r, int64_t until_ns, int64_t when_ns) {
	int64_t left_ns;

	if (until_ns == INT64_MAX)
		return INT64_MAX;
	if (until_ns <= 0 || until_ns <= r->wall_ns)
		return r->now_ns;
	left_ns = until_ns - r->wall_ns;
	if (when_ns >= 0 && left_ns > until_ns - when_ns)
		left_ns = until_ns - when_ns;
	return r->now_ns + (left_ns > INT64_MAX / 4 ? INT64_MAX / 4 : left_ns);
}

/* --- feed/ ---------------------------------------------------------------------------- */

static bool copy_text(const struct journal_text *text, char *out, size_t size) {
	if (text->length >= size)
		return false;
	if (text->length > 0)
		memcpy(out, text->text, text->length);
	out[text->length] = '\0';
	return strlen(out) == text->length;
}

static bool of_this_boot(const struct restore *r, int64_t when_ns) {
	return when_ns > r->wall_ns - r->now_ns + BOOT_SLACK_NS && when_ns <= r->wall_ns;
}

static void restore_pace(const struct restore *r, int64_t when_ns, const char *name,
    const struct state_seen *seen, struct pace *pace) {
	int64_t since_ns = r->now_ns - then_of(r, when_ns);

	windows_pace_restore(r->engine, r->generation, name, seen->pace_age_ns == 0 ? 0 :
	    seen->pace_age_ns + since_ns, r->now_ns, pace);
}

static bool take_destination(struct restore *r, const struct journal_frame *frame) {
	struct destination_window window = { .number = 0 };
	char text[STATE_TEXT_MAX], name[SEGMENT_NAME_MAX + 1], reason[SEGMENT_REASON_MAX + 1];
	struct state_seen seen;
	struct segment *segment = r->engine->segment;
	struct journal_destination d;
	struct state_lock lock;

	if (!journal_destination_read(frame->payload, frame->length, &d) ||
	    !copy_text(&d.state, text, sizeof(text)) ||
	    !copy_text(&d.name, name, sizeof(name)) ||
	    !copy_text(&d.reason, reason, sizeof(reason)) ||
	    !state_text_read(text, then_of(r, d.when_ns), of_this_boot(r, d.when_ns),
		&window, &seen) || !states_aim(segment, name, strlen(name), &lock))
		return false;
	if (r->table != NULL)
		manual_table_drop_older(r->table, JOURNAL_ON_DESTINATION, &d.name, d.when_ns);
	if (d.when_ns > r->newest_ns)
		r->newest_ns = d.when_ns;
	restore_pace(r, d.when_ns, name, &seen, &window.state.pace);
	if (states_lock(&lock, r->now_ns, d.state.length == 0 ? STATES_KNOWN_ONLY :
	    STATES_CREATE) != STATES_HELD)
		return true;
	lock.state = window.state;
	lock.raw_origin = d.origin;
	lock.reason = reason;
	lock.event = window.event;
	states_store(&lock);
	states_unlock(&lock);
	r->news.destinations += lock.is_new;
	state_seen_note(segment, name, &seen);
	return true;
}

static void release_one(void *context, const struct recipient_held *held) {
	struct restore *r = context;

	(void)recipients_release(r->engine->segment, held->address, strlen(held->address),
	    r->now_ns);
}

static bool take_recipient(struct restore *r, const struct journal_frame *frame) {
	char address[RECIPIENT_MAX + 1], reason[SEGMENT_REASON_MAX + 1];
	struct recipient_hold hold = { .address = address, .rule = RECIPIENT_NO_RULE,
		.reason = reason };
	struct journal_held_recipient held;

	if (!journal_held_recipient_read(frame->payload, frame->length, &held) ||
	    !copy_text(&held.address, address, sizeof(address)) ||
	    !copy_text(&held.reason, reason, sizeof(reason)))
		return false;
	if (held.address.length == 0) {
		recipients_each(r->engine->segment, r->now_ns, release_one, r);
		r->recipients_ns = held.when_ns;
		r->news.recipients = 0;
		return true;
	}
	if (end_of(r, held.until_ns, held.when_ns) <= r->now_ns)
		return true;
	hold.length = held.address.length;
	if (held.by_rule)
		hold.rule = RECIPIENT_A_RULE;
	hold.until_ns = end_of(r, held.until_ns, held.when_ns);
	hold.event = held.event;
	r->news.recipients += recipients_hold(r->engine->segment, &hold,
	    then_of(r, held.since_ns));
	return true;
}

static bool take(struct restore *r, const struct journal_frame *frame) {
	struct journal_log_position position;
	struct journal_checkpoint group;

	switch (frame->type) {
	case JOURNAL_DESTINATION:
		return take_destination(r, frame);
	case JOURNAL_HELD_RECIPIENT:
		return take_recipient(r, frame);
	case JOURNAL_LOG_POSITION:
		if (!journal_log_position_read(frame->payload, frame->length, &position))
			return false;
		if (r->logs.next_count < SEGMENT_LOG_FILES)
			r->logs.next[r->logs.next_count++] = position;
		return true;
	case JOURNAL_GROUP:
		if (!journal_checkpoint_read(frame->payload, frame->length, &group))
			return false;
		memcpy(r->logs.last, r->logs.next, sizeof(r->logs.last));
		r->logs.last_count = r->logs.next_count;
		r->logs.next_count = 0;
		r->logs.known = true;
		if (group.when_ns > r->newest_ns)
			r->newest_ns = group.when_ns;
		return true;
	case JOURNAL_CHECKPOINT_BEGIN:
		/* what was cut off before it is no part of a group */
		r->logs.next_count = 0;
		return true;
	default:
		return true;
	}
}

/* The log that a place is of, or "". */
static const char *log_of(const struct generation *generation, uint64_t log) {
	for (uint32_t i = 0; i < generation->mta_count; i++) {
		const char *text = generation_text(generation, generation->mtas[i].log);

		if (*text != '\0' && feed_log_id(text) == log)
			return text;
	}
	return "";
}

/* All files of a log lie in one file system, that of its directory. */
static uint64_t device_now(const struct generation *generation,
    const struct feed_position *position) {
	const char *log = log_of(generation, position->log);
	char path[PATH_MAX];
	struct stat status;

	if (*log == '\0' || sd_log_is(log) || !text_copy(path, sizeof(path), log, strlen(log)))
		return position->device;
	/* the file itself may be behind a link */
	if (stat(log, &status) == 0 && status.st_ino == position->inode)
		return status.st_dev;
	return stat(dirname(path), &status) == 0 ? status.st_dev : position->device;
}

/* In place of what the segment knows.  What was written before this boot began, by the wall
 * clock, is of another one: then the number of a file system may be another one. */
static void put_logs(struct restore *r) {
	int64_t boot_ns = r->wall_ns - r->now_ns + BOOT_SLACK_NS;

	if (!r->logs.known)
		return;
	feed_positions_keep(r->engine->segment, NULL, 0);
	for (unsigned i = 0; i < r->logs.last_count; i++) {
		struct feed_position position = r->logs.last[i].position;

		if (r->logs.last[i].when_ns < boot_ns &&
		    (position.device != 0 || position.inode != 0))
			position.device = device_now(r->generation, &position);
		r->news.logs += feed_position_add(r->engine->segment, &position);
	}
}

/* What counts. */
struct range {
	struct journal_place begin;	/* of the last checkpoint of which the group is whole */
	uint64_t last;			/* sequence of the last whole group's end; 0: none */
};

/* Then what is left of feed/ is not read: actions are to be in force before anybody
 * answers. */
static bool is_late(struct restore *r) {
	if (++r->records % 1024 == 0 && clock_now_ns() > r->deadline_ns) {
		r->late = true;
		r->whole = false;
	}
	return r->late;
}

struct looking {
	struct restore *r;
	struct range range;
	struct journal_place begun;	/* the last checkpoint; {0, 0}: its group is whole */
};

/* A group that was cut off stands before a checkpoint or at the end: never between. */
static bool look_for_range(void *context, const struct journal_found *found) {
	struct looking *looking = context;

	journal_bad_note(&looking->r->bad[JOURNAL_ROOM_FEED], found);
	if (found->kind == JOURNAL_FOUND_RECORD &&
	    found->frame.type == JOURNAL_CHECKPOINT_BEGIN)
		looking->begun = found->place;
	if (found->kind == JOURNAL_FOUND_RECORD && found->frame.type == JOURNAL_GROUP) {
		looking->range.last = found->frame.sequence;
		if (looking->begun.file != 0)
			looking->range.begin = looking->begun;
		looking->begun.file = 0;
	}
	return !is_late(looking->r);
}

static bool take_range(void *context, const struct journal_found *found) {
	const struct looking *looking = context;
	struct journal_bad *bad = &looking->r->bad[JOURNAL_ROOM_FEED];

	bad->faults += found->kind == JOURNAL_FOUND_FAULT;
	if (found->kind != JOURNAL_FOUND_RECORD)
		return !is_late(looking->r);
	if (found->frame.sequence > looking->range.last)
		return false;
	bad->places += !take(looking->r, &found->frame);
	return !is_late(looking->r);
}

/* False: there is nothing to be read, or it cannot be: that is told. */
static bool open_room(struct restore *r, enum journal_room room,
    struct journal_reader **out) {
	struct journal_news news = { .kind = JOURNAL_NEWS_UNREAD, .room = room, .what = "" };
	struct diag diag = { .error = 0 };

	switch (journal_room_open(r->generation, room, out, &diag)) {
	case JOURNAL_ROOM_OPENED:
		return true;
	case JOURNAL_ROOM_NONE:
		journal_room_set(r->engine, room, JOURNAL_IS_NONE);
		return false;
	case JOURNAL_ROOM_BUSY:
		news.what = "another process has the journal open";
		break;
	case JOURNAL_ROOM_FAULT:
		journal_room_set(r->engine, room, JOURNAL_IS_UNREAD);
		news.what = diag.text;
		break;
	}
	r->whole = false;
	journal_status_say(r->engine, news, r->listener);
	return false;
}

/* Where its disk failed, what could be read is in force all the same. */
static void was_read(struct restore *r, enum journal_room room,
    const struct journal_reader *reader) {
	if (r->bad[room].faults > 0 || reader->files.slots_unread) {
		journal_room_set(r->engine, room, JOURNAL_IS_UNREAD);
		r->whole = false;
	} else if (!r->late) {
		journal_room_is_known(r->engine, room, &reader->files);
	}
}

static void restore_feed(struct restore *r) {
	struct looking looking = { .r = r };
	struct journal_reader *reader;
	bool read;

	if (!open_room(r, JOURNAL_ROOM_FEED, &reader))
		return;
	read = journal_each(&reader->files, journal_reader_begin(reader), look_for_range,
	    &looking);
	if (read && !r->late && looking.range.last != 0)
		read = journal_each(&reader->files, looking.range.begin, take_range, &looking);
	if (read)
		put_logs(r);
	else
		journal_bad_no_memory(&r->bad[JOURNAL_ROOM_FEED]);
	was_read(r, JOURNAL_ROOM_FEED, reader);
	journal_reader_close(&reader);
}

/* --- accounts/ ------------------------------------------------------------------------ */

#ifdef WITH_ACCOUNTS
static void restore_accounts(struct restore *r) {
	struct journal_reader *reader;

	if (r->engine->segment->header->accounts.shards == 0 ||
	    !open_room(r, JOURNAL_ROOM_ACCOUNTS, &reader))
		return;
	r->news.logins = journal_accounts_restore(r->engine, &reader->files,
	    journal_reader_begin(reader), r->now_ns, r->wall_ns, r->deadline_ns,
	    &r->bad[JOURNAL_ROOM_ACCOUNTS]);
	was_read(r, JOURNAL_ROOM_ACCOUNTS, reader);
	journal_reader_close(&reader);
}
#endif

/* --- keeper/ -------------------------------------------------------------------------- */

static void read_actions(struct restore *r) {
	struct journal_reader *reader;

	if (!open_room(r, JOURNAL_ROOM_KEEPER, &reader))
		return;
	journal_manual_read_all(&reader->files, journal_reader_begin(reader), r->table,
	    &r->bad[JOURNAL_ROOM_KEEPER]);
	if (r->generation->source_count > 0)
		journal_sources_restore(r->engine, r->generation, &reader->files,
		    journal_reader_begin(reader), r->now_ns, r->wall_ns,
		    &r->bad[JOURNAL_ROOM_KEEPER]);
	was_read(r, JOURNAL_ROOM_KEEPER, reader);
	journal_reader_close(&reader);
}

static bool is_over(const struct restore *r, const struct journal_manual *action) {
	return manual_stops(action->verb) &&
	    end_of(r, action->until_ns, action->when_ns) <= r->now_ns;
}

static void do_again(struct restore *r, const struct journal_manual *action) {
	char name[1024], reason[SEGMENT_REASON_MAX + 1];
	struct by_hand request = { .verb = action->verb, .name = name, .name_length = action->name.length,
		.class = action->what == JOURNAL_ON_CLASS, .reason = reason,
		.window = action->window, .ceiling = action->ceiling,
		.uid = (uid_t)action->who, .again = true };
	struct window_owner ignored;

	if (action->verb == MANUAL_NONE || action->verb >= MANUAL_VERBS || action->what < JOURNAL_ON_DESTINATION ||
	    action->what > JOURNAL_ON_CLASS || !copy_text(&action->name, name, sizeof(name)) ||
	    !copy_text(&action->reason, reason, sizeof(reason))) {
		r->bad[JOURNAL_ROOM_KEEPER].places++;
		return;
	}
	if (is_over(r, action))
		return;
	if (reason[0] == '\0')
		request.reason = NULL;
	if (action->until_ns == INT64_MAX && action->verb == MANUAL_SUSPEND)
		request.for_ns = FOR_EVER_NS;
	else if (action->until_ns > r->wall_ns && action->until_ns != INT64_MAX)
		request.for_ns = end_of(r, action->until_ns, action->when_ns) - r->now_ns;
	r->news.actions += windows_by_hand(r->engine, r->generation, &request, r->now_ns,
	    &ignored) == BY_HAND_DONE;
}

static bool restore_action(void *context, const struct journal_manual *action) {
	struct restore *r = context;

	if (r->wanted != NULL && !r->wanted(r->context, action))
		return true;
	if (action->when_ns > r->newest_ns)
		r->newest_ns = action->when_ns;
	if (action->what != JOURNAL_ON_RECIPIENT || action->when_ns > r->recipients_ns)
		do_again(r, action);
	return true;
}

static void tell_bad(const struct restore *r, enum journal_room room) {
	const struct journal_bad *bad = &r->bad[room];
	struct journal_news news = { .kind = JOURNAL_NEWS_DAMAGED, .room = room,
		.bytes = bad->bytes, .lost = bad->places, .what = "" };

	engine_count(r->engine, COUNTER_JOURNAL_DAMAGED, bad->places + bad->later);
	if (bad->places > 0)
		journal_status_say(r->engine, news, r->listener);
	news.kind = JOURNAL_NEWS_LATER;
	news.lost = bad->later;
	if (bad->later > 0)
		journal_status_say(r->engine, news, r->listener);
}

bool engine_journal_restore(struct engine *engine, const struct generation *generation,
    const struct journal_listener *listener, int64_t now_ns, int64_t wall_ns) {
	struct restore r = { .engine = engine, .generation = generation, .now_ns = now_ns,
		.wall_ns = wall_ns, .table = manual_table_open(), .listener = listener,
		.deadline_ns = clock_now_ns() + DEADLINE_NS, .whole = true,
		.recipients_ns = INT64_MIN,
		.news = { .kind = JOURNAL_NEWS_RESTORED, .what = "", .path = "" } };

	if (r.table != NULL)
		read_actions(&r);
#ifdef WITH_ACCOUNTS
	restore_accounts(&r);
#endif
	restore_feed(&r);
	if (r.table != NULL)
		manual_table_each(r.table, restore_action, &r);
	engine_count(engine, COUNTER_JOURNAL_RESTORED, r.news.destinations +
	    r.news.recipients + r.news.actions + r.news.logins);
	r.news.age_ns = r.newest_ns > 0 && r.newest_ns < wall_ns ? wall_ns - r.newest_ns : 0;
	if (r.newest_ns > 0 || r.news.logins > 0)
		listener->tell(listener->context, &r.news);
	for (enum journal_room room = 0; room < JOURNAL_ROOMS; room++)
		tell_bad(&r, room);
	manual_table_close(&r.table);
	return r.whole;
}

void engine_journal_do_again(struct engine *engine, const struct generation *generation,
    struct manual_table *table, bool (*wanted)(void *context, const struct journal_manual *action),
    void *context, const struct journal_listener *listener, int64_t now_ns, int64_t wall_ns) {
	struct restore r = { .engine = engine, .generation = generation, .now_ns = now_ns,
		.wall_ns = wall_ns, .table = table, .wanted = wanted, .context = context,
		.recipients_ns = INT64_MIN,
		.news = { .kind = JOURNAL_NEWS_RESTORED, .room = JOURNAL_ROOM_KEEPER,
			.what = "", .path = "" } };

	manual_table_each(table, restore_action, &r);
	engine_count(engine, COUNTER_JOURNAL_RESTORED, r.news.actions);
	r.news.age_ns = r.newest_ns < wall_ns ? wall_ns - r.newest_ns : 0;
	if (r.news.actions > 0)
		listener->tell(listener->context, &r.news);
}

/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Follow systemd's journal.
 * MODEL    journald numbers its entries, across files and its own restarts, as long as it goes
 *          on with its files; then numbers begin under another ID.  Entries that it moves from
 *          memory to disk get new numbers there.  So a place is a number of an ID, and the time
 *          up to which all was dealt with, for entries under another one.  An open journal
 *          knows by itself what it gave already.
 * ERRORS   A journal that cannot be read is opened anew every few seconds.
 * THREADS  One.
 */
#include "front/feed/followed_journal.h"

#include <errno.h>
#include <glob.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "wire/mail/sd_entry.h"

#define TRY_NS		(5 * NS_PER_SECOND)
/* Between the time that an entry bears and its being there to be read. */
#define LATE_US		(5 * 1000000)

#define SUPPRESSED_ID	"a596d6fe7bfa4994828e72309e95d61e"	/* SD_MESSAGE_JOURNAL_DROPPED */
#define JOURNALD	"systemd-journald"

/* --- opening ------------------------------------------------------------------------ */

static int open_files(const struct followed_journal *journal, struct sd_journal **out) {
	/* what sessions of people wrote is in files of their own, where there are disks for it */
	return journal->name.directory[0] != '\0' ?
	    journal->calls->open_directory(out, journal->name.directory, 0) :
	    journal->calls->open(out, SD_LOCAL_ONLY | SD_SYSTEM);
}

static int match(const struct followed_journal *journal, const char *field, const char *value) {
	char text[320];

	(void)text_append(text, sizeof(text), 0, "%s=%s", field, value);
	return journal->calls->add_match(journal->journal, text, strlen(text));
}

/* The log's lines, and what journald says of those that it did not take. */
static int add_matches(const struct followed_journal *journal) {
	const struct sd_log *name = &journal->name;
	int error = 0;

	if (name->unit[0] != '\0')
		error = match(journal, "_SYSTEMD_UNIT", name->unit);
	if (error >= 0 && name->identifier[0] != '\0')
		error = match(journal, "SYSLOG_IDENTIFIER", name->identifier);
	if (error >= 0 && name->unit[0] == '\0' && name->identifier[0] == '\0')
		error = match(journal, "SYSLOG_FACILITY", "2");
	if (error >= 0)
		error = journal->calls->add_disjunction(journal->journal);
	if (error >= 0)
		error = match(journal, "MESSAGE_ID", SUPPRESSED_ID);
	return error < 0 ? error : match(journal, "_TRANSPORT", "driver");
}

static int seek(const struct followed_journal *journal) {
	const struct feed_position *p = &journal->position;
	const uint64_t id[2] = { p->device, p->inode };
	char cursor[SD_CURSOR_MAX];

	if (p->device == 0 && p->inode == 0)
		return p->spot.time_us == 0 ? journal->calls->seek_head(journal->journal) :
		    journal->calls->seek_realtime_usec(journal->journal, p->spot.time_us);
	sd_cursor_write(cursor, id, p->spot.offset, p->spot.time_us);
	return journal->calls->seek_cursor(journal->journal, cursor);
}

/* Why there are no files: none that we may open, or none at all. */
static int why_no_files(const struct followed_journal *journal) {
	char pattern[PATH_MAX + 32];
	glob_t found;
	int error = ENOENT, flags = GLOB_NOSORT, fd;

	if (journal->name.directory[0] != '\0') {
		(void)text_append(pattern, sizeof(pattern), 0, "%s/*.journal",
		    journal->name.directory);
		if (glob(pattern, flags, NULL, &found) != 0)
			return access(journal->name.directory, R_OK | X_OK) != 0 ? errno : ENOENT;
	} else {
		(void)glob(SD_LOG_VOLATILE "/*/system.journal", flags, NULL, &found);
		(void)glob(SD_LOG_PERSISTENT "/*/system.journal", flags | GLOB_APPEND, NULL, &found);
	}
	for (size_t i = 0; i < found.gl_pathc; i++) {
		fd = open(found.gl_pathv[i], O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd >= 0)
			close(fd);
		else
			error = errno;
	}
	globfree(&found);
	return error;
}

static bool has_files(const struct followed_journal *journal) {
	return journal->calls->has_runtime_files(journal->journal) > 0 ||
	    journal->calls->has_persistent_files(journal->journal) > 0 ||
	    journal->name.directory[0] != '\0';
}

static void close_files(struct followed_journal *journal) {
	if (journal->journal != NULL)
		journal->calls->close(journal->journal);
	journal->journal = NULL;
}

/* The place of the entry that the journal stands at. */
static bool place_of(const struct sd_calls *calls, struct sd_journal *at,
    struct feed_position *out) {
	uint64_t id[2], number, time_us;
	char *cursor;
	bool found;

	if (calls->get_realtime_usec(at, &time_us) < 0 || calls->get_cursor(at, &cursor) < 0)
		return false;
	found = sd_cursor_read(cursor, id, &number);
	free(cursor);
	if (!found)
		return false;
	out->device = id[0];
	out->inode = id[1];
	out->spot = (struct feed_spot){ .offset = number, .time_us = time_us };
	return true;
}

static bool is_same_id(const struct feed_position *a, const struct feed_position *b) {
	return a->device == b->device && a->inode == b->inode;
}

/* Was something deleted that was written after all that was read? */
static bool has_gap(const struct followed_journal *journal) {
	const struct feed_position *p = &journal->position;
	struct feed_position head;
	struct sd_journal *all = NULL;
	bool gap;

	if ((p->device == 0 && p->inode == 0) || open_files(journal, &all) < 0)
		return false;
	gap = journal->calls->seek_head(all) >= 0 && journal->calls->next(all) > 0 &&
	    place_of(journal->calls, all, &head) && is_same_id(&head, p) &&
	    head.spot.offset > p->spot.offset + 1 && head.spot.time_us > p->spot.time_us;
	journal->calls->close(all);
	return gap;
}

static void open_journal(struct followed_journal *journal, int64_t now_ns) {
	int error;

	journal->tried_ns = now_ns;
	error = open_files(journal, &journal->journal);
	if (error < 0) {
		journal->journal = NULL;
	} else if (!has_files(journal)) {
		error = -why_no_files(journal);
	} else {
		(void)journal->calls->set_data_threshold(journal->journal, FOLLOWED_LINE_MAX);
		/* watched from before the first look on */
		(void)journal->calls->get_fd(journal->journal);
		error = add_matches(journal);
		if (error >= 0)
			error = seek(journal);
	}
	journal->error = error < 0 ? -error : 0;
	if (error < 0)
		close_files(journal);
	else
		journal->counts.lost += has_gap(journal);
	journal->resuming = true;
}

void followed_journal_open(struct followed_journal *journal, const char *text,
    const struct followed_journal_start *start, const struct sd_calls *calls,
    const struct feed_keeper *keeper, int64_t now_ns) {
	const char *why;

	memset(journal, 0, sizeof(*journal));
	(void)text_copy(journal->log, sizeof(journal->log), text, strlen(text));
	(void)sd_log_parse(text, &journal->name, &why);
	journal->id = feed_log_id(text);
	journal->calls = calls;
	journal->keeper = keeper;
	journal->record = FEED_NO_RECORD;
	if (start->known_count > 0) {
		/* whoever died between two of them left the older one */
		for (unsigned i = 0; i + 1 < start->known_count; i++)
			keeper->forget(keeper->segment, start->records[i]);
		journal->position = start->known[start->known_count - 1];
		journal->record = start->records[start->known_count - 1];
	} else {
		journal->position = (struct feed_position){ .log = journal->id,
			.spot.time_us = start->from_begin ? 0 : (uint64_t)start->wall_us };
		journal->record = keeper->begin(keeper->segment, &journal->position);
	}
	journal->origin = feed_origin_id(&journal->position);
	open_journal(journal, now_ns);
}

void followed_journal_close(struct followed_journal *journal) {
	close_files(journal);
}

bool followed_journal_look(struct followed_journal *journal, int64_t now_ns) {
	if ((journal->journal != NULL && has_files(journal)) ||
	    now_ns - journal->tried_ns < TRY_NS)
		return false;
	close_files(journal);
	open_journal(journal, now_ns);
	return true;
}

int followed_journal_fd(struct followed_journal *journal) {
	int fd = journal->journal == NULL ? -1 : journal->calls->get_fd(journal->journal);

	return fd < 0 ? -1 : fd;
}

void followed_journal_changed(struct followed_journal *journal) {
	if (journal->journal != NULL && journal->calls->process(journal->journal) < 0)
		close_files(journal);
}

/* --- entries ------------------------------------------------------------------------ */

/* What stands in a field, until the next call; false: it has no such. */
static bool field(const struct followed_journal *journal, const char *name, struct span *out) {
	size_t before = strlen(name) + 1, size;
	const void *data;

	*out = (struct span){ "", 0 };
	if (journal->calls->get_data(journal->journal, name, &data, &size) < 0 || size < before)
		return false;
	*out = (struct span){ (const char *)data + before, size - before };
	return true;
}

/* A copy of a short one, cut to fit. */
static struct span short_field(const struct followed_journal *journal, const char *name,
    char *out, size_t size) {
	struct span found;

	(void)field(journal, name, &found);
	if (found.length > size)
		found.length = size;
	memcpy(out, found.text, found.length);
	return (struct span){ out, found.length };
}

static uint32_t uid_of(const struct followed_journal *journal) {
	struct span text;
	uint32_t uid;

	return field(journal, "_UID", &text) && text_to_u32(text.text, text.length,
	    UINT32_MAX - 1, &uid) ? uid : UINT32_MAX;
}

static struct followed_journal_unit *unit_of(struct followed_journal *journal, struct span name) {
	struct followed_journal_unit *unit, *room = NULL;

	if (name.length == 0 || name.length >= sizeof(unit->name))
		return NULL;
	for (unsigned i = 0; i < JOURNAL_UNITS_MAX; i++) {
		unit = &journal->units[i];
		if (strlen(unit->name) == name.length &&
		    memcmp(unit->name, name.text, name.length) == 0)
			return unit;
		if (room == NULL && (unit->name[0] == '\0' || !unit->of_mail))
			room = unit;
	}
	if (room == NULL)
		return NULL;
	*room = (struct followed_journal_unit){ .of_mail = false };
	memcpy(room->name, name.text, name.length);
	return room;
}

static void count_suppressed(struct followed_journal *journal, struct followed_journal_unit *unit) {
	if (!unit->of_mail || unit->suppressed == 0)
		return;
	journal->counts.suppressed += unit->suppressed;
	unit->suppressed = 0;
	(void)text_copy(journal->suppressed_unit, sizeof(journal->suppressed_unit), unit->name,
	    strlen(unit->name));
}

/* "Suppressed 12 messages from UNIT": whose it is may show in the next line alone. */
static void take_suppressed(struct followed_journal *journal) {
	static const char from[] = " messages from ";
	struct followed_journal_unit *unit;
	struct span text;
	uint32_t count = 0;
	const char *at;

	if (!field(journal, "N_DROPPED", &text) ||
	    !text_to_u32(text.text, text.length, UINT32_MAX, &count))
		return;
	if (!field(journal, "MESSAGE", &text))
		return;
	at = memmem(text.text, text.length, from, sizeof(from) - 1);
	if (at == NULL)
		return;
	at += sizeof(from) - 1;
	unit = unit_of(journal, (struct span){ at, (size_t)(text.text + text.length - at) });
	if (unit == NULL)
		return;
	unit->suppressed += count;
	unit->of_mail |= strcmp(unit->name, journal->name.unit) == 0;
	count_suppressed(journal, unit);
}

static void note_unit(struct followed_journal *journal) {
	struct followed_journal_unit *unit;
	struct span name;

	if (!field(journal, "_SYSTEMD_UNIT", &name) || (unit = unit_of(journal, name)) == NULL)
		return;
	unit->of_mail = true;
	count_suppressed(journal, unit);
}

/* journald itself wrote it: nobody else has this transport. */
static bool is_of_journald(const struct followed_journal *journal, struct span identifier) {
	struct span transport;

	return identifier.length == sizeof(JOURNALD) - 1 &&
	    memcmp(identifier.text, JOURNALD, identifier.length) == 0 &&
	    field(journal, "_TRANSPORT", &transport) && transport.length == 6 &&
	    memcmp(transport.text, "driver", 6) == 0;
}

/* True: the place is to be kept at once. */
static bool give(struct followed_journal *journal, const struct followed_journal_reader *reader,
    uint64_t time_us) {
	char identifier[SD_ENTRY_HEAD_MAX], pid[16];
	struct sd_entry entry = { .time_us = time_us };
	struct followed_journal_line line = { .text = reader->buffer };

	entry.identifier = short_field(journal, "SYSLOG_IDENTIFIER", identifier,
	    sizeof(identifier));
	if (is_of_journald(journal, entry.identifier)) {
		take_suppressed(journal);
		return false;
	}
	line.uid = uid_of(journal);
	entry.pid = short_field(journal, "SYSLOG_PID", pid, sizeof(pid));
	if (entry.pid.length == 0)
		entry.pid = short_field(journal, "_PID", pid, sizeof(pid));
	(void)field(journal, "MESSAGE", &entry.message);
	line.length = sd_entry_line(&entry, reader->buffer, reader->buffer_size);
	if (line.length == 0) {
		journal->counts.long_lines += entry.message.length > FOLLOWED_LINE_MAX;
		return false;
	}
	if (!reader->each(reader->context, journal, &line))
		return false;
	note_unit(journal);
	return true;
}

/* --- places ------------------------------------------------------------------------- */

static void keep(struct followed_journal *journal) {
	journal->keeper->move(journal->keeper->segment, journal->record, &journal->position.spot);
}

/* Numbers of another ID: another record. */
static void change_id(struct followed_journal *journal, const struct feed_position *place) {
	uint32_t old = journal->record;

	journal->position.device = place->device;
	journal->position.inode = place->inode;
	journal->position.epoch = 0;
	journal->position.spot.offset = 0;
	journal->origin = feed_origin_id(&journal->position);
	journal->record = journal->keeper->begin(journal->keeper->segment, &journal->position);
	journal->keeper->forget(journal->keeper->segment, old);
}

/* Was it dealt with before the journal was opened? */
static bool is_known(const struct followed_journal *journal, const struct feed_position *place) {
	const struct feed_position *p = &journal->position;

	return is_same_id(place, p) ? place->spot.offset <= p->spot.offset :
	    journal->resuming && place->spot.time_us <= p->spot.time_us;
}

static void take_entry(struct followed_journal *journal, const struct followed_journal_reader *reader) {
	struct feed_position place;

	if (!place_of(journal->calls, journal->journal, &place) || is_known(journal, &place))
		return;
	if (!is_same_id(&place, &journal->position))
		change_id(journal, &place);
	journal->position.spot = place.spot;
	journal->read_us = place.spot.time_us;
	if (give(journal, reader, place.spot.time_us))
		keep(journal);
}

/* All there was has been read: nothing older comes any more. */
static void take_up_end(struct followed_journal *journal, int64_t wall_us) {
	uint64_t now_us = wall_us < LATE_US ? 0 : (uint64_t)wall_us - LATE_US;

	journal->resuming = false;
	/* the clock may have been set back since */
	if (now_us > journal->read_us || journal->read_us > (uint64_t)wall_us)
		journal->position.spot.time_us = now_us > 0 ? now_us : 1;
}

bool followed_journal_read(struct followed_journal *journal, const struct followed_journal_reader *reader,
    unsigned most, int64_t wall_us) {
	unsigned count = 0;
	int more = 0;

	while (journal->journal != NULL && count < most &&
	    (more = journal->calls->next(journal->journal)) > 0) {
		take_entry(journal, reader);
		count++;
	}
	if (journal->journal == NULL)
		return false;
	if (more < 0) {
		journal->error = -more;
		close_files(journal);
	} else if (more == 0) {
		take_up_end(journal, wall_us);
	}
	keep(journal);
	return more > 0;
}

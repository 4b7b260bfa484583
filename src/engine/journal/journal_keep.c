/* SPDX-License-Identifier: ISC */
/* A directory of the journal that is written by one role: its log, and how it fares.  What
 * fails is tried again by the log.  One thread. */
#include "engine/journal/journal_keep.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"

#define TELL_NS		NS_PER_SECOND
#define DECISIONS_PARTS	8
#define CLOCK_STEP_NS	(5 * NS_PER_SECOND)
#define RECORD_MOST	8192	/* of a destination: its texts */

static void on_renew(void *context) {
	struct journal_keep *keep = context;

	keep->renew = true;
	keep->whole = 0;
}

bool journal_keep_begin(struct journal_keep *keep, int64_t now_ns, int64_t wall_ns) {
	int64_t step_ns = wall_ns - now_ns - keep->shift_ns;
	bool is_first = keep->shift_ns == 0;

	keep->now_ns = now_ns;
	keep->wall_ns = wall_ns;
	keep->shift_ns = wall_ns - now_ns;
	return !is_first && (step_ns > CLOCK_STEP_NS || step_ns < -CLOCK_STEP_NS);
}

int64_t journal_keep_wall_ns(const struct journal_keep *keep, int64_t time_ns) {
	int64_t left_ns = time_ns - keep->now_ns;

	if (time_ns == 0)
		return 0;
	return left_ns > INT64_MAX / 4 ? INT64_MAX : left_ns + keep->wall_ns;
}

bool journal_keep_can_renew(const struct journal_keep *keep) {
	return keep->renew && journal_log_state(keep->log) == JOURNAL_GOOD;
}

/* --- whose it is ---------------------------------------------------------------------- */

/* A journal that was moved here, mounted over ours, or written by another state's processes. */
static bool is_anothers(const struct journal_keep *keep) {
	const struct segment_header *header = keep->engine->segment->header;
	const struct journal_record *record = &header->journals[keep->room];
	uint64_t known = atomic_load(&record->journal), found;
	uint32_t last;

	journal_log_found_there(keep->log, &found, &last);
	if (last == 0 || found == 0)	/* nothing that can be read */
		return false;
	/* what people did can be taken into this state yet: journal_manual.c */
	if (known == JOURNAL_IS_UNREAD)
		return keep->room != JOURNAL_ROOM_KEEPER;
	/* a state that never had one: it was restored from it, or is older than this */
	if (known == 0)
		return atomic_load(&header->unlearned) == 2;
	return known != found || last > atomic_load(&record->last_file);
}

static void tell_foreign(const struct journal_keep *keep) {
	struct journal_news news = { .kind = JOURNAL_NEWS_FOREIGN, .room = keep->room,
		.what = "" };
	uint64_t ignored;
	uint32_t last;

	journal_log_found_there(keep->log, &ignored, &last);
	news.lost = last;
	journal_status_say(keep->engine, news, &keep->listener);
}

/* Until positions say on the disk what stays, whoever opens it next has to find out again. */
static bool is_settled(const struct journal_keep *keep) {
	return !(keep->is_foreign || keep->was_unread) ||
	    journal_log_positions_recorded(keep->log) > keep->recorded;
}

static void look_at_origin(struct journal_keep *keep) {
	struct journal_record *record =
	    &keep->engine->segment->header->journals[keep->room];
	const struct journal_files *files = journal_log_files(keep->log);
	uint32_t begin = journal_log_begin(keep->log).file;
	const struct journal_file *newest;

	/* decisions of another state are ids that nobody asks for, until they make room */
	if (begin == 0 || files->count == 0 || keep->room == JOURNAL_ROOM_DECISIONS)
		return;
	if (begin != keep->known_begin) {
		keep->known_begin = begin;
		keep->recorded = journal_log_positions_recorded(keep->log);
		keep->was_unread = atomic_load(&record->journal) == JOURNAL_IS_UNREAD;
		keep->is_foreign = is_anothers(keep);
		if (keep->is_foreign || (keep->was_unread && keep->room != JOURNAL_ROOM_KEEPER))
			journal_log_keep(keep->log);
		if (keep->is_foreign)
			tell_foreign(keep);
	}
	newest = &files->files[files->count - 1];
	if (newest->number == keep->known_file || newest->number < begin || !is_settled(keep))
		return;
	keep->known_file = newest->number;
	atomic_store(&record->journal, newest->head.journal);
	atomic_store(&record->last_file, newest->number);
}

bool journal_keep_is_foreign(struct journal_keep *keep) {
	look_at_origin(keep);
	return keep->is_foreign;
}

/* --- life ----------------------------------------------------------------------------- */

/* Files of decisions are deleted one by one. */
static uint32_t file_size(const struct generation *generation, enum journal_room room) {
	uint64_t part = generation->journal.decisions_size / DECISIONS_PARTS;

	return (uint32_t)(room == JOURNAL_ROOM_DECISIONS && part <
	    generation->journal.file_size ? part : generation->journal.file_size);
}

/* Its storage and its log; false: there is none, or *diag. */
static bool open_log(struct journal_keep *keep, const struct generation *generation,
    int64_t now_ns, struct diag *diag) {
	struct journal_log_options options = { .kind = (enum journal_kind)(keep->room + 1),
		.file_size = file_size(generation, keep->room), .threaded = true,
		.calls = { .renew = on_renew, .context = keep } };
	char path[PATH_MAX];

	if (!generation_journal_directory(generation, keep->room, path))
		return false;
	keep->storage = journal_storage_posix(path, false, diag);
	return keep->storage != NULL &&
	    journal_log_open(&keep->log, keep->storage, &options, now_ns, diag) == 0;
}

int journal_keep_open(void *owner, size_t size, struct engine *engine,
    const struct generation *generation, enum journal_room room,
    const struct journal_listener *listener, int64_t now_ns, struct diag *diag) {
	struct journal_keep *keep = calloc(1, size);

	memset(owner, 0, sizeof(keep));
	journal_status_none(engine, room);
	if (keep == NULL)
		return diag_set(diag, 0, "no memory for the journal");
	keep->engine = engine;
	keep->room = room;
	keep->listener = *listener;
	keep->renew = true;
	diag->error = 0;
	diag->text[0] = '\0';
	if (!open_log(keep, generation, now_ns, diag)) {
		journal_keep_close(&keep);
		return diag->text[0] == '\0' ? 0 : -1;
	}
	look_at_origin(keep);
	journal_status_tell(engine, room, &keep->told, keep->log, listener, now_ns);
	keep->told_ns = now_ns;
	memcpy(owner, &keep, sizeof(keep));
	return 0;
}

void journal_keep_close(void *owner) {
	struct journal_keep *keep;

	memcpy(&keep, owner, sizeof(keep));
	if (keep == NULL)
		return;
	if (keep->log != NULL)
		journal_log_close(&keep->log);
	if (keep->storage != NULL)
		journal_storage_close(&keep->storage);
	free(keep);
	memset(owner, 0, sizeof(keep));
}

bool journal_keep_turn(struct journal_keep *keep) {
	bool failed;

	(void)journal_log_turn(keep->log, keep->now_ns);
	look_at_origin(keep);
	failed = journal_log_state(keep->log) == JOURNAL_FAILED;
	keep->told.behind = keep->renew || keep->whole == 0 ||
	    journal_log_synced(keep->log) < keep->whole;
	if (keep->now_ns - keep->told_ns >= TELL_NS || failed != keep->told.failed ||
	    (keep->told.failed && !keep->told.behind)) {
		journal_status_tell(keep->engine, keep->room, &keep->told, keep->log,
		    &keep->listener, keep->now_ns);
		keep->told_ns = keep->now_ns;
	}
	return !failed;
}

/* Where it stands; {0, 0}: it was dropped. */
static struct journal_place append(struct journal_keep *keep, enum journal_type type,
    const void *record) {
	struct journal_place place = { 0, 0 };
	uint8_t payload[RECORD_MOST];
	size_t length = journal_record_write(journal_shape_of(type), payload, sizeof(payload),
	    record);

	if (journal_log_append(keep->log, (uint8_t)type, payload, length, &place) == 0)
		keep->failed = true;
	keep->records++;
	keep->bytes += length + JOURNAL_HEADER;
	return place;
}

void journal_keep_append(struct journal_keep *keep, enum journal_type type,
    const void *record) {
	struct journal_place place = append(keep, type, record);

	if (place.file != 0 && place.file != keep->known_file)
		look_at_origin(keep);
}

void journal_keep_checkpoint(struct journal_keep *keep) {
	struct journal_checkpoint checkpoint = { .number = ++keep->checkpoint,
		.when_ns = keep->wall_ns, .records = UINT32_MAX };

	keep->renew = keep->failed = false;
	keep->checkpoint_began = keep->bytes;
	journal_log_switch(keep->log);
	keep->first_file = append(keep, JOURNAL_CHECKPOINT_BEGIN, &checkpoint).file;
	keep->records = 0;
}

void journal_keep_checkpoint_end(struct journal_keep *keep) {
	struct journal_checkpoint checkpoint = { .number = keep->checkpoint,
		.when_ns = keep->wall_ns, .records = keep->records };
	struct journal_positions positions = { .first_file = keep->first_file };

	journal_keep_append(keep, JOURNAL_CHECKPOINT_END, &checkpoint);
	keep->checkpoint_bytes = keep->bytes - keep->checkpoint_began;
	if (keep->failed || keep->first_file == 0)
		return;
	keep->whole = journal_log_last(keep->log);
	(void)journal_log_positions(keep->log, &positions);
}

bool journal_keep_has_grown(const struct journal_keep *keep, uint64_t bytes) {
	return keep->bytes - keep->checkpoint_began > bytes + 3 * keep->checkpoint_bytes;
}

/* SPDX-License-Identifier: ISC */
/* Each number is a word that its one writer stores: readers may see one a turn older than
 * another. */
#include "engine/journal/journal_status.h"

#include <limits.h>
#include <string.h>

#include "engine/internal.h"
#include "engine/journal/journal_room.h"

_Static_assert((int)SEGMENT_JOURNALS == (int)JOURNAL_ROOMS, "a record for each");

static void count(struct engine *engine, const struct journal_log_counts *was,
    const struct journal_log_counts *is) {
	const struct {
		enum counter counter;
		uint64_t amount;
	} counters[] = {
		{ COUNTER_JOURNAL_RECORDS, is->appended - was->appended },
		{ COUNTER_JOURNAL_SYNCS, is->syncs - was->syncs },
		{ COUNTER_JOURNAL_FAILURES, is->faults - was->faults },
		{ COUNTER_JOURNAL_LOST, is->dropped - was->dropped },
	};

	for (unsigned i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		if (counters[i].amount > 0)
			engine_count(engine, counters[i].counter, counters[i].amount);
}

void journal_status_say(struct engine *engine, struct journal_news news,
    const struct journal_listener *listener) {
	const struct generation *generation = engine_pin(engine);
	char path[PATH_MAX];

	(void)generation_journal_directory(generation, news.room, path);
	engine_unpin(engine, generation);
	news.path = path;
	listener->tell(listener->context, &news);
}

/* Once of each, with its number. */
static void tell_found(struct engine *engine, struct journal_news news, bool *told,
    const struct journal_listener *listener) {
	if (*told || news.lost == 0)
		return;
	*told = true;
	engine_count(engine, COUNTER_JOURNAL_DAMAGED, news.lost);
	journal_status_say(engine, news, listener);
}

static bool fails(const struct journal_told *told, const struct journal_log *log) {
	return journal_log_state(log) == JOURNAL_FAILED || (told->failed && told->behind);
}

static void tell_state(struct engine *engine, enum journal_room room,
    struct journal_told *told, const struct journal_log *log,
    const struct journal_log_counts *counts, const struct journal_listener *listener) {
	struct journal_news news = { .kind = JOURNAL_NEWS_WELL, .room = room, .what = "" };
	bool failed = fails(told, log);

	told->was_well |= !failed;
	if (failed == told->failed)
		return;
	told->failed = failed;
	if (failed) {
		news.kind = JOURNAL_NEWS_FAILED;
		news.error = told->error = journal_log_error(log, &news.what);
		told->dropped = told->counts.dropped;
		/* whoever makes the directories has said why it is not there */
		told->silent = journal_room_is_missing(news.error) && !told->was_well;
	} else {
		news.lost = counts->dropped - told->dropped;
	}
	if (!told->silent)
		journal_status_say(engine, news, listener);
}

static void put(struct journal_record *record, const struct journal_told *told,
    struct journal_log *log, const struct journal_log_counts *counts, int64_t now_ns) {
	uint32_t fares = told->failed ? JOURNAL_FARES_ILL : JOURNAL_FARES_WELL;

	if (atomic_load(&record->fares) != fares || atomic_load(&record->since_ns) == 0)
		atomic_store(&record->since_ns, now_ns);
	atomic_store(&record->error, told->failed ? (uint32_t)told->error : 0);
	atomic_store(&record->fares, fares);
	atomic_store(&record->bytes, counts->disk_bytes);
	atomic_store(&record->files, journal_log_files(log)->count);
	atomic_store(&record->records, counts->appended);
	atomic_store(&record->syncs, counts->syncs);
	atomic_store(&record->lost, counts->dropped);
	atomic_store(&record->told_ns, now_ns);
}

void journal_status_tell(struct engine *engine, enum journal_room room,
    struct journal_told *told, struct journal_log *log,
    const struct journal_listener *listener, int64_t now_ns) {
	struct journal_log_counts counts;

	journal_log_count(log, &counts);
	count(engine, &told->counts, &counts);
	tell_found(engine, (struct journal_news){ .kind = JOURNAL_NEWS_DAMAGED, .room = room,
	    .bytes = counts.damage_bytes, .lost = counts.damages, .what = "" }, &told->damage,
	    listener);
	tell_found(engine, (struct journal_news){ .kind = JOURNAL_NEWS_LATER, .room = room,
	    .lost = counts.later_files, .what = "" }, &told->later, listener);
	tell_state(engine, room, told, log, &counts, listener);
	put(&engine->segment->header->journals[room], told, log, &counts, now_ns);
	told->counts = counts;
}

void journal_status_messages(struct engine *engine, uint64_t messages, uint64_t waiting) {
	struct journal_record *record =
	    &engine->segment->header->journals[JOURNAL_ROOM_QUEUE];

	atomic_store(&record->messages, messages);
	atomic_store(&record->waiting, waiting);
}

void journal_status_none(struct engine *engine, enum journal_room room) {
	struct journal_record *record = &engine->segment->header->journals[room];

	atomic_store(&record->fares, JOURNAL_FARES_NONE);
	atomic_store(&record->since_ns, 0);
	atomic_store(&record->told_ns, 0);
}

/* SPDX-License-Identifier: ISC */
/*
 * Crashes of a journal's log alone (journal/log.h), whatever its records mean: after each one
 * what is read is a prefix of what was appended, byte for byte, with all in it that was
 * synced; no record is garbage before what allows it is there; positions that were recorded
 * are found.
 *
 *	log_points [-n POINTS] [-s SEED]
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "journal/log.h"
#include "tests/crash/disk.h"
#include "tests/crash/storage_faulty.h"

#define RECORDS_MAX	20000
#define STEPS		2500
#define TYPE		200	/* of nobody */

struct record {
	uint32_t length, crc;	/* length 0: a head */
	uint64_t allowed_by;	/* its mark; UINT64_MAX: none was asked for */
	struct journal_place place;
};

/* What was appended, by its sequence. */
struct book {
	struct record records[RECORDS_MAX];
	uint64_t last, synced;
	uint32_t first_file;	/* below it all may be gone */
	uint64_t positions_asked, positions_recorded;
};

struct run {
	uint64_t seed, wanted, points, crashes[DISK_CRASHES];
	bool failed;
};

static struct run run;
static struct journal_log_options options = { .kind = JOURNAL_QUEUE, .file_size = 4096 };

struct at {	/* of the boundary */
	struct disk *disk;
	struct journal_log *log;
	struct book *book;
	struct random random;
	unsigned depth;
};

__attribute__((format(printf, 1, 2)))
static void fail(const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, " (point %" PRIu64 ", seed %" PRIu64 ")\n", run.points, run.seed);
	run.failed = true;
}

static void acknowledge(struct at *at) {
	uint64_t synced = journal_log_synced(at->log);
	uint64_t recorded = journal_log_positions_recorded(at->log);

	if (synced > at->book->synced)
		at->book->synced = synced;
	if (recorded != 0)
		at->book->positions_recorded = recorded;
}

/* --- what is read ------------------------------------------------------------------------ */

/* Files below what positions say may be there again, some of them. */
static void seek_begin(const struct at *at, struct journal_cursor *cursor) {
	const struct journal_positions *positions = journal_log_found(at->log);

	journal_cursor_seek(cursor, (struct journal_place){ positions == NULL ||
	    positions->first_file == 0 ? 1 : positions->first_file, 0 });
}

static void check_record(const struct book *book, const struct journal_found *found) {
	const struct journal_frame *frame = &found->frame;
	const struct record *record = &book->records[frame->sequence % RECORDS_MAX];

	if (frame->type != TYPE)
		return;
	if (frame->sequence > book->last || frame->length != record->length ||
	    crc32c(0, frame->payload, frame->length) != record->crc)
		fail("sequence %" PRIu64 " is another one", frame->sequence);
	if (!journal_mark_is_live(frame->mark) && record->allowed_by == UINT64_MAX)
		fail("sequence %" PRIu64 " is garbage, and nobody asked for it",
		    frame->sequence);
}

/* Reads all of it; `last': what may be there at most, and what is there. */
static void check(struct at *at, struct book *book) {
	struct journal_files *files = journal_log_files(at->log);
	struct journal_cursor *cursor = journal_cursor_open(files);
	static bool there[RECORDS_MAX];
	struct journal_found found;
	uint64_t last = 0, first = UINT64_MAX;
	unsigned rounds = 0;

	memset(there, 0, sizeof(there));
	seek_begin(at, cursor);
	while (journal_cursor_next(cursor, &found) != JOURNAL_FOUND_END && !run.failed) {
		if (rounds++ > 2 * RECORDS_MAX)
			fail("reading does not end");
		if (found.kind == JOURNAL_FOUND_DAMAGE || found.kind == JOURNAL_FOUND_FAULT)
			fail("what the crash tore is taken for damage: %s; %" PRIu32 " + %" PRIu32
			    " of file %" PRIu32 ", expected %" PRIu64 ", synced %" PRIu64,
			    found.why != NULL ? found.why : "", found.place.offset,
			    found.length, found.place.file, found.expected, book->synced);
		if (found.kind != JOURNAL_FOUND_RECORD ||
		    found.place.file >= journal_log_begin(at->log).file)
			continue;
		check_record(book, &found);
		there[found.frame.sequence % RECORDS_MAX] = true;
		if (found.frame.sequence > last)
			last = found.frame.sequence;
		if (found.frame.sequence < first && found.place.file >= book->first_file)
			first = found.frame.sequence;
	}
	journal_cursor_close(&cursor);
	if (last < book->synced && book->last > 0)
		fail("synced up to %" PRIu64 ", there up to %" PRIu64, book->synced, last);
	for (uint64_t i = first; i <= last && !run.failed; i++)
		if (!there[i % RECORDS_MAX])
			fail("sequence %" PRIu64 " of %" PRIu64 " to %" PRIu64 " is missing", i,
			    first, last);
	book->last = last;
}

static void check_marks(struct at *at, const struct book *book) {
	struct journal_cursor *cursor = journal_cursor_open(journal_log_files(at->log));
	struct journal_found found;

	seek_begin(at, cursor);
	while (journal_cursor_next(cursor, &found) != JOURNAL_FOUND_END)
		if (found.kind == JOURNAL_FOUND_RECORD && found.frame.type == TYPE &&
		    found.frame.sequence <= book->last &&
		    !journal_mark_is_live(found.frame.mark) &&
		    book->records[found.frame.sequence % RECORDS_MAX].allowed_by > book->last)
			fail("sequence %" PRIu64 " is garbage, and what allowed it is not there",
			    found.frame.sequence);
	journal_cursor_close(&cursor);
}

static void check_positions(struct at *at, struct book *book) {
	const struct journal_positions *positions = journal_log_found(at->log);
	uint64_t number = positions == NULL ? 0 : positions->positions[0].place.offset;

	if (number < book->positions_recorded || number > book->positions_asked)
		fail("positions %" PRIu64 " are found, %" PRIu64 " were recorded", number,
		    book->positions_recorded);
}

/* --- work ---------------------------------------------------------------------------------- */

static void append(struct at *at) {
	uint8_t payload[1500];
	struct record record = { .allowed_by = UINT64_MAX };
	uint64_t sequence;

	record.length = 1 + random_below(&at->random, random_below(&at->random, 10) == 0 ?
	    1500 : 120);
	for (uint32_t i = 0; i < record.length; i++)
		payload[i] = (uint8_t)random_next(&at->random);
	record.crc = crc32c(0, payload, record.length);
	/* as it may be on the disk before append comes back; a head may take a sequence */
	at->book->records[(at->book->last + 1) % RECORDS_MAX] = record;
	at->book->records[(at->book->last + 2) % RECORDS_MAX] = record;
	at->book->last += 2;
	sequence = journal_log_append(at->log, TYPE, payload, record.length, &record.place);
	if (sequence == 0)
		fail("nothing was appended");
	at->book->last = sequence;
	at->book->records[sequence % RECORDS_MAX] = record;
}

static void mark(struct at *at) {
	struct book *book = at->book;
	uint64_t sequence = 1 + random_next(&at->random) % (book->last + 1);
	uint64_t by = book->last - random_below(&at->random, 3);
	struct record *record = &book->records[sequence % RECORDS_MAX];

	if (sequence > book->last || record->length == 0 || record->place.file == 0 ||
	    by > book->last || by < sequence || record->allowed_by != UINT64_MAX ||
	    record->place.file < book->first_file)
		return;
	record->allowed_by = by;
	(void)journal_log_mark(at->log, record->place, by);
}

static void ask_positions(struct at *at) {
	struct journal_files *files = journal_log_files(at->log);
	struct journal_positions positions = { .positions_count = 1 };

	if (files->count > 4 && random_below(&at->random, 4) == 0)
		at->book->first_file = files->files[random_below(&at->random, 3)].number;
	positions.first_file = at->book->first_file;
	positions.positions[0].place = (struct journal_place){ 1,
		(uint32_t)at->book->positions_asked + 1 };
	at->book->positions_asked++;
	if (journal_log_positions(at->log, &positions) == 0)
		fail("no positions are taken");
}

static void step(struct at *at, int64_t *now_ns) {
	switch (random_below(&at->random, 12)) {
	case 0: case 1:
		*now_ns += random_below(&at->random, 300) * NS_PER_MS;
		journal_log_turn(at->log, *now_ns);
		break;
	case 2:
		journal_log_sync_by(at->log, *now_ns +
		    random_below(&at->random, 200) * NS_PER_MS);
		break;
	case 3:
		journal_log_flush(at->log);
		break;
	case 4: case 5:
		mark(at);
		break;
	case 6:
		if (random_below(&at->random, 4) == 0)
			ask_positions(at);
		break;
	default:
		append(at);
		break;
	}
	acknowledge(at);
}

/* --- crashes --------------------------------------------------------------------------------- */

static void boundary(void *context, const struct disk_step *disk_step);

static void survive(const struct at *from, enum disk_crash crash, struct random random) {
	struct book *book = malloc(sizeof(*book));
	struct at at = { .book = book, .random = random, .depth = from->depth + 1 };
	struct journal_storage *storage;
	int64_t now_ns = 0;
	struct diag diag;

	*book = *from->book;
	at.disk = disk_crash(from->disk, crash, &at.random);
	storage = storage_faulty(at.disk);
	options.random = random_next(&at.random) | 1;
	if (journal_log_open(&at.log, storage, &options, now_ns, &diag) != 0 ||
	    journal_log_state(at.log) != JOURNAL_GOOD)
		fail("it does not open");
	check(&at, book);
	check_marks(&at, book);
	check_positions(&at, book);
	if (at.depth < 3 && random_below(&at.random, 4) == 0 && !run.failed) {
		unsigned steps = random_below(&at.random, 40);

		/* numbers of positions begin anew; what was read is synced with the first group */
		book->last = journal_log_last(at.log);
		book->records[book->last % RECORDS_MAX].length = 0;
		for (unsigned i = 0; i < steps && !run.failed; i++) {
			if (i == 0 || random_below(&at.random, 12) != 6)
				append(&at);
			else
				mark(&at);
			if (random_below(&at.random, 4) == 0)
				journal_log_turn(at.log, now_ns += 100 * NS_PER_MS);
			if (journal_log_synced(at.log) > book->synced)
				book->synced = journal_log_synced(at.log);
		}
		if (!run.failed)
			survive(&at, random_below(&at.random, DISK_CRASHES), at.random);
	}
	journal_log_close(&at.log);
	storage_faulty_close(&storage);
	disk_free(at.disk);
	free(book);
}

static void boundary(void *context, const struct disk_step *disk_step) {
	const struct at *at = context;
	struct random random = { run.seed ^ run.points * UINT64_C(0xd1342543de82ef95) };
	uint32_t drawn;

	if (run.failed || run.points >= run.wanted)
		return;
	(void)random_next(&random);
	drawn = random_below(&random, 8);
	run.points++;
	run.crashes[drawn < DISK_CRASHES ? drawn : DISK_CRASH_ANY]++;
	survive(at, drawn < DISK_CRASHES ? drawn : DISK_CRASH_ANY, random);
	if (run.failed)
		fprintf(stderr, "crash %u after act %d of %s, %" PRIu64 " + %zu\n", drawn,
		    disk_step->act,
		    disk_step->name, disk_step->offset, disk_step->length);
}

static void workload(uint64_t number) {
	struct at at = { .disk = disk_new(), .book = calloc(1, sizeof(struct book)),
		.random = { run.seed + number } };
	struct journal_storage *storage = storage_faulty(at.disk);
	struct journal_log_counts counts;
	int64_t now_ns = 0;
	struct diag diag;

	options.random = random_next(&at.random) | 1;
	if (journal_log_open(&at.log, storage, &options, now_ns, &diag) != 0)
		fail("it does not open");
	at.disk->context = &at;
	at.disk->boundary = boundary;
	at.book->last = journal_log_last(at.log);
	for (unsigned i = 0; i < STEPS && !run.failed && run.points < run.wanted; i++)
		step(&at, &now_ns);
	at.disk->boundary = NULL;
	journal_log_count(at.log, &counts);
	printf("# appended %" PRIu64 ", files %" PRIu64 ", deleted %" PRIu64 ", marks %" PRIu64
	    ", syncs %" PRIu64 "\n", counts.appended, counts.files_begun, counts.files_deleted,
	    counts.marks, counts.syncs);
	journal_log_close(&at.log);
	storage_faulty_close(&storage);
	disk_free(at.disk);
	free(at.book);
}

int main(int argc, char **argv) {
	int option;

	run.wanted = 4000;
	run.seed = random_seed();
	while ((option = getopt(argc, argv, "n:s:")) != -1) {
		switch (option) {
		case 'n': run.wanted = strtoull(optarg, NULL, 10); break;
		case 's': run.seed = strtoull(optarg, NULL, 10); break;
		default: return 2;
		}
	}
	printf("seed %" PRIu64 "\n", run.seed);
	fflush(stdout);
	for (uint64_t i = 0; run.points < run.wanted && !run.failed; i++)
		workload(i);
	printf("points %" PRIu64 ": %s\n", run.points, run.failed ? "FAILED" : "ok");
	return run.failed;
}

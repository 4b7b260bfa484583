/* SPDX-License-Identifier: ISC */
/* decisions/ of the journal: what is kept of the rings, how much of it, and what comes of it
 * after a restart. */
#include <dirent.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include "tests/unit/test.h"
#include "base/clock.h"
#include "engine/journal/journal_decisions.h"
#include "engine/journal/journal_keep.h"
#include "journal/reader.h"
#include "segment/decision/decisions.h"
#include "segment/file/internal.h"
#include "tests/unit/own_site.h"

#define CLASSES		"classes = ( { name = \"all\"; match = \"*\"; } );\n"
#define MOST_BYTES	(UINT64_C(512) << 10)
#define FILE_BYTES	(MOST_BYTES / 8)

static struct journal_decisions *decisions;
static struct generation *small;	/* the site's, with little room for decisions */
static int64_t now_ns, wall_ns;
static char room[PATH_MAX];

static void note_news(void *context, const struct journal_news *news) {
}

static void open_journal(void) {
	static const struct journal_listener listener = { note_news, NULL };
	struct diag diag;

	small = malloc((size_t)site.generation->bytes);
	assert_non_null(small);
	memcpy(small, site.generation, (size_t)site.generation->bytes);
	small->journal.decisions_size = MOST_BYTES;
	assert_int_equal(journal_decisions_open(&decisions, site.engine, small, &listener,
	    now_ns, &diag), 0);
	assert_non_null(decisions);
}

static void close_journal(void) {
	journal_keep_close(&decisions);
	free(small);
}

static int set_up(void **state) {
	site_open_sized(&site, 64, 64, CLASSES);
	now_ns = clock_now_ns();
	wall_ns = INT64_C(1800000000) * NS_PER_SECOND;
	assert_true(generation_journal_directory(site.generation, JOURNAL_ROOM_DECISIONS, room));
	*strrchr(room, '/') = '\0';
	assert_int_equal(mkdir(room, 0700), 0);
	room[strlen(room)] = '/';
	assert_int_equal(mkdir(room, 0700), 0);
	open_journal();
	return 0;
}

static int tear_down(void **state) {
	close_journal();
	site_close(&site);
	return 0;
}

/* A fifth of a second of the keeper. */
static void turn(void) {
	now_ns += 200 * NS_PER_MS;
	wall_ns += 200 * NS_PER_MS;
	journal_decisions_turn(decisions, now_ns, wall_ns);
}

static uint64_t kept(enum decided_ring ring) {
	return atomic_load(&site.segment->header->decided_next[ring].kept);
}

/* Until all that was noted is on the disk. */
static void settle(void) {
	for (unsigned i = 0; i < 2000; i++) {
		bool done = true;

		turn();
		for (unsigned ring = 0; ring < DECIDED_RINGS; ring++)
			done = done && kept((enum decided_ring)ring) == atomic_load(
			    &site.segment->header->decided_next[ring].number);
		if (done)
			return;
		poll(NULL, 0, 1);	/* the disk's thread */
	}
	fail_msg("it is never on the disk");
}

static uint64_t note(enum decided_kind kind, const char *name, bool logged) {
	struct decided d;

	memset(&d, 0, sizeof(d));
	d.id = decisions_claim(site.segment, decided_ring_of(kind));
	d.kind = (uint8_t)kind;
	d.reason = REASON_SUSPENDED;
	d.at_ns = now_ns - 3 * NS_PER_SECOND;
	d.until_ns = now_ns + 60 * NS_PER_SECOND;
	d.cause = 77;
	d.success = 1.5f;
	decided_put(&d, DECIDED_NAME, name, strlen(name));
	decided_put(&d, DECIDED_REASON, "421 4.7.0 busy", 14);
	decisions_write(site.segment, &d);
	if (logged)
		decisions_mark_logged(site.segment, d.id);
	return d.id;
}

/* --- what stands there ------------------------------------------------------------------ */

struct counts {
	unsigned all, named;
	uint64_t first, last;
	struct decided one;		/* the last one of the name */
	int64_t at_ns, until_ns;
};

static void take(struct counts *counts, const struct journal_frame *frame, const char *name) {
	struct journal_decision read;
	struct decided d;

	if (frame->type != JOURNAL_DECISION)
		return;
	assert_true(journal_decision_read(frame->payload, frame->length, &read));
	assert_true(journal_decision_get(&read, &d));
	if (counts->all++ == 0)
		counts->first = d.id;
	counts->last = d.id;
	if (strcmp(decided_text(&d, DECIDED_NAME), name) != 0)
		return;
	counts->named++;
	counts->one = d;
	counts->at_ns = read.d.at_ns;
	counts->until_ns = read.d.until_ns;
}

static struct counts look(const char *name) {
	struct journal_reader *reader;
	struct journal_cursor *cursor;
	struct counts counts = { .all = 0 };
	struct journal_found found;
	struct diag diag;

	assert_int_equal(journal_reader_open_path(&reader, room, &diag), 0);
	cursor = journal_cursor_open(&reader->files);
	journal_cursor_seek(cursor, journal_reader_begin(reader));
	while (journal_cursor_next(cursor, &found) != JOURNAL_FOUND_END)
		if (found.kind == JOURNAL_FOUND_RECORD)
			take(&counts, &found.frame, name);
	journal_cursor_close(&cursor);
	journal_reader_close(&reader);
	return counts;
}

static uint64_t bytes_there(void) {
	char path[PATH_MAX + 300];
	const struct dirent *entry;
	DIR *directory = opendir(room);
	struct stat status;
	uint64_t bytes = 0;

	assert_non_null(directory);
	while ((entry = readdir(directory)) != NULL) {
		snprintf(path, sizeof(path), "%s/%s", room, entry->d_name);
		if (strstr(entry->d_name, ".log") != NULL && stat(path, &status) == 0)
			bytes += (uint64_t)status.st_size;
	}
	closedir(directory);
	return bytes;
}

/* --- the tests ------------------------------------------------------------------------------ */

TEST_IN(set_up, tear_down, what_was_decided_is_written_with_the_time_of_day) {
	uint64_t id = note(DECIDED_SUSPENDED, "d.example", false);
	int64_t began_wall_ns = wall_ns, later_ns;
	struct counts counts;

	settle();
	counts = look("d.example");
	assert_int_equal(counts.all, 1);
	assert_true(counts.one.id == id && counts.one.cause == 77);
	assert_int_equal(counts.one.kind, DECIDED_SUSPENDED);
	assert_string_equal(decided_text(&counts.one, DECIDED_REASON), "421 4.7.0 busy");
	/* 3 s before, and 60 s after, by that clock */
	later_ns = began_wall_ns - 3 * NS_PER_SECOND;
	assert_true(counts.at_ns == later_ns);
	assert_true(counts.until_ns == later_ns + 63 * NS_PER_SECOND);
}

/* 1,000 at once and 200 a second of what was not logged; all of what was, and of what holds
 * mail. */
TEST_IN(set_up, tear_down, a_flood_is_cut_but_for_what_was_logged) {
	struct counts counts;

	for (unsigned second = 0; second < 6; second++) {
		for (unsigned i = 0; i < 5; i++) {
			for (unsigned n = 0; n < 300; n++)
				(void)note(DECIDED_REFUSED, "flood.example", false);
			(void)note(DECIDED_REFUSED, "logged.example", true);
			(void)note(DECIDED_BACK, "d.example", false);
			turn();
		}
	}
	settle();
	counts = look("logged.example");
	assert_int_equal(counts.named, 30);
	assert_int_equal(look("d.example").named, 30);
	counts = look("flood.example");
	assert_in_range(counts.named, 1900, 2300);	/* 1000 + 6 * 200 */
}

TEST_IN(set_up, tear_down, what_was_written_is_not_written_again) {
	for (unsigned i = 0; i < 10; i++)
		(void)note(DECIDED_BACK, "d.example", false);
	settle();
	/* the keeper died: the next one goes on where that was */
	close_journal();
	(void)note(DECIDED_BACK, "e.example", false);
	open_journal();
	settle();
	assert_int_equal(look("d.example").named, 10);
	assert_int_equal(look("e.example").named, 1);
}

/* One whose writer died, and behind it one that is so new that its line may still come. */
TEST_IN(set_up, tear_down, a_number_of_a_dead_writer_is_waited_for_and_no_loss) {
	_Atomic uint64_t *lost = &site.segment->header->counters[COUNTER_DECISIONS_LOST];
	struct decided d;

	(void)note(DECIDED_BACK, "d.example", false);
	settle();
	(void)decisions_claim(site.segment, DECIDED_OF_DESTINATIONS);
	for (unsigned i = 0; i < 5; i++)	/* it is waited for, for a second */
		turn();
	assert_true(decisions_find(site.segment, note(DECIDED_BACK, "e.example", false), &d));
	d.at_ns = now_ns + 200 * NS_PER_MS;
	decisions_write(site.segment, &d);
	turn();
	assert_int_equal(look("e.example").named, 0);
	settle();
	assert_int_equal(atomic_load(lost), 0);
	assert_int_equal(look("e.example").named, 1);
}

TEST_IN(set_up, tear_down, the_oldest_go) {
	struct counts counts;
	uint64_t last = 0;

	for (unsigned round = 0; round < 100; round++) {
		for (unsigned i = 0; i < 100; i++)
			last = note(DECIDED_BACK, "d.example", false);
		turn();
		poll(NULL, 0, 1);
	}
	settle();
	for (unsigned i = 0; i < 50; i++) {	/* positions, then the files */
		turn();
		poll(NULL, 0, 2);
	}
	counts = look("d.example");
	assert_true(counts.last == last);
	assert_true(counts.all > 1000 && counts.all < 10000);
	assert_in_range(bytes_there(), MOST_BYTES / 2, MOST_BYTES + 2 * FILE_BYTES);
}

/* The state is lost, and the clock stands where it stood an hour ago. */
TEST_IN(set_up, tear_down, no_id_is_given_twice_whatever_the_clock_says) {
	struct decided d;
	uint64_t id;

	decisions_begin_after(site.segment, decisions_claim(site.segment,
	    DECIDED_OF_DESTINATIONS) + (UINT64_C(3600) << 20));
	id = note(DECIDED_SUSPENDED, "d.example", false);
	settle();
	close_journal();
	{
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/state", site.directory);
		assert_int_equal(unlink(path), 0);
	}
	site_restart(&site, 64, CLASSES);
	assert_false(decisions_find(site.segment, id, &d));
	open_journal();
	turn();
	assert_true(note(DECIDED_SUSPENDED, "d.example", false) > id);
	assert_true(note(DECIDED_REFUSED, "x", false) > id);
}

/* The directory is gone for a while: what is in the rings then comes when it is back. */
TEST_IN(set_up, tear_down, a_fault_of_the_disk_costs_nothing_that_the_ring_has) {
	char away[PATH_MAX + 8];

	(void)note(DECIDED_BACK, "before.example", false);
	settle();
	snprintf(away, sizeof(away), "%s.away", room);
	assert_int_equal(rename(room, away), 0);
	for (unsigned i = 0; i < 20; i++) {
		turn();
		poll(NULL, 0, 1);
	}
	(void)note(DECIDED_BACK, "while.example", false);
	for (unsigned i = 0; i < 20; i++) {
		turn();
		poll(NULL, 0, 1);
	}
	assert_int_equal(rename(away, room), 0);
	for (unsigned i = 0; i < 400; i++) {
		turn();
		poll(NULL, 0, 1);
	}
	settle();
	assert_true(look("before.example").named >= 1);
	assert_true(look("while.example").named >= 1);
}

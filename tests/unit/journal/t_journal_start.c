/* SPDX-License-Identifier: ISC */
/* Disks that fail while a log is opened, or in its first second: what stands there already
 * is neither lost nor believed too much. */
#include "tests/unit/test.h"
#include "tests/unit/journal/journal_place.h"

/* A life that left "one", synced, and "two", which no sync covers. */
static void live_once(void) {
	append_and_sync("one");
	append("two", NULL);
	journal_log_flush(place->log);
	close_log();
	place->syncs = 0;
}

TEST_IN(set_up, tear_down, test_a_lock_that_is_let_go_soon_is_waited_for) {
	live_once();
	place->busy_locks = 3;
	place->options.threaded = true;
	open_log();
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_true(journal_log_is_read(place->log));
	assert_int_equal(place->failed, 0);
	assert_string_equal(all_of(), "one two ");
}

static void check_comes_back(int error) {
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	assert_false(journal_log_is_read(place->log));
	assert_int_equal(journal_log_files(place->log)->count, 0);
	assert_int_equal(place->error, error);
	place->fail_list = place->fail_read = place->fail_positions = 0;
	after(0);
	after(S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	append("three", NULL);
	assert_string_equal(all_of(), "one two three ");
}

TEST_IN(set_up, tear_down, test_a_list_that_ends_half_way) {
	live_once();
	place->fail_list = EIO;
	place->lists_half = true;
	open_log();
	check_comes_back(EIO);
}

/* It would be taken for a file without anything in it. */
TEST_IN(set_up, tear_down, test_a_head_that_cannot_be_read_now) {
	live_once();
	place->fail_read = EIO;
	open_log();
	check_comes_back(EIO);
}

/* But not for ever: the rest is of use all the same. */
TEST_IN(set_up, tear_down, test_a_head_that_can_never_be_read) {
	live_once();
	place->fail_read = EIO;
	open_log();
	for (unsigned i = 0; i < 6 && journal_log_state(place->log) == JOURNAL_FAILED; i++)
		after(30 * S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	place->fail_read = 0;
	append_and_sync("three");
}

TEST_IN(set_up, tear_down, test_files_of_random_bytes_are_told) {
	struct journal_positions positions = { .first_file = 1 };
	struct journal_log_counts counts;
	uint8_t random[300];

	append("one", NULL);
	journal_log_positions(place->log, &positions);
	after(0);
	close_log();
	for (unsigned i = 0; i < sizeof(random); i++)
		random[i] = (uint8_t)(i * 37 + i / 7);
	poke(1, 0, random, sizeof(random));
	open_log();
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	journal_log_count(place->log, &counts);
	assert_true(counts.damages > 0);
	assert_int_equal(counts.damage_bytes, 300);
	append_and_sync("two");
}

TEST_IN(set_up, tear_down, test_what_was_read_is_synced_with_the_first_group) {
	uint64_t last;

	live_once();
	open_log();
	last = journal_log_begin(place->log).file;
	assert_int_equal(last, 2);
	assert_true(journal_log_synced(place->log) < 3);
	assert_int_equal(place->syncs, 0);
	after(0);
	assert_int_equal(journal_log_synced(place->log), journal_log_last(place->log));
	assert_int_equal(place->syncs, 2);
}

/* The kernel has forgotten by then what it could not write, and would say that all is well: so
 * what counts is what is on the disk, and what it can write yet. */
TEST_IN(set_up, tear_down, test_what_could_not_be_synced_is_read_again) {
	live_once();
	open_log();
	place->fail_sync = EIO;
	after(0);
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	assert_string_equal(place->what, "sync");
	place->fail_sync = 0;
	place->syncs = 0;
	after(S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_int_equal(place->renewed, 1);
	assert_int_equal(place->syncs, 2);
	append("three", NULL);
	assert_string_equal(all_of(), "one two three ");
}

static void start_full(void) {
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	assert_string_equal(all_of(), "one two ");
	place->fail_write = place->fail_create = 0;
	place->syncs = 0;
	after(0);
	after(S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_int_equal(place->syncs, 2);	/* of what was read, too */
	append_and_sync("three");
	assert_string_equal(seen_of(), "one two three ");
}

TEST_IN(set_up, tear_down, test_a_start_upon_a_full_disk) {
	live_once();
	place->fail_write = ENOSPC;
	open_log();
	after(0);
	start_full();
}

TEST_IN(set_up, tear_down, test_a_start_where_nothing_can_be_made) {
	live_once();
	place->fail_create = ENOSPC;
	open_log();
	start_full();
}

/* Not all of it is read, where positions are gone: heads tell what was synced. */
TEST_IN(set_up, tear_down, test_a_start_without_positions_reads_the_end_alone) {
	char text[1000];

	memset(text, 'x', sizeof(text));
	for (unsigned i = 0; i < 600; i++) {
		journal_log_append(place->log, JOURNAL_GROUP, text, sizeof(text), NULL);
		if (i % 20 == 0)
			sync_all();
	}
	sync_all();
	assert_int_equal(journal_log_files(place->log)->count, 10);
	close_log();
	open_log();
	assert_null(journal_log_found(place->log));
	assert_true(journal_log_files(place->log)->bytes_read < 3 * (64 << 10));
	assert_int_equal(journal_log_last(place->log), 600 + 10 + 1);
}

/* Between the look at the current file and the list of all: what is appended meanwhile must
 * not pile up in memory. */
TEST_IN(set_up, tear_down, test_the_current_file_vanishes_under_the_list) {
	static char text[2000];

	append_and_sync("one");
	for (unsigned i = 0; i < 9; i++)
		after(S);
	place->removed_by_list = file_path(1);
	after(S);
	place->removed_by_list = NULL;
	assert_int_equal(place->failed, 1);
	assert_int_equal(place->good, 1);
	assert_int_equal(place->renewed, 1);
	for (unsigned i = 0; i < 1000; i++)
		assert_true(journal_log_append(place->log, JOURNAL_GROUP, text, sizeof(text),
		    NULL) > 0);
	sync_all();
}

TEST_IN(set_up, tear_down, test_a_lock_that_was_removed_is_made_again) {
	struct journal_log_options options = place->options;
	struct journal_storage *other;
	struct journal_log *log;
	struct diag diag;
	char path[128];

	snprintf(path, sizeof(path), "%s/lock", place->path);
	assert_int_equal(unlink(path), 0);
	after(S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	options.calls = (struct journal_log_calls){ 0 };
	other = journal_storage_posix(place->path, false, &diag);
	assert_int_equal(journal_log_open(&log, other, &options, place->now_ns, &diag), 0);
	assert_int_equal(journal_log_error(log, NULL), EAGAIN);
	journal_log_close(&log);
	journal_storage_close(&other);
}

/* The first positions sync the marks of all files; not with all of them open at once. */
TEST_IN(set_up, tear_down, test_many_files_take_few_descriptors) {
	struct journal_positions positions = { .first_file = 1 };

	for (unsigned i = 0; i < 200; i++) {
		append("x", NULL);
		journal_log_switch(place->log);
	}
	sync_all();
	close_log();
	assert_int_equal(place->open, 0);
	place->most_open = 0;
	open_log();
	assert_true(journal_log_positions(place->log, &positions) > 0);
	for (unsigned i = 0; i < 20 && journal_log_positions_pending(place->log); i++)
		after(0);
	assert_int_equal(journal_log_positions_recorded(place->log), 1);
	assert_true(place->most_open < 60);
	assert_true(place->syncs > 200);
}

/* The slot that was good stays, until another one is known to be. */
TEST_IN(set_up, tear_down, test_a_slot_that_failed_is_written_again) {
	struct journal_positions positions = { .results = 1 };

	journal_log_positions(place->log, &positions);
	after(0);
	positions.results = 2;
	journal_log_positions(place->log, &positions);
	place->fail_sync = EIO;
	after(0);
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	place->fail_sync = 0;
	after(S);
	positions.results = 3;
	journal_log_positions(place->log, &positions);
	after(0);
	close_log();
	open_log();
	assert_int_equal(journal_log_found(place->log)->results, 3);
}

/* So many files of one record each, "x", of which the positions say that all was synced. */
static void live_long(unsigned files) {
	struct journal_positions positions = { .first_file = 1 };

	for (unsigned i = 0; i < files; i++) {
		append("x", NULL);
		journal_log_switch(place->log);
	}
	sync_all();
	assert_int_equal(journal_log_positions(place->log, &positions), 1);
	for (unsigned i = 0; i < 30 && journal_log_positions_pending(place->log); i++)
		after(0);
	assert_int_equal(journal_log_positions_recorded(place->log), 1);
	append("y", NULL);
	journal_log_flush(place->log);
	close_log();
	place->opens = 0;
}

static void record(uint32_t first_file) {
	struct journal_positions positions = { .first_file = first_file };
	uint64_t number = journal_log_positions(place->log, &positions);

	for (unsigned i = 0; i < 30 && journal_log_positions_pending(place->log); i++)
		after(0);
	assert_int_equal(journal_log_positions_recorded(place->log), number);
}

/* It would be taken for a journal that has none. */
TEST_IN(set_up, tear_down, test_positions_that_cannot_be_read_now) {
	record(1);
	live_once();
	place->fail_positions = EMFILE;
	open_log();
	check_comes_back(EMFILE);
	assert_non_null(journal_log_found(place->log));
	assert_int_equal(journal_log_found(place->log)->first_file, 1);
}

/* A life whose positions say that the first three files stay, and another one. */
static void keep_three(void) {
	place->options.kind = JOURNAL_FEED;
	live_long(3);
	open_log();
	journal_log_keep(place->log);
	append("z", NULL);
	record(journal_log_begin(place->log).file);
	assert_int_equal(access(file_path(1), F_OK), 0);
	close_log();
	place->fail_positions = EIO;
	open_log();
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
}

static void check_three_stay(void) {
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	append("new", NULL);
	record(journal_log_begin(place->log).file);
	for (uint32_t number = 1; number <= 3; number++)
		assert_int_equal(access(file_path(number), F_OK), 0);
}

TEST_IN(set_up, tear_down, test_what_stays_does_so_where_positions_cannot_be_read_now) {
	keep_three();
	place->fail_positions = 0;
	after(0);
	after(S);
	assert_non_null(journal_log_found(place->log));
	check_three_stay();
}

TEST_IN(set_up, tear_down, test_what_stays_does_so_where_positions_can_never_be_read) {
	keep_three();
	for (unsigned i = 0; i < 6 && journal_log_state(place->log) == JOURNAL_FAILED; i++)
		after(30 * S);
	assert_null(journal_log_found(place->log));
	check_three_stay();
}

/* Their heads are read by whoever needs them, or by and by. */
TEST_IN(set_up, tear_down, test_a_start_with_many_files_opens_few) {
	const struct journal_files *files;
	struct journal_log_counts counts;
	unsigned xs = 0;

	live_long(300);
	open_log();
	files = journal_log_files(place->log);
	assert_in_range(place->opens, 1, 8);
	assert_in_range(files->bytes_read, 1, 2 * JOURNAL_SLOT + 1000);
	assert_int_equal(files->unread, 299);
	after(S);
	assert_in_range(files->unread, 1, 298);
	for (const char *at = all_of(); *at != '\0'; at++)
		xs += *at == 'x';
	assert_int_equal(xs, 300);
	assert_string_equal(told + 2 * xs, "y ");
	assert_int_equal(files->unread, 0);
	close_log();
	open_log();
	files = journal_log_files(place->log);
	for (unsigned i = 0; i < 10 && files->unread > 0; i++)
		after(S);
	assert_int_equal(files->unread, 0);
	after(S);
	journal_log_count(place->log, &counts);
	assert_int_equal(counts.damages, 0);
	assert_int_equal(counts.later_files, 0);
	assert_int_equal(files->files[7].end, files->files[7].size);
	assert_true(files->files[7].end_known);
}

TEST_IN(set_up, tear_down, test_an_old_head_that_cannot_be_read_now) {
	struct journal_cursor *cursor;
	struct journal_found found;

	live_long(3);
	open_log();
	cursor = journal_cursor_open(journal_log_files(place->log));
	place->fail_read = EIO;
	assert_int_equal(journal_cursor_next(cursor, &found), JOURNAL_FOUND_FAULT);
	assert_int_equal(found.error, EIO);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	place->fail_read = 0;
	journal_cursor_close(&cursor);
	assert_string_equal(all_of(), "x x x y ");
}

TEST_IN(set_up, tear_down, test_an_old_head_that_can_never_be_read) {
	struct journal_log_counts counts;

	live_long(3);
	open_log();
	place->fail_read = EIO;
	for (unsigned i = 0; i < 10; i++)
		after(S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_int_equal(journal_log_files(place->log)->unread, 0);
	journal_log_count(place->log, &counts);
	assert_int_equal(counts.damages, 2);
}

static uint64_t damages_found(void) {
	struct journal_log_counts counts;

	open_log();
	journal_log_count(place->log, &counts);
	return counts.damages;
}

static uint64_t damages_without(uint32_t number) {
	assert_int_equal(unlink(file_path(number)), 0);
	return damages_found();
}

/* What was waiting there was lost, and nobody was told. */
TEST_IN(set_up, tear_down, test_a_first_file_that_is_missing_is_told) {
	live_long(4);
	assert_int_equal(damages_without(1), 1);
	assert_string_equal(all_of(), "x x x y ");
}

TEST_IN(set_up, tear_down, test_a_file_between_that_is_missing_is_told_once) {
	live_long(4);
	assert_int_equal(damages_without(2), 0);
	assert_string_equal(all_of(), "x <damage:0> x x y ");
}

/* The last file begins with "y", of which the positions know nothing: it is gone with it. */
TEST_IN(set_up, tear_down, test_a_last_file_that_is_missing_is_told_where_positions_know_it) {
	live_long(3);
	assert_int_equal(damages_without(4), 0);
	close_log();
	assert_int_equal(truncate(file_path(3), JOURNAL_HEAD_SIZE), 0);
	assert_int_equal(damages_found(), 1);
	close_log();
	assert_int_equal(damages_without(3), 1);
	assert_string_equal(all_of(), "x x ");
}

/* Deleted as nobody needed them any more. */
TEST_IN(set_up, tear_down, test_files_that_were_deleted_are_not_missing) {
	struct journal_positions positions = { .first_file = 3 };

	live_long(4);
	open_log();
	journal_log_positions(place->log, &positions);
	for (unsigned i = 0; i < 30 && journal_log_positions_pending(place->log); i++)
		after(0);
	assert_int_equal(access(file_path(2), F_OK), -1);
	close_log();
	assert_int_equal(damages_found(), 0);
	assert_string_equal(all_of(), "x x y ");
}

/* A mark may be asked for before its file's head was read. */
TEST_IN(set_up, tear_down, test_a_mark_in_a_file_whose_head_was_not_read) {
	live_long(3);
	open_log();
	append("z", NULL);
	assert_true(journal_log_holds(place->log, (struct journal_place){ 1, JOURNAL_HEAD_SIZE }));
	assert_true(journal_log_mark(place->log, (struct journal_place){ 1, JOURNAL_HEAD_SIZE },
	    journal_log_last(place->log)));
	sync_all();
	after(0);
	assert_string_equal(all_of(), "[x] x x y z ");
	assert_false(journal_log_holds(place->log, (struct journal_place){ 1, 5000 }));
}

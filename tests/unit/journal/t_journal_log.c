/* SPDX-License-Identifier: ISC */
#include <poll.h>
#include "tests/unit/test.h"
#include "tests/unit/journal/journal_place.h"

TEST_IN(set_up, tear_down, test_what_was_appended_is_read_again) {
	struct journal_place at;

	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_int_equal(append("one", &at), 2);
	assert_int_equal(at.file, 1);
	assert_int_equal(at.offset, JOURNAL_HEAD_SIZE);
	append("two", NULL);
	assert_string_equal(all_of(), "one two ");
	assert_int_equal(journal_log_synced(place->log), 0);
	sync_all();
	assert_int_equal(journal_log_synced(place->log), 3);
	close_log();
	open_log();
	assert_string_equal(all_of(), "one two ");
	assert_int_equal(journal_log_begin(place->log).file, 2);
	assert_int_equal(append("three", NULL), 5);
	assert_string_equal(all_of(), "one two three ");
}

TEST_IN(set_up, tear_down, test_a_killed_process_leaves_a_torn_tail) {
	append_and_sync("one");
	append("two", NULL);
	journal_log_flush(place->log);
	close_log();
	assert_int_equal(truncate(file_path(1), JOURNAL_HEAD_SIZE + 27 + 26), 0);
	open_log();
	append("three", NULL);
	/* the tail of the first file is told, and then what was begun behind it */
	assert_string_equal(all_of(), "one <torn:26> three ");
	close_log();
	open_log();
	assert_string_equal(all_of(), "one <torn:26> three ");
}

TEST_IN(set_up, tear_down, test_marks_wait_for_what_allows_them) {
	struct journal_place one, two;
	uint64_t allows;

	append("one", &one);
	append("two", &two);
	sync_all();
	allows = append("start", NULL);
	assert_true(journal_log_mark(place->log, one, allows));
	journal_log_turn(place->log, place->now_ns);
	assert_string_equal(all_of(), "one two start ");
	journal_log_sync_by(place->log, place->now_ns + S);
	assert_int_equal(journal_log_turn(place->log, place->now_ns), place->now_ns + S);
	assert_string_equal(all_of(), "one two start ");
	place->now_ns += S;
	journal_log_turn(place->log, place->now_ns);
	assert_string_equal(all_of(), "[one] two start ");
	/* nobody may be told to rely on what is not appended */
	assert_false(journal_log_mark(place->log, two, allows + 5));
}

/* Each may cost a read from the disk: a turn does so many, and comes again at once. */
TEST_IN(set_up, tear_down, test_many_marks_take_several_turns) {
	struct journal_positions positions = { .first_file = 1 };
	struct journal_log_counts counts;

	for (unsigned i = 0; i < 1200; i++) {
		struct journal_place at;

		append("x", &at);
		assert_true(journal_log_mark(place->log, at, 0));
	}
	journal_log_positions(place->log, &positions);
	assert_int_equal(journal_log_turn(place->log, place->now_ns), place->now_ns);
	assert_int_equal(journal_log_turn(place->log, place->now_ns), place->now_ns);
	assert_int_equal(journal_log_positions_recorded(place->log), 0);
	assert_int_equal(journal_log_turn(place->log, place->now_ns), place->now_ns + S);
	assert_int_equal(journal_log_positions_recorded(place->log), 1);
	journal_log_count(place->log, &counts);
	assert_int_equal(counts.marks, 1200);
}

static void fill_files(uint32_t up_to) {
	char text[1024];
	struct journal_place at;

	memset(text, 'x', sizeof(text));
	do
		assert_true(journal_log_append(place->log, JOURNAL_GROUP, text, sizeof(text), &at));
	while (at.file < up_to);
}

TEST_IN(set_up, tear_down, test_positions_delete_what_is_below) {
	struct journal_positions positions = { .first_file = 3, .results = 17,
		.positions_count = 1, .positions = { { "suffix", { 3, 84 } } } };
	const struct journal_positions *found;
	struct journal_place at;
	struct journal_log_counts counts;

	append("one", &at);
	fill_files(4);
	assert_true(journal_log_mark(place->log, at, journal_log_last(place->log)));
	assert_int_equal(journal_log_positions(place->log, &positions), 1);
	assert_int_equal(journal_log_positions_recorded(place->log), 0);
	journal_log_turn(place->log, place->now_ns);
	assert_int_equal(journal_log_positions_recorded(place->log), 1);
	assert_int_equal(journal_log_synced(place->log), journal_log_last(place->log));
	assert_int_equal(access(file_path(2), F_OK), -1);
	assert_int_equal(access(file_path(3), F_OK), 0);
	assert_false(journal_log_holds(place->log, at));
	journal_log_count(place->log, &counts);
	assert_int_equal(counts.files_deleted, 2);
	positions.results = 18;
	assert_int_equal(journal_log_positions(place->log, &positions), 2);
	journal_log_turn(place->log, place->now_ns);
	close_log();
	open_log();
	found = journal_log_found(place->log);
	assert_non_null(found);
	assert_int_equal(found->results, 18);
	assert_int_equal(found->first_file, 3);
	assert_string_equal(found->positions[0].name, "suffix");
	assert_int_equal(found->positions[0].place.file, 3);
}

TEST_IN(set_up, tear_down, test_files_removed_underneath) {
	struct journal_place old, new;

	append("one", &old);
	sync_all();
	assert_int_equal(unlink(file_path(1)), 0);
	place->now_ns += S;
	journal_log_turn(place->log, place->now_ns);
	assert_int_equal(place->failed, 1);
	assert_int_equal(place->good, 1);
	assert_int_equal(place->renewed, 1);
	assert_false(journal_log_holds(place->log, old));
	assert_true(append("anew", &new) > 0);
	assert_true(journal_log_holds(place->log, new));
	sync_all();
	close_log();
	open_log();
	assert_string_equal(all_of(), "anew ");
}

TEST_IN(set_up, tear_down, test_the_second_writer_waits) {
	struct journal_storage *other;
	struct journal_log *log;
	struct journal_log_options options = place->options;
	struct diag diag;

	options.calls = (struct journal_log_calls){ 0 };
	other = journal_storage_posix(place->path, false, &diag);
	assert_int_equal(journal_log_open(&log, other, &options, place->now_ns, &diag), 0);
	assert_int_equal(journal_log_state(log), JOURNAL_FAILED);
	assert_int_equal(journal_log_error(log, NULL), EAGAIN);
	assert_int_equal(journal_log_append(log, JOURNAL_GROUP, "x", 1, NULL), 0);
	assert_int_equal(journal_log_turn(log, place->now_ns), place->now_ns + S);
	append_and_sync("one");
	close_log();
	journal_log_turn(log, place->now_ns + S);
	assert_int_equal(journal_log_state(log), JOURNAL_GOOD);
	assert_true(journal_log_is_read(log));
	assert_int_equal(journal_log_begin(log).file, 2);
	journal_log_close(&log);
	journal_storage_close(&other);
	open_log();
}

TEST_IN(set_up, tear_down, test_the_thread_tells_by_its_descriptor) {
	struct pollfd fd;

	close_log();
	place->options.threaded = true;
	open_log();
	fd = (struct pollfd){ .fd = journal_log_event_fd(place->log), .events = POLLIN };
	assert_true(fd.fd >= 0);
	for (unsigned i = 0; i < 100; i++) {
		append("one", NULL);
		journal_log_sync_by(place->log, place->now_ns);
		journal_log_turn(place->log, place->now_ns);
		if (journal_log_synced(place->log) < journal_log_last(place->log)) {
			assert_int_equal(poll(&fd, 1, 10000), 1);
			journal_log_turn(place->log, place->now_ns);
		}
		assert_int_equal(poll(&fd, 1, 0), 0);
		assert_int_equal(journal_log_synced(place->log), journal_log_last(place->log));
	}
	append_and_sync("two");
}

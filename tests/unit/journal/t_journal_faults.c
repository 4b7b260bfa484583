/* SPDX-License-Identifier: ISC */
/* Disks that fail: told once, and it goes on by itself. */
#include <poll.h>
#include "tests/unit/test.h"
#include "tests/unit/journal/journal_place.h"

TEST_IN(set_up, tear_down, test_a_full_disk_is_told_once_and_tried_again) {
	struct place *place = *state;
	struct journal_place kept, lost;
	struct journal_log_counts counts;

	append(place, "kept", &kept);
	sync_all(place);
	append(place, "lost", &lost);
	place->fail_write = ENOSPC;
	assert_int_equal(after(place, 0), S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	assert_int_equal(place->failed, 1);
	assert_int_equal(place->error, ENOSPC);
	assert_string_equal(place->what, "write");
	assert_int_equal(append(place, "dropped", NULL), 0);
	assert_false(journal_log_mark(place->log, kept, 0));
	assert_true(journal_log_holds(place->log, kept));
	assert_false(journal_log_holds(place->log, lost));
	/* 2 s after the first probe, 4 s, ... 30 s */
	assert_int_equal(after(place, S), 2 * S);
	assert_int_equal(after(place, 2 * S), 4 * S);
	assert_int_equal(after(place, 4 * S), 8 * S);
	assert_int_equal(after(place, 8 * S), 16 * S);
	assert_int_equal(after(place, 16 * S), 30 * S);
	assert_int_equal(after(place, 30 * S), 30 * S);
	assert_int_equal(place->failed, 1);
	assert_int_equal(place->renewed, 0);
	place->fail_write = 0;
	after(place, 30 * S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_int_equal(place->good, 1);
	assert_int_equal(place->renewed, 1);
	assert_true(append(place, "anew", NULL) > 0);
	assert_string_equal(all_of(place), "kept anew ");
	sync_all(place);
	journal_log_count(place->log, &counts);
	assert_int_equal(counts.dropped, 1);
	assert_int_equal(counts.faults, 1);
	close_log(place);
	open_log(place);
	assert_string_equal(all_of(place), "kept anew ");
}

/* What was written before a sync that failed may be there or not: nobody reads it. */
TEST_IN(set_up, tear_down, test_what_a_failed_sync_left_is_not_read) {
	struct place *place = *state;
	struct journal_place at;

	append(place, "kept", &at);
	sync_all(place);
	append(place, "unsure", NULL);
	assert_true(journal_log_mark(place->log, at, journal_log_last(place->log)));
	place->fail_sync = EIO;
	journal_log_sync_by(place->log, place->now_ns);
	after(place, 0);
	assert_int_equal(place->error, EIO);
	assert_string_equal(place->what, "sync");
	assert_int_equal(journal_log_synced(place->log), 2);
	place->fail_sync = 0;
	after(place, S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	append(place, "anew", NULL);
	/* "kept" has no mark: what allowed it never was synced */
	assert_string_equal(all_of(place), "kept <torn:30> anew ");
	sync_all(place);
	assert_string_equal(seen_of(place), "kept <torn:30> anew ");
	close_log(place);
	open_log(place);
	assert_string_equal(all_of(place), "kept <torn:30> anew ");
}

/* Or the disk would stay full of it. */
TEST_IN(set_up, tear_down, test_what_was_given_up_is_deleted) {
	struct place *place = *state;
	char text[1000];

	append(place, "kept", NULL);
	sync_all(place);
	memset(text, 'x', sizeof(text));
	for (unsigned i = 0; i < 200; i++)
		journal_log_append(place->log, JOURNAL_GROUP, text, sizeof(text), NULL);
	journal_log_flush(place->log);
	assert_int_equal(access(file_path(place, 3), F_OK), 0);
	place->fail_write = ENOSPC;
	append(place, "lost", NULL);
	after(place, 0);
	after(place, S);
	assert_int_equal(access(file_path(place, 1), F_OK), 0);
	assert_int_equal(access(file_path(place, 2), F_OK), -1);
	assert_int_equal(access(file_path(place, 3), F_OK), -1);
	place->fail_write = 0;
	after(place, 2 * S);
	append(place, "anew", NULL);
	sync_all(place);
	assert_non_null(strstr(seen_of(place), "> anew "));
	assert_memory_equal(told, "kept <torn:", 11);
}

TEST_IN(set_up, tear_down, test_a_probe_that_fails_leaves_nothing) {
	struct place *place = *state;

	append(place, "kept", NULL);
	sync_all(place);
	append(place, "lost", NULL);
	place->fail_sync = EIO;
	journal_log_sync_by(place->log, place->now_ns);
	after(place, 0);
	after(place, S);
	after(place, 2 * S);
	assert_int_equal(access(file_path(place, 1), F_OK), 0);
	assert_int_equal(access(file_path(place, 2), F_OK), -1);
	assert_int_equal(access(file_path(place, 3), F_OK), -1);
	place->fail_sync = 0;
	place->fail_create = EROFS;
	after(place, 4 * S);
	assert_int_equal(journal_log_error(place->log, NULL), EROFS);
	assert_int_equal(place->failed, 1);
	place->fail_create = 0;
	place->fail_directory = EIO;
	after(place, 8 * S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	place->fail_directory = 0;
	after(place, 16 * S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	append(place, "anew", NULL);
	assert_string_equal(all_of(place), "kept <torn:28> anew ");
}

TEST_IN(set_up, tear_down, test_positions_that_a_fault_dropped) {
	struct place *place = *state;
	struct journal_positions positions = { .first_file = 1 };

	append(place, "x", NULL);
	place->fail_sync = EIO;
	assert_int_equal(journal_log_positions(place->log, &positions), 1);
	assert_true(journal_log_positions_pending(place->log));
	after(place, 0);
	assert_false(journal_log_positions_pending(place->log));
	assert_int_equal(journal_log_positions(place->log, &positions), 0);
	place->fail_sync = 0;
	after(place, S);
	assert_int_equal(journal_log_positions_recorded(place->log), 0);
	assert_int_equal(journal_log_positions(place->log, &positions), 2);
	after(place, 0);
	assert_int_equal(journal_log_positions_recorded(place->log), 2);
	assert_false(journal_log_positions_pending(place->log));
}

/* The disk has room for a head and nothing more: the waiting time goes on growing. */
TEST_IN(set_up, tear_down, test_a_disk_that_comes_and_goes) {
	struct place *place = *state;
	int64_t wait = S;

	for (unsigned i = 0; i < 8; i++) {
		append(place, "x", NULL);
		place->fail_write = ENOSPC;
		assert_int_equal(after(place, 0), wait);
		place->fail_write = 0;
		after(place, wait);
		assert_int_equal(place->renewed, i + 1);
		wait = 2 * wait > 30 * S ? 30 * S : 2 * wait;
	}
	/* good for a minute: it is another fault */
	after(place, 61 * S);
	append(place, "x", NULL);
	place->fail_write = ENOSPC;
	assert_int_equal(after(place, 0), S);
}

TEST_IN(set_up, tear_down, test_a_read_only_disk_is_read_at_the_start) {
	struct place *place = *state;

	append(place, "one", NULL);
	sync_all(place);
	close_log(place);
	place->fail_create = place->fail_write = EROFS;
	open_log(place);
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	assert_true(journal_log_is_read(place->log));
	assert_int_equal(place->error, EROFS);
	assert_string_equal(all_of(place), "one ");
	place->fail_create = place->fail_write = 0;
	after(place, 0);
	after(place, S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	append(place, "two", NULL);
	assert_string_equal(all_of(place), "one two ");
}

TEST_IN(set_up, tear_down, test_a_directory_that_comes_later) {
	struct place *place = *state;

	append(place, "one", NULL);
	sync_all(place);
	close_log(place);
	place->fail_list = EIO;
	open_log(place);
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	assert_false(journal_log_is_read(place->log));
	place->fail_list = 0;
	after(place, 0);
	after(place, S);
	assert_true(journal_log_is_read(place->log));
	append(place, "two", NULL);
	assert_string_equal(all_of(place), "one two ");
}

TEST_IN(set_up, tear_down, test_the_directory_is_removed) {
	struct place *place = *state;
	char path[128];

	append(place, "one", NULL);
	sync_all(place);
	unlink(file_path(place, 1));
	snprintf(path, sizeof(path), "%s/lock", place->path);
	unlink(path);
	assert_int_equal(rmdir(place->path), 0);
	after(place, S);
	assert_int_equal(place->failed, 1);
	assert_int_equal(place->error, ENOENT);
	after(place, S);
	after(place, 2 * S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	assert_int_equal(mkdir(place->path, 0700), 0);
	after(place, 4 * S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_int_equal(place->renewed, 1);
	append(place, "anew", NULL);
	sync_all(place);
	assert_string_equal(seen_of(place), "anew ");
}

TEST_IN(set_up, tear_down, test_an_old_file_is_removed) {
	struct place *place = *state;
	struct journal_place one, two;

	append(place, "one", &one);
	journal_log_switch(place->log);
	append(place, "two", &two);
	sync_all(place);
	unlink(file_path(place, 1));
	for (unsigned i = 0; i < 10; i++)
		after(place, S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_int_equal(place->renewed, 1);
	assert_false(journal_log_holds(place->log, one));
	assert_true(journal_log_holds(place->log, two));
	assert_string_equal(all_of(place), "two ");
}

TEST_IN(set_up, tear_down, test_faults_in_the_thread) {
	struct place *place = *state;
	struct pollfd fd;

	close_log(place);
	place->options.threaded = true;
	open_log(place);
	fd = (struct pollfd){ .fd = journal_log_event_fd(place->log), .events = POLLIN };
	append(place, "one", NULL);
	sync_all(place);
	append(place, "two", NULL);
	place->fail_sync = EIO;
	journal_log_sync_by(place->log, place->now_ns);
	journal_log_turn(place->log, place->now_ns);
	while (journal_log_state(place->log) == JOURNAL_GOOD) {
		assert_int_equal(poll(&fd, 1, 10000), 1);
		journal_log_turn(place->log, place->now_ns);
	}
	place->fail_sync = 0;
	place->now_ns += S;
	journal_log_turn(place->log, place->now_ns);
	while (journal_log_state(place->log) == JOURNAL_FAILED) {
		assert_int_equal(poll(&fd, 1, 10000), 1);
		journal_log_turn(place->log, place->now_ns);
	}
	append(place, "anew", NULL);
	sync_all(place);
	assert_string_equal(all_of(place), "one <torn:27> anew ");
}

/* A disk that takes its time: nobody waits for it, nor asks again and again. */
TEST_IN(set_up, tear_down, test_a_slow_disk_holds_nobody_up) {
	struct place *place = *state;
	struct journal_positions positions = { .first_file = 1 };
	struct pollfd fd;
	uint64_t first;

	close_log(place);
	place->options.threaded = true;
	open_log(place);
	fd = (struct pollfd){ .fd = journal_log_event_fd(place->log), .events = POLLIN };
	atomic_store(&place->slow, true);
	first = append(place, "one", NULL);
	journal_log_sync_by(place->log, place->now_ns);
	for (unsigned second = 0; second < 20; second++) {
		assert_true(after(place, S) > 0);
		append(place, "more", NULL);
		journal_log_sync_by(place->log, place->now_ns);
		journal_log_positions(place->log, &positions);
	}
	assert_true(journal_log_synced(place->log) < first);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	atomic_store(&place->slow, false);
	while (journal_log_positions_pending(place->log)) {
		assert_int_equal(poll(&fd, 1, 10000), 1);
		journal_log_turn(place->log, place->now_ns);
	}
	assert_int_equal(journal_log_positions_recorded(place->log), 20);
	assert_int_equal(journal_log_synced(place->log), journal_log_last(place->log));
}

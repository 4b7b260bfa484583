/* SPDX-License-Identifier: ISC */
/* Disks that fail: told once, and it goes on by itself. */
#include <poll.h>
#include "tests/unit/test.h"
#include "tests/unit/journal/journal_place.h"

TEST_IN(set_up, tear_down, test_a_full_disk_is_told_once_and_tried_again) {
	struct journal_place kept, lost;
	struct journal_log_counts counts;

	append("kept", &kept);
	sync_all();
	append("lost", &lost);
	place->fail_write = ENOSPC;
	assert_int_equal(after(0), S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	assert_int_equal(place->failed, 1);
	assert_int_equal(place->error, ENOSPC);
	assert_string_equal(place->what, "write");
	assert_int_equal(append("dropped", NULL), 0);
	assert_false(journal_log_mark(place->log, kept, 0));
	assert_true(journal_log_holds(place->log, kept));
	assert_false(journal_log_holds(place->log, lost));
	/* 2 s after the first probe, 4 s, ... 30 s */
	assert_int_equal(after(S), 2 * S);
	assert_int_equal(after(2 * S), 4 * S);
	assert_int_equal(after(4 * S), 8 * S);
	assert_int_equal(after(8 * S), 16 * S);
	assert_int_equal(after(16 * S), 30 * S);
	assert_int_equal(after(30 * S), 30 * S);
	assert_int_equal(place->failed, 1);
	assert_int_equal(place->renewed, 0);
	place->fail_write = 0;
	after(30 * S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_int_equal(place->good, 1);
	assert_int_equal(place->renewed, 1);
	assert_true(append("anew", NULL) > 0);
	assert_string_equal(all_of(), "kept anew ");
	sync_all();
	journal_log_count(place->log, &counts);
	assert_int_equal(counts.dropped, 1);
	assert_int_equal(counts.faults, 1);
	close_log();
	open_log();
	assert_string_equal(all_of(), "kept anew ");
}

/* What was written before a sync that failed may be there or not: nobody reads it. */
TEST_IN(set_up, tear_down, test_what_a_failed_sync_left_is_not_read) {
	struct journal_place at;

	append("kept", &at);
	sync_all();
	append("unsure", NULL);
	assert_true(journal_log_mark(place->log, at, journal_log_last(place->log)));
	place->fail_sync = EIO;
	journal_log_sync_by(place->log, place->now_ns);
	after(0);
	assert_int_equal(place->error, EIO);
	assert_string_equal(place->what, "sync");
	assert_int_equal(journal_log_synced(place->log), 2);
	place->fail_sync = 0;
	after(S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	append("anew", NULL);
	/* "kept" has no mark: what allowed it never was synced */
	assert_string_equal(all_of(), "kept <torn:30> anew ");
	sync_all();
	assert_string_equal(seen_of(), "kept <torn:30> anew ");
	close_log();
	open_log();
	assert_string_equal(all_of(), "kept <torn:30> anew ");
}

/* Or the disk would stay full of it. */
TEST_IN(set_up, tear_down, test_what_was_given_up_is_deleted) {
	char text[1000];

	append_and_sync("kept");
	memset(text, 'x', sizeof(text));
	for (unsigned i = 0; i < 200; i++)
		journal_log_append(place->log, JOURNAL_GROUP, text, sizeof(text), NULL);
	journal_log_flush(place->log);
	assert_int_equal(access(file_path(3), F_OK), 0);
	place->fail_write = ENOSPC;
	append("lost", NULL);
	after(0);
	after(S);
	assert_int_equal(access(file_path(1), F_OK), 0);
	assert_int_equal(access(file_path(2), F_OK), -1);
	assert_int_equal(access(file_path(3), F_OK), -1);
	place->fail_write = 0;
	after(2 * S);
	append_and_sync("anew");
	assert_non_null(strstr(seen_of(), "> anew "));
	assert_memory_equal(told, "kept <torn:", 11);
}

TEST_IN(set_up, tear_down, test_a_probe_that_fails_leaves_nothing) {
	append_and_sync("kept");
	append("lost", NULL);
	place->fail_sync = EIO;
	journal_log_sync_by(place->log, place->now_ns);
	after(0);
	after(S);
	after(2 * S);
	assert_int_equal(access(file_path(1), F_OK), 0);
	assert_int_equal(access(file_path(2), F_OK), -1);
	assert_int_equal(access(file_path(3), F_OK), -1);
	place->fail_sync = 0;
	place->fail_create = EROFS;
	after(4 * S);
	assert_int_equal(journal_log_error(place->log, NULL), EROFS);
	assert_int_equal(place->failed, 1);
	place->fail_create = 0;
	place->fail_directory = EIO;
	after(8 * S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	place->fail_directory = 0;
	after(16 * S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	append("anew", NULL);
	assert_string_equal(all_of(), "kept <torn:28> anew ");
}

TEST_IN(set_up, tear_down, test_positions_that_a_fault_dropped) {
	struct journal_positions positions = { .first_file = 1 };

	append("x", NULL);
	place->fail_sync = EIO;
	assert_int_equal(journal_log_positions(place->log, &positions), 1);
	assert_true(journal_log_positions_pending(place->log));
	after(0);
	assert_false(journal_log_positions_pending(place->log));
	assert_int_equal(journal_log_positions(place->log, &positions), 0);
	place->fail_sync = 0;
	after(S);
	assert_int_equal(journal_log_positions_recorded(place->log), 0);
	assert_int_equal(journal_log_positions(place->log, &positions), 2);
	after(0);
	assert_int_equal(journal_log_positions_recorded(place->log), 2);
	assert_false(journal_log_positions_pending(place->log));
}

/* The disk has room for a head and nothing more: the waiting time goes on growing. */
TEST_IN(set_up, tear_down, test_a_disk_that_comes_and_goes) {
	int64_t wait = S;

	for (unsigned i = 0; i < 8; i++) {
		append("x", NULL);
		place->fail_write = ENOSPC;
		assert_int_equal(after(0), wait);
		place->fail_write = 0;
		after(wait);
		assert_int_equal(place->renewed, i + 1);
		wait = 2 * wait > 30 * S ? 30 * S : 2 * wait;
	}
	/* good for a minute: it is another fault */
	after(61 * S);
	append("x", NULL);
	place->fail_write = ENOSPC;
	assert_int_equal(after(0), S);
}

TEST_IN(set_up, tear_down, test_a_read_only_disk_is_read_at_the_start) {
	append_and_sync("one");
	close_log();
	place->fail_create = place->fail_write = EROFS;
	open_log();
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	assert_true(journal_log_is_read(place->log));
	assert_int_equal(place->error, EROFS);
	assert_string_equal(all_of(), "one ");
	place->fail_create = place->fail_write = 0;
	after(0);
	after(S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	append("two", NULL);
	assert_string_equal(all_of(), "one two ");
}

TEST_IN(set_up, tear_down, test_a_directory_that_comes_later) {
	append_and_sync("one");
	close_log();
	place->fail_list = EIO;
	open_log();
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	assert_false(journal_log_is_read(place->log));
	place->fail_list = 0;
	after(0);
	after(S);
	assert_true(journal_log_is_read(place->log));
	append("two", NULL);
	assert_string_equal(all_of(), "one two ");
}

TEST_IN(set_up, tear_down, test_the_directory_is_removed) {
	char path[128];

	append_and_sync("one");
	unlink(file_path(1));
	snprintf(path, sizeof(path), "%s/lock", place->path);
	unlink(path);
	assert_int_equal(rmdir(place->path), 0);
	after(S);
	assert_int_equal(place->failed, 1);
	assert_int_equal(place->error, ENOENT);
	after(S);
	after(2 * S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_FAILED);
	assert_int_equal(mkdir(place->path, 0700), 0);
	after(4 * S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_int_equal(place->renewed, 1);
	append_and_sync("anew");
	assert_string_equal(seen_of(), "anew ");
}

TEST_IN(set_up, tear_down, test_an_old_file_is_removed) {
	struct journal_place one, two;

	append("one", &one);
	journal_log_switch(place->log);
	append("two", &two);
	sync_all();
	unlink(file_path(1));
	for (unsigned i = 0; i < 10; i++)
		after(S);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_int_equal(place->renewed, 1);
	assert_false(journal_log_holds(place->log, one));
	assert_true(journal_log_holds(place->log, two));
	assert_string_equal(all_of(), "two ");
}

TEST_IN(set_up, tear_down, test_faults_in_the_thread) {
	struct pollfd fd;

	close_log();
	place->options.threaded = true;
	open_log();
	fd = (struct pollfd){ .fd = journal_log_event_fd(place->log), .events = POLLIN };
	append_and_sync("one");
	append("two", NULL);
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
	append_and_sync("anew");
	assert_string_equal(all_of(), "one <torn:27> anew ");
}

/* A disk that takes its time: nobody waits for it, nor asks again and again. */
TEST_IN(set_up, tear_down, test_a_slow_disk_holds_nobody_up) {
	struct journal_positions positions = { .first_file = 1 };
	struct pollfd fd;
	uint64_t first;

	close_log();
	place->options.threaded = true;
	open_log();
	fd = (struct pollfd){ .fd = journal_log_event_fd(place->log), .events = POLLIN };
	atomic_store(&place->slow, true);
	first = append("one", NULL);
	journal_log_sync_by(place->log, place->now_ns);
	for (unsigned second = 0; second < 20; second++) {
		assert_true(after(S) > 0);
		append("more", NULL);
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

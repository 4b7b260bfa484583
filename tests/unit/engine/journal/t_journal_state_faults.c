/* SPDX-License-Identifier: ISC */
/* The journal of what was learned where the disk fails, and where its files are not what
 * they were; and that it does not grow. */
#include <fcntl.h>

#include "tests/unit/test.h"
#include "base/file_lock.h"
#include "tests/unit/engine/journal/journal_site.h"
#include "tests/unit/random.h"

static void remove_room(const char *room) {
	char path[160], name[420];
	const struct dirent *entry;
	DIR *directory;

	room_path(room, path);
	directory = opendir(path);
	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		(void)unlink(name);
	}
	if (directory != NULL)
		closedir(directory);
	assert_int_equal(rmdir(path), 0);
}

static const struct journal_record *record_of(enum journal_room room) {
	return &site.segment->header->journals[room];
}

TEST_IN(open_site, close_site, a_directory_that_is_gone_is_told_once_and_goes_on_when_it_is_back) {
	struct destination_window is;

	learn_ceiling("a.example", 3, "421 too many");
	turns(3);
	assert_int_equal(atomic_load(&record_of(JOURNAL_ROOM_FEED)->fares), JOURNAL_FARES_WELL);
	remove_room("feed");
	remove_room("keeper");
	for (unsigned i = 0; i < 40; i++) {
		learn_ceiling("b.example", (uint16_t)(4 + i % 3), "421 too many");
		turns(1);
	}
	assert_true(by_hand(MANUAL_HOLD, "h.example", 0, "meanwhile"));
	assert_int_equal(news_of(JOURNAL_NEWS_FAILED, JOURNAL_ROOM_FEED), 1);
	assert_int_equal(news_of(JOURNAL_NEWS_FAILED, JOURNAL_ROOM_KEEPER), 1);
	assert_int_equal(news_of(JOURNAL_NEWS_WELL, JOURNAL_ROOM_FEED), 0);
	assert_int_equal(atomic_load(&record_of(JOURNAL_ROOM_FEED)->fares), JOURNAL_FARES_ILL);
	assert_int_equal(atomic_load(&record_of(JOURNAL_ROOM_FEED)->error), ENOENT);
	assert_true(counted(COUNTER_JOURNAL_FAILURES) >= 2);
	make_rooms();
	turns(40);
	assert_int_equal(news_of(JOURNAL_NEWS_WELL, JOURNAL_ROOM_FEED), 1);
	assert_int_equal(news_of(JOURNAL_NEWS_WELL, JOURNAL_ROOM_KEEPER), 1);
	assert_int_equal(atomic_load(&record_of(JOURNAL_ROOM_FEED)->fares), JOURNAL_FARES_WELL);
	lose_and_restore();
	assert_true(find_state("a.example", &is));
	assert_int_equal(is.state.window.ceiling, 3);
	assert_true(find_state("b.example", &is));
	assert_int_equal(is.state.window.ceiling, 4);
	assert_true(find_state("h.example", &is));
	assert_int_equal(is.state.window.state, WINDOW_HELD);
	assert_string_equal(is.reason, "meanwhile");
}

TEST_IN(open_site, close_site, one_that_never_was_there_comes) {
	struct destination_window is;

	turns(2);
	close_journals();
	remove_room("feed");
	remove_room("keeper");
	news_count = 0;
	open_journals();
	learn_ceiling("a.example", 3, "421 too many");
	turns(5);
	/* the supervisor says why they are not there */
	assert_int_equal(news_of(JOURNAL_NEWS_FAILED, JOURNAL_ROOM_FEED), 0);
	assert_int_equal(atomic_load(&record_of(JOURNAL_ROOM_FEED)->fares), JOURNAL_FARES_ILL);
	make_rooms();
	turns(40);
	assert_int_equal(news_of(JOURNAL_NEWS_WELL, JOURNAL_ROOM_FEED), 0);
	lose_and_restore();
	assert_true(find_state("a.example", &is));
}

TEST_IN(open_site, close_site, older_files_go_when_a_checkpoint_is_whole) {
	uint64_t bytes;

	learn_ceiling("a.example", 3, "421 too many");
	for (unsigned life = 0; life < 10; life++) {
		turns(4);
		close_journals();
		open_journals();
	}
	turns(10);
	assert_in_range(room_files("feed", &bytes), 1, 3);
	assert_in_range(bytes, 100, 4096);
	assert_in_range(room_files("keeper", &bytes), 1, 3);
}

/* Each second 100 destinations change: 35 kB, 16 MB in 470 s. */
TEST_IN(open_site, close_site, it_does_not_grow) {
	uint64_t bytes, most = 0;
	char name[32];

	for (unsigned second = 0; second < 1500; second++) {
		for (unsigned i = 0; i < 100; i++) {
			snprintf(name, sizeof(name), "d%u.example", i);
			learn_ceiling(name, (uint16_t)(1 + second % 50), "421 too many");
		}
		turns(1);
		(void)room_files("feed", &bytes);
		if (bytes > most)
			most = bytes;
	}
	assert_in_range(most, 1 << 20, 40 << 20);
	turns(5);
	assert_in_range(room_files("feed", &bytes), 1, 4);
}

/* With older files damaged, and the positions, nothing but new ones tells that what follows the
 * damage had been synced: till then it is the end of a crash for a reader. */
static void until_positions_are_recorded(void) {
	const struct journal_log *log = log_of(states);

	for (unsigned i = 0; i < 10 && journal_log_positions_recorded(log) == 0; i++)
		turns(1);
	assert_true(journal_log_positions_recorded(log) > 0);
}

/* Whatever stands there: nothing dies, and a good one is taken. */
TEST_IN(open_site, close_site, files_full_of_anything) {
	struct random random = random_seeded("t_journal_state_faults");
	char path[160], name[420];

	for (unsigned i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "d%u.example", i);
		learn_ceiling(name, (uint16_t)(1 + i), "421 too many");
	}
	assert_true(by_hand(MANUAL_HOLD, "h.example", 0, "closed"));
	turns(3);
	for (unsigned round = 0; round < 60; round++) {
		const char *room = round % 3 == 0 ? "keeper" : "feed";
		const struct dirent *entry;
		struct stat status;
		DIR *directory;

		room_path(room, path);
		directory = opendir(path);
		assert_non_null(directory);
		while ((entry = readdir(directory)) != NULL) {
			int fd;

			snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
			fd = open(name, O_RDWR);
			if (fd < 0 || fstat(fd, &status) != 0 || status.st_size == 0)
				continue;
			for (unsigned i = random_below(&random, 4); i > 0; i--) {
				uint8_t byte = (uint8_t)random_next(&random);

				assert_int_equal(pwrite(fd, &byte, 1, random_below(&random,
				    (uint32_t)status.st_size)), 1);
			}
			close(fd);
		}
		closedir(directory);
		lose_and_restore();
		open_journals();
		learn_ceiling("good.example", 9, "421 too many");
		turns(2);
	}
	until_positions_are_recorded();
	lose_and_restore();
	{
		struct destination_window is;

		assert_true(find_state("good.example", &is));
		assert_int_equal(is.state.window.ceiling, 9);
	}
}

/* Whoever restores says so, and takes nothing. */
TEST_IN(open_site, close_site, one_that_another_process_writes_is_not_read) {
	struct destination_window is;
	char path[160];
	int fd;

	learn_ceiling("a.example", 3, "421 too many");
	turns(2);
	lose_all();
	room_path("feed/lock", path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(file_lock(fd, true), 0);
	assert_false(engine_journal_restore(site.engine, site.generation, &listener, now_ns,
	    wall_ns));
	assert_int_equal(news_of(JOURNAL_NEWS_UNREAD, JOURNAL_ROOM_FEED), 1);
	assert_false(find_state("a.example", &is));
	close(fd);
	assert_true(engine_journal_restore(site.engine, site.generation, &listener, now_ns,
	    wall_ns));
	assert_true(find_state("a.example", &is));
}

/* The files can be read only after something was done. */
TEST_IN(open_site, close_site, what_was_done_before_the_files_were_read_is_later) {
	struct destination_window is;
	char path[160], aside[160];

	assert_true(by_hand(MANUAL_HOLD, "h.example", 0, NULL));
	turns(2);
	close_journals();
	room_path("keeper", path);
	room_path("aside", aside);
	assert_int_equal(rename(path, aside), 0);
	open_journals();
	assert_true(by_hand(MANUAL_RESUME, "h.example", 0, NULL));
	assert_int_equal(rename(aside, path), 0);
	turns(40);
	journal_states_close(&states);
	remove_room("feed");
	lose_all();
	make_rooms();
	restore();
	if (find_state("h.example", &is))
		assert_int_equal(is.state.window.state, WINDOW_OPEN);
}

/* It stays for ever: nobody has read it. */
TEST_IN(open_site, close_site, what_could_not_be_read_is_not_deleted) {
	uint64_t bytes;

	learn_ceiling("a.example", 3, "421 too many");
	turns(2);
	lose_all();
	segment_has_learned(site.segment, false);
	for (unsigned life = 0; life < 6; life++) {
		open_journals();
		turns(4);
		close_journals();
		segment_has_learned(site.segment, true);
	}
	assert_true(room_has("feed", "0000000001.log"));
	assert_true(room_has("keeper", "0000000001.log"));
	assert_in_range(room_files("feed", &bytes), 2, 5);
}

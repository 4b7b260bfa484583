/* SPDX-License-Identifier: ISC */
/* A journal that this state has neither read nor written: it is not in force, and nothing of it
 * is ever deleted. */
#include <fcntl.h>

#include "tests/unit/test.h"
#include "base/file_lock.h"
#include "tests/unit/engine/journal/journal_site.h"
#include "tests/crash/sync_log.h"

static bool knows(const char *name) {
	struct destination_window is;

	return find_state(name, &is) && is.state.begun;
}

static void move(const char *from, const char *to) {
	char old[160], new[160];

	room_path(from, old);
	room_path(to, new);
	assert_int_equal(rename(old, new), 0);
}

/* The journal of a state, in which one destination was learned and another one held. */
static void write_one(void) {
	learn_ceiling("theirs.example", 5, "");
	assert_true(by_hand(MANUAL_HOLD, "held.example", 0, "closed"));
	turns(3);
}

static void check_kept(void) {
	assert_int_equal(news_of(JOURNAL_NEWS_FOREIGN, JOURNAL_ROOM_FEED), 1);
	assert_int_equal(news_of(JOURNAL_NEWS_FOREIGN, JOURNAL_ROOM_KEEPER), 1);
	assert_true(room_has("feed", "0000000001.log") || room_has("feed", "0000000002.log"));
	assert_true(room_has("keeper", "0000000001.log") ||
	    room_has("keeper", "0000000002.log"));
	assert_false(knows("theirs.example"));
	assert_false(knows("held.example"));
}

/* Of the lives that follow, too; and theirs is not taken for ours. */
static void check_kept_for_ever(void) {
	uint64_t before, after;
	unsigned kept = room_files("keeper", &before);

	for (unsigned life = 0; life < 4; life++) {
		close_journals();
		open_journals();
		turns(4);
	}
	/* its own are deleted when a disk has done what was asked of it */
	for (unsigned i = 0; i < 1000 && room_files("keeper", &after) > kept + 1; i++)
		turns(1);
	assert_in_range(room_files("keeper", &after), kept - 1, kept + 1);
	assert_true(room_has("keeper", "0000000001.log") ||
	    room_has("keeper", "0000000002.log"));
	lose_and_restore();
	assert_true(knows("ours.example"));
	assert_false(knows("theirs.example"));
	assert_false(knows("held.example"));
}

/* The file system of journal.path comes when posternd runs. */
TEST_IN(open_site, close_site, one_that_is_mounted_late_is_not_deleted) {
	write_one();
	lose_all();
	move("feed", "theirs-feed");
	move("keeper", "theirs-keeper");
	make_rooms();
	restore();
	open_journals();
	learn_ceiling("ours.example", 5, "");
	turns(3);
	move("feed", "ours-feed");
	move("keeper", "ours-keeper");
	move("theirs-feed", "feed");
	move("theirs-keeper", "keeper");
	turns(8);
	check_kept();
	check_kept_for_ever();
}

/* It was there at the start, and nobody of this state could read it. */
TEST_IN(open_site, close_site, one_that_could_not_be_read_at_the_start_is_not_deleted) {
	write_one();
	lose_all();
	segment_has_learned(site.segment, false);
	open_journals();
	learn_ceiling("ours.example", 5, "");
	turns(4);
	check_kept();
	segment_has_learned(site.segment, true);
	check_kept_for_ever();
}

/* Two posternd: the second neither restores nor writes while the first lives, and deletes
 * nothing of the first's when that has ended. */
TEST_IN(open_site, close_site, one_that_another_posternd_writes_stays_when_that_has_ended) {
	static const char *const rooms[] = { "feed", "keeper" };
	uint64_t before, after;
	char path[160], name[200];
	int locks[2];

	write_one();
	lose_all();
	for (unsigned i = 0; i < 2; i++) {
		room_path(rooms[i], path);
		snprintf(name, sizeof(name), "%s/lock", path);
		locks[i] = open(name, O_RDWR | O_CLOEXEC);
		assert_true(locks[i] >= 0);
		assert_int_equal(file_lock(locks[i], true), 0);
	}
	segment_has_learned(site.segment, engine_journal_restore(site.engine, site.generation,
	    &listener, now_ns, wall_ns));
	open_journals();
	(void)room_files("keeper", &before);
	learn_ceiling("ours.example", 5, "");
	turns(3);
	assert_int_equal(news_of(JOURNAL_NEWS_FAILED, JOURNAL_ROOM_KEEPER), 1);
	(void)room_files("keeper", &after);
	assert_int_equal(before, after);
	close(locks[0]);
	close(locks[1]);
	turns(40);
	check_kept();
	segment_has_learned(site.segment, true);
	check_kept_for_ever();
}

/* --- later versions ----------------------------------------------------------------- */

static void append_unknown(const char *room, enum journal_kind kind) {
	const struct journal_log_options options = { .kind = kind, .file_size = 1 << 20 };
	struct journal_storage *storage;
	struct journal_log *log;
	struct diag diag;
	char path[160];

	room_path(room, path);
	storage = journal_storage_posix(path, false, &diag);
	assert_non_null(storage);
	assert_int_equal(journal_log_open(&log, storage, &options, now_ns, &diag), 0);
	assert_true(journal_log_append(log, 77, "what a later version knows", 26, NULL) > 0);
	assert_int_equal(sync_log(log, now_ns), 0);
	journal_log_close(&log);
	journal_storage_close(&storage);
}

TEST_IN(open_site, close_site, a_file_with_records_that_are_not_known_is_not_deleted) {
	uint64_t bytes;
	char name[32];
	unsigned number = 0;

	learn_ceiling("a.example", 5, "");
	turns(2);
	close_journals();
	append_unknown("feed", JOURNAL_FEED);
	for (unsigned i = 1; i < 20; i++) {
		snprintf(name, sizeof(name), "%010u.log", i);
		if (room_has("feed", name))
			number = i;
	}
	snprintf(name, sizeof(name), "%010u.log", number);
	lose_and_restore();
	assert_int_equal(news_of(JOURNAL_NEWS_LATER, JOURNAL_ROOM_FEED), 1);
	assert_int_equal(news_of(JOURNAL_NEWS_DAMAGED, JOURNAL_ROOM_FEED), 0);
	assert_true(knows("a.example"));
	news_count = 0;
	for (unsigned life = 0; life < 4; life++) {
		open_journals();
		turns(5);
		close_journals();
	}
	assert_true(room_has("feed", name));
	assert_in_range(room_files("feed", &bytes), 2, 4);
	/* once in each life */
	assert_in_range(news_of(JOURNAL_NEWS_LATER, JOURNAL_ROOM_FEED), 1, 4);
	assert_true(counted(COUNTER_JOURNAL_DAMAGED) >= 1);
	open_journals();
}

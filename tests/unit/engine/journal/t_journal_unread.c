/* SPDX-License-Identifier: ISC */
/* A journal whose disk could not be read when a state was restored, and can be a while later:
 * nothing of it is lost. */
#include <sys/syscall.h>

#include "tests/unit/test.h"
#include "tests/unit/engine/journal/journal_site.h"

static bool reads_fail, positions_fail;

static bool is_positions(int file) {
	char name[64], path[256];
	ssize_t length;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
	length = readlink(name, path, sizeof(path) - 1);
	path[length > 0 ? length : 0] = '\0';
	return strstr(path, "/" JOURNAL_POSITIONS_NAME) != NULL;
}

ssize_t pread(int file, void *data, size_t length, off_t offset) {
	if (reads_fail || (positions_fail && is_positions(file))) {
		errno = EIO;
		return -1;
	}
	return syscall(SYS_pread64, file, data, length, offset);
}

static bool is_held(const char *name) {
	struct destination_window is;

	return find_state(name, &is) && is.state.window.state == WINDOW_HELD;
}

/* As the supervisor does it. */
static bool restored(void) {
	bool whole = engine_journal_restore(site.engine, site.generation, &listener, now_ns,
	    wall_ns);

	segment_has_learned(site.segment, whole);
	return whole;
}

/* The first file that was there; a checkpoint may have made room below it by then. */
static char old_feed[32], old_keeper[32];

static void find_oldest(const char *room, char name[32]) {
	unsigned number = 0;

	do
		snprintf(name, 32, "%010u.log", ++number);
	while (number < 100 && !room_has(room, name));
	assert_true(room_has(room, name));
}

/* A life that learned and held, and the start of the next one. */
static void lose_all_and_reads(void) {
	learn_ceiling("learned.example", 5, "");
	assert_true(by_hand(MANUAL_HOLD, "held.example", 0, "closed"));
	assert_true(by_hand(MANUAL_HOLD, "open.example", 0, "closed"));
	turns(3);
	lose_all();
	find_oldest("feed", old_feed);
	find_oldest("keeper", old_keeper);
	reads_fail = true;
	assert_false(restored());
	open_journals();
	learn_ceiling("new.example", 5, "");
	turns(3);
	assert_false(is_held("held.example"));
}

/* Until its positions are on the disk, which takes as long as it takes. */
static void turns_until_settled(enum journal_room room) {
	const struct journal_record *record = &site.segment->header->journals[room];

	for (unsigned i = 0; i < 2000 && atomic_load(&record->journal) == JOURNAL_IS_UNREAD; i++)
		turns(1);
	assert_true(atomic_load(&record->journal) != JOURNAL_IS_UNREAD);
}

static void open_again(void) {
	close_journals();
	open_journals();
}

TEST_IN(open_site, close_site, what_was_held_is_so_again_when_reads_go_well) {
	struct destination_window is;

	lose_all_and_reads();
	reads_fail = false;
	turns_until_settled(JOURNAL_ROOM_KEEPER);
	assert_int_equal(news_of(JOURNAL_NEWS_FOREIGN, JOURNAL_ROOM_KEEPER), 0);
	assert_int_equal(news_of(JOURNAL_NEWS_RESTORED, JOURNAL_ROOM_KEEPER), 1);
	assert_true(is_held("held.example"));
	assert_true(find_state("held.example", &is));
	assert_string_equal(is.reason, "closed");
}

/* Only its files know of it: two checkpoints later, too, when the older ones have gone. */
TEST_IN(open_site, close_site, what_was_held_is_there_after_another_loss) {
	lose_all_and_reads();
	reads_fail = false;
	turns_until_settled(JOURNAL_ROOM_KEEPER);
	open_again();
	turns(8);
	lose_all();
	assert_true(restored());
	assert_true(is_held("held.example"));
}

/* Nobody reads it into a state that has learned since, and nobody deletes it. */
TEST_IN(open_site, close_site, what_was_learned_stays_in_its_files) {
	lose_all_and_reads();
	reads_fail = false;
	turns_until_settled(JOURNAL_ROOM_FEED);
	assert_int_equal(news_of(JOURNAL_NEWS_FOREIGN, JOURNAL_ROOM_FEED), 1);
	open_again();
	turns(8);
	assert_true(room_has("feed", old_feed));
}

/* They say that it stays. */
TEST_IN(open_site, close_site, what_was_learned_stays_though_positions_cannot_be_read_for_a_while) {
	lose_all_and_reads();
	reads_fail = false;
	turns_until_settled(JOURNAL_ROOM_FEED);
	close_journals();
	positions_fail = true;
	open_journals();
	turns(2);
	positions_fail = false;
	turns(20);
	assert_int_equal(atomic_load(&site.segment->header->journals[JOURNAL_ROOM_FEED].fares),
	    JOURNAL_FARES_WELL);
	open_again();
	turns(8);
	assert_true(room_has("feed", old_feed));
}

/* Who restores takes them for none, and its writer does not. */
TEST_IN(open_site, close_site, what_is_restored_without_positions_stays) {
	learn_ceiling("learned.example", 5, "");
	turns(6);
	assert_true(room_has("feed", JOURNAL_POSITIONS_NAME));
	lose_all();
	find_oldest("feed", old_feed);
	positions_fail = true;
	assert_false(restored());
	positions_fail = false;
	open_journals();
	turns_until_settled(JOURNAL_ROOM_FEED);
	turns(8);
	assert_true(room_has("feed", old_feed));
}

/* Its process is killed before it has recorded that they stay. */
TEST_IN(open_site, close_site, what_was_learned_stays_though_its_process_is_killed) {
	lose_all_and_reads();
	reads_fail = false;
	open_again();
	open_again();
	turns_until_settled(JOURNAL_ROOM_FEED);
	open_again();
	turns(8);
	assert_true(room_has("feed", old_feed));
}

TEST_IN(open_site, close_site, what_was_held_is_so_again_though_its_process_was_killed) {
	lose_all_and_reads();
	reads_fail = false;
	open_again();
	open_again();
	turns_until_settled(JOURNAL_ROOM_KEEPER);
	assert_true(is_held("held.example"));
	lose_all();
	assert_true(restored());
	assert_true(is_held("held.example"));
}

/* It has begun a file without what it could not read, and is killed before it has given up. */
TEST_IN(open_site, close_site, what_was_held_stays_though_its_process_is_killed) {
	uint64_t bytes;
	unsigned files;

	lose_all_and_reads();
	files = room_files("keeper", &bytes);
	for (unsigned i = 0; i < 200 && room_files("keeper", &bytes) == files; i++)
		turns(1);
	turns(5);
	reads_fail = false;
	open_again();
	turns_until_settled(JOURNAL_ROOM_KEEPER);
	open_again();
	turns(8);
	assert_true(room_has("keeper", old_keeper));
}

/* Minutes: by then what is new is written all the same. */
TEST_IN(open_site, close_site, what_cannot_be_read_for_long_stays_in_its_files) {
	lose_all_and_reads();
	turns(250);
	turns_until_settled(JOURNAL_ROOM_KEEPER);
	turns_until_settled(JOURNAL_ROOM_FEED);
	assert_int_equal(atomic_load(&site.segment->header->journals[JOURNAL_ROOM_KEEPER].fares),
	    JOURNAL_FARES_WELL);
	reads_fail = false;
	for (unsigned life = 0; life < 3; life++) {
		open_again();
		turns(8);
	}
	assert_true(room_has("feed", old_feed));
	assert_true(room_has("keeper", old_keeper));
}

/* The last word is that of whoever did something meanwhile. */
TEST_IN(open_site, close_site, what_was_resumed_meanwhile_is_not_held_again) {
	/* by_hand() takes the real date, which turns must not overtake: feed/ would seem to have
	 * written the hold after it was resumed */
	wall_ns -= 3600 * NS_PER_SECOND;
	lose_all_and_reads();
	assert_true(by_hand(MANUAL_HOLD, "open.example", 0, "again"));
	assert_true(by_hand(MANUAL_RESUME, "open.example", 0, NULL));
	reads_fail = false;
	turns_until_settled(JOURNAL_ROOM_KEEPER);
	assert_true(is_held("held.example"));
	assert_false(is_held("open.example"));
	lose_all();
	assert_true(restored());
	assert_true(is_held("held.example"));
	assert_false(is_held("open.example"));
}

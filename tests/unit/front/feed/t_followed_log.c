/* SPDX-License-Identifier: ISC */
/* Following a log's files wherever they go: each line once, none twice. */
#include "tests/unit/test.h"

#include <sys/stat.h>

#include "tests/unit/front/feed/followed_world.h"

TEST_IN(prepare, clean, what_is_there_is_old) {
	put(path, "old\nhal");
	begin();
	expect("");
	log_grows("f\nnew\npart", "new|");
	log_grows("ly\n\n", "partly||");
	assert_int_equal(followed.counts.long_lines, 0);
}

TEST_IN(prepare, clean, or_not_by_choice) {
	put(path, "old\nhal");
	begin_with(path, true);
	expect("old|");
	log_grows("f\n", "half|");
	/* that was the first time */
	followed_log_close(&followed);
	begin_with(path, true);
	expect("");
}

TEST_IN(prepare, clean, what_comes_later_is_new) {
	begin();
	assert_int_equal(followed.error, ENOENT);
	expect("");
	log_grows("a\nb\n", "a|b|");
	assert_int_equal(followed.error, 0);
	assert_int_equal(followed.counts.replaced, 0);
}

TEST_IN(prepare, clean, even_while_nobody_looks) {
	begin();
	followed_log_close(&followed);
	put(path, "a\n");
	begin();
	expect("a|");
	begin_again();
	log_grows("b\n", "b|");
}

/* Whoever was started while it was gone, and ended. */
TEST_IN(prepare, clean, even_where_it_was_gone_at_the_last_start) {
	put(path, "");
	begin();
	log_grows("a\n", "a|");
	followed_log_close(&followed);
	assert_int_equal(unlink(path), 0);
	begin();
	followed_log_close(&followed);
	put(path, "b\n");
	begin();
	expect("b|");
	begin_again();
	log_grows("c\n", "c|");
}

TEST_IN(prepare, clean, renamed_and_made_anew) {
	put(path, "");
	begin();
	log_grows("a\n", "a|");
	assert_int_equal(rename(path, other), 0);
	put(other, "b\n");
	expect("b|");
	put(path, "");		/* made, but its writer is still with the old one */
	put(other, "c\n");
	expect("c|");
	put(other, "d\n");
	log_grows("e\n", "d|e|");
	now_ns += 3600 * NS_PER_SECOND;
	put(other, "late\n");	/* another writer is slow */
	expect("late|");
	log_grows("f\n", "f|");
	assert_int_equal(followed.counts.replaced, 1);
	now_ns += 25 * 3600 * NS_PER_SECOND;
	expect("");
	assert_int_equal(followed.count, 1);
	log_grows("g\n", "g|");
}

/* Rotated three times while each writer stays where it is. */
TEST_IN(prepare, clean, all_renamed_files_are_read_on) {
	put(path, "0\n");
	begin();
	log_grows("a\n", "a|");
	assert_int_equal(rename(path, other), 0);
	log_grows("b\n", "b|");
	assert_int_equal(rename(other, third), 0);
	assert_int_equal(rename(path, other), 0);
	put(path, "c\n");
	put(third, "a2\n");
	put(other, "b2\n");
	expect("a2|b2|c|");
	/* and by the next process */
	put(third, "a3\n");
	put(other, "b3\n");
	put(path, "c3\n");
	begin_again();
	expect("a3|b3|c3|");
	assert_int_equal(followed.count, 3);
	/* one was removed when it had been read */
	assert_int_equal(unlink(third), 0);
	now_ns += 100 * NS_PER_SECOND;
	expect("");
	assert_int_equal(followed.count, 2);
	assert_int_equal(followed.counts.lost, 0);
	begin_again();
	assert_int_equal(followed.counts.lost, 0);
	/* and one while nobody looked */
	followed_log_close(&followed);
	put(other, "never\n");
	assert_int_equal(unlink(other), 0);
	begin();
	assert_int_equal(followed.counts.lost, 1);
	expect("");
}

TEST_IN(prepare, clean, more_files_than_are_kept) {
	char name[128], text[16];

	put(path, "");
	begin();
	for (int i = 0; i < FEED_FILES_MAX + 4; i++) {
		snprintf(text, sizeof(text), "%d\n", i);
		put(path, text);
		snprintf(text, sizeof(text), "%d|", i);
		expect(text);
		snprintf(name, sizeof(name), "%s.old%d", path, i);
		assert_int_equal(rename(path, name), 0);
	}
	assert_int_equal(followed.count, FEED_FILES_MAX);
	put(name, "late\n");
	expect("late|");
	begin_again();
	expect("");
	assert_int_equal(followed.count, FEED_FILES_MAX);
}

static void rotate(void) {
	char from[128], to[128];

	for (int i = FEED_FILES_MAX; i > 0; i--) {
		snprintf(to, sizeof(to), "%s.%d", path, i);
		snprintf(from, sizeof(from), i > 1 ? "%s.%d" : "%s", path, i - 1);
		(void)rename(from, to);
	}
}

/* As many files as are kept, and that there was none at first. */
TEST_IN(prepare, clean, a_file_of_many_is_not_read_again) {
	begin();
	for (int i = 0; i < FEED_FILES_MAX - 2; i++) {
		log_grows("a\n", "a|");
		rotate();
	}
	followed_log_close(&followed);
	put(path, "b\n");
	rotate();
	put(path, "c\n");
	begin();
	expect("b|c|");
	begin_again();
	expect("");
}

/* Nobody looked while it was renamed more often than files are kept; returns how many
 * are lost. */
static uint64_t lost_when_renamed(int times) {
	char from[128], to[128];

	put(path, "");
	begin();
	log_grows("0\n", "0|");
	followed_log_close(&followed);
	for (int i = 1; i <= times; i++) {
		char line[16];

		for (int k = i; k > 0; k--) {
			snprintf(to, sizeof(to), "%s.%d", path, k);
			snprintf(from, sizeof(from), k > 1 ? "%s.%d" : "%s", path, k - 1);
			assert_int_equal(rename(from, to), 0);
		}
		snprintf(line, sizeof(line), "%d\n", i);
		put(path, line);
	}
	begin();
	return followed.counts.lost;
}

TEST_IN(prepare, clean, too_many_unread_files_are_counted) {
	assert_int_equal(lost_when_renamed(FEED_FILES_MAX + 1), 1);
	expect("2|3|4|5|6|7|8|9|");
}

/* More than are looked at: the newest are read, in whatever order the directory has
 * them. */
TEST_IN(prepare, clean, far_too_many_unread_files_are_counted) {
	assert_int_equal(lost_when_renamed(LOG_FILES_MAX + 14), LOG_FILES_MAX + 14 -
	    FEED_FILES_MAX);
	expect("23|24|25|26|27|28|29|30|");
}

TEST_IN(prepare, clean, renamed_back) {
	put(path, "");
	begin();
	put(path, "a\n");
	assert_int_equal(rename(path, other), 0);
	log_grows("b\n", "a|b|");
	assert_int_equal(rename(other, path), 0);
	expect("");
	log_grows("c\n", "c|");
	now_ns += 30 * 3600 * NS_PER_SECOND;
	expect("");
	log_grows("d\n", "d|");
}

TEST_IN(prepare, clean, removed_and_made_again) {
	put(path, "");
	begin();
	put(path, "a\n");
	assert_int_equal(unlink(path), 0);
	expect("a|");
	assert_int_equal(followed.error, ENOENT);
	log_grows("b\n", "b|");
	assert_int_equal(followed.error, 0);
}

TEST_IN(prepare, clean, goes_on_where_the_last_one_was) {
	put(path, "old\n");
	begin();
	log_grows("a\n", "a|");
	followed_log_close(&followed);
	put(path, "b\n");
	begin();
	expect("b|");
	/* another file meanwhile: all of it is new, and the rest of the old one is first */
	followed_log_close(&followed);
	put(path, "b2\n");
	assert_int_equal(rename(path, other), 0);
	put(path, "c\n");
	begin();
	expect("b2|c|");
	assert_int_equal(followed.counts.replaced, 1);
	begin_again();
	expect("");
}

TEST_IN(prepare, clean, long_lines_are_passed_over) {
	char *text = malloc(1 << 20);

	assert_non_null(text);
	put(path, "");
	begin();
	memset(text, 'x', (1 << 20) - 1);
	text[(1 << 20) - 1] = '\0';
	put(path, "a\n");
	put(path, text);
	put(path, text);
	expect("a|");
	assert_int_equal(followed.counts.long_lines, 1);
	begin_again();		/* in the middle of it */
	log_grows("x\nb\n", "b|");
	text[FOLLOWED_LINE_MAX + 1] = '\0';
	put(path, text);
	log_grows("\nc\n", "c|");
	assert_int_equal(followed.counts.long_lines, 1);
	text[FOLLOWED_LINE_MAX] = '\0';
	put(path, text);
	put(path, "\n");
	assert_false(second());
	assert_int_equal(seen_length, FOLLOWED_LINE_MAX + 1);
	assert_int_equal(followed.counts.long_lines, 1);
	free(text);
}

TEST_IN(prepare, clean, what_is_no_file_is_told) {
	assert_int_equal(mkdir(path, 0700), 0);
	begin();
	assert_int_equal(followed.error, EINVAL);
	expect("");
	assert_int_equal(followed.error, EINVAL);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect("");
	assert_int_equal(followed.error, EINVAL);
	assert_int_equal(unlink(path), 0);
	log_grows("a\n", "a|");
	log_grows("b\n", "b|");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	expect("");
	assert_int_equal(followed.error, EINVAL);
	assert_int_equal(rmdir(path), 0);
	log_grows("c\n", "c|");
	assert_int_equal(followed.error, 0);
}

TEST_IN(prepare, clean, help_is_asked_for) {
	if (geteuid() != 0)
		skip();
	put(path, "");
	assert_int_equal(chmod(scratch, 0755), 0);
	begin();
	log_grows("a\n", "a|");
	assert_int_equal(rename(path, other), 0);
	put(path, "b\n");
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(seteuid(65534), 0);
	assert_true(second());
	assert_int_equal(followed.error, EACCES);
	assert_int_equal(seteuid(0), 0);
	expect("b|");
	assert_int_equal(followed.error, 0);
}

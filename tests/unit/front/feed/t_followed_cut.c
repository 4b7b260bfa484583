/* SPDX-License-Identifier: ISC */
/* Following logs that are copied and cut, or have dates in their names. */
#include "tests/unit/test.h"

#include <fcntl.h>

#include "tests/unit/front/feed/followed_world.h"

TEST_IN(prepare, clean, copied_and_cut) {
	put(path, "");
	begin();
	log_grows("one line\n", "one line|");
	assert_int_equal(truncate(path, 0), 0);
	log_grows("two\n", "two|");
	assert_int_equal(followed.counts.truncated, 1);
	/* and grown beyond its old length meanwhile */
	assert_int_equal(truncate(path, 0), 0);
	log_grows("three, four, five\nsix\n", "three, four, five|six|");
	assert_int_equal(followed.counts.truncated, 2);
	followed_log_close(&followed);
	assert_int_equal(truncate(path, 0), 0);
	put(path, "seven, eight, nine\nten, eleven\n");
	begin();
	expect("seven, eight, nine|ten, eleven|");
	assert_int_equal(followed.counts.truncated, 1);
}

/* Who does not append writes behind a hole. */
TEST_IN(prepare, clean, cut_under_a_writer_with_a_place) {
	FILE *out = fopen(path, "w");

	begin();
	for (int i = 0; i < 20000; i++)
		fputs("a long line\n", out);
	fflush(out);
	assert_false(second());
	seen_length = 0;
	assert_int_equal(truncate(path, 0), 0);
	fputs("behind\n", out);
	fflush(out);
	expect("behind|");
	fputs("more\n", out);
	fclose(out);
	expect("more|");
	assert_int_equal(followed.counts.truncated, 1);
	assert_int_equal(followed.counts.long_lines, 0);
}

/* A new file may get the number of one that is gone. */
TEST_IN(prepare, clean, the_same_number_again) {
	uint64_t before;

	put(path, "");
	begin();
	log_grows("a first line\n", "a first line|");
	before = followed.files[0].origin;
	followed_log_close(&followed);
	assert_int_equal(unlink(path), 0);
	put(path, "b\n");
	begin();
	expect("b|");
	assert_int_not_equal(followed.files[followed.count - 1].origin, before);
}

/* Lines of one length that differ only in their number, as those of tests do. */
static void put_lines(const char *file, int first, int count) {
	char line[200];

	for (int i = first; i < first + count; i++) {
		snprintf(line, sizeof(line), "%06d %0150d\n", i, 0);
		put(file, line);
	}
}

static void expect_count(size_t count, int first) {
	assert_false(second());
	assert_int_equal(seen_length, count * (6 + 1 + 150 + 1));
	assert_int_equal(strtol(seen, NULL, 10), first);
	seen_length = 0;
	seen[0] = '\0';
}

TEST_IN(prepare, clean, a_copy_in_its_place_goes_on) {
	put(path, "");
	begin();
	put_lines(path, 0, 20);
	expect_count(20, 0);
	put_lines(other, 0, 20);
	put(other, "more\n");
	assert_int_equal(rename(other, path), 0);
	expect("more|");
	/* and what only looks so is none */
	assert_int_equal(rename(path, other), 0);
	put_lines(path, 20, 20);
	expect_count(20, 20);
}

TEST_IN(prepare, clean, cut_and_grown_to_the_same_length) {
	put(path, "");
	begin();
	put_lines(path, 0, 20);
	expect_count(20, 0);
	assert_int_equal(truncate(path, 0), 0);
	put_lines(path, 20, 20);
	expect_count(20, 20);
	assert_int_equal(followed.counts.truncated, 1);
	followed_log_close(&followed);
	assert_int_equal(truncate(path, 0), 0);
	put_lines(path, 40, 30);
	begin();
	expect_count(30, 40);
}

/* --- names with dates ------------------------------------------------------------ */

static const char *dated(int day) {
	static char name[128];

	snprintf(name, sizeof(name), "%s/mail-202609%02d.log", scratch, day);
	return name;
}

static void begin_dated(bool from_begin) {
	char pattern[128];

	snprintf(pattern, sizeof(pattern), "%s/mail-%%Y%%m%%d.log", scratch);
	followed_log_close(&followed);
	begin_with(pattern, from_begin);
}

TEST_IN(prepare, clean, files_named_by_date) {
	put(dated(1), "old\n");
	put(dated(2), "old\n");
	begin_dated(false);
	put(dated(2), "a\n");
	expect("a|");
	put(dated(1), "late\n");
	put(dated(3), "b\n");
	expect("late|b|");
	assert_int_equal(followed.counts.replaced, 1);
	put(dated(2), "a2\n");
	put(dated(3), "b2\n");
	expect("a2|b2|");
	/* while nobody looks */
	followed_log_close(&followed);
	put(dated(3), "b3\n");
	put(dated(5), "c\n");
	put(dated(4), "d\n");
	begin_dated(false);
	expect("b3|d|c|");
	/* one that is older than all is none of ours */
	snprintf(other, sizeof(other), "%s/mail-20260831.log", scratch);
	put(other, "archive\n");
	snprintf(other, sizeof(other), "%s/mail-202610.log", scratch);
	put(other, "no date\n");
	expect("");
	assert_int_equal(followed.count, 5);
}

TEST_IN(prepare, clean, the_newest_by_choice) {
	for (int day = 1; day <= 20; day++)
		put(dated(day), day % 2 ? "odd\n" : "even\n");
	begin_dated(true);
	expect("odd|even|odd|even|odd|even|odd|even|");
	put(dated(21), "x\n");
	put(dated(13), "gone\n");	/* the oldest made room */
	put(dated(14), "kept\n");
	assert_false(second());
	expect("gone|kept|x|");
	put(dated(13), "gone\n");
	expect("");
	begin_dated(true);
	put(dated(14), "kept\n");
	expect("kept|");
}

TEST_IN(prepare, clean, none_yet_by_that_name) {
	begin_dated(false);
	assert_int_equal(followed.error, ENOENT);
	begin_dated(false);
	put(dated(7), "a\n");
	expect("a|");
	assert_int_equal(followed.error, 0);
	assert_int_equal(unlink(dated(7)), 0);
	put(dated(8), "b\n");
	expect("b|");
}

/* A pattern that matches the copy, too. */
TEST_IN(prepare, clean, copied_and_cut_beside_its_copy) {
	char pattern[128];

	snprintf(pattern, sizeof(pattern), "%s/log*", scratch);
	put(path, "");
	begin_with(pattern, false);
	put_lines(path, 0, 20);
	expect_count(20, 0);
	put(path, "unread\n");
	put_lines(other, 0, 20);
	put(other, "unread\n");
	assert_int_equal(truncate(path, 0), 0);
	put(path, "new\n");
	assert_false(second());
	expect("new|unread|");
	/* and one that was not cut */
	put_lines(path, 40, 20);
	assert_false(second());
	seen_length = 0;
	seen[0] = '\0';
	put(third, "new\n");
	put_lines(third, 40, 20);
	put(third, "unread\n");
	expect("");
}

/* SPDX-License-Identifier: ISC */
/* Following a log's files wherever they go: each line once, none twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "front/followed_log.h"
#include "tests/unit/feed_records.h"

#define CHUNK (4 * FOLLOWED_LINE_MAX)

static char directory[64], path[96], other[96], third[96];
static struct followed_log followed;
static struct feed_records records;
static struct followed_keeper keeper;
static char *chunk, *seen;
static size_t seen_length;
static int64_t now_ns;

static int prepare(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/t_followed.XXXXXX");
	if (mkdtemp(directory) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/log", directory);
	snprintf(other, sizeof(other), "%s/log.1", directory);
	snprintf(third, sizeof(third), "%s/log.2", directory);
	chunk = malloc(CHUNK);
	seen = calloc(1, 1 << 20);
	seen_length = 0;
	now_ns = 1000 * NS_PER_SECOND;
	feed_records_begin(&records, &keeper);
	return chunk == NULL || seen == NULL;
}

static int clean(void **state)
{
	const struct dirent *entry;
	DIR *stream = opendir(directory);

	(void)state;
	followed_log_close(&followed);
	while (stream != NULL && (entry = readdir(stream)) != NULL)
		(void)unlinkat(dirfd(stream), entry->d_name, 0);
	closedir(stream);
	free(chunk);
	free(seen);
	return rmdir(directory);
}

static void put(const char *file, const char *text)
{
	FILE *out = fopen(file, "a");

	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

/* Lines come out with a | behind each. */
static bool keep(void *context, const struct followed_file *file, const char *line,
    size_t length)
{
	(void)context;
	assert_true(file->position.spot.offset > 0 && file->origin != 0);
	memcpy(seen + seen_length, line, length);
	seen_length += length;
	seen[seen_length++] = '|';
	seen[seen_length] = '\0';
	return seen_length % 2 == 0;
}

static void begin_with(const char *log, bool from_begin)
{
	struct feed_position known[FEED_FILES_MAX];
	uint32_t numbers[FEED_FILES_MAX];
	const struct followed_start start = { .known = known, .records = numbers,
		.known_count = feed_records_list(&records, feed_log_id(log), known, numbers),
		.from_begin = from_begin };

	followed_log_open(&followed, log, &start, &keeper, now_ns);
}

static void begin(void)
{
	begin_with(path, false);
}

static void begin_again(void)
{
	followed_log_close(&followed);
	begin();
}

static void read_all(void)
{
	const struct followed_reader reader = { .buffer = chunk, .buffer_size = CHUNK,
		.each = keep };

	while (followed_log_read(&followed, &reader, now_ns))
		continue;
}

/* A second goes by. */
static bool second(void)
{
	bool help;

	now_ns += NS_PER_SECOND;
	read_all();
	help = followed_log_look(&followed, now_ns);
	read_all();
	return help;
}

static void expect(const char *lines)
{
	assert_false(second());
	assert_string_equal(seen, lines);
	seen_length = 0;
	seen[0] = '\0';
}

static void what_is_there_is_old(void **state)
{
	(void)state;
	put(path, "old\nhal");
	begin();
	expect("");
	put(path, "f\nnew\npart");
	expect("new|");
	put(path, "ly\n\n");
	expect("partly||");
	assert_int_equal(followed.counts.long_lines, 0);
}

static void or_not_by_choice(void **state)
{
	(void)state;
	put(path, "old\nhal");
	begin_with(path, true);
	expect("old|");
	put(path, "f\n");
	expect("half|");
	/* that was the first time */
	followed_log_close(&followed);
	begin_with(path, true);
	expect("");
}

static void what_comes_later_is_new(void **state)
{
	(void)state;
	begin();
	assert_int_equal(followed.error, ENOENT);
	expect("");
	put(path, "a\nb\n");
	expect("a|b|");
	assert_int_equal(followed.error, 0);
	assert_int_equal(followed.counts.replaced, 0);
}

static void even_while_nobody_looks(void **state)
{
	(void)state;
	begin();
	followed_log_close(&followed);
	put(path, "a\n");
	begin();
	expect("a|");
	begin_again();
	put(path, "b\n");
	expect("b|");
}

static void renamed_and_made_anew(void **state)
{
	(void)state;
	put(path, "");
	begin();
	put(path, "a\n");
	expect("a|");
	assert_int_equal(rename(path, other), 0);
	put(other, "b\n");
	expect("b|");
	put(path, "");		/* made, but its writer is still with the old one */
	put(other, "c\n");
	expect("c|");
	put(other, "d\n");
	put(path, "e\n");
	expect("d|e|");
	now_ns += 3600 * NS_PER_SECOND;
	put(other, "late\n");	/* another writer is slow */
	expect("late|");
	put(path, "f\n");
	expect("f|");
	assert_int_equal(followed.counts.replaced, 1);
	now_ns += 25 * 3600 * NS_PER_SECOND;
	expect("");
	assert_int_equal(followed.count, 1);
	put(path, "g\n");
	expect("g|");
}

/* Rotated three times while each writer stays where it is. */
static void all_renamed_files_are_read_on(void **state)
{
	(void)state;
	put(path, "0\n");
	begin();
	put(path, "a\n");
	expect("a|");
	assert_int_equal(rename(path, other), 0);
	put(path, "b\n");
	expect("b|");
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

static void more_files_than_are_kept(void **state)
{
	char name[128], text[16];

	(void)state;
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

/* Nobody looked while it was renamed more often than files are kept; returns how many
 * are lost. */
static uint64_t lost_when_renamed(int times)
{
	char from[128], to[128];

	put(path, "");
	begin();
	put(path, "0\n");
	expect("0|");
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

static void too_many_unread_files_are_counted(void **state)
{
	(void)state;
	assert_int_equal(lost_when_renamed(FEED_FILES_MAX + 1), 1);
	expect("2|3|4|5|6|7|8|9|");
}

/* More than are looked at: the newest are read, in whatever order the directory has
 * them. */
static void far_too_many_unread_files_are_counted(void **state)
{
	(void)state;
	assert_int_equal(lost_when_renamed(LOG_FILES_MAX + 14), LOG_FILES_MAX + 14 -
	    FEED_FILES_MAX);
	expect("23|24|25|26|27|28|29|30|");
}

static void renamed_back(void **state)
{
	(void)state;
	put(path, "");
	begin();
	put(path, "a\n");
	assert_int_equal(rename(path, other), 0);
	put(path, "b\n");
	expect("a|b|");
	assert_int_equal(rename(other, path), 0);
	expect("");
	put(path, "c\n");
	expect("c|");
	now_ns += 30 * 3600 * NS_PER_SECOND;
	expect("");
	put(path, "d\n");
	expect("d|");
}

static void copied_and_cut(void **state)
{
	(void)state;
	put(path, "");
	begin();
	put(path, "one line\n");
	expect("one line|");
	assert_int_equal(truncate(path, 0), 0);
	put(path, "two\n");
	expect("two|");
	assert_int_equal(followed.counts.truncated, 1);
	/* and grown beyond its old length meanwhile */
	assert_int_equal(truncate(path, 0), 0);
	put(path, "three, four, five\nsix\n");
	expect("three, four, five|six|");
	assert_int_equal(followed.counts.truncated, 2);
	followed_log_close(&followed);
	assert_int_equal(truncate(path, 0), 0);
	put(path, "seven, eight, nine\nten, eleven\n");
	begin();
	expect("seven, eight, nine|ten, eleven|");
	assert_int_equal(followed.counts.truncated, 1);
}

/* Who does not append writes behind a hole. */
static void cut_under_a_writer_with_a_place(void **state)
{
	FILE *out = fopen(path, "w");

	(void)state;
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

static void removed_and_made_again(void **state)
{
	(void)state;
	put(path, "");
	begin();
	put(path, "a\n");
	assert_int_equal(unlink(path), 0);
	expect("a|");
	assert_int_equal(followed.error, ENOENT);
	put(path, "b\n");
	expect("b|");
	assert_int_equal(followed.error, 0);
}

/* A new file may get the number of one that is gone. */
static void the_same_number_again(void **state)
{
	uint64_t before;

	(void)state;
	put(path, "");
	begin();
	put(path, "a first line\n");
	expect("a first line|");
	before = followed.files[0].origin;
	followed_log_close(&followed);
	assert_int_equal(unlink(path), 0);
	put(path, "b\n");
	begin();
	expect("b|");
	assert_int_not_equal(followed.files[followed.count - 1].origin, before);
}

static void goes_on_where_the_last_one_was(void **state)
{
	(void)state;
	put(path, "old\n");
	begin();
	put(path, "a\n");
	expect("a|");
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

/* Lines of one length that differ only in their number, as those of tests do. */
static void put_lines(const char *file, int first, int count)
{
	char line[200];

	for (int i = first; i < first + count; i++) {
		snprintf(line, sizeof(line), "%06d %0150d\n", i, 0);
		put(file, line);
	}
}

static void expect_count(size_t count, int first)
{
	assert_false(second());
	assert_int_equal(seen_length, count * (6 + 1 + 150 + 1));
	assert_int_equal(strtol(seen, NULL, 10), first);
	seen_length = 0;
	seen[0] = '\0';
}

static void a_copy_in_its_place_goes_on(void **state)
{
	(void)state;
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

static void cut_and_grown_to_the_same_length(void **state)
{
	(void)state;
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

static void long_lines_are_passed_over(void **state)
{
	char *text = malloc(1 << 20);

	(void)state;
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
	put(path, "x\nb\n");
	expect("b|");
	text[FOLLOWED_LINE_MAX + 1] = '\0';
	put(path, text);
	put(path, "\nc\n");
	expect("c|");
	assert_int_equal(followed.counts.long_lines, 1);
	text[FOLLOWED_LINE_MAX] = '\0';
	put(path, text);
	put(path, "\n");
	assert_false(second());
	assert_int_equal(seen_length, FOLLOWED_LINE_MAX + 1);
	assert_int_equal(followed.counts.long_lines, 1);
	free(text);
}

static void what_is_no_file_is_told(void **state)
{
	(void)state;
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
	put(path, "a\n");
	expect("a|");
	put(path, "b\n");
	expect("b|");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	expect("");
	assert_int_equal(followed.error, EINVAL);
	assert_int_equal(rmdir(path), 0);
	put(path, "c\n");
	expect("c|");
	assert_int_equal(followed.error, 0);
}

static void help_is_asked_for(void **state)
{
	(void)state;
	if (geteuid() == 0 && seteuid(65534) != 0)
		skip();
	assert_int_equal(seteuid(0), 0);
	put(path, "");
	assert_int_equal(chmod(directory, 0755), 0);
	begin();
	put(path, "a\n");
	expect("a|");
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

/* --- names with dates ------------------------------------------------------------ */

static const char *dated(int day)
{
	static char name[128];

	snprintf(name, sizeof(name), "%s/mail-202609%02d.log", directory, day);
	return name;
}

static void begin_dated(bool from_begin)
{
	char pattern[128];

	snprintf(pattern, sizeof(pattern), "%s/mail-%%Y%%m%%d.log", directory);
	followed_log_close(&followed);
	begin_with(pattern, from_begin);
}

static void files_named_by_date(void **state)
{
	(void)state;
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
	snprintf(other, sizeof(other), "%s/mail-20260831.log", directory);
	put(other, "archive\n");
	snprintf(other, sizeof(other), "%s/mail-202610.log", directory);
	put(other, "no date\n");
	expect("");
	assert_int_equal(followed.count, 5);
}

static void the_newest_by_choice(void **state)
{
	(void)state;
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

static void none_yet_by_that_name(void **state)
{
	(void)state;
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
static void copied_and_cut_beside_its_copy(void **state)
{
	char pattern[128];

	(void)state;
	snprintf(pattern, sizeof(pattern), "%s/log*", directory);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, prepare, clean)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_there_is_old),
		TEST(or_not_by_choice),
		TEST(what_comes_later_is_new),
		TEST(even_while_nobody_looks),
		TEST(renamed_and_made_anew),
		TEST(all_renamed_files_are_read_on),
		TEST(more_files_than_are_kept),
		TEST(too_many_unread_files_are_counted),
		TEST(far_too_many_unread_files_are_counted),
		TEST(renamed_back),
		TEST(copied_and_cut),
		TEST(cut_under_a_writer_with_a_place),
		TEST(removed_and_made_again),
		TEST(the_same_number_again),
		TEST(goes_on_where_the_last_one_was),
		TEST(a_copy_in_its_place_goes_on),
		TEST(cut_and_grown_to_the_same_length),
		TEST(long_lines_are_passed_over),
		TEST(what_is_no_file_is_told),
		TEST(help_is_asked_for),
		TEST(files_named_by_date),
		TEST(the_newest_by_choice),
		TEST(none_yet_by_that_name),
		TEST(copied_and_cut_beside_its_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: ISC */
/* Following a file wherever it goes: each line once, none twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "front/followed_log.h"

#define CHUNK (4 * FOLLOWED_LINE_MAX)

static char directory[64], path[96], other[96];
static struct followed_log followed;
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
	chunk = malloc(CHUNK);
	seen = calloc(1, 1 << 20);
	seen_length = 0;
	now_ns = NS_PER_SECOND;
	return chunk == NULL || seen == NULL;
}

static int clean(void **state)
{
	(void)state;
	followed_log_close(&followed);
	unlink(path);
	unlink(other);
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
static void keep(void *context, const char *line, size_t length)
{
	(void)context;
	memcpy(seen + seen_length, line, length);
	seen_length += length;
	seen[seen_length++] = '|';
	seen[seen_length] = '\0';
}

/* A second goes by. */
static bool second(void)
{
	bool help;

	now_ns += NS_PER_SECOND;
	while (followed_log_read(&followed, chunk, CHUNK, keep, NULL))
		continue;
	help = followed_log_look(&followed, now_ns);
	while (followed_log_read(&followed, chunk, CHUNK, keep, NULL))
		continue;
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
	followed_log_open(&followed, path, -1, NULL);
	expect("");
	put(path, "f\nnew\npart");
	expect("new|");
	put(path, "ly\n\n");
	expect("partly||");
	assert_int_equal(followed.long_lines, 0);
}

static void what_comes_later_is_new(void **state)
{
	(void)state;
	followed_log_open(&followed, path, -1, NULL);
	assert_int_equal(followed.error, ENOENT);
	expect("");
	put(path, "a\nb\n");
	expect("a|b|");
	assert_int_equal(followed.error, 0);
}

static void renamed_and_made_anew(void **state)
{
	(void)state;
	put(path, "");
	followed_log_open(&followed, path, -1, NULL);
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
	put(other, "late\n");	/* another writer is slow */
	expect("late|");
	put(path, "f\n");
	expect("f|");
	assert_int_equal(followed.replaced, 1);
	now_ns += 60 * NS_PER_SECOND;
	expect("");
	assert_int_equal(followed.before.fd, -1);
}

static void copied_and_cut(void **state)
{
	(void)state;
	put(path, "");
	followed_log_open(&followed, path, -1, NULL);
	put(path, "one line\n");
	expect("one line|");
	assert_int_equal(truncate(path, 0), 0);
	put(path, "two\n");
	expect("two|");
	assert_int_equal(followed.truncated, 1);
}

static void removed_and_made_again(void **state)
{
	(void)state;
	put(path, "");
	followed_log_open(&followed, path, -1, NULL);
	put(path, "a\n");
	assert_int_equal(unlink(path), 0);
	expect("a|");
	assert_int_equal(followed.error, ENOENT);
	put(path, "b\n");
	expect("b|");
	assert_int_equal(followed.error, 0);
}

static void goes_on_where_the_last_one_was(void **state)
{
	struct followed_place place;

	(void)state;
	put(path, "old\n");
	followed_log_open(&followed, path, -1, NULL);
	put(path, "a\n");
	expect("a|");
	assert_true(followed_log_place(&followed, &place));
	followed_log_close(&followed);
	put(path, "b\n");
	followed_log_open(&followed, path, -1, &place);
	expect("b|");
	/* another file meanwhile: all of it is new */
	assert_true(followed_log_place(&followed, &place));
	followed_log_close(&followed);
	assert_int_equal(rename(path, other), 0);
	put(path, "c\n");
	followed_log_open(&followed, path, -1, &place);
	expect("c|");
	assert_int_equal(followed.replaced, 1);
	/* cut meanwhile */
	put(path, "longer\n");
	expect("longer|");
	assert_true(followed_log_place(&followed, &place));
	followed_log_close(&followed);
	assert_int_equal(truncate(path, 0), 0);
	put(path, "d\n");
	followed_log_open(&followed, path, -1, &place);
	expect("d|");
	assert_int_equal(followed.truncated, 1);
}

static void the_rest_of_the_last_one_comes_first(void **state)
{
	struct followed_place place, now;

	(void)state;
	put(path, "");
	followed_log_open(&followed, path, -1, NULL);
	put(path, "a\n");
	expect("a|");
	assert_true(followed_log_place(&followed, &place));
	followed_log_close(&followed);
	put(path, "b\n");
	assert_int_equal(rename(path, other), 0);
	put(path, "c\n");
	followed_log_open(&followed, path, -1, &place);
	followed_log_before(&followed, open(other, O_RDONLY), &place, now_ns);
	assert_true(followed_log_place(&followed, &now));
	assert_int_equal(now.inode, place.inode);	/* until it was read */
	expect("b|c|");
	assert_true(followed_log_place(&followed, &now));
	assert_int_not_equal(now.inode, place.inode);
	/* what is another file is not taken for it */
	followed_log_close(&followed);
	followed_log_open(&followed, path, -1, &now);
	followed_log_before(&followed, open(other, O_RDONLY), &now, now_ns);
	assert_int_equal(followed.before.fd, -1);
	expect("");
}

static void long_lines_are_passed_over(void **state)
{
	char *text = malloc(1 << 20);

	(void)state;
	assert_non_null(text);
	put(path, "");
	followed_log_open(&followed, path, -1, NULL);
	memset(text, 'x', (1 << 20) - 1);
	text[(1 << 20) - 1] = '\0';
	put(path, "a\n");
	put(path, text);
	put(path, text);
	expect("a|");
	assert_int_equal(followed.long_lines, 1);
	put(path, "x\nb\n");
	expect("b|");
	text[FOLLOWED_LINE_MAX + 1] = '\0';
	put(path, text);
	put(path, "\nc\n");
	expect("c|");
	assert_int_equal(followed.long_lines, 2);
	text[FOLLOWED_LINE_MAX] = '\0';
	put(path, text);
	put(path, "\n");
	assert_false(second());
	assert_int_equal(seen_length, FOLLOWED_LINE_MAX + 1);
	assert_int_equal(followed.long_lines, 2);
	free(text);
}

static void what_is_no_file_is_told(void **state)
{
	(void)state;
	assert_int_equal(mkdir(path, 0700), 0);
	followed_log_open(&followed, path, -1, NULL);
	assert_int_equal(followed.error, EINVAL);
	expect("");
	assert_int_equal(followed.error, EINVAL);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect("");
	assert_int_equal(followed.error, EINVAL);
	assert_int_equal(unlink(path), 0);
	put(path, "a\n");
	expect("");		/* nobody saw it appear */
	put(path, "b\n");
	expect("b|");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	expect("");
	assert_int_equal(followed.error, EINVAL);
	assert_int_equal(rmdir(path), 0);
	put(path, "c\n");
	expect("c|");
}

static void asks_who_may_open_it(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	put(path, "");
	followed_log_open(&followed, path, -1, NULL);
	put(path, "a\n");
	assert_int_equal(rename(path, other), 0);
	put(path, "b\n");
	assert_int_equal(chmod(path, 0), 0);
	assert_int_equal(chmod(directory, 0755), 0);
	assert_int_equal(seteuid(65534), 0);
	assert_true(second());
	assert_int_equal(seteuid(0), 0);
	assert_string_equal(seen, "a|");
	assert_int_equal(followed.error, EACCES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, prepare, clean)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_there_is_old),
		TEST(what_comes_later_is_new),
		TEST(renamed_and_made_anew),
		TEST(copied_and_cut),
		TEST(removed_and_made_again),
		TEST(goes_on_where_the_last_one_was),
		TEST(the_rest_of_the_last_one_comes_first),
		TEST(long_lines_are_passed_over),
		TEST(what_is_no_file_is_told),
		TEST(asks_who_may_open_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

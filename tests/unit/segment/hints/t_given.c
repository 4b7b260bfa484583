/* SPDX-License-Identifier: ISC */
/* The file of numbers that postern-lookup may use. */
#include "tests/unit/test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/hints/given.h"
#include "segment/hints/hints.h"

static char path[64], file[80];
static struct given_out *given;

static int begin(void **state) {
	struct diag diag;

	snprintf(path, sizeof(path), "/dev/shm/t_given.%ld", (long)getpid());
	snprintf(file, sizeof(file), "%s.given", path);
	given = given_make(path, getgid(), &diag);
	assert_non_null(given);
	return 0;
}

static int end(void **state) {
	given_free(&given);
	(void)unlink(file);
	return 0;
}

TEST_IN(begin, end, numbers_are_used_once) {
	struct given_out *reader = given_open_for_taking(path, given_id(given));

	assert_non_null(reader);
	assert_false(given_take(reader, 3, 2));
	given_add(given, 3, 2, 5);
	for (unsigned i = 0; i < 3; i++)
		assert_true(given_take(reader, 3, 2));
	assert_false(given_take(reader, 2, 3));
	assert_int_equal(given_left(given, 3, 2), 2);
	assert_int_equal(given_take_back(given, 3, 2, 1), 1);
	assert_true(given_take(reader, 3, 2));
	assert_false(given_take(reader, 3, 2));
	assert_int_equal(given_take_back(given, 3, 2, 9), 0);
	given_free(&reader);
}

TEST_IN(begin, end, the_file_is_of_the_group_alone) {
	struct stat status;

	assert_int_equal(stat(file, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0660);
	assert_int_equal(status.st_gid, getgid());
}

TEST_IN(begin, end, another_file_is_not_taken_for_it) {
	struct given_out *before = given, *reader;
	struct diag diag;

	given_add(before, 0, 0, 5);
	given_set_key(before, 0, 0, 4711);
	assert_null(given_open_for_taking(path, given_id(before) + 1));
	given = given_make(path, (gid_t)-1, &diag);
	assert_null(given_open_for_taking(path, given_id(before)));
	reader = given_open_for_taking(path, given_id(given));
	assert_false(given_take(reader, 0, 0));
	given_free(&reader);
	/* what is left there is nobody's from then on */
	assert_int_equal(given_close_key(before, 4712), 0);
	assert_int_equal(given_close_key(before, 4711), 5);
	assert_int_equal(given_close_key(before, 4711), 0);
	assert_false(given_take(before, 0, 0));
	given_free(&before);
}

TEST_IN(begin, end, what_is_no_such_file) {
	assert_false(given_was_cut(given));
	assert_int_equal(truncate(file, 100), 0);
	assert_true(given_was_cut(given));
	assert_false(given_take(given, 0, 0));
	assert_null(given_open(path));
	assert_int_equal(truncate(file, 0), 0);
	assert_int_equal(truncate(file, 100000), 0);	/* zeros */
	assert_null(given_open(path));
	assert_int_equal(unlink(file), 0);
	assert_null(given_open(path));
	assert_int_equal(symlink("/dev/zero", file), 0);
	assert_null(given_open(path));
}

/* It may be cut, and made longer again, between a look at its size and the next touch. */
TEST_IN(begin, end, a_file_that_is_cut_at_any_moment_ends_nobody) {
	hints_reader_outlive_cuts();
	given_add(given, 0, 0, 5);
	assert_int_equal(truncate(file, 0), 0);
	assert_int_equal(given_left(given, 0, 0), 0);
	given_add(given, 63, 15, 5);
	given_set_key(given, 63, 15, 4711);
	assert_int_equal(truncate(file, 100000), 0);
	assert_true(given_was_cut(given));
	assert_false(given_take(given, 63, 15));
	/* another one is as whole as ever */
	assert_int_equal(end(NULL) + begin(NULL), 0);
	assert_false(given_was_cut(given));
}

/* Processes that take at once, and one that adds: all of them together get what there is. */
TEST_IN(begin, end, several_processes_take_each_number_once) {
	enum { READERS = 4, ALL = 40000 };
	unsigned sum = 0;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	for (unsigned i = 0; i < READERS; i++) {
		struct given_out *reader = given_open_for_taking(path, given_id(given));
		unsigned count = 0;

		if (fork() != 0) {
			given_free(&reader);
			continue;
		}
		while (given_left(reader, 1, 1) == 0)
			;
		for (unsigned tries = 0; tries < 3 * ALL / READERS; tries++)
			count += given_take(reader, 0, 0);
		(void)!write(ends[1], &count, sizeof(count));
		_exit(0);
	}
	given_add(given, 1, 1, 1);
	for (unsigned i = 0; i < ALL / 10; i++)
		given_add(given, 0, 0, 10);
	for (unsigned i = 0; i < READERS; i++) {
		unsigned count;

		assert_int_equal(read(ends[0], &count, sizeof(count)), sizeof(count));
		sum += count;
		(void)wait(NULL);
	}
	assert_int_equal(sum + given_left(given, 0, 0), ALL);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

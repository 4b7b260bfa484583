/* SPDX-License-Identifier: ISC */
/* Is what was opened by a name the only file of that name?  In a directory where another user may
 * put and take away names at each moment. */
#include <fcntl.h>
#include "tests/unit/test.h"
#include "base/trusted_path.h"
#include "tests/unit/scratch.h"

static int directory_fd, fd;

static void make(const char *name) {
	int made = openat(directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	assert_true(made >= 0);
	close(made);
}

/* "lock" is another name of "other", and opened. */
static int set_up(void **state) {
	if (scratch_open(state) != 0)
		return -1;
	directory_fd = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make("other");
	if (linkat(directory_fd, "other", directory_fd, "lock", 0) != 0)
		return -1;
	fd = openat(directory_fd, "lock", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -1 : 0;
}

static int tear_down(void **state) {
	close(fd);
	close(directory_fd);
	return scratch_close(state);
}

static bool is_only(const char *name) {
	struct stat status;

	return trusted_path_is_only_name(fd, directory_fd, name, &status);
}

TEST_IN(set_up, tear_down, a_file_of_one_name_is_taken) {
	assert_int_equal(unlinkat(directory_fd, "other", 0), 0);
	assert_true(is_only("lock"));
}

TEST_IN(set_up, tear_down, a_second_name_is_seen) {
	assert_false(is_only("lock"));
}

/* Between open and fstat: the file has one name again, and it is not this one. */
TEST_IN(set_up, tear_down, a_second_name_that_was_removed_meanwhile_is_seen) {
	assert_int_equal(unlinkat(directory_fd, "lock", 0), 0);
	assert_false(is_only("lock"));
	make("lock");
	assert_false(is_only("lock"));
}

TEST_IN(set_up, tear_down, a_link_to_the_file_is_not_its_name) {
	assert_int_equal(unlinkat(directory_fd, "lock", 0), 0);
	assert_int_equal(symlinkat("other", directory_fd, "lock"), 0);
	assert_false(is_only("lock"));
}

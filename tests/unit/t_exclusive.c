/* SPDX-License-Identifier: ISC */
/* The locks of a state, in a directory where somebody else may have put anything. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file_lock.h"
#include "segment/segment.h"

static char directory[64], path[96], lock[128], other[128];

static int set_up(void **state) {
	int fd;

	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/postern-test-XXXXXX");
	if (mkdtemp(directory) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/state", directory);
	snprintf(lock, sizeof(lock), "%s.roles", path);
	snprintf(other, sizeof(other), "%s/other", directory);
	fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state) {
	(void)state;
	(void)unlink(lock);
	(void)unlink(other);
	return rmdir(directory);
}

static mode_t mode_of(const char *file) {
	struct stat status;

	assert_int_equal(stat(file, &status), 0);
	return status.st_mode & 07777;
}

static void a_lock_is_made_and_shared(void **state) {
	struct diag diag;
	int one, two;

	(void)state;
	one = segment_lock_role(path, &diag);
	two = segment_lock_role(path, &diag);
	assert_true(one >= 0 && two >= 0);
	assert_int_equal(mode_of(lock), 0600);
	close(one);
	close(two);
}

/* As root it would change the mode of a file of somebody else's, and lock it. */
static void a_file_with_a_second_name_is_not_locked(void **state) {
	struct diag diag;

	(void)state;
	assert_int_equal(link(other, lock), 0);
	assert_int_equal(segment_lock_role(path, &diag), -1);
	assert_non_null(strstr(diag.text, "is no file of Postern's"));
	assert_int_equal(mode_of(other), 0644);
}

static void a_link_is_not_followed(void **state) {
	struct diag diag;

	(void)state;
	assert_int_equal(symlink("other", lock), 0);
	assert_int_equal(segment_lock_role(path, &diag), -1);
	assert_int_equal(mode_of(other), 0644);
}

static void a_fifo_hangs_nobody(void **state) {
	struct diag diag;

	(void)state;
	assert_int_equal(mkfifo(lock, 0600), 0);
	assert_int_equal(segment_lock_role(path, &diag), -1);
}

/* The message goes to root's terminal; a role can write the file. */
static void a_holder_that_a_role_wrote_is_a_number(void **state) {
	static const char spoiled[] = "17\x1b]0;owned\x07\x1b[31m";
	struct diag diag;
	int fd, taken;

	(void)state;
	snprintf(lock, sizeof(lock), "%s.lock", path);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && file_lock(fd, true) == 0);
	assert_int_equal(write(fd, spoiled, sizeof(spoiled)), sizeof(spoiled));
	assert_int_equal(segment_lock(path, &taken, &diag), -1);
	assert_non_null(strstr(diag.text, "(pid 17)"));
	close(fd);
}

/* A role that could lock all others out: each ended with 75. */
static void who_has_the_lock_of_a_role_shuts_no_other_out(void **state) {
	struct diag diag;
	int one, two;

	(void)state;
	one = segment_lock_role(path, &diag);
	assert_true(one >= 0);
	assert_int_equal(file_lock(one, true), -1);
	assert_int_equal(errno, EBADF);
	(void)flock(one, LOCK_EX | LOCK_NB);
	two = segment_lock_role(path, &diag);
	assert_true(two >= 0);
	close(one);
	close(two);
}

static void a_lock_file_of_another_user_is_refused(void **state) {
	struct diag diag;
	int fd;

	(void)state;
	if (geteuid() != 0)
		skip();
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fchown(fd, 1, 1), 0);
	assert_int_equal(segment_lock_role(path, &diag), -1);
	assert_non_null(strstr(diag.text, "belongs to user 1"));
	assert_int_equal(fchown(fd, 0, 0), 0);
	close(fd);
	fd = segment_lock_role(path, &diag);
	assert_true(fd >= 0);
	close(fd);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_lock_is_made_and_shared, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_file_with_a_second_name_is_not_locked, set_up,
		    tear_down),
		cmocka_unit_test_setup_teardown(a_link_is_not_followed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_fifo_hangs_nobody, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_has_the_lock_of_a_role_shuts_no_other_out,
		    set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_lock_file_of_another_user_is_refused, set_up,
		    tear_down),
		cmocka_unit_test_setup_teardown(a_holder_that_a_role_wrote_is_a_number, set_up,
		    tear_down),
	};

	return cmocka_run_group_tests_name("exclusive", tests, NULL, NULL);
}

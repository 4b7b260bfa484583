/* SPDX-License-Identifier: ISC */
/* The locks of a state, in a directory where somebody else may have put anything. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include "tests/unit/test.h"
#include "base/file_lock.h"
#include "segment/reader.h"
#include "segment/file/segment.h"
#include "tests/unit/scratch.h"

static char path[96], lock[128], other[128];

static int set_up(void **state) {
	int fd;

	if (scratch_open(state) != 0)
		return -1;
	snprintf(path, sizeof(path), "%s/state", scratch);
	snprintf(lock, sizeof(lock), "%s.lock", path);
	snprintf(other, sizeof(other), "%s/other", scratch);
	fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return fd < 0 ? -1 : close(fd);
}

static unsigned count_of_aside(void) {
	struct dirent *entry;
	DIR *files = opendir(scratch);
	unsigned count = 0;

	assert_non_null(files);
	while ((entry = readdir(files)) != NULL)
		count += strncmp(entry->d_name, "state.lock.foreign-", 19) == 0;
	closedir(files);
	return count;
}

static mode_t mode_of(const char *file) {
	struct stat status;

	assert_int_equal(stat(file, &status), 0);
	return status.st_mode & 07777;
}

TEST_IN(set_up, scratch_close, roles_share_what_the_supervisor_opened) {
	struct diag diag;
	int fd, one, two;

	assert_int_equal(segment_lock(path, &fd, &diag), 0);
	assert_int_equal(mode_of(lock), 0600);
	one = segment_lock_role(fd, &diag);
	two = segment_lock_role(fd, &diag);
	assert_true(one >= 0 && two >= 0);
	close(one);
	close(two);
	close(fd);
}

TEST_IN(set_up, scratch_close, the_next_supervisor_waits_for_each_role) {
	struct diag diag;
	int fd, role;

	assert_int_equal(segment_lock(path, &fd, &diag), 0);
	role = segment_lock_role(fd, &diag);
	assert_true(role >= 0);
	close(fd);
	assert_int_equal(segment_lock(path, &fd, &diag), -1);
	assert_non_null(strstr(diag.text, "processes of an earlier posternd"));
	close(role);
	assert_int_equal(segment_lock(path, &fd, &diag), 0);
	close(fd);
}

/* A role can replace the name in its directory: the others were not started again then, nor
 * was the daemon. */
TEST_IN(set_up, scratch_close, a_lock_that_a_role_replaced_stops_no_role_and_no_start) {
	struct diag diag;
	int fd, role;

	assert_int_equal(segment_lock(path, &fd, &diag), 0);
	assert_int_equal(unlink(lock), 0);
	assert_int_equal(mkdir(lock, 0755), 0);
	role = segment_lock_role(fd, &diag);
	assert_true(role >= 0);
	close(role);
	close(fd);
	assert_int_equal(segment_lock(path, &fd, &diag), 0);
	assert_int_equal(count_of_aside(), 1);
	close(fd);
}

static void starts(void) {
	struct diag diag;
	int fd;

	assert_int_equal(segment_lock(path, &fd, &diag), 0);
	assert_int_equal(count_of_aside(), 1);
	close(fd);
}

/* As root it would change the mode of a file of somebody else's, and lock it. */
TEST_IN(set_up, scratch_close, a_file_with_a_second_name_is_not_locked) {
	assert_int_equal(link(other, lock), 0);
	starts();
	assert_int_equal(mode_of(other), 0644);
}

TEST_IN(set_up, scratch_close, a_link_is_not_followed) {
	assert_int_equal(symlink("other", lock), 0);
	starts();
	assert_int_equal(mode_of(other), 0644);
}

TEST_IN(set_up, scratch_close, a_fifo_hangs_nobody) {
	assert_int_equal(mkfifo(lock, 0600), 0);
	starts();
}

/* The message goes to root's terminal. */
TEST_IN(set_up, scratch_close, the_holder_is_shown_as_a_number) {
	static const char spoiled[] = "17\x1b]0;owned\x07\x1b[31m";
	struct diag diag;
	int fd, taken;

	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && file_lock(fd, true) == 0);
	assert_int_equal(write(fd, spoiled, sizeof(spoiled)), sizeof(spoiled));
	assert_int_equal(segment_lock(path, &taken, &diag), -1);
	assert_non_null(strstr(diag.text, "(pid 17)"));
	close(fd);
}

/* A role that could lock all others out: each ended with 75. */
TEST_IN(set_up, scratch_close, who_has_the_lock_of_a_role_shuts_no_other_out) {
	struct diag diag;
	int fd, one, two;

	assert_int_equal(segment_lock(path, &fd, &diag), 0);
	one = segment_lock_role(fd, &diag);
	assert_true(one >= 0);
	assert_int_equal(file_lock(one, true), -1);
	assert_int_equal(errno, EBADF);
	(void)flock(one, LOCK_EX | LOCK_NB);
	two = segment_lock_role(fd, &diag);
	assert_true(two >= 0);
	close(one);
	close(two);
	close(fd);
}

TEST_IN(set_up, scratch_close, a_file_of_another_user_is_set_aside_unless_somebody_has_it_locked) {
	struct diag diag;
	int fd, taken;

	if (geteuid() != 0)
		skip();
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fchown(fd, 1, 1), 0);
	assert_int_equal(file_lock(fd, true), 0);
	assert_int_equal(segment_lock(path, &taken, &diag), -1);
	assert_non_null(strstr(diag.text, "does not belong to Postern, and another process has "
	    "locked it"));
	close(fd);
	starts();
}

/* For 10 s a daemon that was killed looked healthy. */
TEST_IN(set_up, scratch_close, a_supervisor_that_has_ended_is_seen_at_once) {
	struct diag diag;
	int fd, role;

	assert_int_equal(segment_lock_look(path), SEGMENT_HOLDER_UNKNOWN);
	assert_int_equal(segment_lock(path, &fd, &diag), 0);
	role = segment_lock_role(fd, &diag);
	assert_true(role >= 0);
	assert_int_equal(segment_lock_look(path), SEGMENT_HELD);
	close(fd);
	assert_int_equal(segment_lock_look(path), SEGMENT_FREE);
	close(role);
	/* who looks has taken nothing */
	assert_int_equal(segment_lock(path, &fd, &diag), 0);
	close(fd);
}

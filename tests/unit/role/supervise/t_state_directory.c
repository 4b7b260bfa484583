/* SPDX-License-Identifier: ISC */
/* The directory of the state: what a role could replace in it, and whom it keeps out. */
#include <fcntl.h>
#include <sys/stat.h>
#define TEST_OWN_MAIN
#include "tests/unit/test.h"
#include "base/log.h"
#include "config/compile/compile.h"
#include "role/supervise/state_directory.h"
#include "tests/unit/scratch.h"

#define ROLES	65533	/* user and group */

static const struct identity roles = { .uid = ROLES, .gid = ROLES, .drop = true };
static char above[80], directory[96], logged[96];
static struct diag diag;

static int begin(void **state) {
	if (scratch_open(state) != 0)
		return -1;
	snprintf(above, sizeof(above), "%s/postern", scratch);
	snprintf(directory, sizeof(directory), "%s/shared", above);
	snprintf(logged, sizeof(logged), "%s/log", scratch);
	return 0;
}

/* With a milter socket in this directory. */
static int make(const char *sockets) {
	char text[1024];
	struct config_messages messages = { 0 };
	struct generation *generation;
	int result, kept = dup(STDERR_FILENO);
	int file = open(logged, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	snprintf(text, sizeof(text), "version = 1;\nstate = { path = \"%s/state\"; };\n"
	    "listen = { milter = \"unix:%s/milter\"; };\n"
	    "classes = ( { name = \"all\"; match = \"*\"; hold_at = 9; } );\n", directory, sockets);
	generation = config_compile_texts(text, "test", NULL, NULL, &messages);
	assert_non_null(generation);
	assert_true(kept >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
	result = state_directory_make(generation, &roles, &diag);
	assert_true(dup2(kept, STDERR_FILENO) >= 0);
	close(kept);
	close(file);
	config_messages_free(&messages);
	free(generation);
	return result;
}

static bool is_logged(const char *word) {
	char text[2048];
	FILE *file = fopen(logged, "r");
	size_t length;

	assert_non_null(file);
	length = fread(text, 1, sizeof(text) - 1, file);
	text[length] = '\0';
	fclose(file);
	return strstr(text, word) != NULL;
}

static void is(const char *path, uid_t uid, gid_t gid, mode_t mode) {
	struct stat status;

	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_uid, uid);
	assert_int_equal(status.st_gid, gid);
	assert_int_equal(status.st_mode & 07777, mode);
}

/* Members of the roles' group may look. */
TEST_IN(begin, scratch_close, a_new_one_is_of_the_roles_and_the_one_above_of_root) {
	assert_int_equal(make(above), 0);
	is(above, 0, 0, 0755);
	is(directory, ROLES, ROLES, 0755);
	assert_false(is_logged("event="));
}

TEST_IN(begin, scratch_close, one_of_root_is_shared) {
	assert_int_equal(mkdir(above, 0755), 0);
	assert_int_equal(mkdir(directory, 0755), 0);
	assert_int_equal(make(above), 0);
	is(directory, 0, ROLES, 01775);
	assert_true(is_logged("can now create files there"));
	assert_int_equal(make(above), 0);
	assert_false(is_logged("event="));
}

TEST_IN(begin, scratch_close, sockets_in_a_new_one_are_noted) {
	assert_int_equal(make(directory), 0);
	is(directory, ROLES, ROLES, 0755);
	assert_true(is_logged("could replace the sockets"));
}

/* Sendmail refuses a socket below a directory that a group may write. */
TEST_IN(begin, scratch_close, sockets_in_one_of_root_that_is_shared_are_noted) {
	assert_int_equal(mkdir(above, 0755), 0);
	assert_int_equal(mkdir(directory, 0755), 0);
	assert_int_equal(make(directory), 0);
	is(directory, 0, ROLES, 01775);
	assert_true(is_logged("Sendmail will refuse"));
}

TEST_IN(begin, scratch_close, sockets_in_one_of_the_roles_are_noted) {
	assert_int_equal(mkdir(above, 0755), 0);
	assert_int_equal(mkdir(directory, 0750), 0);
	assert_int_equal(chown(directory, ROLES, 0), 0);
	assert_int_equal(make(directory), 0);
	is(directory, ROLES, 0, 0750);
	assert_true(is_logged("could replace the sockets"));
	assert_int_equal(make(above), 0);
	assert_false(is_logged("event="));
}

TEST_IN(begin, scratch_close, a_link_leads_nowhere) {
	assert_int_equal(mkdir(above, 0755), 0);
	assert_int_equal(symlink("..", directory), 0);
	assert_int_equal(make(above), 0);
	is(scratch, 0, 0, 0700);
	assert_int_equal(unlink(directory), 0);
}

int main(void) {
	if (geteuid() != 0)
		return 77;
	umask(022);
	log_open(LOG_TO_STDERR, "t_state_directory", 0);
	return test_run();
}

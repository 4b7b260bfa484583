/* SPDX-License-Identifier: ISC */
/* Who cannot give up its privileges does not become a role.  Each in a process of its own, as
 * there is no way back; where the tests do not run as root, most have nothing to give up. */
#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "tests/unit/test.h"
#include "role/confine/privileges.h"

#define SOMEBODY	64999

static const struct identity somebody = { .drop = true, .uid = SOMEBODY, .gid = SOMEBODY,
	.hints_group = (gid_t)-1 };

/* What `act` returns, from 0 to 255, in a child. */
static int in_a_child(int (*act)(void)) {
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(act());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* In some containers that number is nobody's. */
static int becomes(void) {
	return geteuid() == 0 && setgroups(0, NULL) == 0 &&
	    setresgid(SOMEBODY + 1, SOMEBODY + 1, SOMEBODY + 1) == 0 &&
	    setresuid(SOMEBODY, SOMEBODY, SOMEBODY) == 0 ? 0 : 1;
}

static int dropped(void) {
	static const gid_t more[2] = { SOMEBODY + 1, (gid_t)-1 };
	gid_t groups[2];
	struct diag diag;

	if (privileges_join(&somebody, more, &diag) != 0)
		return 1;
	if (privileges_drop(&somebody, &diag) != 0)
		return 2;
	if (getuid() != SOMEBODY || geteuid() != SOMEBODY || getgid() != SOMEBODY)
		return 3;
	if (getgroups(2, groups) != 1 || groups[0] != SOMEBODY + 1)
		return 4;
	return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 && setuid(0) != 0 ? 0 : 5;
}

/* Another user's, without the right to become one. */
static int powerless(void) {
	const struct identity other = { .drop = true, .uid = SOMEBODY + 1,
		.gid = SOMEBODY + 1, .hints_group = (gid_t)-1 };
	struct diag diag;

	if (getuid() == 0 && (setgid(SOMEBODY) != 0 || setuid(SOMEBODY) != 0))
		return 1;
	return privileges_drop(&other, &diag) == -1 && strstr(diag.text, "become") != NULL ?
	    0 : 2;
}

/* It is believed to be no root. */
static int still_root(void) {
	const struct identity nobody = { .uid = geteuid(), .gid = getegid(),
		.hints_group = (gid_t)-1 };
	struct diag diag;

	return privileges_drop(&nobody, &diag) == -1 &&
	    strstr(diag.text, "root privileges can still be acquired") != NULL ? 0 : 1;
}

TEST(a_role_has_its_user_and_groups_and_no_way_back) {
	if (in_a_child(becomes) != 0)
		skip();
	assert_int_equal(in_a_child(dropped), 0);
}

TEST(who_cannot_change_the_user_is_refused) {
	if (geteuid() == 0 && in_a_child(becomes) != 0)
		skip();
	assert_int_equal(in_a_child(powerless), 0);
}

TEST(who_is_still_root_is_refused) {
	if (geteuid() != 0)
		skip();
	assert_int_equal(in_a_child(still_root), 0);
}

/* SPDX-License-Identifier: ISC */
/* Processes told apart by pid and start time: real ones. */
#include "tests/unit/test.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/process.h"

TEST(mine_began_before_now) {
	uint64_t ticks, again;
	int64_t now_ns = clock_now_ns();
	int64_t tick_ns = NS_PER_SECOND / sysconf(_SC_CLK_TCK);

	assert_true(process_start_ticks(getpid(), &ticks));
	assert_true(process_start_ticks(getpid(), &again));
	assert_int_equal(ticks, again);
	/* since boot, as our clock counts */
	assert_true((int64_t)ticks * tick_ns <= now_ns);
	assert_true((int64_t)ticks * tick_ns > now_ns - 600 * NS_PER_SECOND);
}

/* A child that sleeps until it is killed, under a name. */
static pid_t child(const char *name) {
	int ready[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

TEST(a_zombie_is_none) {
	pid_t pid = child("victim");
	siginfo_t info;
	uint64_t ticks;

	assert_true(process_start_ticks(pid, &ticks));
	kill(pid, SIGKILL);
	/* dead, and not yet waited for */
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_false(process_start_ticks(pid, &ticks));
	assert_true(process_is_gone(pid));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(process_start_ticks(pid, &ticks));
	assert_true(process_is_gone(pid));
	assert_false(process_is_gone(getpid()));
}

/* A zombie that something traces, or one in a call that does not end, held up whoever waited. */
TEST(one_that_does_not_end_holds_nobody_up) {
	pid_t pid = child("stays");
	int64_t began_ns = clock_now_ns();

	assert_false(process_await(pid, began_ns + 20 * NS_PER_MS));
	assert_true(clock_now_ns() - began_ns >= 20 * NS_PER_MS);
	kill(pid, SIGKILL);
	assert_true(process_await(pid, clock_now_ns() + 60 * NS_PER_SECOND));
	assert_int_equal(waitpid(pid, NULL, 0), -1);
}

/* The name stands in the same line, before the time. */
TEST(a_name_can_hold_anything) {
	static const char *const names[] = { "a) R 1 2 3", "x) Z 1", ")))) 1",
		"(", ") ", "1 2 3 4 5 6 7 8", "a\nb) X" };
	uint64_t mine, its;

	assert_true(process_start_ticks(getpid(), &mine));
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		pid_t pid = child(names[i]);

		assert_true(process_start_ticks(pid, &its));
		assert_true(its >= mine && its - mine < 6000);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
}

TEST(what_is_no_process_is_none) {
	uint64_t ticks;

	assert_false(process_start_ticks(0, &ticks));
	assert_false(process_start_ticks(-1, &ticks));
	assert_false(process_start_ticks(INT32_MAX, &ticks));
}

TEST(in_doubt_it_is_not_over) {
	struct rlimit before, none;
	pid_t pid = child("victim");
	uint64_t ticks;

	assert_true(process_start_ticks(pid, &ticks));
	assert_false(process_is_over(pid, ticks));
	assert_true(process_is_over(pid, ticks + 1));
	/* no descriptor is left to look with */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ 0, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_false(process_is_over(pid, ticks));
	assert_false(process_start_ticks(pid, &ticks));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(process_is_over(pid, ticks));
}

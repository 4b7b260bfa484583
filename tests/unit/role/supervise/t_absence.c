/* SPDX-License-Identifier: ISC */
/* While the supervisor was stopped nobody was silent; while it worked he may have been. */
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/test.h"
#include "base/clock.h"
#include "role/supervise/supervisor.h"

static struct supervisor supervisor;

/* State S of proc(5). */
static bool is_asleep(pid_t pid) {
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	file = fopen(path, "r");
	if (file != NULL) {
		(void)!fscanf(file, "%*d %*s %c", &state);
		fclose(file);
	}
	return state == 'S';
}

/* Once it waits it is stopped, for three seconds. */
static pid_t stop_soon(void) {
	static const struct timespec time = { .tv_sec = 3 };
	pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	while (!is_asleep(parent))
		(void)sched_yield();
	(void)kill(parent, SIGSTOP);
	(void)nanosleep(&time, NULL); /* LINT-SLEEP: so long it is stopped */
	(void)kill(parent, SIGCONT);
	_exit(0);
}

TEST(a_stop_while_we_wait_is_an_absence) {
	struct pollfd none = { .fd = -1 };
	int64_t before_ns = clock_now_ns();
	pid_t pid;

	supervisor.present_ns = 1;
	pid = stop_soon();
	supervisor_wait(&supervisor, &none, 1, 1000);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(supervisor.present_ns > before_ns);
}

/* A role could make each turn so long. */
TEST(long_work_of_ours_is_no_absence) {
	static const struct timespec work = { .tv_sec = 1, .tv_nsec = 200000000 };
	struct pollfd none = { .fd = -1 };

	supervisor.present_ns = 1;
	(void)nanosleep(&work, NULL); /* LINT-SLEEP: it stands for the work */
	supervisor_wait(&supervisor, &none, 1, 1);
	assert_int_equal(supervisor.present_ns, 1);
}

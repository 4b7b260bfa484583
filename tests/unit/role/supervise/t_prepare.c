/* SPDX-License-Identifier: ISC */
/* The supervisor waits for the process that makes the segment; here that is ours. */
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/test.h"
#include "base/log.h"
#include "role/supervise/prepare.h"
#include "role/run/prepare_begin.h"
#include "role/supervise/spawn.h"
#include "segment/file/segment.h"

#define LIMIT_S	60	/* there are three tries, of 30 s each where nothing is reported */

static struct generation generation;
static struct supervisor supervisor;
static char first_line[1024];

static void on_line(void *context, const char *line) {
	if (first_line[0] == '\0')
		snprintf(first_line, sizeof(first_line), "%s", line);
}

static uint64_t wants_number;	/* 0: it was taken over */

static void report_success(int result_fd) __attribute__((noreturn));

static void report_success(int result_fd) {
	const struct prepare_result result = { .generation = wants_number };

	_exit(write(result_fd, &result, sizeof(result)) == (ssize_t)sizeof(result) ? 0 : 1);
}

/* It was taken over: a byte now and then, so that there is always news. */
pid_t spawn_helper(struct supervisor *unused, bool damaged, bool without_text, int result_fd,
    struct diag *diag) {
	static const struct timespec pause = { .tv_nsec = 100000000 };
	pid_t pid = fork();

	(void)unused, (void)damaged, (void)without_text, (void)diag;
	if (pid != 0)
		return pid;
	if (wants_number != 0)
		report_success(result_fd);
	while (write(result_fd, "x", 1) == 1 || errno == EAGAIN)
		(void)nanosleep(&pause, NULL); /* LINT-SLEEP: this is what it does */
	_exit(0);
}

TEST(a_helper_that_reports_byte_by_byte_does_not_hold_us) {
	(void)alarm(LIMIT_S);
	supervisor = (struct supervisor){ .generation = &generation, .state_fd = -1 };
	log_redirect(on_line, NULL);
	assert_int_not_equal(prepare(&supervisor, false), 0);
	assert_non_null(strstr(first_line, "cannot prepare the state"));
	assert_int_equal(supervisor.last_number, 0);
	/* and it has ended */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* A role had written the highest number that a state may begin with: no rebuild could succeed
 * any more. */
TEST(the_highest_number_of_an_adopted_state_is_no_dead_end) {
	(void)alarm(LIMIT_S);
	supervisor = (struct supervisor){ .generation = &generation, .state_fd = -1 };
	wants_number = SEGMENT_GENERATION_MAX;
	(void)prepare(&supervisor, false);
	assert_int_equal(generation.number, SEGMENT_GENERATION_MAX);
	wants_number = SEGMENT_GENERATION_MAX + 1;
	(void)prepare(&supervisor, true);
	assert_int_equal(generation.number, SEGMENT_GENERATION_MAX + 1);
	/* and it has the number that was ordered */
	(void)prepare(&supervisor, true);
	assert_int_equal(generation.number, SEGMENT_GENERATION_MAX + 1);
}

/* SPDX-License-Identifier: ISC */
/* The supervisor waits for the process that makes the segment; here that is ours. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "role/prepare.h"
#include "role/spawn.h"

#define LIMIT_S	60	/* there are three tries, of 30 s each where nothing is reported */

static struct generation generation;
static struct supervisor supervisor;
static char first_line[1024];

static void on_line(void *context, const char *line) {
	(void)context;
	if (first_line[0] == '\0')
		snprintf(first_line, sizeof(first_line), "%s", line);
}

/* It was taken over: a byte now and then, so that there is always news. */
pid_t spawn_helper(struct supervisor *unused, bool damaged, bool without_texts, int result_fd,
    struct diag *diag) {
	static const struct timespec pause = { .tv_nsec = 100000000 };
	pid_t pid = fork();

	(void)unused, (void)damaged, (void)without_texts, (void)diag;
	if (pid != 0)
		return pid;
	while (write(result_fd, "x", 1) == 1 || errno == EAGAIN)
		(void)nanosleep(&pause, NULL); /* LINT-SLEEP: this is what it does */
	_exit(0);
}

static void a_helper_that_reports_byte_by_byte_does_not_hold_us(void **state) {
	(void)state;
	(void)alarm(LIMIT_S);
	supervisor = (struct supervisor){ .generation = &generation, .state_fd = -1 };
	log_redirect(on_line, NULL);
	assert_int_not_equal(prepare(&supervisor, false), 0);
	assert_non_null(strstr(first_line, "the state could not be prepared"));
	assert_int_equal(supervisor.last_number, 0);
	/* and it has ended */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_helper_that_reports_byte_by_byte_does_not_hold_us),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

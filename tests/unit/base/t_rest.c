/* SPDX-License-Identifier: ISC */
/* Threads that rest: for how long, and what ends it; and what wakes a role. */
#include "tests/unit/test.h"
#include <fcntl.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/nudge.h"
#include "base/rest.h"

#define LONG_NS		(60 * NS_PER_SECOND)	/* nobody waits for it */
#define SHORT_NS	(20 * NS_PER_MS)
#define THREADS		4

static struct rest rest;

/* It was stirred so long ago. */
static void begin(int64_t ago_ns) {
	rest_init(&rest, clock_now_ns() - ago_ns);
}

static void *take_a_long_rest(void *argument) {
	rest_take(&rest, 0, LONG_NS);
	return NULL;
}

TEST(a_stir_ends_the_rest_of_all) {
	int64_t began_ns = clock_now_ns();
	pthread_t threads[THREADS];

	begin(REST_LIVELY_NS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_a_long_rest, NULL), 0);
	rest_stir(&rest, clock_now_ns());
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_true(clock_now_ns() - began_ns < LONG_NS);
}

TEST(what_is_due_ends_it_too) {
	int64_t began_ns = clock_now_ns(), took_ns;

	begin(REST_LIVELY_NS);
	rest_take(&rest, LONG_NS, SHORT_NS);
	took_ns = clock_now_ns() - began_ns;
	assert_true(took_ns >= SHORT_NS && took_ns < LONG_NS);
}

TEST(turns_are_short_while_something_happens) {
	int64_t began_ns, took_ns;

	for (int i = 0; i < 2; i++) {
		begin(i == 0 ? 0 : REST_LIVELY_NS);
		if (i == 1)
			rest_stir(&rest, clock_now_ns());
		began_ns = clock_now_ns();
		rest_take(&rest, SHORT_NS, LONG_NS);
		took_ns = clock_now_ns() - began_ns;
		assert_true(took_ns >= SHORT_NS && took_ns < LONG_NS);
	}
}

TEST(it_is_lively_for_a_while) {
	int64_t now_ns = clock_now_ns();

	rest_init(&rest, now_ns);
	assert_true(rest_is_lively(&rest, now_ns));
	assert_true(rest_is_lively(&rest, now_ns + REST_LIVELY_NS - 1));
	assert_false(rest_is_lively(&rest, now_ns + REST_LIVELY_NS));
	rest_stir(&rest, now_ns + 1);
	assert_true(rest_is_lively(&rest, now_ns + REST_LIVELY_NS));
}

TEST(nudges_are_taken_and_their_end_is_told) {
	struct diag diag;
	int fds[2];

	assert_int_equal(nudge_open(fds, &diag), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		assert_int_equal(fcntl(fds[i], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	}
	assert_true(nudge_take(fds[0]));	/* there is none */
	nudge_give(fds[1]);
	nudge_give(fds[1]);
	assert_true(nudge_take(fds[0]));
	assert_int_equal(read(fds[0], &(char){ 0 }, 1), -1);
	/* a role that takes none keeps nobody */
	for (int i = 0; i < 100000; i++)
		nudge_give(fds[1]);
	assert_true(nudge_take(fds[0]));
	close(fds[1]);
	for (int i = 0; i < 100000 && nudge_take(fds[0]); i++)
		;
	assert_false(nudge_take(fds[0]));
	close(fds[0]);
}

/* SPDX-License-Identifier: ISC */
#include <fcntl.h>
#include <sys/ioctl.h>
#include "tests/unit/test.h"
#include "base/lifeline.h"

static int fds[2];

static int set_up(void **state) {
	struct diag diag;

	return lifeline_open(fds, &diag);
}

static int tear_down(void **state) {
	close(fds[0]);
	close(fds[1]);
	return 0;
}

TEST_IN(set_up, tear_down, heartbeats_and_the_last_call_are_read) {
	struct lifeline_news news = lifeline_read(fds[0]);

	assert_false(news.beat);
	assert_int_equal(news.stopped_call, -1);
	lifeline_beat(fds[1]);
	lifeline_beat(fds[1]);
	news = lifeline_read(fds[0]);
	assert_true(news.beat);
	assert_int_equal(news.stopped_call, -1);
	lifeline_stopped(fds[1], 0);	/* read(2) is number 0 on x86-64 */
	news = lifeline_read(fds[0]);
	assert_false(news.beat);
	assert_int_equal(news.stopped_call, 0);
	lifeline_stopped(fds[1], 59);
	assert_int_equal(lifeline_read(fds[0]).stopped_call, 59);
	assert_false(lifeline_read(fds[0]).beat);
}

/* A role that writes all the time keeps nobody. */
TEST_IN(set_up, tear_down, a_flood_ends_and_garbage_is_no_call) {
	static char garbage[65536];
	struct lifeline_news news;

	for (size_t i = 0; i < sizeof(garbage); i++)
		garbage[i] = (char)0xff;
	assert_int_equal(write(fds[1], garbage, sizeof(garbage)), (int)sizeof(garbage));
	lifeline_beat(fds[1]);		/* the pipe is full: lost, and nobody waits */
	news = lifeline_read(fds[0]);
	assert_false(news.beat);
	assert_int_equal(news.stopped_call, -1);
	assert_int_equal(write(fds[1], garbage, 3), 3);
	assert_false(lifeline_read(fds[0]).beat);
}

/* With O_DIRECT each write is a packet, and each takes a read of ours. */
TEST_IN(set_up, tear_down, packets_of_a_byte_keep_nobody) {
	int left, turns = 0;

	assert_true(fcntl(fds[1], F_SETPIPE_SZ, 1 << 19) >= 1 << 19);
	assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK | O_DIRECT), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(write(fds[1], "", 1), 1);
	do {
		(void)lifeline_read(fds[0]);
		turns++;
		assert_int_equal(ioctl(fds[0], FIONREAD, &left), 0);
	} while (left > 0);
	assert_int_equal(turns, 2);
}

TEST_IN(set_up, tear_down, neither_end_survives_exec_or_waits) {
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		assert_int_equal(fcntl(fds[i], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	}
}

/* SPDX-License-Identifier: ISC */
/* When a role in an event loop beats: with an engine of the test's own. */
#include "tests/unit/test.h"
#include <event2/event.h>
#include <sys/time.h>

#include "base/nudge.h"
#include "front/serve/beat.h"
#include "tests/unit/front/outbound/fake_engine.h"

static struct event_base *base;
static struct beat beat;
static int nudge[2];
static unsigned each;
static bool busy;

static bool is_busy(void *context) {
	return busy;
}

static void count(void *context, int64_t now_ns) {
	each++;
}

static int set_up(void **state) {
	const struct beat_calls calls = { .is_busy = is_busy, .each = count };
	struct diag diag;

	fake_reset();
	each = 0;
	busy = false;
	base = event_base_new();
	assert_int_equal(nudge_open(nudge, &diag), 0);
	fake.nudge_fd = nudge[0];
	return beat_open(&beat, base, &fake, &calls, &diag);
}

static int tear_down(void **state) {
	beat_close(&beat);
	event_base_free(base);
	close(nudge[0]);
	if (nudge[1] >= 0)
		close(nudge[1]);
	return 0;
}

/* Of the next beat, from now. */
static int64_t due_ms(void) {
	struct timeval at, now;

	assert_true(event_pending(&beat.timer, EV_TIMEOUT, &at));
	gettimeofday(&now, NULL);
	return (at.tv_sec - now.tv_sec) * 1000 + (at.tv_usec - now.tv_usec) / 1000;
}

TEST_IN(set_up, tear_down, a_role_with_nothing_to_do_beats_less_often) {
	assert_in_range(due_ms() + 100, 1, 1200);
	event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(fake.heartbeats, 1);
	assert_int_equal(each, 1);
	assert_in_range(due_ms(), 1001, 3100);
	/* there is a connection */
	beat_quicken(&beat);
	assert_int_equal(fake.heartbeats, 2);
	assert_in_range(due_ms() + 100, 1, 1200);
	beat_quicken(&beat);
	assert_int_equal(fake.heartbeats, 2);
	busy = true;
	event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(fake.heartbeats, 3);
	assert_in_range(due_ms() + 100, 1, 1200);
	/* somebody is there, though not with us yet: our death is to have a date */
	busy = false;
	fake.keeper_is_busy = true;
	event_base_loop(base, EVLOOP_ONCE);
	assert_in_range(due_ms() + 100, 1, 1200);
}

/* It took up a new configuration with its next heartbeat, and posternctl waited for it. */
TEST_IN(set_up, tear_down, a_nudge_is_answered_at_once) {
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(fake.heartbeats, 0);
	nudge_give(nudge[1]);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(fake.heartbeats, 1);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(fake.heartbeats, 1);
	assert_int_equal(each, 0);
}

TEST_IN(set_up, tear_down, a_supervisor_that_is_gone_keeps_nobody_busy) {
	close(nudge[1]);
	nudge[1] = -1;
	for (int i = 0; i < 5; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
	assert_in_range(fake.heartbeats, 0, 1);
}

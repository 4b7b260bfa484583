/* SPDX-License-Identifier: ISC */
/* What ends the keeper's rest, and that only the first of many changes does. */
#include "tests/unit/test.h"
#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "engine/session/witness.h"
#include "segment/decision/decisions.h"
#include "segment/destination/destinations.h"
#include "segment/file/internal.h"
#include "segment/hints/lane_uses.h"
#include "segment/destination/recipients.h"
#include "segment/file/stir.h"
#include "tests/unit/own_site.h"

#define ONE "classes = ( { name = \"all\"; match = [ \"*\" ]; refuse_at = 1; } );"

static int set_up(void **state) {
	site_open(&site, 100, ONE);
	return 0;
}

static struct segment_header *header(void) {
	return segment_header(site.segment);
}

static void begin_rest(void) {
	atomic_store(&header()->stir, STIR_RESTS);
	assert_true(segment_is_at_rest(header()));
}

TEST_IN(set_up, site_end, another_process_ends_the_rest) {
	int status;
	pid_t child;

	for (int i = 0; i < 20; i++) {
		child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			while (!segment_is_at_rest(header()))
				(void)usleep(100);
			segment_stir(header());
			_exit(0);
		}
		segment_await_stir(header());
		assert_false(segment_is_at_rest(header()));
		assert_int_equal(waitpid(child, &status, 0), child);
	}
}

TEST_IN(set_up, site_end, a_change_while_nobody_rests_is_nobodys) {
	atomic_store(&header()->stir, 0);
	segment_stir(header());
	assert_int_equal(atomic_load(&header()->stir), 0);
	/* any role can write this: it is no rest */
	atomic_store(&header()->stir, 77);
	segment_stir(header());
	assert_int_equal(atomic_load(&header()->stir), 77);
}

TEST_IN(set_up, site_end, sessions_stir) {
	struct session_ref ref;

	begin_rest();
	assert_int_equal(site_inbound(&site, "192.0.2.1", 1, NULL, &ref), VERDICT_ADMIT);
	assert_false(segment_is_at_rest(header()));
	begin_rest();
	/* above the limit: it is remembered */
	assert_int_equal(site_verdict("192.0.2.2", 2, NULL), VERDICT_REFUSE);
	assert_false(segment_is_at_rest(header()));
	begin_rest();
	engine_session_close(site.engine, &ref, clock_now_ns());
	assert_false(segment_is_at_rest(header()));
}

TEST_IN(set_up, site_end, what_is_learned_stirs) {
	const struct delivery_seen seen = { .name = "a.example", .name_length = 9 };
	const struct lane_use use = { .domain = 1 };
	struct recipient_hold hold = { .address = "u@a.example", .length = 11,
		.reason = "x", .rule = RECIPIENT_NO_RULE };
	int64_t now_ns = clock_now_ns();

	begin_rest();
	assert_true(destinations_note(site.segment, &seen, now_ns));
	assert_false(segment_is_at_rest(header()));
	begin_rest();
	lane_uses_note(site.segment, &use);
	assert_false(segment_is_at_rest(header()));
	begin_rest();
	hold.until_ns = now_ns + NS_PER_SECOND;
	assert_true(recipients_hold(site.segment, &hold, now_ns));
	assert_false(segment_is_at_rest(header()));
}

TEST_IN(set_up, site_end, decisions_and_the_life_of_roles_stir) {
	struct decided decided = { .kind = DECIDED_SUSPENDED };
	unsigned place = segment_role_place(ROLE_MILTER, 1);

	decided.id = decisions_claim(site.segment, DECIDED_OF_DESTINATIONS);
	begin_rest();
	decisions_write(site.segment, &decided);
	assert_false(segment_is_at_rest(header()));
	segment_role_starting(site.segment, ROLE_MILTER, 1, clock_now_ns());
	begin_rest();
	assert_true(segment_role_died(site.segment, place, getpid()));
	assert_false(segment_is_at_rest(header()));
	/* a gap ends with the first heartbeat */
	atomic_store(&header()->roles[site.place].gap_end_ns, INT64_MAX);
	begin_rest();
	engine_heartbeat(site.engine, clock_now_ns());
	assert_false(segment_is_at_rest(header()));
	begin_rest();
	engine_heartbeat(site.engine, clock_now_ns());
	assert_true(segment_is_at_rest(header()));
}

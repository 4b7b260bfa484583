/* SPDX-License-Identifier: ISC */
/* Times in the segment that a role which was taken over wrote: those who reckon with them
 * overflow nothing (built with UBSan), and take none of them for a reason to wait. */
#include "tests/unit/test.h"

#include "engine/session/gate.h"
#include "engine/internal.h"
#include "engine/queue/queue_watch.h"
#include "segment/cluster/cluster_told.h"
#include "segment/destination/flights.h"
#include "segment/queue/grants.h"
#include "segment/hints/lane_uses.h"
#include "segment/reader.h"
#include "segment/destination/shared.h"
#include "segment/destination/states.h"
#include "tests/unit/engine/session/witness_world.h"

static const int64_t hostile[] = { INT64_MIN, INT64_MIN + 1, -1, INT64_MAX - 1, INT64_MAX };
#define HOSTILE (sizeof(hostile) / sizeof(hostile[0]))

static void spoil_roles(int64_t time_ns) {
	for (unsigned i = 0; i < SEGMENT_ROLES_MAX; i++) {
		struct role_record *role = &site.segment->header->roles[i];

		atomic_store(&role->heartbeat_ns, time_ns);
		atomic_store(&role->started_ns, time_ns);
		atomic_store(&role->gap_begin_ns, INT64_MIN);
		atomic_store(&role->gap_end_ns, time_ns);
	}
}

static void spoil_header(int64_t time_ns) {
	struct segment_header *header = site.segment->header;

	for (unsigned i = 0; i < SEGMENT_LISTENERS; i++) {
		atomic_store(&header->listeners[i].fault_begin_ns, INT64_MIN);
		atomic_store(&header->listeners[i].fault_until_ns, time_ns);
	}
	for (unsigned i = 0; i < SEGMENT_CARRIERS; i++)
		atomic_store(&header->carriers[i].seen_ns, time_ns);
	for (unsigned i = 0; i < SEGMENT_JOURNALS; i++) {
		atomic_store(&header->journals[i].told_ns, time_ns);
		atomic_store(&header->journals[i].since_ns, time_ns);
	}
	atomic_store(&header->heartbeat_ns, time_ns);
	atomic_store(&header->started_ns, time_ns);
	atomic_store(&header->published_ns, time_ns);
	atomic_store(&header->gate_since_ns, time_ns);
	atomic_store(&header->queue_away_ns, time_ns);
}

static void spoil_all(int64_t time_ns) {
	spoil_roles(time_ns);
	spoil_header(time_ns);
	for (uint32_t i = 0; i < site.segment->header->record_count; i++) {
		atomic_store(&site.segment->records[i].share_since_ns, time_ns);
		atomic_store(&site.segment->records[i].share_until_ns, time_ns);
	}
	shared_set_until(site.segment, time_ns);
}

TEST_IN(set_up, tear_down, a_gap_of_any_time_overflows_nothing) {
	bool at_once;

	open_one("192.0.2.1", 1001);
	kernel_has("192.0.2.1", 1001);
	kernel_has("192.0.2.9", 1009);	/* unannounced: gaps are asked about */
	for (unsigned i = 0; i < HOSTILE; i++) {
		struct answer answer = { .newly_decided = false };

		spoil_all(hostile[i]);
		(void)witness_wants_dump(witness, site.generation, now_ns, &at_once);
		dump();
		spoil_all(hostile[i]);
		answer_unusable(site.engine, site.generation, site.auto_listener, 25, now_ns,
		    &answer);
		spoil_all(hostile[i]);
		pass(1000);
		dump();
		witness_expire(witness, site.generation, now_ns);
	}
}

TEST_IN(set_up, tear_down, a_keeper_whose_heartbeat_is_no_time_is_away) {
	segment_role_starting(site.segment, ROLE_KEEPER, 0, now_ns);
	assert_false(keeper_is_away(site.segment, now_ns));
	for (unsigned i = 0; i < HOSTILE; i++) {
		spoil_roles(hostile[i]);
		assert_int_equal(keeper_is_away(site.segment, now_ns), hostile[i] < 0);
	}
}

/* An idle keeper was taken for dead: who asked first looked at the kernel himself. */
TEST_IN(set_up, tear_down, a_keeper_that_rests_is_not_away) {
	struct segment_header *header = site.segment->header;
	int64_t beat_ns = now_ns;

	segment_role_starting(site.segment, ROLE_KEEPER, 0, beat_ns);
	assert_true(keeper_is_away(site.segment, beat_ns + NS_PER_SECOND));
	atomic_store(&header->keeper_rest_ns, NS_PER_SECOND);
	assert_false(keeper_is_away(site.segment, beat_ns + NS_PER_SECOND));
	assert_true(keeper_is_away(site.segment, beat_ns + 3 * NS_PER_SECOND / 2));
	/* whatever any role writes, one that gives no sign of life is away some time */
	for (unsigned i = 0; i < HOSTILE; i++) {
		atomic_store(&header->keeper_rest_ns, hostile[i]);
		assert_false(keeper_is_away(site.segment, beat_ns + 600 * NS_PER_MS));
		assert_true(keeper_is_away(site.segment, beat_ns + 4 * NS_PER_SECOND));
	}
}

TEST_IN(set_up, tear_down, a_role_dies_whatever_its_times_were) {
	unsigned place = segment_role_place(ROLE_MILTER, 0);

	for (unsigned i = 0; i < HOSTILE; i++) {
		struct role_record *role = &site.segment->header->roles[place];

		segment_role_starting(site.segment, ROLE_MILTER, 0, now_ns);
		spoil_roles(hostile[i]);
		atomic_store(&role->heartbeat_ns, hostile[HOSTILE - 1 - i]);
		assert_true(segment_role_died(site.segment, place, atomic_load(&role->pid)));
		assert_true(atomic_load(&role->gap_end_ns) == INT64_MAX);
	}
}

TEST_IN(set_up, tear_down, what_watches_the_gate_goes_on) {
	for (unsigned i = 0; i < HOSTILE; i++) {
		struct gate_watch gate = { .told = false };

		spoil_all(hostile[i]);
		(void)gate_watch_look(&gate, site.engine, site.generation, now_ns);
	}
}

#ifdef WITH_QUEUE
TEST_IN(set_up, tear_down, what_watches_the_queue_goes_on) {
	struct generation driven = *site.generation;

	driven.mta_count = 1;
	driven.mtas[0].drive = true;
	segment_role_starting(site.segment, ROLE_QUEUE, 0, now_ns);
	for (unsigned i = 0; i < HOSTILE; i++) {
		int64_t last_ns = 0, away_ns;

		spoil_all(hostile[i]);
		away_ns = queue_watch_look(&last_ns, site.engine, &driven, now_ns);
		assert_in_range(away_ns < 0 ? -away_ns : away_ns, 0, now_ns);
	}
}

TEST_IN(set_up, tear_down, times_of_grants_are_bounded) {
	const struct grant grant = { .queue_id = "4ZQ", .queue_id_length = 3,
		.mode = GRANT_EXCEPT };
	struct grant_asked asked;
	struct grant_seen granted;
	struct grant_ref ref;

	grants_begin(site.segment, site.place);
	assert_true(grants_put(site.segment, &grant, &ref));
	for (unsigned i = 0; i < HOSTILE; i++) {
		spoil_all(hostile[i]);
		(void)grants_ask(site.segment, "4ZQ", 3, "a", 1, now_ns, &asked);
		asked.ref = ref;
		grants_mark(site.segment, &asked, GRANT_TURN, hostile[i]);
		grants_see(site.segment, &ref, &granted);
		assert_true(granted.progress_ns == clock_bounded_ns(hostile[i]));
	}
}
#endif

TEST_IN(set_up, tear_down, times_of_other_tables_are_bounded) {
	struct lane_uses_cursor cursor = { .begun = false };
	struct shared_seen shared;
	struct lane_use use;
	bool lost = false;

	assert_non_null(shared_take(site.segment, 7));
	for (unsigned i = 0; i < HOSTILE; i++) {
		spoil_all(hostile[i]);
		use = (struct lane_use){ .ended_ns = hostile[i] };
		lane_uses_note(site.segment, &use);
		assert_true(lane_uses_next(site.segment, &cursor, &use, &lost));
		assert_true(use.ended_ns == clock_bounded_ns(hostile[i]));
		shared_ask(site.segment, 7, hostile[i]);
		shared_ask_canary(site.segment, 7, hostile[i]);
		assert_true(shared_find(site.segment, 7, &shared));
		assert_true(shared.asked_ns == clock_bounded_ns(hostile[i]));
		assert_true(shared.canary_asked_ns == clock_bounded_ns(hostile[i]));
		assert_true(shared.until_ns == clock_bounded_ns(hostile[i]));
	}
}

TEST(a_window_whose_end_is_no_time_is_begun_again) {
	struct window window;

	window_begin(&window, &window_defaults);
	window_hold(&window, WINDOW_CAUSE_HAND, INT64_MAX);
	assert_true(window_is_sound(&window));
	for (unsigned i = 0; i < HOSTILE; i++) {
		bool sound = hostile[i] == -1 || hostile[i] == INT64_MAX;

		window.until_ns = hostile[i];
		assert_int_equal(window_is_sound(&window), sound);
		window.until_ns = 0;
		window.canary_ns = hostile[i];
		assert_int_equal(window_is_sound(&window), sound);
		window.canary_ns = 0;
	}
}

static void see_class(void *context, const struct reader_class *class) {
	assert_in_range(class->share_since_ns, 0, INT64_MAX / 2);
	assert_in_range(class->share_until_ns, 0, INT64_MAX / 2);
}

TEST_IN(set_up, tear_down, a_reader_is_shown_times_alone) {
	struct reader_status status;
	struct reader_role role;
	struct segment *reader;
	struct diag diag;

	assert_int_equal(reader_open(&reader, segment_path(site.segment), &diag), 0);
	for (unsigned i = 0; i < HOSTILE; i++) {
		int64_t bounded_ns = clock_bounded_ns(hostile[i]);

		spoil_all(hostile[i]);
		atomic_store(&site.segment->header->journals[0].fares, JOURNAL_FARES_ILL);
		reader_status(reader, &status);
		assert_true(status.heartbeat_ns == bounded_ns);
		assert_true(status.gate_since_ns == bounded_ns);
		assert_true(status.queue_away_ns == bounded_ns);
		assert_true(status.journals[0].since_ns == bounded_ns);
		assert_int_equal(status.health, READER_STALE);
		for (uint32_t r = 0; reader_role(reader, r, &role); r++)
			assert_true(role.heartbeat_ns == bounded_ns &&
			    role.started_ns == bounded_ns);
		(void)reader_classes(reader, see_class, NULL);
	}
	segment_unmap(&reader);
}

#ifdef WITH_CLUSTER
TEST_IN(set_up, tear_down, times_of_the_cluster_are_bounded) {
	struct cluster_told told = { .node_count = 1 };

	for (unsigned i = 0; i < HOSTILE; i++) {
		told.told_ns = told.error_ns = told.renewed_ns = told.nodes[0].word_ns =
		    hostile[i];
		cluster_told_write(&site.segment->header->cluster, &told);
		assert_true(cluster_told_read(&site.segment->header->cluster, &told));
		assert_true(told.told_ns == clock_bounded_ns(hostile[i]));
		assert_true(told.nodes[0].word_ns == clock_bounded_ns(hostile[i]));
	}
}
#endif

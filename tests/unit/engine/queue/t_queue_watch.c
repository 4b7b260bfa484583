/* SPDX-License-Identifier: ISC */
/* The alarm of a queue role that is away, under virtual time. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "engine/queue/queue_watch.h"
#include "segment/file/internal.h"
#include "tests/unit/own_site.h"

#define CLASSES "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 1; } );\n"
#define MTA	"mta = ( { name = \"s\"; kind = \"sendmail\"; user = \"root\"; } );\n"

static struct generation generation;	/* what the watch looks at of it */
static int64_t last_ns;
static int64_t now_ns, away_ns;
static unsigned place;

static void begin(bool driven) {
	site_open(&site, 100, CLASSES MTA);
	generation = *site.generation;
	generation.mtas[0].drive = driven;
	last_ns = 0;
	now_ns = 1000 * NS_PER_SECOND;
}

static void role_starts(void) {
	place = segment_role_place(ROLE_QUEUE, 0);
	segment_role_starting(site.segment, ROLE_QUEUE, 0, now_ns);
}

static void role_beats(void) {
	atomic_store(&site.segment->header->roles[place].heartbeat_ns, now_ns);
}

enum news { QUEUE_NO_NEWS, QUEUE_IS_AWAY, QUEUE_IS_BACK };

static enum news look_after(int64_t seconds) {
	int64_t told;

	now_ns += seconds * NS_PER_SECOND;
	told = queue_watch_look(&last_ns, site.engine, &generation, now_ns);
	away_ns = told < 0 ? -told : told;
	return told == 0 ? QUEUE_NO_NEWS : told > 0 ? QUEUE_IS_AWAY : QUEUE_IS_BACK;
}

TEST(told_once_after_a_minute_and_once_when_it_is_back) {
	begin(true);
	assert_int_equal(look_after(0), QUEUE_NO_NEWS);
	assert_int_equal(look_after(59), QUEUE_NO_NEWS);
	assert_int_equal(look_after(1), QUEUE_IS_AWAY);
	assert_int_equal(away_ns, 60 * NS_PER_SECOND);
	assert_int_equal(atomic_load(&site.segment->header->queue_away_ns),
	    1000 * NS_PER_SECOND);
	for (int i = 0; i < 300; i++)
		assert_int_equal(look_after(1), QUEUE_NO_NEWS);
	role_starts();
	for (int i = 0; i < 5; i++) {
		assert_int_equal(look_after(1), QUEUE_NO_NEWS);
		role_beats();
	}
	assert_int_equal(look_after(1), QUEUE_IS_BACK);
	assert_int_equal(away_ns, 366 * NS_PER_SECOND);
	assert_int_equal(atomic_load(&site.segment->header->queue_away_ns), 0);
	assert_int_equal(look_after(1), QUEUE_NO_NEWS);
	site_close(&site);
}

TEST(a_role_that_beats_is_there) {
	begin(true);
	role_starts();
	for (int i = 0; i < 200; i++) {
		assert_int_equal(look_after(1), QUEUE_NO_NEWS);
		role_beats();
	}
	assert_int_equal(look_after(0), QUEUE_NO_NEWS);
	segment_role_died(site.segment, place, getpid());
	assert_int_equal(look_after(59), QUEUE_NO_NEWS);
	assert_int_equal(look_after(1), QUEUE_IS_AWAY);
	site_close(&site);
}

/* Though it beats before. */
TEST(a_role_that_dies_again_and_again_is_away) {
	unsigned told = 0;

	begin(true);
	for (int i = 0; i < 60; i++) {
		role_starts();
		told += look_after(1) == QUEUE_IS_AWAY;
		role_beats();
		assert_true(look_after(0) != QUEUE_IS_BACK);
		segment_role_died(site.segment, place, getpid());
		told += look_after(1) == QUEUE_IS_AWAY;
	}
	assert_int_equal(told, 1);
	site_close(&site);
}

TEST(a_new_keeper_does_not_tell_it_again) {
	begin(true);
	assert_int_equal(look_after(0), QUEUE_NO_NEWS);
	assert_int_equal(look_after(60), QUEUE_IS_AWAY);
	last_ns = 0;
	assert_int_equal(look_after(1), QUEUE_NO_NEWS);
	assert_int_equal(look_after(100), QUEUE_NO_NEWS);
	role_starts();
	now_ns += 10 * NS_PER_SECOND;
	role_beats();
	assert_int_equal(look_after(1), QUEUE_IS_BACK);
	assert_int_equal(away_ns, 172 * NS_PER_SECOND);
	site_close(&site);
}

TEST(where_nothing_is_driven_nobody_is_missed) {
	begin(false);
	assert_int_equal(look_after(0), QUEUE_NO_NEWS);
	assert_int_equal(look_after(1000), QUEUE_NO_NEWS);
	/* from the reload on */
	generation.mtas[0].drive = true;
	assert_int_equal(look_after(59), QUEUE_NO_NEWS);
	assert_int_equal(look_after(1), QUEUE_IS_AWAY);
	/* which ends it, too */
	generation.mtas[0].drive = false;
	assert_int_equal(look_after(1), QUEUE_NO_NEWS);
	assert_int_equal(atomic_load(&site.segment->header->queue_away_ns), 0);
	site_close(&site);
}

/* Any role can write them. */
TEST(times_that_make_no_sense_neither_end_the_keeper_nor_silence_it) {
	static const int64_t times_ns[] = { INT64_MIN, -1, INT64_MAX };
	struct segment_header *header;

	for (size_t i = 0; i < 3 * 3; i++) {
		begin(true);
		header = site.segment->header;
		role_starts();
		atomic_store(&header->roles[place].heartbeat_ns, times_ns[i % 3]);
		atomic_store(&header->roles[place].started_ns, times_ns[i / 3]);
		atomic_store(&header->queue_away_ns, times_ns[i % 3]);
		assert_int_equal(look_after(0), QUEUE_NO_NEWS);
		segment_role_died(site.segment, place, getpid());
		assert_int_equal(look_after(59), QUEUE_NO_NEWS);
		assert_int_equal(look_after(1), QUEUE_IS_AWAY);
		assert_int_equal(away_ns, 60 * NS_PER_SECOND);
		site_close(&site);
	}
}

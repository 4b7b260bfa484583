/* SPDX-License-Identifier: ISC */
/* The memory in which the feed keeps attempts whose level is not known yet. */
#include "tests/unit/test.h"
#include "engine/feed/feed_internal.h"
#include "tests/unit/engine/feed/results.h"

#define CONFIGURATION	"classes = ( { name = \"c\"; match = \"*\"; hold_at = 1; } );\n" \
	"mta = ( { name = \"a\"; log = \"/a\"; } );\n"
#define FIRST	16	/* entries of a new one */
#define MOST	16384	/* of one */
#define ALL	(1u << 20)
#define TABLE	32768	/* destinations */

static struct feed_memory *begin(void) {
	struct feed_memory *memory;

	site_open_sized(&site, 64, 1024, CONFIGURATION);
	now_ns = clock_now_ns();
	memory = feed_memory(site.engine, site.generation);
	assert_non_null(memory);
	return memory;
}

static struct feed_destination *destination(struct feed_memory *memory, unsigned number) {
	struct feed_destination *found;
	struct window_owner owner;
	struct state_key key;
	char name[32];
	int length = snprintf(name, sizeof(name), "d%u.example", number);

	assert_true(windows_owner_named(site.generation, name, (size_t)length, &owner));
	assert_true(states_key(site.segment, name, (size_t)length, &key));
	found = feed_destination(memory, &owner, &key, now_ns);
	return found;
}

/* So many that run at once. */
static void burst(struct feed_memory *memory, struct feed_destination *to, unsigned count) {
	for (unsigned i = 0; i < count; i++)
		feed_add_attempt(memory, to, &(struct level_attempt){
		    .start_ns = now_ns - NS_PER_SECOND - count + i, .end_ns = now_ns,
		    .accepted = true }, now_ns);
}

/* What is kept waits for others to end: if these never did, it would wait for ever. */
TEST(what_runs_by_a_log_is_over_though_no_other_result_comes) {
	struct feed_memory *memory = begin();
	struct feed_destination *to = destination(memory, 0);

	sent("d0.example", 100);
	burst(memory, to, 6);
	for (unsigned i = 0; i < 20; i++)
		pass(1);
	assert_int_equal(view_of("d0.example").in_flight, 0);
	assert_false(to->waiting);
	/* lines come late from now on: what is known is of long ago */
	to->level.latest_ns = 21 * NS_PER_SECOND;
	to->level.swept_ns = 0;
	now_ns += NS_PER_SECOND;
	(void)feed_line(&(struct line){ .domain = "d0.example", .program = "postfix/retry",
	    .status = DELIVERY_DEFERRED, .text = "Postern: d0.example is suspended" });
	assert_true(view_of("d0.example").in_flight > 0);
	for (unsigned i = 0; i < 30; i++)
		pass(1);
	assert_int_equal(view_of("d0.example").in_flight, 0);
	site_close(&site);
}

TEST(a_burst_gives_its_memory_back) {
	struct feed_memory *memory = begin();
	struct feed_destination *busy = destination(memory, 0);

	burst(memory, busy, MOST);
	assert_int_equal(feed_table_entries(memory->table), MOST);
	/* one that goes on, with little */
	for (unsigned i = 0; i < 600; i++) {
		now_ns += NS_PER_SECOND / 2;
		burst(memory, destination(memory, 0), 1);
		engine_feed_turn(site.engine, site.generation, now_ns);
	}
	assert_true(feed_table_entries(memory->table) <= 16 * FIRST);
	/* and one that ends */
	for (unsigned i = 0; i < 600; i++) {
		now_ns += NS_PER_SECOND / 2;
		engine_feed_turn(site.engine, site.generation, now_ns);
	}
	assert_int_equal(feed_table_entries(memory->table), 0);
	site_close(&site);
}

/* With more destinations than have room, each line would look at 64 others in vain. */
TEST(a_full_table_is_not_searched_for_each_line) {
	struct feed_memory *memory = begin();

	for (unsigned i = 0; i < TABLE; i++)
		assert_non_null(destination(memory, i));
	now_ns += 60 * NS_PER_SECOND - NS_PER_MS / 2;
	assert_null(destination(memory, TABLE));
	now_ns += NS_PER_MS / 2;	/* all are idle, and it looked just now */
	assert_null(destination(memory, TABLE));
	now_ns += NS_PER_MS / 2;
	for (unsigned i = 0; i < 1000; i++)
		assert_non_null(destination(memory, TABLE + i));
	site_close(&site);
}

TEST(large_destinations_leave_room_for_others) {
	struct feed_memory *memory = begin();
	uint64_t lost = atomic_load(&site.segment->header->counters[COUNTER_LEVELS_LOST]);

	for (unsigned i = 0; i < 60; i++)
		burst(memory, destination(memory, i), MOST);
	assert_true(feed_table_entries(memory->table) <= ALL);
	/* some of theirs had no room */
	assert_true(atomic_load(&site.segment->header->counters[COUNTER_LEVELS_LOST]) > lost);
	for (unsigned i = 100; i < 1000; i++)
		assert_non_null(destination(memory, i));
	lost = atomic_load(&site.segment->header->counters[COUNTER_LEVELS_LOST]);
	for (unsigned i = 100; i < 1000; i++)
		burst(memory, destination(memory, i), FIRST);
	assert_int_equal(atomic_load(&site.segment->header->counters[COUNTER_LEVELS_LOST]),
	    lost);
	site_close(&site);
}

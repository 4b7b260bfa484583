/* SPDX-License-Identifier: ISC */
/* Paces of destinations in the hints file, and passes of mail that waits. */
#include "tests/unit/test.h"
#include "engine/hints/hints_internal.h"
#include "segment/hints/paced.h"
#include "tests/unit/engine/hints/hints_world.h"

#define PACE	"destinations = ( { match = [ \"a.example\" ]; pace = \"30/1m\"; pace_burst = 3; } );\n"

static void begin(const char *settings) {
	world->more = settings;
	publish(LANES);
	see("a.example", 1, true);
	see("b.example", 1, true);
	turn(S);
}

/* Of so many questions. */
static unsigned went(const char *domain, unsigned questions) {
	unsigned count = 0;

	for (unsigned i = 0; i < questions; i++)
		count += look_up(domain)->kind != HINTS_HELD;
	return count;
}

TEST_IN(world_open, world_close, a_destination_keeps_its_pace) {
	begin(PACE);
	assert_int_equal(went("a.example", 10), 3);
	assert_string_equal(look_up("a.example")->text, "Postern: pace of a.example is 30/1m");
	assert_int_equal(went("b.example", 10), 10);
	turn(2 * S);
	assert_int_equal(went("a.example", 10), 1);
	/* without it */
	world->more = NULL;
	publish(LANES);
	turn(S);
	assert_int_equal(went("a.example", 10), 10);
	world->more = PACE;
	publish(LANES);
	turn(S);
	assert_int_equal(went("a.example", 10), 3);
}

static bool goes(const char *address) {
	struct hints_answer answer;

	hints_reader_ask(world->reader, "out", address, strlen(address), false, world->now_ns,
	    &answer);
	return answer.kind != HINTS_HELD;
}

TEST_IN(world_open, world_close, mail_that_waits_goes_by_its_pass) {
	struct segment *segment = world->site.segment;
	const struct siphash_key key = paced_key(segment);
	struct paced_slot *waits;
	uint64_t word;
	int64_t pass;

	begin(PACE);
	waits = paced_begin(segment, lane_uses_hash(segment, "a.example", 9), world->now_ns);
	assert_non_null(waits);
	turn(S);
	assert_int_equal(went("a.example", 10), 0);
	for (unsigned i = 0; i < 200; i++) {
		char address[32];
		size_t length = (size_t)snprintf(address, sizeof(address), "u%u@a.example", i);

		word = hints_pass_add(&key, 0, address, length);
		/* one in some hundreds has the same bits */
		if (hints_pass_add(&key, word, "other@a.example", 15) == word)
			continue;
		pass = paced_pass(segment, waits, word, world->now_ns);
		assert_false(paced_is_written(waits, pass));
		turn(S / 10);
		paced_beat(waits, world->now_ns);
		assert_true(paced_is_written(waits, pass));
		assert_false(goes("other@a.example"));
		assert_true(goes(address));
		assert_false(goes(address));
	}
	/* nobody says any more that mail waits */
	turn(PACED_BEAT_NS);
	assert_int_equal(went("a.example", 10), 3);
}

TEST_IN(world_open, world_close, tokens_of_mail_that_waited_are_not_taken_again) {
	struct segment *segment = world->site.segment;
	struct paced_slot *waits;
	struct window_tokens tokens;
	struct window_owner owner;

	begin(PACE);
	waits = paced_begin(segment, lane_uses_hash(segment, "a.example", 9), world->now_ns);
	windows_owner(world->site.engine, world->generation, "a.example", 9, &owner);
	/* the law counts in 0.1 ms: the last one may come that much later */
	for (unsigned i = 0; i < 2; i++)
		windows_pace_take(world->site.engine, world->generation, &owner, 9,
		    world->now_ns + i * NS_PER_MS, &tokens);
	assert_true(tokens.is_paced);
	assert_true(tokens.wait_ns > S);
	turn(S / 10);
	paced_beat(waits, 0);
	turn(S / 10);
	assert_int_equal(went("a.example", 10), 0);
	turn(2 * S);
	assert_int_equal(went("a.example", 10), 1);
}

TEST_IN(world_open, world_close, more_paces_than_the_file_had_places) {
	char name[40];

	world->more = "destinations = ( { match = [ \"*.p.example\" ]; pace = \"1/1h\"; } );\n";
	publish(LANES);
	turn(S);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "d%u.p.example", i);
		see(name, 1, true);
	}
	for (unsigned i = 0; i < 20; i++)
		turn(S);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "d%u.p.example", i);
		assert_int_equal(went(name, 10), 1);
	}
}

TEST_IN(world_open, world_close, in_observe_mode_nothing_is_kept_back) {
	begin("outbound = { observe = true; };\n" PACE);
	assert_int_equal(went("a.example", 10), 10);
}

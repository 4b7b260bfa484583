/* SPDX-License-Identifier: ISC */
/* Sources that are warmed up, from the configuration to postern-lookup's answer, and back from the
 * log. */
#include "tests/unit/test.h"

#include <sys/stat.h>

#include "engine/destination/sources.h"
#include "engine/hints/hints_internal.h"
#include "segment/destination/destinations.h"
#include "segment/hints/sources.h"
#include "tests/unit/engine/hints/hints_world.h"

#define GROUP	"hints = { group = \"root\"; }; journal = { path = \"none\"; };\n"
#define WARM(numbers, per) "warm = { plan = [ " numbers " ]; per = \"" per "\"; };"
#define ONE	GROUP "sources = ( { name = \"ip2\"; transport = \"smtp-ip2\"; " \
	WARM("50, 100, 200", "source") " } );\n"
#define TWO	GROUP "sources = ( { name = \"ip2\"; transport = \"smtp-ip2\"; " \
	WARM("10, 20", "source") " },\n" \
	"{ name = \"ip3\"; transport = \"smtp-ip3\"; " WARM("5, 9", "source") " over = \"smtp\"; } );\n"
#define SITE	LANES "source smtp-ip2\nsource smtp-ip3\n"

static void begin(const char *settings) {
	world->more = settings;
	publish(SITE);
	see("a.example", 1, true);
	turn(S);
	turn(S / 10);
}

static bool has_all_but(const void *missing, uint64_t transport) {
	return missing == NULL || transport != hints_transport(missing);
}

/* `missing`: a transport that the site's file does not have; or NULL. */
static const struct hints_answer *send_without(const char *missing, const char *domain) {
	hints_reader_allow_sources(world->reader, has_all_but, missing);
	return look_up(domain);
}

static const struct hints_answer *send_to(const char *domain) {
	return send_without(NULL, domain);
}

/* Of so many questions: how many went by the transport. */
static unsigned sent(const char *domain, const char *transport, unsigned questions) {
	unsigned count = 0;

	for (unsigned i = 0; i < questions; i++) {
		const struct hints_answer *answer = send_to(domain);

		count += answer->kind == HINTS_SOURCE &&
		    answer->transport == hints_transport(transport);
	}
	return count;
}

/* The same, with turns between. */
static unsigned sent_slowly(const char *domain, const char *transport, unsigned questions) {
	unsigned count = 0;

	for (unsigned i = 0; i < questions; i++) {
		count += sent(domain, transport, 1);
		turn(S / 10);
	}
	return count;
}

/* The log tells of so many of today's messages that they were accepted. */
static void are_accepted(unsigned count) {
	const struct source_result result = { .counts = true, .sent_ns = world->now_ns };

	while (count-- > 0)
		engine_source_result(world->site.engine, world->generation, 0, SOURCE_OTHERS,
		    &result, world->now_ns);
}

static struct source_view look(uint32_t number) {
	struct source_view view;

	engine_source_look(world->site.engine, world->generation, number, SOURCE_OTHERS,
	    world->now_ns, &view);
	return view;
}

TEST_IN(world_open, world_close, no_more_than_the_number_goes_in_a_day) {
	begin(ONE);
	/* half of what is left is released at a time: 25 */
	assert_int_equal(sent("a.example", "smtp-ip2", 100), 25);
	assert_string_equal(send_to("a.example")->text,
	    "Postern: warm-up of ip2: the number of the day is used");
	turn(S / 10);
	assert_int_equal(look(0).warm.sent, 25);
	assert_int_equal(look(0).left, 25);
	/* 16 at least */
	assert_int_equal(sent("a.example", "smtp-ip2", 100), 16);
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 100), 9);
	assert_int_equal(look(0).warm.sent, 50);
	assert_int_equal(look(0).left, 0);
	/* the next day can begin 24 hours after the first message was counted */
	assert_int_equal(look(0).next_ns, look(0).warm.ends_ns);
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 10), 0);
	/* it was used and nothing was throttled: 100 the next day */
	are_accepted(50);
	turn(WARM_DAY_NS);
	turn(S / 10);
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 300), 100);
	assert_int_equal(look(0).warm.number, 100);
}

TEST_IN(world_open, world_close, a_domain_that_was_never_seen_goes_by_it_too) {
	begin(ONE);
	assert_int_equal(sent_slowly("new.example", "smtp-ip2", 200), 50);
	assert_int_equal(send_to("new.example")->kind, HINTS_HELD);
	assert_int_equal(send_to("a.example")->kind, HINTS_HELD);
	/* what the site leaves to nobody is asked about without that */
	assert_int_not_equal(look_up("a.example")->kind, HINTS_HELD);
	assert_int_not_equal(look_up("a.example")->kind, HINTS_SOURCE);
}

TEST_IN(world_open, world_close, the_second_source_has_what_is_above_the_first) {
	begin(TWO);
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 10), 10);
	assert_int_equal(sent_slowly("a.example", "smtp-ip3", 5), 5);
	/* over the transport that lanes clone: as without sources */
	assert_int_equal(send_to("a.example")->kind, HINTS_LANE);
	assert_int_equal(engine_source_choose(world->site.engine, world->generation, SOURCE_OTHERS,
	    world->now_ns), 2);
	assert_false(engine_sources_make_wait(world->generation));
}

TEST_IN(world_open, world_close, another_transport_has_what_is_above_the_number) {
	begin(GROUP "sources = ( { name = \"ip2\"; transport = \"smtp-ip2\"; " WARM("3, 20", "source")
	    " over = \"smtp-old\"; } );\n");
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 3), 3);
	assert_int_equal(sent("a.example", "smtp-old", 10), 10);
	assert_int_equal(sent("new.example", "smtp-old", 10), 10);
	assert_string_equal(send_to("a.example")->domain, "a.example");
}

/* It would be used up, and grow, though nothing goes by it. */
TEST_IN(world_open, world_close, a_source_whose_transport_the_site_lacks_takes_no_number) {
	begin(TWO);
	for (unsigned i = 0; i < 5; i++) {
		const struct hints_answer *answer = send_without("smtp-ip2", "a.example");

		assert_int_equal(answer->kind, HINTS_SOURCE);
		assert_int_equal(answer->transport, hints_transport("smtp-ip3"));
		turn(S / 10);
	}
	assert_int_equal(send_without("smtp-ip2", "a.example")->kind, HINTS_LANE);
	assert_int_equal(look(0).left, 10);
	assert_int_equal(look(1).left, 0);
}

TEST_IN(world_open, world_close, over_a_transport_that_the_site_lacks_is_not_used) {
	begin(GROUP "sources = ( { name = \"ip2\"; transport = \"smtp-ip2\"; " WARM("3, 20", "source")
	    " over = \"smtp-old\"; } );\n");
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 3), 3);
	assert_int_equal(send_without("smtp-old", "a.example")->kind, HINTS_LANE);
}

static void see_at_big(const char *name) {
	struct delivery_seen seen = { .name = name, .name_length = strlen(name), .mta = 1,
		.cloned = true, .relay_name = "mx.big.example", .relay_name_length = 14 };

	assert_true(address_parse("192.0.2.1", 9, &seen.relay));
	assert_true(destinations_note(world->site.segment, &seen, clock_now_ns()));
	assert_true(relays_note(world->site.segment, &seen, clock_now_ns()));
}

/* Domains of a provider have numbers together, all others together theirs. */
TEST_IN(world_open, world_close, each_provider_has_its_own_numbers) {
	char path[160], settings[600];
	FILE *file;

	snprintf(path, sizeof(path), "%s/big.conf", world->site.directory);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("version = 1; providers = ( { name = \"big\"; relays = [ \"*.big.example\" ]; } );\n", file);
	assert_int_equal(fclose(file), 0);
	snprintf(settings, sizeof(settings), "providers = \"%s\";\n" GROUP "sources = ( "
	    "{ name = \"ip2\"; transport = \"smtp-ip2\"; " WARM("10, 20", "provider") " } );\n", path);
	begin(settings);
	see_at_big("b.example");
	see_at_big("c.example");
	turn(S);
	turn(S);
	assert_int_equal(sent_slowly("b.example", "smtp-ip2", 7), 7);
	assert_int_equal(sent_slowly("c.example", "smtp-ip2", 7), 3);
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 6), 6);
	assert_int_equal(sent_slowly("new.example", "smtp-ip2", 7), 4);
	assert_int_equal(send_to("b.example")->kind, HINTS_HELD);
	assert_int_equal(look(0).warm.sent, 10);
	assert_int_equal(engine_sources_ready(world->site.engine, world->generation, 0), 0);
}

TEST_IN(world_open, world_close, a_held_destination_takes_no_number) {
	begin(ONE);
	by_hand(MANUAL_HOLD, "a.example");
	turn(S);
	assert_int_equal(sent("a.example", "smtp-ip2", 10), 0);
	turn(S / 10);
	assert_int_equal(look(0).warm.sent, 0);
}

TEST_IN(world_open, world_close, what_was_released_comes_back_with_another_file) {
	begin(ONE);
	assert_int_equal(sent("a.example", "smtp-ip2", 7), 7);
	publish(SITE);
	turn(S);
	turn(S / 10);
	assert_int_equal(look(0).warm.sent, 7);
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 100), 43);
}

static void restart_keeper(void) {
	struct diag diag;

	engine_hints_close(&world->hints);
	assert_int_equal(engine_hints_open(&world->hints, world->site.engine, (gid_t)-1,
	    &(struct hints_calls){ .context = NULL }, &diag), 0);
}

TEST_IN(world_open, world_close, a_keeper_that_dies_loses_no_number) {
	begin(ONE);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(sent("a.example", "smtp-ip2", 3), 3);
		restart_keeper();
		/* it is away, and what it released is good */
		assert_int_equal(sent("a.example", "smtp-ip2", 4), 4);
		turn(S);
		turn(S / 10);
		assert_int_equal(look(0).warm.sent, 7 * (i + 1));
	}
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 100), 15);
}

TEST_IN(world_open, world_close, a_reader_that_dies_loses_nothing_it_counted) {
	begin(ONE);
	assert_int_equal(sent("a.example", "smtp-ip2", 9), 9);
	hints_reader_close(&world->reader);
	world->reader = hints_reader_open(world->path);
	assert_int_equal(sent("a.example", "smtp-ip2", 100), 16);
}

TEST_IN(world_open, world_close, without_the_file_of_numbers_mail_goes_as_without_sources) {
	char path[sizeof(world->path) + 8];

	begin(ONE);
	snprintf(path, sizeof(path), "%s.given", world->path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(send_to("a.example")->kind, HINTS_LANE);
	assert_int_equal(send_to("new.example")->kind, HINTS_LANE);
}

/* Else mail would go as without sources until the next reload. */
TEST_IN(world_open, world_close, a_file_of_numbers_that_was_removed_is_made_anew) {
	char path[sizeof(world->path) + 8];

	begin(ONE);
	assert_int_equal(sent("a.example", "smtp-ip2", 5), 5);
	snprintf(path, sizeof(path), "%s.given", world->path);
	assert_int_equal(unlink(path), 0);
	for (unsigned i = 0; i < 3; i++)
		turn(S);
	assert_int_equal(look(0).warm.sent, 5);
	hints_reader_close(&world->reader);
	world->reader = hints_reader_open(world->path);
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 100), 45);
}

TEST_IN(world_open, world_close, that_the_file_of_numbers_cannot_be_made_is_told_once) {
	char path[sizeof(world->path) + 16];

	begin(ONE);
	snprintf(path, sizeof(path), "%s.given.new", world->path);
	assert_int_equal(mkdir(path, 0700), 0);
	publish(SITE);
	assert_int_equal(try_turn(S), -1);
	assert_int_equal(send_to("a.example")->kind, HINTS_LANE);
	assert_int_equal(try_turn(S), 0);
	assert_int_equal(rmdir(path), 0);
	for (unsigned i = 0; i < 3; i++)
		turn(S);
	assert_int_equal(sent("a.example", "smtp-ip2", 1), 1);
}

TEST_IN(world_open, world_close, a_file_of_numbers_that_was_cut_is_made_anew) {
	char path[sizeof(world->path) + 8];

	begin(ONE);
	assert_int_equal(sent("a.example", "smtp-ip2", 5), 5);
	snprintf(path, sizeof(path), "%s.given", world->path);
	assert_int_equal(truncate(path, 100), 0);
	assert_int_equal(sent("a.example", "smtp-ip2", 5), 0);
	for (unsigned i = 0; i < 5; i++)
		turn(S);
	/* what was released may have been used: 25, and 50 are never exceeded */
	assert_int_equal(look(0).warm.sent, 25);
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 100), 25);
}

TEST_IN(world_open, world_close, what_the_log_tells_and_nobody_asked_for_is_charged) {
	struct source_result result = { .counts = true, .log = 7 };

	begin(ONE);
	assert_int_equal(sent("a.example", "smtp-ip2", 10), 10);
	for (unsigned i = 0; i < 12; i++) {
		result.offset = 100 + i;
		engine_source_result(world->site.engine, world->generation, 0, SOURCE_OTHERS,
		    &result, world->now_ns);
		/* a line that is read again */
		engine_source_result(world->site.engine, world->generation, 0, SOURCE_OTHERS,
		    &result, world->now_ns);
	}
	turn(S / 10);
	assert_int_equal(look(0).warm.sent, 12);
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 100), 38);
}

TEST_IN(world_open, world_close, a_bad_day_ends_early) {
	struct source_result result = { .counts = true };

	begin(ONE);
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 50), 50);
	are_accepted(50);
	turn(WARM_DAY_NS);
	turn(S / 10);
	/* of a day of 100: 30 answers, of which 3 are more than 8 % */
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 30), 30);
	for (unsigned i = 0; i < 30; i++) {
		result.throttled = i < 3;
		result.sent_ns = world->now_ns;
		engine_source_result(world->site.engine, world->generation, 0, SOURCE_OTHERS,
		    &result, world->now_ns);
	}
	turn(S / 10);
	/* as many as by the step before: 50 */
	assert_true(look(0).warm.is_cut);
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 100), 20);
}

/* Its last results may not be known when the next day begins. */
TEST_IN(world_open, world_close, before_a_day_begins_no_more_is_released_than_by_the_step_before) {
	struct source_result result = { .counts = true, .throttled = true };

	begin(GROUP "sources = ( { name = \"ip2\"; transport = \"smtp-ip2\"; "
	    WARM("10, 1000", "source") " } );\n");
	assert_int_equal(sent_slowly("a.example", "smtp-ip2", 10), 10);
	are_accepted(10);
	turn(WARM_DAY_NS);
	turn(S / 10);
	assert_int_equal(sent("a.example", "smtp-ip2", 1000), 10);
	for (unsigned i = 0; i < 20; i++) {
		turn(S / 10);
		(void)sent("a.example", "smtp-ip2", 60);
	}
	turn(S / 10);
	assert_int_equal(look(0).warm.number, 1000);
	assert_in_range(look(0).warm.sent, 700, 1000);
	turn(WARM_DAY_NS);
	turn(S / 10);
	for (unsigned i = 0; i < 12; i++)
		engine_source_result(world->site.engine, world->generation, 0, SOURCE_OTHERS,
		    &result, world->now_ns);
	assert_int_equal(sent("a.example", "smtp-ip2", 1000), 10);
	turn(S / 10);
	assert_int_equal(look(0).warm.sent, 10);
}

TEST_IN(world_open, world_close, in_observe_mode_no_source_is_used) {
	begin("outbound = { observe = true; };\n" ONE);
	assert_int_equal(sent("a.example", "smtp-ip2", 10), 0);
	assert_int_equal(sent("new.example", "smtp-ip2", 10), 0);
}

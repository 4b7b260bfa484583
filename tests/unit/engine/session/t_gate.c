/* SPDX-License-Identifier: ISC */
/* The gate under virtual time: when it is shut, when that is said, and how often. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "engine/session/gate.h"
#include "tests/unit/random.h"
#include "tests/unit/own_site.h"

#define MS NS_PER_MS
#define TWO_CLASSES "classes = ( " \
	"{ name = \"a\"; match = [ \"192.0.2.0/24\" ]; hold_at = 1; refuse_at = 1; }, " \
	"{ name = \"b\"; match = [ \"198.51.100.0/24\" ]; hold_at = 3; refuse_at = 2; } );"

static struct gate_watch watch;
static int64_t now_ns;

static void begin(const char *classes) {
	site_open(&site, 1000, classes);
	watch = (struct gate_watch){ 0 };
	now_ns = clock_now_ns();
}

static enum gate_news look_after(int64_t ms) {
	now_ns += ms * MS;
	return gate_watch_look(&watch, site.engine, site.generation, now_ns);
}

static struct answer ask(const char *client, uint16_t port) {
	struct question question = site_question(client, port, NULL);
	struct answer answer;

	answer = site_ask(&question, now_ns);
	return answer;
}

static void fill(struct session_ref *last) {
	(void)ask("192.0.2.1", 1);
	(void)ask("198.51.100.1", 1);
	*last = ask("198.51.100.1", 2).session;
}

TEST_IN(NULL, site_end, it_is_shut_while_every_class_is_full) {
	struct session_ref last;

	begin(TWO_CLASSES);
	assert_int_equal(look_after(0), GATE_NO_NEWS);
	(void)ask("192.0.2.1", 1);
	(void)ask("198.51.100.1", 1);
	assert_int_equal(look_after(200), GATE_NO_NEWS);
	last = ask("198.51.100.1", 2).session;
	assert_int_equal(look_after(200), GATE_SHUTS);
	assert_int_equal(look_after(1800), GATE_NO_NEWS);
	engine_session_close(site.engine, &last, now_ns);
	assert_int_equal(look_after(1), GATE_OPENS);
	assert_int_equal(look_after(5000), GATE_NO_NEWS);
}

TEST_IN(NULL, site_end, it_is_said_again_every_two_seconds) {
	struct session_ref last;
	unsigned said = 0;

	begin(TWO_CLASSES);
	fill(&last);
	assert_int_equal(look_after(0), GATE_SHUTS);
	for (unsigned i = 0; i < 100; i++)
		said += look_after(200) == GATE_STILL_SHUT;
	assert_int_equal(said, 10);
	/* a new keeper does not know whether the old one's word still holds */
	watch = (struct gate_watch){ 0 };
	assert_int_equal(look_after(1), GATE_STILL_SHUT);
	assert_int_equal(look_after(1999), GATE_NO_NEWS);
	assert_int_equal(look_after(1), GATE_STILL_SHUT);
}

TEST_IN(NULL, site_end, at_most_one_change_a_second) {
	struct random random = random_seeded("at_most_one_change_a_second");
	int64_t last_ns = 0;
	struct session_ref last;
	bool full = true, shut = false;

	begin(TWO_CLASSES);
	fill(&last);
	for (unsigned i = 0; i < 20000; i++) {
		enum gate_news news;

		if (random_below(&random, 3) == 0) {
			if (full)
				engine_session_close(site.engine, &last, now_ns);
			else
				last = ask("198.51.100.1", 2).session;
			full = !full;
		}
		news = look_after(random_below(&random, 400));
		assert_true(news != (shut ? GATE_SHUTS : GATE_OPENS));
		if (news == GATE_SHUTS || news == GATE_OPENS) {
			assert_true(now_ns - last_ns >= NS_PER_SECOND);
			last_ns = now_ns;
			shut = !shut;
			assert_int_equal(shut, full);
		}
		/* what is true for a second is said */
		assert_true(shut == full || now_ns - last_ns < NS_PER_SECOND);
	}
}

TEST(observed_and_unlimited_classes_have_room) {
	begin("classes = ( { name = \"a\"; match = [ \"192.0.2.0/24\" ]; hold_at = 1; }, "
	      "{ name = \"o\"; match = [ \"198.51.100.0/24\" ]; hold_at = 1; observe = true; } );");
	(void)ask("192.0.2.1", 1);
	(void)ask("198.51.100.1", 1);
	assert_int_equal(look_after(200), GATE_NO_NEWS);
	site_close(&site);
	begin("classes = ( { name = \"a\"; match = [ \"192.0.2.0/24\" ]; hold_at = 1; }, "
	      "{ name = \"u\"; match = [ \"198.51.100.0/24\" ]; client = { sessions = 1; }; } );");
	(void)ask("192.0.2.1", 1);
	(void)ask("198.51.100.1", 1);
	assert_int_equal(look_after(200), GATE_NO_NEWS);
	site_close(&site);
	begin("classes = ();");
	assert_int_equal(look_after(200), GATE_NO_NEWS);
	site_close(&site);
}

TEST_IN(NULL, site_end, refusals_say_that_it_is_shut) {
	struct answer answer;
	struct session_ref last;
	struct question exempt = site_question("203.0.113.9", 1, NULL);

	begin("exempt = [ \"203.0.113.0/24\" ]; " TWO_CLASSES);
	(void)ask("192.0.2.1", 1);
	answer = ask("192.0.2.1", 2);
	assert_int_equal(answer.decision.verdict, VERDICT_REFUSE);
	assert_int_equal(answer.decision.reason, REASON_CLASS_INBOUND);
	assert_int_equal(ask("10.0.0.1", 1).decision.verdict, VERDICT_ADMIT);
	fill(&last);
	answer = ask("192.0.2.1", 3);
	assert_int_equal(answer.decision.verdict, VERDICT_REFUSE);
	assert_int_equal(answer.decision.reason, REASON_GATE_SHUT);
	assert_int_equal(answer.decision.limit, 1);
	answer = ask("10.0.0.1", 2);
	assert_int_equal(answer.decision.verdict, VERDICT_REFUSE);
	assert_int_equal(answer.decision.reason, REASON_GATE_SHUT);
	engine_session_open(site.engine, site.generation, &exempt, now_ns,
	    &answer);
	assert_int_equal(answer.decision.reason, REASON_EXEMPT);
}

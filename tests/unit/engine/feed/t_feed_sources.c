/* SPDX-License-Identifier: ISC */
/* Results of mail that went by the transport of a source that is warmed up. */
#include "tests/unit/test.h"
#include "engine/destination/sources.h"
#include "segment/destination/destinations.h"
#include "segment/file/delays.h"
#include "segment/hints/sources.h"
#include "tests/unit/engine/feed/results.h"

#define SITE "classes = ( { name = \"c\"; match = \"*\"; } );\n" \
	"mta = ( { name = \"p\"; log = \"/a\"; } );\nhints = { group = \"root\"; };\n" \
	"sources = ( { name = \"ip2\"; transport = \"smtp-ip2\"; warm = { plan = [ 50, 100 ]; }; } );\n"

static const char providers[] = "version = 1;\n"
    "providers = ( { name = \"big\"; relays = [ \"*.big.example\" ];\n"
    "  replies = ( { match = \"^421 4\\\\.7\\\\.28\"; action = \"slow\"; } ); } );\n";
static const char put_off[] = "host mx.example.net[192.0.2.1] said: 450 4.7.1 too many messages "
    "(in reply to RCPT TO command)";

static int begin(void **state) {
	(void)state;
	site_providers = providers;
	site_open(&site, 64, SITE);
	now_ns = clock_now_ns() / NS_PER_SECOND * NS_PER_SECOND;
	return 0;
}

static int close_site(void **state) {
	(void)state;
	site_close(&site);
	site_providers = NULL;
	return 0;
}

static void take(const char *relay_name, const char *program, enum delivery_status status,
    const char *text, uint64_t offset) {
	(void)feed_line(&(struct line){ .domain = "d.example", .relay_name = relay_name,
		.relay = "192.0.2.1", .status = status, .text = text, .took_ms = 50,
		.program = program, .origin = { .log = offset == 0 ? 0 : 7, .offset = offset } });
}

static struct source_state state_of(const char *provider) {
	struct source_state state;

	(void)source_look(site.segment, source_key("ip2", provider), &state);
	return state;
}

static void counts(const char *provider, uint32_t lines, uint32_t answered, uint32_t throttled) {
	struct source_state state = state_of(provider);

	assert_int_equal(state.lines, lines);
	assert_int_equal(state.warm.answered, answered);
	assert_int_equal(state.warm.throttled, throttled);
}

/* The day runs. */
static void send_some(const char *provider) {
	struct source_held held;

	assert_true(source_lock(site.segment, source_key("ip2", provider), now_ns, &held));
	held.state.warm = (struct warm){ .day_ns = now_ns - NS_PER_SECOND, .sent = 40 };
	source_put(&held);
	source_unlock(&held);
}

TEST_IN(begin, close_site, accepted_and_throttled_are_counted) {
	send_some("");
	take("mx.example.net", "postfix/smtp-ip2/smtp", DELIVERY_SENT, accepted, 0);
	counts("", 1, 1, 0);
	take("mx.example.net", "postfix/smtp-ip2/smtp", DELIVERY_DEFERRED, put_off, 0);
	counts("", 2, 2, 1);
	take("mx.example.net", "postfix/smtp-ip2/smtp", DELIVERY_DEFERRED, refused, 0);
	counts("", 3, 3, 2);
	/* nobody said anything */
	take("mx.example.net", "postfix/smtp-ip2/smtp", DELIVERY_DEFERRED, down, 0);
	counts("", 4, 3, 2);
	/* other transports, and what was held */
	take("mx.example.net", "postfix/smtp", DELIVERY_SENT, accepted, 0);
	take("mx.example.net", "postfix/smtp-ip22/smtp", DELIVERY_SENT, accepted, 0);
	take(NULL, "postfix/retry", DELIVERY_DEFERRED, "Postern: warm-up of ip2: the number of the "
	    "day is used", 0);
	counts("", 4, 3, 2);
}

static void takes_s(const char *relay_name, uint16_t port, enum delivery_status status,
    int64_t seconds, uint64_t offset) {
	(void)feed_line(&(struct line){ .domain = "d.example", .relay_name = relay_name, .port = port,
		.relay = "192.0.2.1", .status = status, .text = accepted, .took_ms = 50,
		.delay_ms = seconds * 1000, .origin = { .log = offset == 0 ? 0 : 7, .offset = offset } });
}

TEST_IN(begin, close_site, delays_are_counted_by_provider) {
	uint32_t big = generation_find_provider(site.generation, "big", 3);
	struct delays delays;

	takes_s("mx.big.example", 0, DELIVERY_SENT, 60, 100);
	takes_s("mx.big.example", 0, DELIVERY_SENT, 61, 200);
	takes_s("mx.example.net", 0, DELIVERY_SENT, 2, 300);
	/* told again, not delivered, taken by a content filter, not told */
	takes_s("mx.big.example", 0, DELIVERY_SENT, 60, 100);
	takes_s("mx.big.example", 0, DELIVERY_DEFERRED, 60, 400);
	takes_s("mx.big.example", 10024, DELIVERY_SENT, 60, 500);
	takes_s("mx.big.example", 0, DELIVERY_SENT, -1, 600);
	assert_true(delays_read(site.segment, delay_row(site.generation, big), "big", &delays));
	assert_int_equal(delays.count, 2);
	assert_int_equal(delays.buckets[3], 1);
	assert_int_equal(delays.buckets[4], 1);
	assert_int_equal(delays.sum_ms, 121000);
	assert_true(delays_read(site.segment, 0, DELAY_OTHER, &delays));
	assert_int_equal(delays.count, 1);
	assert_int_equal(delays.buckets[1], 1);
}

TEST_IN(begin, close_site, a_provider_counts_by_itself) {
	send_some("big");
	take("mx.big.example", "postfix/smtp-ip2/smtp", DELIVERY_SENT, accepted, 0);
	take("mx.big.example", "postfix/smtp-ip2/smtp", DELIVERY_DEFERRED,
	    "host mx.big.example[192.0.2.1] refused to talk to me: 421 4.7.28 too fast", 0);
	counts("big", 2, 2, 1);
	counts("", 0, 0, 0);
}

TEST_IN(begin, close_site, a_line_that_is_read_again_counts_once) {
	send_some("");
	for (unsigned i = 0; i < 3; i++) {
		take("mx.example.net", "postfix/smtp-ip2/smtp", DELIVERY_SENT, accepted, 100);
		take("mx.example.net", "postfix/smtp-ip2/smtp", DELIVERY_DEFERRED, put_off, 200);
	}
	counts("", 2, 2, 1);
}

/* That a new address is put off is not the state of the site. */
TEST_IN(begin, close_site, what_throttles_a_source_lowers_no_window) {
	uint32_t before;

	for (unsigned i = 0; i < 50; i++)
		take("mx.example.net", "postfix/smtp", DELIVERY_SENT, accepted, 0);
	before = view_of("d.example").window;
	for (unsigned i = 0; i < 50; i++)
		take("mx.example.net", "postfix/smtp-ip2/smtp", DELIVERY_DEFERRED, put_off, 0);
	assert_int_equal(view_of("d.example").window, before);
	assert_int_equal(view_of("d.example").state, WINDOW_OPEN);
}

TEST_IN(begin, close_site, its_mail_keeps_the_hints_of_a_domain) {
	struct destination_seen seen;

	take("mx.example.net", "postfix/smtp-ip2/smtp", DELIVERY_SENT, accepted, 0);
	assert_true(destinations_find(site.segment, "d.example", 9, &seen));
	assert_int_equal(seen.cloned_by, 1);
	assert_int_equal(seen.other_by, 0);
}

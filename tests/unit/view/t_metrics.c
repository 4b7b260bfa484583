/* SPDX-License-Identifier: ISC */
/* The text format of the metrics: every declared metric once, true numbers, labels that
 * are bounded and escaped. */
#include "tests/unit/test.h"

#include "segment/destination/states.h"
#include "segment/file/delays.h"
#include "segment/file/timings.h"
#include "tests/unit/view/metrics_site.h"
#include "view/health.h"
#include "view/verdict.h"

#define CLASSES	"classes = ( { name = \"custo\\\"mer\\\\\"; match = [ \"192.0.2.0/24\" ]; " \
	"hold_at = 3; refuse_at = 2; },\n" \
	"{ name = \"all\"; match = [ \"*\" ]; hold_at = 50; refuse_at = 40; observe = true; } );\n" \
	"destinations = ( { match = [ \"Named.Example.\", \"*.many.example\" ]; " \
	"window = { destination_concurrency_limit = 7; }; } );\n"

static int open_site(void **state) {
	return open_viewed(1024, CLASSES);
}

static unsigned count(const char *part) {
	unsigned found = 0;

	for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
		found++;
	return found;
}

TEST_IN(open_site, close_site, every_metric_is_there_once) {
	static const char *const names[] = {
#define METRIC(samples, name, type, help) name,
#include "defs/metrics.def"
#undef METRIC
#define COUNTER(symbol, name, help) "postern_" name "_total",
#include "defs/counters.def"
#undef COUNTER
	};
	char line[200];

	scrape();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(line, sizeof(line), "\n# TYPE %s ", names[i]);
		assert_int_equal(count(line), 1);
		snprintf(line, sizeof(line), "# HELP %s ", names[i]);
		assert_int_equal(count(line), 1);
	}
	assert_int_equal(count("# TYPE "), sizeof(names) / sizeof(names[0]));
	assert_int_equal(text[strlen(text) - 1], '\n');
}

TEST_IN(open_site, close_site, numbers_are_those_of_the_state) {
	for (uint16_t port = 1000; port < 1003; port++)
		(void)site_verdict("192.0.2.7", port, NULL);
	scrape();
	expect("postern_class_open_sessions{class=\"custo\\\"mer\\\\\",direction=\"inbound\"} 2");
	expect("postern_class_open_sessions{class=\"custo\\\"mer\\\\\",direction=\"outbound\"} 0");
	expect("postern_class_inbound_limit{class=\"custo\\\"mer\\\\\"} 2");
	expect("postern_class_sessions_limit{class=\"all\"} 50");
	expect("postern_class_observe{class=\"all\"} 1");
	expect("postern_class_refused_total{class=\"custo\\\"mer\\\\\"} 1");
	expect("postern_admitted_total 2");
	expect("postern_refused_total 1");
	expect("postern_table_used{table=\"sessions\"} 3");
	expect("postern_role_up{role=\"policy.0\"} 1");
	expect("postern_live 1");
	expect("postern_healthy 1");
	expect("postern_gate_shut 0");
	expect("postern_configuration_generation 1");
}

TEST_IN(open_site, close_site, times_are_a_histogram) {
	struct timing_record *record =
	    &segment_header(site.segment)->timings[5][TIMING_MILTER];
	struct timing_record *other =
	    &segment_header(site.segment)->timings[6][TIMING_MILTER];

	timing_note(record, 900, 1);
	timing_note(record, 1000, 1);
	timing_note(other, 1001, 1);
	timing_note(other, 3 * NS_PER_SECOND, 1);
	scrape();
	expect("postern_decision_duration_seconds_bucket{kind=\"milter\",le=\"1e-06\"} 2");
	expect("postern_decision_duration_seconds_bucket{kind=\"milter\",le=\"2e-06\"} 3");
	expect("postern_decision_duration_seconds_bucket{kind=\"milter\",le=\"1\"} 3");
	expect("postern_decision_duration_seconds_bucket{kind=\"milter\",le=\"+Inf\"} 4");
	expect("postern_decision_duration_seconds_sum{kind=\"milter\"} 3.000002901");
	expect("postern_decision_duration_seconds_count{kind=\"milter\"} 4");
	expect("postern_decision_duration_seconds_count{kind=\"policy\"} 0");
}

static int open_with_providers(void **state) {
	site_providers = "version = 1;\nproviders = ( { name = \"google\"; relays = [ \"*.g.example\" ]; },\n"
	    "{ name = \"idle\"; relays = [ \"*.i.example\" ]; } );\n";
	return open_site(state);
}

static int close_with_providers(void **state) {
	site_providers = NULL;
	return close_site(state);
}

TEST_IN(open_with_providers, close_with_providers, delays_are_a_histogram_of_each_provider) {
	uint32_t google = generation_find_provider(site.generation, "google", 6);

	assert_int_not_equal(google, GENERATION_NO_PROVIDER);
	scrape();
	expect("postern_delivery_delay_seconds_count{provider=\"other\"} 0");
	assert_int_equal(count("postern_delivery_delay_seconds_count"), 1);
	delays_take_up(site.segment, site.generation);
	delay_note(site.segment, 0, 1000);
	delay_note(site.segment, 0, 1001);
	delay_note(site.segment, delay_row(site.generation, google), INT64_C(604800001));
	scrape();
	expect("postern_delivery_delay_seconds_bucket{provider=\"other\",le=\"1\"} 1");
	expect("postern_delivery_delay_seconds_bucket{provider=\"other\",le=\"5\"} 2");
	expect("postern_delivery_delay_seconds_sum{provider=\"other\"} 2.001");
	expect("postern_delivery_delay_seconds_bucket{provider=\"google\",le=\"604800\"} 0");
	expect("postern_delivery_delay_seconds_bucket{provider=\"google\",le=\"+Inf\"} 1");
	expect("postern_delivery_delay_seconds_count{provider=\"google\"} 1");
	assert_int_equal(count("postern_delivery_delay_seconds_count"), 2);
	expect("postern_waiting_oldest_seconds{reason=\"pace\"} 0.000000000");
	waiting_note(site.segment, WAITING_WARM, clock_now_ns() - 100 * NS_PER_SECOND);
	scrape();
	assert_non_null(strstr(text, "postern_waiting_oldest_seconds{reason=\"warm-up\"} 100."));
}

static void learn(const char *name, bool dead) {
	struct state_lock lock;

	assert_true(states_aim(site.segment, name, strlen(name), &lock));
	assert_int_equal(states_lock(&lock, clock_now_ns(), STATES_CREATE), STATES_HELD);
	window_begin(&lock.state.window, &window_defaults);
	lock.state.begun = true;
	if (dead) {
		lock.state.window.state = WINDOW_DEAD;
		lock.state.window.until_ns = clock_now_ns() + 100 * NS_PER_SECOND;
	}
	states_store(&lock);
	states_unlock(&lock);
}

/* Whoever sends mail can make up names: they are counted, never labels. */
TEST_IN(open_site, close_site, no_free_name_is_a_label) {
	learn("named.example", true);
	learn("x.many.example", true);
	learn("free.example", false);
	learn("provider:unheard-of", false);
	scrape();
	expect("postern_destinations{state=\"dead\"} 2");
	expect("postern_destinations{state=\"open\"} 2");
	expect("postern_destination_stopped{destination=\"named.example\"} 1");
	expect("postern_destination_in_flight{destination=\"named.example\"} 0");
	assert_int_equal(count("many.example"), 0);
	assert_int_equal(count("free.example"), 0);
	assert_int_equal(count("unheard-of"), 0);
}

/* Nothing was accepted: 10 a second, and then half of it. */
TEST_IN(open_site, close_site, paces_that_replies_lowered_are_counted) {
	struct state_lock lock;

	learn("named.example", false);
	learn("free.example", false);
	scrape();
	expect("postern_destinations_slowed 0");
	assert_int_equal(count("postern_destination_pace_interval_seconds{"), 0);
	assert_true(states_aim(site.segment, "named.example", 13, &lock));
	assert_int_equal(states_lock(&lock, clock_now_ns(), STATES_KNOWN_ONLY), STATES_HELD);
	assert_true(pace_refused(&lock.state.pace, &pace_defaults, 0, clock_now_ns()));
	states_store(&lock);
	states_unlock(&lock);
	scrape();
	expect("postern_destinations_slowed 1");
	expect("postern_destination_pace_interval_seconds{destination=\"named.example\"} 0.200000000");
	assert_int_equal(count("postern_destination_pace_interval_seconds{"), 1);
}

static void label_is(const char *value, const char *wanted) {
	char *out = NULL;
	size_t length;
	FILE *file = open_memstream(&out, &length);

	assert_non_null(file);
	metrics_label(file, value);
	assert_int_equal(fclose(file), 0);
	assert_string_equal(out, wanted);
	free(out);
}

TEST(labels_are_escaped) {
	label_is("", "");
	label_is("a\"b\\c", "a\\\"b\\\\c");
	label_is("a\nb\x1b[2J\x7f", "a\\\\x0ab\\\\x1b[2J\\\\x7f");
	label_is("\xc3\xa9\xff\xc3", "\xc3\xa9\\\\xff\\\\xc3");
}

static void health_is(bool healthy, const char *wanted) {
	char *out = NULL;
	size_t length;
	struct diag diag;
	FILE *file = open_memstream(&out, &length);

	assert_non_null(file);
	assert_int_equal(view_refresh(&view, &diag), 0);
	assert_int_equal(health_check(&view, file), healthy);
	assert_int_equal(fclose(file), 0);
	if (strncmp(out, wanted, strlen(wanted)) != 0)
		assert_string_equal(out, wanted);
	free(out);
}

TEST_IN(open_site, close_site, what_is_health) {
	struct segment_header *header = segment_header(site.segment);
	struct role_record *role = &header->roles[site.place];
	int32_t pid = atomic_load(&role->pid);

	health_is(true, "ok\n");
	atomic_store(&header->gate_shut, 1);
	health_is(true, "ok\nnote: all classes are full: new sessions are refused\n");
	atomic_store(&header->gate_shut, 0);
	atomic_store(&role->heartbeat_ns, clock_now_ns() - 5 * NS_PER_SECOND);
	health_is(false, "worker policy.0 is not responding (last heartbeat 5 s ago)\n");
	engine_heartbeat(site.engine, clock_now_ns());
	/* it could not take up the configuration in force */
	atomic_fetch_add(&header->generation, 1);
	atomic_store(&role->started_ns, clock_now_ns() - 9 * NS_PER_SECOND);
	atomic_store(&header->published_ns, clock_now_ns() - NS_PER_SECOND);
	health_is(true, "ok\n");
	atomic_store(&header->published_ns, clock_now_ns() - 3 * NS_PER_SECOND);
	health_is(false, "worker policy.0 uses configuration 1 instead of 2 (see the log)\n");
	assert_string_equal(health_word(&view), "behind");
	atomic_fetch_sub(&header->generation, 1);
	/* a second role that is away */
	segment_role_starting(site.segment, ROLE_MILTER, 1, clock_now_ns());
	assert_true(segment_role_died(site.segment, segment_role_place(ROLE_MILTER, 1),
	    getpid()));
	health_is(false, "worker milter.1 is not running\n");
	atomic_store(&header->heartbeat_ns, clock_now_ns() - 20 * NS_PER_SECOND);
	health_is(false, "posternd is not running (last heartbeat 20 s ago)\nworker milter.1 "
	    "is not running\n");
	scrape();
	expect("postern_live 0");
	expect("postern_healthy 0");
	expect("postern_role_up{role=\"milter.1\"} 0");
	atomic_store(&role->pid, pid);
}

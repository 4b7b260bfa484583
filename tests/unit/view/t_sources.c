/* SPDX-License-Identifier: ISC */
/* Sources that are warmed up, as they are shown: each state, and metrics. */
#include "tests/unit/test.h"

#include "segment/hints/sources.h"
#include "tests/unit/view/metrics_site.h"
#include "view/sources.h"

#define SOURCES	"mta = ( { log = \"\"; } ); hints = { group = \"g\"; };\n" \
	"classes = ( { name = \"all\"; match = \"*\"; hold_at = 5; } );\n" \
	"sources = ( { name = \"a\"; transport = \"ta\"; warm = { plan = [ 20, 40 ]; }; },\n" \
	"{ name = \"b\"; transport = \"tb\"; warm = { plan = [ 30 ]; per = \"source\"; };\n" \
	"over = \"smtp\"; } );\n"

static int open_site(void **state) {
	return open_viewed(64, SOURCES);
}

static void set(uint32_t number, struct source_state state) {
	struct source_held held;

	assert_true(source_lock(site.segment, source_key_of(site.generation, number,
	    GENERATION_NO_PROVIDER), clock_now_ns(), &held));
	held.state = state;
	source_put(&held);
	source_unlock(&held);
}

struct found {
	const char *source;
	struct view_source last;
	unsigned count;
};

static void find(void *context, const struct view_source *source) {
	struct found *found = context;

	found->count++;
	if (strcmp(source->source, found->source) == 0)
		found->last = *source;
}

static struct view_source seen(const char *name) {
	struct found found = { .source = name };
	struct diag diag;

	assert_int_equal(view_refresh(&view, &diag), 0);
	view_sources_each(&view, NULL, find, &found);
	assert_int_equal(found.count, 2);
	return found.last;
}

static void has_state(const char *name, const char *state, uint32_t left) {
	struct view_source source = seen(name);

	assert_string_equal(view_source_state(&source), state);
	assert_int_equal(source.left, left);
}

TEST_IN(open_site, close_site, each_state_has_a_word) {
	int64_t now_ns = clock_now_ns(), day_ns = now_ns - NS_PER_SECOND;

	has_state("a", "sending", 20);
	assert_string_equal(seen("a").provider, "others");
	assert_string_equal(seen("b").provider, "all");
	assert_string_equal(seen("b").over, "smtp");
	set(0, (struct source_state){ .warm = { .day_ns = day_ns, .sent = 20 } });
	has_state("a", "used", 0);
	set(0, (struct source_state){ .warm = { .day_ns = day_ns, .sent = 25, .answered = 25,
	    .throttled = 5, .step = 1 } });
	has_state("a", "early", 0);
	set(0, (struct source_state){ .warm = { .day_ns = now_ns - WARM_DAY_NS, .sent = 20,
	    .answered = 5, .verdict = WARM_UNUSED } });
	assert_true(seen("a").is_over);
	has_state("a", "ready", 40);
	set(1, (struct source_state){ .warm = { .day_ns = day_ns, .sent = 7, .step = 1,
	    .verdict = WARM_GREW } });
	has_state("b", "warm", UINT32_MAX);
	assert_true(view_source_is_known(&view, "b"));
	assert_false(view_source_is_known(&view, "c"));
}

TEST_IN(open_site, close_site, metrics_have_them) {
	int64_t day_ns = clock_now_ns() - NS_PER_SECOND;

	set(0, (struct source_state){ .warm = { .day_ns = day_ns, .sent = 12, .answered = 9,
	    .throttled = 1 } });
	set(1, (struct source_state){ .warm = { .day_ns = day_ns, .sent = 7, .step = 1 } });
	scrape();
	expect("postern_source_number{source=\"a\",provider=\"others\"} 20");
	expect("postern_source_sent{source=\"a\",provider=\"others\"} 12");
	expect("postern_source_left{source=\"a\",provider=\"others\"} 8");
	expect("postern_source_throttled{source=\"a\",provider=\"others\"} 1");
	expect("postern_source_sent{source=\"b\",provider=\"all\"} 7");
	assert_null(strstr(text, "postern_source_number{source=\"b\""));
	assert_null(strstr(text, "postern_source_left{source=\"b\""));
}

TEST_GROUP(NULL, NULL)

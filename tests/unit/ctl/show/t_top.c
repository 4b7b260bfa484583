/* SPDX-License-Identifier: ISC */
/* posternctl top without a terminal: what is gathered, in which order, how rows read. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "ctl/show/top.h"
#include "engine/cluster/shares.h"
#include "engine/destination/windows.h"
#include "segment/cluster/cluster_told.h"
#include "segment/destination/states.h"
#include "segment/file/internal.h"
#include "tests/unit/own_site.h"
#include "view/destination_page.h"

static struct top top;
static struct ctl ctl;

static int begin_with(const char *configuration) {
	struct diag diag;
	char path[128];

	site_open(&site, 64, configuration);
	memset(&top, 0, sizeof(top));
	top.ctl = &ctl;
	snprintf(path, sizeof(path), "%s/state", site.directory);
	assert_int_equal(view_open(&top.view, path, &diag), 0);
	return 0;
}

static int begin(void **state) {
	return begin_with("classes = (\n"
	    "{ name = \"few\"; match = \"192.0.2.0/24\"; hold_at = 4; refuse_at = 2; },\n"
	    "{ name = \"many\"; match = \"*\"; hold_at = 100; } );");
}

#ifdef WITH_CLUSTER
static int begin_cluster(void **state) {
	return begin_with("cluster = { redis = \"unix:/nowhere\"; node = \"mx1\"; nodes = 3; };\n"
	    "classes = (\n{ name = \"ours\"; match = \"192.0.2.0/24\"; hold_at = 30; "
	    "refuse_at = 20; scope = \"cluster\"; },\n"
	    "{ name = \"mine\"; match = \"*\"; hold_at = 100; } );");
}
#endif

static int end(void **state) {
	top_free(&top);
	site_close(&site);
	return 0;
}

static void by_hand(enum manual_verb verb, const char *name) {
	const struct by_hand request = { .verb = verb, .name = name,
		.name_length = strlen(name), .for_ns = 300 * NS_PER_SECOND,
		.reason = "a \"test\"", .window = verb == MANUAL_LIMIT ? 3 : BY_HAND_UNSET,
		.ceiling = verb == MANUAL_LIMIT ? 3 : BY_HAND_UNSET };
	struct window_owner owner;

	assert_int_equal(windows_by_hand(site.engine, site.generation, &request,
	    clock_now_ns(), &owner), BY_HAND_DONE);
}

static void look(int64_t later_ns) {
	assert_true(top_gather(&top, clock_now_ns() + later_ns));
	assert_true(top.is_there);
}

static const char *row(enum top_pane pane, size_t number, int width) {
	static char text[TOP_TEXT_MAX];

	(void)top_row(&top, pane, number, width, text);
	for (const char *c = text; *c != '\0'; c++)
		assert_in_range(*c, ' ', '~');
	return text;
}

TEST_IN(begin, end, classes_and_their_rates) {
	look(0);
	assert_int_equal(top.class_count, 2);
	assert_int_equal(site_verdict("192.0.2.1", 1, NULL), VERDICT_ADMIT);
	assert_int_equal(site_verdict("192.0.2.1", 2, NULL), VERDICT_ADMIT);
	assert_int_equal(site_verdict("192.0.2.1", 3, NULL), VERDICT_REFUSE);
	top.looked_ns = clock_now_ns() - NS_PER_SECOND;
	look(0);
	assert_string_equal(top.classes[0].class.name, "few");
	assert_int_equal(top.classes[0].class.open, 2);
	assert_true(top.classes[0].admitted > 1.5 && top.classes[0].admitted < 2.5);
	assert_true(top.classes[0].refused > 0.7 && top.classes[0].refused < 1.3);
	assert_true(top.rates[TOP_REFUSED] > 0.7 && top.rates[TOP_REFUSED] < 1.3);
	assert_non_null(strstr(row(TOP_CLASSES, 0, 80), "[##########]       2       2"));
	assert_int_equal(top_row(&top, TOP_CLASSES, 0, 80, (char[TOP_TEXT_MAX]){ 0 }), SCREEN_BAD);
	assert_true(strncmp(row(TOP_CLASSES, 1, 80), "many", 4) == 0);
	/* a second look that found nothing new */
	top.looked_ns = clock_now_ns() - NS_PER_SECOND;
	look(0);
	assert_true(top.classes[0].refused < 0.001);
}

TEST_IN(begin, end, destinations_in_order_and_by_filter) {
	by_hand(MANUAL_LIMIT, "b.example");
	by_hand(MANUAL_SUSPEND, "z.example");
	by_hand(MANUAL_HOLD, "u@a.example");
	look(0);
	assert_int_equal(top.destination_count, 3);
	/* by trouble: suspended, held, limited */
	assert_string_equal(top.destinations[0].name, "z.example");
	assert_string_equal(top.destinations[1].name, "u@a.example");
	assert_string_equal(top.destinations[2].name, "b.example");
	assert_non_null(strstr(row(TOP_DESTINATIONS, 0, 100), "z.example"));
	assert_non_null(strstr(row(TOP_DESTINATIONS, 0, 100), "suspended"));
	assert_non_null(strstr(row(TOP_DESTINATIONS, 0, 100), "a 'test'"));
	assert_non_null(strstr(row(TOP_DESTINATIONS, 2, 100), "limited             3        3"));
	assert_int_equal(top.lists[TOP_DESTINATIONS].chosen, 0);
	/* the chosen one stays chosen */
	top.pane = TOP_DESTINATIONS;
	top_choose(&top, 2);
	top.lists[TOP_DESTINATIONS].sort = top_sorts(TOP_DESTINATIONS) - 1;	/* by name */
	top_order(&top);
	assert_string_equal(top.destinations[0].name, "b.example");
	assert_int_equal(top.lists[TOP_DESTINATIONS].chosen, 0);
	top.lists[TOP_DESTINATIONS].reversed = true;
	top_order(&top);
	assert_string_equal(top.destinations[2].name, "b.example");
	assert_int_equal(top.lists[TOP_DESTINATIONS].chosen, 2);
	/* the filter is for all panes */
	snprintf(top.filter, sizeof(top.filter), "Z.EX");
	look(0);
	assert_int_equal(top.destination_count, 1);
	assert_int_equal(top.class_count, 0);
	assert_string_equal(top.verdict.parts[0].text, "z.example suspended");	/* but not for the header */
	assert_true(top.shown_count >= 1);
	for (size_t i = 0; i < top.shown_count; i++)
		assert_string_equal(decided_text(&top.decisions.list[top.shown[i]], DECIDED_NAME),
		    "z.example");
}

static void limit_without_reason(const char *name) {
	struct state_lock lock;

	assert_true(states_aim(site.segment, name, strlen(name), &lock));
	assert_int_equal(states_lock(&lock, clock_now_ns(), STATES_CREATE), STATES_HELD);
	window_begin(&lock.state.window, &window_defaults);
	lock.state.begun = true;
	lock.state.window.state = WINDOW_LIMITED;
	lock.state.window.ceiling = 3;
	states_store(&lock);
	states_unlock(&lock);
}

TEST_IN(begin, end, the_page_has_the_same_order) {
	static const char *const wanted[] = { "z.example", "y.example", "b.example", "a.example" };
	const struct page_choice choice = { .limit = 9 };
	struct destination_index *index = destination_index_new();
	struct writer writer;
	char *page = NULL, *at;
	size_t length;
	FILE *file = open_memstream(&page, &length);

	limit_without_reason("a.example");
	by_hand(MANUAL_LIMIT, "b.example");
	by_hand(MANUAL_HOLD, "y.example");
	by_hand(MANUAL_SUSPEND, "z.example");
	look(0);
	assert_non_null(index);
	assert_non_null(file);
	writer_init(&writer, file, true);
	assert_int_equal(destination_page_write(index, &top.view, &choice, false, &writer), 0);
	fclose(file);
	at = page;
	assert_int_equal(top.destination_count, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_string_equal(top.destinations[i].name, wanted[i]);
		at = strstr(at, wanted[i]);
		assert_non_null(at);
	}
	free(page);
	destination_index_free(&index);
}

TEST_IN(begin, end, rows_fit_any_width) {
	char text[TOP_TEXT_MAX];

	by_hand(MANUAL_SUSPEND, "a-very-long-name-of-a-destination-that-takes-all-it-can.example");
	(void)site_verdict("192.0.2.1", 1, NULL);
	look(0);
	for (int width = 0; width < 600; width += 7) {
		for (unsigned pane = 0; pane < TOP_PANES; pane++) {
			top_heading(&top, (enum top_pane)pane, width, text);
			for (size_t i = 0; i < top_count(&top, (enum top_pane)pane); i++)
				(void)row((enum top_pane)pane, i, width);
		}
	}
	for (unsigned i = 0; i < top_header_rows(&top); i++)
		(void)top_header(&top, i, 80, text);
}

TEST_IN(begin, end, panes_share_the_room) {
	look(0);	/* two classes, no destination */
	for (int rows = 0; rows < 60; rows++) {
		unsigned sum = 0;
		int left = rows - (int)top_header_rows(&top) - 1 - (int)TOP_PANES;

		for (unsigned pane = 0; pane < TOP_PANES; pane++) {
			unsigned room = top_room(&top, (enum top_pane)pane, rows);

			assert_true(room <= top_count(&top, (enum top_pane)pane));
			sum += room;
		}
		assert_true(left <= 0 ? sum == 0 : sum <= (unsigned)left);
	}
	assert_int_equal(top_room(&top, TOP_CLASSES, 24), 2);
	top.alone = true;
	assert_int_equal(top_room(&top, TOP_CLASSES, 24), 24 - 1 - 1 - top_header_rows(&top));
	assert_int_equal(top_room(&top, TOP_DECISIONS, 24), 0);
}

#ifdef WITH_CLUSTER
static enum screen_style cluster_header(char out[TOP_TEXT_MAX]) {
	look(0);
	assert_int_equal(top_header_rows(&top), 5);
	return top_header(&top, 4, 80, out);
}

static void lease(uint32_t base, uint32_t extra, int64_t until_ns) {
	assert_true(shares_grant(site.engine, site.generation, 0,
	    (struct share_pools){ base, extra }, (struct share_pools){ UINT32_MAX, UINT32_MAX },
	    until_ns, clock_now_ns()));
}

TEST_IN(begin_cluster, end, the_cluster_and_shares_of_it) {
	struct cluster_told told = { .state = CLUSTER_STATE_JOINED, .nodes_alive = 2 };
	char text[TOP_TEXT_MAX];

	assert_int_equal(cluster_header(text), SCREEN_BAD);
	assert_string_equal(text, "cluster away  node mx1  overhang 0");
	told.told_ns = clock_now_ns();
	cluster_told_write(&site.segment->header->cluster, &told);
	/* 20 of one direction, 10 more of the other: 1 of each is always this machine's */
	lease(5, 4, clock_now_ns() + 60 * NS_PER_SECOND);
	for (uint16_t port = 1; port <= 5; port++)
		assert_int_equal(site_verdict("192.0.2.1", port, NULL), VERDICT_ADMIT);
	assert_int_equal(cluster_header(text), SCREEN_PLAIN);
	assert_string_equal(text, "cluster joined  node mx1  2 of 3 alive  overhang 0");
	top_heading(&top, TOP_CLASSES, 80, text);
	assert_non_null(strstr(text, "    OPEN   SHARE   LIMIT     IN/s    REF/s  MODE"));
	assert_non_null(strstr(row(TOP_CLASSES, 0, 80), "       5      11      30"));
	assert_int_equal(top_row(&top, TOP_CLASSES, 0, 80, text), SCREEN_PLAIN);
	assert_non_null(strstr(row(TOP_CLASSES, 1, 80), "       0       -     100"));
	assert_true(strlen(row(TOP_CLASSES, 0, 80)) <= 80);
	top_heading(&top, TOP_CLASSES, 120, text);
	assert_non_null(strstr(text, "REFUSED"));
	/* it ends with more open than is left */
	told.state = CLUSTER_STATE_WITHOUT;
	snprintf(told.why, sizeof(told.why), "a \"test\"");
	cluster_told_write(&site.segment->header->cluster, &told);
	lease(0, 0, clock_now_ns() - 1);
	assert_int_equal(cluster_header(text), SCREEN_BAD);
	assert_string_equal(text, "cluster without Redis  node mx1  overhang 3  a 'test'");
	assert_int_equal(top_row(&top, TOP_CLASSES, 0, 124, text), SCREEN_BAD);
	assert_non_null(strstr(text, "  no lease"));
	assert_true(strlen(text) <= 124);	/* all columns, and none cut off */
	rows_fit_any_width(NULL);
}
#endif

TEST_IN(begin, end, a_state_that_is_gone) {
	char path[128], text[TOP_TEXT_MAX];

	look(0);
	snprintf(path, sizeof(path), "%s/state", site.directory);
	segment_unmap(&top.view.reader);
	snprintf(top.view.path, sizeof(top.view.path), "%s/nowhere", site.directory);
	assert_true(top_gather(&top, clock_now_ns()));
	assert_false(top.is_there);
	assert_int_equal(top_header(&top, 0, 80, text), SCREEN_BAD);
	assert_non_null(strstr(text, "posternd is not running"));
	assert_int_equal(top.class_count, 2);	/* as they were seen last */
	(void)row(TOP_CLASSES, 0, 80);
	snprintf(top.view.path, sizeof(top.view.path), "%s", path);
	look(0);
}

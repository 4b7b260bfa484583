/* SPDX-License-Identifier: ISC */
/* What a feed leaves that died between a delivery that counted and its place in the file: two
 * logs tell of the same destination. */
#include "tests/unit/test.h"

#include "front/feed/feed_internal.h"
#include "tests/unit/own_site.h"
#include "tests/unit/scratch.h"

static struct feed feed;
static char paths[2][96];

static void put(unsigned log, const char *queue_id) {
	FILE *out = fopen(paths[log], "a");

	assert_non_null(out);
	fprintf(out, "Nov 28 11:00:00 mx postfix%s/smtp[7]: %s: to=<u@d.example>, "
	    "relay=mx.d.example[192.0.2.9]:25, delay=1, delays=0/0/0/1, dsn=2.0.0, "
	    "status=sent (250 ok)\n", log == 0 ? "" : "-out", queue_id);
	fclose(out);
}

static void feed_starts(void) {
	struct diag diag;

	memset(&feed, 0, sizeof(feed));
	feed.base = event_base_new();
	feed.engine = site.engine;
	feed.keeper = engine_feed_keeper(feed.engine);
	feed.read_first = engine_feed_read_last(feed.engine);
	assert_int_equal(front_requeue_open(&feed.requeue, feed.base, feed.engine, -1, &diag), 0);
	assert_int_equal(feed_logs_open(&feed, &diag), 0);
}

static void feed_reads(void) {
	feed_begin(&feed);
	feed_logs_turn(&feed);
	feed_logs_turn(&feed);
	feed_end(&feed);
}

static void feed_ends(void) {
	feed_logs_close(&feed);
	front_requeue_close(&feed.requeue);
	event_base_free(feed.base);
	engine_feed_close(feed.engine);
}

static int set_up(void **state) {
	char classes[512];

	if (scratch_open(state) != 0)
		return -1;
	snprintf(paths[0], sizeof(paths[0]), "%s/a", scratch);
	snprintf(paths[1], sizeof(paths[1]), "%s/b", scratch);
	snprintf(classes, sizeof(classes), "classes = ();\nmta = ( { name = \"a\"; log = \"%s\"; }, "
	    "{ name = \"b\"; syslog_name = \"postfix-out\"; log = \"%s\"; } );\n", paths[0], paths[1]);
	site_open(&site, 64, classes);
	feed_starts();
	feed_reads();
	return 0;
}

static int tear_down(void **state) {
	feed_ends();
	site_close(&site);
	return scratch_close(state);
}

/* It is read again, behind a line of the other log that came meanwhile. */
TEST_IN(set_up, tear_down, a_result_that_counted_at_a_death_counts_once) {
	struct feed_position before[FEED_FILES_MAX];
	uint32_t records[FEED_FILES_MAX];
	unsigned count;

	put(1, "4F0000");
	feed_reads();
	count = engine_feed_files(site.engine, feed_log_id(paths[1]), before, records);
	assert_true(count > 0);
	put(1, "4F0001");
	feed_reads();
	assert_int_equal(counted(COUNTER_RESULTS_OK), 2);
	feed.keeper.move(feed.keeper.segment, records[count - 1], &before[count - 1].spot);
	feed_ends();
	put(0, "4F0002");
	feed_starts();
	feed_reads();
	assert_int_equal(counted(COUNTER_RESULTS_OK), 3);
	assert_int_equal(counted(COUNTER_RESULTS_REPEATED), 1);
}

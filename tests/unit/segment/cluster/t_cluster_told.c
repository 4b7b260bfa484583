/* SPDX-License-Identifier: ISC */
/* What the cluster role tells: read whole, within bounds whoever wrote it, and after a writer
 * that died in the middle. */
#include "tests/unit/test.h"

#include <signal.h>
#include <sys/time.h>

#include "segment/cluster/cluster_told.h"

static struct cluster_record record;
static struct cluster_told told, got;

static int begin(void **state) {
	memset(&record, 0, sizeof(record));
	memset(&told, 0, sizeof(told));
	return 0;
}

TEST_IN(begin, NULL, test_what_was_written_is_read) {
	assert_true(cluster_told_read(&record, &got));
	assert_int_equal(got.state, CLUSTER_STATE_OFF);
	told.state = CLUSTER_STATE_JOINED;
	told.error = CLUSTER_ERROR_PASSWORD + 1;
	memcpy(told.why, "AUTH: WRONGPASS", 16);
	told.node_count = 2;
	memcpy(told.nodes[1].name, "mx2", 4);
	told.cell_count = 1;
	told.cells[0] = (struct cluster_told_cell){ .node = 1, .leased_base = 7 };
	cluster_told_write(&record, &told);
	assert_true(cluster_told_read(&record, &got));
	assert_memory_equal(&got, &told, sizeof(told));
}

TEST_IN(begin, NULL, test_nothing_leads_out_of_it) {
	memset(&told, 0xff, sizeof(told));
	cluster_told_write(&record, &told);
	assert_true(cluster_told_read(&record, &got));
	assert_true(got.state < CLUSTER_STATE_COUNT);
	assert_true(got.error <= CLUSTER_ERRORS);
	assert_true(got.order_outcome < CLUSTER_OUTCOMES);
	assert_int_equal(got.node_count, CLUSTER_TOLD_NODES);
	assert_int_equal(got.cell_count, CLUSTER_TOLD_CELLS);
	assert_int_equal(got.cells[CLUSTER_TOLD_CELLS - 1].node, 0);
	assert_int_equal(strlen(got.why), sizeof(got.why) - 1);
	assert_int_equal(strspn(got.why, "?"), sizeof(got.why) - 1);
	assert_int_equal(strspn(got.differs_why, "?"), sizeof(got.differs_why) - 1);
	assert_int_equal(strlen(got.nodes[CLUSTER_TOLD_NODES - 1].name), CLUSTER_TOLD_NAME - 1);
	told.node_count = 0;
	cluster_told_write(&record, &told);
	assert_true(cluster_told_read(&record, &got));
	assert_int_equal(got.cell_count, 0);
}

TEST_IN(begin, NULL, test_a_writer_that_died_is_followed_by_another) {
	told.state = CLUSTER_STATE_JOINED;
	atomic_store(&record.seq, 7);
	assert_false(cluster_told_read(&record, &got));
	assert_int_equal(got.state, CLUSTER_STATE_OFF);
	cluster_told_write(&record, &told);
	assert_true(cluster_told_read(&record, &got));
	assert_int_equal(got.state, CLUSTER_STATE_JOINED);
	assert_int_equal(atomic_load(&record.seq), 8);
}

static void write_it(int number) {
	cluster_told_write(&record, &told);
}

/* It was told that there is no cluster role, for a moment. */
TEST_IN(begin, NULL, test_a_writer_that_is_slow_is_waited_for) {
	const struct itimerval soon = { .it_value = { .tv_usec = 1000 } };

	told.state = CLUSTER_STATE_JOINED;
	atomic_store(&record.seq, 7);
	assert_true(signal(SIGALRM, write_it) != SIG_ERR);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_true(cluster_told_read(&record, &got));
	assert_int_equal(got.state, CLUSTER_STATE_JOINED);
}

TEST_IN(begin, NULL, test_every_error_has_its_words) {
	for (unsigned i = 0; i < CLUSTER_ERRORS; i++)
		assert_true(cluster_error_word((enum cluster_error)i)[0] != '\0');
	for (unsigned i = 0; i < CLUSTER_STATE_COUNT; i++)
		assert_non_null(cluster_state_word((enum cluster_state)i));
	assert_true(cluster_error_refuses(CLUSTER_ERROR_PASSWORD));
	assert_true(cluster_error_refuses(CLUSTER_ERROR_NODE));
	assert_false(cluster_error_refuses(CLUSTER_ERROR_TIMEOUT));
	assert_false(cluster_error_refuses(CLUSTER_ERROR_SERVER));
}

/* SPDX-License-Identifier: ISC */
/* A simulated queue: what is counted by hand, what is the same however it is stored, and that
 * what a restart reads does not grow with what waits. */
#include "tests/unit/test.h"

#include "base/clock.h"
#include "lab/simulate_queue.h"

static struct queue_result run(const struct queue_simulation *simulation, unsigned logs) {
	struct journal_storage *storages[QUEUED_LOGS_MAX] = { NULL };
	struct queue_result result;

	for (unsigned i = 0; i < logs; i++)
		assert_non_null(storages[i] = journal_storage_memory());
	assert_true(simulate_queue(simulation, storages, logs, true, &result));
	for (unsigned i = 0; i < logs; i++)
		journal_storage_memory_close(&storages[i]);
	return result;
}

/* Of 10 messages to 2 recipients each: written and synced twice when they come, read once, and
 * written and synced for each recipient. */
TEST(what_is_delivered_at_once) {
	struct queue_simulation simulation;
	struct queue_result result;

	simulate_queue_defaults(&simulation);
	simulation.messages = 10;
	simulation.deferred = 0;
	result = run(&simulation, 1);
	assert_int_equal(result.attempts, 10);
	assert_int_equal(result.delivered, 20);
	assert_int_equal(result.returned, 0);
	assert_int_equal(result.files.disk.reads, 10);
	assert_int_equal(result.files.disk.writes, 10 + 20);
	assert_int_equal(result.files.disk.syncs, 20 + 20);
	assert_true(result.logs.disk.syncs < 20);
	assert_true(result.logs.memory_bytes > 0);
}

/* Attempts at 0, 5, 15, 35, 65 and 95 minutes, after which all is returned. */
TEST(what_is_never_delivered) {
	struct queue_simulation simulation;

	simulate_queue_defaults(&simulation);
	simulation.messages = 1;
	simulation.deferred = 1;
	simulation.attempts = 6;
	for (unsigned logs = 1; logs <= simulate_queue_logs(); logs += simulate_queue_logs() - 1) {
		struct queue_result result = run(&simulation, logs);

		assert_int_equal(result.attempts, 6);
		assert_int_equal(result.returned, 2);
		assert_int_equal(result.delivered, 0);
		assert_in_range(result.duration_ns, 95 * 60 * NS_PER_SECOND,
		    (95 * 60 + 10) * NS_PER_SECOND);
		assert_int_equal(result.files.disk.writes, 1 + 5);
	}
}

TEST(what_it_costs_depends_on_how_it_is_stored_and_nothing_else) {
	struct queue_simulation simulation;
	struct queue_result one, several;

	simulate_queue_defaults(&simulation);
	simulation.messages = 3000;
	simulation.deferred = 0.5;
	one = run(&simulation, 1);
	several = run(&simulation, simulate_queue_logs());
	assert_int_equal(one.delivered + one.returned, 6000);
	assert_int_equal(several.delivered + several.returned, 6000);
	/* L23: far fewer syncs than with a file for each message */
	assert_true(one.logs.disk.syncs * 4 < one.files.disk.syncs);
	/* L25: several logs skip less garbage, but are synced more often */
	assert_true(several.logs.disk.read_bytes < one.logs.disk.read_bytes);
	assert_true(several.logs.disk.syncs > one.logs.disk.syncs);
}

TEST(what_a_restart_reads_does_not_grow_with_the_queue) {
	struct queue_simulation simulation;
	uint64_t few, many;

	simulate_queue_defaults(&simulation);
	simulation.deferred = 1;	/* nearly all wait */
	simulation.attempts = 2;
	simulation.messages = 2000;
	few = run(&simulation, 1).logs.restart_bytes;
	simulation.messages = 10000;
	many = run(&simulation, 1).logs.restart_bytes;
	assert_true(many < 2 * few);
}

static unsigned names;

static void count_name(void *context, const char *name) {
	(void)context, (void)name;
	names++;
}

TEST(files_in_memory_are_as_on_a_disk) {
	struct journal_storage *storage = journal_storage_memory(), *copy;
	const struct journal_storage_calls *calls = storage->calls;
	struct storage_counts counts;
	int a, again;
	uint64_t size;
	char text[8];

	assert_int_equal(calls->open(storage->context, "a", JOURNAL_READ), -ENOENT);
	a = calls->open(storage->context, "a", JOURNAL_CREATE);
	assert_true(a >= 0);
	assert_int_equal(calls->open(storage->context, "a", JOURNAL_CREATE), -EEXIST);
	assert_int_equal(calls->write(storage->context, a, "hello", 5, 3), 0);
	assert_int_equal(calls->read(storage->context, a, text, sizeof(text), 0), 8);
	assert_memory_equal(text, "\0\0\0hello", 8);
	assert_int_equal(calls->read(storage->context, a, text, sizeof(text), 100), 0);
	assert_int_equal(calls->sync(storage->context, a), 0);
	assert_non_null(copy = journal_storage_memory_copy(storage));
	assert_int_equal(calls->unlink(storage->context, "a"), 0);
	assert_int_equal(calls->check(storage->context, a, "a"), -ENOENT);
	assert_int_equal(calls->size(storage->context, a, &size), 0);
	assert_int_equal(size, 8);	/* while it is open */
	again = calls->open(storage->context, "a", JOURNAL_CREATE);
	assert_true(again >= 0 && again != a);
	assert_int_equal(calls->size(storage->context, again, &size), 0);
	assert_int_equal(size, 0);
	calls->close(storage->context, a);
	journal_storage_memory_count(storage, &counts);
	assert_int_equal(counts.writes, 1);
	assert_int_equal(counts.written_bytes, 5);
	assert_int_equal(counts.reads, 2);
	assert_int_equal(counts.read_bytes, 8);
	assert_int_equal(counts.syncs, 1);
	names = 0;
	assert_int_equal(copy->calls->list(copy->context, count_name, NULL), 0);
	assert_int_equal(names, 1);
	journal_storage_memory_close(&copy);
	journal_storage_memory_close(&storage);
}

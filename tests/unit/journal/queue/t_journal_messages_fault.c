/* SPDX-License-Identifier: ISC */
/* The log of a queue upon a disk that fails for a while: what was synced stays, work goes on,
 * and files are deleted again. */
#include "tests/unit/test.h"
#include "tests/unit/journal/queue/messages_world.h"

#include "tests/crash/storage_faulty.h"

#define MINUTE	60.0

static struct disk *disk;
static struct {
	enum disk_act act;
	const char *name;	/* part of it; NULL: any */
	int error;
	unsigned times;
} failing;

static int fault(void *context, const struct disk_step *step) {
	if (failing.times == 0 || step->act != failing.act ||
	    (failing.name != NULL && strstr(step->name, failing.name) == NULL))
		return 0;
	failing.times--;
	return failing.error;
}

static void let_fail(enum disk_act act, const char *name, int error, unsigned times) {
	failing.act = act;
	failing.name = name;
	failing.error = error;
	failing.times = times;
}

static struct journal_storage *open_faulty(void) {
	return storage_faulty(disk);
}

static int begin(void **state) {
	disk = disk_new();
	disk->fault = fault;
	failing.times = 0;
	return world_begin_upon(open_faulty, storage_faulty_close);
}

static int end(void **state) {
	int failed = world_end(state);

	disk_free(disk);
	return failed;
}

/* A fault is a crash without a death: nothing that was synced is lost by it. */
TEST_IN(begin, end, test_what_was_synced_outlives_a_fault) {
	put("q1", "a.example", 0, !HELD);
	put("q2", "a.example*3", 0, HELD);
	put("q3", "a.example", 5 * MINUTE, !HELD);
	put("q4", "a.example", 0, HELD);
	start("q2");
	delivered("q2", "a.example", 1);
	finish("q4");
	world_sync();
	let_fail(DISK_SYNC, NULL, EIO, 1);
	delivered("q2", "a.example", 1);
	world_pass(0.2);
	assert_true(messages_is_degraded(world.m));
	assert_int_equal(put("q5", "a.example", 0, !HELD), 0);
	assert_string_equal(next(), "");
	world_pass(3);
	assert_false(messages_is_degraded(world.m));
	assert_int_equal(world.renewed, 1);
	assert_int_equal(totals().messages, 3);
	assert_string_equal(all_next(), "q1 a.example*1, q2 a.example*2");
	assert_true(messages_knows(world.m, messages_key("m", "/q", "q3"), 1));
	assert_false(messages_knows(world.m, messages_key("m", "/q", "q4"), 1));
	put("q2", "a.example*1", 0, !HELD);
	world_sync();
	world_kill();
	world_open();
	world_turn();
	assert_int_equal(totals().messages, 3);
	assert_string_equal(next(), "q1 a.example*1");
	assert_string_equal(next(), "q2 a.example*1");
}

static void open_with(void (*renewed)(void *context)) {
	struct messages_calls calls = { NULL, renewed, NULL, NULL };
	struct diag diag;

	messages_close(&world.m);
	assert_int_equal(messages_open(&world.m, world.storage, &world.settings, &calls,
	    world.wall_ns, world.now_ns, &diag), 0);
	world_turn();
}

/* Its owner puts all that it has, before recovery is over: that is newer. */
static void put_all(void *context) {
	world.renewed++;
	put("q1", "a.example*7", 0, HELD);
}

TEST_IN(begin, end, test_what_is_put_at_the_renewal_is_newer) {
	open_with(put_all);
	put("q1", "a.example*9", 0, HELD);
	put("q2", "a.example", 0, !HELD);
	world_sync();
	start("q1");
	world_sync();
	let_fail(DISK_WRITE, NULL, ENOSPC, 3);
	put("q3", "a.example", 0, !HELD);
	world_pass(10);
	assert_int_equal(world.renewed, 1);
	assert_int_equal(totals().messages, 2);
	assert_int_equal(totals().held, 1);
	assert_string_equal(all_next(), "q2 a.example*1");
	world_sync();
	world_kill();
	world_open();
	world_turn();
	assert_string_equal(all_next(), "q2 a.example*1, q1 a.example*7");
}

TEST_IN(begin, end, test_files_are_deleted_after_positions_that_failed) {
	traffic(300000);
	world_sync();
	let_fail(DISK_SYNC, "positions", EIO, 1);
	world_pass(61);
	assert_int_equal(failing.times, 0);
	assert_int_equal(world.failed, 1);
	world_pass(180);
	traffic(1000);
	world_pass(120);
	assert_in_range(files(), 1, 3);
}

TEST_IN(begin, end, test_a_start_upon_a_full_disk_loses_nothing) {
	put("q1", "a.example", 0, !HELD);
	put("q2", "a.example*2", 0, HELD);
	start("q2");
	delivered("q2", "a.example", 1);
	world_sync();
	world_kill();
	let_fail(DISK_WRITE, NULL, ENOSPC, 1000);
	world_open();
	world_pass(20);
	assert_true(messages_is_degraded(world.m));
	failing.times = 0;
	world_pass(60);
	assert_false(messages_is_degraded(world.m));
	assert_int_equal(totals().messages, 2);
	assert_string_equal(next(), "q1 a.example*1");
	assert_string_equal(next(), "q2 a.example*1");
}

/* A disk that does not answer for some seconds. */
TEST_IN(begin, end, test_what_cannot_be_read_is_read_again) {
	let_fail(DISK_READ, "0000", EIO, 1000);
	put("q1", "a.example", 0, !HELD);
	world_pass(5);
	assert_string_equal(next(), "");
	failing.times = 0;
	assert_string_equal(next(), "q1 a.example*1");
	put("q1", "a.example*2", 0, HELD);
	start("q1");
	world_sync();
	world_kill();
	world_open();
	let_fail(DISK_READ, "0000", EIO, 4);
	world_turn();
	world_pass(6);
	assert_int_equal(failing.times, 0);
	assert_true(messages_is_indexed(world.m));
	assert_int_equal(totals().messages, 1);
	assert_string_equal(next(), "q1 a.example*2");
}

TEST_IN(begin, end, test_what_can_never_be_read_is_given_up) {
	put("q1", "a.example", 5 * MINUTE, !HELD);
	world_sync();
	journal_log_switch(messages_log(world.m));
	put("q2", "a.example", 5 * MINUTE, !HELD);
	world_sync();
	let_fail(DISK_READ, "0000000001", EIO, 1000000);
	world_kill();
	world_open();
	world_pass(30);
	failing.times = 0;
	assert_true(messages_is_indexed(world.m) || messages_is_degraded(world.m));
	world_pass(5 * MINUTE);
	assert_true(messages_is_indexed(world.m));
	assert_string_not_equal(next(), "");
}

/* Damaged while it is in use: the message is left to the owner's look, and its file is
 * held up by nothing. */
TEST_IN(begin, end, test_what_is_damaged_below_a_living_log_is_known_no_more) {
	uint8_t *bytes;
	size_t size;

	put("q2", "a.example", SUSPENDED, !HELD);
	traffic(70000);
	put("q1", "a.example", SUSPENDED, !HELD);
	world_sync();
	/* the longest runner stands at q2, far before */
	bytes = disk_bytes(disk, "0000000002.log", &size);
	assert_non_null(bytes);
	for (size_t i = 0; i + 2 < size; i++)
		if (memcmp(&bytes[i], "q1", 2) == 0)
			bytes[i] ^= 1;
	traffic(70000);
	world_pass(31 * MINUTE);
	assert_int_equal(totals().messages, 1);
	assert_false(messages_knows(world.m, messages_key("m", "/q", "q1"), 1));
	assert_true(messages_knows(world.m, messages_key("m", "/q", "q2"), 1));
	traffic(1000);
	world_pass(120);
	assert_in_range(files(), 1, 2);
}

static void crash(enum disk_crash how) {
	struct random random = { 7 };
	struct disk *left;

	world_kill();
	left = disk_crash(disk, how, &random);
	disk_free(disk);
	disk = left;
	disk->fault = fault;
	world_open();
	world_turn();
}

/* A process that was told that its sync had failed dies; memory shows more than the disk has
 * to the next one, which would be told that all is well. */
TEST_IN(begin, end, test_what_a_failed_sync_lost_is_not_known_by_the_next_process) {
	bool known;

	put("q1", "a.example", 0, HELD);
	world_sync();
	put("q2", "a.example", 0, HELD);
	let_fail(DISK_SYNC, NULL, EIO, 1);
	world_pass(1.2);
	assert_true(messages_is_degraded(world.m));
	crash(DISK_CRASH_KEEP);
	world_sync();
	known = messages_knows(world.m, messages_key("m", "/q", "q2"), 1);
	crash(DISK_CRASH_DROP);
	assert_int_equal(messages_knows(world.m, messages_key("m", "/q", "q2"), 1), known);
	assert_true(messages_knows(world.m, messages_key("m", "/q", "q1"), 1));
}

/* A process is killed before it has synced, and the next one's first sync fails. */
TEST_IN(begin, end, test_what_the_next_process_could_not_sync_is_not_known_and_lost_later) {
	bool known;

	put("q1", "a.example", 0, HELD);
	world_sync();
	put("q2", "a.example", 0, HELD);
	world_turn();
	let_fail(DISK_SYNC, NULL, EIO, 1);
	crash(DISK_CRASH_KEEP);
	assert_true(messages_is_degraded(world.m));
	world_pass(5);
	world_sync();
	known = messages_knows(world.m, messages_key("m", "/q", "q2"), 1);
	crash(DISK_CRASH_DROP);
	assert_int_equal(messages_knows(world.m, messages_key("m", "/q", "q2"), 1), known);
	assert_true(messages_knows(world.m, messages_key("m", "/q", "q1"), 1));
}

/* --- a mark that can be read, and is not on the disk ------------------------------------ */

/* The next ones follow in a minute at the earliest. */
static void record_positions(void) {
	world_sync();
	world_pass(130);
	put("q4", "a.example", SUSPENDED, HELD);
	world_sync();
	assert_false(messages_is_degraded(world.m));
}

static void let_sync_fail(const char *name) {
	let_fail(DISK_SYNC, name, EIO, 1);
	for (unsigned i = 0; i < 1300 && failing.times > 0; i++)
		world_pass(0.1);
	assert_true(messages_is_degraded(world.m));
}

static void does_not_come_back(void) {
	record_positions();
	assert_false(messages_knows(world.m, messages_key("m", "/q", "q1"), 1));
	crash(DISK_CRASH_DROP);
	assert_true(messages_knows(world.m, messages_key("m", "/q", "q2"), 1));
	assert_false(messages_knows(world.m, messages_key("m", "/q", "q1"), 1));
}

/* The sync that fails has the mark that the start of q1 allowed. */
static void deliver_and_fail(void) {
	put("q1", "a.example", 0, HELD);
	put("q2", "a.example", SUSPENDED, !HELD);
	record_positions();
	start("q1");
	delivered("q1", "a.example", 1);
	world_sync();
	assert_non_null(strstr(records(), "[E:q1]"));
	put("q3", "a.example", 0, HELD);
	let_sync_fail(NULL);
}

TEST_IN(begin, end, test_what_was_delivered_does_not_come_back_after_a_failed_sync) {
	deliver_and_fail();
	world_pass(3);
	does_not_come_back();
}

TEST_IN(begin, end, test_what_was_delivered_does_not_come_back_after_a_failed_sync_and_a_kill) {
	deliver_and_fail();
	crash(DISK_CRASH_KEEP);
	does_not_come_back();
}

static void put_again(void *context) {
	world.renewed++;
	put("q1", "a.example", 0, HELD);
}

/* It is put again without the envelope before it being known, which is garbage then: the mark
 * is written, and its sync fails. */
static void put_again_and_fail(void) {
	let_fail(DISK_WRITE, NULL, ENOSPC, 1);
	put("q3", "a.example", 0, HELD);
	world_pass(5);
	assert_int_equal(world.renewed, 1);
	world_sync();
	assert_non_null(strstr(records(), "[E:q1]"));
	let_sync_fail("0000000002.log");
	crash(DISK_CRASH_KEEP);
	world_pass(3);
	assert_true(messages_knows(world.m, messages_key("m", "/q", "q1"), 1));
	finish("q1");
}

TEST_IN(begin, end, test_what_was_put_twice_does_not_come_back_after_a_failed_sync) {
	open_with(put_again);
	put("q2", "a.example", SUSPENDED, !HELD);
	put("q5", "a.example", 0, HELD);
	start("q5");	/* the suffix begins there */
	put("q1", "a.example", 0, HELD);
	record_positions();
	put_again_and_fail();
	does_not_come_back();
}

TEST_IN(begin, end, test_what_was_put_long_before_does_not_come_back_after_a_failed_sync) {
	open_with(put_again);
	put("q1", "a.example", 0, HELD);
	put("q2", "a.example", SUSPENDED, !HELD);
	record_positions();
	put_again_and_fail();
	does_not_come_back();
}

/* --- positions that cannot be read --------------------------------------------------------- */

/* The first file was deleted, the disk has not heard of it, and the second one is gone: there
 * it says that it was finished. */
TEST_IN(begin, end, test_what_was_finished_does_not_come_back_where_positions_cannot_be_opened) {
	uint8_t *bytes, *first;
	size_t size, none;

	put("q1", "a.example", 0, HELD);
	start("q1");
	world_sync();
	journal_log_switch(messages_log(world.m));
	finish("q1");
	world_sync();
	journal_log_switch(messages_log(world.m));
	put("q2", "a.example", 0, !HELD);
	world_sync();
	bytes = disk_bytes(disk, "0000000001.log", &size);
	assert_non_null(bytes);
	first = malloc(size);
	assert_non_null(first);
	memcpy(first, bytes, size);
	world_pass(130);
	assert_null(disk_bytes(disk, "0000000001.log", &none));
	assert_null(disk_bytes(disk, "0000000002.log", &none));
	world_kill();
	disk_put(disk, "0000000001.log", first, size);
	free(first);
	let_fail(DISK_OPEN, "positions", EMFILE, 1);
	world_open();
	world_pass(5);
	assert_int_equal(failing.times, 0);
	assert_false(messages_is_degraded(world.m));
	assert_false(messages_knows(world.m, messages_key("m", "/q", "q1"), 1));
	assert_true(messages_knows(world.m, messages_key("m", "/q", "q2"), 1));
	assert_int_equal(totals().messages, 1);
}

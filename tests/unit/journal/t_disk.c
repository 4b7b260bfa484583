/* SPDX-License-Identifier: ISC */
/* The disk of the crash tests: it keeps what it must, and loses what it may. */
#include "tests/unit/test.h"
#include "tests/crash/disk.h"

static struct random dice = { 42 };

static bool has(struct disk *disk, const char *name, const char *text) {
	size_t size;
	uint8_t *bytes = disk_bytes(disk, name, &size);

	return bytes != NULL && size == strlen(text) && memcmp(bytes, text, size) == 0;
}

static int with_file(struct disk *disk, const char *name, const char *text) {
	int handle = disk_open(disk, name, true, true);

	assert_true(handle >= 0);
	assert_int_equal(disk_write(disk, handle, text, strlen(text), 0), strlen(text));
	return handle;
}

TEST(test_synced_stays) {
	struct disk *disk = disk_new();
	int handle = with_file(disk, "a", "hello");

	assert_int_equal(disk_sync(disk, handle), 0);
	assert_int_equal(disk_sync_names(disk), 0);
	for (unsigned i = 0; i < 400; i++) {
		struct disk *left = disk_crash(disk, i % DISK_CRASHES, &dice);

		assert_true(has(left, "a", "hello"));
		disk_free(left);
	}
	disk_free(disk);
}

TEST(test_name_needs_its_own_sync) {
	struct disk *disk = disk_new();
	int handle = with_file(disk, "a", "hello");
	unsigned there = 0;

	assert_int_equal(disk_sync(disk, handle), 0);
	for (unsigned i = 0; i < 400; i++) {
		struct disk *left = disk_crash(disk, DISK_CRASH_ANY, &dice);

		there += disk_names(left);
		assert_true(disk_names(left) == 0 || has(left, "a", "hello"));
		disk_free(left);
	}
	assert_in_range(there, 50, 350);
	disk_free(disk);
}

TEST(test_removed_comes_back) {
	struct disk *disk = disk_new(), *left;

	disk_put(disk, "a", "hello", 5);
	assert_int_equal(disk_unlink(disk, "a"), 0);
	assert_int_equal(disk_names(disk), 0);
	left = disk_crash(disk, DISK_CRASH_DROP, &dice);
	assert_true(has(left, "a", "hello"));
	disk_free(left);
	assert_int_equal(disk_sync_names(disk), 0);
	left = disk_crash(disk, DISK_CRASH_DROP, &dice);
	assert_int_equal(disk_names(left), 0);
	disk_free(left);
	disk_free(disk);
}

/* Of two writes without a sync each may stay alone, and be torn. */
TEST(test_unsynced_is_anything) {
	struct disk *disk = disk_new();
	unsigned first = 0, second = 0, both = 0, none = 0, torn = 0;
	int handle;

	disk_put(disk, "a", "......", 6);
	handle = disk_open(disk, "a", false, true);
	assert_int_equal(disk_write(disk, handle, "abc", 3, 0), 3);
	assert_int_equal(disk_write(disk, handle, "def", 3, 3), 3);
	for (unsigned i = 0; i < 1000; i++) {
		struct disk *left = disk_crash(disk, DISK_CRASH_ANY, &dice);

		if (has(left, "a", "abcdef"))
			both++;
		else if (has(left, "a", "abc..."))
			first++;
		else if (has(left, "a", "...def"))
			second++;
		else if (has(left, "a", "......"))
			none++;
		else
			torn++;
		disk_free(left);
	}
	assert_true(both > 20 && first > 20 && second > 20 && none > 20 && torn > 20);
	disk_free(disk);
}

/* The last write is cut, all before it is there; a killed process loses nothing. */
TEST(test_torn_and_killed) {
	struct disk *disk = disk_new(), *left, *later;
	size_t size;
	int handle;

	disk_put(disk, "a", "", 0);
	handle = disk_open(disk, "a", false, true);
	assert_int_equal(disk_write(disk, handle, "abc", 3, 0), 3);
	assert_int_equal(disk_write(disk, handle, "def", 3, 3), 3);
	for (unsigned i = 0; i < 50; i++) {
		left = disk_crash(disk, DISK_CRASH_TORN, &dice);
		assert_memory_equal(disk_bytes(left, "a", &size), "abc", 3);
		assert_in_range(size, 3, 5);
		disk_free(left);
	}
	left = disk_crash(disk, DISK_CRASH_KEEP, &dice);
	assert_true(has(left, "a", "abcdef"));
	/* but it is no safer than it was */
	later = disk_crash(left, DISK_CRASH_DROP, &dice);
	assert_true(has(later, "a", ""));
	disk_free(later);
	disk_free(left);
	disk_free(disk);
}

static int no_sync(void *context, const struct disk_step *step) {
	return step->act == DISK_SYNC ? EIO : 0;
}

/* What was dirty when a sync failed is lost, though it can be read, and the next sync
 * says that all is well. */
TEST(test_failed_sync_loses) {
	struct disk *disk = disk_new(), *left;
	int handle = with_file(disk, "a", "hello");

	assert_int_equal(disk_sync_names(disk), 0);
	disk->fault = no_sync;
	assert_int_equal(disk_sync(disk, handle), -EIO);
	disk->fault = NULL;
	assert_int_equal(disk_sync(disk, handle), 0);
	assert_true(has(disk, "a", "hello"));
	left = disk_crash(disk, DISK_CRASH_DROP, &dice);
	assert_int_equal(disk_names(left), 1);
	assert_false(has(left, "a", "hello"));
	disk_free(left);
	disk_free(disk);
}

TEST(test_full) {
	struct disk *disk = disk_new();
	int handle;

	disk->capacity = 7;
	handle = with_file(disk, "a", "hello");
	assert_int_equal(disk_write(disk, handle, "hello", 5, 5), 2);
	assert_int_equal(disk_write(disk, handle, "hello", 5, 7), -ENOSPC);
	assert_int_equal(disk_write(disk, handle, "HELLO", 5, 0), 5);
	assert_true(has(disk, "a", "HELLOhe"));
	assert_int_equal(disk_unlink(disk, "a"), 0);
	assert_int_equal(disk_links(disk, handle), 0);
	disk_close(disk, handle);
	assert_int_equal(disk_handles(disk), 0);
	disk_free(disk);
}

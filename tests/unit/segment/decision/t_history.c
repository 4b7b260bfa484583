/* SPDX-License-Identifier: ISC */
/* The file of the last 24 hours: what is written is read, gaps are gaps, and whatever stands in
 * the file is no danger. */
#include <fcntl.h>

#include "tests/unit/test.h"
#include "tests/unit/random.h"
#include "segment/decision/history.h"
#include "tests/unit/scratch.h"

#define NOW	30000000u	/* a minute */
#define BYTES	(UINT64_C(1) << 20)

static char state_path[96], path[128];
static struct history *history, *reader;

static int begin(void **state) {
	assert_int_equal(scratch_open(state), 0);
	snprintf(state_path, sizeof(state_path), "%s/state", scratch);
	snprintf(path, sizeof(path), "%s.history", state_path);
	return 0;
}

static int end(void **state) {
	history_close(&history);
	history_close(&reader);
	return scratch_close(state);
}

static void open_it(uint64_t bytes) {
	struct diag diag;

	history_close(&history);
	assert_int_equal(history_open(&history, state_path, bytes, getgid(), &diag), 0);
}

static void look(void) {
	struct diag diag;

	history_close(&reader);
	assert_int_equal(history_look(&reader, state_path, &diag), 0);
}

static void put(unsigned series, uint32_t minute, uint32_t value) {
	history_put(history, series, minute, &(const struct history_values){
	    { value, value + 1, value + 2, value + 3, value + 4 } });
	history_stamp(history, minute, 0);
}

/* The first value of a minute. */
static uint32_t read_one(const char *name, uint32_t minute) {
	static struct history_values values[HISTORY_MINUTES];
	uint8_t known[HISTORY_MINUTES];
	int series = history_find(reader, HISTORY_CLASS, name);

	assert_true(series >= 0);
	assert_true(history_minutes(reader, NOW, known));
	assert_true(history_read(reader, (unsigned)series, NOW, known, HISTORY_MINUTES, values));
	return values[HISTORY_MINUTES - 1 - (NOW - minute)].value[0];
}

TEST_IN(begin, end, minutes_are_read_as_they_were_written) {
	open_it(BYTES);
	/* 1048576 - 56 - 5760 - 512 * 536 = 768328; each takes 104 + 1440 * 20 = 28904 */
	assert_int_equal(history_size(history), 26);
	history_assign(history, 3, HISTORY_CLASS, "customers", NOW - 10);
	put(3, NOW - 10, 100);
	put(3, NOW - 2, 200);
	put(3, NOW, 300);
	assert_int_equal(history_error(history), 0);
	look();
	assert_int_equal(read_one("customers", NOW - 10), 100);
	assert_int_equal(read_one("customers", NOW - 2), 200);
	assert_int_equal(read_one("customers", NOW), 300);
	/* no stamp: a gap */
	assert_int_equal(read_one("customers", NOW - 1), HISTORY_UNKNOWN);
	assert_int_equal(history_find(reader, HISTORY_DESTINATION, "customers"), -1);
}

TEST_IN(begin, end, a_day_later_a_minute_is_another_one) {
	uint8_t known[HISTORY_MINUTES];

	open_it(BYTES);
	history_assign(history, 0, HISTORY_CLASS, "c", NOW - 2 * HISTORY_MINUTES);
	put(0, NOW - HISTORY_MINUTES, 1);	/* the place of NOW */
	put(0, NOW - HISTORY_MINUTES + 1, 2);
	look();
	assert_int_equal(read_one("c", NOW), HISTORY_UNKNOWN);
	assert_int_equal(read_one("c", NOW - HISTORY_MINUTES + 1), 2);
	history_stamp(history, NOW, HISTORY_STARTED);
	history_stamp(history, NOW - 1, HISTORY_ROLE_RESTARTED);
	assert_true(history_minutes(reader, NOW, known));
	assert_int_equal(known[HISTORY_MINUTES - 1], HISTORY_KNOWN | HISTORY_STARTED);
	assert_int_equal(known[HISTORY_MINUTES - 2], HISTORY_KNOWN | HISTORY_ROLE_RESTARTED);
	assert_int_equal(known[HISTORY_MINUTES - 3], 0);
	assert_int_equal(known[0], HISTORY_KNOWN);
}

TEST_IN(begin, end, a_series_that_changes_hands_begins_anew) {
	open_it(BYTES);
	history_assign(history, 1, HISTORY_CLASS, "old", NOW - 100);
	put(1, NOW - 5, 7);
	history_assign(history, 1, HISTORY_CLASS, "new", NOW - 3);
	put(1, NOW - 3, 8);
	look();
	assert_int_equal(history_find(reader, HISTORY_CLASS, "old"), -1);
	assert_int_equal(read_one("new", NOW - 5), HISTORY_UNKNOWN);
	assert_int_equal(read_one("new", NOW - 3), 8);
}

TEST_IN(begin, end, it_survives_whoever_writes_it) {
	open_it(BYTES);
	history_assign(history, 2, HISTORY_CLASS, "c", NOW);
	put(2, NOW, 5);
	open_it(BYTES);			/* the next keeper */
	assert_string_equal(history_at(history, 2)->name, "c");
	look();
	assert_int_equal(read_one("c", NOW), 5);
	open_it(2 * BYTES);		/* of another size: a new one */
	assert_int_equal(history_at(history, 2)->kind, HISTORY_NONE);
}

static struct decided change(uint64_t number, const char *name) {
	struct decided d = { .id = number * DECIDED_RINGS + DECIDED_OF_DESTINATIONS,
		.kind = DECIDED_SUSPENDED, .reason = DECIDED_NO_REASON, .at_ns = 1 };

	decided_put(&d, DECIDED_NAME, name, strlen(name));
	return d;
}

struct changes {
	unsigned count;
	uint64_t first, last;
};

static void count_change(void *context, const struct history_change *one) {
	struct changes *changes = context;

	if (changes->count++ == 0)
		changes->first = one->decided.id;
	assert_true(one->decided.id >= changes->last);
	changes->last = one->decided.id;
	assert_string_equal(decided_text(&one->decided, DECIDED_NAME), "d.example");
}

TEST_IN(begin, end, the_latest_changes_are_kept) {
	struct changes changes = { 0, 0, 0 };

	open_it(BYTES);
	assert_int_equal(history_last_change(history), 0);
	for (uint64_t i = 1; i <= HISTORY_CHANGES + 10; i++) {
		struct decided d = change(i, "d.example");

		history_add_change(history, (int64_t)i, &d);
		if (i == 300)
			open_it(BYTES);
	}
	open_it(BYTES);
	assert_int_equal(history_last_change(history), (HISTORY_CHANGES + 10) * 2 + 1);
	look();
	history_changes(reader, count_change, &changes);
	assert_int_equal(changes.count, HISTORY_CHANGES);
	assert_int_equal(changes.first, 11 * 2 + 1);
}

TEST_IN(begin, end, no_file_and_no_room) {
	struct diag diag;

	assert_int_equal(history_look(&reader, state_path, &diag), -1);
	assert_null(reader);
	open_it(1000);		/* not even the changes fit */
	assert_int_equal(history_size(history), 0);
}

static void ignore_change(void *context, const struct history_change *one) {
	assert_true(decided_is_sound(&one->decided));
}

/* Another role wrote to it, or cut it. */
TEST_IN(begin, end, whatever_stands_in_it) {
	struct random random = { .state = random_seed() };
	uint8_t known[HISTORY_MINUTES];
	struct history_values values[60];
	struct diag diag;

	for (unsigned turn = 0; turn < 200; turn++) {
		int fd;

		open_it(BYTES);
		history_assign(history, 0, HISTORY_CLASS, "c", NOW - 5);
		put(0, NOW, 1);
		fd = open(path, O_RDWR);
		assert_true(fd >= 0);
		for (unsigned i = 0; i < 200; i++) {
			uint64_t word = random_next(&random);

			/* the head now and then; else what follows it */
			assert_int_equal(pwrite(fd, &word, 8, (off_t)random_below(&random,
			    i == 0 && turn % 4 == 0 ? 56 : 300000)), 8);
		}
		if (turn % 3 == 0)
			assert_int_equal(ftruncate(fd, (off_t)random_below(&random, 900000)), 0);
		close(fd);
		if (history_look(&reader, state_path, &diag) != 0)
			continue;
		if (history_minutes(reader, NOW, known))
			for (unsigned i = 0; i < history_size(reader); i++)
				(void)history_read(reader, i, NOW, known, 60, values);
		history_changes(reader, ignore_change, NULL);
		(void)history_find(reader, HISTORY_CLASS, "c");
		history_close(&reader);
	}
}

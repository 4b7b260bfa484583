/* SPDX-License-Identifier: ISC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "journal/log.h"

#define S	NS_PER_SECOND
#define FILE_BYTES	(64 << 10)

struct place {
	char path[64];
	struct journal_storage *storage;
	struct journal_log_options options;
	struct journal_log *log;
	int64_t now_ns;
	unsigned failed, good, renewed;
	int error;
};

static int64_t wall(void)
{
	return 1700000000 * S;
}

static void changed(void *context, enum journal_state state, int error, const char *what)
{
	struct place *place = context;

	(void)what;
	if (state == JOURNAL_GOOD)
		place->good++;
	else
		place->failed++;
	place->error = error;
}

static void renewed(void *context)
{
	struct place *place = context;

	place->renewed++;
}

static void open_log(struct place *place)
{
	struct diag diag;

	place->storage = journal_storage_posix(place->path, false, &diag);
	assert_non_null(place->storage);
	assert_int_equal(journal_log_open(&place->log, place->storage, &place->options,
	    place->now_ns, &diag), 0);
}

static void close_log(struct place *place)
{
	journal_log_close(&place->log);
	journal_storage_close(&place->storage);
}

static int set_up(void **state)
{
	static struct place place;

	memset(&place, 0, sizeof(place));
	snprintf(place.path, sizeof(place.path), "/dev/shm/t_journal.XXXXXX");
	assert_non_null(mkdtemp(place.path));
	place.now_ns = 1000 * S;
	place.options = (struct journal_log_options){ .kind = JOURNAL_QUEUE,
		.file_size = FILE_BYTES, .random = 7, .wall_ns = wall,
		.calls = { changed, renewed, &place } };
	open_log(&place);
	*state = &place;
	return 0;
}

static int tear_down(void **state)
{
	struct place *place = *state;
	struct dirent *entry;
	DIR *directory;

	close_log(place);
	directory = opendir(place->path);
	while ((entry = readdir(directory)) != NULL)
		unlinkat(dirfd(directory), entry->d_name, 0);
	closedir(directory);
	return rmdir(place->path);
}

static uint64_t append(struct place *place, const char *text, struct journal_place *at)
{
	return journal_log_append(place->log, JOURNAL_DESTINATION, text, strlen(text), at);
}

static void sync_all(struct place *place)
{
	assert_int_equal(journal_log_sync_now(place->log, place->now_ns), 0);
}

/* The records that count, heads left out, joined by blanks; garbage in brackets. */
static char told[4096];
static const char *all_of(struct place *place)
{
	struct journal_cursor *cursor = journal_cursor_open(journal_log_files(place->log));
	struct journal_found found;

	told[0] = '\0';
	journal_log_flush(place->log);
	while (journal_cursor_next(cursor, &found) != JOURNAL_FOUND_END) {
		size_t at = strlen(told);
		bool live = journal_mark_is_live(found.frame.mark);

		if (found.kind == JOURNAL_FOUND_RECORD && found.frame.type != JOURNAL_HEAD)
			snprintf(told + at, sizeof(told) - at, live ? "%.*s " : "[%.*s] ",
			    (int)found.frame.length, (const char *)found.frame.payload);
		else if (found.kind != JOURNAL_FOUND_RECORD)
			snprintf(told + at, sizeof(told) - at, "<%d:%u> ", (int)found.kind,
			    found.length);
	}
	journal_cursor_close(&cursor);
	return told;
}

static void test_what_was_appended_is_read_again(void **state)
{
	struct place *place = *state;
	struct journal_place at;

	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_int_equal(append(place, "one", &at), 2);
	assert_int_equal(at.file, 1);
	assert_int_equal(at.offset, JOURNAL_HEAD_SIZE);
	append(place, "two", NULL);
	assert_string_equal(all_of(place), "one two ");
	assert_int_equal(journal_log_synced(place->log), 0);
	sync_all(place);
	assert_int_equal(journal_log_synced(place->log), 3);
	close_log(place);
	open_log(place);
	assert_string_equal(all_of(place), "one two ");
	assert_int_equal(journal_log_begin(place->log).file, 2);
	assert_int_equal(append(place, "three", NULL), 5);
	assert_string_equal(all_of(place), "one two three ");
}

static void test_a_killed_process_leaves_a_torn_tail(void **state)
{
	struct place *place = *state;
	char path[128];
	int fd;

	append(place, "one", NULL);
	sync_all(place);
	append(place, "two", NULL);
	journal_log_flush(place->log);
	close_log(place);
	snprintf(path, sizeof(path), "%s/0000000001.log", place->path);
	fd = open(path, O_WRONLY);
	assert_int_equal(ftruncate(fd, JOURNAL_HEAD_SIZE + 27 + 26), 0);
	close(fd);
	open_log(place);
	append(place, "three", NULL);
	/* the tail of the first file is told, and then what was begun behind it */
	assert_string_equal(all_of(place), "one <3:26> three ");
	close_log(place);
	open_log(place);
	assert_string_equal(all_of(place), "one <3:26> three ");
}

static void test_marks_wait_for_what_allows_them(void **state)
{
	struct place *place = *state;
	struct journal_place one, two;
	uint64_t allows;

	append(place, "one", &one);
	append(place, "two", &two);
	sync_all(place);
	allows = append(place, "start", NULL);
	assert_true(journal_log_mark(place->log, one, allows));
	journal_log_turn(place->log, place->now_ns);
	assert_string_equal(all_of(place), "one two start ");
	journal_log_sync_by(place->log, place->now_ns + S);
	assert_int_equal(journal_log_turn(place->log, place->now_ns), place->now_ns + S);
	assert_string_equal(all_of(place), "one two start ");
	place->now_ns += S;
	journal_log_turn(place->log, place->now_ns);
	assert_string_equal(all_of(place), "[one] two start ");
	/* nobody may be told to rely on what is not appended */
	assert_false(journal_log_mark(place->log, two, allows + 5));
}

static void fill_files(struct place *place, uint32_t up_to)
{
	char text[1024];
	struct journal_place at;

	memset(text, 'x', sizeof(text));
	do
		assert_true(journal_log_append(place->log, JOURNAL_GROUP, text, sizeof(text), &at));
	while (at.file < up_to);
}

static void test_positions_delete_what_is_below(void **state)
{
	struct place *place = *state;
	struct journal_positions positions = { .first_file = 3, .results = 17, .count = 1,
		.positions = { { { 3, 84 }, "suffix" } } };
	const struct journal_positions *found;
	struct journal_place at;
	struct journal_log_counts counts;
	char path[128];

	append(place, "one", &at);
	fill_files(place, 4);
	assert_true(journal_log_mark(place->log, at, journal_log_last(place->log)));
	assert_int_equal(journal_log_positions(place->log, &positions), 1);
	assert_int_equal(journal_log_positions_recorded(place->log), 0);
	journal_log_turn(place->log, place->now_ns);
	assert_int_equal(journal_log_positions_recorded(place->log), 1);
	assert_int_equal(journal_log_synced(place->log), journal_log_last(place->log));
	snprintf(path, sizeof(path), "%s/0000000002.log", place->path);
	assert_int_equal(access(path, F_OK), -1);
	snprintf(path, sizeof(path), "%s/0000000003.log", place->path);
	assert_int_equal(access(path, F_OK), 0);
	assert_false(journal_log_holds(place->log, at));
	journal_log_count(place->log, &counts);
	assert_int_equal(counts.files_deleted, 2);
	positions.results = 18;
	assert_int_equal(journal_log_positions(place->log, &positions), 2);
	journal_log_turn(place->log, place->now_ns);
	close_log(place);
	open_log(place);
	found = journal_log_found(place->log);
	assert_non_null(found);
	assert_int_equal(found->results, 18);
	assert_int_equal(found->first_file, 3);
	assert_string_equal(found->positions[0].name, "suffix");
	assert_int_equal(found->positions[0].place.file, 3);
}

static void test_files_removed_underneath(void **state)
{
	struct place *place = *state;
	struct journal_place old, new;
	char path[128];

	append(place, "one", &old);
	sync_all(place);
	snprintf(path, sizeof(path), "%s/0000000001.log", place->path);
	assert_int_equal(unlink(path), 0);
	place->now_ns += S;
	journal_log_turn(place->log, place->now_ns);
	assert_int_equal(place->failed, 1);
	assert_int_equal(place->good, 1);
	assert_int_equal(place->renewed, 1);
	assert_false(journal_log_holds(place->log, old));
	assert_true(append(place, "anew", &new) > 0);
	assert_true(journal_log_holds(place->log, new));
	sync_all(place);
	close_log(place);
	open_log(place);
	assert_string_equal(all_of(place), "anew ");
}

static void test_the_second_writer_waits(void **state)
{
	struct place *place = *state;
	struct journal_storage *other;
	struct journal_log *log;
	struct journal_log_options options = place->options;
	struct diag diag;

	options.calls = (struct journal_log_calls){ 0 };
	other = journal_storage_posix(place->path, false, &diag);
	assert_int_equal(journal_log_open(&log, other, &options, place->now_ns, &diag), 0);
	assert_int_equal(journal_log_state(log), JOURNAL_FAILED);
	assert_int_equal(journal_log_error(log, NULL), EAGAIN);
	assert_int_equal(journal_log_append(log, JOURNAL_GROUP, "x", 1, NULL), 0);
	assert_int_equal(journal_log_turn(log, place->now_ns), place->now_ns + S);
	append(place, "one", NULL);
	sync_all(place);
	close_log(place);
	journal_log_turn(log, place->now_ns + S);
	assert_int_equal(journal_log_state(log), JOURNAL_GOOD);
	assert_true(journal_log_is_read(log));
	assert_int_equal(journal_log_begin(log).file, 2);
	journal_log_close(&log);
	journal_storage_close(&other);
	open_log(place);
}

static void test_the_thread_tells_by_its_descriptor(void **state)
{
	struct place *place = *state;
	struct pollfd fd;

	close_log(place);
	place->options.threaded = true;
	open_log(place);
	fd = (struct pollfd){ .fd = journal_log_event_fd(place->log), .events = POLLIN };
	assert_true(fd.fd >= 0);
	for (unsigned i = 0; i < 100; i++) {
		append(place, "one", NULL);
		journal_log_sync_by(place->log, place->now_ns);
		journal_log_turn(place->log, place->now_ns);
		if (journal_log_synced(place->log) < journal_log_last(place->log)) {
			assert_int_equal(poll(&fd, 1, 10000), 1);
			journal_log_turn(place->log, place->now_ns);
		}
		assert_int_equal(poll(&fd, 1, 0), 0);
		assert_int_equal(journal_log_synced(place->log), journal_log_last(place->log));
	}
	append(place, "two", NULL);
	sync_all(place);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_what_was_appended_is_read_again),
		TEST(test_a_killed_process_leaves_a_torn_tail),
		TEST(test_marks_wait_for_what_allows_them),
		TEST(test_positions_delete_what_is_below),
		TEST(test_files_removed_underneath),
		TEST(test_the_second_writer_waits),
		TEST(test_the_thread_tells_by_its_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: ISC */
/* What cannot be read: told for what it is, and everything else is read all the same. */
#include "tests/unit/test.h"
#include "tests/unit/journal/journal_place.h"

#define FIRST	JOURNAL_HEAD_SIZE	/* offset of the first record */

/* Three files: one two | three four | five six; all of it synced. */
static void three_files(void) {
	static const char *const words[] = { "one", "two", "three", "four", "five", "six" };

	for (unsigned i = 0; i < 6; i++) {
		if (i == 2 || i == 4)
			journal_log_switch(place->log);
		append(words[i], NULL);
		sync_all();
	}
	close_log();
}

static unsigned count_of(const char *needle) {
	unsigned count = 0;

	for (const char *at = told; (at = strstr(at, needle)) != NULL; at++)
		count++;
	return count;
}

/* A flipped bit in any byte of any file: at most the record that it hit is lost, it is told
 * once, and a writer goes on behind it. */
TEST_IN(set_up, tear_down, test_each_flipped_bit) {
	static const char *const words[] = { "one ", "two ", "three ", "four ", "five ", "six " };

	three_files();
	for (uint32_t file = 1; file <= 3; file++) {
		struct stat status;
		uint8_t byte, flipped;

		assert_int_equal(stat(file_path(file), &status), 0);
		for (long at = 0; at < status.st_size; at++) {
			int fd = open(file_path(file), O_RDONLY);
			unsigned missing = 0;
			bool last;

			assert_int_equal(pread(fd, &byte, 1, at), 1);
			close(fd);
			flipped = byte ^ (uint8_t)(1 << at % 8);
			poke(file, at, &flipped, 1);
			seen_of();
			for (unsigned i = 0; i < 6; i++)
				missing += count_of(words[i]) != 1;
			/* a record that nothing was synced behind cannot be told from a torn tail */
			last = file == 3 && at >= FIRST + 28;
			assert_int_equal(count_of("<torn") , last && missing == 1);
			assert_true(missing <= 1);
			if (missing == 1 && !last)
				assert_int_equal(count_of("<damage"), 1);
			else if (at >= FIRST)
				assert_int_equal(count_of("<damage"), 0);
			poke(file, at, &byte, 1);
		}
	}
	open_log();
}

/* It is not empty: nobody knows what stands in it. */
TEST_IN(set_up, tear_down, test_a_file_whose_head_cannot_be_read_is_a_fault) {
	struct journal_reader *reader;
	struct journal_cursor *cursor;
	struct journal_found found;
	struct diag diag;

	three_files();
	open_log();
	place->fail_read = EIO;
	assert_int_equal(journal_reader_open(&reader, &place->storage, &diag), 0);
	cursor = journal_cursor_open(&reader->files);
	for (unsigned i = 1; i <= 4; i++) {
		assert_int_equal(journal_cursor_next(cursor, &found), JOURNAL_FOUND_FAULT);
		assert_int_equal(found.error, EIO);
		assert_int_equal(found.place.file, i);
	}
	assert_int_equal(journal_cursor_next(cursor, &found), JOURNAL_FOUND_END);
	journal_cursor_close(&cursor);
	journal_reader_close(&reader);
	place->fail_read = 0;
}

/* Zeros from anywhere on behind what was synced are a torn tail; within it, damage. */
TEST_IN(set_up, tear_down, test_a_tail_of_zeros) {
	uint8_t zeros[300] = { 0 };

	append_and_sync("one");
	append("two", NULL);
	journal_log_flush(place->log);
	close_log();
	poke(1, FIRST + 27, zeros, 300);
	assert_string_equal(seen_of(), "one <torn:300> ");
	open_log();
	append_and_sync("three");
	append_and_sync("four");
	assert_string_equal(seen_of(), "one <torn:300> three four ");
	poke(1, FIRST, zeros, 27);
	assert_string_equal(seen_of(), "<damage:27> <torn:300> three four ");
}

/* A reader while the writer is in the middle of a record. */
TEST_IN(set_up, tear_down, test_half_a_record_is_a_torn_tail) {
	append_and_sync("one");
	append("two", NULL);
	journal_log_flush(place->log);
	for (unsigned cut = 26; cut > 0; cut--) {
		char wanted[40];

		assert_int_equal(truncate(file_path(1), FIRST + 27 + cut), 0);
		snprintf(wanted, sizeof(wanted), "one <torn:%u> ", cut);
		assert_string_equal(seen_of(), wanted);
	}
	assert_int_equal(truncate(file_path(1), FIRST + 27), 0);
	assert_string_equal(seen_of(), "one ");
}

/* A stranger's text that looks like a record is never one, even where the record that
 * holds it cannot be read. */
TEST_IN(set_up, tear_down, test_a_record_within_a_text_is_not_believed) {
	uint8_t inner[64], text[128];
	struct journal_frame fake = { .mark = JOURNAL_LIVE, .type = JOURNAL_GROUP, .version = 1,
		.length = 4, .sequence = 3, .behind = 1, .payload = (const uint8_t *)"fake" };
	size_t length = journal_frame_write(inner, &fake, 0);

	append("one", NULL);
	memset(text, 'x', sizeof(text));
	memcpy(text + 10, inner, length);
	journal_log_append(place->log, JOURNAL_GROUP, text, sizeof(text), NULL);
	append_and_sync("three");
	append_and_sync("four");
	poke(1, FIRST + 27, "Y", 1);
	assert_string_equal(seen_of(), "one <damage:152> three four ");
}

static void put_record(long offset, uint8_t version, uint64_t sequence,
    const char *text) {
	struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = 99, .version = version,
		.length = (uint32_t)strlen(text), .sequence = sequence, .behind = 1,
		.payload = (const uint8_t *)text };
	struct journal_reader *reader;
	struct diag diag;
	uint8_t bytes[200];

	assert_int_equal(journal_reader_open_path(&reader, place->path, &diag), 0);
	journal_frame_write(bytes, &frame, reader->files.files[0].head.salt);
	poke(1, offset, bytes, JOURNAL_HEADER + strlen(text));
	journal_reader_close(&reader);
}

/* Types and versions that are not known yet are passed over by their length. */
TEST_IN(set_up, tear_down, test_records_of_a_later_version) {
	append_and_sync("one");
	close_log();
	put_record(FIRST + 27, 1, 3, "type");
	put_record(FIRST + 27 + 28, 2, 4, "version");
	open_log();
	assert_int_equal(append("two", NULL), 6);
	assert_string_equal(all_of(), "one type {version} two ");
}

/* A file whose head is of a later version: read as far as it can be, never deleted. */
TEST_IN(set_up, tear_down, test_a_file_of_a_later_version) {
	struct journal_positions positions = { .first_file = 2 };
	uint8_t bytes[JOURNAL_HEAD_SIZE], payload[JOURNAL_HEAD_PAYLOAD];
	struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = 1, .version = 2,
		.length = sizeof(payload), .sequence = 1, .behind = 1, .payload = payload };
	int fd;

	append_and_sync("one");
	close_log();
	fd = open(file_path(1), O_RDONLY);
	assert_int_equal(pread(fd, payload, sizeof(payload), JOURNAL_HEADER), sizeof(payload));
	close(fd);
	journal_frame_write(bytes, &frame, 0);
	poke(1, 0, bytes, sizeof(bytes));
	open_log();
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_int_equal(journal_log_files(place->log)->files[0].head_state, JOURNAL_HEAD_LATER);
	append("two", NULL);
	journal_log_positions(place->log, &positions);
	after(0);
	assert_int_equal(journal_log_positions_recorded(place->log), 1);
	assert_int_equal(access(file_path(1), F_OK), 0);
	assert_int_equal(append("three", NULL), 5);
}

TEST_IN(set_up, tear_down, test_a_missing_file_is_told) {
	three_files();
	unlink(file_path(2));
	assert_string_equal(seen_of(), "one two <damage:0> five six ");
	open_log();
	assert_string_equal(all_of(), "one two <damage:0> five six ");
}

TEST_IN(set_up, tear_down, test_a_file_that_was_cut_is_told) {
	three_files();
	assert_int_equal(truncate(file_path(2), FIRST + 29), 0);
	assert_string_equal(seen_of(), "one two three <damage:0> five six ");
	assert_int_equal(truncate(file_path(2), 0), 0);
	assert_string_equal(seen_of(), "one two <damage:0> five six ");
	open_log();
	assert_string_equal(all_of(), "one two <damage:0> five six ");
}

/* What is none of ours is counted and left alone; a copy under another number is none. */
TEST_IN(set_up, tear_down, test_strange_names) {
	struct journal_reader *reader;
	char path[128], copy[400];
	struct diag diag;
	ssize_t size;
	int fd;

	append_and_sync("one");
	fd = open(file_path(1), O_RDONLY);
	size = read(fd, copy, sizeof(copy));
	close(fd);
	close_log();
	fd = open(file_path(7), O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, copy, (size_t)size), size);
	close(fd);
	snprintf(path, sizeof(path), "%s/core", place->path);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	assert_int_equal(symlink("/etc/passwd", file_path(5)), 0);
	assert_int_equal(journal_reader_open_path(&reader, place->path, &diag), 0);
	assert_int_equal(reader->files.foreign, 1);
	journal_reader_close(&reader);
	open_log();
	assert_int_equal(journal_log_begin(place->log).file, 8);
	append_and_sync("two");
	seen_of();
	assert_int_equal(count_of("one "), 1);
	assert_int_equal(count_of("two "), 1);
	assert_int_equal(access(path, F_OK), 0);
}

/* Either slot of positions may be spoiled: the other counts; none of them: all is read. */
TEST_IN(set_up, tear_down, test_spoiled_positions) {
	struct journal_positions positions = { .results = 1 };
	char path[128];
	int fd;

	for (; positions.results <= 3; positions.results++) {
		append("x", NULL);
		assert_true(journal_log_positions(place->log, &positions) > 0);
		after(0);
	}
	close_log();
	snprintf(path, sizeof(path), "%s/positions", place->path);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "?", 1, JOURNAL_SLOT + 30), 1);	/* serial 3 */
	open_log();
	assert_int_equal(journal_log_found(place->log)->results, 2);
	close_log();
	assert_int_equal(pwrite(fd, "?", 1, 30), 1);
	close(fd);
	open_log();
	assert_null(journal_log_found(place->log));
	assert_string_equal(all_of(), "x x x ");
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
}

/* Lengths that point anywhere make nobody read or sum up more than a few times the file. */
TEST_IN(set_up, tear_down, test_a_file_of_lengths) {
	static uint8_t bytes[1 << 20];
	int64_t began;

	append_and_sync("one");
	close_log();
	/* 43000 headers of records of 200 kB: to sum them all up takes 8 GB */
	for (uint32_t i = 0; i < sizeof(bytes) / 24; i++) {
		const uint32_t header[6] = { 0x010effd6, 200000, 3 + i, 0, 1, 0 };

		memcpy(bytes + (size_t)i * sizeof(header), header, sizeof(header));
	}
	poke(1, FIRST + 27, bytes, sizeof(bytes));
	began = clock_thread_cpu_ns();
	seen_of();
	assert_string_equal(told, "one <torn:1048576> ");
	assert_true(clock_thread_cpu_ns() - began < S / 2);
	open_log();
}

/* Somebody made a file huge: a hole is passed over quickly, and what is beyond what a file
 * can have is not looked at. */
TEST_IN(set_up, tear_down, test_a_huge_file) {
	int64_t began;

	append_and_sync("one");
	append_and_sync("two");
	close_log();
	assert_int_equal(truncate(file_path(1), (INT64_C(4) << 30) + 100), 0);
	began = clock_thread_cpu_ns();
	open_log();
	assert_true(clock_thread_cpu_ns() - began < 3 * S);
	append("three", NULL);
	journal_log_flush(place->log);
	assert_string_equal(all_of(), "one two <torn:1073741686> three ");
}

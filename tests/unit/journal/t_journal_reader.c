/* SPDX-License-Identifier: ISC */
/* What cannot be read: told for what it is, and everything else is read all the same. */
#include "tests/unit/test.h"
#include "tests/unit/journal/journal_place.h"

#define FIRST	JOURNAL_HEAD_SIZE	/* offset of the first record */

/* Three files: one two | three four | five six; all of it synced. */
static void three_files(struct place *place) {
	static const char *const words[] = { "one", "two", "three", "four", "five", "six" };

	for (unsigned i = 0; i < 6; i++) {
		if (i == 2 || i == 4)
			journal_log_switch(place->log);
		append(place, words[i], NULL);
		sync_all(place);
	}
	close_log(place);
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
	struct place *place = *state;
	static const char *const words[] = { "one ", "two ", "three ", "four ", "five ", "six " };

	three_files(place);
	for (uint32_t file = 1; file <= 3; file++) {
		struct stat status;
		uint8_t byte, flipped;

		assert_int_equal(stat(file_path(place, file), &status), 0);
		for (long at = 0; at < status.st_size; at++) {
			int fd = open(file_path(place, file), O_RDONLY);
			unsigned missing = 0;
			bool last;

			assert_int_equal(pread(fd, &byte, 1, at), 1);
			close(fd);
			flipped = byte ^ (uint8_t)(1 << at % 8);
			poke(place, file, at, &flipped, 1);
			seen_of(place);
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
			poke(place, file, at, &byte, 1);
		}
	}
	open_log(place);
}

/* It is not empty: nobody knows what stands in it. */
TEST_IN(set_up, tear_down, test_a_file_whose_head_cannot_be_read_is_a_fault) {
	struct place *place = *state;
	struct journal_reader *reader;
	struct journal_cursor *cursor;
	struct journal_found found;
	struct diag diag;

	three_files(place);
	open_log(place);
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
	struct place *place = *state;
	uint8_t zeros[300] = { 0 };

	append(place, "one", NULL);
	sync_all(place);
	append(place, "two", NULL);
	journal_log_flush(place->log);
	close_log(place);
	poke(place, 1, FIRST + 27, zeros, 300);
	assert_string_equal(seen_of(place), "one <torn:300> ");
	open_log(place);
	append(place, "three", NULL);
	sync_all(place);
	append(place, "four", NULL);
	sync_all(place);
	assert_string_equal(seen_of(place), "one <torn:300> three four ");
	poke(place, 1, FIRST, zeros, 27);
	assert_string_equal(seen_of(place), "<damage:27> <torn:300> three four ");
}

/* A reader while the writer is in the middle of a record. */
TEST_IN(set_up, tear_down, test_half_a_record_is_a_torn_tail) {
	struct place *place = *state;

	append(place, "one", NULL);
	sync_all(place);
	append(place, "two", NULL);
	journal_log_flush(place->log);
	for (unsigned cut = 26; cut > 0; cut--) {
		char wanted[40];

		assert_int_equal(truncate(file_path(place, 1), FIRST + 27 + cut), 0);
		snprintf(wanted, sizeof(wanted), "one <torn:%u> ", cut);
		assert_string_equal(seen_of(place), wanted);
	}
	assert_int_equal(truncate(file_path(place, 1), FIRST + 27), 0);
	assert_string_equal(seen_of(place), "one ");
}

/* A stranger's text that looks like a record is never one, even where the record that
 * holds it cannot be read. */
TEST_IN(set_up, tear_down, test_a_record_within_a_text_is_not_believed) {
	struct place *place = *state;
	uint8_t inner[64], text[128];
	struct journal_frame fake = { .mark = JOURNAL_LIVE, .type = JOURNAL_GROUP, .version = 1,
		.length = 4, .sequence = 3, .behind = 1, .payload = (const uint8_t *)"fake" };
	size_t length = journal_frame_write(inner, &fake, 0);

	append(place, "one", NULL);
	memset(text, 'x', sizeof(text));
	memcpy(text + 10, inner, length);
	journal_log_append(place->log, JOURNAL_GROUP, text, sizeof(text), NULL);
	append(place, "three", NULL);
	sync_all(place);
	append(place, "four", NULL);
	sync_all(place);
	poke(place, 1, FIRST + 27, "Y", 1);
	assert_string_equal(seen_of(place), "one <damage:152> three four ");
}

static void put_record(struct place *place, long offset, uint8_t version, uint64_t sequence,
    const char *text) {
	struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = 99, .version = version,
		.length = (uint32_t)strlen(text), .sequence = sequence, .behind = 1,
		.payload = (const uint8_t *)text };
	struct journal_storage *storage;
	struct journal_reader *reader;
	struct diag diag;
	uint8_t bytes[200];

	storage = journal_storage_posix(place->path, true, &diag);
	assert_int_equal(journal_reader_open(&reader, storage, &diag), 0);
	journal_frame_write(bytes, &frame, reader->files.files[0].head.salt);
	poke(place, 1, offset, bytes, JOURNAL_HEADER + strlen(text));
	journal_reader_close(&reader);
	journal_storage_close(&storage);
}

/* Types and versions that are not known yet are passed over by their length. */
TEST_IN(set_up, tear_down, test_records_of_a_later_version) {
	struct place *place = *state;

	append(place, "one", NULL);
	sync_all(place);
	close_log(place);
	put_record(place, FIRST + 27, 1, 3, "type");
	put_record(place, FIRST + 27 + 28, 2, 4, "version");
	open_log(place);
	assert_int_equal(append(place, "two", NULL), 6);
	assert_string_equal(all_of(place), "one type {version} two ");
}

/* A file whose head is of a later version: read as far as it can be, never deleted. */
TEST_IN(set_up, tear_down, test_a_file_of_a_later_version) {
	struct place *place = *state;
	struct journal_positions positions = { .first_file = 2 };
	uint8_t bytes[JOURNAL_HEAD_SIZE], payload[JOURNAL_HEAD_PAYLOAD];
	struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = 1, .version = 2,
		.length = sizeof(payload), .sequence = 1, .behind = 1, .payload = payload };
	int fd;

	append(place, "one", NULL);
	sync_all(place);
	close_log(place);
	fd = open(file_path(place, 1), O_RDONLY);
	assert_int_equal(pread(fd, payload, sizeof(payload), JOURNAL_HEADER), sizeof(payload));
	close(fd);
	journal_frame_write(bytes, &frame, 0);
	poke(place, 1, 0, bytes, sizeof(bytes));
	open_log(place);
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
	assert_int_equal(journal_log_files(place->log)->files[0].head_state, JOURNAL_HEAD_LATER);
	append(place, "two", NULL);
	journal_log_positions(place->log, &positions);
	after(place, 0);
	assert_int_equal(journal_log_positions_recorded(place->log), 1);
	assert_int_equal(access(file_path(place, 1), F_OK), 0);
	assert_int_equal(append(place, "three", NULL), 5);
}

TEST_IN(set_up, tear_down, test_a_missing_file_is_told) {
	struct place *place = *state;

	three_files(place);
	unlink(file_path(place, 2));
	assert_string_equal(seen_of(place), "one two <damage:0> five six ");
	open_log(place);
	assert_string_equal(all_of(place), "one two <damage:0> five six ");
}

TEST_IN(set_up, tear_down, test_a_file_that_was_cut_is_told) {
	struct place *place = *state;

	three_files(place);
	assert_int_equal(truncate(file_path(place, 2), FIRST + 29), 0);
	assert_string_equal(seen_of(place), "one two three <damage:0> five six ");
	assert_int_equal(truncate(file_path(place, 2), 0), 0);
	assert_string_equal(seen_of(place), "one two <damage:0> five six ");
	open_log(place);
	assert_string_equal(all_of(place), "one two <damage:0> five six ");
}

/* What is none of ours is counted and left alone; a copy under another number is none. */
TEST_IN(set_up, tear_down, test_strange_names) {
	struct place *place = *state;
	struct journal_storage *storage;
	struct journal_reader *reader;
	char path[128], copy[400];
	struct diag diag;
	ssize_t size;
	int fd;

	append(place, "one", NULL);
	sync_all(place);
	fd = open(file_path(place, 1), O_RDONLY);
	size = read(fd, copy, sizeof(copy));
	close(fd);
	close_log(place);
	fd = open(file_path(place, 7), O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, copy, (size_t)size), size);
	close(fd);
	snprintf(path, sizeof(path), "%s/core", place->path);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	assert_int_equal(symlink("/etc/passwd", file_path(place, 5)), 0);
	storage = journal_storage_posix(place->path, true, &diag);
	assert_int_equal(journal_reader_open(&reader, storage, &diag), 0);
	assert_int_equal(reader->files.foreign, 1);
	journal_reader_close(&reader);
	journal_storage_close(&storage);
	open_log(place);
	assert_int_equal(journal_log_begin(place->log).file, 8);
	append(place, "two", NULL);
	sync_all(place);
	seen_of(place);
	assert_int_equal(count_of("one "), 1);
	assert_int_equal(count_of("two "), 1);
	assert_int_equal(access(path, F_OK), 0);
}

/* Either slot of positions may be spoiled: the other counts; none of them: all is read. */
TEST_IN(set_up, tear_down, test_spoiled_positions) {
	struct place *place = *state;
	struct journal_positions positions = { .results = 1 };
	char path[128];
	int fd;

	for (; positions.results <= 3; positions.results++) {
		append(place, "x", NULL);
		assert_true(journal_log_positions(place->log, &positions) > 0);
		after(place, 0);
	}
	close_log(place);
	snprintf(path, sizeof(path), "%s/positions", place->path);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "?", 1, JOURNAL_SLOT + 30), 1);	/* serial 3 */
	open_log(place);
	assert_int_equal(journal_log_found(place->log)->results, 2);
	close_log(place);
	assert_int_equal(pwrite(fd, "?", 1, 30), 1);
	close(fd);
	open_log(place);
	assert_null(journal_log_found(place->log));
	assert_string_equal(all_of(place), "x x x ");
	assert_int_equal(journal_log_state(place->log), JOURNAL_GOOD);
}

/* Lengths that point anywhere make nobody read or sum up more than a few times the file. */
TEST_IN(set_up, tear_down, test_a_file_of_lengths) {
	struct place *place = *state;
	static uint8_t bytes[1 << 20];
	int64_t began;

	append(place, "one", NULL);
	sync_all(place);
	close_log(place);
	/* 43000 headers of records of 200 kB: to sum them all up takes 8 GB */
	for (uint32_t i = 0; i < sizeof(bytes) / 24; i++) {
		const uint32_t header[6] = { 0x010effd6, 200000, 3 + i, 0, 1, 0 };

		memcpy(bytes + (size_t)i * sizeof(header), header, sizeof(header));
	}
	poke(place, 1, FIRST + 27, bytes, sizeof(bytes));
	began = clock_thread_cpu_ns();
	seen_of(place);
	assert_string_equal(told, "one <torn:1048576> ");
	assert_true(clock_thread_cpu_ns() - began < S / 2);
	open_log(place);
}

/* Somebody made a file huge: a hole is passed over quickly, and what is beyond what a file
 * can have is not looked at. */
TEST_IN(set_up, tear_down, test_a_huge_file) {
	struct place *place = *state;
	int64_t began;

	append(place, "one", NULL);
	sync_all(place);
	append(place, "two", NULL);
	sync_all(place);
	close_log(place);
	assert_int_equal(truncate(file_path(place, 1), (INT64_C(4) << 30) + 100), 0);
	began = clock_thread_cpu_ns();
	open_log(place);
	assert_true(clock_thread_cpu_ns() - began < 3 * S);
	append(place, "three", NULL);
	journal_log_flush(place->log);
	assert_string_equal(all_of(place), "one two <torn:1073741686> three ");
}

/* SPDX-License-Identifier: ISC */
/*
 * Payloads, and the golden files of version 1 (tests/unit/golden/journal-1): what they say
 * is read for ever, and the same journal written again has the same bytes.  With
 * WRITE_GOLDEN=DIRECTORY in the environment it is written there, for a version to come.
 */
#include <fcntl.h>
#include "tests/unit/test.h"
#include "journal/log.h"
#include "tests/unit/journal/journal_samples.h"

#define WALL	INT64_C(1700000000123456789)

static uint8_t bytes[JOURNAL_PAYLOAD_MAX], again[JOURNAL_PAYLOAD_MAX];

TEST(test_each_is_read_as_it_was_written) {
	for (unsigned type = JOURNAL_POSITIONS; type <= JOURNAL_SOURCE; type++) {
		size_t length = sample_payload(type, bytes, sizeof(bytes));

		assert_true(length > 0);
		assert_int_equal(sample_rewrite(type, bytes, length, again, sizeof(again)), length);
		assert_memory_equal(bytes, again, length);
		assert_non_null(journal_type_word(type));
		/* no room for the last byte */
		assert_int_equal(sample_payload(type, again, length - 1), 0);
	}
	assert_null(journal_type_word(0));
	assert_null(journal_type_word(18));
}

/* Fields that a later version adds are ignored. */
TEST(test_what_follows_is_ignored) {
	for (unsigned type = JOURNAL_POSITIONS; type <= JOURNAL_SOURCE; type++) {
		size_t length = sample_payload(type, bytes, sizeof(bytes));

		memset(bytes + length, 0xee, 40);
		assert_int_equal(sample_rewrite(type, bytes, length + 40, again, sizeof(again)),
		    length);
		assert_memory_equal(bytes, again, length);
	}
}

/* Cut at a field's end it is the record of an older writer; within one it is spoiled. */
TEST(test_what_ends_early) {
	struct journal_finish finish;
	struct journal_manual manual;
	size_t length = journal_finish_write(bytes, sizeof(bytes), &sample_finish);

	assert_int_equal(length, 33);
	assert_true(journal_finish_read(bytes, 32, &finish));
	assert_int_equal(finish.when_ns, sample_finish.when_ns);
	assert_int_equal(finish.why, 0);
	assert_true(journal_finish_read(bytes, 8, &finish));
	assert_int_equal(finish.key, sample_finish.key);
	assert_int_equal(finish.start, 0);
	assert_false(journal_finish_read(bytes, 31, &finish));
	assert_false(journal_finish_read(bytes, 7, &finish));
	assert_true(journal_finish_read(bytes, 0, &finish));
	length = journal_manual_write(bytes, sizeof(bytes), &sample_manual);
	assert_false(journal_manual_read(bytes, length - 1, &manual));
	assert_true(journal_manual_read(bytes, length - 2 - sample_manual.reason.length, &manual));
	assert_int_equal(manual.reason.length, 0);
}

/* A field that a later version has added. */
TEST(test_by_what_a_recipient_is_held) {
	struct journal_held_recipient was;
	size_t length = journal_held_recipient_write(bytes, sizeof(bytes), &sample_held);

	memset(&was, 0xee, sizeof(was));
	assert_true(journal_held_recipient_read(bytes, length - 8, &was));
	assert_true(was.event == 0 && was.by_rule);
	assert_true(journal_held_recipient_read(bytes, length, &was));
	assert_true(was.event == sample_held.event);
}

/* What a line of the log told. */
TEST(test_who_was_delivered) {
	static const struct journal_group group = { .count = 2, .domain = SAMPLE_TEXT("d") };
	struct journal_delivery delivery = sample_delivery, was;
	struct journal_envelope envelope = { .key = 1, .mta = SAMPLE_TEXT("m"),
		.directory = SAMPLE_TEXT("/"), .id = SAMPLE_TEXT("i"),
		.groups = { .count = 1, .items = &group }, .pid = 77,
		.delivered = SAMPLE_TEXT("c@d") }, told;
	size_t length;

	delivery.id = (struct journal_text)SAMPLE_TEXT("6AR6");
	delivery.to = (struct journal_text)SAMPLE_TEXT("a@d,b@d");
	delivery.pid = 7;
	delivery.log = 8;
	delivery.offset = 9;
	length = journal_delivery_write(bytes, sizeof(bytes), &delivery);
	assert_true(journal_delivery_read(bytes, length, &was));
	assert_memory_equal(was.to.text, "a@d,b@d", 7);
	assert_int_equal(was.pid, 7);
	assert_true(was.log == 8 && was.offset == 9);
	assert_false(journal_delivery_read(bytes, length - 24, &was));
	length = journal_envelope_write(bytes, sizeof(bytes), &envelope);
	assert_true(journal_envelope_read(bytes, length, &told));
	assert_int_equal(told.pid, 77);
	assert_memory_equal(told.delivered.text, "c@d", 3);
	assert_int_equal(told.groups.count, 1);
	assert_false(journal_envelope_read(bytes, length - 5, &told));
}

/* Kinds are words on disk, as their numbers are of one build. */
TEST(test_a_decision_comes_back) {
	size_t length = sample_payload(JOURNAL_DECISION, bytes, sizeof(bytes));
	struct journal_decision decision;
	struct decided decided;
	uint8_t *word;

	assert_true(journal_decision_read(bytes, length, &decision));
	assert_true(journal_decision_get(&decision, &decided));
	assert_int_equal(decided.kind, DECIDED_SUSPENDED);
	assert_int_equal(decided.reason, DECIDED_NO_REASON);
	assert_true(decided.success == 0.5F && decided.pid == 162);
	assert_string_equal(decided_text(&decided, DECIDED_NAME), "d.example");
	assert_string_equal(decided_text(&decided, DECIDED_REASON), "421 4.7.0 \xff bus");
	word = memmem(bytes, length, "suspended", 9);
	assert_non_null(word);
	word[0] = 'S';
	assert_true(journal_decision_read(bytes, length, &decision));
	assert_true(decision.d.id == sample_decision.d.id);
	assert_false(journal_decision_get(&decision, &decided));
	/* a text that ends behind its list */
	word[0] = 's';
	bytes[length - 17] = 0xff;
	assert_true(journal_decision_read(bytes, length, &decision));
	assert_false(journal_decision_get(&decision, &decided));
}

/* Behind its list an envelope has 6 bytes: no one that was delivered, and no pid. */
TEST(test_lists_that_end_early_are_spoiled) {
	size_t length = sample_payload(JOURNAL_ENVELOPE, bytes, sizeof(bytes)) - 6;
	struct journal_envelope envelope;

	assert_true(journal_envelope_read(bytes, length, &envelope));
	for (size_t cut = length - 1; cut > length - 40; cut--)
		assert_false(journal_envelope_read(bytes, cut, &envelope));
	/* a count that nothing backs */
	length = sample_payload(JOURNAL_REPLACEMENT, bytes, sizeof(bytes)) - 6;
	memset(bytes + length - 4, 0xff, 4);
	assert_false(journal_envelope_read(bytes, length, &envelope));
}

/* More than there is room for. */
TEST(test_limits_are_checked) {
	struct journal_positions positions = sample_positions;
	struct journal_account account = sample_account;
	size_t length;

	positions.positions_count = JOURNAL_POSITIONS_MAX;
	length = journal_positions_write(bytes, sizeof(bytes), &positions);
	assert_true(journal_positions_read(bytes, length, &positions));
	for (size_t i = 0; i + 4 <= length; i++)
		if (bytes[i] == JOURNAL_POSITIONS_MAX && bytes[i + 4] == 6)
			bytes[i]++;
	assert_false(journal_positions_read(bytes, length, &positions));
	length = sample_payload(JOURNAL_POSITIONS, bytes, sizeof(bytes));
	for (size_t i = 0; i + 1 < length; i++)
		if (bytes[i] == JOURNAL_POSITION_NAME && bytes[i + 2] == 'f')
			bytes[i]++;
	assert_false(journal_positions_read(bytes, length, &positions));
	account.counters_count = JOURNAL_COUNTERS_MAX;
	length = journal_account_write(bytes, sizeof(bytes), &account);
	assert_true(journal_account_read(bytes, length, &account));
	bytes[length - JOURNAL_COUNTERS_MAX * 64 - 4]++;
	memset(bytes + length, 0, 64);
	assert_false(journal_account_read(bytes, length + 64, &account));
}

/* An envelope of one group, byte by byte. */
TEST(test_an_envelope_is_as_documented) {
	static const struct journal_group group = { .count = 2, .due_ns = 1,
		.domain = SAMPLE_TEXT("d") };
	static const struct journal_envelope envelope = { .key = 1, .replaces = 2, .old = { 3, 4 },
		.written_ns = 5, .due_ns = 6, .interval = 7, .unread = true, .stamp = 9,
		.arrival_ns = 10, .tried_ns = 11, .tries = 12, .recipients = 13, .rest = 14,
		.mta = SAMPLE_TEXT("m"), .directory = SAMPLE_TEXT("/"), .id = SAMPLE_TEXT("i"),
		.sender = SAMPLE_TEXT(""), .groups = { .count = 1, .items = &group },
		.pid = 15 };
	static const uint8_t wanted[] = { 1, 0, 'm', 1, 0, '/', 1, 0, 'i',
		1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0,
		11, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 1,
		14, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
		3, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 'd', 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 15, 0, 0, 0 };

	assert_int_equal(journal_envelope_write(bytes, sizeof(bytes), &envelope),
	    sizeof(wanted));
	assert_memory_equal(bytes, wanted, sizeof(wanted));
}

/* --- golden files ------------------------------------------------------------------- */

static int64_t wall(void) {
	return WALL;
}

/* A journal of two files, one of each type in the first, the first envelope garbage. */
static void write_journal(const char *path) {
	static const struct journal_log_options options = { .kind = JOURNAL_QUEUE,
		.file_size = 1 << 20, .random = 1, .wall_ns = wall };
	struct journal_place envelope = { 0, 0 }, place;
	struct journal_storage *storage;
	struct journal_log *log;
	struct diag diag;

	storage = journal_storage_posix(path, false, &diag);
	assert_non_null(storage);
	assert_int_equal(journal_log_open(&log, storage, &options, 0, &diag), 0);
	for (unsigned type = JOURNAL_ENVELOPE; type <= JOURNAL_GROUP; type++) {
		size_t length = sample_payload(type, bytes, sizeof(bytes));

		assert_true(journal_log_append(log, (uint8_t)type, bytes, length, &place) > 0);
		if (type == JOURNAL_ENVELOPE)
			envelope = place;
	}
	assert_true(journal_log_mark(log, envelope, journal_log_last(log)));
	assert_int_equal(journal_log_positions(log, &sample_positions), 1);
	journal_log_turn(log, 0);
	journal_log_switch(log);
	journal_log_append(log, JOURNAL_FINISH, bytes,
	    sample_payload(JOURNAL_FINISH, bytes, sizeof(bytes)), NULL);
	assert_int_equal(journal_log_positions(log, &sample_positions), 2);
	journal_log_turn(log, 0);
	assert_int_equal(journal_log_positions_recorded(log), 2);
	journal_log_close(&log);
	journal_storage_close(&storage);
}

static size_t read_file(const char *directory, const char *name, uint8_t *out, size_t size) {
	char path[512];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	got = read(fd, out, size);
	assert_true(got >= 0);
	close(fd);
	return (size_t)got;
}

static const char *const golden_files[] = { "0000000001.log", "0000000002.log", "positions" };

static const char *golden(void) {
	static char path[512];
	const char *top = getenv("top_srcdir");

	snprintf(path, sizeof(path), "%s/tests/unit/golden/journal-1", top != NULL ? top : ".");
	return path;
}

TEST(test_golden_files_are_written_the_same) {
	char path[64] = "/dev/shm/t_journal_record.XXXXXX", name[128];
	const char *keep = getenv("WRITE_GOLDEN");

	if (keep != NULL) {
		write_journal(keep);
		return;
	}
	assert_non_null(mkdtemp(path));
	write_journal(path);
	for (unsigned i = 0; i < 3; i++) {
		size_t length = read_file(golden(), golden_files[i], bytes, sizeof(bytes));

		assert_true(length > 0);
		assert_int_equal(read_file(path, golden_files[i], again, sizeof(again)), length);
		assert_memory_equal(bytes, again, length);
		snprintf(name, sizeof(name), "%s/%s", path, golden_files[i]);
		unlink(name);
	}
	snprintf(name, sizeof(name), "%s/lock", path);
	unlink(name);
	assert_int_equal(rmdir(path), 0);
}

static void check_found(const struct journal_found *found, unsigned type, uint64_t sequence) {
	size_t length = sample_payload(type, bytes, sizeof(bytes));

	assert_int_equal(found->kind, JOURNAL_FOUND_RECORD);
	assert_int_equal(found->frame.type, type);
	assert_int_equal(found->frame.sequence, sequence);
	assert_int_equal(journal_mark_is_live(found->frame.mark), type != JOURNAL_ENVELOPE);
	assert_int_equal(found->frame.length, length);
	assert_memory_equal(found->frame.payload, bytes, length);
}

TEST(test_golden_files_are_read) {
	struct journal_reader *reader;
	struct journal_cursor *cursor;
	struct journal_found found;
	struct diag diag;

	if (getenv("WRITE_GOLDEN") != NULL)
		return;
	assert_int_equal(journal_reader_open_path(&reader, golden(), &diag), 0);
	assert_int_equal(reader->files.count, 2);
	assert_int_equal(reader->files.foreign, 0);
	assert_int_equal(reader->files.files[0].head.kind, JOURNAL_QUEUE);
	assert_int_equal(reader->files.files[0].head.created_ns, WALL);
	assert_true(reader->files.files[0].end_known);
	assert_int_equal(reader->slots[0].serial, 2);
	assert_int_equal(reader->slots[1].serial, 1);
	assert_int_equal(reader->slot, 0);
	assert_int_equal(reader->slots[0].positions.results, 148);
	assert_int_equal(reader->slots[0].positions.synced, 15);
	assert_string_equal(reader->slots[0].positions.positions[1].name, "fifteen-letters");
	cursor = journal_cursor_open(&reader->files);
	assert_non_null(cursor);
	assert_int_equal(journal_cursor_next(cursor, &found), JOURNAL_FOUND_RECORD);
	assert_int_equal(found.frame.type, JOURNAL_HEAD);
	for (unsigned type = JOURNAL_ENVELOPE; type <= JOURNAL_GROUP; type++) {
		journal_cursor_next(cursor, &found);
		check_found(&found, type, type - 1);
	}
	journal_cursor_next(cursor, &found);
	assert_int_equal(found.frame.type, JOURNAL_HEAD);
	journal_cursor_next(cursor, &found);
	check_found(&found, JOURNAL_FINISH, 15);
	assert_int_equal(journal_cursor_next(cursor, &found), JOURNAL_FOUND_END);
	journal_cursor_close(&cursor);
	journal_reader_close(&reader);
}

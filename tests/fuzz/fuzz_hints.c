/* SPDX-License-Identifier: ISC */
/*
 * Any bytes as a hints file.  They are laid over a good file, as one of another magic or
 * boot is not looked at further: before it is read, or under a reader that has it mapped
 * and checked; then it may be cut short, too.  The reader must stay within what the file
 * has, whatever it says of itself, and answer.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "segment/hints/given.h"
#include "segment/hints/hints_internal.h"

#define NOW	INT64_C(1000000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void remove_file(void) {
	char given[sizeof(path) + 8];

	snprintf(given, sizeof(given), "%s.given", path);
	unlink(given);
	unlink(path);
}

/* Three bytes each change one that follows the boot id: sizes, offsets, texts,
 * buckets. */
static void spoil(const uint8_t *data, size_t size) {
	static const size_t from = offsetof(struct hints_header, key);
	int fd = open(path, O_RDWR);
	off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	char byte;

	for (size_t i = 0; fd >= 0 && i + 2 < size; i += 3) {
		off_t at = (off_t)from + (off_t)((data[i] + 256 * data[i + 2]) %
		    (end - (off_t)from));

		if (pread(fd, &byte, 1, at) != 1)
			abort();
		byte = (char)(byte ^ (char)data[i + 1]);
		if (pwrite(fd, &byte, 1, at) != 1)
			abort();
	}
	if (fd >= 0)
		close(fd);
}

/* Its domain, and nothing that stands in the file. */
static bool is_asked_for(const char *domain, const char *address, size_t length) {
	size_t bytes = strlen(domain);

	if (length > 0 && address[length - 1] == '.')
		length--;
	return bytes < length && strncasecmp(domain, address + length - bytes, bytes) == 0;
}

static bool has_any(const void *context, uint64_t transport) {
	(void)context, (void)transport;
	return true;
}

static void read_it(struct hints_reader *reader, const char *address, size_t length) {
	struct hints_answer answer;

	for (unsigned i = 0; i < 4; i++) {
		if (i % 2 == 0)
			hints_reader_allow_sources(reader, has_any, NULL);
		hints_reader_ask(reader, "out", address, length, i == 3, NOW, &answer);
		if ((answer.kind == HINTS_HELD) != (answer.text[0] != '\0') ||
		    strnlen(answer.text, sizeof(answer.text)) > HINTS_TEXT_MAX ||
		    strnlen(answer.domain, sizeof(answer.domain)) > HINTS_NAME_MAX ||
		    (answer.kind == HINTS_SOURCE && !is_asked_for(answer.domain, address, length)) ||
		    (answer.kind == HINTS_LANE && !is_asked_for(answer.domain, address, length)) ||
		    (answer.kind == HINTS_LANE && answer.width == 0))
			abort();
	}
}

static void read_all(struct hints_reader *reader, const uint8_t *data, size_t size) {
	read_it(reader, "u@a.example", 11);
	read_it(reader, "v@a.example", 11);
	read_it(reader, "u@b.example", 11);
	read_it(reader, "u+x@b.example", 13);
	read_it(reader, "u@b.example", 11);
	read_it(reader, "u@c.example", 11);
	read_it(reader, (const char *)data, size);
}

static void write_it(struct hints_writer *writer, const struct given_out *numbers) {
	static const struct hints_mta mta = { "out", { 1, 2, 5 }, 3 };
	static const struct hint hints[] = { { "a.example", 0, 0 },
		{ "b.example", 0, 1 }, { "c.example", 0, 1 } };
	static const char *const texts[] = { "held", NULL };
	static const struct hint_say by_lanes = { .kind = HINTS_LANE,
		.lanes = { 2, { 2, 0 }, { 5, 1 }, 1, 3, 0, 2, 9, 1, 1, true } };
	static const struct hint_say held = { .kind = HINTS_HELD, .text = "suspended" };
	static const struct hint_pace pace = { .interval_ns = 1000, .burst = 2, .waits = true,
		.text = "Postern: pace" };
	const struct hints_source sources[] = { { "ip2", hints_transport("smtp-ip2"),
		HINTS_OVER_WAITS, true }, { "ip3", hints_transport("smtp-ip3"), HINTS_OVER_GOES_ON,
		false } };
	const struct hints_table table = { .mtas = &mta, .mta_count = 1, .hints = hints,
		.count = 3, .group_texts = texts, .group_count = 2, .recipients = 4,
		.paces = 2, .sources = sources, .source_count = 2,
		.given_id = given_id(numbers) };
	uint32_t places[3];
	struct diag diag;

	if (hints_writer_build(writer, &table, places, &diag) != 0)
		abort();
	hints_writer_set(writer, places[1], &by_lanes);
	hints_writer_set_room(writer, 1, 3, "Postern: class b has 3 sessions");
	hints_writer_set(writer, places[2], &held);
	hints_writer_begin_pace(writer, 1);
	hints_writer_set_pace(writer, 1, &pace);
	hints_writer_pass(writer, 1, 3, NOW, HINTS_PASS_ANY);
	hints_writer_follow_pace(writer, places[1], 1);
	if (!hints_writer_hold_recipient(writer, 0, "u@a.example", NOW + 1, "one") ||
	    hints_writer_publish(writer, NOW, &diag) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct hints_reader *reader;
	struct hints_writer *writer;
	static struct given_out *numbers;
	struct diag diag;

	if (path[0] == '\0') {
		snprintf(path, sizeof(path), "/dev/shm/fuzz_hints.%ld", (long)getpid());
		atexit(remove_file);
		hints_reader_outlive_cuts();
	}
	if (numbers == NULL && (numbers = given_make(path, (gid_t)-1, &diag)) == NULL)
		abort();
	/* some numbers are left, of some rows */
	for (uint32_t row = 0; row < GIVEN_ROWS; row++)
		if (given_left(numbers, row, row % 3) < 3)
			given_add(numbers, row, row % 3, 1);
	if (hints_writer_open(&writer, path, (gid_t)-1, &diag) != 0)
		return 0;
	write_it(writer, numbers);
	hints_writer_close(&writer);
	reader = hints_reader_open(path);
	if (reader == NULL)
		return 0;
	if (size > 0 && data[0] % 2 != 0)
		read_all(reader, data, size);
	spoil(data, size);
	if (size > 1 && data[0] % 4 == 3 && truncate(path, 16 * data[1]) != 0)
		abort();
	read_all(reader, data, size);
	hints_reader_close(&reader);
	return 0;
}

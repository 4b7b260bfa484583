/* SPDX-License-Identifier: ISC */
/*
 * Any bytes as a hints file.  Its first half is laid over a good file, as one of
 * another magic or boot is not looked at further; the reader must stay within
 * what the file has, whatever it says of itself.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment/hints_file.h"

#define NOW	INT64_C(1000000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void remove_file(void) {
	unlink(path);
}

/* The bytes change what follows the boot id: sizes, offsets, groups, buckets. */
static void spoil(const uint8_t *data, size_t size) {
	static const size_t from = offsetof(struct hints_header, key);
	int fd = open(path, O_RDWR);
	off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	char byte;

	for (size_t i = 0; fd >= 0 && i + 1 < size; i += 2) {
		off_t at = (off_t)from + (off_t)(data[i] % (end - (off_t)from));

		if (pread(fd, &byte, 1, at) != 1)
			abort();
		byte = (char)(byte ^ (char)data[i + 1]);
		if (pwrite(fd, &byte, 1, at) != 1)
			abort();
	}
	if (fd >= 0)
		close(fd);
}

static void read_it(const char *domain, size_t length) {
	struct hints_reader *reader = hints_reader_open(path);
	char text[HINTS_TEXT_MAX + 1];

	if (reader == NULL)
		return;
	for (unsigned i = 0; i < 2; i++)
		if (hints_reader_ask(reader, "out", domain, length, NOW, text) &&
		    (text[0] == '\0' || strlen(text) > HINTS_TEXT_MAX))
			abort();
	hints_reader_close(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const struct hint hints[] = { { "a.example", "out", 0 },
		{ "b.example", "out", 1 } };
	static const char *const texts[] = { "held", NULL };
	struct hints_writer *writer;
	struct diag diag;

	if (path[0] == '\0') {
		snprintf(path, sizeof(path), "/dev/shm/fuzz_hints.%ld", (long)getpid());
		atexit(remove_file);
	}
	if (hints_writer_open(&writer, path, &diag) != 0)
		return 0;
	if (hints_writer_publish(writer, hints, 2, texts, 2, NOW, &diag) != 0)
		abort();
	hints_writer_close(&writer);
	spoil(data, size);
	read_it("a.example", 9);
	read_it((const char *)data, size < 255 ? size : 255);
	return 0;
}

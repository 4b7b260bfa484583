/* SPDX-License-Identifier: ISC */
/*
 * An entry of systemd's journal, or a cursor, or a log's name: IDENTIFIER NUL PID NUL MESSAGE.
 * The line fits, holds no newline, and the readers of log lines bear it; a cursor that is read
 * and written is the same place.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/sd_log.h"
#include "wire/mail/mail_log.h"
#include "wire/mail/sd_entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct span next_part(const char **at, const char *end) {
	const char *start = *at, *stop = memchr(start, '\0', (size_t)(end - start));

	if (stop == NULL)
		stop = end;
	*at = stop < end ? stop + 1 : end;
	return (struct span){ start, (size_t)(stop - start) };
}

static void read_entry(const char *text, size_t size) {
	const char *at = text, *end = text + size;
	struct sd_entry entry = { .time_us = size * UINT64_C(0x123456789abcd) };
	size_t room = SD_ENTRY_HEAD_MAX + size, length;
	struct log_line line;
	char *out = malloc(room);

	if (out == NULL)
		abort();
	entry.identifier = next_part(&at, end);
	entry.pid = next_part(&at, end);
	entry.message = (struct span){ at, (size_t)(end - at) };
	length = sd_entry_line(&entry, out, room);
	MUST(length <= room && memchr(out, '\n', length) == NULL);
	(void)mail_log_scan(out, length, &line);
	free(out);
}

static void read_cursor(const char *text) {
	uint64_t id[2], number, id_again[2], number_again;
	char cursor[SD_CURSOR_MAX];

	if (!sd_cursor_read(text, id, &number))
		return;
	sd_cursor_write(cursor, id, number, number);
	MUST(sd_cursor_read(cursor, id_again, &number_again) && id[0] == id_again[0] &&
	    id[1] == id_again[1] && number == number_again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	char *text = malloc(size + 1);
	struct sd_log log;
	const char *why;

	if (text == NULL)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	read_entry(text, size);
	read_cursor(text);
	if (sd_log_is(text))
		MUST(sd_log_parse(text, &log, &why) == (why == NULL));
	free(text);
	return 0;
}

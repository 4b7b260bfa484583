/* SPDX-License-Identifier: ISC */
/* Entries of systemd's journal, and cursors.  Of a message of several lines the first counts, as
 * of a datagram. */
#include "wire/mail/sd_entry.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "wire/mail/log_cursor.h"

#define IDENTIFIER_MAX	160
#define US_PER_SECOND	1000000
#define TIME_MAX_S	INT64_C(253402300799)	/* the year 9999 ends */

static bool is_identifier(struct span span) {
	for (size_t i = 0; i < span.length; i++)
		if (span.text[i] <= ' ' || span.text[i] > '~')
			return false;
	return span.length > 0 && span.length <= IDENTIFIER_MAX;
}

static bool is_number(struct span span) {
	for (size_t i = 0; i < span.length; i++)
		if (!is_digit(span.text[i]))
			return false;
	return span.length > 0 && span.length <= 10;
}

/* "2026-11-26T01:02:03.000004Z ", or "" */
static int write_date(char *out, size_t size, uint64_t time_us) {
	time_t seconds = (time_t)(time_us / US_PER_SECOND);
	struct tm utc;

	if (time_us / US_PER_SECOND > (uint64_t)TIME_MAX_S || gmtime_r(&seconds, &utc) == NULL)
		return 0;
	return snprintf(out, size, "%04d-%02d-%02dT%02d:%02d:%02d.%06uZ ", utc.tm_year + 1900,
	    utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
	    (unsigned)(time_us % US_PER_SECOND));
}

static size_t first_line(struct span message) {
	size_t length = 0;

	while (length < message.length && message.text[length] != '\n' &&
	    message.text[length] != '\0')
		length++;
	return length;
}

size_t sd_entry_line(const struct sd_entry *entry, char *out, size_t size) {
	bool numbered = is_number(entry->pid);
	size_t length, message = first_line(entry->message);

	if (!is_identifier(entry->identifier) || size < SD_ENTRY_HEAD_MAX ||
	    message > size - SD_ENTRY_HEAD_MAX)
		return 0;
	length = (size_t)write_date(out, size, entry->time_us);
	length += (size_t)snprintf(out + length, size - length, "%.*s%s%.*s%s: ",
	    (int)entry->identifier.length, entry->identifier.text, numbered ? "[" : "",
	    numbered ? (int)entry->pid.length : 0, numbered ? entry->pid.text : "",
	    numbered ? "]" : "");
	if (message > 0)
		memcpy(out + length, entry->message.text, message);
	return length + message;
}

/* Hexadecimal digits, up to `most`; false: none, or more. */
static bool take_hex(struct cursor *c, unsigned most, uint64_t *out) {
	unsigned count = 0;

	for (*out = 0; c->at < c->end; c->at++, count++) {
		char digit = *c->at;

		if (is_digit(digit))
			*out = *out << 4 | (uint64_t)(digit - '0');
		else if (digit >= 'a' && digit <= 'f')
			*out = *out << 4 | (uint64_t)(digit - 'a' + 10);
		else
			break;
		if (count == most)
			return false;
	}
	return count > 0;
}

bool sd_cursor_read(const char *cursor, uint64_t id[2], uint64_t *number) {
	struct cursor c = { cursor, cursor + strlen(cursor) };
	struct cursor half;

	if (!TAKE(&c, "s=") || left(&c) < 32)
		return false;
	for (unsigned i = 0; i < 2; i++, c.at += 16) {
		half = (struct cursor){ c.at, c.at + 16 };
		if (!take_hex(&half, 16, &id[i]) || half.at != half.end)
			return false;
	}
	return TAKE(&c, ";i=") && take_hex(&c, 16, number) && (left(&c) == 0 || *c.at == ';');
}

void sd_cursor_write(char out[SD_CURSOR_MAX], const uint64_t id[2], uint64_t number,
    uint64_t time_us) {
	snprintf(out, SD_CURSOR_MAX, "s=%016llx%016llx;i=%llx;t=%llx", (unsigned long long)id[0],
	    (unsigned long long)id[1], (unsigned long long)number, (unsigned long long)time_us);
}

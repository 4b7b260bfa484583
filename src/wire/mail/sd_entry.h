/* SPDX-License-Identifier: ISC */
/*
 * An entry of systemd's journal as a log line, sans I/O, and its place out of a cursor.
 * Anything may stand in an entry.  No state; any thread.
 */
#ifndef WIRE_SD_ENTRY_H
#define WIRE_SD_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/reply/delivery.h"

struct sd_entry {
	uint64_t time_us;		/* when journald took it; since 1970 */
	struct span identifier;		/* who wrote it, "postfix/smtp" */
	struct span pid;		/* decimal; or empty */
	struct span message;
};

#define SD_ENTRY_HEAD_MAX	256	/* bytes before the message */

/* "DATE IDENTIFIER[PID]: MESSAGE", as log_line.h reads it, into `out`; returns its length.
 * 0: it has no usable identifier, or does not fit. */
size_t sd_entry_line(const struct sd_entry *entry, char *out, size_t size);

/* The sequence number of a cursor ("s=ID;i=NUMBER;...") and the two halves of the ID that it
 * belongs to.  False: there is none. */
bool sd_cursor_read(const char *cursor, uint64_t id[2], uint64_t *number);

/* The cursor of that place; what other IDs number is sought by time. */
#define SD_CURSOR_MAX	96
void sd_cursor_write(char out[SD_CURSOR_MAX], const uint64_t id[2], uint64_t number,
    uint64_t time_us);

#endif

/* SPDX-License-Identifier: ISC */
/* The text file beside the segment (PATH.sessions), which roles write, read by the process that
 * makes a new segment: any role can have put anything there, of any size. */
#ifndef SEGMENT_TEXT_FILE_H
#define SEGMENT_TEXT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/diag.h"

/* Those that wait for the segment wait no longer for one file. */
#define TEXT_FILE_MOST_NS	INT64_C(10000000000)

struct text_file {
	FILE *file;
	const char *path;	/* the caller's */
	uint64_t lines;		/* that were read */
	int64_t end_ns;
};

/* -1 with *diag: there is none, or it is no plain file.  diag->error is 0 otherwise. */
int text_file_open(struct text_file *text, const char *path, struct diag *diag);

/* The next line, without its newline.  False: there is none, or what stands there is no text
 * or the time is over: then *diag with the error EFBIG. */
bool text_file_line(struct text_file *text, char *line, size_t size, struct diag *diag);

void text_file_close(struct text_file *text);

/* Renames it to PATH.sessions.unread, so that it is not read.  False: there was none. */
bool text_file_put_aside(const char *state_path);

#endif

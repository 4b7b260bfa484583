/* SPDX-License-Identifier: ISC */
/*
 * The text of a configuration with its included files put in place, and where
 * each line of it came from.  Done here rather than by libconfig, which ends
 * the process when it cannot read an included file, stops at a NUL byte, wraps
 * numbers, reads 010 as ten or as eight by its version, and gives the last text of a list the line of the bracket behind it.
 */
#ifndef CONFIG_SOURCE_H
#define CONFIG_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/read/report.h"

struct source_part {
	unsigned first_line;	/* of the whole text, from 1 */
	unsigned file;
	unsigned file_line;
};

struct source {
	char *text;		/* for libconfig; ends with NUL */
	size_t length;
	size_t room;
	unsigned line;		/* of the whole text, while it is built */
	struct source_part *parts;
	size_t part_count, part_room;
	char **files;
	size_t file_count, file_room;
	bool usable;		/* libconfig may read it */
};

/* Reads a file, or takes a text under a name (which cannot include files).
 * What is wrong goes to the report; without `usable` there is nothing to
 * parse.  Free in both cases. */
void source_read_file(struct source *source, const char *path, struct report *report);
void source_read_text(struct source *source, const char *text, const char *name,
    struct report *report);
void source_free(struct source *source);

/* Where a line of the whole text came from. */
const char *source_place(const struct source *source, unsigned line, unsigned *file_line);

#endif

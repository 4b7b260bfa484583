/* SPDX-License-Identifier: ISC */
/* What hints_build.c and hints_writer.c share. */
#ifndef SEGMENT_HINTS_INTERNAL_H
#define SEGMENT_HINTS_INTERNAL_H

#include <limits.h>

#include "segment/hints/hints_file.h"

/* A mapped file, and what its writer remembers of it. */
struct hints_file {
	struct hints_header *header;	/* NULL: none */
	size_t bytes;
	dev_t device;
	ino_t inode;
	int fd;				/* where header is set: to ask how long it is */
	uint32_t keys;
	uint32_t names_used;
	uint32_t *reason_of;		/* of each bucket; NULL: a file of an earlier writer,
					 * of which the header alone is mapped */
	uint32_t reasons_begun;		/* those above were never given away */
	uint32_t *reasons_free;
	uint32_t reasons_free_count, reasons_free_size;
};

struct hints_writer {
	char path[PATH_MAX];
	char boot_id[CLOCK_BOOT_ID];
	gid_t group;			/* or (gid_t)-1 */
	struct hints_file placed;	/* under its name */
	struct hints_file built;	/* not yet */
};

enum hints_insertion {
	HINTS_INSERTED,
	HINTS_THERE,		/* already */
	HINTS_NO_KEY,		/* its names are none, or too long */
	HINTS_CROWDED,		/* no room for it */
};
enum hints_insertion hints_file_insert(struct hints_file *file,
    const struct hint *hint, uint32_t *place);

/* Of its names in the file; 0: it is no key. */
size_t hints_name_bytes(const struct hint *hint);

/* Reason 0, in a new file. */
void hints_file_begin_reasons(struct hints_file *file);

#endif

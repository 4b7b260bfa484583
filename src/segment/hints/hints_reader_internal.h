/* SPDX-License-Identifier: ISC */
/* What hints_reader.c and hints_reader_file.c share. */
#ifndef SEGMENT_HINTS_READER_INTERNAL_H
#define SEGMENT_HINTS_READER_INTERNAL_H

#include "segment/hints/hints_internal.h"

/* Canary and single message that a key's mail was given last: serials + 1; 0: not known. */
struct given {
	uint32_t canary, single;
};

/* A message that began lately. */
#define BEGUN_MAX	512
struct begun {
	int64_t at_ns;
	uint32_t group, place;		/* group and 1; 0: free */
};

struct hints_reader {
	char path[PATH_MAX];
	char boot_id[CLOCK_BOOT_ID];	/* "": unknown, nothing is believed */
	const struct hints_header *live;	/* mapped; or NULL */
	size_t bytes;
	struct hints_header header;	/* the copy, checked, where live is set */
	dev_t device;
	ino_t inode;
	int fd;				/* of it, where live is set */
	int64_t looked_ns;		/* whether it is whole */
	uint16_t since;			/* HINTS_MOMENT when it was mapped */
	uint32_t turn;			/* of lanes that share a key's mail */
	int64_t now_ns;			/* of the question */
	bool only_held;			/* as it is asked now */
	struct begun begun[BEGUN_MAX];	/* in a ring; of the file that is mapped */
	uint32_t begun_next;
	struct given *given;		/* for each bucket */
};

/* Is there a file that is alive?  It is mapped then. */
bool hints_reader_find_file(struct hints_reader *reader, int64_t now_ns);
/* Lets go of it. */
void hints_reader_forget(struct hints_reader *reader);

#endif

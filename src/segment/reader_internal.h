/* SPDX-License-Identifier: ISC */
/* What the files of the reader share: reader_sessions.c (classes and their sessions), reader.c
 * (all else). */
#ifndef SEGMENT_READER_INTERNAL_H
#define SEGMENT_READER_INTERNAL_H

#include <limits.h>
#include <sys/types.h>

#include "segment/file/internal.h"
#include "segment/reader.h"

#define RELAXED(field)	atomic_load_explicit(&(field), memory_order_relaxed)

struct reader {
	struct segment_header sizes;	/* private, checked; its live part is not used */
	const struct segment_header *live;
	const char *map;
	size_t map_bytes;
	dev_t device;
	ino_t inode;
	char path[PATH_MAX];
};

static inline const struct shard *reader_shard(const struct reader *reader,
    uint32_t index) {
	return (const struct shard *)(const void *)(reader->map +
	    reader->sizes.shards_offset) + index;
}

static inline const struct class_record *reader_record(const struct reader *reader,
    uint32_t index) {
	return (const struct class_record *)(const void *)(reader->map +
	    reader->sizes.records_offset) + index;
}

#endif

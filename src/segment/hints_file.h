/* SPDX-License-Identifier: ISC */
/* The layout of a hints file, for its writer and its reader only. */
#ifndef SEGMENT_HINTS_FILE_H
#define SEGMENT_HINTS_FILE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "segment/hints.h"

#define HINTS_MAGIC	UINT64_C(0x3153544e49485350)	/* "PSHINTS1" */
#define HINTS_VERSION	1
#define HINTS_PROBES	32	/* buckets that a search looks at */
#define HINTS_TEXT_WORDS 21

struct hints_header {
	_Atomic uint64_t magic;		/* stored last */
	uint32_t version;
	uint32_t header_bytes;
	uint64_t bytes;			/* of the file */
	char boot_id[CLOCK_BOOT_ID];
	struct siphash_key key;		/* strangers choose the domains */
	_Atomic int64_t beat_ns;
	_Atomic uint32_t replaced;	/* 1: another file has taken its place */
	uint32_t group_count;
	uint32_t bucket_count;		/* a power of two */
	uint32_t names_bytes;
	uint64_t groups_offset;
	uint64_t buckets_offset;
	uint64_t names_offset;
};

/* Under a seqlock: odd while it changes.  text: NUL-terminated, empty: free. */
struct hints_group {
	_Atomic uint32_t seq;
	uint32_t reserved;
	_Atomic uint64_t text[HINTS_TEXT_WORDS];
};
_Static_assert(HINTS_TEXT_WORDS * 8 > HINTS_TEXT_MAX, "room for the NUL");

/* name: offset + 1 in names of { mta length, domain length, mta, domain }, the
 * lengths a byte each; 0: empty. */
struct hints_bucket {
	uint32_t name;
	uint32_t group;
};

/* Where the search for a name begins (of bucket_count): the mta's name, a NUL and
 * the domain. */
static inline uint64_t hints_hash(const struct siphash_key *key, const char *text,
    size_t length) {
	return siphash13(key, text, length);
}

#endif

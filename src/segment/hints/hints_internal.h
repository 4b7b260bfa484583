/* SPDX-License-Identifier: ISC */
/* What hints_build.c and hints_writer.c share. */
#ifndef SEGMENT_HINTS_INTERNAL_H
#define SEGMENT_HINTS_INTERNAL_H

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/relaxed.h"
#include "base/siphash.h"
#include "segment/hints/hints.h"

struct hints_text;
struct hints_bucket;

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

/* The file that calls speak of. */
struct hints_file *hints_file_of(struct hints_writer *writer);
struct hints_bucket *hints_bucket_at(const struct hints_file *file, uint32_t place);
void hints_text_store(struct hints_text *to, const char *text);

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

/* The layout of a hints file, for its writer and its reader only. */

#define HINTS_MAGIC	UINT64_C(0x3153544e49485350)	/* "PSHINTS1" */
#define HINTS_VERSION	8
#define HINTS_PROBES	32	/* buckets that a search looks at */
#define HINTS_BUCKETS_MOST (1u << 25)
#define HINTS_TEXT_WORDS 21

struct hints_file_mta {
	char name[HINTS_NAME_MAX + 1];
	uint16_t widths[HINTS_WIDTHS_MAX];
	uint32_t width_count;
	uint32_t reserved;
	uint64_t unknown;		/* a word of the kind HINTS_WORD_LANES, or 0 */
};

struct hints_file_source {
	char name[HINTS_SOURCE_NAME_MAX + 8];
	uint64_t transport, over;
	uint64_t is_per_provider;
};

struct hints_header {
	_Atomic uint64_t magic;		/* stored last */
	uint32_t version;
	uint32_t header_bytes;
	uint64_t bytes;			/* of the file */
	char boot_id[CLOCK_BOOT_ID];
	struct siphash_key key;		/* strangers choose domains and addresses */
	_Atomic int64_t beat_ns;
	_Atomic uint32_t replaced;	/* 1: another file has taken its place */
	uint32_t mta_count;
	uint32_t group_count;
	uint32_t bucket_count;		/* a power of two */
	uint32_t names_bytes;
	uint32_t reason_count;
	uint32_t recipient_count;	/* a power of two */
	uint32_t pace_count;		/* at most HINTS_PACES_MAX */
	uint64_t groups_offset;
	uint64_t buckets_offset;
	uint64_t names_offset;
	uint64_t reasons_offset;
	uint64_t recipients_offset;
	uint64_t paces_offset;
	struct siphash_key pass_key;	/* of addresses in passes */
	uint64_t given_id;
	uint32_t source_count;
	uint32_t reserved;
	struct hints_file_source sources[HINTS_SOURCES_MAX];
	struct hints_file_mta mtas[HINTS_MTAS_MAX];
};

/* Under a seqlock: odd while it changes.  text: NUL-terminated, empty: none.  A group has
 * two: the first one's text says that the group is held; the second one's `stamp` is its room
 * and 1 (0: any room), its text what is said where that is too little.  `stamp` of a reason
 * changes each time that it is given to somebody else. */
#define HINTS_GROUP_TEXTS	2
struct hints_text {
	_Atomic uint32_t seq;
	_Atomic uint32_t stamp;
	_Atomic uint64_t text[HINTS_TEXT_WORDS];
};
_Static_assert(HINTS_TEXT_WORDS * 8 > HINTS_TEXT_MAX, "room for the NUL");

/* name: offset + 1 in names of { domain length, mta, domain }, a byte each but the last;
 * 0: empty.  Stored last. */
struct hints_bucket {
	_Atomic uint32_t name;
	_Atomic uint32_t group;		/* 20 bits, all of them: none; from there the number of its
					 * pace and 1, or 0 */
	_Atomic uint64_t word;		/* what mail is to do: below */
	_Atomic uint32_t single;	/* serial (16 bits) of a single message, its lane
					 * from bit 16, whether there is one in bit 20, how
					 * many (5 bits) from bit 21; whether mail of the key
					 * begins in bit 26 */
	_Atomic uint32_t issued;	/* when both: the canary's HINTS_MOMENT, the single's
					 * from bit 16 */
};
#define HINTS_NAME_HEAD	2
#define HINTS_GROUP_BITS 20
#define HINTS_GROUP_MASK ((UINT32_C(1) << HINTS_GROUP_BITS) - 1)
_Static_assert(HINTS_PACES_MAX < UINT32_C(1) << (32 - HINTS_GROUP_BITS), "and 1");

/* 16 bits of a time, 67 ms each: which of two that are near was earlier. */
#define HINTS_MOMENT(ns)	((uint16_t)((uint64_t)(ns) >> 26))
static inline bool hints_is_since(uint16_t moment, uint16_t since) {
	return (int16_t)(uint16_t)(moment - since) >= 0;
}

/* A recipient: hash 0 is empty.  Held where `until` is in the future. */
struct hints_recipient {
	_Atomic uint64_t hash;
	_Atomic int64_t until_ns;
	_Atomic uint64_t reason;	/* a word of the kind HINTS_WORD_HELD */
};

/* text.stamp: changes each time that it is given to another destination. */
struct hints_pace {
	_Atomic int64_t interval_ns;	/* 0: nothing is kept back */
	_Atomic uint32_t burst;
	_Atomic uint32_t waits;
	_Atomic int64_t taken_ns, counted_ns;	/* struct hint_pace */
	_Atomic uint64_t row;
	struct hints_text text;
	struct {
		_Atomic int64_t issued_ns;	/* 0: none; before and after the word */
		_Atomic uint64_t word;
	} passes[HINTS_PASSES];
};

/* A pass: of how many addresses from bit 56 (HINTS_PASS_MANY: of more), below it two bits for
 * each of them. */
#define HINTS_PASS_BITS	56
#define HINTS_PASS_MASK	((UINT64_C(1) << HINTS_PASS_BITS) - 1)
#define HINTS_PASS_EXACT 7	/* more addresses than these are MANY */
#define HINTS_PASS_MANY	255
/* The bits of one address. */
uint64_t hints_pass_bits(const struct siphash_key *key, const char *address, size_t length);

/* Where its tables lie, by their sizes, and how large the file is. */
static inline void hints_geometry(struct hints_header *header) {
	const uint64_t line = 63;

	header->groups_offset = (sizeof(*header) + line) & ~line;
	header->buckets_offset = (header->groups_offset + (uint64_t)header->group_count *
	    HINTS_GROUP_TEXTS * sizeof(struct hints_text) + line) & ~line;
	header->reasons_offset = (header->buckets_offset + (uint64_t)header->bucket_count *
	    sizeof(struct hints_bucket) + line) & ~line;
	header->recipients_offset = (header->reasons_offset + (uint64_t)header->reason_count *
	    sizeof(struct hints_text) + line) & ~line;
	header->paces_offset = (header->recipients_offset + (uint64_t)header->recipient_count *
	    sizeof(struct hints_recipient) + line) & ~line;
	header->names_offset = header->paces_offset + (uint64_t)header->pace_count *
	    sizeof(struct hints_pace);
	header->bytes = header->names_offset + header->names_bytes;
}

/*
 * A word: the kind in bits 0 and 1, then
 *	HELD	whether in passing in bit 2, stamp (24 bits) from bit 8, number of the
 *		reason from bit 32
 *	LANES	their count less one from bit 2, the canary's lane from bit 4, whether
 *		there is one in bit 8, its serial (7 bits) from bit 9; from bit 16 four
 *		times a lane (4 bits) and its share (8 bits)
 */
enum { HINTS_WORD_NOTHING, HINTS_WORD_LANES, HINTS_WORD_HELD };
#define HINTS_WORD_PASSING	UINT64_C(4)
#define HINTS_STAMP_MASK	UINT32_C(0xffffff)

static inline uint64_t hints_word_held(uint32_t reason, uint32_t stamp) {
	return HINTS_WORD_HELD | (uint64_t)(stamp & HINTS_STAMP_MASK) << 8 |
	    (uint64_t)reason << 32;
}

static inline uint64_t hints_word_lanes(const struct hint_lanes *lanes) {
	uint64_t word = HINTS_WORD_LANES | (uint64_t)(lanes->count - 1) << 2;

	if (lanes->canary != HINTS_NO_LANE)
		word |= (uint64_t)(lanes->canary & 15) << 4 | 1u << 8 |
		    (uint64_t)(lanes->serial & 127) << 9;
	for (unsigned i = 0; i < lanes->count; i++)
		word |= (uint64_t)(lanes->lane[i] & 15) << (16 + 12 * i) |
		    (uint64_t)lanes->share[i] << (20 + 12 * i);
	return word;
}

static inline uint32_t hints_single_word(const struct hint_lanes *lanes) {
	uint32_t begins = lanes->begins ? UINT32_C(1) << 26 : 0;

	/* where there is none, the serial is what the next one comes after */
	return lanes->single == HINTS_NO_LANE ? lanes->single_serial | begins : begins |
	    (uint32_t)lanes->single_serial | (uint32_t)(lanes->single & 15) << 16 |
	    UINT32_C(1) << 20 |
	    (uint32_t)(lanes->single_count > 31 ? 31 : lanes->single_count) << 21;
}

static inline void hints_single_read(uint32_t word, struct hint_lanes *lanes) {
	lanes->single = (word >> 20 & 1) != 0 ? (uint8_t)(word >> 16 & 15) : HINTS_NO_LANE;
	lanes->single_serial = (uint16_t)word;
	lanes->single_count = (uint8_t)(word >> 21 & 31);
	lanes->begins = (word >> 26 & 1) != 0;
}

static inline void hints_word_read(uint64_t word, struct hint_lanes *lanes) {
	lanes->count = (uint8_t)((word >> 2 & 3) + 1);
	lanes->canary = (word >> 8 & 1) != 0 ? (uint8_t)(word >> 4 & 15) : HINTS_NO_LANE;
	lanes->serial = (uint8_t)(word >> 9 & 127);
	for (unsigned i = 0; i < lanes->count; i++) {
		lanes->lane[i] = (uint8_t)(word >> (16 + 12 * i) & 15);
		lanes->share[i] = (uint8_t)(word >> (20 + 12 * i));
	}
}

/* Of a domain or an address (lower case) of an mta. */
#define HINTS_HASHED_MAX	(HINTS_ADDRESS_MAX + 1)
static inline uint64_t hints_hash(const struct siphash_key *key, uint8_t mta,
    const char *text, size_t length) {
	char hashed[HINTS_HASHED_MAX];
	uint64_t hash;

	hashed[0] = (char)mta;
	for (size_t i = 0; i < length; i++)
		hashed[1 + i] = text[i];
	hash = siphash13(key, hashed, length + 1);
	return hash == 0 ? 1 : hash;
}

#endif

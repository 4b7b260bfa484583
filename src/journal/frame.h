/* SPDX-License-Identifier: ISC */
/*
 * Bytes of the journal, sans I/O.  Version 1, for ever (tests/unit/golden):
 *
 * A journal is a directory of files NNNNNNNNNN.log (their number, from 1, decimal), one
 * file `positions` and one file `lock`.  A file is a row of records without gaps.  A
 * record is a header and its payload; all numbers are little-endian:
 *
 *	 0  u8   magic		0xd6
 *	 1  u8   mark		0xff live, 0x00 garbage; read as the majority of its bits
 *	 2  u8   type		defs/records.def
 *	 3  u8   version	of the payload: 1
 *	 4  u32  length		of the payload, 262144 at most
 *	 8  u64  sequence	one more than that of the record before
 *	16  u32  behind		sequence - the last sequence that was known to be synced when
 *				this one was written (0xffffffff: that much or more)
 *	20  u32  crc		CRC32C begun with the file's salt, over bytes 0, 2 to 19, and
 *				the payload
 *	24  payload
 *
 * This header is the same in all versions: what is of a later one is passed over by its
 * length.  The mark is the only byte that is ever written in place.
 *
 * The first record of a file is its head: type 1, its crc begun with 0, its payload:
 *
 *	 0  text "postern journal\n"
 *	16  u32  salt, three times (majority of bits, where the head is damaged): not known to
 *		 others, so that no text of theirs within a payload ever passes for a record
 *	28  u8   kind		defs/journals.def; three zeros
 *	32  u64  journal	which one: a random number, the same in all its files
 *	40  u64  created	wall clock, ns since 1970
 *	48  u32  number		of the file, as in its name
 *	52  u32  previous	the file that goes before it (0: none)
 *	56  u32  previous_end	records of that file count up to this offset; what stands
 *				behind it is never read again; nor are files between the two
 *
 * A process begins a new file when it starts, and after each fault of the disk: it never
 * goes on behind a torn spot.  A bad spot where sequence s was to come is *damage* where
 * anything tells that s had been synced: a later record (sequence - behind >= s), or
 * `positions`.  Else it is a torn tail: the log ends there, and nothing behind it counts.
 *
 * `positions` has two slots of 4096 bytes that are written in turn, each one record of type
 * POSITIONS (record.h; its crc begun with 0, its sequence counts the slots written, behind
 * is 0), zeros behind it.  The valid one of the higher sequence counts.
 */
#ifndef JOURNAL_FRAME_H
#define JOURNAL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "journal/storage.h"

#define JOURNAL_VERSION		1
#define JOURNAL_HEADER		24
#define JOURNAL_PAYLOAD_MAX	(UINT32_C(256) * 1024)
#define JOURNAL_FRAME_MAX	(JOURNAL_HEADER + JOURNAL_PAYLOAD_MAX)
#define JOURNAL_MAGIC		0xd6
#define JOURNAL_SEQUENCE_MOST	(UINT64_MAX >> 2) /* none ever counts so far: a higher one is damage */
#define JOURNAL_LIVE		0xff
#define JOURNAL_GARBAGE		0x00
#define JOURNAL_MARK_AT		1	/* offset of the mark in a frame */
#define JOURNAL_BEHIND_MAX	UINT32_MAX
#define JOURNAL_SLOT		4096	/* bytes of a slot of `positions` */
#define JOURNAL_SLOTS		2

enum journal_kind {
	JOURNAL_NONE,
#define JOURNAL(symbol, word) JOURNAL_##symbol,
#include "defs/journals.def"
#undef JOURNAL
	JOURNAL_KINDS
};
/* "feed" ...; others: "unknown" */
const char *journal_kind_word(unsigned kind);

/* Where a record begins.  {0, 0}: nowhere. */
struct journal_place {
	uint32_t file;
	uint32_t offset;
};
static inline uint64_t journal_place_pack(struct journal_place place) {
	return (uint64_t)place.file << 32 | place.offset;
}

struct journal_frame {
	uint8_t mark;		/* as it stands there */
	uint8_t type;
	uint8_t version;
	uint32_t length;
	uint64_t sequence;
	uint32_t behind;
	const uint8_t *payload;
};
static inline bool journal_mark_is_live(uint8_t mark) {
	return __builtin_popcount(mark) >= 4;	/* in doubt, as nothing is lost by it */
}
/* The last sequence that was synced when it was written; 0: none that it knows of. */
static inline uint64_t journal_frame_synced(const struct journal_frame *frame) {
	return frame->behind == JOURNAL_BEHIND_MAX || frame->behind > frame->sequence ? 0 :
	    frame->sequence - frame->behind;
}

/* Writes JOURNAL_HEADER + frame->length bytes, which it returns; length is
 * JOURNAL_PAYLOAD_MAX at most. */
size_t journal_frame_write(uint8_t *out, const struct journal_frame *frame, uint32_t salt);

enum journal_frame_state {
	JOURNAL_FRAME_GOOD,	/* of any version and type */
	JOURNAL_FRAME_SHORT,	/* what is there so far can be one, but it ends too early */
	JOURNAL_FRAME_NONE,	/* no magic, or an impossible length */
	JOURNAL_FRAME_WRONG,	/* its checksum is wrong */
};
/* The one at data[0]; *out is set when it is GOOD, its payload lies in `data`. */
enum journal_frame_state journal_frame_read(const uint8_t *data, size_t size, uint32_t salt,
    struct journal_frame *out);

struct journal_head {
	uint32_t salt;
	uint8_t kind;		/* enum journal_kind, or one of a later version */
	uint64_t journal;
	int64_t created_ns;	/* wall clock */
	uint32_t number;
	uint32_t previous;	/* 0: none */
	uint32_t previous_end;
};
#define JOURNAL_HEAD_PAYLOAD	60
#define JOURNAL_HEAD_SIZE	(JOURNAL_HEADER + JOURNAL_HEAD_PAYLOAD)
#define JOURNAL_HEAD_TYPE	1

/* Writes JOURNAL_HEAD_SIZE bytes. */
void journal_head_write(uint8_t *out, const struct journal_head *head, uint64_t sequence,
    uint32_t behind);

enum journal_head_state {
	JOURNAL_HEAD_GOOD,
	JOURNAL_HEAD_LATER,	/* of a later version: *frame, salt and number are right */
	JOURNAL_HEAD_DAMAGED,	/* there is one, but its checksum is wrong: the salt may be right */
	JOURNAL_HEAD_NONE,	/* this is no file of a journal, or nothing of it was written */
	JOURNAL_HEAD_UNREAD,	/* nobody has looked yet */
};
/* Reads what stands at the begin of a file; JOURNAL_HEAD_SIZE bytes are enough. */
enum journal_head_state journal_head_read(const uint8_t *data, size_t size,
    struct journal_head *head, struct journal_frame *frame);

/* "0000000001.log" */
void journal_file_name(uint32_t number, char out[JOURNAL_NAME_MAX + 1]);
/* 0: it is none. */
#define JOURNAL_NUMBER_MAX	(UINT32_C(1) << 31)
uint32_t journal_file_number(const char *name);

#define JOURNAL_POSITIONS_NAME	"positions"

#endif

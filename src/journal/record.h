/* SPDX-License-Identifier: ISC */
/*
 * What stands in a record's payload, by type (defs/records.def; version 1 of all of them): the
 * fields of defs/record_fields.def.
 *
 * On disk a payload is its fields in the order in which they stand there, without gaps: numbers
 * little-endian of their size, a boolean as u8, a place as its two numbers, a text as u16 length
 * and its bytes (any bytes), a list as u32 count and its elements.  Whoever reads ignores what
 * follows the fields that it knows; what ends early at a field's begin has zeros for the
 * rest.  A field or list that ends early spoils the record, as does a list that is too long.
 *
 * All times are wall clock, ns since 1970 (0: none, never, at once; INT64_MAX: for ever),
 * as another boot counts its own clock anew.
 *
 * Pure, no allocation; any thread.  Texts of what was read point into the payload.
 */
#ifndef JOURNAL_RECORD_H
#define JOURNAL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/manual.h"
#include "journal/frame.h"
#include "segment/decision/decisions.h"
#include "segment/file/feed_position.h"

enum journal_type {
#define RECORD(symbol, number, word, what) JOURNAL_##symbol = number,
#include "defs/records.def"
#undef RECORD
};
/* NULL: not known. */
const char *journal_type_word(unsigned type);

struct journal_text {
	const char *text;	/* without a NUL behind it */
	uint16_t length;
};

static inline struct journal_text journal_text_of(const char *string) {
	return (struct journal_text){ string, (uint16_t)strlen(string) };
}

/* A list of any length.  To be written: `items`, an array of elements.  As read: those that are
 * left, one by one (journal_group_next). */
struct journal_list {
	uint32_t count;
	const void *items;
	const uint8_t *at, *end;
};

enum { JOURNAL_RESULT_GONE,	/* delivered, or bounced: no more in the queue file */
	JOURNAL_RESULT_WAITS };	/* what lines told of this run is void: they disagree */
enum { JOURNAL_FINISH_DONE,	/* no recipients are left */
	JOURNAL_FINISH_GONE };	/* the mail server has it no more */
enum { JOURNAL_ON_DESTINATION = 1, JOURNAL_ON_RECIPIENT, JOURNAL_ON_CLASS };
enum { JOURNAL_ACCOUNT_LOGIN = 1, JOURNAL_ACCOUNT_POOL, JOURNAL_ACCOUNT_TABLE };

#define JOURNAL_COUNTERS_MAX	8
#define JOURNAL_BUCKETS		13
#define JOURNAL_POSITIONS_MAX	16
#define JOURNAL_POSITION_NAME	15

struct journal_log_position {
	int64_t when_ns;
	struct feed_position position;
};

/* Its times are wall clock here. */
struct journal_decision {
	struct decided d;
	struct journal_text texts;
};
/* Texts stay in *decided.  Back, without times: false where it makes no sense, or is of a later
 * build. */
struct journal_decision journal_decision_of(const struct decided *decided);
bool journal_decision_get(const struct journal_decision *decision, struct decided *out);

/* --- the structs ---------------------------------------------------------------------- */

typedef uint8_t journal_u8;
typedef uint32_t journal_u32;
typedef uint64_t journal_u64;
typedef int64_t journal_time;
typedef bool journal_truth;
typedef struct journal_text journal_text;
typedef struct journal_place journal_place;
typedef char journal_name[JOURNAL_POSITION_NAME + 1];	/* on disk a text */

#define BEGIN(shape)				struct journal_##shape {
#define FIELD(kind, name, shown, word)		journal_##kind name;
#define ROW(kind, name, count, shown, word)	journal_##kind name[count];
#define LIST(element, name, word)		struct journal_list name;
#define ARRAY(element, name, most, word) \
	uint32_t name##_count; struct journal_##element name[most];
#define END(shape)				};
#include "defs/record_fields.def"

/* One of any type. */
union journal_any {
#define BEGIN(shape)	struct journal_##shape shape;
#define END(shape)
#define OF(shape)	BEGIN(shape)
#define END_OF(shape)
#include "defs/record_fields.def"
};

/* --- their description ------------------------------------------------------------------ */

enum journal_field_kind { JOURNAL_u8, JOURNAL_u16, JOURNAL_u32, JOURNAL_u64, JOURNAL_time,
	JOURNAL_truth, JOURNAL_place, JOURNAL_text, JOURNAL_name,
	JOURNAL_kind,		/* a number in the struct, its word on disk */
	JOURNAL_list, JOURNAL_array };

/* How a field is shown. */
enum journal_shown {
	JOURNAL_AS_HIDDEN,
	JOURNAL_AS_NUMBER,
	JOURNAL_AS_NUMBER_KNOWN,	/* 0 is not known */
	JOURNAL_AS_NUMBER_SET,		/* UINT32_MAX is not known */
	JOURNAL_AS_NUMBER_IF,		/* 0 is left out */
	JOURNAL_AS_SUM,			/* of a row */
	JOURNAL_AS_QUOTA,		/* a counter's kind and period */
	JOURNAL_AS_KEY,
	JOURNAL_AS_ID,			/* of a decision */
	JOURNAL_AS_ID_IF,
	JOURNAL_AS_TRUTH,
	JOURNAL_AS_TIME,
	JOURNAL_AS_TIME_US,
	JOURNAL_AS_PLACE,
	JOURNAL_AS_TEXT,
	JOURNAL_AS_TEXT_IF,		/* an empty one is left out */
	JOURNAL_AS_NAME,
	JOURNAL_AS_STATE,		/* of a destination, that may be forgotten */
	JOURNAL_AS_TEXTS,		/* of a decision */
	JOURNAL_AS_WORD,
	JOURNAL_AS_LIST,
};

struct journal_shape;
struct journal_field {
	enum journal_field_kind kind;
	enum journal_shown shown;
	uint16_t at;			/* in the struct */
	uint16_t count;			/* of a row; of an array at most; else 1 */
	uint16_t count_at;		/* of an array */
	const char *word;		/* NULL: there are no more fields */
	const char *(*words)(unsigned number);	/* of numbers that have words */
	const struct journal_shape *(*element)(void);	/* of a list or an array */
};
struct journal_shape {
	size_t size;			/* of the struct */
	struct journal_field fields[];
};
/* NULL: of an unknown type, or of HEAD (journal/frame.h). */
const struct journal_shape *journal_shape_of(unsigned type);

/* One of its numbers; the word of its number (NULL: of none). */
uint64_t journal_field_number(const struct journal_field *field, const void *record,
    unsigned i);
const char *journal_field_word(const struct journal_field *field, const void *record);

/* --- writing and reading -------------------------------------------------------------- */

/* The payload's bytes, written to `out`; 0: more than `size`, nothing usable is there. */
size_t journal_record_write(const struct journal_shape *shape, uint8_t *out, size_t size,
    const void *record);
/* False: the payload is spoiled; what is in *record then is not to be used. */
bool journal_record_read(const struct journal_shape *shape, const uint8_t *payload,
    size_t length, void *record);
/* The next element of a list that was read, which is known to be whole; false: there is none. */
bool journal_list_next(const struct journal_shape *element, struct journal_list *list,
    void *out);

/* The same of each: journal_envelope_write, journal_envelope_read, journal_group_next ... */
#define BEGIN(shape) \
	const struct journal_shape *journal_##shape##_shape(void); \
	static inline size_t journal_##shape##_write(uint8_t *out, size_t size, \
	    const struct journal_##shape *in) { \
		return journal_record_write(journal_##shape##_shape(), out, size, in); \
	} \
	static inline bool journal_##shape##_read(const uint8_t *payload, size_t length, \
	    struct journal_##shape *out) { \
		return journal_record_read(journal_##shape##_shape(), payload, length, out); \
	} \
	static inline bool journal_##shape##_next(struct journal_list *list, \
	    struct journal_##shape *out) { \
		return journal_list_next(journal_##shape##_shape(), list, out); \
	}
#define END(shape)
#define OF(shape)	BEGIN(shape)
#define END_OF(shape)
#include "defs/record_fields.def"

#endif

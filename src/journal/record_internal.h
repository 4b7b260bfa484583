/* SPDX-License-Identifier: ISC */
/*
 * Fields of a payload: a writer and a reader that walk over the bytes.  Both remember a
 * failure and do nothing from there on, so that it is asked for once, at the end.  The reader
 * tells an end at a field's begin (zeros for the rest: an older writer) from one within a
 * field (spoiled).  For journal/ only.
 */
#ifndef JOURNAL_RECORD_INTERNAL_H
#define JOURNAL_RECORD_INTERNAL_H

#include <string.h>

#include "journal/bytes.h"
#include "journal/record.h"

/* --- writing ------------------------------------------------------------------------ */

struct writer {
	uint8_t *start, *at, *end;
	bool full;
};

static inline struct writer write_to(uint8_t *out, size_t size) {
	return (struct writer){ .start = out, .at = out, .end = out + size };
}

static inline uint8_t *take(struct writer *writer, size_t bytes) {
	uint8_t *at = writer->at;

	if (writer->full || (size_t)(writer->end - at) < bytes) {
		writer->full = true;
		return NULL;
	}
	writer->at += bytes;
	return at;
}

static inline void w8(struct writer *writer, uint8_t value) {
	uint8_t *at = take(writer, 1);

	if (at != NULL)
		*at = value;
}

static inline void w32(struct writer *writer, uint32_t value) {
	uint8_t *at = take(writer, 4);

	if (at != NULL)
		put_u32(at, value);
}

static inline void w64(struct writer *writer, uint64_t value) {
	uint8_t *at = take(writer, 8);

	if (at != NULL)
		put_u64(at, value);
}

static inline void w_time(struct writer *writer, int64_t ns) {
	w64(writer, (uint64_t)ns);
}

static inline void w_place(struct writer *writer, struct journal_place place) {
	w32(writer, place.file);
	w32(writer, place.offset);
}

static inline void w_text(struct writer *writer, struct journal_text text) {
	uint8_t *at = take(writer, 2 + (size_t)text.length);

	if (at == NULL)
		return;
	put_u16(at, text.length);
	if (text.length > 0)
		memcpy(at + 2, text.text, text.length);
}

static inline size_t written(const struct writer *writer) {
	return writer->full ? 0 : (size_t)(writer->at - writer->start);
}

/* --- reading ------------------------------------------------------------------------ */

struct reader {
	const uint8_t *at, *end;
	bool spoiled;
};

static inline struct reader read_from(const uint8_t *payload, size_t length) {
	return (struct reader){ .at = payload, .end = payload + length };
}

static inline const uint8_t *give(struct reader *reader, size_t bytes) {
	const uint8_t *at = reader->at;
	size_t left = (size_t)(reader->end - at);

	if (reader->spoiled || left == 0)
		return NULL;
	if (left < bytes) {
		reader->spoiled = true;
		return NULL;
	}
	reader->at += bytes;
	return at;
}

static inline uint8_t r8(struct reader *reader) {
	const uint8_t *at = give(reader, 1);

	return at != NULL ? *at : 0;
}

static inline uint32_t r32(struct reader *reader) {
	const uint8_t *at = give(reader, 4);

	return at != NULL ? get_u32(at) : 0;
}

static inline uint64_t r64(struct reader *reader) {
	const uint8_t *at = give(reader, 8);

	return at != NULL ? get_u64(at) : 0;
}

static inline int64_t r_time(struct reader *reader) {
	return (int64_t)r64(reader);
}

static inline struct journal_place r_place(struct reader *reader) {
	struct journal_place place;

	place.file = r32(reader);
	place.offset = r32(reader);
	return place;
}

static inline struct journal_text r_text(struct reader *reader) {
	const uint8_t *at = give(reader, 2);
	struct journal_text text = { "", 0 };

	if (at == NULL || get_u16(at) == 0)
		return text;
	text.length = get_u16(at);
	if ((size_t)(reader->end - reader->at) < text.length) {
		reader->spoiled = true;
		return (struct journal_text){ "", 0 };
	}
	text.text = (const char *)give(reader, text.length);
	return text;
}

#endif

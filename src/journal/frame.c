/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The bytes of records and heads.
 * MODEL    frame.h.  Numbers are written byte by byte: compilers make one store of it.
 * ERRORS   What was read wrong is a state, never a guess.
 * THREADS  Pure.
 */
#include "journal/frame.h"

#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "journal/bytes.h"

#define HEAD_TEXT	"postern journal\n"
#define HEAD_TEXT_LENGTH 16
#define SALT_AT		(JOURNAL_HEADER + HEAD_TEXT_LENGTH)
#define NAME_TAIL	".log"
#define NAME_DIGITS	10

const char *journal_kind_word(unsigned kind) {
	static const char *const words[JOURNAL_KINDS] = {
		"unknown",
#define JOURNAL(symbol, word) word,
#include "defs/journals.def"
#undef JOURNAL
	};

	return words[kind < JOURNAL_KINDS ? kind : JOURNAL_NONE];
}

/* Over bytes 0, 2 to 19, and the payload. */
static uint32_t sum_of(const uint8_t *frame, const uint8_t *payload, uint32_t length,
    uint32_t salt) {
	uint8_t head[19];
	uint32_t sum;

	head[0] = frame[0];
	memcpy(head + 1, frame + 2, 18);
	sum = crc32c(salt, head, sizeof(head));
	return crc32c(sum, payload, length);
}

size_t journal_frame_write(uint8_t *out, const struct journal_frame *frame, uint32_t salt) {
	out[0] = JOURNAL_MAGIC;
	out[JOURNAL_MARK_AT] = frame->mark;
	out[2] = frame->type;
	out[3] = frame->version;
	put_u32(out + 4, frame->length);
	put_u64(out + 8, frame->sequence);
	put_u32(out + 16, frame->behind);
	if (frame->length > 0)
		memcpy(out + JOURNAL_HEADER, frame->payload, frame->length);
	put_u32(out + 20, sum_of(out, out + JOURNAL_HEADER, frame->length, salt));
	return JOURNAL_HEADER + frame->length;
}

enum journal_frame_state journal_frame_read(const uint8_t *data, size_t size, uint32_t salt,
    struct journal_frame *out) {
	uint32_t length;

	if (size > 0 && data[0] != JOURNAL_MAGIC)
		return JOURNAL_FRAME_NONE;
	if (size < JOURNAL_HEADER)
		return JOURNAL_FRAME_SHORT;
	length = get_u32(data + 4);
	if (length > JOURNAL_PAYLOAD_MAX || data[3] == 0)
		return JOURNAL_FRAME_NONE;
	if (size - JOURNAL_HEADER < length)
		return JOURNAL_FRAME_SHORT;
	if (get_u32(data + 20) != sum_of(data, data + JOURNAL_HEADER, length, salt))
		return JOURNAL_FRAME_WRONG;
	*out = (struct journal_frame){ .mark = data[JOURNAL_MARK_AT], .type = data[2],
		.version = data[3], .length = length, .sequence = get_u64(data + 8),
		.behind = get_u32(data + 16), .payload = data + JOURNAL_HEADER };
	return JOURNAL_FRAME_GOOD;
}

/* --- heads ------------------------------------------------------------------------ */

void journal_head_write(uint8_t *out, const struct journal_head *head, uint64_t sequence,
    uint32_t behind) {
	uint8_t payload[JOURNAL_HEAD_PAYLOAD] = { 0 };
	struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = JOURNAL_HEAD_TYPE,
		.version = JOURNAL_VERSION, .length = sizeof(payload), .sequence = sequence,
		.behind = behind, .payload = payload };

	memcpy(payload, HEAD_TEXT, HEAD_TEXT_LENGTH);
	for (unsigned i = 0; i < 3; i++)
		put_u32(payload + 16 + 4 * i, head->salt);
	payload[28] = head->kind;
	put_u64(payload + 32, head->journal);
	put_u64(payload + 40, (uint64_t)head->created_ns);
	put_u32(payload + 48, head->number);
	put_u32(payload + 52, head->previous);
	put_u32(payload + 56, head->previous_end);
	journal_frame_write(out, &frame, 0);
}

static uint32_t majority(uint32_t a, uint32_t b, uint32_t c) {
	return (a & b) | (a & c) | (b & c);
}

static unsigned bits_that_differ(const uint8_t *data, const char *text, size_t length) {
	unsigned bits = 0;

	for (size_t i = 0; i < length; i++)
		bits += (unsigned)__builtin_popcount(data[i] ^ (uint8_t)text[i]);
	return bits;
}

enum journal_head_state journal_head_read(const uint8_t *data, size_t size,
    struct journal_head *head, struct journal_frame *frame) {
	const uint8_t *payload = data + JOURNAL_HEADER;

	memset(head, 0, sizeof(*head));
	memset(frame, 0, sizeof(*frame));
	if (size < JOURNAL_HEAD_SIZE ||
	    bits_that_differ(payload, HEAD_TEXT, HEAD_TEXT_LENGTH) > 8)
		return JOURNAL_HEAD_NONE;
	head->salt = majority(get_u32(data + SALT_AT), get_u32(data + SALT_AT + 4),
	    get_u32(data + SALT_AT + 8));
	if (journal_frame_read(data, size, 0, frame) != JOURNAL_FRAME_GOOD) {
		/* a later version's head may be longer than what was given */
		if (data[0] != JOURNAL_MAGIC || data[2] != JOURNAL_HEAD_TYPE ||
		    data[3] <= JOURNAL_VERSION || get_u32(data + 4) <= JOURNAL_HEAD_PAYLOAD)
			return JOURNAL_HEAD_DAMAGED;
		frame->version = data[3];
		frame->length = get_u32(data + 4);
		frame->sequence = get_u64(data + 8);
		frame->behind = get_u32(data + 16);
	} else if (frame->type != JOURNAL_HEAD_TYPE || frame->length < JOURNAL_HEAD_PAYLOAD) {
		return JOURNAL_HEAD_DAMAGED;
	}
	head->kind = payload[28];
	head->journal = get_u64(payload + 32);
	head->created_ns = (int64_t)get_u64(payload + 40);
	head->number = get_u32(payload + 48);
	head->previous = get_u32(payload + 52);
	head->previous_end = get_u32(payload + 56);
	return frame->version > JOURNAL_VERSION ? JOURNAL_HEAD_LATER : JOURNAL_HEAD_GOOD;
}

/* --- names ------------------------------------------------------------------------ */

void journal_file_name(uint32_t number, char out[JOURNAL_NAME_MAX + 1]) {
	snprintf(out, JOURNAL_NAME_MAX + 1, "%010u" NAME_TAIL, number);
}

uint32_t journal_file_number(const char *name) {
	uint64_t number = 0;

	for (unsigned i = 0; i < NAME_DIGITS; i++) {
		if (name[i] < '0' || name[i] > '9')
			return 0;
		number = number * 10 + (unsigned)(name[i] - '0');
	}
	return strcmp(name + NAME_DIGITS, NAME_TAIL) == 0 && number <= JOURNAL_NUMBER_MAX ?
	    (uint32_t)number : 0;
}

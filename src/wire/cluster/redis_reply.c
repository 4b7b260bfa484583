/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Bytes of a Redis server to values.
 * MODEL    An answer is read from its beginning each time more of it has come.  Lists lie one
 *          behind the other in the caller's values; texts get their NUL when all is there.
 * ERRORS   Static text.
 * THREADS  Pure.
 */
#include "wire/cluster/redis_reply.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define DIGITS_MAX	19	/* of an int64_t */
#define END_BYTES	2	/* CR LF */

struct reading {
	char *at, *end;
	struct redis_value *values;
	size_t used;
	const char *why;	/* it is none; NULL: more is needed */
};

static bool reply_refuse(struct reading *r, const char *why) {
	r->why = why;
	return false;
}

static bool read_line(struct reading *r, const char **text, size_t *length) {
	const char *end = memmem(r->at, (size_t)(r->end - r->at), "\r\n", END_BYTES);

	if (end == NULL)
		return false;
	*text = r->at;
	*length = (size_t)(end - r->at);
	r->at += *length + END_BYTES;
	return true;
}

static bool read_number(struct reading *r, int64_t *out) {
	uint64_t number = 0;
	const char *text;
	size_t length;
	bool is_negative;

	if (!read_line(r, &text, &length))
		return false;
	is_negative = length > 0 && *text == '-';
	text += is_negative;
	length -= is_negative;
	for (size_t i = 0; i < length && i < DIGITS_MAX && text[i] >= '0' && text[i] <= '9'; i++) {
		number = number * 10 + (uint64_t)(text[i] - '0');
		if (i + 1 < length || number > INT64_MAX)
			continue;
		*out = is_negative ? -(int64_t)number : (int64_t)number;
		return true;
	}
	return reply_refuse(r, "an answer has a bad number");
}

static bool read_text(struct reading *r, struct redis_value *out) {
	int64_t length;

	if (!read_number(r, &length))
		return false;
	if (length == -1)
		return true;
	if (length < 0 || length > REDIS_BYTES_MAX)
		return reply_refuse(r, "an answer is too large");
	if (r->end - r->at < length + END_BYTES)
		return false;
	out->kind = REDIS_KIND_TEXT;
	out->text = r->at;
	out->length = (size_t)length;
	r->at += length + END_BYTES;
	return memcmp(r->at - END_BYTES, "\r\n", END_BYTES) == 0 ||
	    reply_refuse(r, "a text in an answer has no end");
}

static bool read_value(struct reading *r, struct redis_value *out, unsigned depth);

static bool read_list(struct reading *r, struct redis_value *out, unsigned depth) {
	struct redis_value *list = r->values + r->used;
	int64_t count;

	if (!read_number(r, &count))
		return false;
	if (count == -1)
		return true;
	if (count < 0 || count >= (int64_t)(REDIS_VALUES_MAX - r->used))
		return reply_refuse(r, "an answer is too large");
	if (depth == REDIS_DEPTH_MAX)
		return reply_refuse(r, "lists in an answer are nested too deeply");
	out->kind = REDIS_KIND_LIST;
	out->list = list;
	out->count = (size_t)count;
	r->used += out->count;
	for (size_t i = 0; i < out->count; i++)
		if (!read_value(r, &list[i], depth + 1))
			return false;
	return true;
}

static bool read_value(struct reading *r, struct redis_value *out, unsigned depth) {
	*out = (struct redis_value){ .kind = REDIS_KIND_NOTHING };
	if (r->at == r->end)
		return false;
	switch (*r->at++) {
	case '+':
		out->kind = REDIS_KIND_TEXT;
		return read_line(r, &out->text, &out->length);
	case '-':
		out->kind = REDIS_KIND_ERROR;
		return read_line(r, &out->text, &out->length);
	case ':':
		out->kind = REDIS_KIND_NUMBER;
		return read_number(r, &out->number);
	case '$':
		return read_text(r, out);
	case '*':
		return read_list(r, out, depth);
	default:
		return reply_refuse(r, "an unexpected kind of answer");
	}
}

static void end_text(const struct redis_value *value) {
	if (value->kind == REDIS_KIND_TEXT || value->kind == REDIS_KIND_ERROR)
		((char *)(uintptr_t)value->text)[value->length] = '\0';
}

long redis_reply_read(char *text, size_t length, struct redis_value *out,
    struct redis_value *values, const char **why) {
	struct reading r = { .at = text, .end = text + length, .values = values };

	if (!read_value(&r, out, 0)) {
		*why = r.why;
		return r.why != NULL ? -1 : 0;
	}
	end_text(out);
	for (size_t i = 0; i < r.used; i++)
		end_text(&values[i]);
	return r.at - text;
}

/* SPDX-License-Identifier: ISC */
/*
 * What a Redis server answers, as plain data: the connection (front/cluster/redis.h) makes
 * it of the library's replies, parsers of answers (wire/cluster/cluster_call.h) read it.  It is
 * bounded before it is made, and nothing in it is trusted: a text may hold any byte.
 */
#ifndef WIRE_REDIS_VALUE_H
#define WIRE_REDIS_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "policy/reply/delivery.h"

#define REDIS_VALUES_MAX	16384	/* in one answer, lists and what is in them */
#define REDIS_BYTES_MAX		(1024 * 1024)
#define REDIS_DEPTH_MAX		4	/* lists in lists */

enum redis_kind {
	REDIS_KIND_NOTHING,	/* nil */
	REDIS_KIND_NUMBER,
	REDIS_KIND_TEXT,	/* a bulk string, or a status such as OK */
	REDIS_KIND_ERROR,	/* text: "WRONGTYPE Operation against a key ..." */
	REDIS_KIND_LIST,
};

struct redis_value {
	enum redis_kind kind;
	int64_t number;
	const char *text;		/* TEXT, ERROR: with a NUL behind it; valid as long as the answer */
	size_t length;			/* of text */
	const struct redis_value *list;	/* LIST: `count` of them, one behind the other */
	size_t count;
};

static inline bool redis_value_is(const struct redis_value *value, const char *text) {
	return value->kind == REDIS_KIND_TEXT && value->length == strlen(text) &&
	    memcmp(value->text, text, value->length) == 0;
}

#endif

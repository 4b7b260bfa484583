/* SPDX-License-Identifier: ISC */
/*
 * Answers of a Redis server (version 2 of its protocol), sans I/O.  Nothing in them is trusted:
 * bytes, values and depth are bounded (redis_value.h).
 */
#ifndef WIRE_REDIS_REPLY_H
#define WIRE_REDIS_REPLY_H

#include <stddef.h>

#include "wire/cluster/redis_value.h"

/* Reads the answer at the start of `text`, which it changes: texts of *out stand there, each
 * with a NUL behind it.  `values` has room for REDIS_VALUES_MAX.  Returns its length; 0: more
 * is needed, and nothing was changed; -1: it is none, *why is static text. */
long redis_reply_read(char *text, size_t length, struct redis_value *out,
    struct redis_value *values, const char **why);

#endif

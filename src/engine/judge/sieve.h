/* SPDX-License-Identifier: ISC */
/*
 * Which of many patterns can match a text at all: most need some letters in a row that
 * most texts have not.  One pass over the text instead of one for each pattern.
 */
#ifndef JUDGE_SIEVE_H
#define JUDGE_SIEVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sieve;

/* For `count` patterns as base/pattern.h compiles them.  NULL: no memory. */
struct sieve *sieve_open(const char *const *patterns, uint32_t count);
void sieve_close(struct sieve **sieve);

/* Looks at a text (as much of it as a pattern would); sieve_next tells.  One thread. */
void sieve_shake(struct sieve *sieve, const char *text, size_t length);

/* The first pattern of `from`..`end`-1 that may match, or `end`.  Never leaves out one
 * that does. */
uint32_t sieve_next(const struct sieve *sieve, uint32_t from, uint32_t end);

#endif

/* SPDX-License-Identifier: ISC */
/*
 * By which relays and transports mail goes (destinations.h), as lines of the text file
 * (states_text.c):
 *
 *	seen NAME AGE-NS CLONED OTHER [RELAY RELAY-NAME]...
 *
 * CLONED and OTHER are the bits of struct destination_seen, the relay of the last
 * delivery comes first, and a relay without a name has "-".
 */
#ifndef SEGMENT_SEEN_TEXT_H
#define SEGMENT_SEEN_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct segment;

/* Words of a line, its first one included. */
#define SEEN_WORDS_MAX	11

/* Returns how many lines; SEEN_LINES_MOST at most. */
#define SEEN_LINES_MOST	200000
unsigned seen_write(const struct segment *segment, FILE *file, int64_t now_ns);

/* What a line tells, as of `then_ns`; false: it makes no sense. */
bool seen_restore(struct segment *segment, char **words, unsigned count, int64_t then_ns);

#endif

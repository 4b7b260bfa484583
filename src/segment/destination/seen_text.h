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
#include <stddef.h>
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

/* The same as keys beside those of state_text.h, of one destination and in another form,
 * where mail servers have their names, as their numbers may be others by then:
 *
 *	seen=LEFT-NS cloned=MTA,... other=MTA,... relay=ADDRESS/NAME ...
 *
 * Returns its length, SEEN_KEYS_MAX - 1 at most; "": nothing is known. */
#define SEEN_KEY	"seen"
#define SEEN_CLONED_KEY	"cloned"
#define SEEN_OTHER_KEY	"other"
#define SEEN_RELAY_KEY	"relay"
#define SEEN_KEYS_MAX	2048
size_t seen_keys_write(const struct segment *segment, const char *name, int64_t now_ns,
    char out[SEEN_KEYS_MAX]);
/* Notes what such a text tells; the text is cut to words, other keys are passed over. */
void seen_keys_restore(struct segment *segment, const char *name, char *text,
    int64_t then_ns);

#endif

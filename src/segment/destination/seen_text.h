/* SPDX-License-Identifier: ISC */
/*
 * By which relays and transports mail goes (destinations.h), as keys beside those of
 * state_text.h.  Mail servers have their names, as their numbers may be others by then:
 *
 *	seen=LEFT-NS cloned=MTA,... other=MTA,... relay=ADDRESS/NAME ...
 *
 * CLONED and OTHER are the bits of struct destination_seen; the relay of the last delivery
 * comes first.
 */
#ifndef SEGMENT_SEEN_TEXT_H
#define SEGMENT_SEEN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct segment;

#define SEEN_KEY	"seen"
#define SEEN_CLONED_KEY	"cloned"
#define SEEN_OTHER_KEY	"other"
#define SEEN_RELAY_KEY	"relay"
#define SEEN_KEYS_MAX	2048
/* Returns its length, SEEN_KEYS_MAX - 1 at most; "": nothing is known. */
size_t seen_keys_write(const struct segment *segment, const char *name, int64_t now_ns,
    char out[SEEN_KEYS_MAX]);
/* Notes what such a text tells; the text is cut to words, other keys are passed over. */
void seen_keys_restore(struct segment *segment, const char *name, char *text,
    int64_t then_ns);

#endif
